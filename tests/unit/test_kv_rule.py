"""The two defaults of the cache's dtype: each answer says what it takes, and what the other takes where they differ."""

from __future__ import annotations

import pytest

from nhalf.decide.comparison import compare
from nhalf.loading.case_assumptions import assumptions
from nhalf.loading.case_table import Table
from nhalf.loading.cases import cases
from nhalf.loading.degrees import Degrees
from nhalf.loading.request import Request, scenarios

HEADER = ("model", "system", "engine", "context", "concurrency", "tp")


def decode(model: str, system: str) -> tuple[str, str, tuple[float, float]]:
    found = scenarios(Request(model=model, systems=(system,), degrees=Degrees(tp=(4,)), batches=(64,)))
    (default,) = [each for each in found.defaults if each.flag == "--kv"]
    row = compare(found.scenarios[:1]).rows[0]
    return default.value, default.reason, (row.low_s / row.step_s, row.high_s / row.step_s)


@pytest.mark.parametrize(
    ("model", "system", "config", "table", "words"),
    [
        ("llama-3.1-70b", "h100-sxm", "bf16", "bf16", ["may run fp8"]),
        ("gpt-oss-120b", "b200-sxm", "bf16", "fp8", ["nhalf predict takes fp8", "holds both"]),
        ("llama-3.1-70b-fp8", "h100-sxm", "fp8", "bf16", ["nhalf predict takes bf16", "holds fp8 alone"]),
        ("llama-3.1-70b-fp8", "b200-sxm", "fp8", "fp8", ["nhalf predict takes as much"]),
    ],
)
def test_each_says_what_it_takes_and_the_other_where_it_differs(
    model: str, system: str, config: str, table: str, words: list[str]
) -> None:
    value, reason, _ = decode(model, system)
    assert value == config
    for word in words:
        assert word in reason
    found = cases(Table(path="rows", header=HEADER, rows=[[model, system, "vllm", "1024", "64", "4"]]))
    (assumed,) = [each for each in assumptions(found) if each.column == "kv_dtype"]
    assert assumed.value == table
    assert "nhalf decode takes the config's" in assumed.reason


def test_the_band_of_a_step_holds_a_narrower_cache_and_never_a_wider_one() -> None:
    group = cases(
        Table(path="rows", header=HEADER, rows=[["llama-3.1-70b", "h100-sxm", "vllm", "65536", "64", "4"]])
    ).groups[0]
    assert group.other_kv_bytes == 1.0
    stated = [
        compare(
            scenarios(
                Request(
                    model="llama-3.1-70b", systems=("h100-sxm",), degrees=Degrees(tp=(4,)), batches=(64,),
                    context=65536, kv=kv,
                )
            ).scenarios[:1]
        ).rows[0]
        for kv in (None, "bf16")
    ]  # fmt: skip
    assert stated[0].step_s == stated[1].step_s
    assert stated[0].low_s < 0.98 * stated[1].low_s
    assert stated[0].high_s <= stated[1].high_s

"""The default of the cache's dtype: one rule for every command, what servers most likely run, said with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import nhalf
from nhalf.loading import axes
from nhalf.loading.case_assumptions import assumptions
from nhalf.loading.case_table import Table
from nhalf.loading.cases import cases
from nhalf.loading.choices import Request
from nhalf.loading.degrees import Degrees
from nhalf.loading.purchase_options import options
from nhalf.loading.request import scenarios
from nhalf.loading.scenario_file import read_request, write_request

if TYPE_CHECKING:
    from pathlib import Path

HEADER = ("model", "system", "engine", "context", "concurrency", "tp")


@pytest.mark.parametrize(
    ("model", "system", "dtype", "words", "ends"),
    [
        ("llama-3.1-70b", "h100-sxm", "bf16", "bf16 weights in vllm", (1.0, 2.0)),
        ("gpt-oss-120b", "b200-sxm", "fp8", "mxfp4 weights on Blackwell", (1.0, 2.0)),
        ("llama-3.1-70b-fp8", "h100-sxm", "bf16", "fp8 weights in vllm", (1.0, 2.0)),
        ("llama-3.1-70b-fp8", "b200-sxm", "fp8", "fp8 weights on Blackwell", (1.0, 2.0)),
    ],
)
def test_every_command_takes_what_servers_mostly_run(
    model: str, system: str, dtype: str, words: str, ends: tuple[float, float]
) -> None:
    loaded = scenarios(Request(model=model, systems=(system,), degrees=Degrees(tp=(4,)), batches=(64,)))
    (default,) = [each for each in loaded.defaults if each.flag == "--kv"]
    assert (default.value, words in default.reason) == (dtype, True)
    found = cases(Table(path="rows", header=HEADER, rows=[[model, system, "vllm", "1024", "64", "4"]]))
    (assumed,) = [each for each in assumptions(found) if each.column == "kv_dtype"]
    assert assumed.value == dtype
    swept = axes.grid(Request(model=model, systems=(system,), degrees=Degrees(tp=(4,))), ["batch=1,64"]).base
    for scenario in (*loaded.scenarios, found.groups[0].scenario, swept, nhalf.load(model, on=system, tp=4, batch=64)):
        origin = scenario.origins["workload.kv_bytes"]
        assert (scenario.workload.kv_dtype, origin.kind, (origin.low, origin.high)) == (dtype, "assumed", ends)
        assert scenario.residual == loaded.scenarios[0].residual > (0.0, 0.0)


def test_a_config_that_asks_for_8_bits_is_obeyed_by_an_engine_that_follows_it() -> None:
    scenario = nhalf.load("llama-3.1-70b-fp8", on="h100-sxm", tp=4, engine="trtllm")
    origin = scenario.origins["workload.kv_bytes"]
    assert (scenario.workload.kv_dtype, origin.low, origin.high) == ("fp8", 1.0, 1.0)
    assert "the config says so" in origin.locator


def test_a_cache_that_is_stated_is_no_assumption() -> None:
    scenario = nhalf.load("gpt-oss-120b", on="b200-sxm", kv="bf16")
    assert scenario.workload.kv_dtype == "bf16"
    assert "workload.kv_bytes" not in scenario.origins


def test_systems_whose_servers_differ_are_named_and_the_saved_request_leaves_it_open(tmp_path: Path) -> None:
    request = Request(model="llama-3.1-70b", systems=("h100-sxm", "b200-sxm"), degrees=Degrees(tp=(4,)), weights="fp8")
    loaded = scenarios(request)
    assert [each.workload.kv_dtype for each in loaded.scenarios] == ["bf16", "fp8"]
    (default,) = [each for each in loaded.defaults if each.flag == "--kv"]
    assert default.value == "bf16 on h100-sxm, fp8 on b200-sxm"
    path = tmp_path / "saved.toml"
    path.write_text(write_request(loaded.request, loaded.scenarios))
    again = scenarios(read_request(path))
    assert [each.workload.kv_dtype for each in again.scenarios] == ["bf16", "fp8"]


def test_a_grid_whose_cells_differ_names_every_dtype() -> None:
    request = Request(model="llama-3.1-70b", systems=("h100-sxm",), degrees=Degrees(tp=(4,)), weights="fp8")
    found = axes.grid(request, ["system=h100-sxm,b200-sxm"])
    (default,) = [each for each in found.defaults if each.flag == "--kv"]
    assert default.value == "bf16 or fp8"
    kv = [cell.scenario.workload.kv_dtype for cell in found.grid.cells if cell.scenario is not None]
    assert kv == ["bf16", "fp8"]


def test_an_assumed_cache_of_a_file_is_assumed_anew_where_what_it_rests_on_is_stated(tmp_path: Path) -> None:
    saved = scenarios(Request(model="llama-3.1-70b", systems=("h100-sxm",), degrees=Degrees(tp=(4,)), weights="fp8"))
    path = tmp_path / "saved.toml"
    path.write_text(write_request(saved.request, saved.scenarios))
    request = read_request(path)
    assert request.kv == "bf16"
    assert scenarios(request).scenarios[0].origins["workload.kv_bytes"].kind == "assumed"
    moved = scenarios(request.updated({"system": "b200-sxm"})).scenarios[0]
    assert moved.workload.kv_dtype == "fp8"


def test_an_option_on_which_servers_keep_another_cache_says_so() -> None:
    request = Request(model="llama-3.1-70b", systems=("b200-sxm",), degrees=Degrees(tp=(4,)))
    before = scenarios(request).scenarios
    (option,), warnings = options(request, before, ["weights=fp8"], prices=False)
    assert option.layouts[0].workload.kv_dtype == "fp8"
    assert any("cache in fp8 then, and in bf16 before" in text for text in warnings)
    (option,), warnings = options(request.updated({"kv": "bf16"}), before, ["weights=fp8"], prices=False)
    assert option.layouts[0].workload.kv_dtype == "bf16"
    assert warnings == []


def test_what_else_the_cache_may_be_is_the_other_end_of_the_interval() -> None:
    rows = [["llama-3.1-70b", "h100-sxm", "vllm", "65536", "64", "4"],
            ["gpt-oss-120b", "b200-sxm", "vllm", "65536", "64", "4"],
            ["llama-3.1-70b-fp8", "h100-sxm", "vllm", "65536", "64", "4"]]  # fmt: skip
    found = cases(Table(path="rows", header=HEADER, rows=rows))
    assert [group.other_kv_bytes for group in found.groups] == [1.0, 2.0, 1.0]

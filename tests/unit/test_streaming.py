"""What a memory was measured to stream bounds every read, and comes from the catalogue with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import nhalf
from nhalf.breakdown import columns
from nhalf.catalog import overlay, store
from nhalf.errors import InputError
from nhalf.loading.request import load
from nhalf.predict.prefill import predicted

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.scenario import Scenario

PATH = "system.device.streaming_efficiency"


def board(**changes: str) -> Scenario:
    changed = {PATH: "1", **changes}
    return load("llama-3.1-8b", on="raspberry-pi-cluster", engine="distributed-llama", weights="int4", set=changed)


def test_reads_are_at_the_lesser_of_what_the_engine_and_the_memory_reach() -> None:
    free, bound = columns(nhalf.decode(board())), columns(nhalf.decode(board(**{PATH: "0.4"})))
    stack = board().stack
    assert bound["weights"] == pytest.approx(float(free["weights"]) * float(stack.memory_efficiency) / 0.4)
    assert bound["kv"] == pytest.approx(float(free["kv"]) * float(stack.kv_efficiency) / 0.4)
    assert columns(nhalf.decode(board(**{PATH: "0.95"})))["weights"] == pytest.approx(float(free["weights"]))


def test_experts_and_the_prompts_cache_are_bound_too() -> None:
    def read(bound: str) -> tuple[float, float]:
        experts = load("gpt-oss-20b", on="h200-sxm", set={PATH: bound})
        prompt = load("llama-3.1-8b", on="h200-sxm", phase="prefill", isl=4096, chunk=512, set={PATH: bound})
        return float(columns(nhalf.decode(experts))["experts"]), float(columns(predicted(prompt))["kv"])

    free, bound = read("1"), read("0.3")
    assert bound[0] > 1.5 * free[0]
    assert bound[1] > 1.5 * free[1]


def test_the_formula_names_it_only_where_somebody_measured() -> None:
    assert _weights(load("llama-3.1-8b", on="h100-sxm")) == "bytes / (B * eta)"
    assert _weights(load("llama-3.1-8b", on="raspberry-pi-cluster")) == "bytes / (B * minimum(eta, stream))"


def _weights(scenario: Scenario) -> str:
    step = nhalf.decode(scenario)
    return next(part.formula for parts in (step.parts, *(each.parts for each in step.parts)) for part in parts
                if part.name == "weights")  # fmt: skip


def test_what_the_catalogue_holds_was_measured_and_says_by_whom() -> None:
    held = {name: store.device(name)[1]["streaming_efficiency"] for name in store.names("device")}
    known = {name: datum for name, datum in held.items() if datum.kind == "measured"}
    assert {"bcm2712", "gb10", "mi300x", "ryzen-ai-max-395"} <= set(known)
    for name, datum in known.items():
        assert 0.3 < datum.value < 1, name
        assert store.sources()[datum.source].url, name
    assert {(datum.value, datum.kind) for name, datum in held.items() if name not in known} == {(1.0, "assumed")}


def test_a_device_like_another_with_its_own_memory_does_not_take_over_what_was_measured_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        """
[devices.quick]
like = "bcm2712"
device = {name = "Quick", memory_bandwidth = "34 GB/s"}

[devices.same]
like = "bcm2712"
device = {name = "Same"}

[devices.mine]
like = "bcm2712"
device = {name = "Mine", memory_bandwidth = "34 GB/s", streaming_efficiency = "0.6"}

[systems.boxes]
title = "Boxes"
like = "raspberry-pi-cluster"
device = {like = "bcm2712", memory_bandwidth = "34 GB/s"}
""",
        encoding="utf-8",
    )
    monkeypatch.setenv(overlay.VARIABLE, str(file))
    found = {name: store.device(name)[0].streaming_efficiency for name in ("quick", "same", "mine")}
    assert found == {"quick": 1.0, "same": 0.875, "mine": 0.6}
    assert store.system("boxes")[0].device.streaming_efficiency == 1.0


def test_no_memory_streams_more_than_its_datasheet_says() -> None:
    with pytest.raises(InputError, match="no share of a datasheet rate"):
        board(**{PATH: "1.2"})

"""Pools: splits into prefill and decode, balanced, within the limits, and no better than their parts allow."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.decide import pools
from nhalf.decide.candidates import Wish
from nhalf.decide.search import search

if TYPE_CHECKING:
    from nhalf.decide.pools import Pools
    from nhalf.decide.search import Plan


@cache
def planned(gpus: int = 16, isl: int = 4096, osl: int = 512, **limits: float) -> Plan:
    base = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=1, isl=isl, osl=osl, weights="fp8")
    return search(base, gpus, Wish(pools=True, **limits))  # type: ignore[arg-type]


def split(**choices: Any) -> Pools:  # noqa: ANN401  as planned
    found = planned(**choices).pools
    assert found is not None
    return found


def test_a_split_uses_no_more_devices_than_there_are() -> None:
    found = split(tpot_s=0.02)
    assert 0 < found.prefill.devices + found.decode.devices <= 16
    assert found.prefill.devices > 0
    assert found.decode.devices > 0


def test_decode_steps_are_free_of_prompts() -> None:
    found = split(tpot_s=0.02)
    candidate = found.decode.candidate
    scenario = candidate.scenario
    alone = replace(
        scenario,
        workload=replace(scenario.workload, batch=float(found.decode.batch), prompt_tokens=0.0, output_tokens=0.0),
    )
    assert found.tpot_s == pytest.approx(float(nhalf.decode(alone).value))
    place = int(np.flatnonzero(candidate.batches == found.decode.batch)[0])
    assert found.tpot_s < candidate.points.tpot_s[place]


def test_a_split_gives_no_more_than_either_pool() -> None:
    found = split(tpot_s=0.02)
    tokens = found.decode.replicas * found.decode.batch / found.tpot_s
    assert found.per_gpu <= tokens / 16 * (1 + 1e-9)
    assert 0 < found.transfer_share <= 1


def test_limits_hold() -> None:
    found = split(tpot_s=0.02, ttft_s=0.5)
    assert found.tpot_s <= 0.02
    assert found.first_s <= 0.5
    assert planned(tpot_s=0.001).pools is None
    assert planned(ttft_s=0.01).pools is None


def test_longer_prompts_take_more_prefill_devices() -> None:
    short, long = split(isl=512, osl=512, tpot_s=0.02), split(isl=16_384, osl=512, tpot_s=0.02)
    assert long.prefill.devices > short.prefill.devices


def test_the_first_token_pays_for_the_cache_on_its_way() -> None:
    found = split(tpot_s=0.02)
    assert found.transfer_s > 0
    assert found.first_s > found.transfer_s + found.tpot_s


def test_without_prompts_there_is_nothing_to_split() -> None:
    base = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=1, weights="fp8", context=1000)
    assert search(base, 16, Wish(pools=True)).pools is None
    assert pools.best((), 16, Wish()) is None


def test_pools_are_looked_at_only_when_asked_for() -> None:
    base = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=1, weights="fp8", isl=1024, osl=512)
    assert search(base, 16, Wish(users=4)).pools is None


# --- from Python ------------------------------------------------------------------------------------------------------


def test_a_plan_from_python_is_that_of_the_command_line() -> None:
    from tests.cli.command import invoke

    from nhalf.errors import InputError

    found = nhalf.plan("llama-3.1-70b", on="h100-sxm", gpus=8, limits={"tpot": "20ms"}, weights="fp8")
    told = invoke(
        "plan", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "8", "--tpot", "20ms", "--weights", "fp8", "--json"
    )
    assert found.chosen is not None
    assert found.record(found.chosen) == told.document["chosen"]
    for bad in ({"limits": {"latency": "1ms"}}, {"limits": {"tpot": "0ms"}}, {"goal": "speed"}, {"gpus": 0}):
        with pytest.raises(InputError):
            nhalf.plan("llama-3.1-70b", on="h100-sxm", **bad)


def test_degrees_and_batches_narrow_a_plan_from_python() -> None:
    found = nhalf.plan("llama-3.1-70b", on="h100-sxm", weights="fp8", tp=4, batch=16)
    assert {each.layout.tensor_parallel for each in found.candidates} == {4}
    assert {int(batch) for each in found.candidates for batch in each.batches} == {16}


def test_a_plan_is_a_frame_and_a_chart() -> None:
    found = nhalf.plan("llama-3.1-70b", on="h100-sxm", weights="fp8")
    frame = found.to_polars()
    assert len(frame) == sum(len(each.batches) for each in found.candidates)
    assert frame["pareto"].sum() == len(found.pareto)
    chart = found.chart().to_dict()
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["point", "line"]

"""The article that nhalf starts from: every figure in it is one that nhalf computes."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.tensor_group import collectives, message_bytes

import nhalf
from nhalf import units
from nhalf.breakdown import columns, walk
from nhalf.laws.collective.all_reduce import ring_all_reduce
from nhalf.laws.collective.trees import double_tree_all_reduce
from nhalf.laws.point_to_point import hockney
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.scenario import Scenario

GIVEN = tomllib.loads(Path(__file__).with_name("article.toml").read_text(encoding="utf-8"))
FIGURES: list[dict[str, Any]] = GIVEN["figure"]
UNIT = Link(1.0, 1.0)  # a link on which time counts steps and vectors


def link(inputs: Mapping[str, Any]) -> Link:
    return Link(inputs["latency"], inputs["bandwidth"])


def scenario(inputs: Mapping[str, Any]) -> Scenario:
    """Return a step whose collectives take one time, whatever their size, as the article has them."""
    asked = nhalf.load(inputs["model"], on="h100-sxm", tp=8, batch=inputs.get("batch", 1))
    changes = {"system.curve_factor": 0.0, "stack.collective_excess_s": inputs.get("collective", 0.0)}
    return asked.having(changes)


def half_size_bytes(inputs: Mapping[str, Any]) -> object:
    return link(inputs).half_size_bytes


def message_s(inputs: Mapping[str, Any]) -> object:
    return hockney(inputs["size"], link(inputs)).value


def doubling_costs(inputs: Mapping[str, Any]) -> object:
    once, twice = (hockney(inputs["size"] * times, link(inputs)).value for times in (1, 2))
    return twice / once - 1


def message(inputs: Mapping[str, Any]) -> float:
    return float(message_bytes(scenario(inputs)))


def collectives_per_token(inputs: Mapping[str, Any]) -> object:
    return dict(walk(collectives(scenario(inputs))))["collectives/all-reduce/collectives per pass"].value


def communication_s(inputs: Mapping[str, Any]) -> float:
    return float(collectives(scenario(inputs)).value)


def crossover_batch(inputs: Mapping[str, Any]) -> float:
    return float(link(inputs).half_size_bytes) / message(inputs)


def size_ratio(inputs: Mapping[str, Any]) -> object:
    return units.parse(inputs["size"], "size") / units.parse(inputs["over"], "size")


COMPUTES: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "half_size_bytes": half_size_bytes,
    "message_s": message_s,
    "doubling_costs": doubling_costs,
    "message_bytes": message,
    "collectives_per_token": collectives_per_token,
    "communication_s": communication_s,
    "tokens_per_s": lambda inputs: 1 / communication_s(inputs),
    "crossover_batch": crossover_batch,
    "size_ratio": size_ratio,
    "orders_of_magnitude": lambda inputs: math.log10(crossover_batch(inputs)),
    "ring_steps": lambda inputs: columns(ring_all_reduce(1.0, inputs["ranks"], UNIT))["fixed"],
    "ring_volume": lambda inputs: columns(ring_all_reduce(1.0, inputs["ranks"], UNIT))["transfer"],
    "tree_steps": lambda inputs: columns(double_tree_all_reduce(1.0, inputs["ranks"], UNIT))["fixed"],
    "tree_volume": lambda inputs: columns(double_tree_all_reduce(1.0, inputs["ranks"], UNIT))["transfer"],
}


@pytest.mark.parametrize("figure", FIGURES, ids=[f"{figure['computes']}-{figure['expected']}" for figure in FIGURES])
def test_a_figure_is_what_nhalf_computes(figure: dict[str, Any]) -> None:
    assert figure["source"] in GIVEN["sources"]
    computed = COMPUTES[figure["computes"]](figure["inputs"])
    if figure["tolerance"] == 0.0:
        assert computed == figure["expected"]
    else:
        assert computed == pytest.approx(figure["expected"], rel=figure["tolerance"])


def test_every_computation_has_a_figure() -> None:
    assert {figure["computes"] for figure in FIGURES} == set(COMPUTES)


def test_adding_devices_past_the_turn_makes_a_single_stream_slower() -> None:
    steps = [
        float(nhalf.decode(nhalf.load("llama-3.1-70b", on="h100-sxm", tp=tp, weights="fp8")).value)
        for tp in (1, 2, 4, 8, 16)
    ]
    assert steps[0] > steps[1] > steps[2] > steps[3]
    assert steps[4] > steps[3]


def test_the_same_hardware_gets_opposite_advice_at_the_two_ends_of_the_batch() -> None:
    def saved(batch: int, path: str, factor: float) -> float:
        asked = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, batch=batch, library="nccl", mode="host")
        changed = asked.having({path: asked.value(path) * factor})
        return float(collectives(asked).value) - float(collectives(changed).value)

    latency = ("system.fabric.intra_node.latency_s", 0.5)
    bandwidth = ("system.fabric.intra_node.bandwidth_bytes_per_s", 2.0)
    assert saved(1, *latency) > 10 * saved(1, *bandwidth)
    assert saved(4096, *bandwidth) > 2 * saved(4096, *latency)

"""NCCL's tuner: its constants and its rules give its plans."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nhalf.catalog import store
from nhalf.laws.selection import tuner_all_reduce

if TYPE_CHECKING:
    from nhalf.breakdown import Term

GIVEN = tomllib.loads(Path(__file__).with_name("tuner.toml").read_text(encoding="utf-8"))
PLANS: list[dict[str, Any]] = GIVEN["plan"]


def plan(published: dict[str, Any], size_bytes: float = 0.0) -> Term:
    system, _ = store.system("h100-sxm")
    library, _ = store.library("nccl", architecture="hopper")
    fabric = replace(system.fabric, devices_per_node=published["per_node"])
    return tuner_all_reduce(size_bytes, fabric.span(published["nodes"] * published["per_node"]), library)


@pytest.mark.parametrize(
    "published", PLANS, ids=[f"{row['nodes']}x{row['per_node']}-{row.get('path', 'least')}" for row in PLANS]
)
def test_a_plan_is_that_of_the_tuner(published: dict[str, Any]) -> None:
    term = plan(published)
    if "path" in published:
        (term,) = [part for part in term.parts if part.name == published["path"]]
    assert term.value == pytest.approx(published["expected_us"] * 1e-6, rel=GIVEN["tolerance"])


def test_a_message_of_one_token_adds_little_to_the_plan() -> None:
    # 16 KiB at a quarter of the 39 GB/s that LL carries across nodes: 2 n / beta = 3.5 us.
    small, large = (float(plan(PLANS[0], size).value) for size in (0.0, 16384.0))
    assert small < large < 1.2 * small

"""What a step exchanges over its links and inside its prefills, against what wider links and no prefills give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.cli.command import detailed, invoke

import nhalf
from nhalf.decide.comparison import exchanged

WIDER = 1.0001
"""So little wider that a library runs the same algorithm."""
SENT: dict[str, Any] = {"tp": 1, "attention_dp": 8, "ep": 8, "exchange": "all-to-all", "isl": 1024, "osl": 512}


def step_s(scenario: nhalf.Scenario) -> float:
    return float(nhalf.decode(scenario).value)


@pytest.mark.parametrize("batch", [1, 16, 512])
def test_a_link_that_is_a_little_wider_saves_its_part_of_what_is_said(batch: int) -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, batch=batch, weights="fp8")
    path = "system.fabric.intra_node.bandwidth_bytes_per_s"
    wider = scenario.having({path: scenario.value(path) * WIDER})
    said = exchanged(nhalf.decode(scenario))
    assert said.prefill_s == 0
    assert said.link_bytes_s * (1 - 1 / WIDER) == pytest.approx(step_s(scenario) - step_s(wider), rel=1e-6)


def test_prefills_exchange_what_they_have_beyond_their_arithmetic() -> None:
    scenario = nhalf.load("deepseek-v3", on="h200-sxm", batch=584, **SENT)
    step = nhalf.decode(scenario)
    prefill = next(part for part in step.parts if part.name == "prefill")
    count, prompt = prefill.parts
    arithmetic = sum(float(part.value) for part in prompt.parts if part.name in ("prompt", "prompt's experts"))
    others = float(prefill.value) - float(count.value) * arithmetic
    assert exchanged(step).prefill_s == pytest.approx(others, rel=1e-9)
    alone = replace(scenario, workload=replace(scenario.workload, output_tokens=0.0))
    assert exchanged(nhalf.decode(alone)).prefill_s == 0


def test_a_device_alone_exchanges_nothing() -> None:
    found = exchanged(nhalf.decode(nhalf.load("llama-3.1-8b", on="h100-sxm", isl=512, osl=128)))
    assert (found.link_bytes_s, found.prefill_s) == (0, 0)


def test_the_verdict_tells_the_bytes_of_links_from_software_where_they_differ() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--weights", "fp8", "--batch")
    assert "the rest is software, which a wider link does not move)" in " ".join(detailed(*job, "64").out.split())
    assert "the rest is software" not in " ".join(detailed(*job, "512").out.split())


def test_the_verdict_names_what_prefills_exchange() -> None:
    job = ("decode", "deepseek-v3", "--on", "h200-sxm", "--attention-dp", "16", "--ep", "16", "--batch", "960")
    asked = (*job, "--exchange", "all-to-all", "--isl", "1024", "--osl", "512")
    row = invoke(*asked, "--json").document["rows"][0]
    said = " ".join(detailed(*asked).out.split())
    assert f"and those inside the prefills {100 * row['prefill_collective_s'] / row['step_s']:.2g} % more" in said
    assert row["prefill_collective_s"] < row["prefill_s"]
    assert "inside the prefills" not in detailed(*job, "--exchange", "all-to-all").out

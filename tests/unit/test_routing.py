"""Routing concentrations are found where runs can tell them, and stay near their prior where they cannot."""

from __future__ import annotations

import numpy as np

from nhalf.calibrate.evidence import Evidence, evidence
from nhalf.calibrate.prior import prior
from nhalf.calibrate.routing import NAME, Routing, of_all, shipped
from nhalf.catalog import calibration
from nhalf.loading import load
from nhalf.loading.case_table import Table
from nhalf.loading.cases import Options, cases

PRIOR = prior(calibrated=False)
HEADER = ("model", "system", "engine", "weight_dtype", "context", "concurrency", "tp")


def made(concentration: float, batches: tuple[int, ...]) -> Evidence:
    """Return runs of a model with experts that a concentration made, without noise."""
    rows = [
        ["qwen3-235b-a22b-fp8", "h200-sxm", "vllm", "fp8", "1024", str(b), str(tp)] for tp in (4, 8) for b in batches
    ]
    found = cases(Table(path="rows", header=HEADER, rows=rows), Options(calibrated=False))
    blank = evidence(found, np.ones(len(rows)))
    times = np.empty(len(rows))
    times[blank.rows] = blank.response.step_s({**PRIOR.centre, NAME: concentration})
    return evidence(found, times)


def test_runs_of_many_batches_tell_even_routing_from_uneven() -> None:
    # An efficiency of the experts explains part of either, so one stack alone moves the median little.
    found = {}
    for truth in (0.03, 2.0):
        runs = made(truth, (*range(1, 64, 3), *range(64, 512, 32)))
        routing = Routing.of(runs, {}, PRIOR)
        (found[truth],) = routing.known(runs).values()
        told = routing.told(runs, routing.known(runs))
        assert np.all(told.response.concentration == found[truth].value)
    assert found[2.0].value > 1.5 * found[0.03].value
    assert found[2.0].high > 1.5 * found[0.03].high
    assert found[0.03].low <= 0.03 <= found[0.03].high
    assert found[2.0].low <= 2.0 <= found[2.0].high


def test_few_runs_tell_nothing() -> None:
    runs = made(2.0, (1, 16))
    routing = Routing.of(runs, {}, PRIOR)
    assert routing.known(runs) == {}
    assert np.all(routing.told(runs, {}).response.concentration == PRIOR.centre[NAME])
    alone = of_all({}, PRIOR)
    assert alone.low < alone.value == PRIOR.centre[NAME] < alone.high


def test_a_scenario_has_the_concentration_of_its_family() -> None:
    known = calibration.concentration("qwen3-235b-a22b-nvfp4")
    assert known is not None
    assert known.low is not None
    assert known.value > 1
    assert known.low > 0.5
    scenario = load("qwen3-235b-a22b", on="h100-sxm", tp=8)
    assert scenario.stack.routing_concentration == known.value
    assert scenario.origins["stack.routing_concentration"] == known
    other = load("qwen3-30b-a3b", on="h100-sxm")
    assert other.stack.routing_concentration < known.value
    assert np.all(shipped(made(1.0, (1,))).response.concentration == known.value)

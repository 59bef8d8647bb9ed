"""Bands: what is drawn, and what makes the interval wider or narrower."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ends import band

import nhalf
from nhalf.points import points
from nhalf.predict.band import DRAWS, LEVEL, draws

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


@cache
def scenario(tp: int = 8, **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    found = nhalf.load("llama-3.1-70b", on=choices.pop("on", "h100-sxm"), tp=tp, stack="priors", **choices)
    return replace(found, residual=(0.0, 0.0))  # draws alone


def step_s(scenario: Scenario) -> float:
    return float(np.mean(nhalf.decode(scenario).value))


def width(scenario: Scenario) -> float:
    low, high = band(scenario)
    return high / low


@pytest.mark.parametrize("tp", [1, 2, 8, 16])
@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("weights", ["bf16", "fp8"])
def test_the_band_contains_the_value(tp: int, batch: int, weights: str) -> None:
    asked = scenario(tp, batch=batch, weights=weights, kv="bf16")
    low, high = band(asked)
    assert 0 < low < step_s(asked) < high


def test_the_same_scenario_has_the_same_band_every_time() -> None:
    assert band(scenario()) == band(scenario())


def test_a_band_across_nodes_where_nothing_was_measured_is_wider_for_it() -> None:
    # The same price with its doubt taken away: what is left is the doubt about the rest of the step.
    across = scenario(16)
    sure = replace(across, origins={path: given for path, given in across.origins.items() if ".transport." not in path})
    assert width(across) > 1.05 * width(sure)


@pytest.mark.parametrize("tp", [2, 8])
def test_a_cache_dtype_that_nobody_stated_widens_the_band_at_large_batch_and_context(tp: int) -> None:
    defaulted = scenario(tp, batch=64, context=8192)
    stated = scenario(tp, batch=64, context=8192, kv="bf16")
    assert step_s(defaulted) == step_s(stated)
    assert width(defaulted) > 1.03 * width(stated)
    assert band(defaulted)[0] < band(stated)[0]  # a server may keep an 8-bit cache: faster, never slower


def test_it_hardly_matters_where_the_cache_is_small() -> None:
    assert width(scenario()) == pytest.approx(width(scenario(kv="bf16")), rel=0.03)


def test_stating_the_dtype_of_an_8_bit_cache_leaves_nothing_to_doubt() -> None:
    assert "workload.kv_bytes" not in draws(scenario(kv="fp8"))
    assert "workload.kv_bytes" in draws(scenario())


def test_what_is_drawn_of_one_input_does_not_depend_on_which_others_are_drawn() -> None:
    # Or two bands that differ in one choice differ by the luck of the draw too: stating a dtype may then widen one.
    stated, defaulted = draws(scenario(kv="bf16")), draws(scenario())
    assert set(defaulted) - set(stated) == {"workload.kv_bytes"}
    for path, values in stated.items():
        np.testing.assert_array_equal(values, defaulted[path], err_msg=path)


@pytest.mark.parametrize("path", ["stack.memory_efficiency", "stack.layer_time_s", "stack.step_time_s"])
def test_a_number_that_the_user_gives_is_not_doubted(path: str) -> None:
    text = {"stack.memory_efficiency": "0.72", "stack.layer_time_s": "18us", "stack.step_time_s": "0.8ms"}[path]
    given = scenario.__wrapped__(8, set={path: text})
    assert step_s(given) == pytest.approx(step_s(scenario()), rel=1e-12)
    assert path not in draws(given)
    assert width(given) < width(scenario())


def test_without_any_interval_the_band_is_the_value() -> None:
    low, high = band(replace(scenario(), origins={}))
    assert low == high == pytest.approx(step_s(scenario()), rel=1e-12)


def test_draws_follow_the_intervals_of_their_origins() -> None:
    found = draws(scenario(), count=20_000)
    assert not [path for path in found if path.startswith("system.fabric.")]
    for path, values in found.items():
        origin = scenario().origins[path]
        assert values.shape == (20_000,)
        low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
        assert middle == pytest.approx(origin.value, rel=0.03), path
        assert origin.low is not None
        assert origin.high is not None
        assert low == pytest.approx(max(origin.low, 1e-30), rel=0.1), path
        assert high == pytest.approx(origin.high, rel=0.1), path


def test_the_level_is_the_share_of_draws_inside() -> None:
    times = np.asarray(nhalf.decode(scenario().having(draws(scenario()))).value)
    low, high = band(scenario())
    assert times.shape == (DRAWS,)
    assert np.mean((times >= low) & (times <= high)) == pytest.approx(LEVEL, abs=0.01)


def test_what_the_model_was_found_to_be_off_by_widens_the_band() -> None:
    fitted = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8)
    below, above = fitted.residual
    assert below > 0
    assert above > 0
    low, high = band(replace(fitted, origins={}))
    step = step_s(fitted)
    assert low == pytest.approx(step * np.exp(-below))
    assert high == pytest.approx(step * np.exp(above))
    assert band(replace(fitted, residual=(2 * below, above), origins={}))[0] == pytest.approx(step * np.exp(-2 * below))


def test_constants_of_the_compared_runs_are_not_drawn_again_and_given_ones_are() -> None:
    fitted = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, kv="bf16")
    path = "stack.layer_time_s"
    calibrated = fitted.origins[path]
    assert calibrated.low is not None
    wider = replace(calibrated, low=calibrated.value / 4, high=calibrated.value * 4)
    assert band(replace(fitted, origins={**fitted.origins, path: wider})) == band(fitted)
    given = replace(wider, kind="given")
    assert width(replace(fitted, origins={**fitted.origins, path: given})) > 1.1 * width(fitted)


def test_many_points_have_the_bands_that_each_has_alone() -> None:
    batches = np.array([1.0, 16.0, 300.0])
    for asked in (nhalf.load("llama-3.1-70b", on="h100-sxm", tp=16, isl=2048, osl=512), scenario()):
        found = points(asked, {"workload.batch": batches})
        alone = [band(asked.having({"workload.batch": batch})) for batch in batches.tolist()]
        np.testing.assert_allclose(np.stack(found.band_s, axis=-1), alone, rtol=1e-12)


@pytest.mark.parametrize(("model", "wider"), [("glm-5", True), ("llama-3.1-70b-fp8", False)])
def test_prompts_among_sequences_widen_the_band_upwards_where_experts_were_not_confirmed(
    model: str, *, wider: bool
) -> None:
    choices = {"on": "h200-sxm", "tp": 8, "batch": 16, "engine": "sglang", "weights": "fp8", "osl": 128}
    short, long = (points(nhalf.load(model, isl=isl, **choices)).at(0) for isl in (128, 10240))  # type: ignore[arg-type]
    up, before = (math.log(row.high_s / row.step_s) for row in (long, short))
    assert (up > 1.3 * before) is wider
    assert math.log(long.step_s / long.low_s) == pytest.approx(math.log(short.step_s / short.low_s), rel=0.2)

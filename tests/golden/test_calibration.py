"""The calibration that ships is what its tool derives from the runs that ship, and predicts as well as it says."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tools.derive_calibration import FAMILY_OF, GLOBAL, RUNS, STACKS, derived, document, measured, stacks, told

from nhalf.calibrate.derive import left_out
from nhalf.calibrate.fit import ONE_EACH
from nhalf.calibrate.prior import prior
from nhalf.calibrate.routing import Concentration, Routing
from nhalf.catalog import calibration, store
from nhalf.loading.request import load
from nhalf.units import parse

if TYPE_CHECKING:
    from nhalf.calibrate.evidence import Evidence


@pytest.fixture(scope="module")
def runs() -> Evidence:
    return measured()


@pytest.fixture(scope="module")
def routed(runs: Evidence, shipped: dict[str, Any]) -> Evidence:
    known = {
        family: Concentration(**{key: float(text) for key, text in each.items()})
        for family, each in shipped["routing"].items()
    }
    return told(runs, known)


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    return tomllib.loads(GLOBAL.read_text(encoding="utf-8"))


def test_the_shipped_values_are_what_the_tool_derives(runs: Evidence, shipped: dict[str, Any]) -> None:
    again = tomllib.loads(document(runs, derived(runs)))
    assert again["identified"] == shipped["identified"]
    assert again["seen"] == shipped["seen"]
    assert (again["runs"]["rows"], again["runs"]["clusters"]) == (len(runs), shipped["runs"]["clusters"])
    for name, table in again["constants"].items():
        for key in ("value", "low", "high"):
            assert number(table[key]) == pytest.approx(number(shipped["constants"][name][key]), rel=0.01), name
    assert set(again["bands"]) == set(shipped["bands"]) == {"dense", "experts"}
    for kind, bands in again["bands"].items():
        for name, band in bands.items():
            for key in ("low", "high"):
                known = float(shipped["bands"][kind][name][key]["value"])
                assert float(band[key]["value"]) == pytest.approx(known, abs=0.005)


def number(text: str) -> float:
    return parse(text, "time") if text.endswith("s") else float(text)


def test_every_constant_says_whether_the_runs_tell_it(shipped: dict[str, Any]) -> None:
    assert {"memory_efficiency", "layer_time_s"} <= set(shipped["identified"])
    assert not {"step_time_s", "flop_efficiency", "fp8_exponent"} & set(shipped["identified"])
    for name, datum in store.constant_data(calibrated=True).items():
        if name in ("software_factor", "unsharded_share", "host_sharing"):
            continue  # what the engines of the runs do without, and a what-if's factor
        assert datum.kind == "fitted", name
        assert datum.low is not None, name
        assert datum.low < datum.value, name


def test_what_the_runs_cannot_tell_stays_within_reach_of_what_was_assumed() -> None:
    assumed, found = store.constant_data(calibrated=False), store.constant_data(calibrated=True)
    for name in ("flop_efficiency", "fp8_exponent", "host_launch_s", "kernels_per_layer"):
        assert found[name].value == pytest.approx(assumed[name].value, rel=0.15), name


@pytest.mark.parametrize(
    ("by", "median", "p90"),
    [("model", 0.111, 0.315), ("system", 0.13, 0.355), ("engine", 0.111, 0.33), ("version", 0.123, 0.335)],
)
def test_what_was_left_out_is_predicted_no_worse_than_it_was(
    runs: Evidence, by: str, median: float, p90: float
) -> None:
    # The goals, 8 / 22 % for a model and 9 / 25 % for a system that was left out, are missed: these are what is reached
    # on all 1,167 runs, of which those of mixtures of experts on one version of an engine are the hardest.
    families = calibration.families()
    groups = {
        "model": np.array([families[model] for model in runs.model.tolist()]),
        "system": runs.system,
        "engine": runs.engine,
        "version": runs.version,
    }
    assumed = prior(calibrated=False)
    errors = np.abs(np.expm1(-left_out(runs, assumed, groups[by], Routing.of(runs, FAMILY_OF, assumed))))
    assert np.median(errors) <= median
    assert np.quantile(errors, 0.9) <= p90


def test_the_shipped_constants_fit_the_runs_as_the_file_says(routed: Evidence, shipped: dict[str, Any]) -> None:
    errors = np.abs(np.expm1(-routed.log_errors(prior(calibrated=True).centre)))
    assert np.median(errors) == pytest.approx(shipped["runs"]["median_error"], abs=0.002)
    assert np.quantile(errors, 0.9) == pytest.approx(shipped["runs"]["p90_error"], abs=0.004)


def test_a_fit_without_priors_would_be_another_one(runs: Evidence) -> None:
    # The runs alone do not fix every constant: with the step's time started elsewhere the fit follows its prior.
    assumed = prior(calibrated=False)
    moved = assumed.around({"step_time_s": 4 * assumed.centre["step_time_s"]})
    one, other = (runs.fit(each, correlation=ONE_EACH).constants["step_time_s"] for each in (assumed, moved))
    assert other > 1.3 * one


def test_the_runs_that_ship_have_no_flag_and_no_name_of_a_machine() -> None:
    text = RUNS.read_text(encoding="utf-8")
    assert "quality_flag" not in text
    assert len(text.splitlines()) == 1168


def test_the_shipped_stacks_are_what_the_tool_derives(routed: Evidence) -> None:
    again = tomllib.loads(stacks(routed, prior(calibrated=True).centre))["stacks"]
    known = tomllib.loads(STACKS.read_text(encoding="utf-8"))["stacks"]
    assert set(again) == set(known)
    for name, entry in again.items():
        assert entry["rows"] == known[name]["rows"]
        assert entry["held_out_error"] == pytest.approx(known[name]["held_out_error"], abs=0.003)
        for constant, table in entry["constants"].items():
            assert number(table["value"]) == pytest.approx(
                number(known[name]["constants"][constant]["value"]), rel=0.02
            )


def test_every_shipped_stack_predicts_curves_that_were_left_out_better() -> None:
    known = tomllib.loads(STACKS.read_text(encoding="utf-8"))["stacks"]
    assert len(known) >= 15
    for name, entry in known.items():
        assert entry["held_out_error"] < entry["before_error"], name
        assert entry["rows"] >= 10, name
    assert np.median([entry["held_out_error"] for entry in known.values()]) < 0.05


def test_a_stack_of_its_own_is_taken_only_where_it_was_measured() -> None:
    measured_there = load("qwen3-32b", on="h100-sxm", tp=4, weights="bf16", engine="vllm==0.12.0")
    for other in (
        load("qwen3-32b", on="h100-sxm", tp=4, weights="bf16"),
        load("qwen3-32b", on="h100-sxm", tp=4, weights="bf16", engine="vllm==0.18.0"),
        load("qwen3-32b", on="h100-sxm", tp=4, weights="int4"),
        load("qwen3-32b", on="b300-sxm", tp=4, weights="bf16"),
        load("qwen3-8b", on="h100-sxm", tp=4, weights="bf16"),
        load("qwen3-32b", on="h100-sxm", tp=4, weights="bf16", library="nccl"),
        load("qwen3-32b", on="h100-sxm", tp=4, weights="bf16", mode="eager"),
    ):
        assert other.stack.layer_time_s == store.constant_data()["layer_time_s"].value
        assert measured_there.stack.layer_time_s != other.stack.layer_time_s
    assert "this stack and model" in measured_there.origins["stack.layer_time_s"].locator
    given = load("qwen3-32b", on="h100-sxm", tp=4, weights="bf16", stack="priors")
    assert given.stack.layer_time_s == store.constant_data(calibrated=False)["layer_time_s"].value

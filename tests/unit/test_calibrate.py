"""Fits recover what made the data, keep priors where the data are silent, and say which is which."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.ends import band

from nhalf.calibrate.anchor import anchored, parse_anchor
from nhalf.calibrate.derive import ENOUGH, constants_of, from_pairs, half_widths, left_out, thinned
from nhalf.calibrate.evidence import Evidence, evidence
from nhalf.calibrate.fit import NOISE
from nhalf.calibrate.prior import prior
from nhalf.calibrate.routing import Routing
from nhalf.calibrate.split import _intervals, splits
from nhalf.calibrate.stack import refit
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.loading import load
from nhalf.loading.case_table import Table, read_table
from nhalf.loading.cases import Cases, Options, cases
from nhalf.loading.golden import SERVING
from nhalf.loading.measured import measured_s
from nhalf.predict.response import joined
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.scenario import Scenario

PRIOR = prior(calibrated=False)
HEADER = ("model", "system", "engine", "weight_dtype", "isl", "osl", "concurrency", "tp")
TRUTH = {"memory_efficiency": 0.85, "layer_time_s": 40e-6, "kv_efficiency": 0.7, "prefill_efficiency": 0.6}


def grid(
    *, dtype: str = "fp8", degrees: tuple[int, ...] = (1, 2, 4, 8), batches: tuple[int, ...] = (1, 8, 64)
) -> Cases:
    rows = [
        [model, "h100-sxm", "vllm", weights, isl, "1024", str(batch), str(tp)]
        for model, weights in (("llama-3.1-8b", "bf16"), ("llama-3.1-70b", dtype))
        for tp in degrees
        for batch in batches
        for isl in ("1024", "8192")
    ]
    return cases(Table(path="rows", header=HEADER, rows=rows), Options(calibrated=False))


def made(found: Cases, truth: Mapping[str, float], noise: float = 0.0) -> Evidence:
    """Return evidence that a truth made, with log-normal noise."""
    blank = evidence(found, np.ones(len(found.table.rows)))
    times = blank.response.step_s({**PRIOR.centre, **truth})
    times = times * np.exp(noise * np.random.default_rng(3).standard_normal(len(times)))
    order = np.empty(len(times))
    order[blank.rows] = times
    return evidence(found, order)


def test_a_fit_finds_the_constants_that_made_the_steps() -> None:
    fitted = made(grid(dtype="bf16", degrees=(2, 4, 8)), TRUTH).fit(PRIOR, correlation=0.0, noise=0.001)
    for name, value in TRUTH.items():
        assert fitted.constants[name] == pytest.approx(value, rel=0.05), name


def test_what_the_steps_are_silent_about_stays_at_its_prior() -> None:
    fitted = made(grid(), TRUTH).fit(PRIOR, correlation=0.0)
    for name in ("expert_efficiency", "latent_layer_factor", "host_launch_s"):
        assert fitted.constants[name] == pytest.approx(PRIOR.centre[name])
        assert fitted.log_sd[name] == pytest.approx(PRIOR.log_sd[name])
    assert fitted.constants["collective_excess_s"] == PRIOR.centre["collective_excess_s"]
    assert fitted.log_sd["memory_efficiency"] < 0.5 * PRIOR.log_sd["memory_efficiency"]


def test_one_wild_row_hardly_moves_a_fit() -> None:
    runs = made(grid(), TRUTH)
    plain = runs.fit(PRIOR, correlation=0.0).constants
    times = np.empty(len(runs))
    times[runs.rows] = runs.step_s
    times[0] *= 5
    wild = evidence(grid(), times).fit(PRIOR, correlation=0.0).constants
    assert wild["memory_efficiency"] == pytest.approx(plain["memory_efficiency"], rel=0.05)


def test_efficiencies_stay_at_or_below_one() -> None:
    fast = made(grid(), {"memory_efficiency": 1.3, "layer_time_s": 1e-6}).fit(PRIOR, correlation=0.0, noise=0.01)
    assert fast.constants["memory_efficiency"] <= 1.0


def test_a_cluster_counts_once_when_its_steps_err_together() -> None:
    runs = made(grid(), TRUTH)
    assert sum(runs.weights(1.0)) == pytest.approx(2.0)  # two models on one stack
    assert sum(runs.weights(0.0)) == pytest.approx(len(runs))


def test_many_steps_of_a_cluster_are_thinned_and_few_are_kept() -> None:
    runs = made(grid(), TRUTH)
    few = np.flatnonzero(runs.cluster == runs.cluster[0])[:3]
    many = np.flatnonzero(runs.cluster != runs.cluster[0])
    told = np.zeros(len(runs), dtype=bool)
    told[few] = told[many] = True
    assert len(thinned(runs.take(told))) == 3 + len(many)
    repeated = replace(
        runs,
        **{
            name: np.concatenate([getattr(runs, name)[few], *(getattr(runs, name)[many],) * 40])
            for name in ("rows", "step_s", "model", "system", "generation", "engine", "version", "cluster", "devices")
        },
        response=joined([runs.response.take(few), *(runs.response.take(many),) * 40]),
    )
    found = thinned(repeated)
    assert len(found) == 3 + ENOUGH
    # Evenly among them: every load is still there.
    assert len(np.unique(found.step_s)) == len(np.unique(repeated.step_s))


def test_half_widths_hold_the_level_of_the_errors() -> None:
    errors = np.random.default_rng(5).normal(0.05, 0.1, 20000)
    low, high = half_widths(errors, np.ones(len(errors)))
    assert np.mean((errors > -low) & (errors < high)) == pytest.approx(0.8, abs=0.01)
    assert low < high


def test_errors_that_were_left_out_do_not_see_their_own_group() -> None:
    runs = made(grid(), {})
    by = np.where(np.arange(len(runs)) == 0, "one", "rest")
    times = np.array(runs.step_s)
    times[0] *= 2
    spoiled = replace(runs, step_s=times)
    assert left_out(spoiled, PRIOR, by, Routing(costs={}, families={}, prior=PRIOR))[0] == pytest.approx(
        math.log(2), abs=0.05
    )


def test_pairs_of_runs_pull_a_constant_between_prior_and_measurement() -> None:
    found = from_pairs(PRIOR, "collective_excess_s", (6e-6, 6e-6, 6e-6))
    assert PRIOR.centre["collective_excess_s"] < found.value < 6e-6
    assert found.low < found.value < found.high


def test_an_interval_is_the_wider_of_curvature_and_bootstrap() -> None:
    sd = dict.fromkeys(PRIOR.free, 0.1)
    narrow = constants_of(PRIOR, PRIOR.centre, sd, {})
    wide = constants_of(PRIOR, PRIOR.centre, sd, dict.fromkeys(PRIOR.free, 0.2))
    for one, other in zip(narrow, wide, strict=True):
        assert other.low < one.low


# --- a stack of one's own ---------------------------------------------------------------------------------------------


def test_a_stack_is_refitted_and_says_what_it_could_not_tell() -> None:
    runs = made(grid(), TRUTH, noise=0.02)
    fit = refit(runs, prior(calibrated=True))
    known = {each.name for each in fit.constants if each.identified}
    assert {"memory_efficiency", "layer_time_s"} <= known
    assert "expert_efficiency" not in known
    assert fit.held_out_error < fit.before_error
    assert fit.held_out_error < 0.05
    assert "not-identifiable" in dict(fit.notes)


def test_one_run_identifies_nothing_and_has_no_freedom() -> None:
    runs = made(grid(degrees=(8,), batches=(16,)), TRUTH)
    fit = refit(runs.take(np.arange(len(runs)) == 0), prior(calibrated=True))
    assert not any(each.identified for each in fit.constants)
    assert {"nothing-identified", "one-device-count", "nothing-held-out"} <= set(dict(fit.notes))
    assert np.isnan(fit.held_out_error)
    assert fit.half_widths is None
    assert not fit.worse


def test_evidence_without_a_usable_row_is_too_weak() -> None:
    with pytest.raises(WeakEvidenceError, match="no run can be used"):
        evidence(grid(), np.full(48, np.nan))


# --- c + W / K --------------------------------------------------------------------------------------------------------


def split_of(*degrees: int, constant_s: float = 4e-3, shared_s: float = 60e-3, wobble: float = 0.0) -> object:
    header = ("model", "system", "weight_dtype", "context", "concurrency", "tp")
    rows = [["llama-3.1-70b", "h100-sxm", "fp8", "1024", "1", str(degree)] for degree in degrees]
    found = cases(Table(path="rows", header=header, rows=rows))
    signs = np.where(np.arange(len(degrees)) % 2, -1.0, 1.0)
    (split,) = splits(found, (constant_s + shared_s / np.array(degrees)) * (1 + wobble * signs))
    return split


def test_two_counts_give_the_split_and_its_interval() -> None:
    split = split_of(4, 8)
    assert split.constant_s == pytest.approx(4e-3)  # type: ignore[attr-defined]
    assert split.shared_s == pytest.approx(60e-3)  # type: ignore[attr-defined]
    assert split.degrees_of_freedom == 0  # type: ignore[attr-defined]
    low, high = split.constant_interval_s  # type: ignore[attr-defined]
    assert low < 4e-3 < high


@pytest.mark.parametrize("degrees", [(4, 8), (2, 8), (2, 4, 8)])
def test_the_intervals_hold_the_truth_at_their_level(degrees: tuple[int, ...]) -> None:
    random, held = np.random.default_rng(4), np.zeros(2)
    k: Array = np.array(degrees, dtype=np.float64)
    for _ in range(300):
        times = (4e-3 + 60e-3 / k) * np.exp(NOISE * random.standard_t(4.0, len(k)) / math.sqrt(2.0))
        design = np.stack([np.ones(len(k)), 1.0 / k], axis=1) / times[:, None]
        found: Array = np.asarray(np.linalg.lstsq(design, np.ones(len(k)), rcond=None)[0], dtype=np.float64)
        ends = _intervals(design, found, len(k) - 2)
        held += [low <= truth <= high for (low, high), truth in zip(ends, (4e-3, 60e-3), strict=True)]
    assert (held >= 274).all(), held  # of 300: 95 % less three standard deviations


def test_more_counts_make_the_interval_narrower_and_a_third_unknown_needs_a_fourth() -> None:
    two, three, four = split_of(2, 8), split_of(2, 4, 8), split_of(1, 2, 4, 8)
    widths = [split.constant_interval_s[1] - split.constant_interval_s[0] for split in (two, three)]  # type: ignore[attr-defined]
    assert widths[0] > widths[1]
    assert "needs a fourth count" in three.refused  # type: ignore[attr-defined]
    assert four.refused == ""  # type: ignore[attr-defined]


def test_a_split_says_where_more_devices_end() -> None:
    value, high, low = split_of(2, 4, 8).ceiling_tokens_per_s  # type: ignore[attr-defined]
    assert value == pytest.approx(250.0)
    assert low < 250.0
    assert high is None or high > 250.0
    assert split_of(4, 8, constant_s=0.1e-3).ceiling_tokens_per_s[1] is None  # type: ignore[attr-defined]


def test_w_may_read_a_little_faster_than_the_datasheet() -> None:
    read = split_of(4, 8).implied_bandwidth_bytes_per_s * 60e-3  # type: ignore[attr-defined]
    datasheet = split_of(4, 8).datasheet_bytes_per_s  # type: ignore[attr-defined]
    near, over = (split_of(4, 8, shared_s=read / datasheet / share) for share in (1.08, 1.12))
    assert near.impossible == ""  # type: ignore[attr-defined]
    assert near.read_share == pytest.approx(1.08)  # type: ignore[attr-defined]
    assert "112 % of the datasheet's bandwidth, which is impossible" in over.impossible  # type: ignore[attr-defined]


def test_the_split_reads_a_bandwidth_and_a_share_per_collective() -> None:
    split = split_of(4, 8)
    # 70.6e9 weights, of which 1.05e9 stay bf16 in the head, and 1.05e9 embeddings are not read.
    assert split.implied_bandwidth_bytes_per_s == pytest.approx(70.6e9 / 60e-3, rel=0.02)  # type: ignore[attr-defined]
    assert split.per_collective_s == pytest.approx(4e-3 / 160)  # type: ignore[attr-defined]


def test_the_link_is_not_blamed_for_a_constant_that_it_cannot_explain() -> None:
    assert split_of(4, 8, constant_s=20e-3).verdict == "most of the constant is not the link"  # type: ignore[attr-defined]
    assert "may explain" in split_of(4, 8, constant_s=1.5e-3).verdict  # type: ignore[attr-defined]


def test_a_split_claims_no_more_of_the_constant_than_its_interval_does() -> None:
    sure, wide = split_of(2, 4, 8, constant_s=10e-3), split_of(4, 8, constant_s=10e-3)
    assert sure.verdict == "most of the constant is not the link"  # type: ignore[attr-defined]
    assert wide.constant_interval_s[0] < 2 * wide.link_s  # type: ignore[attr-defined]
    assert "if c is near the middle of its wide interval" in wide.verdict  # type: ignore[attr-defined]


def test_a_constant_is_nothing_at_the_least() -> None:
    near = split_of(2, 4, 8, constant_s=-0.2e-3)
    assert near.constant_s == 0.0  # type: ignore[attr-defined]
    assert near.constant_interval_s[0] == 0.0 < near.constant_interval_s[1]  # type: ignore[attr-defined]
    assert near.shared_s < 60e-3  # type: ignore[attr-defined]
    assert near.verdict == "no constant shows: the step is shared out entirely"  # type: ignore[attr-defined]
    far = split_of(2, 4, 8, constant_s=-5e-3)
    assert "falls faster than the devices grow" in far.impossible  # type: ignore[attr-defined]


def test_loads_are_split_by_their_lengths_and_by_how_experts_are_dealt_out() -> None:
    header = (*HEADER, "moe_tp", "moe_ep", "tpot_s")
    rows = [
        ["gpt-oss-120b", "h100-sxm", "vllm", "mxfp4", isl, "1024", "16", str(tp), *experts, str(8e-3 + far / tp)]
        for isl, far in (("1024", 8e-3), ("8192", 16e-3))
        for tp in (2, 4)
        for experts in ((str(tp), "1"), ("1", str(tp)))
    ]
    table = Table(path="rows", header=header, rows=rows)
    found = sorted(splits(cases(table), measured_s(table)), key=lambda split: split.name)
    assert [split.name.rpartition(", ")[2] for split in found] == ["16 x 1024+1024"] * 2 + ["16 x 8192+1024"] * 2
    assert [split.shared_s for split in found] == pytest.approx([8e-3, 8e-3, 16e-3, 16e-3])
    assert all(split.weights_share < 0.5 for split in found)  # most of what is shared out reads experts


@pytest.mark.parametrize(
    ("shared_s", "words"),
    [(-60e-3, "W is not above 0"), (13e-3, "% of the datasheet's bandwidth, which is impossible")],
)
def test_a_split_that_cannot_be_tells_nothing(shared_s: float, words: str) -> None:
    split = split_of(4, 8, constant_s=20e-3, shared_s=shared_s)
    assert split.verdict.startswith("the data cannot tell")  # type: ignore[attr-defined]
    assert words in split.impossible  # type: ignore[attr-defined]


# --- anchors ----------------------------------------------------------------------------------------------------------


def test_an_anchor_pulls_its_own_step_and_its_neighbours_along() -> None:
    scenarios = [load("llama-3.1-70b", on="h100-sxm", tp=tp, batch=16, weights="fp8") for tp in (4, 8)]
    before = [float(decode(scenario).value) for scenario in scenarios]
    slow = parse_anchor(f"tp=8,batch=16: {1e3 * before[1] * 1.3:.4f}ms")
    after = [float(decode(scenario).value) for scenario in anchored(scenarios, [slow])]
    assert before[1] * 1.2 < after[1] < before[1] * 1.3
    assert before[0] * 1.05 < after[0] < before[0] * 1.35


def test_an_anchor_at_the_prediction_moves_nothing() -> None:
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=8, batch=16, weights="fp8")
    step = float(decode(scenario).value)
    (same,) = anchored([scenario], [parse_anchor(f"tp=8,batch=16: {1e3 * step:.9f}ms")])
    assert float(decode(same).value) == pytest.approx(step, rel=1e-4)


def test_what_an_anchor_moved_says_so() -> None:
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=8, batch=16, weights="fp8")
    (moved,) = anchored([scenario], [parse_anchor("tp=8,batch=16: 15ms")])
    origin = moved.origins["stack.layer_time_s"]
    assert (origin.kind, origin.source, origin.locator) == ("fitted", "--anchor", "tp=8,batch=16: 15ms")
    assert origin.low is origin.high is None  # one run gives no interval: the band of the step says what is open


@pytest.mark.parametrize("off", [1.0, 0.97, 1.1, 1.3])
def test_a_measured_step_narrows_the_band_around_it_and_hardly_widens_another(off: float) -> None:
    scenarios = [load("llama-3.1-70b", on="h100-sxm", tp=tp, batch=16) for tp in (4, 8)]
    step = float(decode(scenarios[1]).value)
    moved = anchored(scenarios, [parse_anchor(f"tp=8,batch=16: {1e3 * step * off:.6f}ms")])
    before, after = ([_widths(each) for each in some] for some in (scenarios, moved))
    assert after[1][0] < before[1][0]
    assert after[1][1] < 0.9 * before[1][1]
    assert sum(after[0]) < 1.02 * sum(before[0])


def test_an_anchored_band_is_no_narrower_than_a_repeated_run() -> None:
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=8, batch=16, weights="fp8")
    step = float(decode(scenario).value)
    text = f"tp=8,batch=16: {1e3 * step:.6f}ms"
    (moved,) = anchored([scenario], [parse_anchor(text)] * 20)
    assert min(_widths(moved)) > 1.28 * NOISE


def _widths(scenario: Scenario) -> tuple[float, float]:
    """Return how far the band of a step reaches below and above it, as logarithms."""
    low, high = band(scenario)
    step = float(decode(scenario).value)
    return math.log(step / low), math.log(high / step)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tp=8: 9.8ms", "does not say its batch, and several are asked for: 1, 16"),
        ("batch=16: 9.8ms", "does not say its tp, and several are asked for: 4, 8"),
    ],
)
def test_an_anchor_does_not_leave_open_where_it_ran(text: str, words: str) -> None:
    scenarios = [load("llama-3.1-70b", on="h100-sxm", tp=tp, batch=batch) for tp in (4, 8) for batch in (1, 16)]
    with pytest.raises(InputError, match=words):
        anchored(scenarios, [parse_anchor(text)])


def test_an_anchor_is_read_however_it_is_spelled() -> None:
    plain, other = (parse_anchor(text) for text in ("tp=8,system=h100-sxm: 9ms", "TP=8, System=H100_SXM: 9 ms"))
    assert (plain.degrees, plain.system, plain.step_s) == (other.degrees, other.system, other.step_s)


@pytest.mark.parametrize(
    "text",
    [
        "tp=8,tp=4: 9ms",
        "system=h999: 9ms",
        "9.8ms",
        "tp=8: fast",
        "tp=x: 9ms",
        "dp=8: 9ms",
        "tp=8,batch=16: 9.8",
        "tp=8: 0ms",
        "tp: 9ms",
    ],
)
def test_what_is_no_anchor_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_anchor(text)


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ("1us", r"1 us is impossible: reading weights and cache takes 2\.\d+ ms"),
        ("98s", r"times longer than the \d.* predicted without it \(80 % band"),
        ("600ms", r"times longer than the \d.* predicted without it \(80 % band"),
    ],
)
def test_an_anchor_that_cannot_be_is_refused_with_both_times(time: str, words: str) -> None:
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=8, batch=16, weights="fp8")
    with pytest.raises(InputError, match=words):
        anchored([scenario], [parse_anchor(f"tp=8,batch=16: {time}")])


@pytest.mark.parametrize(
    ("tp", "time", "why"), [(8, "90ms", "Over 90 % of this is waiting"), (1, "900ms", "Another load")]
)
def test_a_step_far_off_is_a_finding_about_the_run_and_moves_nothing(tp: int, time: str, why: str) -> None:
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=tp, batch=16, weights="fp8")
    said: list[str] = []
    (kept,) = anchored([scenario], [parse_anchor(f"tp={tp},batch=16: {time}")], said.append)
    assert kept.stack == scenario.stack
    (text,) = said
    assert "a finding about the run, to which no constant is fitted" in text
    assert why in text
    both = [parse_anchor(f"tp={tp},batch=16: {each}") for each in (time, "15ms" if tp == 8 else "60ms")]
    (moved,) = anchored([scenario], both)
    assert moved.stack.layer_time_s > scenario.stack.layer_time_s


def test_one_step_moves_the_layer_time_and_hardly_the_memory_efficiency() -> None:
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=8, batch=16, weights="fp8")
    (moved,) = anchored([scenario], [parse_anchor("tp=8,batch=16: 13ms")])
    by = {
        name: abs(math.log(float(getattr(moved.stack, name)) / float(getattr(scenario.stack, name))))
        for name in ("layer_time_s", "memory_efficiency", "kv_efficiency")
    }
    assert by["layer_time_s"] > 0.4
    assert max(by["memory_efficiency"], by["kv_efficiency"]) < 0.1 * by["layer_time_s"]


def test_a_time_without_unit_is_taken_for_milliseconds_in_the_hint() -> None:
    with pytest.raises(InputError, match=r"'9\.8' has no unit.*write 9\.8ms"):
        parse_anchor("tp=8,batch=16: 9.8")


def test_an_anchor_must_say_on_which_of_several_systems() -> None:
    scenarios = [load("llama-3.1-8b", on=system, tp=1) for system in ("h100-sxm", "h200-sxm")]
    with pytest.raises(InputError, match="does not say where"):
        anchored(scenarios, [parse_anchor("tp=1: 9ms")])
    moved = anchored(scenarios, [parse_anchor("system=h200-sxm,tp=1: 9ms")])
    assert moved[0].stack.layer_time_s == scenarios[0].stack.layer_time_s
    assert moved[1].stack.layer_time_s != scenarios[1].stack.layer_time_s


# --- the runs that ship -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped() -> Evidence:
    table = read_table(SERVING)
    return evidence(cases(table, Options(calibrated=False)), measured_s(table))


def test_the_priors_alone_are_as_far_off_as_the_note_says(shipped: Evidence) -> None:
    errors: Array = np.abs(np.expm1(-shipped.log_errors(PRIOR.centre)))
    assert np.median(errors) == pytest.approx(0.15, abs=0.02)
    assert np.quantile(errors, 0.9) == pytest.approx(0.40, abs=0.04)

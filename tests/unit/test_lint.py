"""Lint of scaling curves: each finding on the table that deserves it, and none on one that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nhalf.decide.lint import lint
from nhalf.decide.scaling_curve import Known, Point
from nhalf.errors import InputError
from nhalf.loading.scaling import known, read

if TYPE_CHECKING:
    from pathlib import Path

LABELS = {"model": "m", "system": "s", "engine": "vllm", "mode": "graph"}
ABOUT = {("m", "s"): Known(devices_per_node=8, turning_batch=12.0, floor_s=0.010)}


def curve(
    *times_ms: float, batch: float | None = 1, labels: dict[str, str] | None = None, start: int = 2
) -> list[Point]:
    given = LABELS if labels is None else labels
    return [
        Point(row=start + place, devices=2**place, batch=batch, step_s=time / 1e3, labels=given)
        for place, time in enumerate(times_ms)
    ]


def codes(points: list[Point], *, about: bool = False) -> list[str]:
    return [finding.code for finding in lint(points, ABOUT if about else {})]


def test_a_plain_curve_has_nothing_against_it() -> None:
    assert codes(curve(20, 12, 8)) == []


def test_a_curve_without_a_batch_is_refused() -> None:
    (first, *_) = lint(curve(20, 12, 8, batch=None), {})
    assert (first.code, first.severity, first.row) == ("no-batch", "refused", 2)


def test_nothing_measured_and_one_device_count_are_refused() -> None:
    nothing = [Point(row=2, devices=1, batch=1, labels=LABELS), Point(row=3, devices=2, batch=1, labels=LABELS)]
    assert "no-values" in codes(nothing)
    assert "one-device-count" in codes(curve(20))


@pytest.mark.parametrize("name", ["model", "system", "engine", "mode"])
def test_labels_that_nobody_states_are_noted(name: str) -> None:
    labels = {key: value for key, value in LABELS.items() if key != name}
    assert codes(curve(20, 12, labels=labels)) == [f"no-{name}"]


@pytest.mark.parametrize(("name", "value"), [("engine", "sglang"), ("mode", "eager"), ("system", "t"), ("model", "n")])
def test_a_row_of_another_kind_is_named(name: str, value: str) -> None:
    other = Point(row=9, devices=8, batch=1, step_s=0.006, labels={**LABELS, name: value})
    findings = lint([*curve(20, 12, 8), other], {})
    assert [(finding.code, finding.row) for finding in findings] == [(f"mixed-{name}", 9)]


def test_a_row_of_another_batch_is_named() -> None:
    other = Point(row=9, devices=8, batch=64, step_s=0.006, labels=LABELS)
    assert codes([*curve(20, 12, 8), other]) == ["mixed-batch"]


def test_halves_of_a_curve_at_two_batches_are_mixed() -> None:
    few, many = (
        curve(60, 32),
        [Point(row=row, devices=n, batch=8, step_s=0.02, labels=LABELS) for row, n in ((4, 4), (5, 8))],
    )
    (finding,) = (each for each in lint([*few, *many], {}) if each.severity == "warning")
    assert (finding.code, finding.row) == ("mixed-batch", 4)
    assert finding.text.startswith("4, 8 devices were measured with batch 8 only, others with 1")


def test_rows_that_differ_in_several_things_are_named_by_all_of_them() -> None:
    kinds = ((2, 1, "vllm", "graph"), (4, 8, "sglang", "eager"), (8, 64, "trtllm", "graph"))
    points = [
        Point(row=row, devices=n, batch=batch, step_s=0.02, labels={**LABELS, "engine": engine, "mode": mode})
        for row, (n, batch, engine, mode) in enumerate(kinds, start=2)
    ]
    assert {(each.code, each.row) for each in lint(points, {})} == {
        ("mixed-batch", 3), ("mixed-engine", 3), ("mixed-mode", 3), ("mixed-batch", 4), ("mixed-engine", 4),
    }  # fmt: skip


def test_every_label_of_a_long_table_is_looked_at_a_few_times() -> None:
    looked = 0

    class Counted(dict[str, str]):
        def get(self, *arguments: object) -> str:
            nonlocal looked
            looked += 1
            return super().get(*arguments)  # type: ignore[call-overload, no-any-return]

    labels = Counted(LABELS)
    points = [Point(row=n, devices=2 ** (n % 4), batch=1 + n // 4, step_s=0.02, labels=labels) for n in range(4000)]
    lint(points, {})
    assert looked < 30 * len(points)


def test_whole_curves_of_several_batches_are_not_mixed() -> None:
    assert codes([*curve(20, 12, 8), *curve(30, 20, 14, batch=64, start=5)]) == []


def test_a_batch_that_grows_with_the_devices_is_weak_scaling() -> None:
    points = [Point(row=2 + i, devices=2**i, batch=8.0 * 2**i, step_s=0.02, labels=LABELS) for i in range(3)]
    assert codes(points) == ["weak-scaling"]


@pytest.mark.parametrize(("rate", "part"), [(50.0, "one user"), (200.0, "one device"), (1000.0, "drafts")])
def test_a_rate_that_does_not_belong_to_its_step_is_named(rate: float, part: str) -> None:
    points = [
        Point(row=2, devices=1, batch=8, step_s=0.04, tokens_per_s=200, labels=LABELS),
        Point(row=3, devices=2, batch=8, step_s=0.02, tokens_per_s=rate, labels=LABELS),
    ]
    found = [finding for finding in lint(points, {}) if finding.code == "rate-and-step"]
    assert [finding.row for finding in found] == [3]
    assert part in found[0].text


def test_repeats_superlinear_steps_and_turn_overs_are_named() -> None:
    assert codes([*curve(20, 12), Point(row=8, devices=2, batch=1, step_s=0.010, labels=LABELS)]) == ["repeated"]
    assert codes(curve(20, 5)) == ["superlinear"]
    assert codes(curve(20, 12, 16)) == ["turn-over"]


def test_what_the_catalogue_knows_bounds_a_curve() -> None:
    assert codes(curve(20, 4), about=True)[:2] == ["superlinear", "impossible"]
    inside = codes(curve(20, 12, 8), about=True)
    assert inside == ["regime", "inside-node"]
    across = lint(curve(20, 12, 8, 6, 5), ABOUT)
    assert {finding.code for finding in across} == {"regime", "crosses-node"}
    assert next(finding.row for finding in across if finding.code == "crosses-node") == 6


@pytest.mark.parametrize(
    ("batch", "word"), [(1, "batches above, where bandwidth"), (64, "batches below, where latency")]
)
def test_one_regime_is_not_extended_into_the_other(batch: int, word: str) -> None:
    (finding,) = [each for each in lint(curve(20, 14, batch=batch), ABOUT) if each.code == "regime"]
    assert word in finding.text


def test_refusals_come_first() -> None:
    findings = lint([*curve(20, 5, batch=None)], {})
    assert findings[0].severity == "refused"
    assert [each.severity for each in findings] == sorted(
        (each.severity for each in findings), key=["refused", "warning", "note"].index
    )


# --- files ------------------------------------------------------------------------------------------------------------


def written(folder: Path, *lines: str) -> Path:
    path = folder / "curve.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_columns_go_by_any_name_in_use(tmp_path: Path) -> None:
    path = written(tmp_path, "GPUs,Concurrency,TPOT_ms,framework,model", "2,8,12.5,vllm,llama-3.1-70b")
    (point,) = read(path)
    assert (point.row, point.devices, point.batch) == (2, 2, 8)
    assert point.step_s == pytest.approx(0.0125)
    assert dict(point.labels) == {"engine": "vllm", "model": "llama-3.1-70b"}


def test_the_catalogue_is_asked_about_models_and_systems(tmp_path: Path) -> None:
    path = written(tmp_path, "devices,batch,step_s,model,system,weights", "8,1,0.01,llama-3.1-70b,h100-sxm,fp8")
    (about,) = known(read(path)).values()
    assert about.devices_per_node == 8
    assert about.turning_batch is not None
    assert about.floor_s == pytest.approx(70e9 / 3.35e12, rel=0.1)
    assert known(read(written(tmp_path, "devices,batch,model,system", "8,1,nosuch,h100-sxm"))) == {}


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (("batch,step_s", "1,0.1"), "no column of devices"),
        (("devices,batch", "two,1"), "'two'"),
        (("devices,batch", ",1"), "devices is missing"),
        (("devices,batch", "2.5,1"), "not whole"),
        (("devices,batch", "2,-1"), "above 0"),
        (("devices,batch", "2"), "cells"),
        (("devices",), "no rows"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path: Path, lines: tuple[str, ...], part: str) -> None:
    with pytest.raises(InputError) as refusal:
        read(written(tmp_path, *lines))
    assert part in str(refusal.value)


@pytest.mark.parametrize(("times", "found"), [(1.08, []), (1.10, ["repeated"])])
def test_repeats_differ_by_more_than_a_repeat_does_from_nine_per_cent_on(times: float, found: list[str]) -> None:
    assert codes([*curve(20, 12), Point(row=8, devices=2, batch=1, step_s=0.012 * times, labels=LABELS)]) == found


@pytest.mark.parametrize(
    ("times", "found"), [(0.96, []), (1.04, []), (0.94, ["rate-and-step"]), (1.06, ["rate-and-step"])]
)
def test_a_rate_and_a_step_agree_within_five_per_cent(times: float, found: list[str]) -> None:
    points = [
        Point(row=2 + place, devices=1 << place, batch=8, step_s=step, tokens_per_s=8 / step * times, labels=LABELS)
        for place, step in enumerate((0.04, 0.03))
    ]
    assert sorted(set(codes(points))) == found

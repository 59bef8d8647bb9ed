"""Predictions of a fit: between sizes, outside them, at other ranks, and when it refuses; and samples from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nhalf.catalog import store
from nhalf.collective import Mode, Op
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.evidence.columns import samples_of_columns
from nhalf.evidence.fit import fit
from nhalf.sample import Sample

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.curve import MeasuredCurve


def doublings(first: int, last: int) -> Array:
    """Return the powers of two from 2^first up to, and without, 2^last."""
    sizes: Array = np.exp2(np.arange(first, last, dtype=np.float64))
    return sizes


SIZES = doublings(9, 29)


def columns(*ranks: int, sizes: Array = SIZES, **more: Any) -> dict[str, Any]:  # noqa: ANN401  any column
    """Return columns of all-reduces whose fixed time and knee grow with the ranks."""
    rows = [(n, k, 4e-6 + 0.8e-6 * (k - 1) + 2 * (k - 1) / k * n / 400e9) for k in ranks for n in sizes]
    size, rank, time = zip(*rows, strict=True)
    return {"op": ["all_reduce"] * len(rows), "size_bytes": size, "ranks": rank, "seconds": time} | more


def law(size: float, ranks: int) -> float:
    return 4e-6 + 0.8e-6 * (ranks - 1) + 2 * (ranks - 1) / ranks * size / 400e9


# ------------------------------------------------------------------------------------------------- at measured ranks


def test_it_passes_near_every_measured_point() -> None:
    time, low, high = fit(columns(8)).predict(SIZES, 8)
    true = np.array([law(float(size), 8) for size in SIZES])
    np.testing.assert_allclose(time, true, rtol=0.01)
    assert np.all((low < time) & (time < high))


def test_between_points_it_is_close_and_less_sure() -> None:
    found = fit(columns(8, sizes=SIZES[::2]))
    middle = SIZES[9]  # left out; both neighbours are in
    time, low, high = found.predict(middle, 8)
    assert time == pytest.approx(law(float(middle), 8), rel=0.05)
    at = found.predict(SIZES[8], 8)
    assert high / low > at[2] / at[1]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_answers_have_the_shape_of_the_question(shape: tuple[int, ...]) -> None:
    for array in fit(columns(8)).predict(np.full(shape, 16384.0), 8):
        assert array.shape == shape
    assert float(fit(columns(8)).predict(16384, 8)[0]) == pytest.approx(law(16384, 8), rel=0.01)


def test_array_and_scalar_agree() -> None:
    found = fit(columns(8))
    time, low, high = found.predict(SIZES[:5] * 1.5, 8)
    for index, size in enumerate(SIZES[:5] * 1.5):
        assert [float(x) for x in found.predict(float(size), 8)] == pytest.approx(
            [time[index], low[index], high[index]]
        )


def test_below_a_floor_that_was_seen_it_holds() -> None:
    time, low, high = fit(columns(8)).predict([1.0, 64.0], 8)
    np.testing.assert_allclose(time, law(512, 8), rtol=0.01)
    assert high[0] / low[0] > high[1] / low[1]


def test_above_a_ceiling_that_was_seen_it_follows_the_line() -> None:
    time, _, _ = fit(columns(8)).predict(2.0**32, 8)
    assert time == pytest.approx(law(2.0**32, 8), rel=0.05)


def test_above_a_sweep_that_stops_early_the_band_says_so() -> None:
    short = fit(columns(8, sizes=SIZES[SIZES <= 2**19]))
    full = fit(columns(8))
    asked = 2.0**26
    assert (
        short.predict(asked, 8)[2] / short.predict(asked, 8)[1]
        > 2 * full.predict(asked, 8)[2] / full.predict(asked, 8)[1]
    )


def test_a_known_link_gives_a_short_sweep_its_ceiling() -> None:
    curve = measured()
    (rows,) = [
        np.stack(pair, axis=1) for k, *pair in zip(curve.ranks, curve.sizes_bytes, curve.times_s, strict=True) if k == 8
    ]
    short, held = rows[rows[:, 0] <= 2**22], rows[rows[:, 0] > 2**24]
    system, _ = store.system("h100-sxm")
    given = {
        "op": ["all-reduce"] * len(short),
        "size_bytes": short[:, 0],
        "ranks": [8] * len(short),
        "seconds": short[:, 1],
    }
    with_link, without = (fit(given, system=known).predict(held[:, 0], 8)[0] for known in (system, None))
    errors = [np.median(np.abs(time / held[:, 1] - 1)) for time in (with_link, without)]
    assert errors[0] < 0.35
    assert errors[0] < errors[1]


def test_one_rank_waits_for_nobody() -> None:
    assert [float(x) for x in fit(columns(8)).predict(16384, 1)] == [0.0, 0.0, 0.0]


# ------------------------------------------------------------------------------------------------- at other ranks


@pytest.mark.parametrize("ranks", [3, 4, 6, 8])
def test_other_ranks_of_one_node_follow_from_two(ranks: int) -> None:
    given = [k for k in (2, 4, 8) if k != ranks]
    time, low, high = fit(columns(*given)).predict(SIZES, ranks)
    true = np.array([law(float(size), ranks) for size in SIZES])
    np.testing.assert_allclose(time, true, rtol=0.12)
    assert np.mean((true >= low) & (true <= high)) > 0.9


def test_ranks_across_a_node_boundary_are_refused() -> None:
    with pytest.raises(WeakEvidenceError, match="cross a node boundary"):
        fit(columns(4, 8)).predict(16384, 16)


def test_measured_ranks_across_nodes_answer() -> None:
    time, _, _ = fit(columns(4, 8, 16)).predict(16384, 16)
    assert time == pytest.approx(law(16384, 16), rel=0.01)


def test_ranks_on_several_nodes_say_nothing_of_one_node() -> None:
    found = fit(columns(8, 16, nodes=[1] * len(SIZES) + [2] * len(SIZES)))
    with pytest.raises(WeakEvidenceError, match="one other rank count"):
        found.predict(16384, 4)


def test_one_rank_count_says_nothing_of_another() -> None:
    with pytest.raises(WeakEvidenceError, match=r"one other rank count .*measured: 8 ranks"):
        fit(columns(8)).predict(16384, 4)


# ------------------------------------------------------------------------------------------------- what is refused


def test_two_operations_need_a_name() -> None:
    both = {name: [*a, *a] for name, a in columns(8).items()}
    both["op"] = ["all-reduce"] * len(SIZES) + ["all-gather"] * len(SIZES)
    found = fit(both)
    with pytest.raises(InputError, match=r"2 curves answer .*all-reduce on 8 ranks; all-gather on 8 ranks"):
        found.predict(16384, 8)
    assert found.predict(16384, 8, op="AllGather")[0] > 0


def test_two_modes_need_a_name() -> None:
    both = {name: [*a, *a] for name, a in columns(8).items()}
    both["mode"] = ["graph"] * len(SIZES) + ["eager"] * len(SIZES)
    found = fit(both)
    with pytest.raises(InputError, match="2 curves answer"):
        found.predict(16384, 8)
    assert found.predict(16384, 8, mode="graph")[0] > 0
    with pytest.raises(InputError, match="there is no curve with mode host"):
        found.predict(16384, 8, mode="host")


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf"), [16384, 0]])
def test_sizes_that_cannot_be_are_refused(size: Any) -> None:  # noqa: ANN401
    with pytest.raises(InputError, match="a size is not positive"):
        fit(columns(8)).predict(size, 8)


def test_two_sizes_predict_nothing() -> None:
    with pytest.raises(WeakEvidenceError, match="has 2 sizes"):
        fit(columns(8, sizes=SIZES[:2])).predict(1024, 8)


# ------------------------------------------------------------------------------------------------- on measured curves


def measured(library: str = "vllm", mode: Mode = Mode.GRAPH) -> MeasuredCurve:
    """Return the catalogue's all-reduce of a library on an H100 box."""
    system, _ = store.system("h100-sxm", curves=True)
    found = [c for c in system.curves if c.key.op is Op.ALL_REDUCE and c.key.mode is mode and c.key.library == library]
    return found[-1]


@pytest.mark.parametrize("library", ["vllm", "sglang", "trtllm"])
def test_held_out_sizes_of_measured_curves_are_close_and_mostly_inside_the_band(library: str) -> None:
    curve = measured(library)
    errors, inside = [], []
    for ranks, sizes, times in zip(curve.ranks, curve.sizes_bytes, curve.times_s, strict=True):
        given = {"op": "all-reduce", "ranks": ranks}
        train = {"size_bytes": sizes[::2], "seconds": times[::2]}
        found = fit(train | {name: [value] * len(sizes[::2]) for name, value in given.items()})
        held, true = sizes[1:-1:2], times[1:-1:2]
        time, low, high = found.predict(held, ranks)
        errors += list(np.abs(time / true - 1))
        inside += list((true >= low) & (true <= high))
    assert np.median(errors) < 0.05
    assert np.quantile(errors, 0.9) < 0.3
    assert 0.6 < np.mean(inside) <= 1.0


# ------------------------------------------------------------------------------------------------- samples


def test_samples_and_columns_give_the_same_fit() -> None:
    as_samples = [
        Sample(op=Op.ALL_REDUCE, size_bytes=float(n), ranks=8, seconds=law(float(n), 8), quantity="graph")
        for n in SIZES
    ]
    one, other = fit(as_samples), fit(columns(8, quantity=["graph"] * len(SIZES)))
    assert one.to_dict() == other.to_dict()


def test_dataframes_are_columns() -> None:
    polars = pytest.importorskip("polars")
    given = {name: list(cells) for name, cells in columns(8).items()}
    assert fit(polars.DataFrame(given)).to_dict() == fit(given).to_dict()


def test_other_columns_tell_series_apart() -> None:
    both = {name: [*a, *a] for name, a in columns(8).items()}
    both["kernel"] = ["one"] * len(SIZES) + ["two"] * len(SIZES)
    assert [curve.series.key.label for curve in fit(both).curves] == ["kernel one", "kernel two"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": None}, r"the column 'seconds' is missing; there are 'op', 'size_bytes', 'ranks'"),
        ({"seconds": [1.0]}, "the columns differ in length: op 20, size_bytes 20, ranks 20, seconds 1"),
        ({"seconds": [-1.0] * 20}, r"samples, row 1: time -1\.0 is not a time"),
        ({"ranks": [7.5] * 20}, "samples, row 1: ranks 7.5 is not a whole number"),
        ({"ranks": ["many"] * 20}, "samples, row 1: ranks 'many' is not a number"),
        ({"op": ["all_redcue"] * 20}, r"samples, row 1, op: 'all_redcue' is not a known op.*Did you mean"),
        ({"op": [""] * 20}, "samples, row 1: op is empty"),
        ({"mode": ["graf"] * 20}, "samples, row 1, mode: 'graf' is not a known mode"),
    ],
)
def test_bad_columns_are_one_clear_error(change: dict[str, Any], message: str) -> None:
    given = columns(8) | change
    given = {name: cells for name, cells in given.items() if cells is not None}
    with pytest.raises(InputError, match=message):
        samples_of_columns(given)


def test_what_has_no_columns_is_refused() -> None:
    with pytest.raises(InputError, match="something of type int has no columns"):
        fit(7)


def test_empty_cells_of_optional_columns_are_unknown() -> None:
    samples = samples_of_columns(columns(8) | {"nodes": [None] * 20, "mode": [float("nan")] * 20})
    assert {(sample.nodes, sample.mode) for sample in samples} == {(None, None)}

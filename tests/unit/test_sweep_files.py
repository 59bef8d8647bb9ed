"""Files of sweeps: the same rows in every format, by any number of processes, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from nhalf.decide import workers
from nhalf.decide.grid import CHUNK, TASK_POINTS, Tally
from nhalf.errors import InputError
from nhalf.loading import Request
from nhalf.loading.axes import grid
from nhalf.report import sweep_file
from nhalf.report.sweep import rows as made_rows
from nhalf.report.sweep_file import Coded, encoded, plain_csv, table

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.breakdown import Array
    from nhalf.decide.grid import Grid

LATENCY = "system.fabric.intra_node.latency_s"
BANDWIDTH = "system.fabric.intra_node.bandwidth_bytes_per_s"


def made(*texts: str) -> Grid:
    return grid(Request(model="llama-3.1-70b", systems=("h100-sxm",), weights="fp8"), texts).grid


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a portion be one task, so that files are joined of several."""
    monkeypatch.setattr(workers, "ENOUGH", 1)


@pytest.fixture(scope="module")
def small() -> Grid:
    return made("tp=2,3,8", "batch=1:5", f"{LATENCY}=1us:5us:4")


Portions = Callable[..., Iterable[workers.Portion]]


def write(path: Path, grid: Grid, points: int = TASK_POINTS, by: Portions = workers.alone) -> Tally:
    tally, file = Tally(), table(path)
    for each, pieces in by(grid, grid.tasks(points), partial(made_rows, path.suffix)):
        tally.join(each)
        file.append(pieces)
    file.close()
    return tally


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file with numbers as numbers and unknown as None."""
    if path.suffix == ".json":
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return found
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: _number(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def _number(cell: str) -> object:
    try:
        return float(cell)
    except ValueError:
        return cell


def same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
    """Return whether rows are the same, where CSV has nothing for None."""
    return [{k: v or ("" if v is None else v) for k, v in row.items()} for row in one] == [
        {k: v or ("" if v is None else v) for k, v in row.items()} for row in other
    ]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_every_format_holds_every_point_in_order(tmp_path: Path, small: Grid, suffix: str) -> None:
    path = tmp_path / f"out.{suffix}"
    tally = write(path, small, 7)
    found = rows(path)
    assert (len(found), tally.points, tally.legal) == (60, 60, 40)
    assert [row["tp"] for row in found] == [2] * 20 + [3] * 20 + [8] * 20
    assert [row["batch"] for row in found[:20]] == [batch for batch in range(1, 6) for _ in range(4)]
    assert all("attention heads" in row["reason"] for row in found[20:40])
    assert all(not row["reason"] and row["step_s"] > 0 for row in (*found[:20], *found[40:]))
    assert {path.name for path in tmp_path.iterdir()} == {path.name}
    parts = [
        name for name in found[0] if name.endswith("_s") and name not in ("step_s", "tpot_s") and "fabric" not in name
    ]
    assert sum(found[0][name] for name in parts) == pytest.approx(found[0]["step_s"])


def test_the_formats_agree(tmp_path: Path, small: Grid) -> None:
    found = []
    for suffix in ("csv", "json", "parquet"):
        path = tmp_path / f"out.{suffix}"
        write(path, small)
        found.append(rows(path))
    assert same(found[0], found[1])
    assert same(found[1], found[2])


def test_csv_without_polars_reads_back_as_the_same_numbers(
    tmp_path: Path, small: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "fast.csv", small)
    monkeypatch.setattr(sweep_file, "_polars", lambda: None)
    monkeypatch.setattr(sweep_file, "find_spec", lambda _: None)
    write(tmp_path / "plain.csv", small)
    assert same(rows(tmp_path / "fast.csv"), rows(tmp_path / "plain.csv"))
    with pytest.raises(InputError) as refusal:
        table(tmp_path / "out.parquet")
    assert "'.[frames]'" in str(refusal.value)


@pytest.mark.parametrize("points", [1, 7, 1000])
def test_the_size_of_a_task_changes_nothing(tmp_path: Path, small: Grid, points: int) -> None:
    write(tmp_path / "one.csv", small)
    write(tmp_path / "two.csv", small, points)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_processes_give_the_same_file(tmp_path: Path, small: Grid) -> None:
    write(tmp_path / "one.csv", small)
    write(tmp_path / "two.csv", small, 7, partial(workers.processes, workers=2))
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_tasks_of_any_size_make_the_same_parquet_in_order(tmp_path: Path, small: Grid) -> None:
    write(tmp_path / "one.parquet", small)
    write(tmp_path / "two.parquet", small, 7)
    assert pl.read_parquet(tmp_path / "one.parquet").equals(pl.read_parquet(tmp_path / "two.parquet"))


def test_a_file_that_is_not_whole_does_not_have_its_name(tmp_path: Path, small: Grid) -> None:
    for suffix, left in (("csv", ["out.csv.part"]), ("parquet", ["out.csv.part"])):
        file = table(tmp_path / f"out.{suffix}")
        _, pieces = next(iter(workers.alone(small, small.tasks(), partial(made_rows, f".{suffix}"))))
        file.append(pieces)
        file.abandon()
        assert [path.name for path in tmp_path.iterdir()] == left


def test_the_tally_has_the_fastest_that_fits_and_every_reason(small: Grid) -> None:
    tally = Tally()
    for task, answers in workers.here(small, small.tasks(7)):
        tally.add(small, task, answers)
    assert tally.best is not None
    assert tally.best.axes["tp"] == 8
    assert tally.best.axes["batch"] == 1
    assert list(tally.best_by) == [2, 8]
    assert sum(tally.reasons.values()) == 20


def test_a_sweep_of_many_points_holds_few_of_them() -> None:
    many = made("batch=1:100", f"{LATENCY}=1us:5us:100", f"{BANDWIDTH}=100GB/s:900GB/s:100")
    tracemalloc.start()
    seen = 0
    for task, answers in workers.here(many, many.tasks(4 * CHUNK)):
        seen += task.points
        assert answers is not None
        if seen > 400_000:
            break
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # 400,000 points would take 400,000 x 12 x 8 bytes = 38 MB, besides what evaluates them


def test_words_with_commas_are_quoted() -> None:
    found = plain_csv({"a": Coded(words=('x, "y"', None), codes=np.array([0, 1])), "b": np.array([1.5, float("nan")])})
    assert list(csv.reader(found.decode().splitlines())) == [["a", "b"], ['x, "y"', "1.5"], ["", ""]]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_many_rows_at_once_keep_their_order_and_their_unknowns(tmp_path: Path, suffix: str) -> None:
    count = 10_000
    values: Array = np.linspace(0.0, 1.0, count)
    values[::7] = np.nan
    file = table(tmp_path / f"out.{suffix}")
    words = Coded(words=('x}\n{"y"', None), codes=np.arange(count) % 2)
    file.append(encoded({"a.b_s": values, "count": np.arange(count, dtype=float), "word": words}, f".{suffix}"))
    file.close()
    found = rows(tmp_path / f"out.{suffix}")
    assert [row["count"] for row in found] == list(range(count))
    assert [row["a.b_s"] or None for row in found] == [
        None if i % 7 == 0 else one for i, one in enumerate(np.linspace(0.0, 1.0, count).tolist())
    ]
    assert [row["word"] or None for row in found] == ['x}\n{"y"', None] * (count // 2)


@pytest.mark.parametrize("name", ["out.xls", "out", "nowhere/out.csv", "nowhere/out.parquet"])
def test_a_file_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        table(tmp_path / name)


def test_tasks_cover_every_point_once(small: Grid) -> None:
    for points in (1, 3, TASK_POINTS):
        assert sum(task.points for task in small.tasks(points)) == small.points


def test_a_disk_that_is_full_is_one_error(tmp_path: Path, small: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nhalf.report.parquet_parts.Joined.append", full)
    with pytest.raises(InputError, match="No space left on device"):
        write(tmp_path / "out.parquet", small)
    assert not (tmp_path / "out.parquet").exists()


def test_a_parquet_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    table(tmp_path / "out.parquet").abandon()
    assert list(tmp_path.iterdir()) == []


def test_parts_of_parquet_make_one_file_of_all_their_rows(tmp_path: Path) -> None:
    frames = [pl.DataFrame({"x": np.arange(n) / 3, "word": ["a", None] * (n // 2)}) for n in (2, 70_000, 400)]
    file = table(tmp_path / "out.parquet")
    for frame in frames:
        part = io.BytesIO()
        frame.write_parquet(part, compression="zstd", row_group_size=30_000, statistics="full")
        file.append([part.getvalue()])
    file.close()
    whole = pl.concat(frames)
    assert pl.read_parquet(tmp_path / "out.parquet").equals(whole)
    found = pl.scan_parquet(tmp_path / "out.parquet").filter(pl.col("x") > 20_000).select(pl.len()).collect().item()
    assert found == int((whole["x"] > 20_000).sum())  # by the statistics of the parts


def test_parts_of_parquet_with_other_columns_are_no_table(tmp_path: Path) -> None:
    file = table(tmp_path / "out.parquet")
    file.append(encoded({"x": np.arange(2.0)}, ".parquet"))
    with pytest.raises(ValueError, match="different columns"):
        file.append(encoded({"y": np.arange(2.0)}, ".parquet"))
    file.abandon()

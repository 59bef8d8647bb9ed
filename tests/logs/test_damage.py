"""A damaged log raises nothing but a clear error, and a row that is cut is skipped with its line, never misread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.logs.rendering import NcclTests, ib_lat, imb, nccl_debug, osu
from tests.logs.test_truth_table import FILES, HERE

from nhalf.errors import NhalfError
from nhalf.evidence.readers import read
from nhalf.evidence.readers.formats import ALL

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.evidence.table import Table

SWEEP = [(1024 << p, 20.0 + (1024 << p) / 3e5) for p in range(12)]
LOGS = {
    "nccl-tests": NcclTests().render(SWEEP),
    "nccl-tests 2021": NcclTests(generation="2021").render(SWEEP),
    "nccl-tests 2026": NcclTests(generation="2026", stamped=True).render(SWEEP),
    "osu": osu("Latency Test", SWEEP),
    "osu -f": osu("Allreduce Latency Test", SWEEP, full=True),
    "imb": imb("Allreduce", 8, SWEEP),
    "perftest": ib_lat(SWEEP),
    "nccl-debug": nccl_debug(SWEEP),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage") / "log"


def known(tables: list[Table]) -> dict[float, set[float]]:
    times: dict[float, set[float]] = {}
    for table in tables:
        for point in table.points:
            times.setdefault(point.size_bytes, set()).add(round(point.seconds, 9))
    return times


@given(name=st.sampled_from(sorted(LOGS)), data=st.data())
def test_a_row_cut_anywhere_is_never_misread(log: Path, name: str, data: st.DataObject) -> None:
    text = LOGS[name]
    log.write_text(text, encoding="utf-8")
    truth = known(read(log))
    lines = text.split("\n")
    # The first row has no rows before it that its decimals could be compared with.
    rows = [i for i, line in enumerate(lines) if any(f" {size}" in f" {line} " for size, _ in SWEEP[2:])]
    cut = data.draw(st.sampled_from(rows))
    lines[cut] = lines[cut][: data.draw(st.integers(0, len(lines[cut]) - 1))]
    log.write_text("\n".join(lines), encoding="utf-8")
    for table in read(log):
        for point in table.points:
            assert round(point.seconds, 9) in truth[point.size_bytes], point


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_cut_row_is_skipped_with_its_line(log: Path, name: str) -> None:
    lines = LOGS[name].rstrip("\n").split("\n")
    row = max(i for i, line in enumerate(lines) if str(SWEEP[-1][0]) in line)
    text = "\n".join([*lines[:row], lines[row][: lines[row].rfind(".") + 1]])
    log.write_text(text, encoding="utf-8")
    tables = read(log)
    skipped = [skip.line for table in tables for skip in table.skipped]
    points = [point for table in tables for point in table.points]
    assert skipped == [row + 1] or name == "nccl-debug"  # its first copy is whole
    assert len(points) == len(SWEEP) - (name != "nccl-debug")


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=15)
@given(data=st.data())
def test_damage_raises_only_clear_errors(log: Path, name: str, data: st.DataObject) -> None:
    raw = bytearray((HERE / name).read_bytes())
    kind = data.draw(st.sampled_from(["head", "tail", "bytes", "lines", "twice"]))
    place = data.draw(st.integers(0, len(raw) - 1))
    if kind == "head":
        raw = raw[place:]
    elif kind == "tail":
        raw = raw[:place]
    elif kind == "bytes":
        for _ in range(20):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    elif kind == "lines":
        lines = raw.split(b"\n")
        raw = bytearray(b"\n".join(data.draw(st.permutations(lines)) if len(lines) < 200 else lines[::-1]))
    else:
        raw = raw + raw[place:]
    log.write_bytes(bytes(raw))
    try:
        tables = read(log)
    except NhalfError:
        return
    for table in tables:
        assert all(point.seconds > 0.0 and point.size_bytes > 0.0 for point in table.points)
        assert all(figure.value > 0.0 for figure in table.figures)


@pytest.mark.parametrize("name", [reader.name for reader in ALL])
@settings(max_examples=25)
@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=400))
def test_every_reader_survives_any_text(log: Path, name: str, text: str) -> None:
    log.write_text(text, encoding="utf-8")
    try:
        read(log, format=name)
    except NhalfError:
        return


@pytest.mark.parametrize("name", [reader.name for reader in ALL])
def test_every_reader_survives_every_log(name: str) -> None:
    for file in FILES:
        try:
            read(HERE / file, format=name)
        except NhalfError:
            continue


def test_a_broken_row_is_joined_around_debug_lines(log: Path) -> None:
    text = NcclTests().render(SWEEP)
    whole = [line for line in text.split("\n") if "float" in line]
    broken = whole[3].index("-1") + 2
    pieces = [
        whole[3][:broken] + "node-0:4100:4100 [0] NCCL INFO 8192 Bytes -> Algo 1 proto 2 time 25.874907",
        "node-0:4100:4100 [0] NCCL INFO Connected all rings",
        whole[3][broken:],
    ]
    log.write_text(text.replace(whole[3], "\n".join(pieces)), encoding="utf-8")
    (table,) = read(log)
    assert [int(point.size_bytes) for point in table.points] == [size for size, _ in SWEEP]
    assert table.skipped == ()


def test_a_piece_without_its_beginning_is_reported(log: Path) -> None:
    text = NcclTests().render(SWEEP)
    lines = text.split("\n")
    row = next(i for i, line in enumerate(lines) if " 8192 " in line)
    lines[row] = lines[row][lines[row].index("-1") + 2 :]
    log.write_text("\n".join(lines), encoding="utf-8")
    (table,) = read(log)
    assert [skip.line for skip in table.skipped] == [row + 1]
    assert len(table.points) == len(SWEEP) - 1


def test_a_row_whose_numbers_contradict_each_other_is_not_taken(log: Path) -> None:
    text = NcclTests().render(SWEEP)
    row = next(line for line in text.split("\n") if f" {SWEEP[8][0]} " in line)
    log.write_text(text.replace(row, row.replace(f" {SWEEP[8][0]} ", f" {SWEEP[8][0] // 10} ")), encoding="utf-8")
    (table,) = read(log)
    assert len(table.points) == len(SWEEP) - 1
    assert "contradict" in table.skipped[0].why

"""Files, folders, standard input: what is opened, in which order, and what is said about the rest."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tempfile
import threading
import tracemalloc
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.logs.rendering import NcclTests, ib_lat, imb, osu, plain

from nhalf.errors import InputError
from nhalf.evidence.fit import fit
from nhalf.evidence.readers import kept, read, source

if TYPE_CHECKING:
    from pathlib import Path

SWEEP = [(1024 << p, 20.0 + (1024 << p) / 3e5) for p in range(10)]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_several_files_and_a_folder(tmp_path: Path) -> None:
    one = write(tmp_path, "one.log", osu("Latency Test", SWEEP))
    write(tmp_path, "runs/b.txt", ib_lat(SWEEP))
    write(tmp_path, "runs/deep/a.txt", imb("Allreduce", 8, SWEEP))
    write(tmp_path, "runs/.hidden", osu("Latency Test", SWEEP))
    tables = read([one, tmp_path / "runs"])
    assert [table.tool for table in tables] == ["OSU", "perftest", "IMB"]


def test_a_file_of_a_folder_that_is_no_log_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.log", osu("Latency Test", SWEEP))
    write(tmp_path, "notes.md", "we ran this on Monday, it took 12 minutes\n")
    tables = read(tmp_path)
    assert [table.rows for table in tables] == [len(SWEEP), 0]
    assert tables[1].skipped[0].line == 0


def test_a_named_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "notes.md", "we ran this on Monday, it took 12 minutes\n")
    with pytest.raises(InputError, match="not a benchmark log") as caught:
        read(path)
    assert "nccl-tests" in caught.value.allowed
    assert "--format" in caught.value.do


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty", b"", "empty"),
        ("blank", b"\n\n  \n", "empty"),
        ("cut.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03abc", "compressed|cannot be read"),
        ("some.zst", b"\x28\xb5\x2f\xfd\x00", "zstandard"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read(path)


def test_paths_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "missing.log")
    with pytest.raises(InputError, match="holds no file"):
        read(tmp_path)
    with pytest.raises(InputError, match="no log is given"):
        read([])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = osu("Latency Test", SWEEP).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    (table,) = read("-")
    assert table.file == "standard input"
    assert len(table.points) == len(SWEEP)


def test_a_long_standard_input_waits_in_a_file_that_goes_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = osu("Latency Test", SWEEP).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    monkeypatch.setattr(source, "_IN_MEMORY", 100)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (table,) = read("-")
    assert (table.file, len(table.points)) == ("standard input", len(SWEEP))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_once_and_to_its_end(tmp_path: Path) -> None:
    pipe, content = tmp_path / "pipe", osu("Latency Test", SWEEP).encode()
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    (table,) = read(pipe)
    writer.join(10)
    assert (table.file, len(table.points)) == (str(pipe), len(SWEEP))


def test_of_a_loop_only_so_many_runs_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 40)
    runs = 1000
    times = [[(size, time * (1 + run / runs)) for size, time in SWEEP] for run in range(runs)]
    path = write(tmp_path, "loop.log", "\n".join(NcclTests().render(sweep) for sweep in times))
    tables = read(path)
    assert 20 <= len(tables) <= 40
    assert sum(table.stands_for for table in tables) == runs
    (curve,) = fit(tables).curves
    assert curve.fitted_points[1][0] == pytest.approx(1.5e-6 * SWEEP[0][1], rel=0.03)  # the median of all runs
    assert any("1000 runs" in note.text and "evenly spread" in note.text for note in curve.notes)


def test_format_overrides_detection(tmp_path: Path) -> None:
    path = write(tmp_path, "log", "1 2.5\n2 2.6\n" + osu("Latency Test", SWEEP))
    assert read(path, format="OSU")[0].tool == "OSU"
    (table,) = read(path, format="imb")
    assert (table.rows, table.skipped[0].line) == (0, 0)
    with pytest.raises(InputError, match="not a known log format") as caught:
        read(path, format="ncl-tests")
    assert "nccl-tests" in caught.value.do


def test_tools_in_one_file(tmp_path: Path) -> None:
    text = "".join([osu("Latency Test", SWEEP), ib_lat(SWEEP), imb("Allreduce", 8, SWEEP), NcclTests().render(SWEEP)])
    tables = read(write(tmp_path, "log", text))
    assert [table.tool for table in tables] == ["OSU", "perftest", "IMB", "nccl-tests"]
    assert [len(table.points) for table in tables] == [len(SWEEP)] * 4


def test_runs_in_one_file_are_told_apart(tmp_path: Path) -> None:
    text = NcclTests().render(SWEEP) + "\n=== again ===\n" + NcclTests().render(SWEEP)
    tables = read(write(tmp_path, "log", text))
    assert [table.label for table in tables] == ["run 1", "run 2"]
    assert [len(table.points) for table in tables] == [len(SWEEP)] * 2


def test_a_log_behind_pages_of_chatter(tmp_path: Path) -> None:
    chatter = "node-a:4100:4100 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\nloading shard 7 of 30\n"
    (table,) = read(write(tmp_path, "log", chatter * 20_000 + NcclTests().render(SWEEP)))
    assert len(table.points) == len(SWEEP)
    assert table.points[0].line > 40_000


def test_memory_stays_flat_while_a_long_log_is_read(tmp_path: Path) -> None:
    line = "node-a:4100:4100 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    path = write(tmp_path, "log", NcclTests().render(SWEEP) + line * 200_000)
    size = path.stat().st_size
    tracemalloc.start()
    try:
        read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size / 4


def test_line_numbers_are_those_of_an_editor(tmp_path: Path) -> None:
    text = "progress 1\rprogress 2\rprogress 3\n" + osu("Latency Test", SWEEP)
    (table,) = read(write(tmp_path, "log", text))
    assert [point.line for point in table.points] == list(range(4, 4 + len(SWEEP)))


def test_parquet(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    path = tmp_path / "table.parquet"
    pl.DataFrame(
        {"op": ["all_reduce"] * 2, "ranks": [8, 8], "size_bytes": [1024, 2048], "time_us": [20.5, 21.5]}
    ).write_parquet(path)
    (table,) = read(path)
    assert [point.size_bytes for point in table.points] == [1024.0, 2048.0]
    assert [point.seconds for point in table.points] == pytest.approx([20.5e-6, 21.5e-6])
    assert (table.op, table.ranks, table.tool) == ("all-reduce", 8, "parquet")


def test_parquet_without_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match="needs polars") as caught:
        read(path)
    assert "'.[frames]'" in caught.value.do


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1 and nothing of the kind")
    with pytest.raises(InputError, match="damaged"):
        read(path)


@pytest.mark.parametrize(
    ("header", "row", "expected"),
    [
        ("op,ranks,size_bytes,time_us", "all_reduce,8,1024,20", (1024.0, 20e-6)),
        ("collective;world_size;message_size;latency_ms", "AllReduce;8;1024;0,02", (1024.0, 20e-6)),
        ("Operation\tGPUs\tSize (KiB)\tTime (us)", "all-reduce\t8\t1\t20", (1024.0, 20e-6)),
        ("coll,n_ranks,bytes,seconds", "allreduce,8,1KiB,2e-05", (1024.0, 20e-6)),
    ],
)
def test_plain_columns_by_many_names(tmp_path: Path, header: str, row: str, expected: tuple[float, float]) -> None:
    (table,) = read(write(tmp_path, "table.csv", f"# measured on Monday\n{header}\n{row}\n"))
    (point,) = table.points
    assert (table.op, table.ranks) == ("all-reduce", 8)
    assert (point.size_bytes, point.seconds) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("header", "message"), [("size,time", "does not say its unit"), ("size_kb,time_us", "1000 or of 1024")]
)
def test_plain_columns_that_can_be_read_in_two_ways(tmp_path: Path, header: str, message: str) -> None:
    path = write(tmp_path, "table.csv", f"{header}\n1,2\n")
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert caught.value.where.endswith("table.csv:1")
    assert caught.value.do


def test_plain_columns_are_grouped(tmp_path: Path) -> None:
    text = "op,ranks,mode,size_bytes,time_us\n" + "".join(
        f"all_reduce,{ranks},{mode},{size},{size / 100}\n"
        for ranks in (4, 8)
        for mode in ("graph", "eager")
        for size in (1024, 2048)
    )
    tables = read(write(tmp_path, "table.csv", text))
    assert [(table.ranks, table.mode, len(table.points)) for table in tables] == [
        *((4, "graph", 2), (4, "eager", 2)),
        *((8, "graph", 2), (8, "eager", 2)),
    ]


def test_repeats_are_numbered(tmp_path: Path) -> None:
    text = plain([(1024, 20.0), (1024, 21.0), (2048, 22.0), (1024, 23.0)])
    (table,) = read(write(tmp_path, "table.csv", text))
    assert [point.repeat for point in table.points] == [0, 1, 0, 2]


def test_of_several_times_the_first_is_taken_and_said(tmp_path: Path) -> None:
    text = "op,ranks,size_bytes,time_us,time_ms\nall-reduce,8,8,5,6\nall-reduce,8,64,5,6\n"
    (table,) = read(write(tmp_path, "two.csv", text))
    assert [point.seconds for point in table.points] == pytest.approx([5e-6, 5e-6])
    assert any(note.code == "several-times" and "time_ms" in note.text for note in table.notes)


def test_a_column_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="two columns are called 'time_us'"):
        read(write(tmp_path, "twice.csv", "op,ranks,size_bytes,time_us,time_us\nall-reduce,8,8,5,7\n"))


def test_a_cell_longer_than_any_of_a_table_is_no_row(tmp_path: Path) -> None:
    log = tmp_path / "long.csv"
    rows = ("all-reduce,8,8,1", f'"{"x" * 200_000}",8,16,2', "all-reduce,8,32,3")
    log.write_text("\n".join(["op,ranks,size_bytes,time_us", *rows]), encoding="utf-8")
    (table,) = read(log)
    assert [point.size_bytes for point in table.points] == [8, 32]
    assert [skip.line for skip in table.skipped] == [3]


def test_a_row_with_more_values_than_columns_is_skipped_and_said(tmp_path: Path) -> None:
    text = "op,ranks,size_bytes,time_us\nall-reduce,8,8,5\nall-reduce,8,8,5,9,9\nall-reduce,8,64,5,,\n"
    (table,) = read(write(tmp_path, "more.csv", text))
    assert len(table.points) == 2
    assert [(skip.line, skip.why) for skip in table.skipped] == [(3, "the row has 6 values for 4 columns")]


@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX are needed")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_that_never_ends_is_refused(device: str) -> None:
    with pytest.raises(InputError, match="this is a device, which never ends"):
        read(device)
    with pytest.raises(InputError, match="the file is empty"):
        read(os.devnull)


def test_standard_input_that_is_closed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input: it is closed"):
        read("-")


def test_a_line_and_what_a_file_unpacks_to_have_bounds(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"0" * (1 << 25)))
    with pytest.raises(InputError, match=r"bomb\.gz:1: the line is too long for a log"):
        read(path)
    path.write_bytes(gzip.compress((b"0" * 99 + b"\n") * 700_000))
    with pytest.raises(InputError, match=r"bomb\.gz: it unpacks to far more"):
        read(path)


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "1e400", "1e308", "1e300"])
def test_a_number_that_no_tool_prints_takes_its_row_alone(tmp_path: Path, number: str) -> None:
    for text in (osu("Latency Test", SWEEP), NcclTests().render(SWEEP)):
        good = read(write(tmp_path, "good.log", text))[0].rows
        assert "2048" in text
        (table,) = read(write(tmp_path, "bad.log", text.replace("2048", number, 1)))
        assert table.rows >= good - 2
        assert all(point.size_bytes <= 1e15 for point in table.points)
    with pytest.raises(InputError, match="File name too long"):
        read("a" * 300)

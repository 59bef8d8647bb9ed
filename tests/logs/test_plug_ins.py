"""A package may bring a reader: it is asked when no built-in one claims a file, or when `--format` names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nhalf.errors import InputError
from nhalf.evidence.readers import read
from nhalf.evidence.readers.detection import plug_ins

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Install = Callable[[str], None]

MODULE = """
from nhalf.collective import Op
from nhalf.evidence.table import Point, Table


class Reader:
    name = "house-bench"

    def sniff(self, head):
        return 0.9 if "HOUSE BENCH" in head else 0.0

    def read(self, lines, source):
        rows = [line for line in lines if line.text[:1].isdigit()]
        points = [
            Point(size_bytes=float(line.text.split()[0]), seconds=float(line.text.split()[1]) * 1e-6, line=line.number)
            for line in rows
        ]
        return [Table(file=source, tool="house bench", op=Op.ALL_REDUCE, ranks=8, points=tuple(points))]


NOT_A_READER = 7
"""
LOG = "[0] HOUSE BENCH\n[0] 1024 20.5\n[0] 2048 21.5\n"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a distribution whose entry point is the one given."""
    folder = tmp_path / "site"
    monkeypatch.syspath_prepend(folder)

    def put(target: str) -> None:
        info = folder / "house_bench-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / "house_bench_plugin.py").write_text(MODULE, encoding="utf-8")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-bench\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[nhalf.readers]\nhouse-bench = {target}\n", encoding="utf-8")

    return put


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "house.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_a_plug_in_reads_what_no_built_in_reader_claims(install: Install, log: Path) -> None:
    with pytest.raises(InputError, match="not a benchmark log"):
        read(log)
    install("house_bench_plugin:Reader")
    (table,) = read(log)
    assert table.tool == "house bench"
    assert [(point.size_bytes, point.line) for point in table.points] == [(1024.0, 2), (2048.0, 3)]


def test_format_names_a_plug_in(install: Install, log: Path) -> None:
    install("house_bench_plugin:Reader")
    assert read(log, format="House Bench")[0].tool == "house bench"
    with pytest.raises(InputError) as caught:
        read(log, format="house-banch")
    assert "house-bench" in caught.value.do


def test_a_plug_in_is_not_loaded_when_a_built_in_reader_claims_the_file(install: Install, tmp_path: Path) -> None:
    install("missing_module:Reader")
    path = tmp_path / "osu.log"
    path.write_text("# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n1    1.86\n", encoding="utf-8")
    assert read(path)[0].tool == "OSU"


@pytest.mark.parametrize(
    ("target", "message"),
    [("missing_module:Reader", "cannot be imported"), ("house_bench_plugin:NOT_A_READER", "is no reader")],
)
def test_a_broken_plug_in_is_named(install: Install, target: str, message: str) -> None:
    install(target)
    with pytest.raises(InputError, match=message) as caught:
        plug_ins()
    assert "house-bench" in caught.value.where


def test_a_plug_in_whose_name_is_missing(install: Install) -> None:
    install("house_bench_plugin:Missing")
    with pytest.raises(InputError, match="cannot be imported"):
        plug_ins()

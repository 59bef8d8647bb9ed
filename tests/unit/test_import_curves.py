"""`tools/import_curves.py` brings measurements into a table of the catalogue, and refuses those in other units."""

from __future__ import annotations

import csv
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from tools import import_curves

from nhalf.catalog.curves import find, read_curves
from nhalf.collective import Mode, Op

if TYPE_CHECKING:
    from pathlib import Path

HEADER = ("system", "library", "version", "mode", "op", "kernel", "dtype", "ranks", "ranks_per_node", "bytes",
          "time_us", "source")  # fmt: skip


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *, scale: float) -> int:
    """Import a table of one curve, whose times are those of vLLM on H100 times `scale`, as version 9.9.0."""
    shutil.copy(import_curves.CURVES / "h100-sxm.csv", folder / "h100-sxm.csv")
    curve = find(
        read_curves((folder / "h100-sxm.csv").read_text(), "h100-sxm"), "vllm", mode=Mode.GRAPH, op=Op.ALL_REDUCE
    )
    assert curve is not None
    with (folder / "new.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for size in (1024, 16384, 262144, 1048576):
            micro = float(curve.time_s(size, 8)) * 1e6 * scale
            row = (
                "h100_sxm",
                "vllm",
                "9.9.0",
                "graph",
                "all_reduce",
                "K",
                "bfloat16",
                8,
                8,
                size,
                micro,
                "here: a.csv",
            )
            writer.writerow(row)
    monkeypatch.setattr(sys, "argv", ["import", str(folder / "new.csv"), "--into", str(folder)])
    return import_curves.main()


def test_a_newer_version_joins_and_is_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, monkeypatch, scale=0.8) == 0
    curves = read_curves((tmp_path / "h100-sxm.csv").read_text(encoding="utf-8"), "h100-sxm")
    newest = find(curves, "vllm", mode=Mode.GRAPH, op=Op.ALL_REDUCE)
    assert newest is not None
    assert newest.key.version == "9.9.0"
    before = read_curves((import_curves.CURVES / "h100-sxm.csv").read_text(encoding="utf-8"), "h100-sxm")
    assert len(curves) == len(before) + 1


@pytest.mark.parametrize("scale", [1e3, 1e-3, 8.0])
def test_other_units_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: float) -> None:
    assert run(tmp_path, monkeypatch, scale=scale) == 2
    assert (tmp_path / "h100-sxm.csv").read_text() == (import_curves.CURVES / "h100-sxm.csv").read_text()

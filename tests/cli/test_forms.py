"""`--csv` and `--md` on every command that has a table: the same rows as in its document, and one form at a time."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import invoke, refused

from nhalf.cli.group import COMMANDS

LOGS = Path(__file__).parents[1] / "logs"
LOG = str(LOGS / "nccl_tests" / "2025-06_all_reduce.txt")
MATRIX = str(next((LOGS / "topo").glob("*.txt")))
JOBS: dict[str, tuple[tuple[str, ...], str]] = {
    "link": (("5us", "400GB/s"), "points"),
    "decode": (("llama-3.1-8b", "--on", "h100-sxm", "--tp", "1,2"), "rows"),
    "compare": (("llama-3.1-8b", "--on", "h100-sxm", "--layout", "tp=1", "--layout", "tp=2"), "pairs"),
    "collective": (("all-reduce", "5us", "400GB/s", "--ranks", "8", "--sizes", "1KiB:1MiB"), "rows"),
    "crossover": (("llama-3.1-8b", "--on", "h100-sxm", "--tp", "8"), "crossovers"),
    "plan": (("llama-3.1-8b", "--on", "h100-sxm", "--gpus", "2"), "rows"),
    "buy": (("llama-3.1-8b", "--on", "h100-sxm", "--option", "hbm=x1.4 @ $1k", "--batch", "1"), "options"),
    "whatif": (("llama-3.1-8b", "--on", "h100-sxm", "--option", "hbm=x1.4", "--batch", "1"), "options"),
    "fit": ((LOG,), "fits"),
    "doctor": ((LOG, "--on", "h100-sxm"), "causes"),
    "simulate": (
        ("all-reduce", "--ranks", "4", "--size", "16KiB", "--latency", "5us", "--bandwidth", "50GB/s"),
        "runs",
    ),
    "topo": ((MATRIX,), "links"),
    "explain": (("crossover",), "words"),
}
ELSEWHERE = {
    "measure",
    "predict",
    "validate",
    "calibrate",
    "trace",
    "sweep",
    "lint",
    "live",
    "tune",
    "catalog",
    "completion",
    "explain",
    "lab",
    "app",
}
"""Commands whose tables are tested beside what makes them, or (completion, explain, app) that have none."""


def test_every_command_is_looked_at() -> None:
    assert set(COMMANDS) == {*JOBS, *ELSEWHERE}


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"completion", "explain", "simulate", "app"}))
def test_every_command_with_a_table_has_all_forms(command: str) -> None:
    text = invoke(command, "--help").out
    assert all(flag in text for flag in ("--json", "--csv", "--md"))


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not isinstance(value, list | dict)}


@pytest.mark.parametrize("command", JOBS)
def test_csv_and_markdown_hold_the_rows_of_the_document(command: str) -> None:
    arguments, rows = JOBS[command]
    expected = [plain(row) for row in invoke(command, *arguments, "--json").document[rows]]
    table = invoke(command, *arguments, "--csv")
    found = list(csv.DictReader(io.StringIO(table.out)))
    assert len(found) == len(expected) > 0
    for row, wanted in zip(found, expected, strict=True):
        for key, value in wanted.items():
            read = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
            assert row[key] == read, key
    lines = invoke(command, *arguments, "--md").out.splitlines()
    assert len(lines) == 2 + len(expected)
    assert lines[0].startswith("| ")


def test_the_catalogue_lists_values_as_rows() -> None:
    document = invoke("catalog", "systems", "h100-sxm", "--json").document
    values = [value for entry in document["entries"] for value in entry["values"]]
    found = list(csv.DictReader(io.StringIO(invoke("catalog", "systems", "h100-sxm", "--csv").out)))
    assert [row["path"] for row in found] == [value["path"] for value in values]
    assert {row["name"] for row in found} == {"h100-sxm"}


def test_a_sweep_sums_up_as_rows(tmp_path: Path) -> None:
    job = ("sweep", "llama-3.1-8b", "--on", "h100-sxm", "--axis", "tp=1,2", "-o", str(tmp_path / "s.csv"))
    found = list(csv.DictReader(io.StringIO(invoke(*job, "--csv").out)))
    assert [row["tp"] for row in found] == ["1", "2"]


@pytest.mark.parametrize("command", ["link", "fit", "collective"])
def test_one_form_at_a_time(command: str) -> None:
    assert "more than one form" in refused(command, *JOBS[command][0], "--csv", "--md")

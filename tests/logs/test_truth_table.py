"""Every log of this folder is read as truth.csv says: what it is, and each table's rows and sizes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from nhalf.evidence.readers import read

HERE = Path(__file__).parent
NAMES = {"sendrecv": "send-recv", "alltoall": "all-to-all"}

with (HERE / "truth.csv").open(encoding="utf-8", newline="") as _stream:
    TRUTH = list(csv.DictReader(_stream))
FILES = sorted({row["file"] for row in TRUTH})


@pytest.mark.parametrize("name", FILES)
def test_log_is_read_as_the_truth_says(name: str) -> None:
    wanted = [row for row in TRUTH if row["file"] == name]
    tables = [table for table in read(HERE / name) if table.rows]
    seen: list[dict[str, str]] = []
    for table in tables:
        sizes = [point.size_bytes for point in table.points]
        seen.append(
            {
                "file": name,
                "table": str(len(seen)),
                "tool": table.tool,
                "op": table.name,
                "ranks": str(table.ranks or ""),
                "nodes": str(table.nodes or ""),
                "quantity": table.quantity or "",
                "size_is": table.size_is,
                "rows": str(table.rows),
                "first_size": f"{sizes[0]:.0f}" if sizes else "",
                "last_size": f"{sizes[-1]:.0f}" if sizes else "",
            }
        )
    for row in wanted:
        row["op"] = NAMES.get(row["op"], row["op"].replace("_", "-"))
    assert seen == wanted


def test_every_log_has_a_truth() -> None:
    folders = {HERE / Path(name).parent for name in FILES}
    logs = {str(path.relative_to(HERE)) for folder in folders for path in folder.iterdir()}
    assert logs == set(FILES)

"""Score the readers on a folder of logs with a TRUTH.csv: what each table is, and its first and last size.

python tests/bench/read_truth.py FOLDER
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from nhalf.errors import NhalfError
from nhalf.evidence.readers import read

if TYPE_CHECKING:
    from nhalf.evidence.table import Table

NAMES = {"sendrecv": "send-recv", "alltoall": "all-to-all", "": ""}
FIELDS = ("tool", "op", "ranks", "nodes", "quantity", "size_is", "n_rows", "first_size", "last_size", "floor")


def observed(table: Table) -> dict[str, str]:
    """Return a table's facts as TRUTH.csv writes them."""
    sizes = [point.size_bytes for point in table.points]
    return {
        "tool": table.tool,
        "op": table.name,
        "ranks": str(table.ranks or ""),
        "nodes": str(table.nodes or ""),
        "quantity": table.quantity or "",
        "size_is": table.size_is,
        "n_rows": str(table.rows),
        "first_size": f"{sizes[0]:.0f}" if sizes else "",
        "last_size": f"{sizes[-1]:.0f}" if sizes else "",
        "floor": "",
    }


def expected(row: dict[str, str]) -> dict[str, str]:
    """Return a row of TRUTH.csv in the words of nhalf."""
    return {**row, "op": NAMES.get(row["op"], row["op"].replace("_", "-"))}


def differences(table: Table | None, row: dict[str, str]) -> list[str]:
    """Return what differs, one text a field; a floor further than 5 % from the truth counts, too."""
    if table is None:
        return ["no such table"]
    seen, wanted = observed(table), expected(row)
    found = [f"{f}: {seen[f]!r}, not {wanted[f]!r}" for f in FIELDS[:-1] if seen[f] != wanted[f]]
    times = [point.seconds for point in table.points] or [figure.value for figure in table.figures]
    figures_of_time = not table.figures or table.figures[0].of != "bandwidth"
    if row["floor_us"] and times and figures_of_time and abs(min(times) * 1e6 / float(row["floor_us"]) - 1.0) > 0.05:
        found.append(f"floor: {min(times) * 1e6:.4g} us, not {row['floor_us']}")
    return found


def main(folder: Path) -> int:
    """Print what differs and the score; return how many rows of the truth were missed."""
    with (folder / "TRUTH.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    by_file: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        by_file[row["file"]].append(row)
    bad = 0
    for name, wanted in by_file.items():
        try:
            tables = [table for table in read(folder / name) if table.rows]
        except NhalfError as error:
            print(f"{name}: {error}")
            bad += len(wanted)
            continue
        if len(tables) > len(wanted):
            print(f"{name}: {len(tables)} tables, not {len(wanted)}")
        for index, row in enumerate(wanted):
            found = differences(tables[index] if index < len(tables) else None, row)
            bad += bool(found)
            for text in found:
                print(f"{name} [{index}]: {text}")
    print(f"{len(rows) - bad} of {len(rows)} tables right")
    return bad


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1])), 1))

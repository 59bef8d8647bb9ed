"""Bring a table of new measurements of collectives into the catalogue's curves, its units checked against those.

    python tools/import_curves.py newer.csv.gz [more.csv.gz] [--into src/nhalf/catalog/data/curves] [--check]

A table is of the form that `build_curves.py` reads, one measured time a row. Curves of a system, library and version
that the catalogue holds already are the check: of the sizes and ranks that both have, the median ratio of times must
lie within a factor of two, or the table is in other units and nothing is written. `--check` writes nothing anyway.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.build_curves import Curves, cell, drop_spikes, read_all, rows_of, without_copies

from nhalf.catalog.curves import COLUMNS, version_order

if TYPE_CHECKING:
    from collections.abc import Iterator

CURVES = Path(__file__).parents[1] / "src" / "nhalf" / "catalog" / "data" / "curves"
WITHIN = 2.0
"""Versions and machines differ by less, units by a thousand or by eight."""


def held(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the comments and the rows of a table of the catalogue; none where there is no table."""
    if not path.is_file():
        return [], []
    lines = path.read_text(encoding="utf-8").splitlines()
    comments = [line for line in lines if line.startswith("#")]
    return comments, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def ratios(rows: list[dict[str, str]], curves: Curves) -> Iterator[float]:
    """Yield new over held times at the sizes and ranks that both have of one library, mode, collective and width."""
    known: dict[tuple[str, str, str, str, int], list[float]] = {}
    for row in rows:
        for size, time in zip(row["sizes_bytes"].split(), row["times_s"].split(), strict=True):
            key = (row["library"], row["mode"], row["op"], row["ranks"], int(size))
            known.setdefault(key, []).append(float(time))
    for (library, _, mode, op, _, _), by_ranks in curves.items():
        for ranks, points in by_ranks.items():
            for size_bytes, micro in points.medians().items():
                times = known.get((library, mode, op, str(ranks), size_bytes))
                if times:
                    yield micro * 1e-6 / statistics.median(times)


def merged(system: str, rows: list[dict[str, str]], curves: Curves) -> list[tuple[str, ...]]:
    """Return the rows of a table with new curves in place of those of the same key."""
    curves, _ = without_copies(curves)
    for key, by_ranks in curves.items():
        drop_spikes(key, by_ranks)
    fresh = [row for key, by_ranks in curves.items() for row in rows_of(system, key, by_ranks)]
    names: tuple[str, ...] = ("library", "version", "mode", "op", "kernel", "dtype", "ranks")
    taken = {tuple(row[COLUMNS.index(name)] for name in names) for row in fresh}
    kept = [tuple(row[name] for name in COLUMNS) for row in rows if tuple(row[name] for name in names) not in taken]
    places = [COLUMNS.index(name) for name in names]

    def order(row: tuple[str, ...]) -> tuple[object, ...]:
        library, version, *rest, ranks = (row[place] for place in places)
        return library, version_order(version), *rest, int(ranks)

    return sorted([*kept, *fresh], key=order)


def main() -> int:
    """Check and write the tables; 2 where a table's units contradict what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measurements", type=Path, nargs="+")
    parser.add_argument("--into", type=Path, default=CURVES)
    parser.add_argument("--check", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    code = 0
    for system, curves in read_all(*arguments.measurements).items():
        comments, rows = held(arguments.into / f"{system}.csv")
        found = list(ratios(rows, curves))
        middle = statistics.median(found) if found else 1.0
        told = (
            f"{len(found)} points overlap, {middle:.3g} times what is held" if found else "nothing to check it against"
        )
        if not 1 / WITHIN <= middle <= WITHIN:
            sys.stderr.write(f"{system}: {told}: the table is in other units, nothing is written\n")
            code = 2
            continue
        sys.stderr.write(f"{system}: {sum(map(len, curves.values()))} curves; {told}\n")
        if not arguments.check:
            lines = [*comments, ",".join(COLUMNS), *(",".join(map(cell, row)) for row in merged(system, rows, curves))]
            (arguments.into / f"{system}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())

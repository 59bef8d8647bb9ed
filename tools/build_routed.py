"""Write the catalogue's tables of expert dispatch and combine from a table of single measurements.

    python -m tools.build_routed moe_all_to_all.csv.gz src/nhalf/catalog/data/curves_moe

The input holds one measured time a row (system, library, version, mode, op, kernel, dtype, ranks, ranks_per_node,
tokens, hidden, topk, experts, bytes, time_us, source). The output is one file a system, one row a curve: the median
time at each number of tokens of a rank. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from tools.build_curves import DATE, SOURCE, SYSTEMS, cell, locator, seconds

from nhalf.catalog.curves import version_order
from nhalf.catalog.routed import COLUMNS

WAYS = {"moe_dispatch": "dispatch", "moe_combine": "combine"}
# A step of its own before a two-sided dispatch: it belongs to it.
PREPARE = "moe_prepare"
# Single versions of one kernel whose rows scatter by 13 to 33 % around any line.
LEFT_OUT = ("deepep_v2_generation", "deepep_v2_context")
# One run of a point in the source, so the noise is that of its repeats elsewhere: 1.4 to 2.8 % around a line.
LOG_SD = 0.03
# (system, version): the source holds the same 548 numbers for both systems, and does not say which of them ran.
COPIED = {(system, "0.5.6.post2") for system in ("h100-sxm", "h200-sxm")}
COPIED_NOTE = "The source has the same numbers for H100 and H200: one of them is a copy."
COPIED_LOG_SD = 0.15

Key = tuple[str, ...]  # library, version, kernel, way, dtype, ranks, ranks_per_node, hidden, topk, experts
Times = dict[float, list[float]]


def main() -> None:
    """Read the arguments and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measurements", type=Path, help="the table of single measurements, .csv.gz")
    parser.add_argument("folder", type=Path, help="where the tables of curves go")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for system, curves in read(arguments.measurements).items():
        text = table(system, curves)
        (arguments.folder / f"{system}.csv").write_text(text, encoding="utf-8", newline="\n")
        sys.stderr.write(f"{system}: {len(text):,} bytes\n")


def read(path: Path) -> dict[str, dict[Key, tuple[Times, set[str]]]]:
    """Return the measured times [us] of every system, by curve and tokens, and the files they come from."""
    systems: dict[str, dict[Key, tuple[Times, set[str]]]] = defaultdict(dict)
    prepared: dict[tuple[str, Key], Times] = defaultdict(lambda: defaultdict(list))
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["kernel"] in LEFT_OUT or row["op"] not in (*WAYS, PREPARE):
                continue
            system = SYSTEMS.get(row["system"], row["system"].replace("_", "-"))
            counts = (str(int(float(row[name]))) for name in ("ranks", "ranks_per_node", "hidden", "topk", "experts"))
            way = WAYS.get(row["op"], "dispatch")
            key = (row["library"], row["version"], row["kernel"], way, row["dtype"], *counts)
            tokens, time = float(row["tokens"]), float(row["time_us"])
            if row["op"] == PREPARE:
                prepared[system, key][tokens].append(time)
                continue
            times, files = systems[system].setdefault(key, (defaultdict(list), set()))
            times[tokens].append(time)
            files.add(row["source"].partition(": ")[2])
    for (system, key), times in prepared.items():
        for tokens, found in times.items():
            points = systems[system][key][0]
            if tokens in points:
                points[tokens] = [median(points[tokens]) + median(found)]
    return dict(sorted(systems.items()))


def table(system: str, curves: dict[Key, tuple[Times, set[str]]]) -> str:
    """Return the text of a system's table."""
    comments = [
        f"Times of expert dispatch and combine measured on {system}, against the tokens of one rank.",
        f"Written by tools/build_routed.py from {SOURCE} (Apache-2.0). A benchmark's host launched them; a time is",
        "the kernel's. NVLinkTwoSided: its prepare step is added to the dispatch. Left out: deepep_v2, which scatters.",
    ]
    lines = [f"# {line}" for line in comments] + [",".join(COLUMNS)]
    for key in sorted(curves, key=lambda key: (key[0], version_order(key[1]), *key[2:5], *map(int, key[5:]))):
        times, files = curves[key]
        copied = (system, key[1]) in COPIED
        points = {tokens: median(times[tokens]) for tokens in sorted(times)}
        cells = dict(zip(COLUMNS[:10], key, strict=True)) | {
            "log_sd": f"{COPIED_LOG_SD if copied else LOG_SD:g}",
            "source": SOURCE,
            "locator": locator(files),
            "date": DATE,
            "note": COPIED_NOTE if copied else "",
            "tokens": " ".join(f"{tokens:g}" for tokens in points),
            "times_s": " ".join(map(seconds, points.values())),
        }
        lines.append(",".join(cell(cells[name]) for name in COLUMNS))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

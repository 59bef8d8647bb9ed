"""Write the catalogue's tables of measured curves from a table of single measurements.

    python tools/build_curves.py collectives.csv.gz nvl72.csv.gz newer_curves.csv.gz src/nhalf/catalog/data/curves

Of later tables come the systems of `ADDED` alone. An input holds one measured time a row (system, library, version,
mode, op, kernel, dtype, ranks, ranks_per_node,
bytes, time_us, source), repeats included. The output is one file a system, one row a curve and number of ranks: the
median of the repeats at each size, the noise of one measurement, and where it all comes from. The same input gives the
same bytes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, fmean, median, quantiles
from typing import TYPE_CHECKING

from nhalf.catalog.curves import COLUMNS, version_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOURCE, DATE = "aiconfigurator-core-0.12.0", "2026-09"
LATER = ("aisimulate-0.13.0", "2026-10")
"""The source of rows that name the package that followed, and its date."""
SYSTEMS = {"gb200": "gb200-nvl72", "gb300": "gb300-nvl72", "rtx_pro_6000_server": "rtx-pro-6000"}

ADDED = ("gb200", "gb300", "h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm")
"""Systems whose curves come from later tables, too: ranks on several trays, and newer versions."""
ONE_KERNEL = {"TRTLLM_MNNVL_oneshot": "TRTLLM", "TRTLLM_MNNVL_twoshot": "TRTLLM"}
"""Kernels of which a library takes one or another by size: together they are its curve."""
LEFT_OUT = ("torch.distributed.nccl.all_reduce",)
"""Kernels whose times are mostly their host's."""

# A single size that takes more than this many times as long as both its neighbours is an accident of the run: a switch
# of algorithm that costs time costs it at more than one size of a grid of doublings, and two messages of half the size
# carry what one of the whole size does.
SPIKE_RATIO = 2.0

# The noise where nothing was repeated, from what two runs of one point differ by elsewhere in the source: 90 % of the
# pairs lie within 5.1 % (nccl-tests), 3.6 % (graph) and 24 % (eager), which is 1.645 x sqrt(2) standard deviations.
DEFAULT_LOG_SD = {"host": 0.022, "graph": 0.016, "eager": 0.10}
ENOUGH_REPEATS = 10
BAND = 0.8  # the band that predictions report: the noise is fitted to hold as many of the repeats

# What is known to be wrong with a curve, by (system, library, version). A flagged curve is found by its version only.
FLAGS = {
    ("h100-sxm", "trtllm", "1.2.0rc5"): "autotuner",
    ("h200-sxm", "trtllm", "1.2.0rc5"): "autotuner",
    ("l40s", "sglang", "0.5.12"): "other-host",
    ("rtx-pro-6000", "sglang", "0.5.10"): "slow-link",
    ("rtx-pro-6000", "trtllm", "1.3.0rc10"): "slow-link",
    ("rtx-pro-6000", "vllm", "0.19.0"): "slow-link",
}
FLAG_NOTES = {
    "autotuner": "TensorRT-LLM's autotuner took NCCL for some sizes of 16 to 512 KiB; it is off in later runs.",
    "other-host": "6 to 11 times faster at 256 MiB than the versions around it: another host, or peer access on.",
    "slow-link": "2.5 to 4 times slower than the later versions on 2 ranks: another pair of slots, or no peer access.",
}
# What a reader should know without the curve being wrong: (system, library, version, ranks): note.
NOTES = {
    ("gb200-nvl72", library, version, 2): (
        "On 2 ranks the bandwidth from 8 MiB on is about 0.4 of what other versions reach, and the floor is lower."
    )
    for library, version in (("vllm", "0.19.0"), ("vllm", "0.24.0"), ("sglang", "0.5.9"))
}
SOURCE_NOTES = {
    "h100-sxm": "The source lists trtllm 1.2.0rc5 a second time, as sglang 0.5.6.post2.",
    "h200-sxm": "The source lists trtllm 1.2.0rc5 a second time, as sglang 0.5.6.post2.",
    "l40s": "The source lists trtllm 1.0.0 again as trtllm 1.3.0rc15, trtllm 1.3.0rc20 and sglang 0.5.9, and vllm "
    "0.14.0 as vllm 0.22.0: copies, left out.",
}

Key = tuple[str, str, str, str, str, str]  # library, version, mode, op, kernel, dtype


@dataclass(slots=True)
class Points:
    """The measured times [us] of one curve and number of ranks, by size [bytes], and the files they come from."""

    ranks_per_node: int
    times: dict[int, list[float]]
    files: set[str]

    @property
    def origin(self) -> tuple[str, str]:
        """Return the source and its date."""
        return LATER if any(file.startswith("aisimulate") for file in self.files) else (SOURCE, DATE)

    def medians(self) -> dict[int, float]:
        """Return the median time [us] at each size, sizes rising."""
        return {size: median(self.times[size]) for size in sorted(self.times)}


Curves = dict[Key, dict[int, Points]]


def main() -> None:
    """Read the arguments and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measurements", type=Path, nargs="+", help="tables of single measurements, .csv.gz")
    parser.add_argument("folder", type=Path, help="where the tables of curves go")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for system, curves in read(*arguments.measurements).items():
        text = table(system, curves)
        (arguments.folder / f"{system}.csv").write_text(text, encoding="utf-8", newline="\n")
        sys.stderr.write(f"{system}: {len(text):,} bytes\n")


def read(*paths: Path) -> dict[str, Curves]:
    """Return the measured times of every system; those of tables after the first, of the systems that are added."""
    return _systems(
        row
        for path in paths
        for row in _rows(path)
        if path == paths[0] or (row["system"] in ADDED and row["kernel"] not in LEFT_OUT)
    )


def read_all(*paths: Path) -> dict[str, Curves]:
    """Return the measured times of every system inside one node or rack, those of a host left out."""
    racks = ("gb200", "gb300")
    return _systems(
        row
        for path in paths
        for row in _rows(path)
        if row["kernel"] not in LEFT_OUT and (row["ranks"] == row["ranks_per_node"] or row["system"] in racks)
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a table, packed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _systems(rows: Iterable[dict[str, str]]) -> dict[str, Curves]:
    """Return the curves of every system."""
    systems: dict[str, Curves] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        _add(systems, row)
    return dict(sorted(systems.items()))


def _add(systems: dict[str, Curves], row: dict[str, str]) -> None:
    """Add one measurement to the curve that it is of; in an NVLink domain all ranks are of one node."""
    system = SYSTEMS.get(row["system"], row["system"].replace("_", "-"))
    kernel = ONE_KERNEL.get(row["kernel"], row["kernel"])
    key = (row["library"], row["version"], row["mode"], row["op"].replace("_", "-"), kernel, row["dtype"])
    ranks = int(row["ranks"])
    per_node = ranks if system in SYSTEMS.values() else int(row["ranks_per_node"])
    points = systems[system][key].setdefault(ranks, Points(per_node, {}, set()))
    points.times.setdefault(int(row["bytes"]), []).append(float(row["time_us"]))
    points.files.add(row["source"].partition(": ")[2])


def table(system: str, curves: Curves) -> str:
    """Return the text of a system's table."""
    curves, copies = without_copies(curves)
    assumed = ", ".join(f"{mode} {log_sd}" for mode, log_sd in DEFAULT_LOG_SD.items())
    spikes = [line for key, by_ranks in curves.items() for line in drop_spikes(key, by_ranks)]
    comments = [
        f"Times of collectives measured on {system}. Written by tools/build_curves.py from {SOURCE} (Apache-2.0).",
        "A time is the median of its repeats; repeats: the most runs of one size. log_sd: the noise of one run as the",
        f"standard deviation of ln(time), from the repeats of all sizes and ranks; without any, by mode: {assumed}.",
        f"Left out, as more than {SPIKE_RATIO} times both neighbours: {len(spikes)} points.",
        *(f"  {line}" for line in spikes),
        f"Left out, as the same numbers under a second version: {len(copies)} curves.",
        *(f"  {line}" for line in copies),
        *([SOURCE_NOTES[system]] if system in SOURCE_NOTES else []),
    ]
    rows = [row for key, by_ranks in curves.items() for row in rows_of(system, key, by_ranks)]
    lines = [f"# {line}" for line in comments] + [",".join(COLUMNS)] + [",".join(map(cell, row)) for row in rows]
    return "\n".join(lines) + "\n"


def without_copies(curves: Curves) -> tuple[Curves, list[str]]:
    """Return the curves, oldest version first, less those that repeat an older one number for number."""
    seen: dict[object, Key] = {}
    kept: Curves = {}
    copies = []
    for key in sorted(curves, key=lambda key: (key[0], version_order(key[1]), *key[2:])):
        numbers = {ranks: points.medians() for ranks, points in sorted(curves[key].items())}
        first = seen.setdefault((key[2:4], str(numbers)), key)
        if first is key:
            kept[key] = dict(sorted(curves[key].items()))
        else:
            copies.append(f"{' '.join(key[:4])} is {' '.join(first[:4])}")
    return kept, copies


def drop_spikes(key: Key, by_ranks: dict[int, Points]) -> list[str]:
    """Drop the single points that stand out above both neighbours; return a line about each."""
    lines = []
    for ranks, points in by_ranks.items():
        sizes, times = zip(*points.medians().items(), strict=True)
        for i in range(1, len(sizes) - 1):
            if times[i] > SPIKE_RATIO * max(times[i - 1], times[i + 1]):
                del points.times[sizes[i]]
                lines.append(
                    f"{' '.join(key[:4])} x{ranks}, {sizes[i]} bytes: {times[i]:.4g} us between {times[i - 1]:.4g} and "
                    f"{times[i + 1]:.4g} us"
                )
    return lines


def rows_of(system: str, key: Key, by_ranks: dict[int, Points]) -> list[tuple[str, ...]]:
    """Return the cells of one curve, a row for a number of ranks, in the order of COLUMNS."""
    flag = FLAGS.get((system, *key[:2]), "")
    log_sd = noise(by_ranks, DEFAULT_LOG_SD[key[2]])
    rows = []
    for ranks, points in by_ranks.items():
        medians = points.medians()
        row = dict(zip(("library", "version", "mode", "op", "kernel", "dtype"), key, strict=True)) | {
            "ranks": str(ranks),
            "ranks_per_node": str(points.ranks_per_node),
            "log_sd": f"{log_sd:.2g}",
            "repeats": str(max(map(len, points.times.values()))),
            "flag": flag,
            "source": points.origin[0],
            "locator": locator(points.files),
            "date": points.origin[1],
            "note": FLAG_NOTES.get(flag, "") or NOTES.get((system, *key[:2], ranks), ""),
            "sizes_bytes": " ".join(map(str, medians)),
            "times_s": " ".join(map(seconds, medians.values())),
        }
        rows.append(tuple(row[name] for name in COLUMNS))
    return rows


def noise(by_ranks: dict[int, Points], default: float) -> float:
    """Return the standard deviation of ln(time) whose 80 % band holds 80 % of the repeats, or the default.

    A deviation is taken from the mean of its point and widened by sqrt(n / (n - 1)), because the mean follows its own n
    points. The share within the band is matched, not the variance: a few runs are off by a factor.
    """
    deviations = []
    for points in by_ranks.values():
        for times in points.times.values():
            logs, count = [math.log(time) for time in times], len(times)
            if count > 1:
                widen = math.sqrt(count / (count - 1))
                deviations += [abs(log - fmean(logs)) * widen for log in logs]
    if len(deviations) < ENOUGH_REPEATS:
        return default
    return quantiles(deviations, n=10, method="inclusive")[round(10 * BAND) - 1] / NormalDist().inv_cdf((1 + BAND) / 2)


def seconds(microseconds: float) -> str:
    """Return a time in seconds with four significant digits, as short as it can be written."""
    mantissa, exponent = f"{microseconds * 1e-6:.3e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def locator(files: set[str]) -> str:
    """Return the files as one text; what differs between several stands in braces."""
    names = [name.split("/") for name in sorted(files)]
    if len({len(name) for name in names}) > 1:
        return "; ".join(sorted(files))
    columns = [list(dict.fromkeys(parts)) for parts in zip(*names, strict=True)]
    several = sum(len(parts) > 1 for parts in columns)
    if several > 1:
        return "; ".join(sorted(files))
    return "/".join(parts[0] if len(parts) == 1 else "{" + ",".join(parts) + "}" for parts in columns)


def cell(text: str) -> str:
    """Return a cell of a table, in quotes where it needs them."""
    return f'"{text}"' if "," in text else text


if __name__ == "__main__":
    main()

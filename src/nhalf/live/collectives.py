"""Collectives that the NCCL or RCCL Inspector or a profiler timed: how long one takes, how far its ranks are apart.

The slower rank of an all-reduce arrives last and waits least, so its own time is near that of the collective itself;
what the others take longer is waiting for it.

References
----------
NVIDIA/nccl, `plugins/profiler/inspector`: JSON lines with `coll_perf`, times in whole microseconds; files for the
textfile collector hold means without counts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.live.exposition import samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.breakdown import Array

MEAN: Final = "nccl_collective_exec_time_microseconds"
_SIZE: Final = re.compile(r"([\d.]+)(?:-[\d.]+)?\s*([KMG]?)i?B", re.IGNORECASE)
_UNITS: Final = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3}
_OPS: Final = {"allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter"}
_ENOUGH: Final = 30
"""Collectives from which on the spread of their ranks is told: times are whole microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calls:
    """Timed collectives: mean time `own_s` of the rank that waits least, and `wait_s` of the one that waits most.

    `wait_s` is NaN where one rank reports. `slowest` is the rank that arrives last most often, -1 where none stands
    out. Arrays over kinds of calls.
    """

    ops: tuple[str, ...]
    size_bytes: Array
    own_s: Array
    wait_s: Array
    counts: Array
    slowest: tuple[int, ...]

    def nearest(self, op: str, size_bytes: float) -> int | None:
        """Return the place of the calls nearest in size, within a factor of 2; None where none is."""
        near = [
            (abs(np.log2(self.size_bytes[place] / size_bytes)), place)
            for place, name in enumerate(self.ops)
            if name == op and self.size_bytes[place] > 0
        ]
        best = min(near, default=(np.inf, -1))
        return best[1] if best[0] <= 1.0 else None


def is_inspector(text: str) -> bool:
    """Tell whether a text is lines of JSON that an inspector wrote."""
    return '"coll_perf"' in text and '"header"' in text


def calls(text: str) -> Calls:
    """Return the collectives that a dump holds, by operation and size; broken lines are passed over."""
    if MEAN in text and not is_inspector(text):
        return _means(text)
    groups: dict[tuple[str, int], dict[tuple[str, int], dict[int, float]]] = {}
    for op, size, number, rank, took in _records(text):
        groups.setdefault((op, size), {}).setdefault(number, {})[rank] = took
    rows = [(op, size, *_of(list(each.values()))) for (op, size), each in sorted(groups.items())]
    return _made(rows)


def _records(text: str) -> Iterator[tuple[str, int, tuple[str, int], int, float]]:
    """Yield the operation, size [bytes], communicator and number, rank and time [s] of each record."""
    for line in text.splitlines():
        try:
            record: Any = json.loads(line)
            perf, header = record["coll_perf"], record["header"]
            took = float(perf["coll_exec_time_us"]) / 1e6
            size, rank = int(perf["coll_msg_size_bytes"]), int(header["rank"])
            number = (str(header.get("id", "")), int(perf["coll_sn"]))
            op = _OPS.get(str(perf["coll"]).lower(), str(perf["coll"]).lower())
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
        if 0 < took < 1e3 and size > 0:  # noqa: PLR2004  a collective of a quarter of an hour is none
            yield op, size, number, rank, took


def _of(found: list[dict[int, float]]) -> tuple[float, float, int, int]:
    """Return the mean own time and wait [s], the count, and the slowest rank of calls of one kind."""
    least = np.array([min(each.values()) for each in found])
    several = [each for each in found if len(each) > 1]
    if len(several) < _ENOUGH:
        return float(np.mean(least)), np.nan, len(found), -1
    waits = [max(each.values()) - min(each.values()) for each in several]
    last = [min(each, key=lambda rank: each[rank]) for each in several]
    slowest = max(set(last), key=last.count)
    stands_out = last.count(slowest) > max(0.5, 2.0 / len(several[0])) * len(last)
    return float(np.mean(least)), float(np.mean(waits)), len(found), slowest if stands_out else -1


def _means(text: str) -> Calls:
    """Return the means of a file for the textfile collector; they have no counts, and each rank stands alone."""
    groups: dict[tuple[str, float], list[float]] = {}
    for each in samples(text, {MEAN}):
        size = _SIZE.search(each.labels.get("message_size", ""))
        if size is None or each.value <= 0:
            continue
        name = each.labels.get("collective", "").lower()
        bytes_ = float(size[1]) * _UNITS[size[2].upper()]
        groups.setdefault((_OPS.get(name, name), bytes_), []).append(each.value / 1e6)
    return _made([(op, size, min(times), np.nan, len(times), -1) for (op, size), times in sorted(groups.items())])


def parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words that name traces of a profiler, and the others."""
    from nhalf.trace.sources import is_trace

    traces = [word for word in words if is_trace(word)]
    return traces, [word for word in words if word not in traces]


def traced(names: Sequence[str]) -> Calls | None:
    """Return the collectives that profilers saw on the ranks of a run, None where no files are named.

    Raises
    ------
    InputError, WeakEvidenceError
        The traces are not of one run, or hold no communication.
    """
    if not names:
        return None
    from nhalf.trace.study import Options, study

    found = study(names, Options())
    slowest = found.verdict.stragglers[0].rank if found.verdict.stragglers else -1
    rows = []
    for row in found.rows:
        own_s, ranks = row.transfer_s if row.transfer_s is not None else row.at_most_s, row.kind.ranks or 0
        # The mean wait is over all ranks, and the last of them does not wait.
        wait_s = row.wait_s * ranks / (ranks - 1) if row.wait_s is not None and ranks > 1 else np.nan
        rows.append((str(row.kind.op), row.kind.size_bytes or 0.0, own_s, wait_s, len(row.transfers_s), slowest))
    return _made(rows)


def _made(rows: list[Any]) -> Calls:
    """Return calls of rows of op, size, own time, wait, count and slowest rank."""
    return Calls(
        ops=tuple(row[0] for row in rows),
        size_bytes=np.array([row[1] for row in rows], dtype=float),
        own_s=np.array([row[2] for row in rows], dtype=float),
        wait_s=np.array([row[3] for row in rows], dtype=float),
        counts=np.array([row[4] for row in rows], dtype=float),
        slowest=tuple(row[5] for row in rows),
    )

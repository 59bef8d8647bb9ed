"""The reader of Flight Recorder dumps: sizes, operations and groups in order; their times are a watchdog's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.trace import sizes
from nhalf.trace.kineto import rank_in_name
from nhalf.trace.recognition import operation
from nhalf.trace.sources import CutShortError, blocks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nhalf.trace.record import Kind, RankTrace
    from nhalf.trace.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded call: operation, size [bytes], group, number in it."""

    op: Op
    size_bytes: float | None
    group: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """One rank's dump; the rank is None when the file's name does not say it."""

    file: str
    rank: int | None
    entries: tuple[Entry, ...]


def read(path: Path) -> Dump:
    """Return the calls that a dump lists.

    Raises
    ------
    InputError
        The file is no Flight Recorder dump.
    """
    try:
        found = msgspec.json.decode(b"".join(blocks(path)))
        entries = [_entry(one) for one in found["entries"]]
    except (ValueError, KeyError, TypeError, RecursionError, CutShortError) as error:
        raise InputError(
            f"this Flight Recorder dump cannot be read: {error}",
            where=str(path),
            allowed="the JSON of _dump_fr_trace_json()",
        ) from error
    return Dump(file=path.name, rank=rank_in_name(path.name), entries=tuple(e for e in entries if e))


def summary(sources: Sequence[Source]) -> str:
    """Return what dumps hold, in words: how many calls of each operation and size."""
    counts: Counter[str] = Counter()
    for source in sources:
        for entry in read(source.path).entries:
            size = "" if entry.size_bytes is None else f" of {units.format_size(entry.size_bytes)}"
            counts[f"{entry.op}{size}"] += 1
    return ", ".join(f"{n} {name}" for name, n in counts.most_common(6)) or "no collectives"


def _entry(one: dict[str, Any]) -> Entry | None:
    op = operation(str(one.get("profiling_name", "")))
    if op is None:
        return None
    group = one.get("process_group") or [""]
    # A size is a list of shapes; one of an all-gather's outputs is the whole, of its inputs a part.
    source = "output" if op is Op.ALL_GATHER else "input"
    total = 0.0
    for shape, dtype in zip(one.get(f"{source}_sizes") or [], one.get(f"{source}_dtypes") or [], strict=False):
        total += sizes.of_shapes(Op.ALL_REDUCE, [shape], [dtype]) or 0.0
    number = one.get("p2p_seq_id") if one.get("is_p2p") else one.get("collective_seq_id")
    return Entry(op=op, size_bytes=total or None, group=str(group[0]), seq=int(number or 0))


def fill(traces: Sequence[RankTrace], dumps: Sequence[Dump], notes: list[str]) -> list[RankTrace]:
    """Return the traces with the sizes of the dumps, where the order of an operation's calls agrees from the end.

    A dump holds the last calls of a process and a trace some of them, so a call is found by its number where the
    trace has numbers, and otherwise only if all calls of the operation in the dump have the same size.
    """
    by_rank = {dump.rank: dump for dump in dumps}
    filled = []
    for trace in traces:
        dump = by_rank.get(trace.rank) or (dumps[0] if len(dumps) == 1 else None)
        if dump is None or all(kind.size_bytes is not None for kind in trace.kinds):
            filled.append(trace)
            continue
        filled.append(_filled(trace, dump))
        notes.append(f"{dump.file}: sizes marked 'flight recorder' come from it")
    return filled


def _filled(trace: RankTrace, dump: Dump) -> RankTrace:
    numbered = {(entry.op, entry.seq): entry.size_bytes for entry in dump.entries}
    only: dict[Op, set[float | None]] = {}
    for entry in dump.entries:
        only.setdefault(entry.op, set()).add(entry.size_bytes)
    kinds: dict[Kind, int] = {}
    column = np.empty(len(trace.calls), dtype=np.int64)
    for i, (k, seq) in enumerate(zip(trace.calls.kind.tolist(), trace.calls.seq.tolist(), strict=True)):
        kind = trace.kinds[k]
        if kind.size_bytes is None:
            sizes_of = only.get(kind.op, set())
            size = numbered.get((kind.op, seq)) if seq >= 0 else (next(iter(sizes_of)) if len(sizes_of) == 1 else None)
            if size is not None:
                kind = replace(kind, size_bytes=size, size_source="flight recorder")
        column[i] = kinds.setdefault(kind, len(kinds))
    return replace(trace, kinds=tuple(kinds), calls=replace(trace.calls, kind=column))

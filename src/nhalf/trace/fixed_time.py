"""Fixed time: the alpha-beta line of each collective where the trace or the user supplies one, and what it implies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from nhalf.collective import Algorithm, Op
from nhalf.curve import fit_line

if TYPE_CHECKING:
    from nhalf.trace.record import Floats, Ints, Kind
    from nhalf.trace.timeline import Timeline

_LOWER = 0.1
"""The quantile of the transfers of one size that counts: above it lies what held them up."""
_FEWEST_SIZES, _WIDEST = 2, 4.0
_FEWEST_CALLS = 3

LineSource: TypeAlias = Literal["trace", "links"]
Pricing: TypeAlias = Callable[["Kind", Algorithm | None], "Line | None"]
"""What the user's links or fit say about a kind of collective run by an algorithm (None: by the kind's own)."""
_Members: TypeAlias = tuple["Floats", "Floats", "Floats", float]
_Key: TypeAlias = tuple[Op, Algorithm | None, int | None, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The time of one collective: `fixed_s` [s] and n / `bandwidth_bytes_per_s`; n is the collective's own size."""

    fixed_s: float
    bandwidth_bytes_per_s: float
    source: LineSource
    sizes: int = 0

    @property
    def half_size_bytes(self) -> float:
        """Return n_1/2 = fixed time x bandwidth [bytes]."""
        return self.fixed_s * self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One class of collectives: what it is, how often a step runs it, and what one costs [s].

    `transfer_s` is the median, `at_most_s` what the shortest durations bound it by without a clock. `wait_s` is the
    mean over calls and ranks, None when one rank is all there is. `line` is None where nothing identifies it.
    """

    kind: Kind
    count_per_step: float
    transfer_s: float | None
    at_most_s: float
    wait_s: float | None
    transfer_low_s: float
    transfers_s: Floats
    line: Line | None

    @property
    def regime(self) -> str | None:
        """Return `latency` or `bandwidth`, None when size or line is unknown."""
        if self.line is None or self.kind.size_bytes is None:
            return None
        return "latency" if self.kind.size_bytes < self.line.half_size_bytes else "bandwidth"

    @property
    def fixed_s(self) -> float | None:
        """Return the fixed part of one transfer [s], never more than the transfer seen; None when not identified."""
        if self.line is None:
            return None
        seen = self.transfer_s if self.transfer_s is not None else self.at_most_s
        return min(self.line.fixed_s, seen)


def rows(timeline: Timeline, price: Pricing | None) -> tuple[list[Row], list[str]]:
    """Return the classes of collectives, those that cost most first, and notes on what is not identifiable."""
    members = _classes(timeline)
    lines, notes = _lines(members)
    found = []
    steps = max(1, len(timeline.labels))
    for kind, (transfer, shortest, wait, per_rank) in members.items():
        line = lines.get(_key(kind)) or (price(kind, None) if price else None)
        found.append(
            Row(
                kind=kind,
                count_per_step=per_rank / steps,
                transfer_s=float(np.median(transfer)) if timeline.waits_known else None,
                at_most_s=float(np.median(shortest)) if timeline.waits_known else float(np.quantile(shortest, _LOWER)),
                wait_s=float(np.mean(wait)) if timeline.waits_known else None,
                transfer_low_s=float(np.quantile(transfer, _LOWER)),
                transfers_s=transfer,
                line=line,
            )
        )
    found.sort(key=lambda row: -(row.count_per_step * ((row.transfer_s or row.at_most_s) + (row.wait_s or 0.0))))
    if price is not None:
        unpriced = sorted({_named(row.kind) for row in found if row.line is None and row.kind.op is not Op.BARRIER})
        notes = [note for note in notes if "not identifiable" not in note or unpriced]
        notes += [f"--links holds no price for {', '.join(unpriced)}"] if unpriced else []
    return found, notes


def _named(kind: Kind) -> str:
    return f"{kind.op} on {kind.ranks} ranks" if kind.ranks else f"{kind.op} on an unknown number of ranks"


def plain(kind: Kind) -> Kind:
    """Return the kind without its group: equal collectives of several groups are one class."""
    return replace(kind, group="", members=(), peers=None)


def _classes(timeline: Timeline) -> dict[Kind, _Members]:
    """Return transfer, shortest duration and mean wait of each class's calls inside the steps, and calls of a rank."""
    if not timeline.waits_known:
        return _of_one_rank(timeline)
    meetings, split = timeline.meetings, timeline.split
    inside = timeline.step >= 0
    waits = np.nansum(split.wait_s, axis=0) / np.maximum(1, (~np.isnan(split.wait_s)).sum(axis=0))
    classes, of = _numbered(meetings.kinds)
    found = {}
    for i, kind in enumerate(classes):
        chosen = inside & (of[meetings.kind] == i)
        if np.any(chosen):
            calls = (meetings.index[:, chosen] >= 0).sum(axis=1)
            found[kind] = (
                split.transfer_s[chosen],
                split.shortest_s[chosen],
                waits[chosen],
                float(calls[calls > 0].mean()),
            )
    return found


def _numbered(kinds: tuple[Kind, ...]) -> tuple[list[Kind], Ints]:
    """Return the distinct kinds without their groups, and the number of the one that each kind belongs to."""
    classes: dict[Kind, int] = {}
    of = [classes.setdefault(plain(kind), len(classes)) for kind in kinds]
    return list(classes), np.array(of, dtype=np.int64)


def _of_one_rank(timeline: Timeline) -> dict[Kind, _Members]:
    trace = timeline.traces[0]
    inside = np.zeros(len(trace.calls), dtype=bool)
    for start, end in timeline.windows_s[0].tolist():
        low, high = np.searchsorted(trace.calls.start_s, (start, end))
        inside[low:high] = True
    length = trace.calls.end_s - trace.calls.start_s
    classes, of = _numbered(trace.kinds)
    found = {}
    for i, kind in enumerate(classes):
        chosen = inside & (of[trace.calls.kind] == i)
        if np.any(chosen):
            found[kind] = length[chosen], length[chosen], np.zeros(int(chosen.sum())), float(chosen.sum())
    return found


def _key(kind: Kind) -> _Key:
    return kind.op, kind.algorithm, kind.ranks, kind.family


def _lines(members: Mapping[Kind, _Members]) -> tuple[dict[_Key, Line], list[str]]:
    """Return the line of each collective that ran at enough sizes, and a note on each that did not."""
    points: dict[_Key, dict[float, list[Floats]]] = defaultdict(lambda: defaultdict(list))
    for kind, (transfer, *_) in members.items():
        if kind.size_bytes and kind.op is not Op.SEND_RECV and not kind.fused:
            points[_key(kind)][kind.size_bytes].append(transfer)
    lines: dict[_Key, Line] = {}
    lacking: list[str] = []
    for key, by_size in points.items():
        held = {size: np.concatenate(some) for size, some in sorted(by_size.items())}
        held = {size: some[some > 0] for size, some in held.items() if np.sum(some > 0) >= _FEWEST_CALLS}
        if len(held) < _FEWEST_SIZES or max(held) < _WIDEST * min(held):
            lacking.append(f"{key[0]}")
            continue
        line = fit_line(np.array(list(held)), np.array([np.quantile(some, _LOWER) for some in held.values()]))
        if line.latency_s > 0 and np.isfinite(line.bandwidth_bytes_per_s):
            lines[key] = Line(
                fixed_s=line.latency_s,
                bandwidth_bytes_per_s=line.bandwidth_bytes_per_s,
                source="trace",
                sizes=len(held),
            )
    notes = [
        f"{key[0]}: the line rests on two sizes, so nothing checks it"
        for key, line in lines.items()
        if line.sizes == _FEWEST_SIZES
    ]
    if lacking:
        notes.append(
            f"latency and bandwidth of {', '.join(sorted(set(lacking)))} are not identifiable from one size: "
            "give a second batch size, or --links"
        )
    elif not points and members:
        notes.append(
            "no sizes are known, so latency and bandwidth are not identifiable: "
            "record shapes, or give --model and --batch"
        )
    return lines, notes


def floor_s(found: list[Row]) -> tuple[float, bool]:
    """Return the fixed time of a step's collectives [s] (2 L alpha as seen here), and whether it is only a bound.

    Without a line the smallest transfers stand for it: the fixed time is at most that.
    """
    bound = any(row.line is None for row in found)
    total = sum(row.count_per_step * (row.fixed_s if row.fixed_s is not None else row.transfer_low_s) for row in found)
    return float(total), bound

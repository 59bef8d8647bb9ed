"""Matching: which calls of different ranks are the same collective, and how far the ranks agree on it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nhalf.collective import Op
from nhalf.errors import WeakEvidenceError
from nhalf.trace import pairing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.trace.record import Ints, Kind, RankTrace

LEAST_AGREEMENT = 0.95
"""Below this share of matched calls nothing is said about who waits for whom."""
_Lane: TypeAlias = tuple[object, ...]
SYMMETRIC = frozenset({Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL, Op.BARRIER})
"""Operations in which nobody can leave before the last one has come."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Meetings:
    """Collectives that several ranks took part in, as columns.

    `index`, (ranks, meetings), holds the call of each rank, -1 where it took no part. `kind` is the kind of the first
    participant; `complete` is false where ranks of the group have no trace. `rate` is the share of calls inside the
    common window that were matched and agree; `how` says by what, `where` where they first disagree.
    """

    index: Ints
    kinds: tuple[Kind, ...]
    kind: Ints
    group: Ints
    complete: np.ndarray[tuple[int], np.dtype[np.bool_]]
    rate: float
    how: tuple[str, ...]
    where: str
    unmatched_messages: int
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of meetings."""
        return int(self.index.shape[1])

    @property
    def symmetric(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which meetings nobody can leave before the last one came."""
        known = np.array([kind.op in SYMMETRIC for kind in self.kinds], dtype=bool)
        return known[self.kind] if len(self) else np.empty(0, dtype=bool)

    @property
    def whole(self) -> bool:
        """Return whether every rank of every group that met has a trace, so that no wait for another is hidden."""
        return bool(np.all(self.complete))

    @property
    def groups(self) -> int:
        """Return the number of groups that met."""
        return len(np.unique(self.group))


@dataclass(slots=True)
class _Tally:
    """Counts agreement while lanes are matched."""

    agreed: int = 0
    all: int = 0
    how: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    where: str = ""
    columns: list[tuple[Ints, int]] = field(default_factory=list)


def match(traces: Sequence[RankTrace]) -> Meetings:
    """Return the meetings of several ranks.

    Raises
    ------
    WeakEvidenceError
        Fewer than 95 % of the calls agree; the message says where they part.
    """
    notes: list[str] = []
    tally = _Tally()
    messages = 0
    lanes = _lanes(traces, notes)
    for number, (lane, members) in enumerate(lanes.items()):
        rows = sorted(members)
        if len(rows) == 1:
            continue
        if lane[0] == "message" and len(rows) > 2:  # noqa: PLR2004  without peers, more than two cannot be paired
            messages += sum(len(calls) for calls in members.values())
            continue
        found = pairing.pair([pairing.Sequence_(traces[row], members[row]) for row in rows])
        tally.how[found.how] += found.index.shape[1]
        tally.agreed += found.agreed
        tally.all += found.all
        if found.where and not tally.where:
            tally.where = f"{_lane_name(lane)}, {found.where}"
        column = np.full((len(traces), found.index.shape[1]), -1, dtype=np.int64)
        column[rows] = found.index
        tally.columns.append((column, number))
    rate = tally.agreed / tally.all if tally.all else 1.0
    if tally.all and rate < LEAST_AGREEMENT:
        raise _disagreement(rate, tally.where)
    return _sorted(traces, tally, rate, messages, notes)


def _disagreement(rate: float, where: str) -> WeakEvidenceError:
    return WeakEvidenceError(
        f"only {100 * rate:.0f} % of the calls match across the ranks; they first part at {where or 'the beginning'}",
        where="matching",
        allowed=f"{100 * LEAST_AGREEMENT:.0f} % or more",
        do="give traces of the same run and the same steps, or one rank alone for bounds",
    )


def _sorted(traces: Sequence[RankTrace], tally: _Tally, rate: float, messages: int, notes: list[str]) -> Meetings:
    """Return the meetings in the order in which their first participants began them."""
    width = sum(column.shape[1] for column, _ in tally.columns)
    index = (
        np.concatenate([column for column, _ in tally.columns], axis=1) if width else np.empty((len(traces), 0), int)
    )
    group = np.concatenate([np.full(c.shape[1], g) for c, g in tally.columns]) if width else np.empty(0, dtype=np.int64)
    start = np.full(index.shape, np.nan)
    kinds: dict[Kind, int] = {}
    kind = np.full(width, -1, dtype=np.int64)
    for row, trace in enumerate(traces):
        there = index[row] >= 0
        shift = (trace.origin_ns - traces[0].origin_ns) * 1e-9
        start[row, there] = trace.calls.start_s[index[row, there]] + shift
        own = np.array([kinds.setdefault(one, len(kinds)) for one in trace.kinds], dtype=np.int64)
        fresh = there & (kind < 0)
        kind[fresh] = own[trace.calls.kind[index[row, fresh]]]
    first = np.nanmin(start, axis=0) if width else np.empty(0)
    order = np.argsort(first, kind="stable")
    listed = tuple(kinds)
    present = {trace.rank for trace in traces}
    whole = np.array([_complete(one, present) for one in listed], dtype=bool)
    if not np.all(whole) and len(traces) > 1:
        away = sorted({rank for one in listed for rank in one.members} - present)
        who = f"rank{'s' * (len(away) > 1)} {', '.join(map(str, away))}" if away else "some ranks of a group"
        have = "has" if len(away) == 1 else "have"
        notes.append(
            f"{who} {have} no trace: time spent waiting for such a rank is counted as transfer, so waits are at least, "
            "and transfers at most, what is shown"
        )
    return Meetings(
        index=index[:, order],
        kinds=listed,
        kind=kind[order],
        group=group[order],
        complete=whole[kind[order]] if width else np.empty(0, dtype=bool),
        rate=rate,
        how=tuple(sorted(tally.how, key=lambda how: -tally.how[how])),
        where=tally.where,
        unmatched_messages=messages,
        notes=tuple(notes),
    )


def _complete(kind: Kind, present: set[int]) -> bool:
    if kind.peers is not None:
        return set(kind.peers) <= present
    if kind.members:
        return set(kind.members) <= present
    return kind.ranks is None or kind.ranks <= len(present)


def _lane_name(lane: _Lane) -> str:
    if lane[0] == "group":
        return f"group {lane[1]}"
    return f"messages of {lane[1]}" if lane[0] == "message" else str(lane[-1])


def _lanes(traces: Sequence[RankTrace], notes: list[str]) -> dict[_Lane, dict[int, Ints]]:
    """Return the calls of each row in each lane: a sequence that has the same order on all of its ranks.

    A group that is known by its arguments is one lane. Without arguments each kernel of each group is a lane of its
    own, because kernels of several groups may interleave. Messages go by their two ends.
    """
    assumed = False
    names = _group_names(traces)
    lanes: dict[_Lane, dict[int, Ints]] = defaultdict(dict)
    for row, trace in enumerate(traces):
        keys: list[_Lane] = []
        for kind in trace.kinds:
            members, guessed = _members(kind, trace, len(traces))
            assumed |= guessed
            keys.append(_lane(kind, members, names[row]))
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        lane = np.array([numbers[key] for key in keys], dtype=np.int64)[trace.calls.kind]
        found = {key: np.flatnonzero(lane == number) for key, number in numbers.items()}
        for key, calls in sorted(found.items(), key=lambda each: each[1][:1].tolist()):
            if len(calls):
                lanes[key][row] = calls
    if assumed:
        notes.append("the trace names no group for some kernels: ranks were taken in blocks of the kernel's group size")
    return lanes


def _lane(kind: Kind, members: tuple[int, ...], names: Mapping[str, str]) -> _Lane:
    if kind.op is Op.SEND_RECV:
        return ("message", frozenset(kind.peers) if kind.peers else members)
    if kind.group:
        return ("group", members, names.get(kind.group, kind.group))
    return ("kernel", members, kind.op, kind.name)


def _group_names(traces: Sequence[RankTrace]) -> list[dict[str, str]]:
    """Map each rank's group keys to names that all ranks share: the key, or its place among groups of the same members.

    Some engines number the groups of each rank on its own, so that equal groups have different names.
    """
    by_members: list[dict[tuple[int, ...], list[str]]] = []
    for trace in traces:
        found: dict[tuple[int, ...], list[str]] = defaultdict(list)
        for kind in trace.kinds:
            if kind.group and kind.members and kind.group not in found[kind.members]:
                found[kind.members].append(kind.group)
        by_members.append(found)
    names: list[dict[str, str]] = [{} for _ in traces]
    for members in {members for found in by_members for members in found}:
        used = [found[members] for found in by_members if members in found]
        if all(set(keys) & set(used[0]) for keys in used):
            continue
        for row, found in enumerate(by_members):
            names[row].update({key: f"{members}, number {i}" for i, key in enumerate(found.get(members, ()))})
    return names


def _members(kind: Kind, trace: RankTrace, present: int) -> tuple[tuple[int, ...], bool]:
    """Return the ranks of a kind's group, and whether they were guessed."""
    if kind.members or kind.ranks is None:
        return kind.members, False
    fitting = {ranks for ranks in trace.header.groups.values() if len(ranks) == kind.ranks and trace.rank in ranks}
    if len(fitting) == 1:
        return fitting.pop(), False
    if kind.ranks >= present or kind.ranks < 1 or kind.group:
        return (), False
    first = trace.rank // kind.ranks * kind.ranks
    return tuple(range(first, first + kind.ranks)), True

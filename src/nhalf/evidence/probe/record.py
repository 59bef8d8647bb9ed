"""The record of a measurement: every time of every cell, round by round, and the document that is saved."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nhalf.collective import Op
from nhalf.evidence.probe import environment, in_loop
from nhalf.evidence.probe.cell import FUSE, HOWS
from nhalf.evidence.probe.statistics import half_width, interval, median
from nhalf.files.writing import write_text
from nhalf.version import VERSION

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.evidence.probe.cell import Cell

SCHEMA: Final = "nhalf.run/1"
_TENTH: Final = 1  # digits of a nanosecond that a burst can resolve


_Key: TypeAlias = tuple[Op, str, tuple[int, ...], str, str, int, str]
_ORDER: Final = (Op.SEND_RECV, *(op for op in Op if op not in (Op.SEND_RECV, Op.BARRIER)), Op.BARRIER)


def _order(key: _Key) -> tuple[object, ...]:
    """Return where a curve stands in the document: messages first, barriers last, isolated before the others."""
    op, _, ends, how, mode, count, label = key
    return (label == FUSE, _ORDER.index(op), ends, HOWS.index(how), mode, count)


@dataclass(slots=True, kw_only=True)
class Entry:
    """A cell with its times [ns]: a list for each round. `skews_ns` are how far apart ranks began, where that counts.

    `about_ns` is the first guess, `burst` how many operations share one reading, `sync` how ranks began together,
    `late` how many windows began too late and were dropped, `works` how many computations an overlap
    hides it under, `parts` what a split or an overlap read. `launches` says from which start of the ranks each round
    is, empty where there was one; `loops` what each visit to a loop says.
    """

    cell: Cell
    about_ns: float = 0.0
    right: bool = True
    burst: int = 1
    sync: str = ""
    rounds: list[list[float]] = field(default_factory=list)
    skews_ns: list[float] = field(default_factory=list)
    late: int = 0
    works: int = 0
    parts: dict[str, list[float]] = field(default_factory=dict)
    launches: list[int] = field(default_factory=list)
    loops: list[dict[str, Any]] = field(default_factory=list)

    def took(self, played: dict[str, Any]) -> None:
        """Keep what a visit to a loop says, and as its time what a token's communication took."""
        self.loops.append(played)
        spent = sum(map(sum, played["steps"].values()))
        self.rounds.append([spent or played["token"]])

    @property
    def medians_ns(self) -> list[float]:
        """Return the median of each round [ns]; of each launch, where the ranks were started anew in between."""
        medians = [median(times) for times in self.rounds if times]
        if not self.launches:
            return medians
        of: dict[int, list[float]] = {}
        for launch, found in zip(self.launches, medians, strict=True):
            of.setdefault(launch, []).append(found)
        return [median(each) for each in of.values()]

    def follow(self, other: Entry, launch: int) -> None:
        """Take the times of the same cell from a later launch, of that number."""
        self.launches = self.launches or [0] * len(list(filter(None, self.rounds)))
        self.launches += [launch] * len(list(filter(None, other.rounds)))
        self.rounds += other.rounds
        self.skews_ns += other.skews_ns
        self.late += other.late
        self.loops += other.loops
        self.right &= other.right
        for name, values in other.parts.items():
            self.parts.setdefault(name, []).extend(values)

    @property
    def spread(self) -> float:
        """Return half the width of the median's 95 % interval over rounds, over the median; infinite when unknown."""
        found = self.medians_ns
        return half_width(found) if found else float("inf")

    def to_dict(self) -> dict[str, Any]:
        """Return the point as the document holds it."""
        medians = self.medians_ns
        ends = interval(medians) if medians else None
        return {
            "size_bytes": self.cell.size_bytes,
            "right": self.right,
            "burst": self.burst,
            "late": self.late,
            "median_s": median(medians) * 1e-9 if medians else None,
            "low_s": ends[0] * 1e-9 if ends else None,
            "high_s": ends[1] * 1e-9 if ends else None,
            "min_s": min(map(min, filter(None, self.rounds))) * 1e-9 if medians else None,
            "skew_s": median(self.skews_ns) * 1e-9 if self.skews_ns else None,
            "rounds_ns": [[round(time, _TENTH) for time in times] for times in self.rounds if times],
            "launches": self.launches or None,
        }


@dataclass(slots=True, kw_only=True)
class Doubt:
    """Something to know before the numbers are believed, and the command that would settle it."""

    code: str
    text: str
    do: str = ""


@dataclass(slots=True, kw_only=True)
class Record:
    """A measurement as it grows.

    `ranks` says what each rank said of itself, `transports` what carried the bytes, `placed` on which processors.
    """

    backend: str
    command: str
    seed: int
    ranks: dict[int, dict[str, Any]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    transports: list[dict[str, str]] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    clock: str = ""
    started: str = field(default_factory=lambda: dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds"))
    seconds: float = 0.0
    complete: bool = False
    lost: str = ""
    launches: int = 1
    placed: dict[str, str] = field(default_factory=dict)

    def follow(self, other: Record) -> None:
        """Take what the same ranks, started anew, measured; what holds for the run is the later launch's."""
        mine = {entry.cell: entry for entry in self.entries}
        for entry in other.entries:
            if entry.cell in mine:
                mine[entry.cell].follow(entry, self.launches)
            else:
                entry.launches = [self.launches] * len(list(filter(None, entry.rounds)))
                self.entries.append(entry)
        self.launches += 1
        self.seconds += other.seconds
        self.ranks, self.clock, self.placed = other.ranks, other.clock, other.placed or self.placed
        self.complete, self.lost = other.complete, other.lost
        self.transports += [each for each in other.transports if each not in self.transports]
        codes = {doubt.code for doubt in other.doubts}
        self.doubts = [doubt for doubt in self.doubts if doubt.code not in codes] + other.doubts

    def between_launches(self) -> tuple[float, float] | None:
        """Return how far the medians of the launches are apart, relative to their middle: typically, and at most."""
        found = [
            (max(medians) - min(medians)) / median(medians)
            for entry in self.entries_of("isolated", "back_to_back", "graph")
            if entry.launches and len(medians := entry.medians_ns) > 1
        ]
        return (median(found), max(found)) if found else None

    @property
    def nodes(self) -> dict[int, int]:
        """Return the node of each rank: hosts are numbered as they first occur."""
        hosts: dict[str, int] = {}
        return {rank: hosts.setdefault(self.ranks[rank]["host"], len(hosts)) for rank in sorted(self.ranks)}

    @property
    def merged(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the environment of all ranks, and the names in which they differ."""
        return environment.common([self.ranks[rank].get("environment", {}) for rank in sorted(self.ranks)])

    @property
    def samples(self) -> int:
        """Return how many times were read."""
        return sum(len(times) for entry in self.entries for times in entry.rounds)

    def entries_of(self, *hows: str) -> list[Entry]:
        """Return the entries that were timed in one of some ways."""
        return [entry for entry in self.entries if entry.cell.how in hows]

    def document(self) -> dict[str, Any]:
        """Return what is saved."""
        nodes = self.nodes
        merged, differ = self.merged
        played = [(entry.cell, entry.right, entry.loops) for entry in self.entries if entry.loops]
        return {
            "schema": SCHEMA,
            "nhalf_version": VERSION,
            "command": self.command,
            "backend": self.backend,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "complete": self.complete,
            "lost": self.lost or None,
            "seed": self.seed,
            "launches": self._launches(),
            "clock": self.clock,
            "environment": merged | self.placed,
            "differs_between_ranks": list(differ),
            "ranks": [
                {"rank": rank, "node": nodes[rank], **{k: self.ranks[rank].get(k) for k in ("host", "pid", "cpus")}}
                for rank in sorted(self.ranks)
            ],
            "transports": self.transports,
            "doubts": [{"code": each.code, "text": each.text, "do": each.do} for each in self.doubts],
            "curves": [*self._curves(), *in_loop.curves(played, nodes)],
            "loops": [in_loop.described(cell, loops) for cell, _, loops in played],
            "parts": [
                {**asdict(entry.cell), "rounds_ns": entry.parts} for entry in self.entries_of("split", "overlap")
                if entry.parts
            ],
        }  # fmt: skip

    def _launches(self) -> dict[str, float | None]:
        typical, most = self.between_launches() or (None, None)
        return {"count": self.launches, "typical_difference": typical, "largest_difference": most}

    def _curves(self) -> list[dict[str, Any]]:
        groups: dict[_Key, list[Entry]] = {}
        for entry in self.entries_of("isolated", "back_to_back", "graph"):
            cell = entry.cell
            ends = cell.ranks if cell.is_pair else (len(cell.ranks),)
            key: _Key = (cell.op, cell.channel, ends, cell.how, str(cell.mode or ""), cell.count, cell.label)
            groups.setdefault(key, []).append(entry)
        nodes = self.nodes
        found = []
        for found_key in sorted(groups, key=_order):
            group = groups[found_key]
            cell = group[0].cell
            found.append(
                {
                    "op": str(cell.op),
                    "test": "point-to-point" if cell.is_pair else "",
                    "channel": cell.channel,
                    "label": cell.label,
                    "ranks": len(cell.ranks),
                    "of_ranks": list(cell.ranks) if cell.is_pair else None,
                    "nodes": len({nodes.get(rank, 0) for rank in cell.ranks}),
                    "mode": str(cell.mode) if cell.mode else None,
                    "quantity": cell.how,
                    "count": cell.count,
                    "size_is": "message" if cell.is_pair else "total",
                    "streamed": cell.is_pair and cell.how == "back_to_back",
                    "sync": " and ".join(sorted({entry.sync for entry in group if entry.sync})),
                    "points": [entry.to_dict() for entry in sorted(group, key=lambda each: each.cell.size_bytes)],
                }
            )
        return found

    def save(self, path: Path) -> None:
        """Write the document, in one step. Raises InputError when it cannot."""
        text = json.dumps(self.document(), indent=1, allow_nan=False)
        write_text(path, f"{text}\n")

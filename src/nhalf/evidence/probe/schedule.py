"""The schedule: cells in random order, round after round, until every median is known or the time is up."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from nhalf import units
from nhalf.collective import Op
from nhalf.evidence.probe import loop_times
from nhalf.evidence.probe.messages import Prepare, Visit
from nhalf.evidence.probe.record import Entry
from nhalf.evidence.probe.statistics import interval, median
from nhalf.evidence.probe.timing import GRAPH_CALLS, WARM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.evidence.probe.cell import Cell
    from nhalf.evidence.probe.conductor import Conductor
    from nhalf.evidence.probe.messages import Order
    from nhalf.evidence.probe.record import Record

_LEAST_ROUNDS: Final = 6
"""Fewer values have no 95 % interval of their median."""
_VISIT_NS: Final = 4e6
"""About how long a visit lasts."""
_MOST, _FEW, _SLOW_NS = 40, 3, 5e6
_BURST_NS: Final = 1e6
_LEAST_BURST, _MOST_BURST = 8, 64
_LATE_SHARE: Final = 0.02
_LATE_NS: Final = 2e3
_MARGIN_NS: Final = 2e6  # for a message to reach each rank before the first window
_PREPARING: Final = 0.6
"""Cells that are not ready after this share of the budget are left out."""
_ONE_CELL: Final = 0.05
"""No larger size of a curve is begun once warming one up takes this share of the budget."""
_ROOM: Final = 1.5
_ROOM_NS: Final = 5e4
_TOO_LATE: Final = 0.5
_TOO_MANY_LATE, _FEW_VISITS = 0.25, 8
WINDOW: Final = "window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When to stop: within `target` of each median, or after `budget_s` [s]; `deadline_s` [s] bounds every wait.

    `windows` says whether ranks begin by the clock (else after a barrier).
    """

    budget_s: float
    deadline_s: float
    target: float = 0.02
    seed: int = 1
    windows: bool = False


class Schedule:
    """Visits to cells; `ahead_ns` is how far the clock of each rank is ahead of the conductor's."""

    def __init__(
        self, conductor: Conductor, record: Record, terms: Terms, progress: Callable[[float, str], None]
    ) -> None:
        """Begin with no cells."""
        self._conductor = conductor
        self._record = record
        self._terms = terms
        self._progress = progress
        self._random = random.Random(terms.seed)  # noqa: S311  an order, not a secret
        self._ids: dict[int, Entry] = {}
        self._by_clock = terms.windows
        self._window_visits = self._late_visits = 0
        self.ahead_ns: dict[int, int] = {}
        self.left_out: list[Cell] = []
        self._started = time.monotonic()

    @property
    def spent_s(self) -> float:
        """Return the time since the beginning [s]."""
        return time.monotonic() - self._started

    def prepare(self, cells: Sequence[Cell], share: float = 0.15) -> list[int]:
        """Make each cell on its ranks, check its results, and warm it up; return the numbers of those that were.

        Small sizes come first, after what was asked for by itself. Larger ones of a curve are left
        out, and listed in `left_out`, once one of them would take so long that others could not be seen.
        """
        fresh: list[int] = []
        slow: set[tuple[object, ...]] = set()
        for index, cell in enumerate(sorted(cells, key=lambda each: (not each.is_extra, each.size_bytes))):
            curve = (cell.op, cell.channel, cell.ranks)
            is_late = self.spent_s > _PREPARING * self._terms.budget_s
            if not cell.is_extra and (curve in slow or is_late):
                self.left_out.append(cell)
                continue
            fresh.append(number := self._prepare(cell))
            warm_s = self._ids[number].about_ns * 1e-9 * (WARM + 2)
            if not cell.is_extra and warm_s > _ONE_CELL * self._terms.budget_s:
                slow.add(curve)
            self._progress(share * (index + 1) / len(cells), "warming up")
        return fresh

    def _prepare(self, cell: Cell) -> int:
        number = len(self._ids)
        answers = self._ask(cell, Prepare(id=number, cell=cell))
        entry = self._ids[number] = Entry(cell=cell)
        entry.about_ns = max(1.0, *(answer["about_ns"] for answer in answers.values()))
        entry.right = all(answer["right"] for answer in answers.values())
        self._record.entries.append(entry)
        if cell.how == "overlap":
            self._calibrate(number)
        return number

    def rounds(self, numbers: Sequence[int]) -> int:
        """Visit cells in random order, round after round; return the rounds that were finished.

        What was asked for by itself, or never kept an appointment, is timed once, after a barrier.
        """
        done = self._rounds(numbers)
        for number in numbers:
            entry = self._ids[number]
            if (entry.cell.is_extra or entry.late) and not entry.rounds and not entry.parts:
                self._by_clock = False
                self.visit(number)
        return done

    def _rounds(self, numbers: Sequence[int]) -> int:
        done, budget = 0, self._terms.budget_s
        order = list(numbers)
        while order:
            self._random.shuffle(order)
            if not done:
                order.sort(key=lambda number: not self._ids[number].cell.is_extra)
            for number in order:
                if self.spent_s >= budget and (done or self.spent_s >= 2 * budget):
                    return done
                self.visit(number)
                self._progress(min(0.15 + 0.85 * self.spent_s / budget, 1.0), f"round {done + 1}")
            done += 1
            if done >= _LEAST_ROUNDS and all(self._ids[number].spread <= self._terms.target for number in order):
                return done
        return done

    def largest(self, channel: str, ranks: tuple[int, ...]) -> int | None:
        """Return the number of the largest isolated cell of some ranks on a channel, None where there is none."""
        found = [
            number for number, entry in self._ids.items()
            if (entry.cell.channel, entry.cell.ranks, entry.cell.how) == (channel, ranks, "isolated")
        ]  # fmt: skip
        return max(found, key=self.size_of, default=None)

    def about_s(self, number: int) -> float:
        """Return the first guess at the time of a cell [s]."""
        return self._ids[number].about_ns * 1e-9

    def has_spent(self, share: float) -> bool:
        """Tell whether a share of the budget is spent."""
        return self.spent_s > share * self._terms.budget_s

    def size_of(self, number: int) -> int:
        """Return the size of a cell [bytes]."""
        return self._ids[number].cell.size_bytes

    def visit(self, number: int) -> int:
        """Time a cell a few times more, and return how many times."""
        entry = self._ids[number]
        order = self._order(number, entry)
        if self._by_clock and not entry.cell.is_pair and entry.cell.how == "isolated":
            self._visit_by_clock(entry, order)
            return order.repetitions
        answers = self._ask(entry.cell, order)
        if entry.cell.program is not None:
            entry.took(loop_times.played(entry.cell.program, answers, self.ahead_ns))
            return order.repetitions
        if entry.cell.how in ("split", "overlap"):
            _parts(entry, answers)
            return order.repetitions
        pair = next((answer["times"] for answer in answers.values() if "times" in answer), None)
        if pair is not None:
            entry.sync = "ping-pong" if entry.cell.how == "isolated" else "burst"
            entry.rounds.append(pair)
            return len(pair)
        rooted = entry.cell.op is Op.BROADCAST
        entry.sync = "barrier"
        times, skews = after_barriers(answers, self.ahead_ns, root=entry.cell.ranks[0] if rooted else None)
        entry.rounds.append([each / entry.burst for each in times])
        entry.skews_ns.append(median(skews))
        return len(times)

    def _order(self, number: int, entry: Entry) -> Visit:
        """Return how often a visit repeats, and how many operations share a reading."""
        about = entry.about_ns
        burst = 1
        if entry.cell.how == "back_to_back":
            burst = int(min(max(_BURST_NS / about, _LEAST_BURST), _MOST_BURST))
        once = about * burst
        fewest = 1 if once > _SLOW_NS else _FEW
        entry.burst = GRAPH_CALLS if entry.cell.how == "graph" else burst
        repetitions = int(min(max(_VISIT_NS / once, fewest), _MOST))
        return Visit(id=number, repetitions=repetitions, burst=burst, works=entry.works)

    def _visit_by_clock(self, entry: Entry, order: Visit) -> None:
        """Let all ranks begin at set times, and count from them to the end of the last rank."""
        window = int(entry.about_ns * _ROOM + _ROOM_NS)
        start = time.perf_counter_ns() + int(_MARGIN_NS)
        answers = self._conductor.ask(
            {
                rank: structs.replace(order, start_ns=start + self.ahead_ns.get(rank, 0), window_ns=window)
                for rank in entry.cell.ranks
            },
            self._terms.deadline_s,
        )
        times, late = by_clock(answers, self.ahead_ns, start, window)
        entry.late += late
        self._window_visits += 1
        if times:
            entry.sync = WINDOW
            entry.rounds.append(times)
        if late > _TOO_LATE * order.repetitions:
            entry.about_ns *= _ROOM  # the first guess may have been too short
            self._late_visits += 1
            self._give_up_windows()

    def _give_up_windows(self) -> None:
        """Turn to barriers when ranks cannot keep appointments, and forget what was timed by the clock."""
        if self._window_visits < _FEW_VISITS or self._late_visits < _TOO_MANY_LATE * self._window_visits:
            return
        self._by_clock = False
        for entry in self._ids.values():
            if entry.sync == WINDOW:
                entry.rounds.clear()
                entry.sync = ""

    def _calibrate(self, number: int) -> None:
        """Find how many small computations last as long as the operation."""
        entry = self._ids[number]
        answers = self._ask(entry.cell, Visit(id=number, repetitions=WARM, works=64))
        one = max(median(answer["work"]) for answer in answers.values()) / 64.0
        entry.works = max(1, round(entry.about_ns / max(one, 1.0)))

    def _ask(self, cell: Cell, order: Order) -> dict[int, Any]:
        return self._conductor.ask(dict.fromkeys(cell.ranks, order), self._terms.deadline_s)


def after_barriers(
    answers: Mapping[int, Any], ahead_ns: Mapping[int, int], *, root: int | None = None
) -> tuple[list[float], list[float]]:
    """Return the time of the slowest rank, and how far apart the ranks left the barrier [ns], for each repetition.

    With a `root`, from which all data come, the time is that from its start to the last rank's end: a rank that leaves
    the barrier late finds the data there, and would call it quick.
    """
    readings = list(answers.items())
    count = len(readings[0][1]["starts"])
    times, skews = [], []
    for index in range(count):
        begun = {rank: answer["starts"][index] - ahead_ns.get(rank, 0) for rank, answer in readings}
        if root is None:
            time_ns = max(answer["ends"][index] - answer["starts"][index] for _, answer in readings)
        else:
            time_ns = max(answer["ends"][index] - ahead_ns.get(rank, 0) for rank, answer in readings) - begun[root]
        times.append(max(float(time_ns), 1.0))
        skews.append(float(max(begun.values()) - min(begun.values())))
    return times, skews


def by_clock(
    answers: Mapping[int, Any], ahead_ns: Mapping[int, int], start: int, window: int
) -> tuple[list[float], int]:
    """Return the times [ns] from the start of each window to the end of the last rank, and how many began too late."""
    readings = list(answers.items())
    count = len(readings[0][1]["starts"])
    times, late = [], 0
    for index in range(count):
        due = start + (index + 1) * window  # the first window is for warming up
        begun = max(answer["starts"][index] - ahead_ns.get(rank, 0) for rank, answer in readings)
        ended = max(answer["ends"][index] - ahead_ns.get(rank, 0) for rank, answer in readings)
        if begun - due > max(_LATE_SHARE * (ended - due), _LATE_NS):
            late += 1
        else:
            times.append(float(ended - due))
    return times, late


def _parts(entry: Entry, answers: Mapping[int, Any]) -> None:
    """Keep what a split or an overlap read: the slowest rank's of each."""
    for name in ("enqueue", "wait", "alone", "work", "both"):
        found = [median(answer[name]) for answer in answers.values() if answer.get(name)]
        if found:
            entry.parts.setdefault(name, []).append(max(found))


def settled(entries: Sequence[Entry], target: float) -> int:
    """Return how many entries have a median that is known within the target."""
    return sum(1 for entry in entries if entry.spread <= target)


def worst(entries: Sequence[Entry]) -> str:
    """Return in words the entry whose median is known least."""
    entry = max(entries, key=lambda each: each.spread)
    size = units.format_size(entry.cell.size_bytes)
    where = " ".join(filter(None, (str(entry.cell.op), entry.cell.label or entry.cell.channel, size)))
    if math.isinf(entry.spread):
        return f"{where}, seen in {len(entry.medians_ns)} rounds"
    low, high = interval(entry.medians_ns) or (0.0, 0.0)
    return f"{where}, {units.format_time(low * 1e-9)} to {units.format_time(high * 1e-9)}"

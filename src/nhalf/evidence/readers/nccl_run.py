"""One run of nccl-tests or rccl-tests: what its banner says, its rows as they come, and the tables they make."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from nhalf.collective import Mode
from nhalf.evidence.readers.columns import interval, note
from nhalf.evidence.readers.nccl_operation import Operation, operation
from nhalf.evidence.readers.nccl_rows import TYPES
from nhalf.evidence.readers.numerals import GIGABYTE_PER_S, MICROSECOND, half_step, real
from nhalf.evidence.table import Note, Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.nccl_rows import Row, Side
    from nhalf.sample import Timing

_SETTINGS: Final = {
    "graph": re.compile(r"\bgraph: *(\d+)"),
    "agg_iters": re.compile(r"\bagg iters: *(\d+)"),
    "iterations": re.compile(r"(?<!agg )(?<!warmup )\biters: *(\d+)"),
    "warmup": re.compile(r"\bwarmup iters: *(\d+)"),
    "threads": re.compile(r"\bnThreads?:? +(\d+)"),
    "gpus_per_process": re.compile(r"\bnGpus:? +(\d+)"),
    "ranks": re.compile(r"\bnRanks:? +(\d+)"),
}
_PROCESSES = re.compile(r"(?:mpi(?:run|exec)|prun|srun)\b.*?(?<=\s)(?:-np?|--ntasks|--np)[ =]*(\d+)\b")
_FLAGS: Final = {
    "threads": re.compile(r"(?<=\s)(?:-t|--nthreads)[ =]+(\d+)"),
    "gpus_per_process": re.compile(r"(?<=\s)(?:-g|--ngpus)[ =]+(\d+)"),
}
_RANK = re.compile(r"\bRank +(\d+) +(?:Group +(\d+) +)?Pid +(\d+) +on +(\S+) +device +\d+ +\[[^\]]*\] *(.*)")
_VERSION = re.compile(r"nccl-tests version +(\S+).*?nccl-library=(\d+)")
_RCCL_VERSION = re.compile(r"rccl-tests: Version +(\S+)")
_AMD = re.compile(r"\b(?:AMD|Instinct|Radeon|MI\d{3}|gfx\d+)")
_RIGHT: Final = frozenset({"0", "N/A", ""})
_INFINITE: Final = frozenset({"inf", "nan", "-nan"})
_MOST = 0.8  # of the rows: a rule that so many keep is a rule
_SLACK = 0.02  # relative; a mangled row misses by far more


def command(text: str) -> dict[str, str]:
    """Return what the command of a run says: its processes, and the threads and GPUs of each."""
    started = _PROCESSES.search(text)
    flags = {key: found[1] for key, pattern in _FLAGS.items() if (found := pattern.search(text.partition("_perf")[2]))}
    return {"processes": started[1], **flags} if started else flags


class Device(NamedTuple):
    """One `Rank` line of a banner; the JSON form has one a process."""

    rank: int
    group: int
    host: str
    name: str
    process: str = ""


@dataclass(slots=True, kw_only=True)
class Run:
    """What was read of one run so far; `copies` counts the banners that came before its first row."""

    source: str
    named: str = ""
    tool: str = "nccl-tests"
    settings: dict[str, str] = field(default_factory=dict)
    devices: list[Device] = field(default_factory=list)
    copies: int = 0
    nodes: int | None = None
    timing: str = ""
    in_place_only: bool = False
    header_seen: bool = False
    elided: bool = False
    failed: bool = False
    zero_rows: int = 0
    rows: list[tuple[int, int, Row, bool]] = field(default_factory=list)  # part, line, row, whether it is consistent
    skipped: list[Skipped] = field(default_factory=list)
    _last: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _part: int = 0

    def banner(self, text: str) -> None:
        """Take what a line of the banner says."""
        if found := _RANK.search(text):
            device = Device(int(found[1]), int(found[2] or 0), found[4], found[5].strip(), found[3])
            self.devices.append(device)
            if _AMD.search(device.name):
                self.tool = "rccl-tests"
            return
        for key, pattern in _SETTINGS.items():
            if found := pattern.search(text):
                self.settings[key] = found[1]
        if "Blocking Enabled" in text:
            self.timing = text.partition("Blocking Enabled:")[2].strip() or "blocking"
        if found := _VERSION.search(text):
            self.settings |= {"version": found[1], "library": f"nccl {found[2]}"}
        if found := _RCCL_VERSION.search(text):
            self.tool = "rccl-tests"
            self.settings["version"] = found[1]

    def add(self, line: int, row: Row, *, new_header: bool) -> None:
        """Take a row; a sweep that starts over is another part, except where copies of a program talk at once."""
        consistent = agrees(row)
        key = (row.type, row.redop, row.root)
        last = self._last.get(key)
        again = last is not None and (row.size < last or (new_header and row.size <= last))
        if again and consistent and not self.mixed:
            self._part += 1
            self._last.clear()
        if consistent:
            self._last[key] = row.size
        if row.size == 0:
            self.zero_rows += 1
            self.skipped.append(Skipped(file=self.source, line=line, why="the size is 0: fewer bytes than ranks"))
        else:
            self.rows.append((self._part, line, row, consistent))

    @property
    def mixed(self) -> bool:
        """Return whether the output of several processes, each a rank 0 of its own, is interleaved."""
        ranks = [(device.rank, device.group) for device in self.devices]
        return self.copies > 1 and len(set(ranks)) < len(ranks)

    def tables(self) -> list[Table]:
        """Return the tables of the run: one for each part and each type, reduction and root."""
        groups: dict[tuple[int, str, str, str], list[tuple[int, Row]]] = {}
        for part, line, row, _ in self._trusted():
            groups.setdefault((part, row.type, row.redop, row.root), []).append((line, row))
        counts, where = self._counts(), self._where()
        tables = [self._table(rows, counts, where) for rows in groups.values()]
        if tables and self.skipped:
            tables[0] = _with_skipped(tables[0], self.skipped)
        elif self.skipped:
            tables = [Table(file=self.source, tool=self.tool, skipped=tuple(self.skipped))]
        return tables

    def _trusted(self) -> list[tuple[int, int, Row, bool]]:
        """Return the rows without damaged ones: time and bandwidth contradict each other, and no rule explains it."""
        usual = sum(agrees for *_, agrees in self.rows) >= _MOST * len(self.rows)
        kept = []
        for entry in self.rows:
            if entry[3] or not (usual or _is_cut(entry[2]) or not self.header_seen):
                kept.append(entry)
            else:
                why = "its size, time and bandwidth contradict each other: the row is damaged"
                self.skipped.append(Skipped(file=self.source, line=entry[1], why=why))
        return kept

    def _table(self, numbered: list[tuple[int, Row]], counts: tuple[int | None, ...], where: dict[str, str]) -> Table:
        rows = [row for _, row in numbered]
        alone = self.mixed and all((real(side.busbw) or 0.0) == 0.0 for side in _sides(rows))
        what = operation(rows, (1,) if alone else counts, self.named)
        nodes = self._nodes(what.ranks, counts)
        quantity = self._quantity()
        points, unread = _points(numbered, self.source)
        self.skipped.extend(unread)
        return Table(
            file=self.source,
            tool=self.tool,
            op=what.op,
            test="" if what.op else what.test.replace("_", "-"),
            ranks=1 if alone else what.ranks,
            nodes=1 if alone else nodes,
            mode=Mode.GRAPH if quantity == "graph" else Mode.HOST,
            quantity=quantity,
            size_is=what.size_is,
            dtype=rows[0].type,
            label=_label(rows[0]),
            points=points,
            environment=self.settings | where,
            notes=tuple(self._notes(what, rows, alone=alone, known_nodes=nodes is not None)),
        )

    def _counts(self) -> tuple[int | None, ...]:
        """Return how many ranks the log speaks of, surest first: its list or its settings, then the command."""
        command = int(self.settings["processes"]) if "processes" in self.settings else None
        each = self._setting("threads") * self._setting("gpus_per_process")
        if not self.devices:
            stated = int(self.settings["ranks"]) if "ranks" in self.settings else None
            return stated, command * each if command else None
        group = self.devices[0].group
        ranks = {device.rank for device in self.devices if device.group == group}
        if len({device.group for device in self.devices}) > 1:  # groups share the numbering
            return (len(ranks),)
        # A list whose head is cut still ends with the last rank; one of processes, or cut inside one, is short.
        processes = {(device.host, device.process) for device in self.devices}
        made = 0 if self.mixed else len(processes) * each
        return max(ranks) + 1 if made <= max(ranks) else made, command * each if command else None

    def _setting(self, name: str) -> int:
        return int(self.settings.get(name, "1"))

    def _nodes(self, ranks: int | None, counts: tuple[int | None, ...]) -> int | None:
        """Return the nodes that the log states, or the hosts of its list of ranks, where that is whole."""
        if self.nodes:
            return self.nodes
        if not self.devices or min(device.rank for device in self.devices) > 0 or ranks != counts[0]:
            return None
        return len({device.host for device in self.devices})

    def _where(self) -> dict[str, str]:
        """Return the device of the first rank and the hosts, where the ranks are listed."""
        hosts = sorted({device.host for device in self.devices})
        return {"device": self.devices[0].name, "hosts": ",".join(hosts)} if self.devices else {}

    def _quantity(self) -> Timing:
        if self.settings.get("graph", "0") != "0":
            return "graph"
        return "isolated" if self.timing else "back_to_back"

    def _notes(self, what: Operation, rows: list[Row], *, alone: bool, known_nodes: bool) -> Iterable[Note]:
        yield from _notes_on_operation(what, known_nodes=known_nodes)
        if what.size_is == "total":
            yield note("size-total", "the size is the total over ranks; count is the share of one rank")
        if self.zero_rows:
            yield note("zero-size", f"{self.zero_rows} rows of size 0 were left out")
        if self._quantity() == "graph":
            yield note("graph-replay", "graph replay (-G): not the time of an eager call")
        if (fused := int(self.settings.get("agg_iters", "1"))) > 1:
            yield note("aggregated", f"{fused} operations aggregated per launch (-m): the floor flatters a single call")
        if self.timing:
            yield note("blocking", f"each operation is waited for (-z): {self.timing}")
        if not self.header_seen:
            yield note("header-cut", "the header is cut: columns were told by their shape")
        if self.in_place_only and all(len(row.sides) == 1 for row in rows):
            yield note("in-place-only", "only in-place times were measured")
        if self.elided:
            yield note("elided", "'...' stands for rows that are missing")
        yield from _notes_on_results(rows, failed=self.failed)
        if alone:
            yield note(
                "without-mpi",
                f"{max(self.copies, 2)} copies with rank 0 and busbw 0: the binary was built without MPI, so each "
                "process ran alone; this is a measurement on 1 rank",
            )


def _notes_on_operation(what: Operation, *, known_nodes: bool) -> Iterable[Note]:
    if what.inferred and what.test:
        name = what.test.replace("_", "-")
        yield note("op-inferred", f"the log does not name its operation: columns and busbw/algbw imply {name}")
    elif not what.test:
        could = " or ".join(test.replace("_", "-") for test in what.could_be) or "none that is known"
        yield note("op-unknown", f"the log does not name its operation, and its columns allow {could}: say --op")
    yield from what.notes
    if not known_nodes:
        yield note("nodes-unknown", "the log does not say on how many nodes the ranks ran")


def _notes_on_results(rows: list[Row], *, failed: bool) -> Iterable[Note]:
    wrong = sorted({row.size for row in rows if _is_wrong(row)})
    if wrong:
        yield note("wrong-results", f"wrong results at {', '.join(map(str, wrong))} bytes: these rows are flagged")
    elif failed:
        yield note("wrong-results", "the run ends with 'Out of bounds values: FAILED': its results were wrong")
    if all(side.wrong == "N/A" for row in rows for side in row.sides[:1]):
        yield note("not-checked", "results were not checked: #wrong is N/A")


def _label(row: Row) -> str:
    """Return what tells sweeps over reductions and roots apart, where it is not the default."""
    parts = []
    if row.redop not in {"", "none", "sum"}:
        parts.append(f"redop {row.redop}")
    if row.root not in {"", "-1", "0"}:
        parts.append(f"root {row.root}")
    return ", ".join(parts)


def _sides(rows: Iterable[Row]) -> Iterable[Side]:
    return (side for row in rows for side in row.sides)


def _is_wrong(row: Row) -> bool:
    for side in row.sides:
        if side.error in _INFINITE or (side.wrong not in _RIGHT and (real(side.wrong) or 0.0) > 0.0):
            return True
    return False


def agrees(row: Row) -> bool:
    """Return whether size / time is the printed algorithm bandwidth, within what rounding allows."""
    for side in row.sides:
        time, rate = real(side.time), real(side.algbw)
        if time is None or rate is None or time <= 0.0:
            continue
        expected = row.size / (time * MICROSECOND) / GIGABYTE_PER_S
        if abs(rate - expected) <= _SLACK * expected:
            continue
        slack = half_step(side.algbw) + expected * (_SLACK + half_step(side.time) / time)
        if abs(rate - expected) > slack:
            return False
    return True


def _is_cut(row: Row) -> bool:
    """Return whether the size is no multiple of its elements: digits are missing."""
    width = TYPES.get(row.type)
    return bool(width and row.elements and row.size % (row.elements * width))


def _points(numbered: list[tuple[int, Row]], source: str) -> tuple[tuple[Point, ...], list[Skipped]]:
    points: list[Point] = []
    unread: list[Skipped] = []
    seen: dict[int, int] = {}
    for line, row in numbered:
        main, inside = row.sides[0], row.sides[1] if len(row.sides) > 1 else None
        seconds, second = _seconds(main.time), _seconds(inside.time) if inside else None
        time = main.time
        if seconds is None and inside is not None:
            seconds, time = second, inside.time
        if seconds is None:
            unread.append(Skipped(file=source, line=line, why=f"{main.time!r} is not a time"))
            continue
        low, high = interval(time, MICROSECOND)
        points.append(
            Point(
                size_bytes=float(row.size),
                seconds=seconds,
                repeat=seen.get(row.size, 0),
                line=line,
                low_s=low,
                high_s=high,
                min_s=_seconds(main.shortest) if main.shortest else None,
                max_s=_seconds(main.longest) if main.longest else None,
                in_place_s=second,
                wrong=_is_wrong(row),
            )
        )
        seen[row.size] = seen.get(row.size, 0) + 1
    return tuple(points), unread


def _seconds(text: str) -> float | None:
    value = real(text)
    return value * MICROSECOND if value is not None and value > 0.0 else None


def _with_skipped(table: Table, skipped: list[Skipped]) -> Table:
    from dataclasses import replace

    return replace(table, skipped=tuple(sorted(skipped, key=lambda one: one.line)))

"""A table of a log: what a benchmark printed, as far as it said so, before anything is assumed or fitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from nhalf.errors import InputError
from nhalf.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.collective import Mode, Op
    from nhalf.sample import Timing

UNKNOWN: Final = "unknown"
"""The environment of a sample says `quantity: unknown` where nobody said how its time was taken."""
SizeIs: TypeAlias = Literal["message", "total", "per_rank", "per_peer", "none", ""]
"""What a tool counts as the size of a row; `none`: it prints no size, empty: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something a reader of the answer should know; `code` is a stable kebab-case name, `text` one sentence."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A line of a file that looked like a result and was not taken (lines count from 1, 0 is the whole file)."""

    file: str
    line: int
    why: str


class Point(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row of a table: `size_bytes` [bytes], as the tool counts them, took `seconds` [s].

    `low_s` and `high_s` [s] are the ends of the interval that the printed number stands for (5.90 us: 5.895 to
    5.905); None when it was printed with digits to spare. `min_s` and `max_s` [s] are the extremes over iterations,
    where the tool prints them. `in_place_s` [s] is the in-place time of the same row. `wrong`: the tool found wrong
    results. `repeat` numbers the runs of one size from 0, `line` is the line of the file.
    """

    size_bytes: float
    seconds: float
    repeat: int = 0
    line: int = 0
    low_s: float | None = None
    high_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None
    in_place_s: float | None = None
    wrong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number that has no size beside it: a cell of a matrix, a barrier, one latency, a stream's bandwidth.

    `of` says what it is: a `latency` [s], a `bandwidth` [bytes/s], or a `time` [s] that is neither, because the bytes
    are not stated. `low` and `high` bound the printed number as in `Point`; `label` names the cell (`GPU 0 to 3`).
    """

    of: Literal["latency", "bandwidth", "time"]
    value: float
    line: int = 0
    low: float | None = None
    high: float | None = None
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table of a log: the rows of one operation on one set of ranks, measured in one way.

    What the file does not say is None or empty; a reader never guesses, except where numbers imply it, and then says
    so in a note. `test` is the tool's own name of the operation where `op` is too coarse or None (`point-to-point`,
    `moe-dispatch`); a point-to-point test has op `send-recv`. `label` tells tables of one file apart that differ in
    nothing else (`scope warp`, `P2P disabled`). `streamed`: the tool keeps many messages under way and times the
    stream, so its smallest time is a gap, not a latency. `environment` holds only keys that a reader names.
    `stands_for` counts the runs of one sweep of which this one was kept. `refusal` says why the times are not those of
    a transfer, so that they give neither a latency nor a bandwidth; empty where they are.
    """

    file: str
    tool: str
    op: Op | None = None
    test: str = ""
    ranks: int | None = None
    nodes: int | None = None
    mode: Mode | None = None
    quantity: Timing | None = None
    size_is: SizeIs = ""
    dtype: str = ""
    label: str = ""
    streamed: bool = False
    points: tuple[Point, ...] = ()
    figures: tuple[Figure, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    stands_for: int = 1
    refusal: str = ""

    @property
    def rows(self) -> int:
        """Return the number of usable rows."""
        return len(self.points) + len(self.figures)

    @property
    def name(self) -> str:
        """Return what was run, in kebab-case: the test where it is named, else the op, else nothing."""
        return self.test or (str(self.op) if self.op is not None else "")

    @property
    def place(self) -> str:
        """Return how a message names the table: the file, and the line of its first row."""
        lines = [*(point.line for point in self.points), *(figure.line for figure in self.figures)]
        line = min(filter(None, lines), default=0)
        return f"{self.file}:{line}" if line else self.file

    def samples(self) -> list[Sample]:
        """Return the points as samples; the rows whose results were wrong are left out.

        The environment gains `tool` and `file`, and `test`, `label` and `dtype` where they are known; where the file
        does not state the quantity, the sample has the default one and its environment says `quantity: unknown`.

        Raises InputError when the op or the ranks are unknown.
        """
        if self.op is None or self.ranks is None:
            unknown = " and ".join(
                name for name, value in (("operation", self.op), ("rank count", self.ranks)) if value is None
            )
            raise InputError(
                f"the {unknown} cannot be read from the log",
                where=self.place,
                allowed="a log that says or implies both",
                do="say what is missing: --op all-reduce, --ranks 8 (in Python: op=..., ranks=...)",
            )
        known = {"tool": self.tool, "file": self.file, "test": self.test, "label": self.label, "dtype": self.dtype}
        known["quantity"] = "" if self.quantity else UNKNOWN
        environment = {**self.environment, **{key: text for key, text in known.items() if text}}
        return [
            Sample(
                op=self.op,
                size_bytes=point.size_bytes,
                ranks=self.ranks,
                seconds=point.seconds,
                nodes=self.nodes,
                mode=self.mode,
                quantity=self.quantity or "isolated",
                environment=environment,
                repeat=point.repeat,
            )
            for point in self.points
            if not point.wrong
        ]

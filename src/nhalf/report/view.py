"""Views: what a command answers, and the forms that it is written in.

A command makes one `View`. Its `brief` is the first screen: what it holds has a fixed order, so that every command
reads alike: the verdict, the number with its range, one table or one row of bars, what a change would save, what was
assumed, and the command to run next. Everything else is `detail`. Documents are made only when they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from nhalf.report.canvas import Canvas
from nhalf.units import format_number, format_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.citation import Datum
    from nhalf.loading import Default

Rows: TypeAlias = "str | Callable[[dict[str, Any]], Sequence[Mapping[str, Any]]]"
"""The key of a document under which the rows of CSV and Markdown are, or what makes them of it."""
Tone = Literal["plain", "good", "warn", "quiet"]
STYLES: Final[Mapping[Tone, str]] = {"plain": "", "good": "green", "warn": "yellow", "quiet": "dim"}
"""The palette; meaning is never by colour alone."""
SHADES: Final = ("█", "▓", "░", "▒")
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_NOTHING, _TWO_DIGITS = 1e-3, 0.995
_WITHIN: Final = "within the model's error"
LINES: Final = 24
"""Lines of a first screen; where batches or systems stand side by side `MORE_LINES`."""
MORE_LINES: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A table with a bar in each row, whose stretches are what the row's number is made of.

    `heads` and `rows` are the cells before the bars; `parts` the stretches of each row, in the order of `names`;
    `remarks` stand behind the bars; `tones` are those of the rows. All bars share one scale.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: Sequence[str]
    parts: Sequence[Sequence[float]]
    remarks: Sequence[str] = ()
    tones: Sequence[Tone] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What one change would save: a share of the whole [1]; `told` is whether the model can tell it from nothing."""

    name: str
    share: float
    told: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """The first screen of an answer.

    `verdict` are one or two short sentences, `number` the number with its range, `title` what the table is of;
    `table` are heads and rows of a plain table; `notes` stand below it; `asked` is the question that `savings` answer;
    `commands` are to be copied, such as the line that launches a layout.
    """

    verdict: Sequence[str]
    number: str = ""
    title: str = ""
    bars: Bars | None = None
    table: tuple[Sequence[str], Sequence[Sequence[str]]] | None = None
    marked: Sequence[int] = ()
    notes: Sequence[str] = ()
    asked: str = ""
    savings: Sequence[Saving] = ()
    closing: Sequence[str] = ()
    commands: Sequence[str] = ()
    """Command lines to copy, each with an empty line above."""
    assumed: str = ""
    next_command: str = ""
    next_why: str = ""
    warn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An answer in every form: made when it is asked for.

    `rows` is the key of the document under which the rows of CSV and Markdown are, or what makes them of it. With
    everything asked for there is `detail`, or the first screen with `below` under it, `defaults` with their reasons,
    and what is `following`: commands to run next, that of the first screen where there are none.
    """

    document: Callable[[], dict[str, Any]]
    rows: Rows
    brief: Callable[[], Brief]
    detail: Callable[[Canvas], None] | None = None
    found: object | None = None
    """What was found, for those who ask in Python."""
    below: Callable[[Canvas], None] | None = None
    defaults: Sequence[Default] = ()
    following: Sequence[str] = ()
    asked_too: Callable[[Canvas], None] | None = None
    """What is written after the first screen too, such as a term tree that was asked for."""


def rows_of(document: dict[str, Any], rows: Rows) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a document that CSV and Markdown hold."""
    found: Sequence[Mapping[str, Any]] = document[rows] if isinstance(rows, str) else rows(document)
    return found


def write_everything(view: View, canvas: Canvas) -> None:
    """Write all that an answer says."""
    if view.detail is not None:
        view.detail(canvas)
        return
    first = view.brief()
    assumed = "" if view.defaults else first.assumed
    write_brief(replace(first, commands=(), assumed=assumed, next_command=""), canvas)
    if view.below is not None:
        view.below(canvas)
    canvas.listed("Defaults taken", [f"{each.flag} {each.value}: {each.reason}" for each in view.defaults])
    if view.following or first.next_command:
        canvas.following(*(view.following or [first.next_command]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command answers; `problem` is why nothing satisfies the question, `warnings` what it would tell aside."""

    view: View
    problem: str = ""
    warnings: Sequence[str] = ()

    def text(self, *, columns: int, detail: bool = False) -> str:
        """Return the screen of the command, or everything with `detail`."""
        canvas = Canvas(width=columns, colour=False, plain=False)
        if detail:
            write_everything(self.view, canvas)
        else:
            write_brief(self.view.brief(), canvas)
        return canvas.text


def write_brief(brief: Brief, canvas: Canvas) -> None:
    """Write a first screen."""
    for place, sentence in enumerate(brief.verdict):
        canvas.styled(sentence, "bold" if not place else "", warn=brief.warn and not place)
    if brief.number:
        canvas.styled(brief.number)
    _table(brief, canvas)
    for note in brief.notes:
        canvas.styled(note, STYLES["warn"])
    if brief.asked and brief.savings:
        canvas.blank()
        canvas.styled(brief.asked)
        _savings(brief.savings, canvas)
    if brief.closing or brief.commands or brief.assumed or brief.next_command:
        canvas.blank()
    for line in brief.closing:
        canvas.styled(line)
    for command in brief.commands:
        canvas.command(command, indent="")
    if brief.assumed:
        canvas.styled(f"Assumed: {brief.assumed}.", STYLES["quiet"])
    if brief.next_command:
        canvas.next_line(brief.next_command, brief.next_why)


def _table(brief: Brief, canvas: Canvas) -> None:
    if brief.bars is None and brief.table is None and not brief.title:
        return
    canvas.blank()
    if brief.title:
        canvas.styled(brief.title)
    if brief.bars is not None:
        _bars(brief.bars, canvas)
    if brief.table is not None:
        if brief.bars is not None:
            canvas.blank()
        heads, rows = brief.table
        canvas.table(heads, rows, marked=brief.marked)


def _bars(bars: Bars, canvas: Canvas) -> None:
    """Write a table with bars; the legend is the head of their column."""
    legend = "  ".join(f"{shade} {name}" for shade, name in zip(SHADES, bars.names, strict=False))
    remarks = list(bars.remarks) or [""] * len(bars.rows)
    cells = [bars.heads, *bars.rows]
    widths = [max(len(row[place].removeprefix("<")) for row in cells) for place in range(len(bars.heads))]
    before = sum(widths) + 2 * len(widths)
    room = max(12, canvas.width - 1 - before - max(len(remark) for remark in remarks) - 1)
    longest = max((sum(parts) for parts in bars.parts), default=1.0) or 1.0
    left = [head.startswith("<") for head in bars.heads]
    head = _line([head.removeprefix("<") for head in bars.heads], widths, left)
    apart = len(head) + len(legend) > canvas.width - 1
    if apart:
        canvas.styled(legend, STYLES["quiet"])
    canvas.styled(head.rstrip() if apart else head + legend, STYLES["quiet"])
    for row, parts, remark, place in zip(bars.rows, bars.parts, remarks, range(len(bars.rows)), strict=True):
        tone: Tone = bars.tones[place] if bars.tones else "plain"
        bar = stretches(parts, longest, room, SHADES)
        canvas.styled(f"{_line(row, widths, left)}{bar:<{room}} {remark}".rstrip(), STYLES[tone])


def _line(cells: Sequence[str], widths: Sequence[int], left: Sequence[bool]) -> str:
    """Return the cells of a row, each padded to its column."""
    return "".join(
        f"{cell:<{width}}  " if to_left else f"{cell:>{width}}  "
        for cell, width, to_left in zip(cells, widths, left, strict=True)
    )


def stretches(parts: Sequence[float], longest: float, room: int, shades: Sequence[str]) -> str:
    """Return a bar of whole cells, its stretches rounded together so that the bar has the length of its sum."""
    ends, total = [], 0.0
    for part in parts:
        total += part
        ends.append(round(room * total / longest))
    starts = [0, *ends[:-1]]
    return "".join(shade * (end - start) for shade, start, end in zip(shades, starts, ends, strict=False))


def _savings(savings: Sequence[Saving], canvas: Canvas) -> None:
    """Write what each change saves, with a bar; what the model cannot tell from nothing is said to be so."""
    most = max((saving.share for saving in savings if saving.share > 0), default=1.0)
    wide = max(len(saving.name) for saving in savings)
    digits = max(len(percent(saving.share)) for saving in savings)
    room = max(4, min(13, canvas.width - wide - digits - 9 - len(_WITHIN)))
    for saving in savings:
        bar = length(max(saving.share, 0.0) / most * room)
        note = saving.note if saving.told else _WITHIN
        line = f"  {saving.name:<{wide}}  {percent(saving.share):>{digits}}  {bar:<{room}}  {note}"
        canvas.styled(line.rstrip(), "" if saving.told else STYLES["quiet"])


def length(cells: float) -> str:
    """Return a bar of a length in cells, to an eighth of one."""
    whole = int(cells)
    part = _EIGHTHS[int(8 * (cells - whole))].strip()
    return "█" * whole + (part or ("▏" if not whole and cells > 0 else ""))


def percent(share: float) -> str:
    """Return a share as a percentage of two digits."""
    if abs(share) < _NOTHING:
        return "under 0.1 %"
    return f"{100 * share:.2g} %" if abs(share) < _TWO_DIGITS else f"{100 * share:.3g} %"


def ranged(origin: Datum) -> str:
    """Return a value with its interval, where both ends are known."""
    text = format_value(origin.value, origin.unit)
    if origin.low is None or origin.high is None:
        return text
    return f"{text} ({format_value(origin.low, origin.unit)} to {format_value(origin.high, origin.unit)})"


def whole_number(value: float) -> str:
    """Return a count with its thousands apart."""
    return f"{value:,.0f}" if value >= 1000 else format_number(value)  # noqa: PLR2004  thousands

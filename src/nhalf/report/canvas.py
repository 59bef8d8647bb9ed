"""The canvas: paragraphs and tables of a fixed width, with or without colour, in Unicode or ASCII."""

from __future__ import annotations

import io
import re
import textwrap
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nhalf.printable import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


_NUMBER_AND_UNIT = re.compile(r"(\d) (?=(?:%|[num]?s|[kKMGTP]?i?B(?:/s)?|tokens/s)(?:\W|$))")
"""A number and its unit, between which a line is not broken."""

_FOLDED = 30
"""Names in a table that does not fit are folded to so many characters."""
_LONGEST = 40
"""A word of a table is broken, for want of room, only where it is longer than this."""

_SHELL_WORDS = re.compile(r"""(?:--?[a-z][\w-]*\s+(?!-))?(?:[^\s'"]|'[^']*'|"[^"]*")+""")
"""A word of a command line, or a flag with its value; quotes keep the blanks inside them."""
_REMARK = "  # "
_PLAIN = str.maketrans("█▓░▒▉▊▋▌▍▎▏", "#=.:####---")
"""Bars in ASCII."""


@dataclass(slots=True, kw_only=True)
class Canvas:
    """A page that grows downwards; `text` is what has been written.

    `width` is in characters; `colour` allows ANSI styles; `plain` keeps to ASCII.
    """

    width: int
    colour: bool = False
    plain: bool = False
    _buffer: io.StringIO = field(default_factory=io.StringIO)

    def _console(self) -> Console:
        return Console(
            file=self._buffer,
            width=self.width,
            force_terminal=self.colour,
            no_color=not self.colour,
            color_system="standard" if self.colour else None,
            highlight=False,
            legacy_windows=False,
        )

    def heading(self, text: str) -> None:
        """Write a heading, with an empty line above it."""
        self._console().print(Text(f"\n{shown(text)}", style="bold"))

    def paragraph(self, text: str, *, bold: bool = False, indent: str = "") -> None:
        """Write a paragraph, wrapped to the width; lines after the first are indented."""
        for line in shown(text).split("\n"):
            joined = _NUMBER_AND_UNIT.sub("\\1\u00a0", line)
            wrapped = textwrap.fill(joined, self.width, subsequent_indent=indent, break_long_words=False,
                                    break_on_hyphens=False)  # fmt: skip
            self._console().print(Text(wrapped.replace("\u00a0", " "), style="bold" if bold else ""), soft_wrap=True)

    def listed(self, heading: str, lines: Iterable[str], *, indent: str = "    ") -> None:
        """Write lines under a heading, those after the first of each further in; nothing where there are none."""
        for place, line in enumerate(lines):
            if not place and heading:
                self.heading(heading)
            self.paragraph(f"  {line}", indent=indent)

    def blank(self) -> None:
        """Write an empty line."""
        self._buffer.write("\n")

    def styled(self, text: str, style: str = "", *, warn: bool = False) -> None:
        """Write a line, wrapped where it is longer than the page."""
        for line in shown(text).split("\n"):
            joined = _NUMBER_AND_UNIT.sub("\\1\u00a0", line)
            indent = " " * (len(line) - len(line.lstrip()))
            for part in textwrap.wrap(joined, self.width - 1, drop_whitespace=False, break_long_words=False,
                                      break_on_hyphens=False) or [""]:  # fmt: skip
                cut = part.replace("\u00a0", " ").rstrip()
                cut = cut if line.startswith(cut) else indent + cut.lstrip()
                self._console().print(Text(cut, style=f"{style} yellow".strip() if warn else style), soft_wrap=True)

    def next_line(self, command: str, why: str = "") -> None:
        """Write the command to run next, with its reason as a remark where there is room, as a shell reads it."""
        line = f"Next: {command}" + (f"{_REMARK}{why}" if why else "")
        if len(line) < self.width:
            self._console().print(Text(line), soft_wrap=True)
            return
        lines = self._shell_lines(command, "      ")
        lines[0] = f"Next: {lines[0].strip()}"
        self._console().print(Text(" \\\n".join(lines)), soft_wrap=True)

    def command(self, text: str, *, indent: str = "  ") -> None:
        """Write a command line to copy: where it is longer than a line, the shell reads on after the backslashes.

        What stands behind `  # ` is a remark, or a text that begins with `# `; it gets lines of its own, above, where
        there is no room beside the command.
        """
        text = shown(text)
        line, mark, remark = ("", "#", text[2:]) if text.startswith("# ") else text.partition(_REMARK)
        whole = f"{indent}{line}{_REMARK}{remark}"
        if line and mark and len(whole) <= self.width:
            self._console().print(Text(whole), soft_wrap=True)
            return
        if mark:
            self.paragraph(f"{indent}# {remark}", indent=f"{indent}# ")
        if line:
            lines = self._shell_lines(line, indent)
            self._console().print(Text(" \\\n".join(lines)), soft_wrap=True)

    def _shell_lines(self, text: str, indent: str) -> list[str]:
        """Return a command as lines with room for a backslash at their ends; no word is broken."""
        first, *words = _SHELL_WORDS.findall(text)
        lines = [f"{indent}{first}"]
        for place, word in enumerate(words, start=1):
            room = self.width - (0 if place == len(words) else len(" \\"))
            if len(lines[-1]) + 1 + len(word) > room:
                lines.append(f"{indent}  {word}")
            else:
                lines[-1] += f" {word}"
        return lines

    def following(self, *texts: str) -> None:
        """Write what to run next: commands to copy, and remarks that begin with `# `."""
        self.heading("Next")
        for text in texts:
            self.command(text)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, marked: Sequence[int] = ()) -> None:
        """Write a table: text columns (a name that starts with `<`) to the left, numbers to the right.

        Rows whose index is in `marked` stand out. Where the page is narrow, texts wrap between words, then columns move
        together, and where even so a name would be broken there are several tables, each with the first column.
        """
        self._place_parts(columns, rows, kept=1, make=lambda heads, cells: self._whole(heads, cells, marked))

    def table_in_parts(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, kept: int) -> None:
        """Write a table; where it is wider than the page, as tables of fewer columns, each with the first `kept`.

        Names in the first column are folded, where a line has no room for them.
        """
        if not self.fits(grid(columns, rows)):
            rows = [[textwrap.fill(row[0], _FOLDED, break_on_hyphens=False), *row[1:]] for row in rows]
        self._place_parts(columns, rows, kept=kept, make=self._natural)

    def _place_parts(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, kept: int, make: Callable[..., Table | None]
    ) -> None:
        """Write a table as the fewest tables that `make` finds room for, each with the first `kept` columns."""
        size = max(1, len(columns) - kept)
        while size > 1 and not all(make(*part) for part in _parts(columns, rows, kept, size)):
            size -= 1
        for place, part in enumerate(_parts(columns, rows, kept, size)):
            if place:
                self._buffer.write("\n")
            self.place(make(*part) or grid(*part))

    def _natural(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table | None:
        """Return a table with every cell on one line, None where the page is too narrow for it."""
        made = grid(columns, rows)
        return made if self.fits(made) else None

    def _whole(self, columns: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[int]) -> Table | None:
        """Return a table in which no word is broken, None where the page is too narrow for it."""
        made = grid(columns, rows, marked=marked)
        if self.fits(made):
            return made
        for gap in (2, 1):
            widths = _widths(columns, rows, self.width - gap * (len(columns) - 1))
            if widths:
                return grid(columns, rows, marked=marked, gap=gap, widths=widths)
        return None

    def fits(self, table: Table) -> bool:
        """Tell whether a table is no wider than the page."""
        return (
            self._console().measure(table, options=self._console().options.update(width=10 * self.width)).maximum
            <= self.width
        )

    def place(self, table: Table) -> None:
        """Write a table that `grid` made."""
        self._console().print(table)

    @property
    def text(self) -> str:
        """Return the page, without blanks at the end of its lines."""
        page = "\n".join(line.rstrip() for line in self._buffer.getvalue().splitlines()).strip("\n") + "\n"
        return page.translate(_PLAIN).encode("ascii", "replace").decode() if self.plain else page


def _parts(
    columns: Sequence[str], rows: Sequence[Sequence[str]], kept: int, size: int
) -> list[tuple[list[str], list[list[str]]]]:
    """Return columns and rows in parts of `size` columns each, besides the first `kept` in all of them."""
    cuts = [slice(start, start + size) for start in range(kept, len(columns), size)] or [slice(0, 0)]
    return [
        ([*columns[:kept], *columns[cut]], [[*row[:kept], *row[cut]] for row in rows])
        for cut in cuts
    ]  # fmt: skip


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the widths of columns that share `room` characters, none where words or numbers would be broken.

    The widest texts give way first, down to their longest word.
    """
    cells = [[name.removeprefix("<"), *(row[place] for row in rows)] for place, name in enumerate(columns)]
    found = [max(map(len, texts), default=0) for texts in cells]
    words = [max((min(len(word), _LONGEST) for text in texts for word in text.split()), default=0) for texts in cells]
    least = [word if name.startswith("<") else whole
             for name, word, whole in zip(columns, words, found, strict=True)]  # fmt: skip
    if sum(least) > room:
        return []
    while sum(found) > room:
        wide = max(range(len(found)), key=lambda place: (found[place] > least[place], found[place]))
        found[wide] -= 1
    return found


def grid(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, marked: Sequence[int] = (), title: str = "", gap: int = 2,
    widths: Sequence[int] = (),
) -> Table:  # fmt: skip
    """Return a table without lines, its columns `gap` apart, with a title above it if there is one.

    `widths` are those of the columns, as wide as their cells where they are not given.
    """
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, title=title or None, title_justify="left",
                  title_style="bold", header_style="dim")  # fmt: skip
    for name, width in zip_longest(columns, widths):
        left = name.startswith("<")
        table.add_column(name.removeprefix("<"), justify="left" if left else "right", no_wrap=not left, overflow="fold",
                         width=width)  # fmt: skip
    for index, row in enumerate(rows):
        table.add_row(*(Text(shown(cell)) for cell in row), style="bold" if index in marked else "")
    return table

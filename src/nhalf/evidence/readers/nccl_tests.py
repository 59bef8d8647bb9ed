"""Read nccl-tests and rccl-tests as they print: six generations of headers, `-I`, `-S`, and what runs through them.

Sources of the layout: NVIDIA/nccl-tests, src/common.cu and src/util.cu (2021 to 2026); ROCm/rccl-tests.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nhalf.evidence.readers.columns import skip
from nhalf.evidence.readers.kept import Kept
from nhalf.evidence.readers.nccl_operation import named_in
from nhalf.evidence.readers.nccl_rows import (
    TYPES,
    Layout,
    layout_of_header,
    layout_of_row,
    looks_like_data,
    start_of_row,
    tokens_of,
)
from nhalf.evidence.readers.nccl_run import Run, command
from nhalf.evidence.readers.protocol import Format, Line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.table import Table

_RUN_BEGINS = re.compile(r"\bnThreads?:? +\d+ +nGpus|Collective test starting|nccl-tests version|rccl-tests: Version")
_BEGINNINGS = ("nThread", "Collective test", "-tests")
_BANNER = ("Rank ", "nThread", "ersion", "Blocking Enabled", "nRanks")
_DEBUG = re.compile(r"([\w.-]+):\d+:\d+ +\[\d+\] (?:[\d.]+ )?NCCL ")
_GLUED = re.compile(r"(-?\d+(?:\.\d+)?(?:e[-+]\d+)?|N/A)(?=[A-Za-z_])")
_STAMP_AT_END = re.compile(r"\[[^\[\]]*\]\s*$")
_ELISION = re.compile(r"[\s#]*(?:\.{3,}|\[\.\.\.\]|[:.]\s*)\s*")


class _Reader:
    """Goes through a file line by line; holds the run that is open and the beginning of a row that was broken."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._run = Run(source=source)
        self._tables = Kept()
        self._layout: Layout | None = None
        self._new_header = False
        self._open = False  # between a header or a row, and the footer
        self._broken: tuple[Line, list[str]] | None = None
        self._named = ""
        self._command: dict[str, str] = {}
        self._hosts: set[str] = set()

    def take(self, line: Line) -> None:
        text = line.text
        if "NCCL" in text and (found := _DEBUG.search(text)):
            self._debug(line, found)
            return
        tokens = tokens_of(text)
        if tokens and self._data(line, tokens):
            return
        self._words(text)

    def finish(self) -> list[Table]:
        self._drop_broken()
        self._tables.extend(self._run.tables())
        return self._tables.tables()

    # --- words ---

    def _words(self, text: str) -> None:
        if "_perf" in text:
            self._named = named_in(text) or self._named
            self._command = command(text) or self._command
        if any(word in text for word in _BEGINNINGS) and _RUN_BEGINS.search(text):
            self._begin(text)
        if "concluded" in text:
            self._named = ""
        if any(word in text for word in _BANNER):
            self._run.banner(text)
        elif "algbw" in text and (layout := layout_of_header(text)):
            self._layout, self._new_header, self._open = layout, True, True
            self._run.header_seen = True
        elif "in-place" in text:
            self._run.in_place_only = "out-of-place" not in text
        elif "Out of bounds" in text or "Avg bus bandwidth" in text:
            self._open = False
            self._run.failed |= "FAILED" in text
        elif self._open and _ELISION.fullmatch(text):
            self._run.elided = True

    def _begin(self, text: str) -> None:
        """Open a run; further banners before its first row belong to it (copies that talk at once)."""
        self._drop_broken()
        if self._run.rows or self._run.zero_rows:
            self._tables.extend(self._run.tables())
            self._run = Run(source=self._source)
            self._layout, self._open = None, False
        if self._named:
            self._run.named = self._named
        self._run.copies += "nThread" in text

    # --- numbers ---

    def _data(self, line: Line, tokens: list[str]) -> bool:
        """Take a line of numbers; return whether it was one."""
        start = start_of_row(tokens)
        if start is not None:
            self._drop_broken()
            self._row(line, tokens[start:])
            return True
        if not (self._open or self._broken) or tokens[0].startswith("#") or not looks_like_data(tokens):
            return False
        if self._broken:
            began, left = self._broken
            self._broken = None
            if self._complete(began, [*left, *tokens]):
                return True
            self._broken = (began, left)
            self._drop_broken()
        self._run.skipped.append(skip(line, self._source, "a piece of a row, without its beginning"))
        return True

    def _row(self, line: Line, tokens: list[str]) -> None:
        if not self._complete(line, tokens):
            self._broken = (line, tokens)

    def _complete(self, line: Line, tokens: list[str]) -> bool:
        layout = self._layout if self._layout and self._layout.width == len(tokens) else None
        if layout is None and self._layout is None:
            layout = layout_of_row(tokens)
        row = layout.row(tokens) if layout else None
        if row is None:
            return False
        if not self._run.rows:
            self._run.named = self._named or self._run.named
            self._run.settings = {**self._command, **self._run.settings}
        self._run.add(line.number, row, new_header=self._new_header)
        self._new_header, self._open = False, True
        return True

    def _drop_broken(self) -> None:
        if self._broken:
            line, _ = self._broken
            self._run.skipped.append(skip(line, self._source, "the row is cut: some of its values are missing"))
            self._broken = None

    # --- NCCL's own debug lines, which other threads write into the table ---

    def _debug(self, line: Line, found: re.Match[str]) -> None:
        before = _STAMP_AT_END.sub("", line.text[: found.start()])
        host = found[1]
        if not before.strip():
            self._hosts.add(host)
            self._row_at_end(line)
            return
        before += self._glued(host)
        tokens = tokens_of(before)
        if (start := start_of_row(tokens)) is not None:
            self._drop_broken()
            self._row(line, tokens[start:])
        elif self._broken and looks_like_data(tokens):
            self._data(line, tokens)
        else:
            self._row_at_end(line)

    def _glued(self, word: str) -> str:
        """Return the number that a host name was written behind without a space: `-1node-a`."""
        for host in (*self._hosts, *(device.host for device in self._run.devices)):
            if word.endswith(host):
                return word[: -len(host)]
        found = _GLUED.match(word)
        return found[1] if found else ""

    def _row_at_end(self, line: Line) -> None:
        """Take a whole row that follows a debug line without a line break."""
        tokens = tokens_of(line.text)
        for j in range(len(tokens) - 1, 1, -1):
            if tokens[j] in TYPES and start_of_row(tokens[j - 2 : j + 1]) == 0:
                self._complete(line, tokens[j - 2 :])
                return


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    reader = _Reader(source)
    for line in lines:
        reader.take(line)
    return reader.finish()


READER = Format(
    name="nccl-tests",
    words=("nThread", "Collective test", "rccl-tests", "algbw", "float", "half", "double", "int"),
    signs=(
        (re.compile(r"nThreads?:? +\d+ +nGpus|Collective test starting: \w+_perf|rccl-tests: Version"), 1.0),
        (re.compile(r"\bsize +count .*\btime +algbw +busbw"), 0.95),
        (
            re.compile(
                r"^\s*\d+ +\d+ +[a-z]\w+ .*\d+\.\d+ +\d+\.\d+ +\d+\.\d+ .*\d+\.\d+ +\d+\.\d+ +\d+\.\d+", re.MULTILINE
            ),
            0.6,
        ),
    ),
    parse=_parse,
    banner=re.compile(r"nThreads?:? +\d+ +nGpus|Collective test starting|nccl-tests version|rccl-tests: Version"),
)

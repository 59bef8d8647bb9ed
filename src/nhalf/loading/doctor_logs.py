"""Everything that the doctor reads, in any mixture: logs, `topo -m`, debug output and traces, told apart by content."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.doctor.clues import Facts
from nhalf.errors import InputError
from nhalf.evidence.readers import topo
from nhalf.evidence.readers.detection import cleaned
from nhalf.evidence.readers.reading import read_source
from nhalf.evidence.readers.source import sources
from nhalf.trace.sources import is_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.readers.source import Source
    from nhalf.evidence.readers.topo import Matrix
    from nhalf.evidence.table import Table

_DAY: Final = re.compile(r"(?<!\d)(20\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12]\d|3[01])(?!\d)")
_VERSION: Final = re.compile(r"\bNCCL version (\d[\w.+]*)|\bnccl-library=(\d{5})\b")
_HEAD: Final = 400
"""The first lines, in which a day or a matrix is looked for."""
_MATRIX: Final = re.compile(r"\bGPU0\b.*\bGPU1\b|\bGPU0\s+X\b")


@dataclass(slots=True, kw_only=True)
class Everything:
    """What was read: tables, what texts say, matrices of `topo -m`, traces; days and versions by file."""

    tables: list[Table] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    matrices: list[Matrix] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    days: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    refused: list[InputError] = field(default_factory=list)
    files: int = 0

    def take(self, given: str) -> None:
        """Read a file, a folder, or - for standard input."""
        try:
            files = sources(given)
        except InputError as error:
            self.refused.append(error)
            return
        for source, in_folder in files:
            self.files += 1
            try:
                self._take(source, in_folder=in_folder)
            except InputError as error:
                self.refused.append(error)

    def _take(self, source: Source, *, in_folder: bool) -> None:
        if source.path is not None and is_trace(str(source.path)):
            self.traces.append(str(source.path))
            return
        before, head = self.facts.spoken, list[str]()
        for line in cleaned(source):
            self.facts.take(line.text)
            head += [line.text] if len(head) < _HEAD else []
        if any(map(_MATRIX.search, head)):
            self.matrices.append(topo.read("\n".join(head), where=source.name))
            return
        self.days[source.name] = _day(source, head)
        self.versions[source.name] = next(filter(None, map(_version, head)), "")
        try:
            self.tables += read_source(source, in_folder=in_folder)
        except InputError:
            if self.facts.spoken == before:
                raise


def _version(line: str) -> str:
    """Return the version of NCCL that a line names: as it is, or as the number 22703 for 2.27.3."""
    found = _VERSION.search(line)
    if found is None or found[1]:
        return found[1] if found else ""
    code = int(found[2])
    return f"{code // 10_000}.{code // 100 % 100}.{code % 100}"


def _day(source: Source, head: Sequence[str]) -> str:
    """Return the day of a log [ISO]: by its name, else by its text, else by its file."""
    for text in (source.name.replace("\\", "/").rpartition("/")[2], *head):
        if found := _DAY.search(text):
            return "-".join(found.groups())
    when = source.path.stat().st_mtime if source.path is not None else dt.datetime.now(tz=dt.UTC).timestamp()
    return dt.datetime.fromtimestamp(when, tz=dt.UTC).date().isoformat()

"""Read nvbandwidth, text and `-j` JSON: matrices of bandwidths between devices, or between host and devices.

Source, by description: NVIDIA/nvbandwidth, output.cpp and json_output.cpp (v0.8). Before v0.8 the test
device_to_device_latency reported the latency between host and device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nhalf.collective import Op
from nhalf.evidence.readers.columns import note, skip
from nhalf.evidence.readers.json_text import array, dictionary, objects
from nhalf.evidence.readers.matrix import Matrix, unit_of
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.table import Note, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

_RUNNING = re.compile(r"^\W*Running (\w+?)\.?\s*$")
_PROCESS = re.compile(r"Process \d+ \(([^)\s]+)\)")
_VERSION = re.compile(r"nvbandwidth Version:? *(v?[\w.]+)")


@dataclass(slots=True)
class _File:
    source: str
    version: str = ""
    hosts: set[str] = field(default_factory=set)
    found: list[tuple[str, Matrix, list[Skipped]]] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def tables(self) -> list[Table]:
        tables = [self._table(name, matrix, skipped) for name, matrix, skipped in self.found]
        if self.skipped:
            tables.append(Table(file=self.source, tool="nvbandwidth", skipped=tuple(self.skipped)))
        return tables

    def _table(self, name: str, matrix: Matrix, skipped: list[Skipped]) -> Table:
        devices = name.startswith(("device_to_device", "multinode_device_to_device")) or (
            "GPU(row)" in matrix.title and "GPU(column)" in matrix.title
        )
        bandwidth = matrix.of == "bandwidth"
        return Table(
            file=self.source,
            tool="nvbandwidth",
            op=Op.SEND_RECV if devices else None,
            test="device-to-device" if devices else _between(name),
            ranks=max(len(matrix.columns), 2) if devices else None,
            nodes=len(self.hosts) or 1,
            quantity="back_to_back" if bandwidth else "isolated",
            size_is="none",
            label=name,
            streamed=bandwidth,
            figures=tuple(matrix.figures),
            environment={"version": self.version} if self.version else {},
            notes=tuple(self._notes(name, matrix)),
            skipped=tuple(skipped),
        )

    def _notes(self, name: str, matrix: Matrix) -> Iterable[Note]:
        if matrix.of == "bandwidth":
            yield note("one-size", "a matrix of one large copy size: bandwidth only")
        else:
            yield note("kernel-latency", "the latency of a load in a kernel, not of a message")
        if matrix.square:
            yield note("diagonal", "N/A on the diagonal is not an error")
        if name.startswith("device_to_device_latency") and self.version.lstrip("v").startswith(
            tuple("0." + c for c in "01234567")
        ):
            yield note("host-latency", "before v0.8 this test reported the latency between host and device")


def _between(name: str) -> str:
    for one in ("host_to_device", "device_to_host", "host_to_host", "device_local"):
        if name.startswith(one):
            return one.replace("_", "-")
    return name.replace("_", "-")


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    file = _File(source)
    name = ""
    matrix: Matrix | None = None
    for line in lines:
        text = line.text
        if found := _RUNNING.search(text):
            name, matrix = found[1], None
        elif name and (what := unit_of(text)):
            matrix = Matrix(text, *what)
            file.found.append((name, matrix, []))
        elif matrix is not None:
            answer = matrix.take(line, text.split())
            if answer not in {"taken", "other"}:
                file.found[-1][2].append(skip(line, source, answer))
            if text.lstrip().startswith("SUM"):
                matrix = None
        elif found := _VERSION.search(text):
            file.version = found[1]
        elif found := _PROCESS.search(text):
            file.hosts.add(found[1])
    return file.tables()


def _parse_json(lines: Iterable[Line], source: str) -> list[Table]:
    file = _File(source)
    found, problem = objects(lines)
    for one in found:
        document = dictionary(one.get("nvbandwidth", one))
        file.version = str(document.get("Version", document.get("version", "")))
        for case in map(dictionary, array(document.get("testcases"))):
            _case(file, case)
    if problem:
        file.skipped.append(_whole(source, problem))
    return file.tables()


def _case(file: _File, case: dict[str, object]) -> None:
    name = str(case.get("name", ""))
    rows = array(case.get("bandwidth_matrix")) or array(case.get("latency_matrix"))
    title = str(case.get("bandwidth_description") or case.get("latency_description") or "")
    what = unit_of(title) or unit_of("(GB/s)" if "bandwidth_matrix" in case else "(ns)")
    if not rows or what is None:
        file.skipped.append(_whole(file.source, f"{name}: {case.get('status', 'no matrix')}"))
        return
    matrix = Matrix(title, *what)
    matrix.take(Line(0, ""), [str(i) for i in range(len(array(rows[0])))])
    skipped: list[Skipped] = []
    for index, row in enumerate(rows):
        answer = matrix.take(Line(0, ""), [str(index), *map(str, array(row))])
        if answer != "taken":
            skipped.append(_whole(file.source, f"{name}, row {index}: {answer}"))
    file.found.append((name, matrix, skipped))


def _whole(source: str, why: str) -> Skipped:
    return Skipped(file=source, line=0, why=why)


READER = Format(
    name="nvbandwidth",
    words=("nvbandwidth", "memcpy"),
    signs=(
        (re.compile(r"nvbandwidth Version"), 1.0),
        (re.compile(r"memcpy \w+ [GC]PU\(row\) (?:<-|->) [GC]PU\(column\)"), 0.9),
    ),
    parse=_parse,
    banner=re.compile(r"nvbandwidth Version"),
)
JSON_READER = Format(
    name="nvbandwidth-json",
    words=("bandwidth_matrix", "nvbandwidth"),
    signs=((re.compile(r'"bandwidth_matrix"\s*:|"nvbandwidth"\s*:'), 1.0),),
    parse=_parse_json,
    whole=True,
)

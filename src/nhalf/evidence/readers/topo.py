"""Reads the matrix of `nvidia-smi topo -m` or AMD's tools: which GPU and NIC reaches which, by the tool's letters.

The matrix is read cell by cell and not line by line, because terminals and chats wrap its lines and trackers turn its
tabs into blanks. Nothing is guessed: a cell that is missing or unknown is an error that says where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError, did_you_mean
from nhalf.evidence.readers import topo_amd
from nhalf.evidence.table import Note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LETTERS: Final = ("SYS", "SOC", "NODE", "PHB", "PXB", "PSB", "PIX", "C2C", "NV#")
"""Every kind of connection, the longest way first; `#` is the number of NVLinks. SOC and PSB are old names."""
ORDER: Final = (*LETTERS[:-2], "PCIE", *LETTERS[-2:], "XGMI")
"""The letters of all tools, the longest way first."""
SELF: Final = "X"

_NVLINK: Final = re.compile(r"NV([1-9][0-9]?)")
_GPU: Final = re.compile(r"GPU[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*[0-9][\w.-]*")
_LEGEND: Final = re.compile(r"\s*(?:NIC\s+)?Legend\s*:", re.IGNORECASE)
_NIC_LEGEND: Final = re.compile(r"^\s*(NIC[0-9]+)\s*:\s*(\S+)")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|(?<![^\s])\[[0-9;]*m|\[0?m(?=\s|$)")
_TITLES: Final = ("CPU", "NUMA", "GPU")
"""The first words of the titles that follow the names of the columns: CPU Affinity, NUMA Affinity, GPU NUMA ID."""
_PEER: Final = ("OK", "CNS", "GNS", "TNS", "NS", "DR")
_RANGE: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*,?|N/A")
_HOW: Final = "the whole output of `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology`"
_LETTER = re.compile(r"X(?![BM])|SYS|SOC|NODE|PHB|PXB|PSB|PIX|C2C|NV[1-9][0-9]?")
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a GPU sits: the CPU cores and the NUMA nodes beside it, in nvidia-smi's words; empty when it has none."""

    cpus: str = ""
    numa: str = ""
    gpu_numa: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A topology matrix: `names` in the order of the matrix, and the letters of each ordered pair of them.

    `devices` are what the NIC legend says of the NICs (`NIC0` to `mlx5_0`); `places` holds what stands right of a row.
    """

    names: tuple[str, ...]
    cells: Mapping[tuple[str, str], str]
    places: Mapping[str, Place] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """Return the names of the GPUs."""
        return tuple(name for name in self.names if _GPU.fullmatch(name))

    @property
    def nics(self) -> tuple[str, ...]:
        """Return the names of everything that is no GPU."""
        return tuple(name for name in self.names if not _GPU.fullmatch(name))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the matrix and the line that it stands in."""

    text: str
    line: int


def nvlinks(letters: str) -> int:
    """Return the number of NVLinks that letters stand for: 12 for NV12, 0 for a way over PCIe."""
    found = _NVLINK.fullmatch(letters)
    return int(found[1]) if found else 0


def read(text: str, *, where: str = "stdin") -> Matrix:
    """Return the matrix in the output of `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology`.

    Raises
    ------
    InputError
        There is no matrix, it is another one (`topo -p2p`), a row or cell is missing, or letters are unknown.
    """
    if (amd := topo_amd.read(text)) is not None:
        return _of_amd(amd, where)
    lines = [_STYLE.sub("", line) for line in text.splitlines()]
    if not any(line.strip() for line in lines):
        raise InputError("it is empty", where=where, allowed=_HOW, do="nvidia-smi topo -m | nhalf topo -")
    words = [_Word(word, number) for number, line in _until_legend(lines) for word in line.split()]
    names, start = _header(words, where)
    _refuse_cut_columns(words[start:], names, where)
    notes: list[Note] = []
    cells: dict[tuple[str, str], str] = {}
    places: dict[str, Place] = {}
    again = ""
    for name, printed in _rows(words[start:], names):
        if name in places:
            again = name
            break
        row = _unglued(printed, len(names))
        cells |= _cells(name, row, names, where)
        places[name] = _place([word.text for word in row[len(names) :]])
    missing = [name for name in names if name not in places]
    lost = [name for name in missing if _GPU.fullmatch(name)]
    if lost:
        raise InputError(f"the row of {', '.join(lost)} is missing", where=where, allowed=_HOW, do="paste all of it")
    for name in missing:
        cells |= {(name, other): cells[other, name] for other in names if (other, name) in cells}
    if missing:
        notes.append(Note(code="rows-missing", text=f"No row of {', '.join(missing)}: read from the columns."))
    notes += _asymmetries(names, cells) + _left_out(lines, again)
    found = {match[1]: match[2] for line in lines if (match := _NIC_LEGEND.match(line))}
    kept = {name: place for name, place in places.items() if place != Place()}
    return Matrix(names=names, cells=cells, places=kept, devices=found, notes=tuple(notes))


def _of_amd(found: topo_amd.AmdMatrix, where: str) -> Matrix:
    """Return the matrix of AMD's tools.

    Raises
    ------
    InputError
        A cell is missing, or a word in it is unknown.
    """
    for start in found.names:
        for end in found.names:
            cell = found.cells.get((start, end), "")
            if start != end and cell not in topo_amd.LETTERS:
                raise InputError(
                    f"{cell!r} is no link type" if cell else "the cell is missing", where=f"{where}, {start} to {end}",
                    allowed=", ".join(topo_amd.LETTERS), do="paste the whole output",
                )  # fmt: skip
    if not found.names:
        raise InputError("there is a title, and no matrix of link types", where=where, allowed=_HOW)
    far = sorted({hops for pair, hops in found.hops.items() if found.cells.get(pair) == "PCIE"})
    text = f"PCIE pairs are {' or '.join(far)} hops apart: several mean that the way goes over both sockets."
    several = any(hops.isdigit() and int(hops) >= _SEVERAL for hops in far)
    return Matrix(
        names=found.names, cells=found.cells, places={gpu: Place(numa=node) for gpu, node in found.numa.items()},
        devices=found.devices, notes=(Note(code="hops", text=text),) if several else (),
    )  # fmt: skip


def _unglued(row: list[_Word], cells: int) -> list[_Word]:
    """Return a row with two letters that lost the blank between them (SYSSYS) apart, where that makes it whole."""
    head = 0
    while head < len(row) and "".join(_LETTER.findall(row[head].text)) == row[head].text:
        head += 1
    if head >= cells:
        return row
    apart = [_Word(part, word.line) for word in row[:head] for part in _LETTER.findall(word.text)]
    return [*apart, *row[head:]] if len(apart) == cells else row


def _until_legend(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines before the legend."""
    for number, line in enumerate(lines, 1):
        if _LEGEND.match(line):
            return
        yield number, line


def _header(words: Sequence[_Word], where: str) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns, and the index of the first word of the first row.

    The header ends where the first GPU is followed by its own cell; before it stand names, then titles of columns.
    """
    first = next((at for at, word in enumerate(words) if _GPU.fullmatch(word.text)), None)
    if first is None:
        raise InputError("there is no row of GPUs", where=where, allowed=_HOW, do="nvidia-smi topo -m | nhalf topo -")
    name = words[first].text
    again = next((at for at in range(first + 1, len(words)) if words[at].text == name), None)
    if again is None:
        raise InputError(f"there is a header, and no row of {name}", where=where, allowed=_HOW, do="paste all of it")
    names: list[str] = []
    for word in words[first:again]:
        if word.text in _TITLES:
            break
        names.append(word.text)
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise InputError(f"{', '.join(twice)} is there twice", where=f"{where}, header", allowed="each name once")
    return tuple(names), again


def _refuse_cut_columns(words: Sequence[_Word], names: tuple[str, ...], where: str) -> None:
    """Refuse a matrix whose lines were cut: a row of something that has no column."""
    lost: list[str] = []
    line = 0
    for word, after in pairwise(words):
        leads = word.line != line
        line = word.line
        if not leads or after.line != line or word.text in names or not _NAME.fullmatch(word.text):
            continue
        if _is_cell(after.text) and not _is_cell(word.text):
            lost.append(word.text)
    if lost:
        raise InputError(
            f"the column of {', '.join(lost)} is missing: the lines are cut", where=where, allowed=_HOW,
            do="paste the whole lines: nvidia-smi topo -m | nhalf topo -",
        )  # fmt: skip


def _is_cell(text: str) -> bool:
    return text in (SELF, *LETTERS[:-1]) or _NVLINK.fullmatch(text) is not None


def _rows(words: Sequence[_Word], names: tuple[str, ...]) -> Iterator[tuple[str, list[_Word]]]:
    """Yield the name of each row and the words after it, up to the next row."""
    known = set(names)
    name = ""
    row: list[_Word] = []
    for word in words:
        if word.text in known:
            if name:
                yield name, row
            name, row = word.text, []
        else:
            row.append(word)
    if name:
        yield name, row


def _cells(name: str, row: Sequence[_Word], names: tuple[str, ...], where: str) -> dict[tuple[str, str], str]:
    """Return the letters of a row by its pairs."""
    found: dict[tuple[str, str], str] = {}
    for other, word in zip(names, row, strict=False):
        here = f"{where}, line {word.line}, row {name}, column {other}"
        if word.text in _PEER:
            raise InputError(
                f"{word.text!r} is of `nvidia-smi topo -p2p`, which says what is allowed and not what is there",
                where=here, allowed=_HOW, do="nvidia-smi topo -m | nhalf topo -",
            )  # fmt: skip
        if name == other:
            if word.text != SELF:
                raise InputError(f"{word.text!r} where a row meets itself", where=here, allowed=SELF)
            continue
        if word.text not in LETTERS[:-1] and not _NVLINK.fullmatch(word.text):
            short = _RANGE.fullmatch(word.text)
            what = f"{word.text!r} where letters should be" if not short else f"the row ends early, at {word.text!r}"
            raise InputError(what, where=here, allowed=", ".join((SELF, *LETTERS)), do=did_you_mean(word.text, LETTERS))
        found[name, other] = word.text
    if len(row) < len(names):
        line = row[-1].line if row else 0
        raise InputError(
            f"row {name} has {len(row)} of {len(names)} cells",
            where=f"{where}, line {line}" if line else where,
            allowed=f"one for each of {', '.join(names)}",
            do="paste the whole matrix",
        )
    return found


def _place(words: Sequence[str]) -> Place:
    """Return what stands right of the cells: cores (which may be wrapped after a comma), then one or two NUMA nodes."""
    parts: list[str] = []
    for word in words:
        if not _RANGE.fullmatch(word):
            break
        if parts and parts[-1].endswith(","):
            parts[-1] += word
        else:
            parts.append(word)
    cpus, numa, gpu_numa, *_ = (*parts, "", "", "")
    return Place(cpus=cpus, numa=numa, gpu_numa=gpu_numa)


def _left_out(lines: Sequence[str], again: str) -> list[Note]:
    """Return a note when another matrix follows: with a name that came `again`, or else behind the legend."""
    if again:
        text = f"Another matrix follows, again with {again}: it was left out. Give each machine its own input."
        return [Note(code="matrix-left-out", text=text)]
    read_to = sum(1 for _ in _until_legend(lines))
    for number, line in enumerate(lines[read_to:], read_to + 1):
        words = line.split()
        if len(words) > 1 and _GPU.fullmatch(words[0]) and _is_cell(words[1]):
            text = f"Another matrix follows, a row in line {number}: it was left out. Give each machine its own input."
            return [Note(code="matrix-left-out", text=text)]
    return []


def _asymmetries(names: tuple[str, ...], cells: Mapping[tuple[str, str], str]) -> list[Note]:
    """Return a note for every pair that reads another way from the other side."""
    return [
        Note(
            code="asymmetric",
            text=f"{one} to {other} is {cells[one, other]}, back it is {cells[other, one]}: a cell may be misread.",
        )
        for at, one in enumerate(names)
        for other in names[at + 1 :]
        if (one, other) in cells and cells[one, other] != cells[other, one]
    ]

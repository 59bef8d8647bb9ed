"""Reads what `rocm-smi --showtopo` and `amd-smi topology` print: a matrix for each of weight, hops and link type.

Sources, by description: ROCm/rocm_smi_lib, python_smi_tools/rocm_smi.py; ROCm/amdsmi, amdsmi_cli (topology).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LETTERS: Final = ("PCIE", "XGMI")
"""Both tools' words for a way between GPUs, the slower first."""

_TYPES = re.compile(r"Link Type between two GPUs|LINK TYPE TABLE:", re.IGNORECASE)
_HOPS = re.compile(r"Hops between two GPUs|HOPS TABLE:", re.IGNORECASE)
_NAME = re.compile(r"GPU\d+|(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d")
_SELF: Final = frozenset({"0", "SELF", "X"})
_NUMA = re.compile(r"GPU ?\[?(\d+)\]?\s*:\s*\(Topology\) Numa Node: (\d+)")


class AmdMatrix(NamedTuple):
    """The link types of each ordered pair of GPUs, with the pairs in several hops, and what else was printed.

    `devices` are the PCI addresses that stood for the GPUs, `numa` their NUMA nodes, both by the GPU's name.
    """

    names: tuple[str, ...]
    cells: dict[tuple[str, str], str]
    hops: dict[tuple[str, str], str]
    devices: dict[str, str]
    numa: dict[str, str]


def read(text: str) -> AmdMatrix | None:
    """Return the matrix in a text, or None where there is none of AMD's; a row that is cut leaves its cells out."""
    lines = text.splitlines()
    title = next((at for at, line in enumerate(lines) if _TYPES.search(line)), None)
    if title is None:
        return None
    columns, rows = _table(lines[title + 1 :])
    hops = next((_table(lines[at + 1 :])[1] for at, line in enumerate(lines) if _HOPS.search(line)), {})
    named = {column: column if column.startswith("GPU") else f"GPU{at}" for at, column in enumerate(columns)}
    numa = {f"GPU{found[1]}": found[2] for found in map(_NUMA.search, lines) if found}
    return AmdMatrix(
        names=tuple(named.values()),
        cells=dict(_cells(named, rows)),
        hops=dict(_cells(named, hops)),
        devices={gpu: column for column, gpu in named.items() if gpu != column},
        numa={gpu: node for gpu, node in numa.items() if gpu in named.values()},
    )


def _table(lines: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the columns of the table that begins a text, and its rows by their first word."""
    columns: list[str] = []
    rows: dict[str, list[str]] = {}
    for line in lines:
        words = line.split()
        if not words:
            continue
        if not columns and all(_NAME.fullmatch(word) for word in words):
            columns = words
        elif columns and words[0] in columns:
            rows[words[0]] = words[1:]
        else:
            break
    return columns, rows


def _cells(named: dict[str, str], rows: dict[str, list[str]]) -> Iterator[tuple[tuple[str, str], str]]:
    for name, row in rows.items():
        for other, cell in zip(named, row, strict=False):
            if other != name and cell not in _SELF:
                yield (named[name], named[other]), cell

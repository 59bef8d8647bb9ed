"""Exposition: the samples of a page of metrics in the text format of Prometheus, or of OpenMetrics.

Only samples whose names are wanted are read, so a page of a hundred thousand others costs a look at each line.

References
----------
Prometheus, "Exposition formats" (text format 0.0.4); OpenMetrics 1.0.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

_LABEL: Final = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_NAME: Final = re.compile(r"\s*([A-Za-z_:][A-Za-z0-9_:]*)")
_ESCAPED: Final = re.compile(r"\\(.)")
_MOST_LABELS: Final = 64
_LONGEST: Final = 16_384
"""A line longer than this is no sample [characters]."""


class Sample(NamedTuple):
    """One sample: its name as it is wanted, its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str, wanted: Container[str]) -> Iterator[Sample]:
    """Yield the samples with wanted names; counters are wanted without `_total`, and broken lines are passed over.

    Values that are no finite number are passed over too: they say that there is nothing to tell.
    """
    for line in text.splitlines():
        if len(line) > _LONGEST:
            continue
        begin = _NAME.match(line)
        if begin is None:
            continue
        name = begin[1]
        if name not in wanted:
            name = name.removesuffix("_total")
            if name not in wanted:
                continue
        found = _labels(line, begin.end())
        if found is None:
            continue
        labels, end = found
        words = line[end:].split(None, 1)
        value = _number(words[0]) if words else math.nan
        if math.isfinite(value):
            yield Sample(name, labels, value)


def _labels(line: str, at: int) -> tuple[dict[str, str], int] | None:
    """Return the labels that begin at a place of a line and where they end, None where they are broken."""
    while line[at : at + 1] in {" ", "\t"}:
        at += 1
    if line[at : at + 1] != "{":
        return {}, at
    at += 1
    labels: dict[str, str] = {}
    for _ in range(_MOST_LABELS):
        found = _LABEL.match(line, at)
        if found is None:
            break
        labels[found[1]] = _ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], found[2])
        at = found.end()
    closing = line.find("}", at)
    return (labels, closing + 1) if closing >= 0 and not line[at:closing].strip() else None


def _number(text: str) -> float:
    """Return a number of the format, NaN for what is none; Python would take underscores, the format does not."""
    try:
        return math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan

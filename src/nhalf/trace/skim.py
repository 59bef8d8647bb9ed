"""Skimming: the events of kinds that nobody reads taken out of a trace's text, by where their keys stand in it.

Half of a trace and more are Python frames, flows and marks of the profiler. Profilers write every event in one layout,
so its beginning and its category are found in arrays of places; text in any other layout is left as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nhalf.trace.record import Ints

CATEGORIES: Final = {
    "kernel": "device", "gpu_memcpy": "device", "gpu_memset": "device", "memcpy": "device", "memset": "device",
    "user_annotation": "mark", "gpu_user_annotation": "mark",
    "cpu_op": "op", "operator": "op",
    "cuda_runtime": "launch", "cuda_driver": "launch", "hip_runtime": "launch", "runtime": "launch",
    "privateuse1_runtime": "launch", "xpu_runtime": "launch", "mtia_runtime": "launch",
}  # fmt: skip
"""The categories that are read, old names and new; python_function, flows and the rest are not."""
PYTHON: Final = "python_function"
_KNOWN: Final = tuple(f'{name}"'.encode() for name in CATEGORIES)
_KEY: Final = b'"ph"'
_FIRST: Final = re.compile(rb'\s*\{\s*"ph"')
_BETWEEN: Final = re.compile(rb'\}\s*,\s*\{\s*(?="ph")')
_COMPLETE: Final = re.compile(rb'"ph"\s*:\s*"X"\s*,\s*"cat"\s*:\s*"')
_WORD: Final = 8  # bytes that are compared at once
_LAYOUT: Final = 40  # bytes of the longest text between or within events that is taken for a layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Skim:
    """A text of events without those that nobody reads; how many these are; whether Python frames are among them."""

    text: bytes
    skipped: int = 0
    python: bool = False


def skim(text: bytes, end: int) -> Skim:
    """Return the text up to a place, whole events such as `{...}, {...}`, without those whose category is not read.

    Damage inside an event that is not read goes unseen, unless it is of zeros or touches what is between events.
    """
    first, between, complete = _FIRST.match(text), _BETWEEN.search(text), _COMPLETE.search(text)
    at = _places(text, end)
    plain = len(at) and end - at[-1] >= _LAYOUT + _WORD and text.find(b"\0", 0, end) < 0
    if not (first and between and complete and plain):
        return Skim(text=text[:end])
    gap, head = between.group(), complete.group()
    words = np.ndarray((end - _WORD + 1,), "<u8", buffer=text, strides=(1,))
    if max(len(gap), len(head)) > _LAYOUT or not np.all(_stands(words, at[1:] - len(gap), gap)):
        return Skim(text=text[:end])
    read = _stands(words, at, head)
    others = ~read
    starts, is_read = _categories(words[at[read] + len(head)])
    read[read] = is_read
    read[others] = ~_of_another_phase(words, at[others], head[: head.index(b"X")])
    edges = np.flatnonzero(np.diff(read.view(np.int8), prepend=0, append=0))
    begin = np.append(at[:1] - first.end() + len(_KEY), at[1:] - len(gap) + gap.index(b"{"))[edges[::2]]
    close = np.append(at[1:] - len(gap) + 1, end)[edges[1::2] - 1]
    kept = [text[i:j] for i, j in zip(begin.tolist(), close.tolist(), strict=True)]
    skipped = len(at) - int(np.count_nonzero(read))
    return Skim(text=b",".join(kept), skipped=skipped, python=PYTHON.encode()[:_WORD] in starts)


def _places(text: bytes, end: int) -> Ints:
    """Return where the key of an event's phase stands, by words of four bytes from each of four places on."""
    key, size = int.from_bytes(_KEY, "little"), len(_KEY)
    words = (np.frombuffer(text, "<u4", (end - first) // size, first) for first in range(min(size, end)))
    found = [size * np.flatnonzero(each == key) + first for first, each in enumerate(words)]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *found]))


def _stands(words: NDArray[np.uint64], at: Ints, what: bytes) -> NDArray[np.bool_]:
    """Return whether a text stands at each of some places."""
    found = np.ones(len(at), dtype=bool)
    for start in {*range(0, len(what) - _WORD, _WORD), max(0, len(what) - _WORD)}:
        piece = what[start : start + _WORD]
        mask = np.uint64((1 << 8 * len(piece)) - 1)
        found &= (words[at + start] & mask) == int.from_bytes(piece, "little")
    return found


def _categories(words: NDArray[np.uint64]) -> tuple[list[bytes], NDArray[np.bool_]]:
    """Return the categories that some words begin, each once, and which of the words may begin one that is read."""
    is_read, left = np.zeros(len(words), dtype=bool), np.ones(len(words), dtype=bool)
    starts = []
    while np.any(left):
        word = words[left.argmax()]
        start = int(word).to_bytes(_WORD, "little").lower()
        name = start[: start.find(b'"') + 1] or start
        starts.append(start)
        these = words == word
        is_read[these] = b"\\" in name or any(known.startswith(name) for known in _KNOWN)
        left &= ~these
    return starts, is_read


def _of_another_phase(words: NDArray[np.uint64], at: Ints, head: bytes) -> NDArray[np.bool_]:
    """Return whether events are of a phase other than X, one letter long."""
    phase = words[at + len(head)] & np.uint64(0xFFFF)
    letter, mark = phase & np.uint64(0xFF), phase >> np.uint64(8)
    other: NDArray[np.bool_] = (mark == ord('"')) & (letter != ord("X")) & (letter != ord("\\"))
    return other & _stands(words, at, head)

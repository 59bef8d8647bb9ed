"""The split of a token's time: predicted terms, prefill, queueing, speculation, communication, stragglers, unknown.

What metrics cannot tell has no value, only the range in which it lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.live.collectives import Calls
    from nhalf.live.expected import Expected, Prediction
    from nhalf.live.watch import Seen
    from nhalf.live.window import Window

Kind = Literal["predicted", "measured", "inferred", "cannot tell"]
WORDS: Final[Mapping[str, str]] = {
    "weights": "weights",
    "experts": "experts",
    "kv": "KV cache",
    "compute": "compute",
    "launch": "per-layer overhead",
    "collective_fixed": "communication floor",
    "hand_over": "hand-overs",
}
_TIMED: Final = 0.2
"""How far the mean of timed collectives may be off: an inspector counts whole microseconds and costs some itself."""
PREFILL, QUEUE, SPECULATION = "prefill interference", "queueing", "speculation"
BEYOND, STRAGGLER, UNKNOWN = "communication beyond its floor", "straggler", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a token's time [s] with its range; None is what cannot be told apart."""

    name: str
    time_s: float | None
    low_s: float
    high_s: float
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """What timed collectives say of a token [s]: beyond the prediction, and waiting for the slowest rank."""

    beyond_s: float
    straggler_s: float | None
    slowest: int
    size_bytes: float
    count: float


def communication(expected: Expected, seen: Window, calls: Calls) -> Communication | None:
    """Return what timed collectives say of a step at a window's load, None where none of its own is among them."""
    beyond, waits, slowest, size, number = 0.0, 0.0, -1, 0.0, 0.0
    for op, size_bytes, count, time_s in expected.collectives(seen.running[0]):
        place = calls.nearest(op, size_bytes)
        if place is None:
            continue
        beyond += count * (float(calls.own_s[place]) - time_s)
        waits += count * float(calls.wait_s[place])
        slowest, size, number = calls.slowest[place], size_bytes, number + count
    if not number:
        return None
    waiting = None if math.isnan(waits) else waits / seen.kept
    return Communication(
        beyond_s=beyond / seen.kept, straggler_s=waiting, slowest=slowest, size_bytes=size, count=number
    )


def excess(seen: Seen) -> tuple[float, float, float]:
    """Return what the decode step takes over its prediction [s], with its range; NaN without a prediction."""
    if seen.predicted is None:
        return math.nan, math.nan, math.nan
    measured, low, high = seen.decode_s
    return measured - seen.predicted.step_s, low - seen.predicted.high_s, high - seen.predicted.low_s


def split(seen: Seen, timed: Communication | None, reference_kept: float = math.nan) -> list[Part]:
    """Return the parts of a token's time: those with a value add up to it.

    `reference_kept` are the tokens of a step that speculation is compared with, NaN for none.
    """
    window, kept = seen.window, seen.window.kept
    decode, low, high = seen.decode_s
    compared = kept > 1 and not math.isnan(reference_kept)
    factor = 1.0 / (reference_kept if compared else kept)
    parts = _predicted(seen.predicted, factor) if seen.predicted is not None else []
    prefill, least, most = ((window.step_s - each) / kept for each in (decode, high, low))
    parts.append(_part(PREFILL, prefill, least, most, "measured" if window.observed == "iteration" else "inferred"))
    known_queue = not math.isnan(window.queue_s)
    queue = window.queue_s if known_queue else 0.0
    parts.append(_part(QUEUE, queue if known_queue else None, queue, queue if known_queue else math.inf,
                       "measured" if known_queue else "cannot tell"))  # fmt: skip
    if compared:
        lost = 1.0 / kept - factor
        least, most = sorted((low * lost, high * lost))
        parts.append(_part(SPECULATION, decode * lost, least, most, "measured"))
    if seen.predicted is not None:
        parts += _communication(seen, seen.predicted, timed, factor)
    told = sum(part.time_s for part in parts if part.time_s is not None)
    rest = window.token_s - told
    return [*parts, _rest(rest, seen, parts)]


def _predicted(predicted: Prediction, factor: float) -> list[Part]:
    """Return the predicted terms of a token, a step times a factor; each has the band of the step."""
    below, above = predicted.low_s / predicted.step_s, predicted.high_s / predicted.step_s
    return [
        _part(WORDS[name], factor * time, factor * below * time, factor * above * time, "predicted")
        for name, time in predicted.columns.items()
        if time > 0 and name in WORDS
    ]


def _communication(seen: Seen, predicted: Prediction, timed: Communication | None, factor: float) -> list[Part]:
    """Return communication beyond its floor, and waiting: timed by an inspector, else somewhere in the excess.

    `factor` turns a step into a token.
    """
    most = max(excess(seen)[2], 0.0) * factor
    bytes_s = predicted.columns["collective_transfer"] * factor
    below = predicted.low_s / predicted.step_s
    if timed is None:
        return [_part(BEYOND, bytes_s, below * bytes_s, bytes_s + most, "predicted"),
                _part(STRAGGLER, None, 0.0, most, "cannot tell")]  # fmt: skip
    time = bytes_s + timed.beyond_s
    beyond = _part(BEYOND, time, time - _TIMED * abs(time), time + _TIMED * abs(time), "measured")
    if timed.straggler_s is None:
        return [beyond, _part(STRAGGLER, None, 0.0, most, "cannot tell")]
    wait = timed.straggler_s
    return [beyond, _part(STRAGGLER, wait, (1 - _TIMED) * wait, (1 + _TIMED) * wait, "measured")]


def _rest(rest: float, seen: Seen, parts: Sequence[Part]) -> Part:
    """Return what no part explains; its range is that of the measured step and of the predicted terms together."""
    widths = [
        (part.high_s - part.time_s, part.time_s - part.low_s)
        for part in parts
        if part.time_s is not None and part.kind != "predicted"
    ]
    if seen.predicted is not None:
        kept = seen.window.kept
        widths.append(((seen.predicted.high_s - seen.predicted.step_s) / kept,
                       (seen.predicted.step_s - seen.predicted.low_s) / kept))  # fmt: skip
    more, less = (float(np.sqrt(sum(each[side] ** 2 for each in widths))) for side in (0, 1))
    return _part(UNKNOWN, rest, rest - more, rest + less, "inferred")


def _part(name: str, time_s: float | None, low_s: float, high_s: float, kind: Kind) -> Part:
    return Part(name=name, time_s=time_s, low_s=low_s, high_s=high_s, kind=kind)

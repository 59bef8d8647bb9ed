"""Waiting: the part of a collective's time that it waits for another rank, which no link and no kernel explains."""

from __future__ import annotations

from typing import Final

from nhalf.units import format_time

MOSTLY: Final = 0.9
"""From this share of a collective's time on nothing but the waiting is worth a change."""
SAID: Final = "over 90 % of this is waiting for another rank (skew, host, scheduling), no link change helps"


def waited_s(
    call_s: float | None, pure_s: float | None, skew_s: float | None, modelled_s: float | None
) -> tuple[float, float] | None:
    """Return how long a call takes without waiting, and how long it waits [s]; None where nothing tells.

    `pure_s` is what it takes when no rank is late, `skew_s` how far apart the ranks come. Where neither is known, a
    call that takes ten times what link and software are modelled to take (`modelled_s`) waits for the rest.
    """
    rest = pure_s if pure_s is not None else modelled_s
    if skew_s is not None:
        rest = call_s - skew_s if call_s is not None and call_s > skew_s else rest
        return None if rest is None else (rest, skew_s)
    if call_s is None or rest is None or call_s <= rest:
        return None
    if pure_s is None and not is_mostly(rest, call_s - rest):
        return None
    return rest, call_s - rest


def is_mostly(rest_s: float, waited: float) -> bool:
    """Tell whether nine tenths of a call [s] or more are waiting."""
    return waited >= MOSTLY * (rest_s + waited)


def sentence(rest_s: float, waited: float, *, calls: float = 0.0) -> str:
    """Return in words that a call [s] mostly waits."""
    many = f"{calls:.0f} all-reduces take {{}} each" if calls else "an all-reduce takes {}"
    told = many.format(format_time(rest_s + waited))
    return f"{told} where link and software take {format_time(rest_s)}: {SAID}"

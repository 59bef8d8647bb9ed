"""The number of a plan: a token with its band and the odds that it keeps its limit, the first token, the price."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.quantiles import Z80, normal_below

if TYPE_CHECKING:
    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan

_EVEN: Final = 5
"""Tenths of the cases at even odds."""


def number(plan: Plan, row: Choice) -> str:
    """Return the one number with its band, the range of the first token and the price where they are known."""
    text = f"{units.format_time(row.tpot_s)} per token, 80 % band {span(row)}{kept(plan, row)}"
    if row.ttft_s is not None:
        low, high = row.ttft_s
        text += (
            f"; {units.format_time(low)} to the first (alone) up to {units.format_time(high)} (burst of {row.batch})"
        )
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    return f"{text}; {units.format_money(cost)} per million tokens" if cost is not None else text


def span(row: Choice) -> str:
    """Return the 80 % band of the time per token in words."""
    return " to ".join(units.format_time(end) for end in row.band_s)


def tenths(plan: Plan, row: Choice) -> int | None:
    """Return in how many of ten cases a run keeps the limit of a token; None where that is certain.

    It is certain where the band lies within the limit, unless odds were asked for. The search holds the middle of the
    band against the limit. A band is log-normal on each side of its middle.
    """
    limit, (low_s, high_s) = plan.wish.tpot_s, row.band_s
    if limit is None or low_s >= row.tpot_s or (high_s <= limit and plan.wish.odds is None):
        return None
    side = math.log(high_s / row.tpot_s) if limit >= row.tpot_s else math.log(row.tpot_s / low_s)
    return round(10 * normal_below(math.log(limit / row.tpot_s) / side * Z80))


def kept(plan: Plan, row: Choice) -> str:
    """Return how likely a run keeps the limit of a token; empty where the band lies within it."""
    found = tenths(plan, row)
    if found is None:
        return ""
    even = ", even odds: the middle of the band meets the limit, no margin is taken" if found == _EVEN else ""
    return f" (a run keeps {units.format_time(plan.wish.tpot_s or 0.0)} in about {found} of 10 cases{even})"

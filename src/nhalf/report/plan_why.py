"""Why a plan ranks as it does: what a token costs in each layout, term by term, against the chosen one.

The cost that ranks is the GPU time of a token (devices x step / tokens of the step), of which tokens/s per GPU is the
inverse; where the speed of one stream is wanted it is the time of a token itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.layouts import name
from nhalf.report.view import percent
from nhalf.report.words import COSTS, joined

if TYPE_CHECKING:
    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan

_SHOWN: Final = 2
_NAMED: Final = 2
_MATTERS: Final = 0.1
"""A term is named when it is at least a tenth of the difference."""


def token_columns(plan: Plan, row: Choice) -> dict[str, float]:
    """Return what a token costs in a layout [s], term by term: GPU time, or time where one stream is wanted."""
    kept = float(row.candidate.scenario.workload.accepted_tokens)
    share = 1 / kept if plan.wish.goal == "latency" else row.layout.devices / row.batch / kept
    return {column: value * share for column, value in row.columns.items()}


def why(plan: Plan) -> list[str]:
    """Return what the best layouts that are told apart from the chosen one lose, each for another reason."""
    if plan.chosen is None:
        return []
    mine = token_columns(plan, plan.chosen)
    found: dict[str, str] = {}
    for row in plan.rows:
        if row.meets == "no" or row.tied:
            continue
        theirs = token_columns(plan, row)
        more = {column: theirs[column] - mine[column] for column in theirs}
        largest = max(more, key=lambda column: more[column])
        if largest not in found and len(found) < _SHOWN:
            found[largest] = _loses(plan, row, more, 1 - sum(mine.values()) / sum(theirs.values()))
    return list(found.values())


def _loses(plan: Plan, row: Choice, more: dict[str, float], share: float) -> str:
    """Return what one layout loses, and to what."""
    whole = sum(more.values())
    ordered = sorted(more, key=lambda column: -more[column])
    named = [f"{units.format_time(more[column])} more for {COSTS[column]}" for column in ordered[:_NAMED]
             if more[column] >= _MATTERS * whole]  # fmt: skip
    saved = -more[ordered[-1]]
    but = f", but {units.format_time(saved)} less for {COSTS[ordered[-1]]}" if saved >= _MATTERS * whole else ""
    what = "time" if plan.wish.goal == "latency" else "GPU time"
    return (
        f"{name(row.layout)} (batch {row.batch}) gives {percent(share)} less: a token takes "
        f"{units.format_time(whole)} more {what}, {joined(named)}{but}."
    )

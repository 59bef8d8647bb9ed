"""The ranking of a plan as bars: what a token costs in the best layouts, term by term, each with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.layouts import name
from nhalf.report.figures.stacks import Stack, stacks
from nhalf.report.plan_why import token_columns
from nhalf.report.plan_words import GOALS, rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan
    from nhalf.report.figures.figure import Figure

_SHOWN: Final = 10
_FEWEST: Final = 3


def rankings(plans: Sequence[Plan]) -> list[Figure]:
    """Return the ranking of each plan, all on axes of the same length; every plan has a layout."""
    bars = [_bars(plan) for plan in plans]
    longest = max((end for each in bars for bar in each if bar.band for end in bar.band), default=0.0)
    return [_figure(plan, bars[at], f"ranking-{at}", longest) for at, plan in enumerate(plans)]


def _bars(plan: Plan) -> list[Stack]:
    """Return the best layouts, each with the GPU time (or, for one stream, the time) of a token, term by term."""
    latency, bars = plan.wish.goal == "latency", []
    for row in _ranked(plan):
        star = "*" if row.tied else ""
        bars.append(
            Stack(
                name=f"{name(row.layout)}, batch {row.batch}{star}",
                columns=token_columns(plan, row),
                label=rate(row.tokens_per_s_per_user if latency else row.tokens_per_s_per_gpu),
                bold=row is plan.chosen,
                faint=row.meets == "no",
                band=_band(plan, row),
                tips=(("per token", units.format_time(row.tpot_s)), ("nodes", f"{_nodes(row)}"),
                      ("within the limits", row.meets)),
            )
        )  # fmt: skip
    return bars


def _ranked(plan: Plan) -> list[Choice]:
    """Return the layouts that are ranked: the best ones, the chosen one among them."""
    rows = [row for row in plan.rows if row.meets != "no"]
    # Bars far beyond the limits would press the others flat.
    rows = (rows if len(rows) >= _FEWEST else list(plan.rows))[:_SHOWN]
    if plan.chosen is not None and plan.chosen not in rows:
        rows.append(plan.chosen)
    return rows


def _band(plan: Plan, row: Choice) -> tuple[float, float]:
    """Return the 80 % band of what a token costs in a layout [s], in which its bar is drawn."""
    whole = sum(token_columns(plan, row).values()) / sum(row.columns.values())
    low_s, high_s = row.low_s, row.high_s
    return low_s * whole, high_s * whole


def _nodes(row: Choice) -> int:
    return row.layout.nodes(row.candidate.scenario.system.fabric)


def _figure(plan: Plan, bars: Sequence[Stack], key: str, longest: float) -> Figure:
    """Return the bars of one plan, on an axis that reaches to `longest` [s] at least."""
    latency = plan.wish.goal == "latency"
    what = "time of a token" if latency else "GPU time of a token"
    note = f"Bold: the chosen one. * cannot be told from it. At the end of a bar: {GOALS[plan.wish.goal]}."
    note += " Thin line: the 80 % band."
    if any(bar.faint for bar in bars):
        note += " Pale: beyond the limits."
    title = f"{plan.rows[0].candidate.scenario.system.name}, {plan.gpus} devices"
    return stacks(bars, key=key, title=title, axis=what, note=note, room=longest)

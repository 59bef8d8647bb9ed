"""What a plan says in words: the verdict, the nearest point, a launch line judged, the rule of thumb, pools apart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.layouts import name
from nhalf.decide.levers import levers
from nhalf.decide.little import finished_per_s
from nhalf.decide.regime import TIE
from nhalf.errors import InputError, NoAnswerError
from nhalf.quantiles import Z80, normal_below
from nhalf.report.fields import count
from nhalf.report.view import percent
from nhalf.report.words import COSTS, counted, joined, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.pools import Pools
    from nhalf.decide.search import Plan, Rule
    from nhalf.loading import Default
    from nhalf.loading.launch import Launched


GOALS: Final = {"tokens-per-gpu": "tokens/s per GPU", "latency": "tokens/s per user", "cost": "tokens per dollar"}


def verdict(plan: Plan) -> str:
    """Return the chosen layout and what ties with it, or the point nearest to the limits."""
    chosen = plan.chosen
    if chosen is None:
        return _infeasible(plan)
    text = f"{name(chosen.layout)}, batch {chosen.batch}: {count(chosen.tokens_per_s_per_gpu)} tokens/s per GPU at "
    text += f"{units.format_time(chosen.tpot_s)} per token ({count(chosen.tokens_per_s_per_user)} tokens/s per user)"
    others = len(plan.candidates)
    of = f"of {others} layouts that fit" if others > 1 else "and the only layout that fits"
    text += f", the most {GOALS[plan.wish.goal]}{limits(plan)} {of}."
    tied = [row for row in plan.rows if row.tied and row is not chosen]
    if tied:
        names = joined([f"{name(row.layout)} (batch {row.batch})" for row in tied[:4]])
        more = f" and {len(tied) - 4} more" if len(tied) > 4 else ""  # noqa: PLR2004  as many as are named
        text += f" The model cannot tell it from {names}{more}: all are within {100 * TIE:.0f} %."
    most = max(chosen.columns, key=lambda column: chosen.columns[column])
    text += f" {percent(chosen.columns[most] / chosen.step_s)} of its step is {COSTS[most]}."
    if chosen.meets == "marginal":
        text += f" {_marginal(plan, chosen)}"
    return text


def defaults_of(taken: Sequence[tuple[str, Sequence[Default]]]) -> list[str]:
    """Return the defaults of systems, each once; what was not taken for all of them says for which it was."""
    systems: dict[str, list[str]] = {}
    for system, defaults in taken:
        for each in defaults:
            systems.setdefault(f"{each.flag} {each.value}: {each.reason}", []).append(system)
    return [
        text if len(named) == len(taken) else f"on {joined(named)}: {text}" for text, named in systems.items()
    ]  # fmt: skip


def limits(plan: Plan) -> str:
    """Return the limits in words."""
    wish = plan.wish
    found = []
    if wish.tpot_s is not None:
        found.append(f"{units.format_time(wish.tpot_s)} per token")
    if wish.ttft_s is not None:
        found.append(f"{units.format_time(wish.ttft_s)} to the first")
    return f" within {joined(found)}" if found else ""


def _marginal(plan: Plan, chosen: Choice) -> str:
    """Return why limits hold only perhaps."""
    reasons = []
    first = chosen.ttft_s
    if plan.wish.ttft_s is not None and first is not None and first[1] > plan.wish.ttft_s:
        reasons.append(
            f"the first token takes up to {units.format_time(first[1])} when the whole batch arrives at once"
        )
    if chosen.fits_memory != "yes":
        reasons.append("it fits only if the driver reports enough memory")
    return f"Not for certain: {joined(reasons)}." if reasons else ""


def _unheld(plan: Plan) -> str:
    """Return that no layout keeps up with a rate, or its limit so often, and which comes nearest; else nothing."""
    row, wish = plan.nearest, plan.wish
    if row is None:
        return ""
    if wish.rate_per_s is not None and (most := float(finished_per_s(row.points)[row.place])) < wish.rate_per_s:
        near = f"{name(row.layout)} comes nearest and finishes {most:.3g}"
        return f"No queue settles at {wish.rate_per_s:g} requests/s: {near}."
    if wish.odds is None or wish.tpot_s is None:
        return ""
    kept_s = float(row.candidate.tpot_at(wish.odds)[row.place])
    if kept_s <= wish.tpot_s:
        return ""
    near = f"{name(row.layout)} at batch {row.batch} keeps {units.format_time(1.005 * kept_s)} so often"
    return f"No layout keeps {units.format_time(wish.tpot_s)} in {100 * wish.odds:g} % of cases: {near}."


def _infeasible(plan: Plan) -> str:
    """Return that nothing holds the limits, what comes nearest, and what would have to change."""
    near = plan.nearest
    if near is None:
        return "No layout fits in memory."
    if told := _unheld(plan):
        return told
    text = f"No layout{' holds' + limits(plan).replace(' within', '') if limits(plan) else ''}: the nearest is "
    text += f"{name(near.layout)}, batch {near.batch}, with {units.format_time(near.tpot_s)} per token"
    first = near.ttft_s
    text += f" and {units.format_time(first[0])} to the first" if first is not None else ""
    return f"{text}. {_change(plan, near)}"


def _change(plan: Plan, near: Choice) -> str:
    """Return what would have to change for the nearest point to hold the limits."""
    wish, first = plan.wish, near.ttft_s
    tpot = near.tpot_s / wish.tpot_s if wish.tpot_s is not None else 0.0
    ttft = first[0] / wish.ttft_s if wish.ttft_s is not None and first is not None else 0.0
    if ttft > tpot:
        least = units.format_time((first[0] if first is not None else 0.0) * 1.005)
        return f"The prompt alone takes {ttft:.2g} times the limit: shorten it, or relax --ttft to {least}."
    lever = max(levers(near.scenario), key=lambda each: each.gain)
    return (
        f"The time per token is {tpot:.2g} times the limit; the largest lever is {lever.name}, which saves "
        f"{percent(lever.gain)}. Relax --tpot to {units.format_time(near.tpot_s * 1.005)}, or quantise."
    )


def require_answer(plan: Plan, system: str, suggestions: str = "") -> None:
    """Refuse a plan in which nothing holds the limits, with the nearest feasible point.

    Raises
    ------
    InputError
        There is no layout to look at.
    NoAnswerError
        No layout fits, or none holds the limits.
    """
    if not plan.candidates and not plan.refused:
        what = f"the degrees and batches asked for make no legal layout of {plan.gpus} devices"
        raise InputError(what, where="nhalf plan", do="leave out a degree, or change --gpus")
    if plan.chosen is None:
        if plan.nearest is None:
            tried, on = counted(sum(plan.refused.values()), "layout"), counted(plan.gpus, "device")
            raise NoAnswerError(
                f"{tried} of {on}, and none fits in memory",
                where=system, do=suggestions or "add devices, or quantise with --weights",
            )  # fmt: skip
        if told := _unheld(plan):
            raise NoAnswerError(told.rstrip("."), where=system, do="take more devices, or quantise")
        raise NoAnswerError(_infeasible(plan), where=system)


def judgement(plan: Plan, launched: Launched | None) -> str:
    """Return how the layout of a launch line does against the chosen one."""
    if launched is None:
        return ""
    judged, chosen = plan.judged, plan.chosen
    label = f"Your {launched.engine} line, {name(launched.layout)}"
    if judged is None:
        batch = f" with batch {launched.batch}" if launched.batch else ""
        return f"{label}{batch}, does not fit in memory."
    text = f"{label}, {_judged(judged)}"
    best = plan.judged_best
    if best is not None and best.meets != "no" and best.batch != judged.batch:
        text += f"; its best is {_judged(best)}"
        judged = best
    if chosen is None:
        return f"{text}."
    gain = chosen.score / judged.score - 1
    if judged.meets != "no" and gain <= TIE:
        return f"{text}. That is within the model's error of the best."
    return f"{text}. The chosen layout has {percent(gain)} more {GOALS[plan.wish.goal]}."


def _judged(row: Choice) -> str:
    """Return what a layout does at a batch."""
    text = f"batch {row.batch}: {count(row.tokens_per_s_per_gpu)} tokens/s per GPU at {units.format_time(row.tpot_s)}"
    return f"{text}, beyond the limits" if row.meets == "no" else text


def rule_of_thumb(rule: Rule) -> str:
    """Return what the numbers say of "TP inside the node, PP across"."""
    inside, across = rule.inside, rule.across
    unit = "tokens/s per user" if rule.what == "one stream" else "tokens/s per GPU"
    what = "for one stream" if rule.what == "one stream" else "for throughput"
    said = f"{name(inside.layout)} gives {count(inside.score)} {unit} and {name(across.layout)} {count(across.score)}"
    if rule.holds is None:
        return f'"TP inside the node, PP across" makes no difference {what} on {rule.devices} devices: {said}.'
    verb = "holds" if rule.holds else "is false here"
    return f'"TP inside the node, PP across" {verb} {what} on {rule.devices} devices: {said}.'


def apart(plan: Plan) -> str:
    """Return how prefill and decode on devices of their own compare with both on all of them."""
    found, chosen = plan.pools, plan.chosen
    if found is None:
        return "Prefill and decode apart: no split of the devices holds the limits."
    sides = [
        f"{side.replicas} x {name(replace(side.candidate.layout, replicas=1))}"
        for side in (found.prefill, found.decode)
    ]
    text = (
        f"Prefill and decode apart: {sides[0]} prefill, {sides[1]} decode at batch {found.decode.batch}: "
        f"{count(found.per_gpu)} tokens/s per GPU of all at {units.format_time(found.tpot_s)} per token, "
        f"{units.format_time(found.first_s)} to the first of one prompt alone, of which its cache takes "
        f"{units.format_time(found.transfer_s)}; the links carry caches {percent(found.transfer_share)} of the time"
    )
    if chosen is None or plan.wish.goal == "latency":
        return f"{text}."
    gain = _gain_apart(found, chosen)
    if abs(gain) <= TIE:
        return f"{text}. The model cannot tell that from both together."
    return f"{text}. That is {percent(abs(gain))} {'more' if gain > 0 else 'less'} than both together."


def _gain_apart(found: Pools, chosen: Choice) -> float:
    """Return how much more [1] each GPU gives with prefill and decode apart than with both together."""
    return found.per_gpu / chosen.tokens_per_s_per_gpu - 1


def wins_apart(plan: Plan) -> list[str]:
    """Return which split into prefill and decode gives more than the chosen layout, where the model can tell."""
    found, chosen = plan.pools, plan.chosen
    if found is None or chosen is None or plan.wish.goal == "latency" or _gain_apart(found, chosen) <= TIE:
        return []
    sides = [
        f"{side.replicas} x {name(replace(side.candidate.layout, replicas=1))}"
        for side in (found.prefill, found.decode)
    ]
    gain = percent(_gain_apart(found, chosen))
    where = "--detail" if plan.wish.pools else "--pools"
    return [f"Prefill and decode apart give {gain} more: {sides[0]} prefill, {sides[1]} decode ({where})."]


_EVEN: Final = 5
"""Tenths of the cases at even odds."""


def number(plan: Plan, row: Choice) -> str:
    """Return the one number with its band, the range of the first token and the price where they are known."""
    text = f"{units.format_time(row.tpot_s)} per token, 80 % band {span(*row.band_s)}{kept(plan, row)}"
    if row.ttft_s is not None:
        low, high = row.ttft_s
        text += (
            f"; {units.format_time(low)} to the first (alone) up to {units.format_time(high)} (burst of {row.batch})"
        )
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    return f"{text}; {units.format_money(cost)} per million tokens" if cost is not None else text


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

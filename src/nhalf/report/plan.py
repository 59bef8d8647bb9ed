"""The answer of `nhalf plan`: the chosen layout, those that tie, the front, the rule of thumb, the lines to launch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.decide.launch_lines import ENGINES, Served, lines, runs_on, switches
from nhalf.decide.layouts import name
from nhalf.decide.levers import levers
from nhalf.decide.regime import TIE
from nhalf.errors import InputError, NoAnswerError
from nhalf.report.plan_why import why
from nhalf.report.verdict import WORDS, joined, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan, Rule
    from nhalf.loading import Default
    from nhalf.loading.launch import Launched
    from nhalf.report.canvas import Canvas

_SHOWN: Final = 12
_FRONT: Final = 10
_WIDE: Final = 120
GOALS: Final = {"tokens-per-gpu": "tokens/s per GPU", "latency": "tokens/s per user", "cost": "tokens per dollar"}
_STARS: Final = {"yes": "", "marginal": "?", "no": "!"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a plan was asked for beside its numbers: defaults, warnings, a launch line, and the engines' model name.

    `suggestion` says what would let a layout fit, where none does; it searches, so it is a function.
    """

    defaults: Sequence[Default]
    warnings: Sequence[str]
    launched: Launched | None
    served_model: str
    next_command: str
    suggestion: Callable[[], str] = str


def write(plan: Plan, asked: Asked, canvas: Canvas) -> None:
    """Write the whole answer on a canvas."""
    canvas.paragraph(verdict(plan), bold=True)
    if plan.judged is not None or asked.launched is not None:
        canvas.paragraph(judgement(plan, asked.launched), bold=True)
    shown = plan.chosen or plan.nearest
    if shown is None:
        return
    canvas.paragraph(_number(plan, shown))
    _table(plan, canvas)
    reasons = why(plan)
    if reasons:
        canvas.heading("Why not another layout")
        for reason in reasons:
            canvas.paragraph(f"  {reason}", indent="    ")
    _front(plan, canvas)
    if plan.wish.pools:
        canvas.paragraph(apart(plan), indent="  ")
    for rule in plan.rules:
        canvas.paragraph(rule_of_thumb(rule), indent="  ")
    if plan.chosen is not None:
        _launch(plan.chosen, asked, canvas)
    _closing(plan, asked, canvas)


def verdict(plan: Plan) -> str:
    """Return the chosen layout and what ties with it, or the point nearest to the limits."""
    chosen = plan.chosen
    if chosen is None:
        return _infeasible(plan)
    text = f"{name(chosen.layout)}, batch {chosen.batch}: {rate(chosen.per_gpu)} tokens/s per GPU at "
    text += f"{units.format_time(chosen.tpot_s)} per token ({rate(chosen.per_user)} tokens/s per user)"
    text += f", the most {GOALS[plan.wish.goal]}{limits(plan)} of {len(plan.candidates)} layouts that fit."
    tied = [row for row in plan.rows if row.tied and row is not chosen]
    if tied:
        names = joined([f"{name(row.layout)} (batch {row.batch})" for row in tied[:4]])
        more = f" and {len(tied) - 4} more" if len(tied) > 4 else ""  # noqa: PLR2004  as many as are named
        text += f" The model cannot tell it from {names}{more}: all are within {100 * TIE:.0f} %."
    owed = chosen.columns
    share = max(owed.values()) / sum(owed.values())
    text += f" {percent(share)} of its step is {WORDS[chosen.binding]}."
    if chosen.meets == "marginal":
        text += f" {_marginal(plan, chosen)}"
    return text


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
    if chosen.fits != "yes":
        reasons.append("it fits only if the driver reports enough memory")
    return f"Not for certain: {joined(reasons)}." if reasons else ""


def _infeasible(plan: Plan) -> str:
    """Return that nothing holds the limits, what comes nearest, and what would have to change."""
    near = plan.nearest
    if near is None:
        return "no layout fits in memory."
    text = f"no layout{' holds' + limits(plan).replace(' within', '') if limits(plan) else ''}: the nearest is "
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
            raise NoAnswerError(
                f"{sum(plan.refused.values())} layouts of {plan.gpus} devices, and none fits in memory",
                where=system, do=suggestions or "add devices, or quantise with --weights",
            )  # fmt: skip
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
    text = f"batch {row.batch}: {rate(row.per_gpu)} tokens/s per GPU at {units.format_time(row.tpot_s)}"
    return f"{text}, beyond the limits" if row.meets == "no" else text


def rule_of_thumb(rule: Rule) -> str:
    """Return what the numbers say of "TP inside the node, PP across"."""
    inside, across = rule.inside, rule.across
    unit = "tokens/s per user" if rule.what == "one stream" else "tokens/s per GPU"
    what = "for one stream" if rule.what == "one stream" else "for throughput"
    said = f"{name(inside.layout)} gives {rate(inside.score)} {unit} and {name(across.layout)} {rate(across.score)}"
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
        f"{rate(found.per_gpu)} tokens/s per GPU of all at {units.format_time(found.tpot_s)} per token, "
        f"{units.format_time(found.first_s)} to the first of one prompt alone, of which its cache takes "
        f"{units.format_time(found.transfer_s)}; the links carry caches {percent(found.transfer_share)} of the time"
    )
    if chosen is None or plan.wish.goal == "latency":
        return f"{text}."
    gain = found.per_gpu / chosen.per_gpu - 1
    if abs(gain) <= TIE:
        return f"{text}. The model cannot tell that from both together."
    return f"{text}. That is {percent(abs(gain))} {'more' if gain > 0 else 'less'} than both together."


def rate(tokens_per_s: float) -> str:
    """Return tokens/s to three digits, without an exponent."""
    return units.format_number(float(f"{tokens_per_s:.3g}"))


def _number(plan: Plan, row: Choice) -> str:
    """Return the one number, with the range of the first token and the price where they are known."""
    text = f"{units.format_time(row.tpot_s)} per token"
    if row.ttft_s is not None:
        low, high = row.ttft_s
        text += (
            f"; {units.format_time(low)} to the first (alone) up to {units.format_time(high)} (burst of {row.batch})"
        )
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    return f"{text}; {units.format_money(cost)} per million tokens" if cost is not None else text


def _table(plan: Plan, canvas: Canvas) -> None:
    """Write the best point of each layout."""
    kind = GOALS[plan.wish.goal]
    canvas.heading(f"{plan.gpus} devices, layouts by {kind}, each at its best batch")
    wide = canvas.width >= _WIDE
    rows = list(plan.rows[:_SHOWN])
    if plan.chosen is not None and plan.chosen not in rows:
        rows.append(plan.chosen)
    cells = [_cells(plan, row, wide=wide) for row in rows]
    heads = ["<layout", "batch", "TPOT", "TTFT", "tok/s/user", "tok/s/GPU"]
    heads += ["nodes"] if wide else []
    heads += ["$/Mtok"] if plan.wish.price_per_hour is not None else []
    heads += ["<binds", "<runs on"] if wide else ["<binds"]
    marked = [index for index, row in enumerate(rows) if row is plan.chosen]
    canvas.table(heads, cells, marked=marked)
    for note in _notes(plan, rows):
        canvas.paragraph(note, indent="  ")


def _cells(plan: Plan, row: Choice, *, wide: bool) -> list[str]:
    """Return the cells of a row."""
    first = row.ttft_s
    last = units.format_time(first[0] if not wide else first[1]) if first is not None else "-"
    shown = last if first is None or not wide else f"{units.format_time(first[0])}-{last}"
    cells = [f"{name(row.layout)}{_STARS[row.meets]}{'*' if row.tied else ''}", str(row.batch)]
    cells += [units.format_time(row.tpot_s), shown, rate(row.per_user), rate(row.per_gpu)]
    cells += [str(_nodes(row))] if wide else []
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    cells += [units.format_money(cost)] if cost is not None else []
    engines = ", ".join(engine for engine in ENGINES if runs_on(row.layout, engine))
    return [*cells, row.binding, *([engines or "none"] if wide else [])]


def _nodes(row: Choice) -> int:
    """Return how many nodes a replica takes."""
    return row.layout.nodes(row.candidate.scenario.system.fabric)


def _notes(plan: Plan, rows: Sequence[Choice]) -> list[str]:
    """Return what the marks mean, and what is behind the rows."""
    notes = [f"* within {100 * TIE:.0f} % of the best. x replicas; TTFT of one prompt alone"]
    if any(row.ttft_s for row in rows):
        notes[0] += " (at 120 columns: up to a burst of the whole batch)"
    notes[0] += "."
    marks = {row.meets for row in rows}
    if "marginal" in marks:
        notes.append("? within the limits for one prompt alone or with luck in memory, not in every case.")
    if "no" in marks:
        notes.append("! beyond the limits.")
    if any(row.layout.routed_exchange == "all-to-all" for row in rows):
        notes.append("a2a: tokens are sent to their experts, not gathered by all.")
    alike = [row for row in rows if len(row.candidate.alike) > 1]
    if alike:
        degrees = ", ".join(str(degree) for degree in alike[0].candidate.alike)
        notes.append(f"{name(alike[0].layout)}: EP {degrees} are one prediction; only uneven routing tells them apart.")
    if len(plan.rows) > len(rows):
        notes.append(f"{len(plan.rows) - len(rows)} more layouts with --json or --csv.")
    return [*notes, *left_out(plan)]


def left_out(plan: Plan) -> list[str]:
    """Return how many layouts were left out, and why."""
    return [f"{count} layout{'s' if count > 1 else ''} left out: {why}." for why, count in plan.refused.items()]


def _front(plan: Plan, canvas: Canvas) -> None:
    """Write the Pareto front, thinned to what a page holds."""
    points = list(plan.pareto)
    if len(points) < 2:  # noqa: PLR2004  one point is no front
        return
    canvas.heading("Pareto front: nothing is faster for a user without less for a GPU")
    kept = sorted({round(place) for place in np.linspace(0, len(points) - 1, min(_FRONT, len(points)))})
    priced = plan.wish.price_per_hour is not None
    rows = []
    for point in (points[place] for place in kept):
        cost = point.cost_per_mtoken(plan.wish.price_per_hour)
        row = [name(point.layout), str(point.batch), rate(point.per_user), rate(point.per_gpu)]
        rows.append([*row, *([units.format_money(cost or 0.0)] if priced else []), point.binding])
    heads = ["<layout", "batch", "tok/s/user", "tok/s/GPU", *(["$/Mtok"] if priced else []), "<binds"]
    canvas.table(heads, rows)


def served(chosen: Choice, model: str) -> Served:
    """Return what is launched."""
    scenario = chosen.candidate.scenario
    workload, transformer = scenario.workload, scenario.transformer
    longest = float(np.max(workload.prompt_tokens + workload.output_tokens)) or float(np.max(workload.context_tokens))
    return Served(
        model=model,
        batch=chosen.batch,
        tokens=math.ceil(longest),
        kv_dtype=workload.kv_dtype,
        quantised="" if workload.weight_dtype == transformer.weight_dtype else workload.weight_dtype,
        mixture=transformer.mixture is not None,
        devices_per_node=scenario.system.fabric.devices_per_node,
    )


def _launch(chosen: Choice, asked: Asked, canvas: Canvas) -> None:
    """Write the lines that launch the chosen layout, and what the prediction assumes."""
    replicas = chosen.layout.replicas
    often = f", {replicas} times on devices of their own" if replicas > 1 else ""
    canvas.heading(f"Launch {name(chosen.layout)}{often}")
    for engine, line in lines(chosen.layout, served(chosen, asked.served_model)).items():
        if not line.command:
            canvas.paragraph(f"  {engine}: cannot run it: {line.reason}", indent="    ")
            continue
        canvas.paragraph(f"  {line.command}", indent="    ")
        for also in line.also:
            canvas.paragraph(f"    with {also}", indent="      ")
    stack, workload = chosen.candidate.scenario.stack, chosen.candidate.scenario.workload
    canvas.heading(f"The prediction is for {stack.engine} and assumes")
    serves = bool(np.any(np.greater(workload.output_tokens, 0)))
    for switch in switches(chosen.layout, mode=str(stack.mode), serves_prompts=serves):
        canvas.paragraph(f"  {switch}", indent="    ")


def _closing(plan: Plan, asked: Asked, canvas: Canvas) -> None:
    """Write the defaults and the next command."""
    if asked.defaults:
        canvas.heading("Defaults taken")
        for default in asked.defaults:
            canvas.paragraph(f"  {default.flag} {default.value}: {default.reason}", indent="    ")
    canvas.heading("Next")
    canvas.paragraph(f"  {asked.next_command}", indent="    ")
    del plan

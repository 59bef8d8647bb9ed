"""The answer of `nhalf plan`: the chosen layout, those that tie, the front, the rule of thumb, the lines to launch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.decide.launch_lines import ENGINES, Served, lines, runs_on, switches
from nhalf.decide.layouts import name
from nhalf.decide.regime import TIE
from nhalf.decide.requests import waits
from nhalf.predict.routed import measured_ways
from nhalf.report.document import envelope, of, taken
from nhalf.report.fields import count, waited
from nhalf.report.plan_words import GOALS, apart, judgement, limits, number, rule_of_thumb, verdict, why
from nhalf.report.words import joined, most

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.launch_lines import Line
    from nhalf.decide.pools import Pools
    from nhalf.decide.search import Plan, Rule
    from nhalf.loading import Default
    from nhalf.loading.launch import Launched
    from nhalf.report.canvas import Canvas


_SHOWN: Final = 12
_FRONT: Final = 10
_STARS: Final = {"yes": "", "marginal": "?", "no": "!"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a plan was asked for beside its numbers: the system, defaults, warnings, a launch line, the model's name.

    `suggestion` says what would let a layout fit, where none does; it searches, so it is a function.
    """

    system: str
    defaults: Sequence[Default]
    warnings: Sequence[str]
    launched: Launched | None
    served_model: str
    next_command: str
    suggestion: Callable[[], str] = str


def write(plan: Plan, asked: Asked, canvas: Canvas) -> None:
    """Write all that the first screen has no room for."""
    shown = plan.chosen or plan.nearest
    if shown is None:
        return
    canvas.paragraph(f"\n{number(plan, shown)}.")
    _table(plan, canvas)
    canvas.listed("Why not another layout", why(plan))
    _front(plan, canvas)
    if plan.wish.pools:
        canvas.paragraph(apart(plan), indent="  ")
    for rule in plan.rules:
        canvas.paragraph(rule_of_thumb(rule), indent="  ")
    if plan.chosen is not None:
        _launch(plan.chosen, asked, canvas)


def _table(plan: Plan, canvas: Canvas) -> None:
    """Write the best point of each layout."""
    canvas.heading(f"{plan.gpus} devices, layouts by {GOALS[plan.wish.goal]}, each at its best batch")
    rows = list(plan.rows[:_SHOWN])
    if plan.chosen is not None and plan.chosen not in rows:
        rows.append(plan.chosen)
    price = ["$/Mtok"] if plan.wish.price_per_hour is not None else []
    heads = ["<layout", "batch", "TPOT", "TTFT", "tok/s/user", "tok/s/GPU", "nodes", *price, "<most time", "<runs on"]
    marked = [index for index, row in enumerate(rows) if row is plan.chosen]
    canvas.table(heads, [_cells(plan, row) for row in rows], marked=marked)
    for note in _notes(plan, rows):
        canvas.paragraph(note, indent="  ")


def _cells(plan: Plan, row: Choice) -> list[str]:
    first = "-" if row.ttft_s is None else "-".join(units.format_time(end) for end in row.ttft_s)
    cells = [f"{name(row.layout)}{_STARS[row.meets]}{'*' if row.tied else ''}", str(row.batch)]
    cells += [units.format_time(row.tpot_s), first, count(row.tokens_per_s_per_user), count(row.tokens_per_s_per_gpu)]
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    engines = ", ".join(engine for engine in ENGINES if runs_on(row.layout, engine))
    costs = [units.format_money(cost)] if cost is not None else []
    return [*cells, str(row.nodes), *costs, most(row.binding), engines or "none"]


def _notes(plan: Plan, rows: Sequence[Choice]) -> list[str]:
    """Return what the marks mean, and what is behind the rows."""
    notes = [f"* within {100 * TIE:.0f} % of the best. x replicas."]
    if any(row.ttft_s for row in rows):
        notes[0] += " TTFT: from that of a prompt alone to that of the last when the whole batch arrives at once."
    marks = {row.meets for row in rows}
    if "marginal" in marks:
        notes.append(_perhaps(plan))
    if "no" in marks:
        notes.append("! beyond the limits.")
    if any(row.layout.routed_exchange == "all-to-all" for row in rows):
        notes.append("a2a: tokens are sent to their experts, not gathered by all.")
        notes += _by_law(rows)
    alike = [row for row in rows if len(row.candidate.alike) > 1]
    if alike:
        degrees = ", ".join(str(degree) for degree in alike[0].candidate.alike)
        notes.append(f"{name(alike[0].layout)}: EP {degrees} are one prediction; only uneven routing tells them apart.")
    if len(plan.rows) > len(rows):
        notes.append(f"{len(plan.rows) - len(rows)} more layouts with --json or --csv.")
    return [*notes, *left_out(plan)]


def _perhaps(plan: Plan) -> str:
    """Return what it takes for a layout that is marked `?` to do: memory alone, where there is no limit on times."""
    if not limits(plan):
        return "? fits only if the driver reports enough memory."
    return "? holds the limits for one prompt alone, or if the driver reports enough memory; not in every case."


def _by_law(rows: Sequence[Choice]) -> list[str]:
    """Return which layouts that send tokens do so by the law, because nothing was measured for them."""
    sent = [row for row in rows if row.layout.routed_exchange == "all-to-all"]
    modelled = [name(row.layout) for row in sent if not measured_ways(row.candidate.scenario)]
    if not modelled:
        return []
    every = "each of them" if len(modelled) == len(sent) and len(sent) > 1 else joined(modelled)
    return [f"{every}: dispatch and combine by the law of distinct ranks hit; nothing was measured there, wide band."]


def left_out(plan: Plan) -> list[str]:
    """Return how many layouts were left out, and why."""
    return [f"{count} layout{'s' if count > 1 else ''} left out: {why}." for why, count in plan.refused.items()]


def _front(plan: Plan, canvas: Canvas) -> None:
    """Write the Pareto front, thinned to what a page holds."""
    points = list(plan.pareto)
    if len(points) < 2:  # noqa: PLR2004  one point is no front
        return
    canvas.heading("Pareto front: nothing is faster for a user without less for a GPU")
    chosen = [place for place, point in enumerate(points) if plan.chosen is not None and _is(point, plan.chosen)]
    spread = np.linspace(0, len(points) - 1, min(_FRONT, len(points)))
    kept = sorted({*(round(place) for place in spread), *chosen})
    priced = plan.wish.price_per_hour is not None
    rows = []
    for place in kept:
        point = points[place]
        cost = point.cost_per_mtoken(plan.wish.price_per_hour)
        layout = f"{name(point.layout)}{'*' if place in chosen else ''}"
        row = [layout, str(point.batch), count(point.tokens_per_s_per_user), count(point.tokens_per_s_per_gpu)]
        rows.append([*row, *([units.format_money(cost or 0.0)] if priced else []), most(point.binding)])
    heads = ["<layout", "batch", "tok/s/user", "tok/s/GPU", *(["$/Mtok"] if priced else []), "<most time"]
    canvas.table(heads, rows)
    said = ["* the chosen one"] if chosen else []
    said += [f"{len(kept)} of {len(points)} points, the others with --json"] if len(kept) < len(points) else []
    if said:
        canvas.paragraph(f"{'; '.join(said)}.")


def _is(point: Choice, other: Choice) -> bool:
    """Tell whether two points are the same layout at the same batch."""
    return point.layout == other.layout and point.batch == other.batch


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
        devices_per_node=scenario.system.fabric.devices_per_host,
        plain=transformer.weight_dtype in ("bf16", "fp16"),
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
        canvas.command(line.command)
        for also in line.also:
            canvas.paragraph(f"    with {also}", indent="      ")
    stack, workload = chosen.candidate.scenario.stack, chosen.candidate.scenario.workload
    serves = bool(np.any(np.greater(workload.output_tokens, 0)))
    assumed = switches(chosen.layout, mode=str(stack.mode), serves_prompts=serves)
    canvas.listed(f"The prediction is for {stack.engine} and assumes", assumed)


def document(plan: Plan, asked: Asked, *, every: bool) -> dict[str, Any]:
    """Return the document of `nhalf plan`: the best point of each layout and the front, or every point."""
    return envelope("plan", body(plan, asked, every=every))


def body(plan: Plan, asked: Asked, *, every: bool) -> dict[str, Any]:
    """Return what the document says of one plan."""
    chosen = plan.chosen
    launch: dict[str, Line] = {} if chosen is None else lines(chosen.layout, served(chosen, asked.served_model))
    stack = None if chosen is None else chosen.candidate.scenario.stack
    return {
        "verdict": verdict(plan),
        "gpus": plan.gpus,
        "goal": plan.wish.goal,
        **of(plan.wish, "odds", "users", "rate_per_s", tpot_limit_s="tpot_s", ttft_limit_s="ttft_s"),
        "rows": plan.records(every=every),
        **{
            key: None if (row := getattr(plan, key)) is None else plan.record(row)
            for key in ("chosen", "even", "nearest", "judged", "judged_best")
        },
        "waits": waited(None if chosen is None else waits(chosen)),
        "judgement": judgement(plan, asked.launched) or None,
        "launch": {engine: line.command or None for engine, line in launch.items()},
        "launch_notes": {engine: [line.reason] if line.reason else list(line.also) for engine, line in launch.items()},
        "assumes": []
        if chosen is None or stack is None
        else list(switches(chosen.layout, mode=str(stack.mode), serves_prompts=chosen.ttft_s is not None)),
        "pools": None if plan.pools is None else _pools(plan.pools),
        "why": why(plan),
        "rules": [_rule(rule) for rule in plan.rules],
        "refused": [{"reason": why, "layouts": count} for why, count in plan.refused.items()],
        "defaults": taken(asked.defaults),
        "warnings": list(asked.warnings),
    }


def _pools(found: Pools) -> dict[str, Any]:
    """Return the split into prefill and decode."""
    sides = {
        key: value
        for role, side in (("prefill", found.prefill), ("decode", found.decode))
        for key, value in ((role, name(side.candidate.layout)), (f"{role}_replicas", side.replicas))
    }
    renamed = {"ttft_low_s": "first_s", "tokens_per_s_per_user": "per_user", "tokens_per_s_per_gpu": "per_gpu"}
    return {**sides, "batch": found.decode.batch, **of(found, "tpot_s", "transfer_s", "transfer_share", **renamed)}


def _rule(rule: Rule) -> dict[str, Any]:
    """Return what the numbers say of the rule of thumb."""
    sides = {
        key: value
        for side, row in (("inside", rule.inside), ("across", rule.across))
        for key, value in ((side, name(row.layout)), (f"{side}_value", row.score))
    }
    return {**of(rule, "devices", "what", "holds"), **sides, "text": rule_of_thumb(rule)}

"""The plans of several systems side by side: which gives more, a column for each, and one document for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.decide.layouts import name
from nhalf.decide.option import ANOTHER_STACK
from nhalf.errors import NoAnswerError
from nhalf.report.document import envelope
from nhalf.report.fields import count
from nhalf.report.plan import body
from nhalf.report.plan_words import (
    GOALS,
    apart,
    defaults_of,
    judgement,
    limits,
    number,
    require_answer,
    rule_of_thumb,
    verdict,
)
from nhalf.report.view import percent
from nhalf.report.words import joined, most

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan
    from nhalf.report.canvas import Canvas
    from nhalf.report.plan import Asked

Named = tuple[str, "Plan", "Asked"]
"""The name of a system, its plan, and what it was asked for."""


def write(plans: Sequence[Named], canvas: Canvas) -> None:
    """Write the table of chosen layouts, each verdict, and the defaults."""
    canvas.heading(f"The layout chosen on each of {joined([name for name, _, _ in plans])}")
    canvas.table(["<", *(f"{system}" for system, _, _ in plans)], _table(plans))
    for system, plan, asked in plans:
        shown = plan.chosen or plan.nearest
        texts = [
            _capital(verdict(plan)),
            *([] if shown is None else [number(plan, shown)]),
            judgement(plan, asked.launched),
            apart(plan) if plan.wish.pools and plan.chosen is not None else "",
            *(rule_of_thumb(rule) for rule in plan.rules),
        ]
        canvas.listed(system, [text for text in texts if text], indent="  ")
    canvas.listed("Defaults taken", defaults_of([(system, asked.defaults) for system, _, asked in plans]))


def comparison(plans: Sequence[Named]) -> str:
    """Return which system gives more of what is wanted, and by how much; within the model's error none does."""
    held = sorted(((system, plan, plan.chosen) for system, plan, _ in plans if plan.chosen is not None),
                  key=lambda each: -_wanted(each[1], each[2]))  # fmt: skip
    wish = plans[0][1].wish
    within = limits(plans[0][1])
    missing = [system for system, plan, _ in plans if plan.chosen is None]
    without = f" {joined(missing)} {'has' if len(missing) == 1 else 'have'} no layout{within}." if missing else ""
    if not held:
        return f"No system has a layout{within or ' that fits in memory'}."
    unit = GOALS[wish.goal]
    first, best = held[0][0], _wanted(held[0][1], held[0][2])
    text = f"{first} gives {count(best)} {unit}{within}"
    if len(held) > 1:
        others = [
            f"{system} {count(_wanted(plan, row))} ({percent(_wanted(plan, row) / best)} of that)"
            for system, plan, row in held[1:]
        ]
        text += f", {joined(others)}"
        close = [system for system, plan, row in held[1:] if _wanted(plan, row) >= best * (1 - ANOTHER_STACK)]
        if close:
            error = f"{100 * ANOTHER_STACK:.0f} %"
            text += f". The model cannot tell {joined([first, *close])} apart: between machines its error is {error}"
    return f"{text}.{without}"


def _wanted(plan: Plan, row: Choice | None) -> float:
    """Return what is wanted most of: tokens per second of a user or a GPU, or tokens for a dollar."""
    if row is None:
        return 0.0
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    return 1e6 / cost if plan.wish.goal == "cost" and cost is not None else row.score


def winner(plans: Sequence[Named]) -> Named | None:
    """Return the plan that gives most, None where none has an answer."""
    held = [each for each in plans if each[1].chosen is not None]
    return max(held, key=lambda each: _wanted(each[1], each[1].chosen), default=None)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(plans: Sequence[Named]) -> list[list[str]]:
    """Return the rows of the table: a line a property, a column a system; the nearest point where none holds."""
    columns = [_column(plan) for _, plan, _ in plans]
    heads = list(dict.fromkeys(head for column in columns for head in column))
    return [[head, *(column.get(head, "-") for column in columns)] for head in heads]


def _column(plan: Plan) -> dict[str, str]:
    """Return the properties of the layout that is shown of one plan."""
    row = plan.chosen or plan.nearest
    if row is None:
        return {"devices": str(plan.gpus), "layout": "none fits"}
    found = {
        "devices": str(plan.gpus),
        "layout": name(row.layout) + {"yes": "", "marginal": "?", "no": "!"}[row.meets],
        "batch": str(row.batch),
        "TPOT": units.format_time(row.tpot_s),
    }
    if row.ttft_s is not None:
        found["TTFT, one prompt alone"] = units.format_time(row.ttft_s[0])
        found["TTFT, burst of the batch"] = units.format_time(row.ttft_s[1])
    found |= {"tok/s/user": count(row.tokens_per_s_per_user), "tok/s/GPU": count(row.tokens_per_s_per_gpu)}
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    if cost is not None:
        found["$/Mtok"] = units.format_money(cost)
    found["nodes of a replica"] = str(row.layout.nodes(row.candidate.scenario.system.fabric))
    found["most time"] = most(row.binding)
    return found


def document(plans: Sequence[Named], *, every: bool) -> dict[str, Any]:
    """Return the document of several plans: rows of all, the chosen one of the best system, and each plan whole."""
    bodies = [{"system": system, **body(plan, asked, every=every)} for system, plan, asked in plans]
    first = winner(plans)
    best = next((each for each in bodies if first is not None and each["system"] == first[0]), bodies[0])
    return envelope(
        "plan",
        {
            **best,
            "verdict": comparison(plans),
            "rows": [row for each in bodies for row in each["rows"]],
            "plans": [{key: value for key, value in each.items() if key != "rows"} for each in bodies],
        },
    )


def require_answers(plans: Sequence[Named]) -> None:
    """Refuse plans none of which has an answer, with the nearest feasible point of each.

    Raises
    ------
    InputError
        There is no layout to look at.
    NoAnswerError
        No layout fits, or none holds the limits.
    """
    if any(found.chosen is not None for _, found, _ in plans):
        return
    refusals = []
    for system, found, asked in plans:
        try:
            require_answer(found, system, asked.suggestion())
        except NoAnswerError as error:
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    raise NoAnswerError("; ".join(str(refusal).rstrip(".") for refusal in refusals), where="nhalf plan")

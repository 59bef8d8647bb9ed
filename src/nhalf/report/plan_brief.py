"""The first screen of `nhalf plan`: which layout to run, how sure that is, the runners-up, and the line to launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.launch_lines import lines
from nhalf.decide.regime import TIE
from nhalf.report import fields
from nhalf.report.decode_brief import assumed, span
from nhalf.report.plan import served
from nhalf.report.plan_number import odds
from nhalf.report.plan_several import comparison
from nhalf.report.plan_words import apart, judgement, limits, verdict
from nhalf.report.verdict import joined
from nhalf.report.view import Bars, Brief, percent, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan
    from nhalf.report.plan import Asked
    from nhalf.report.plan_several import Named

_MOST_ROWS: Final = 6
_TENTHS: Final = 10


def brief(plan: Plan, asked: Asked) -> Brief:
    """Return the first screen of one plan."""
    chosen = plan.chosen
    if chosen is None:
        return Brief(verdict=[verdict(plan), *_judged(plan, asked)], warn=True, next_command=asked.next_command)
    return Brief(
        verdict=[_best(plan, chosen), *_judged(plan, asked)],
        number=_sure(plan, chosen),
        title=_title(plan, chosen),
        bars=_bars(plan, chosen),
        notes=_notes(plan),
        closing=[*_behind(plan, chosen), *([apart(plan)] if plan.wish.pools else [])],
        commands=_launch(chosen, asked),
        assumed=assumed(chosen, asked.defaults, batch=False),
        next_command=asked.next_command,
        next_why="where does its time go?",
    )


def several_brief(plans: Sequence[Named], next_command: str) -> Brief:
    """Return the first screen of the plans of several systems: the layout chosen on each, or the nearest."""
    latency = plans[0][1].wish.goal == "latency"
    shown = [(system, plan, plan.chosen or plan.nearest) for system, plan, _ in plans]
    rates = [
        0.0 if row is None else row.tokens_per_s_per_user if latency else row.tokens_per_s_per_gpu
        for _, _, row in shown
    ]
    cells = [
        ["none fits", "-", "-", "-"]
        if row is None
        else [row.layout_name, whole_number(users(row)), fields.milliseconds(row.tpot_s), fields.count(rate)]
        for (_, _, row), rate in zip(shown, rates, strict=True)
    ]
    return Brief(
        verdict=[comparison(plans)],
        title=f"The layout chosen on each{limits(plans[0][1])}",
        bars=Bars(
            heads=["<system", "GPUs", "<layout", "users", "ms/token", "tok/s/user" if latency else "tok/s/GPU"],
            rows=[[system, str(plan.gpus), *rest] for (system, plan, _), rest in zip(shown, cells, strict=True)],
            names=[],
            parts=[[rate] for rate in rates],
            remarks=[
                "" if row is None else row.binding if plan.chosen is not None else "over the limit"
                for _, plan, row in shown
            ],
        ),
        next_command=next_command,
        next_why="its launch lines",
    )


def _judged(plan: Plan, asked: Asked) -> list[str]:
    """Return how the launch line that was given does."""
    return [judgement(plan, asked.launched)] if plan.judged is not None or asked.launched is not None else []


def users(row: Choice) -> int:
    """Return the sequences in flight over all replicas."""
    return row.batch * row.layout.replicas


def _best(plan: Plan, row: Choice) -> str:
    """Return what to run, with its number."""
    rate = fields.count(row.tokens_per_s_per_user if plan.wish.goal == "latency" else row.tokens_per_s_per_gpu)
    what = "tokens/s per user" if plan.wish.goal == "latency" else "tokens/s per GPU"
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    money = f", {units.format_money(cost)} per million tokens" if cost is not None else ""
    who = "1 user" if users(row) == 1 else f"{whole_number(users(row))} users"
    return f"Run {row.layout_name} for {who}: {rate} {what}, {units.format_time(row.tpot_s)} per token{money}."


def _sure(plan: Plan, row: Choice) -> str:
    """Return the range of the time per token, the odds at its limit, and what of the memory is tight."""
    text = f"80 % range: {span(row.tpot_low_s, row.tpot_high_s)}."
    tenths = odds(plan, row)
    if tenths is not None and tenths < _TENTHS:
        text += f" It keeps {units.format_time(plan.wish.tpot_s or 0.0)} in {tenths} of 10 cases."
    return text + (" A tight fit in memory." if row.fits_memory == "marginal" else "")


def _title(plan: Plan, row: Choice) -> str:
    """Return what the table is of."""
    workload = row.scenario.workload
    load = ""
    if row.ttft_low_s is not None:
        prompt, answer = (whole_number(float(length)) for length in (workload.prompt_tokens, workload.output_tokens))
        load = f", prompts {prompt}, answers {answer} tokens"
    return f"{row.model} on {plan.gpus} GPUs of {row.system}{load}"


def _bars(plan: Plan, chosen: Choice) -> Bars:
    """Return the best layouts, each at its best batch, with a bar of what is wanted."""
    rows = list(plan.rows[:_MOST_ROWS])
    if chosen not in rows:
        rows[-1:] = [chosen]
    latency = plan.wish.goal == "latency"
    wanted = [row.tokens_per_s_per_user if latency else row.tokens_per_s_per_gpu for row in rows]
    priced = plan.wish.price_per_hour is not None
    return Bars(
        heads=[
            "<layout",
            "users",
            "ms/token",
            *(["$/Mtok"] if priced else []),
            "tok/s/user" if latency else "tok/s/GPU",
        ],
        rows=[
            [
                row.layout_name,
                whole_number(users(row)),
                fields.milliseconds(row.tpot_s),
                *([units.format_money(row.cost_per_mtoken(plan.wish.price_per_hour) or 0.0)] if priced else []),
                fields.count(rate),
            ]
            for row, rate in zip(rows, wanted, strict=True)
        ],
        names=["tokens/s per user" if latency else "tokens/s per GPU"],
        parts=[[rate] for rate in wanted],
        remarks=["over the limit" if row.meets == "no" else row.binding for row in rows],
        tones=["good" if row is chosen else "warn" if row.meets == "no" else "plain" for row in rows],
    )


def _notes(plan: Plan) -> list[str]:
    """Return how many layouts are behind the table, and what is modelled of the chosen one."""
    chosen = plan.chosen
    notes = []
    if chosen is not None and chosen.kind == "modelled" and chosen.layout.devices > 1:
        notes.append(f"The network of {chosen.layout_name} is modelled, not measured.")
    return notes


def _behind(plan: Plan, chosen: Choice) -> list[str]:
    """Return what ties with the chosen layout, and by how much the next one is behind."""
    out = sum(plan.refused.values())
    text = f"{len(plan.candidates)} layouts fit{f', {out} do not' if out else ''}."
    tied = [row.layout_name for row in plan.rows if row.tied and row is not chosen]
    if tied:
        named = joined(tied[:3]) + (f" and {len(tied) - 3} more" if len(tied) > 3 else "")  # noqa: PLR2004  as named
        return [f"{text} {named}: within {100 * TIE:.0f} %, so the model cannot tell."]
    others = [row for row in plan.rows if row is not chosen and row.meets != "no"]
    return (
        [f"{text} {others[0].layout_name} gives {percent(1 - others[0].score / chosen.score)} less."]
        if others
        else [text]
    )


def _launch(chosen: Choice, asked: Asked) -> list[str]:
    """Return the line that launches it with the engine that was asked for."""
    engine = chosen.engine
    line = lines(chosen.layout, served(chosen, asked.served_model)).get(engine)
    if line is None or not line.command:
        return [f"# {engine} cannot launch it{f': {line.reason}' if line is not None and line.reason else ''}"]
    return [line.command]

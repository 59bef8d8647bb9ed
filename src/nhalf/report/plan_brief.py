"""The first screen of `nhalf plan`: which layout, how sure its limit is, the runners-up, and the line to launch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.launch_lines import lines
from nhalf.decide.layouts import name
from nhalf.decide.requests import waits
from nhalf.engines.served import PLACEHOLDER
from nhalf.predict.routed import measured_ways
from nhalf.report.fields import count, waits_line
from nhalf.report.plan import Asked, served
from nhalf.report.plan_several import comparison
from nhalf.report.plan_words import GOALS, judgement, limits, tenths, token_columns, verdict, wins_apart
from nhalf.report.view import Bars, Brief, percent
from nhalf.report.words import COSTS, assumed, most, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan
    from nhalf.report.plan_several import Named

_SHOWN: Final = 5


def brief(plan: Plan, asked: Asked) -> Brief:
    """Return the first screen of a plan."""
    chosen = plan.chosen or plan.nearest
    judged = [judgement(plan, asked.launched)] if plan.judged is not None or asked.launched is not None else []
    if chosen is None:
        return Brief(verdict=[verdict(plan), *judged], warn=True, next_command=asked.next_command)
    rows = list(plan.rows[:_SHOWN])
    if (chosen.layout, chosen.batch) not in {(row.layout, row.batch) for row in rows}:
        rows.append(chosen)
    return Brief(
        verdict=[_run(plan, chosen) if plan.chosen is not None else verdict(plan), *judged],
        warn=plan.chosen is None,
        number=" ".join([f"80 % range: {span(*chosen.band_s)} per token.", *_odds(plan, chosen)]),
        title=f"{chosen.scenario.transformer.name} on {plan.gpus} {asked.system}{_lengths(chosen)}",
        bars=_bars(plan, rows),
        notes=_notes(plan, rows),
        closing=[*_waits(plan, chosen), *wins_apart(plan), *_runner_up(plan), *_even(plan, chosen)],
        commands=_launch(plan, asked),
        assumed=assumed(chosen, asked.defaults),
        next_command=asked.next_command,
    )


def several(plans: Sequence[Named], *, next_command: str) -> Brief:
    """Return the first screen of the plans of several systems: the layout chosen on each."""
    shown = [(system, plan, plan.chosen or plan.nearest) for system, plan, _ in plans]
    rows = [
        [system, str(plan.gpus), *(_cells(plan, row) if row is not None else ["none fits", "-", "-"])]
        for system, plan, row in shown
    ]
    return Brief(
        verdict=[comparison(plans)],
        title=f"The layout chosen on each{limits(plans[0][1])}",
        bars=Bars(
            heads=["<system", "GPUs", "<layout", "users", "ms/token", f"{_unit(plans[0][1])}"],
            rows=[
                [*cells, count(_score(plan, row)) if row is not None else "-"]
                for cells, (_, plan, row) in zip(rows, shown, strict=True)
            ],
            names=[],
            parts=[[_score(plan, row) if row is not None else 0.0] for _, plan, row in shown],
            remarks=[
                "" if row is None else "beyond the limits" if plan.chosen is None else most(row.binding)
                for _, plan, row in shown
            ],
        ),
        next_command=next_command,
        next_why="its layouts and launch lines",
    )


def _run(plan: Plan, chosen: Choice) -> str:
    """Return what to run, for how many users, and what it gives."""
    load = users(plan, chosen)
    who = "1 user" if load == 1 else f"{load:,} users"
    return (
        f"Run {name(chosen.layout)} for {who}: {count(chosen.tokens_per_s_per_gpu)} tokens/s per GPU, "
        f"{units.format_time(chosen.tpot_s)} per token."
    )


def _odds(plan: Plan, chosen: Choice) -> list[str]:
    """Return in how many of ten cases a limit is kept, where that is not certain."""
    found = tenths(plan, chosen)
    return [] if found is None else [f"It keeps {units.format_time(plan.wish.tpot_s or 0)} in {found} of 10 cases."]


def _waits(plan: Plan, chosen: Choice) -> list[str]:
    """Return what the requests of the chosen layout wait, replayed one by one, and which limit not all of them keep."""
    found = waits(chosen)
    if found is None:
        return []
    pairs = (
        (plan.wish.ttft_s, found.ttft_p50_s, found.ttft_p99_s, "to the first token"),
        (plan.wish.tpot_s, found.tpot_p50_s, found.tpot_p99_s, "a token"),
    )
    late = [
        f"{'Most requests take' if middle > limit else 'More than 1 request in 100 takes'} over "
        f"{units.format_time(limit)} {what}{': --users finds a load that keeps it' * (middle > limit)}."
        for limit, middle, last, what in pairs
        if limit is not None and last > limit
    ]
    return [waits_line(found), *late]


def users(plan: Plan, row: Choice) -> int:
    """Return the sequences in flight over all replicas."""
    return row.batch * row.layout.replicas if plan.wish.users is None else plan.wish.users


def _even(plan: Plan, chosen: Choice) -> list[str]:
    """Return what even odds would choose, where better ones were asked for."""
    row = plan.even
    if row is None:
        return []
    if plan.chosen is not None and (row.layout, row.batch) == (chosen.layout, chosen.batch):
        return ["Even odds would choose the same."]
    load = f"{name(row.layout)} for {users(plan, row):,} users"
    return [f"Even odds would allow {load}: {count(_score(plan, row))} {_unit(plan)}, {units.format_time(row.tpot_s)}."]


def _lengths(chosen: Choice) -> str:
    """Return the lengths of prompts and answers."""
    workload = chosen.scenario.workload
    if not float(workload.output_tokens):
        return ""
    return f", prompts {float(workload.prompt_tokens):,.0f}, answers {float(workload.output_tokens):,.0f} tokens"


def _unit(plan: Plan) -> str:
    return {"tokens-per-gpu": "tok/s/GPU", "latency": "tok/s/user", "cost": "tok/s/GPU"}[plan.wish.goal]


def _score(plan: Plan, row: Choice) -> float:
    return row.tokens_per_s_per_user if plan.wish.goal == "latency" else row.tokens_per_s_per_gpu


def _cells(plan: Plan, row: Choice) -> list[str]:
    """Return the layout, its users over the whole deployment, and the time of a token."""
    return [name(row.layout), f"{users(plan, row):,}", f"{1e3 * row.tpot_s:.1f}"]


def _bars(plan: Plan, rows: Sequence[Choice]) -> Bars:
    """Return the best point of each layout."""
    priced = plan.wish.price_per_hour
    return Bars(
        heads=["<layout", "users", "ms/token", *(["$/Mtok"] if priced is not None else []), _unit(plan)],
        rows=[
            [
                *_cells(plan, row),
                *([units.format_money(row.cost_per_mtoken(priced) or 0.0)] if priced is not None else []),
                count(_score(plan, row)),
            ]
            for row in rows
        ],
        names=[],
        parts=[[_score(plan, row)] for row in rows],
        remarks=[
            {"yes": most(row.binding), "marginal": "perhaps", "no": "beyond the limits"}[row.meets] for row in rows
        ],
        tones=["good" if row is plan.chosen else "warn" if row.meets != "yes" else "plain" for row in rows],
    )


def _notes(plan: Plan, rows: Sequence[Choice]) -> list[str]:
    """Return how many layouts there are, and what was not measured."""
    left = sum(plan.refused.values())
    rest = f", {left} {'does' if left == 1 else 'do'} not" if left else ""
    found = [f"{len(plan.rows)} layouts fit{rest}; each is shown at its best load."]
    if plan.wish.batches and len({users(plan, row) for row in rows}) > 1:
        found = [f"{len(plan.rows)} layouts fit{rest}; a batch is of one replica, --users compares at one load."]
    if len(plan.rows) == 1:
        found = [f"It is the only layout that fits{rest}."]
    sent = [row for row in rows if row.layout.routed_exchange == "all-to-all"]
    if any(not measured_ways(row.scenario) for row in sent):
        found.append("a2a: tokens go to their experts by all-to-all; modelled, not measured.")
    tied = [row for row in plan.rows if row.tied and row is not plan.chosen]
    if tied:
        shown = ", ".join(name(row.layout) for row in tied[:3])
        found.append(f"Within the model's error of the best {GOALS[plan.wish.goal]}: {shown}.")
    if plan.chosen is not None and plan.chosen.meets == "marginal":
        found.append("Not for certain: a burst of prompts, or a full memory, may break it (--detail).")
    return found


def _runner_up(plan: Plan) -> list[str]:
    """Return what the best layout that can be told from the chosen one gives less, and for what most."""
    others = [row for row in plan.rows if row.meets != "no" and not row.tied and row is not plan.chosen]
    if plan.chosen is None or not others:
        return []
    row = others[0]
    mine, theirs = token_columns(plan, plan.chosen), token_columns(plan, row)
    more = {column: theirs[column] - mine[column] for column in theirs}
    most = max(more, key=lambda column: more[column])
    less = percent(1 - sum(mine.values()) / sum(theirs.values()))
    return [f"{name(row.layout)} gives {less} less: a token takes {units.format_time(more[most])} more {COSTS[most]}."]


def _launch(plan: Plan, asked: Asked) -> list[str]:
    """Return the line that launches the chosen layout in the engine that was asked for."""
    if plan.chosen is None:
        return []
    engine = plan.chosen.scenario.stack.engine
    every = lines(plan.chosen.layout, served(plan.chosen, asked.served_model))
    line = every.get(engine, next(iter(every.values())))
    if line is None or not line.command:
        return [f"# {engine} cannot launch it{f': {line.reason}' if line is not None and line.reason else ''}"]
    return [*(f"# {also}" for also in line.also if also.startswith(f"{PLACEHOLDER} ")), line.command]

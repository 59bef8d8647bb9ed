"""The answer of `nhalf plan` as a page: the chosen layout, the front, why the others are behind, what binds where."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.launch_lines import lines, switches
from nhalf.decide.layouts import name
from nhalf.decide.levers import elasticities, levers
from nhalf.decide.regime import crossover
from nhalf.report.fields import count
from nhalf.report.figures.pareto import Spot, pareto
from nhalf.report.figures.regime import regime
from nhalf.report.figures.stacks import Stack, stacks
from nhalf.report.page import Card, Code, Constant, Page, Section, constants, meters
from nhalf.report.plan import left_out, served
from nhalf.report.plan_words import (
    GOALS,
    apart,
    defaults_of,
    judgement,
    kept,
    rule_of_thumb,
    token_columns,
    verdict,
    why,
)
from nhalf.report.words import joined, load_of, most, mostly, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.search import Plan
    from nhalf.report.figures.figure import Figure
    from nhalf.report.plan import Asked
    from nhalf.scenario import Scenario


_MOST_POINTS: Final = 1500
_MAPPED: Final = 8
"""Layouts in the regime map: the best one for each number of devices of a replica."""


def page(plans: Sequence[tuple[Plan, Asked]], comparison: str = "") -> Page:
    """Return the page of one plan, or of several systems side by side, with what `comparison` says of them."""
    told = [paragraph for plan, asked in plans for paragraph in _told(plan, asked, several=len(plans) > 1)]
    answered = [(plan, asked, shown) for plan, asked in plans if (shown := plan.chosen or plan.nearest) is not None]
    every = [point for plan, _, _ in answered for point in plan.every()]
    room = (
        max((p.tokens_per_s_per_user for p in every), default=1.0),
        max((p.tokens_per_s_per_gpu for p in every), default=1.0),
    )
    sections = [
        Section(
            key="pareto",
            title="What a user gets against what a GPU gives",
            lead="Every legal layout at every batch that fits in memory.",
            figures=[_front(plan, f"pareto-{at}", room) for at, (plan, _, _) in enumerate(answered)],
        ),
        Section(
            key="ranking",
            title="Why this one: what the time goes to in each layout",
            lead=" ".join(_reasons(plan, several=len(plans) > 1) for plan, _, _ in answered),
            figures=rankings([plan for plan, _, _ in answered]),
        ),
        Section(
            key="regime",
            title="What takes most time, by batch and GPUs of a replica",
            lead="The best layout for each number of GPUs that one replica takes. The batch is that of a replica.",
            figures=[_map(plan, f"regime-{at}") for at, (plan, _, _) in enumerate(answered)],
        ),
    ]
    sections = [section for section in sections if section.figures]
    sections += [_launch(asked, plan.chosen, several=len(plans) > 1) for plan, asked in plans if plan.chosen]
    scenarios = [shown.scenario for _, _, shown in answered]
    return Page(
        title=_title(plans, scenarios),
        workload=load_of(scenarios[0]) if scenarios else "",
        verdict=[*([comparison] if comparison else []), *told],
        cards=[_card(plan, shown) for plan, _, shown in answered],
        sections=sections,
        constants=_constants(scenarios),
        notes=_notes(plans),
    )


def _title(plans: Sequence[tuple[Plan, Asked]], scenarios: Sequence[Scenario]) -> str:
    """Return what the page is about."""
    if not scenarios:
        return "nhalf plan"
    counts = {plan.gpus for plan, _ in plans}
    if len(counts) > 1:
        each = joined([f"{plan.gpus} of {asked.system}" for plan, asked in plans])
        return f"{scenarios[0].transformer.name} on GPUs: {each}"
    systems = joined([asked.system for _, asked in plans])
    return f"{scenarios[0].transformer.name} on {plans[0][0].gpus} GPUs of {systems}"


def _told(plan: Plan, asked: Asked, *, several: bool) -> list[str]:
    """Return the paragraphs of one plan: the verdict, the judgement of a launch line, pools, the rule of thumb."""
    found = [verdict(plan), judgement(plan, asked.launched), apart(plan) if plan.wish.pools else ""]
    found.append(" ".join(rule_of_thumb(rule) for rule in plan.rules))
    if several:
        return [f"{asked.system}: {' '.join(text for text in found if text)}"]
    return [text[:1].upper() + text[1:] for text in found if text]


def _reasons(plan: Plan, *, several: bool) -> str:
    """Return why the layouts that are told apart from the chosen one are behind it."""
    found = why(plan)
    system = f"On {plan.rows[0].candidate.scenario.system.name}: " if several and found else ""
    return f"{system}{' '.join(found)}"


def _card(plan: Plan, shown: Choice) -> Card:
    scenario = shown.scenario
    first = shown.ttft_s
    beside = [
        f"{units.format_time(shown.tpot_s)} per token, {count(shown.tokens_per_s_per_user)} tokens/s per user",
        f"80 % range of a token {span(*shown.band_s)}{kept(plan, shown)}",
    ]
    if first is not None:
        beside.append(
            f"first token after {units.format_time(first[0])} alone, {units.format_time(first[1])} in a burst"
        )
    cost = shown.cost_per_mtoken(plan.wish.price_per_hour)
    if cost is not None:
        beside.append(f"{units.format_money(cost)} per million tokens")
    beside.append(mostly(shown.binding))

    kind = "" if plan.chosen is not None else " (nearest: misses the limits)"
    return Card(
        label=f"{scenario.system.name}: {name(shown.layout)}, batch {shown.batch}{kind}",
        number=f"{count(shown.tokens_per_s_per_gpu)} tok/s/GPU",
        beside=tuple(beside),
        meters=meters(levers(scenario), scenario.system),
    )


def _front(plan: Plan, key: str, room: tuple[float, float]) -> Figure:
    """Return the front of one plan, with every other point that fits, thinned where there are very many."""
    front = {(id(row.candidate), row.place) for row in plan.pareto}
    tied = {(id(row.candidate), row.place) for row in plan.rows if row.tied}
    chosen = None if plan.chosen is None else (id(plan.chosen.candidate), plan.chosen.place)
    every = list(plan.every())
    step = -(-len(every) // _MOST_POINTS)
    spots = []
    for place, row in enumerate(every):
        own = (id(row.candidate), row.place)
        role = "chosen" if own == chosen else "tied" if own in tied else "front" if own in front else "other"
        if role == "other" and place % step:
            continue
        spots.append(_spot(plan, row, role=role, front=own in front))
    wish = plan.wish
    limit = None
    if wish.tpot_s is not None:
        limit = (1 / wish.tpot_s, f"{units.format_time(wish.tpot_s)} per token")
    scenario = every[0].candidate.scenario
    return pareto(spots, key=key, title=f"{scenario.system.name}, {plan.gpus} GPUs", room=room, limit=limit)


def _spot(plan: Plan, row: Choice, *, role: str, front: bool) -> Spot:
    tips = [
        ("batch", f"{row.batch}"),
        ("per token", units.format_time(row.tpot_s)),
        ("takes most time", most(row.binding)),
    ]
    if role != "other" and row.ttft_s is not None:
        tips.append(("first token", f"{units.format_time(row.ttft_s[0])} to {units.format_time(row.ttft_s[1])}"))
    cost = row.cost_per_mtoken(plan.wish.price_per_hour)
    if cost is not None:
        tips.append(("per million tokens", units.format_money(cost)))
    return Spot(
        name=name(row.layout), per_user=row.tokens_per_s_per_user, per_gpu=row.tokens_per_s_per_gpu,
        role=role, front=front, meets=row.meets != "no", tips=tuple(tips),  # type: ignore[arg-type]
    )  # fmt: skip


def _map(plan: Plan, key: str) -> Figure:
    """Return the regime map: the best layout for each number of devices of a replica, the chosen one among them."""
    best: dict[int, Choice] = {}
    for row in (*((plan.chosen,) if plan.chosen is not None else ()), *plan.rows):
        best.setdefault(row.layout.devices, row)
    kept = sorted(best.values(), key=lambda row: row.layout.devices)[-_MAPPED:]
    layouts = {_replica(row): row.candidate.scenario for row in kept}
    turns = {
        _replica(row): crossover(row.candidate.scenario).batch_at_double_floor
        for row in kept
        if 1 < row.layout.tensor_parallel == row.layout.devices
    }
    return regime(layouts, turns, key=key, title=kept[0].candidate.scenario.system.name)


def _replica(row: Choice) -> str:
    return name(replace(row.layout, replicas=1))


def _launch(asked: Asked, chosen: Choice, *, several: bool) -> Section:
    """Return the lines that launch the chosen layout, and what the prediction assumes."""
    found = lines(chosen.layout, served(chosen, asked.served_model))
    blocks = [
        Code(title=engine, text="\n".join([line.command, *(f"# with {also}" for also in line.also)]))
        for engine, line in found.items()
        if line.command
    ]
    cannot = [f"{engine} cannot run it: {line.reason}." for engine, line in found.items() if not line.command]
    scenario = chosen.candidate.scenario
    assumed = switches(chosen.layout, mode=str(scenario.stack.mode), serves_prompts=chosen.ttft_s is not None)
    often = f", {chosen.layout.replicas} times" if chosen.layout.replicas > 1 else ""
    lead = f"The prediction is for {scenario.stack.engine} and assumes {'; '.join(assumed)}."
    where = f" on {scenario.system.name}" if several else ""
    return Section(
        key=f"launch-{scenario.system.name}" if several else "launch",
        title=f"Launch {name(chosen.layout)}{often}{where}",
        lead=" ".join([lead, *cannot]),
        code=blocks,
    )


def _constants(scenarios: Sequence[Scenario]) -> list[Constant]:
    """Return the constants of the layouts shown; of several systems, each path with its system."""
    several = len(scenarios) > 1
    return [
        constant
        for each in scenarios
        for constant in constants(each, elasticities(each), each.system.name if several else "")
    ]


def _notes(plans: Sequence[tuple[Plan, Asked]]) -> list[str]:
    """Return warnings, what was left out and why, and the defaults; each once."""
    found: list[str] = []
    for plan, asked in plans:
        found += asked.warnings
        found += left_out(plan)
    found += defaults_of([(asked.system, asked.defaults) for _, asked in plans])
    return list(dict.fromkeys(found))


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
                label=count(row.tokens_per_s_per_user if latency else row.tokens_per_s_per_gpu),
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
    note += " Thin line: the 80 % range."
    if any(bar.faint for bar in bars):
        note += " Pale: beyond the limits."
    title = f"{plan.rows[0].candidate.scenario.system.name}, {plan.gpus} GPUs"
    return stacks(bars, key=key, title=title, axis=what, note=note, room=longest)

"""The first screens of `nhalf buy` and `nhalf whatif`: what each change saves by batch, and whether one can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.option import SAME_STACK
from nhalf.report.buy import why_nothing
from nhalf.report.buy_words import MATTERS, THOUSAND, plain, ranked, unused_links
from nhalf.report.view import Brief, length, percent
from nhalf.report.words import assumed, joined, link_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.option import Option
    from nhalf.decide.purchase import Effect, Purchase
    from nhalf.loading import Default
    from nhalf.system import System

_OPTIONS: Final = 7
_WIDTH: Final = 79
_CELL: Final = 15
"""Characters of a gain and its range."""
_FEW: Final = 4


def _name(option: Option, system: System) -> str:
    """Return an option by its name, links inside a node by what they are called there."""
    return option.name.replace("in-node link", link_name(system, "intra_node"))


def brief(purchases: Sequence[Purchase], defaults: Sequence[Default], *, next_command: str, priced: bool) -> Brief:
    """Return the first screen; `priced` is whether it is about a purchase, so that money counts."""
    several = len(purchases) > 1
    found = purchases[0]
    state = found.effects[0].before
    scenario = state.scenario
    where = " or ".join(each.effects[0].before.system for each in purchases)
    notes = [note for each in purchases for note in _notes(each)]
    flips = [line for each in purchases for line in _flips(each, named=several)]
    money = [line for each in purchases for line in (_money(each) if priced else _latency(each, named=several))]
    return Brief(
        verdict=[_verdict(each, priced=priced, named=several) for each in purchases],
        number="" if several else _now(found),
        title=f"{scenario.transformer.name} on {where}, {state.layout_name}, {scenario.workload.weight_dtype} weights; "
        "% of a token saved, 80 % range",
        table=_table(purchases),
        notes=[*list(dict.fromkeys(notes))[:3]],
        closing=[*money[:2], *flips[:2]],
        assumed=assumed(state, defaults, batch=False),
        next_command=next_command,
        next_why="term by term",
    )


def _verdict(found: Purchase, *, priced: bool, named: bool) -> str:  # noqa: PLR0911  a sentence each
    """Return what helps most at the smallest batch, and what it does at the largest."""
    system = found.effects[0].before.scenario.system
    on = f"On {system.name}: " if named else ""
    first, last = found.batches[0], found.batches[-1]
    helping = [effect for effect in ranked(found.at(first)) if effect.helps]
    later = [effect for effect in ranked(found.at(last)) if effect.helps] if last != first else helping
    if not helping and not later:
        best = next((effect for effect in ranked(found.at(first)) if effect.gain is not None), None)
        if best is None:
            return f"{on}Nothing on this list fits in memory."
        name, gain = _name(best.option, system), best.gain or 0.0
        if gain < -MATTERS:
            return f"{on}Nothing on this list helps: {name} makes a token {percent(-gain)} longer."
        error = percent(best.option.error)
        return f"{on}Nothing on this list helps: {name} saves {percent(gain)}, within the model's error of {error}."
    verb = "Buy " if priced else ""
    if not helping:
        name = _name(later[0].option, system)
        return f"{on}At batch {first} nothing on this list helps; at {last} {name} saves {percent(later[0].gain or 0)}."
    name = _name(helping[0].option, system)
    start = f"{verb}{name}: it" if priced else f"{name[:1].upper()}{name[1:]}"
    text = f"{on}{start} saves {percent(helping[0].gain or 0)} of a token at batch {first}"
    if last == first:
        return f"{text}."
    same = next((effect for effect in later if effect.option is helping[0].option), None)
    if same is not None and same is later[0]:
        return f"{text}, {percent(same.gain or 0)} at {last}."
    if not later:
        return f"{text}."
    return f"{text}; at {last} {_name(later[0].option, system)} saves {percent(later[0].gain or 0)}."


def _now(found: Purchase) -> str:
    """Return the time of a token now, and with the best option."""
    best = ranked(found.at(found.batches[0]))[0]
    now = f"Now: {units.format_time(best.before.tpot_s)} per token at batch {best.batch}"
    if best.after is None or best.gain is None or best.gain <= 0:
        return f"{now}."
    return f"{now}; {units.format_time(best.after.tpot_s)} with {_name(best.option, best.before.scenario.system)}."


def _table(purchases: Sequence[Purchase]) -> tuple[list[str], list[list[str]]]:
    """Return a row for each option of each system, with a bar at each of at most three batches."""
    batches = purchases[0].batches
    several = len(purchases) > 1
    most_shown = 2 if several else 3
    middle = [] if several else [batches[len(batches) // 2]]
    shown = batches if len(batches) <= most_shown else (batches[0], *middle, batches[-1])
    most = max((effect.gain or 0.0 for each in purchases for effect in each.effects), default=0.0) or 1.0
    kept = [(found, option) for found in purchases for option in _ordered(found)[: _OPTIONS - (3 if several else 0)]]
    named = [
        [*([found.effects[0].before.system] if several else []), _name(option, found.effects[0].before.scenario.system)]
        for found, option in kept
    ]
    before = sum(max(len(cells[place]) for cells in named) + 2 for place in range(len(named[0])))
    room = max(3, (_WIDTH - before) // len(shown) - _CELL - 2)
    rows = []
    for cells, (found, option) in zip(named, kept, strict=True):
        effects = {effect.batch: effect for effect in found.effects if effect.option is option}
        rows.append([*cells, *(_cell(effects[batch], most, room) for batch in shown)])
    return [*(["<system"] if several else []), "<change", *(f"<batch {batch}" for batch in shown)], rows


def _ordered(found: Purchase) -> list[Option]:
    """Return the options, those that gain most at any batch first; of many, those that do something."""
    moving = [
        option
        for option in found.options
        if not why_nothing([effect for effect in found.effects if effect.option is option])
    ]
    return sorted(
        found.options if len(found.options) <= _FEW else moving,
        key=lambda option: -max(effect.gain or -1.0 for effect in found.effects if effect.option is option),
    )


def _cell(effect: Effect, most: float, room: int) -> str:
    """Return a gain with a bar and its range; one that cannot be told from nothing stands in brackets."""
    if effect.gain is None or effect.low is None or effect.high is None:
        return "does not fit"
    gain = plain(effect.gain) if effect.above_model_error else f"({plain(effect.gain)})"
    bar = length(room * max(effect.gain, 0.0) / most)
    return f"{gain:>5} {bar:<{room}} {plain(effect.low)}..{plain(effect.high)}"


def _notes(found: Purchase) -> list[str]:
    """Return what brackets mean where there are any, and why options do nothing."""
    said = []
    if any(effect.gain is not None and not effect.above_model_error for effect in found.effects):
        said.append("( ) within the model's error, or the range reaches 0.")
    if idle := unused_links(found):
        said.append(idle)
    for option in found.options if len(found.options) <= _FEW else ():
        reason = why_nothing([effect for effect in found.effects if effect.option is option])
        if reason and not idle:
            said.append(f"{option.name}: {reason}.")
    return said


def _money(found: Purchase) -> list[str]:
    """Return what each option that helps saves for its price."""
    told = []
    for option in found.options:
        rates = [
            plain((effect.gain_per_money or 0.0) * THOUSAND)
            for effect in found.effects
            if effect.option is option and effect.helps
        ]
        if option.price_per_gpu and rates:
            told.append(f"{option.name} {joined(list(dict.fromkeys(rates)))} %")
        elif option.price_per_gpu:
            told.append(f"{option.name} nothing that can be told")
    return [f"Per $1,000 a GPU: {'; '.join(told)}."] if told else []


def _latency(found: Purchase, *, named: bool) -> list[str]:
    """Return which of latency and bandwidth of the links is worth more, where the model can tell."""
    first = [wish for wish in found.wishes if wish.batch == found.wishes[0].batch]
    if not first:
        return []
    best = max(first, key=lambda wish: max(wish.quicker, wish.wider))
    system = found.effects[0].before.scenario.system
    text = (
        f"{f'{system.name}, ' if named else ''}{link_name(system, best.tier)} at batch {best.batch}: half the latency "
    )
    text += f"saves {percent(best.quicker)}, 2x bandwidth {percent(best.wider)}"
    if max(wish_gain for wish in found.wishes for wish_gain in (wish.quicker, wish.wider)) < SAME_STACK:
        return [f"{text}: within the model's error."]
    return [f"{text}."]


def _flips(found: Purchase, *, named: bool) -> list[str]:
    """Return where another option becomes the best."""
    system = found.effects[0].before.scenario.system
    on = f"On {system.name}: f" if named else "F"
    names = {option.name: _name(option, system) for option in found.options}
    return [
        f"{on}rom batch {flip.batch} on {names[flip.after]} saves most."
        if flip.after
        else f"{on}rom batch {flip.batch} on nothing on the list saves what can be told."
        for flip in found.flips[:2]
    ]

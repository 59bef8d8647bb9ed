"""The first screens of `nhalf buy` and `nhalf whatif`: what saves most, by batch, and what the model cannot tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.option import SAME_STACK
from nhalf.report.buy import why_nothing
from nhalf.report.buy_words import ranked
from nhalf.report.decode_brief import assumed
from nhalf.report.verdict import joined
from nhalf.report.view import Brief, length, percent
from nhalf.report.words import link_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.purchase import Effect, Purchase
    from nhalf.loading import Default

_BAR: Final = 10
_MOST: Final = 8


def brief(purchases: Sequence[Purchase], defaults: Sequence[Default], *, next_command: str) -> Brief:
    """Return the first screen about one or several systems."""
    verdict = [_best(found, several=len(purchases) > 1) for found in purchases]
    found = purchases[0]
    state = found.effects[0].before
    return Brief(
        verdict=verdict,
        number="" if len(purchases) > 1 else _also(found),
        title=f"{state.model} on {state.system}, {state.layout_name}; % of a token saved (80 % range)",
        table=_table(found) if len(purchases) == 1 else _side_by_side(purchases),
        notes=[f"* within the model's error of {100 * SAME_STACK:.0f} % (15 % for another machine, engine or dtype)"],
        closing=[*_closing(found), *_money(found)] if len(purchases) == 1 else [],
        assumed=assumed(state, defaults, batch=False),
        next_command=next_command,
        next_why="",
    )


def _best(found: Purchase, *, several: bool) -> str:
    """Return what saves most at the smallest and at the largest batch."""
    system = f"{found.effects[0].before.system}: " if several else ""
    first, last = (ranked(found.at(batch))[0] for batch in (found.batches[0], found.batches[-1]))
    if not first.helps and not last.helps:
        return f"{system}Nothing on the list saves {100 * SAME_STACK:.0f} %, the model's error."
    if first.option is last.option and len(found.batches) > 1 and first.helps and last.helps:
        return (
            f"{system}{_name(first)} saves most: {percent(first.gain or 0)} of a token at batch {first.batch}, "
            f"{percent(last.gain or 0)} at {last.batch}."
        )
    told = [
        f"{_option(each)} saves {percent(each.gain or 0)} at batch {each.batch}" for each in (first, last) if each.helps
    ]
    text = "; ".join(dict.fromkeys(told))
    return f"{system}{text if '=' in text.split()[0] else text[:1].upper() + text[1:]}."


def _name(effect: Effect) -> str:
    """Return the name of an option as the subject of a sentence."""
    name = _option(effect)
    return name if "=" in name else f"{name[:1].upper()}{name[1:]}"


def _option(effect: Effect) -> str:
    """Return the name of an option, links inside a node by what they are called there."""
    return effect.option.name.replace("in-node link", link_name(effect.before.scenario.system, "intra_node"))


def _also(found: Purchase) -> str:
    """Return the time now and with the best option, at the smallest batch."""
    best = ranked(found.at(found.batches[0]))[0]
    now = f"{units.format_time(best.before.tpot_s)} per token now at batch {best.batch}"
    if best.after is None or not best.helps:
        return f"{now}."
    return f"{now}; {units.format_time(best.after.tpot_s)} with {_option(best)}."


def _table(found: Purchase) -> tuple[list[str], list[list[str]]]:
    """Return a row an option with a bar for each batch, those that save most at the first batch first."""
    shown = list(found.batches[:3])
    effects = {(each.option.name, each.batch): each for each in found.effects}
    most = max([abs(each.gain or 0.0) for each in found.effects], default=0.0) or 1.0
    wide = _BAR if len(shown) < 3 else 5  # noqa: PLR2004  three columns leave room for short bars
    rows = []
    for option in sorted(found.options, key=lambda each: -max(effects[each.name, b].gain or -1.0 for b in shown))[
        :_MOST
    ]:
        cells = [_option(effects[option.name, shown[0]])]
        for batch in shown:
            effect = effects[option.name, batch]
            gain = effect.gain
            bar = "" if gain is None or gain <= 0 else length(wide * gain / most)
            cells += [_cell(effect), bar]
        rows.append(cells)
    return ["<change", *(head for batch in shown for head in (f"batch {batch}", "<"))], rows


def _side_by_side(purchases: Sequence[Purchase]) -> tuple[list[str], list[list[str]]]:
    """Return a row an option with a column for each system, at the smallest batch."""
    found = [{each.option.name: each for each in one.at(one.batches[0])} for one in purchases]
    names = list(dict.fromkeys(name for one in found for name in one))[:_MOST]
    rows = [[name, *(_cell(one[name]) if name in one else "-" for one in found)] for name in names]
    batch = purchases[0].batches[0]
    return [f"<change, batch {batch}", *(one.effects[0].before.system for one in purchases)], rows


def _cell(effect: Effect) -> str:
    """Return the gain with its range."""
    if effect.gain is None or effect.low is None or effect.high is None:
        return "no fit"
    if not effect.above_model_error:
        return f"{100 * effect.gain:.1f}*" if abs(effect.gain) < 0.0995 else f"{100 * effect.gain:.0f}*"  # noqa: PLR2004
    return f"{100 * effect.gain:.0f} ({100 * effect.low:.0f}-{100 * effect.high:.0f})"


def _closing(found: Purchase) -> list[str]:
    """Return where the advice flips, and which of the link's two numbers matters."""
    said = []
    if found.flips:
        flip = found.flips[0]
        said.append(f"Where it flips: from batch {flip.batch} {flip.after or 'nothing on the list'} saves most.")
    elif len(found.batches) > 1:
        said.append("The same change saves most at every batch that fits.")
    wishes = [wish for wish in found.wishes if wish.batch in (found.batches[0], found.batches[-1])]
    told = [f"at batch {wish.batch} half its latency {percent(wish.quicker)}, 2x its bandwidth {percent(wish.wider)}"
            for wish in {each.batch: each for each in reversed(wishes)}.values()]  # fmt: skip
    if told:
        said.append(f"Of the link, {'; '.join(sorted(told, key=lambda text: int(text.split()[2])))}.")
    idle = [option.name for option in found.options
            if why_nothing([each for each in found.effects if each.option is option])]  # fmt: skip
    if idle:
        said.append(f"Moves nothing here: {joined(idle)}.")
    return said


def _money(found: Purchase) -> list[str]:
    """Return what each option with a price saves for a thousand dollars a GPU."""
    told = []
    for option in found.options:
        effects = [each for each in found.effects if each.option is option]
        if not option.price_per_gpu:
            continue
        rates = [
            f"{100_000 * (each.gain_per_money or 0):.2g} %" if each.helps else "no gain that can be told"
            for each in effects
        ]
        told.append(f"{option.name} {' and '.join(dict.fromkeys(rates))}")
    return [f"Per $1,000 a GPU: {'; '.join(told)}."] if told else []

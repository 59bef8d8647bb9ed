"""The answer of `nhalf buy` and `nhalf whatif` as a page: what each option saves, and whether that is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.report import buy, buy_words
from nhalf.report.fields import count
from nhalf.report.figures.bars import Bar, of_bars, tornado
from nhalf.report.figures.figure import BLUE, GREY
from nhalf.report.figures.gains import Gain, curves, gains
from nhalf.report.figures.regime import regime
from nhalf.report.page import Card, Constant, Meter, Page, Section, constants, notes
from nhalf.report.view import percent
from nhalf.report.words import joined, load_of, most, mostly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.purchase import Effect, Purchase
    from nhalf.loading import Default
    from nhalf.report.figures.figure import Figure
    from nhalf.scenario import Scenario

_MAPPED: Final = 8
_THOUSAND: Final = 1000.0


def page(found: Sequence[Purchase], defaults: Sequence[Default] = (), warnings: Sequence[str] = ()) -> Page:
    """Return the page of one purchase, or of the same list for several systems."""
    befores = [each.effects[0].before.scenario for each in found]
    several = len(found) > 1
    numbered = list(enumerate(found))
    sections = [
        Section(
            key="gains",
            title="What each option saves",
            lead="Part of the time per token, with the 80 % range of the gain. Both sides share most inputs, so most "
            "of what these are uncertain by cancels.",
            figures=[_gains(each, batch, f"gains-{at}-{batch}") for at, each in numbered for batch in each.batches],
        ),
        Section(
            key="money",
            title="For the money",
            lead="Part of the time per token saved for each $1k that a GPU costs more, where the model can tell.",
            figures=[
                _money(each, batch, f"money-{at}-{batch}")
                for at, each in numbered for batch in _ends(each) if any(o.price_per_gpu for o in each.options)
            ],
        ),
        Section(
            key="flips",
            title="Where the advice flips",
            lead=" ".join(_flips(each) for each in found),
            figures=[_curves(each, f"flips-{at}") for at, each in numbered],
        ),
        Section(
            key="links",
            title="Latency or bandwidth?",
            lead="What a better link alone would save, whatever it costs: of the tier that gains most.",
            figures=[_links(each, f"links-{at}") for at, each in numbered if each.wishes],
        ),
        Section(
            key="regime",
            title="What takes most time, now and with each option",
            lead="An option that leaves the colours as they are leaves the bottleneck where it is.",
            figures=[_map(each, f"regime-{at}") for at, each in numbered],
        ),
        Section(
            key="tornado",
            expert=True,
            title="What the step hangs on before anything is bought",
            lead="How far the step moves when an input moves by one per cent.",
            figures=[
                tornado(_before(each, batch), each.tornado[batch], f"tornado-{at}-{batch}")
                for at, each in numbered for batch in _ends(each)
            ],
        ),
    ]  # fmt: skip
    return Page(
        title=f"What to change for {befores[0].transformer.name} on {joined([each.system.name for each in befores])}",
        workload=load_of(befores[0], found[0].batches),
        verdict=[text for each in found for text in _told(each, several=several)],
        cards=[_card(each, batch) for each in found for batch in each.batches],
        sections=[section for section in sections if section.figures],
        constants=_constants(found),
        notes=list(dict.fromkeys(notes([*warnings, *(n for each in found for n in buy.notes(each))], defaults))),
    )


def _told(found: Purchase, *, several: bool) -> list[str]:
    texts = buy_words.told(found)
    return [f"{_system(found)}: {' '.join(texts)}"] if several else texts


def _system(found: Purchase) -> str:
    return found.effects[0].before.scenario.system.name


def _ends(found: Purchase) -> list[int]:
    """Return the smallest and the largest batch."""
    return list(dict.fromkeys((found.batches[0], found.batches[-1])))


def _before(found: Purchase, batch: int) -> Scenario:
    """Return the machine before anything is bought, at a batch."""
    return found.at(batch)[0].before.scenario


def _title(found: Purchase, batch: int) -> str:
    scenario = _before(found, batch)
    return f"{scenario.system.name}, {scenario.layout.name}, batch {batch}"


def _card(found: Purchase, batch: int) -> Card:
    """Return the number of one batch: the step now, and what each option makes of it."""
    effects = found.at(batch)
    before = effects[0].before
    ranked = sorted((each for each in effects if each.gain is not None), key=lambda each: -(each.gain or 0.0))
    return Card(
        label=f"{_title(found, batch)}: now",
        number=f"{units.format_time(before.step_s)} per step",
        beside=(f"{count(before.tokens_per_s_per_user)} tokens/s per user, {mostly(before.binding)}",),
        meters=[
            Meter(label=each.option.name, share=each.gain or 0.0,
                  text=f"{percent(each.gain or 0.0)}{'' if each.above_model_error else ' ?'}")
            for each in ranked[:3]
        ],
    )  # fmt: skip


def _gain(effect: Effect) -> Gain:
    tips = [("now", f"{units.format_time(effect.before.step_s)}, {most(effect.before.binding)}")]
    if effect.after is not None:
        tips.append(("with it", f"{units.format_time(effect.after.step_s)}, {most(effect.after.binding)}"))
        tips.append(("layout", effect.after.scenario.layout.name))
    if effect.option.price_per_gpu:
        tips.append(("price", f"{units.format_money(effect.option.price_per_gpu)} a GPU"))
    return Gain(
        name=effect.option.name, gain=effect.gain, low=effect.low, high=effect.high, error=effect.option.error,
        told=effect.above_model_error, tips=tuple(tips),
    )  # fmt: skip


def _gains(found: Purchase, batch: int, key: str) -> Figure:
    """Return what each option saves at one batch, on the axis of all batches."""
    every = [value for each in found.effects for value in (each.low, each.high) if value is not None]
    errors = [option.error for option in found.options]
    return gains(
        [_gain(effect) for effect in found.at(batch)],
        key=key,
        title=_title(found, batch),
        axis="part of the time per token saved",
        room=(min(-max(errors), *every), max(*errors, *every)),
    )


def _money(found: Purchase, batch: int, key: str) -> Figure:
    """Return the gain of each priced option for its price; one that cannot be told is worth nothing."""
    effects = [each for each in found.at(batch) if each.option.price_per_gpu]
    worth = {each.option.name: (each.gain_per_money or 0.0) * _THOUSAND if each.helps else 0.0 for each in effects}
    effects.sort(key=lambda each: -worth[each.option.name])
    bars = [
        Bar(
            name=f"{each.option.name}, {units.format_money(each.option.price_per_gpu or 0.0)} a GPU",
            value=worth[each.option.name],
            label=percent(worth[each.option.name]) if each.helps else "no gain that can be told",
            colour=BLUE if each.helps else GREY,
            tips=(("saves", percent(each.gain or 0.0) if each.gain is not None else "does not fit"),),
        )
        for each in effects
    ]
    return of_bars(bars, key=key, title=_title(found, batch), axis="saved for each $1k a GPU", share=True)


def _curves(found: Purchase, key: str) -> Figure:
    """Return the gains against the batch, with the flips of the advice."""
    errors = sorted({option.error for option in found.options})
    flips = [(flip.batch, flip.after or "nothing on the list") for flip in found.flips]
    return curves(found.curves.batches, found.curves.by, key=key, title=_system(found), errors=errors, flips=flips)


def _flips(found: Purchase) -> str:
    if not found.flips:
        return f"On {_system(found)} nowhere: one answer for every batch that fits."
    parts = [f"from batch {flip.batch} on {flip.after or 'nothing on the list'}" for flip in found.flips]
    return f"On {_system(found)}: {found.flips[0].before or 'nothing on the list'}, then {', '.join(parts)}."


def _links(found: Purchase, key: str) -> Figure:
    """Return what a wider and a quicker link would save against the batch."""
    flips = []
    for first, last in found.wider_runs:
        flips += [(first, "bandwidth buys more")] if first > found.links.batches[0] else []
        flips += [(last + 1, "latency buys more")] if last < found.links.batches[-1] else []
    return curves(found.links.batches, found.links.by, key=key, title=_system(found), flips=flips)


def _map(found: Purchase, key: str) -> Figure:
    """Return the regime map of the machine now and with each option that fits, in its layout at the largest batch."""
    now = found.effects[0].before.scenario
    layouts = {f"now, {now.layout.name}": now}
    for option in found.options:
        after = next((each.after for each in reversed(found.effects) if each.option is option and each.after), None)
        if after is not None and len(layouts) < _MAPPED:
            layouts[option.name] = after.scenario
    return regime(layouts, {}, key=key, title=f"{now.system.name}")


def _constants(found: Sequence[Purchase]) -> list[Constant]:
    """Return the constants of the machines before anything is bought, by how much they move the smallest batch."""
    return [
        constant
        for each in found
        for constant in constants(
            each.effects[0].before.scenario, each.tornado[each.batches[0]], _system(each) if len(found) > 1 else ""
        )
    ]

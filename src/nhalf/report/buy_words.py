"""The verdicts of `nhalf buy` and `nhalf whatif` in words: what to buy at each batch, latency or bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.decide.option import SAME_STACK, reaching, unused
from nhalf.loading.degrees import as_flags
from nhalf.report.fields import count
from nhalf.report.verdict import NOTHING
from nhalf.report.view import percent
from nhalf.report.words import COSTS, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.purchase import Effect, Purchase, Wish
    from nhalf.scenario import Scenario

_TIERS: Final = {"intra_node": "inside the node", "inter_node": "between nodes", "inter_rack": "between racks"}
MATTERS: Final = 0.005
"""A part of a step below this is left out."""
THOUSAND: Final = 1000.0


STAYS: Final = {"inter_node": "stays inside a node", "inter_rack": "stays inside a rack"}
"""What a layout does that does not reach a tier."""


def unused_links(found: Purchase) -> str:
    """Return that options are about links that no layout of the question uses, and which do; else nothing."""
    before = found.effects[0].before.scenario
    idle = {option.name: tier for option in found.options if (tier := unused(option, before))}
    if not idle:
        return ""
    tier = next(iter(idle.values()))
    what = f"{joined(list(idle))} {'changes' if len(idle) == 1 else 'change'} nothing here"
    return f"{what}: {before.layout.name} {STAYS[tier]}{ask_with(before, tier)}."


def ask_with(before: Scenario, tier: str) -> str:
    """Return which flags ask for a layout that reaches a tier, where there is one."""
    layouts = [as_flags(layout) for layout in reaching(before, tier)]
    return f"; ask with {', or with '.join(layouts)}" if layouts else ""


def verdict_interactive(found: Purchase) -> str:
    """Return the verdict at the smallest batch: what a user gets."""
    return _verdict(found, found.batches[0])


def verdict_throughput(found: Purchase) -> str:
    """Return the verdict at the largest batch: what a GPU gives."""
    return _verdict(found, found.batches[-1], per_gpu=True)


def verdict_between(found: Purchase) -> str:
    """Return what to buy at the batches between the smallest and the largest, in short; empty where there are none."""
    parts = []
    for batch in found.batches[1:-1]:
        best = next((effect for effect in ranked(found.at(batch)) if effect.helps), None)
        what = "nothing on the list" if best is None else f"{best.option.name} saves {percent(best.gain or 0)}"
        parts.append(f"batch {batch}: {what}")
    return f"In between, by time per token: {'; '.join(parts)}." if parts else ""


def _verdict(found: Purchase, batch: int, *, per_gpu: bool = False) -> str:
    """Return what to buy at a batch, or that nothing helps and why."""
    effects = ranked([effect.per_gpu if per_gpu else effect for effect in found.at(batch)])
    helping = [effect for effect in effects if effect.helps]
    if not helping:
        return f"batch {batch}: {_nothing(effects)}"
    best = helping[0]
    whole = "GPU time of a token" if per_gpu else "time per token"
    text = f"batch {batch}: {best.option.name} saves {percent(best.gain or 0)} of the {whole} ({band(best)})"
    if best.after is not None:
        before, after = ((state.tokens_per_s_per_gpu if per_gpu else state.tokens_per_s_per_user)
                         for state in (best.before, best.after))  # fmt: skip
        text += f", {count(before)} to {count(after)} tokens/s per {'GPU' if per_gpu else 'user'}"
    text += _for_the_money(helping) + _not_told(effects, best)
    others = len(effects) - len(helping)
    if others:
        text += f". {others} of {len(effects)} on the list are within the model's error"
    return text + "."


def _for_the_money(helping: Sequence[Effect]) -> str:
    """Return what saves most for the money among what helps, and that the best has no price, where it has none."""
    best = helping[0]
    worth = [effect for effect in helping if effect.gain_per_money is not None]
    if not worth:
        return ""
    bargain = max(worth, key=lambda effect: effect.gain_per_money or 0.0)
    each = f"{percent((bargain.gain_per_money or 0.0) * THOUSAND)} for each $1k a GPU"
    if bargain is best:
        return f"; that is {each}"
    if best.gain_per_money is not None:
        return f"; for the money {bargain.option.name} is better: {each}"
    return (
        "; it has no price and is not compared by money (free, it beats any); of those with one "
        f"{bargain.option.name} saves most for it: {each}"
    )


def _not_told(effects: Sequence[Effect], best: Effect) -> str:
    """Return which option would gain more than the best, but less than the model can tell."""
    first = effects[0]
    if first is best or first.gain is None or best.gain is None or first.gain <= best.gain:
        return ""
    return f"; {first.option.name} gains more, {percent(first.gain)}, but that may be the model's error"


def _nothing(effects: Sequence[Effect]) -> str:
    """Return that nothing helps, what the best would do, and what the step is made of."""
    best = next((effect for effect in effects if effect.gain is not None), None)
    what = effects[0].before
    name = max(what.columns, key=lambda column: what.columns[column])
    share = percent(what.columns[name] / what.step_s)
    text = f"nothing on this list helps: {share} of your step is {COSTS[name]}"
    if best is None:
        return f"{text}. Nothing on the list fits in memory."
    error = percent(best.option.error)
    if best.gain is not None and best.gain < -MATTERS:
        return f"{text}. The best of it, {best.option.name}, makes the step {percent(-best.gain)} longer."
    gain = percent(best.gain or 0)
    return f"{text}. The best of it, {best.option.name}, saves {gain}, below the model's error of {error}."


def ranked(effects: Sequence[Effect]) -> list[Effect]:
    """Return effects by their gain, the largest first, those that do not fit last."""
    return sorted(effects, key=lambda effect: -(effect.gain if effect.gain is not None else -10.0))


def links(found: Purchase) -> str:
    """Return the answer to the question of the house: latency or bandwidth."""
    if not found.wishes:
        return "Latency or bandwidth: one device has no link to improve."
    linked = [wish.batch for wish in found.wishes]  # at the others one device is best
    ends = dict.fromkeys((linked[0], linked[-1]))
    parts = [_wishes([wish for wish in found.wishes if wish.batch == batch]) for batch in ends]
    text = f"Latency or bandwidth: {'; '.join(parts)}."
    if all(max(wish.quicker, wish.wider) < SAME_STACK for wish in found.wishes):
        text += f" Neither is above the model's error of {percent(SAME_STACK)}."
    if not found.wider_runs:
        return f"{text} A lower latency buys more at every batch that fits."
    first, last = found.links.batches[0], found.links.batches[-1]
    if found.wider_runs == ((first, last),):
        return f"{text} Bandwidth buys more at every batch."
    runs = [
        f"from batch {start} on" if stop == last else f"from batch {start} to {stop}"
        for start, stop in found.wider_runs
    ]
    return f"{text} {_upper(joined(runs))} bandwidth buys more."


def told(found: Purchase) -> list[str]:
    """Return the verdicts of one purchase: on links that nothing uses, and on small, large and other batches."""
    texts = [
        unused_links(found),
        f"Interactive use, {verdict_interactive(found)}",
        f"Throughput, {verdict_throughput(found)}",
        verdict_between(found),
        links(found),
    ]
    return [text for text in texts if text]


def _wishes(wishes: Sequence[Wish]) -> str:
    """Return what better links save at one batch, on every tier that is worth a word."""
    said = [wish for wish in wishes if max(wish.quicker, wish.wider) >= NOTHING] or wishes[:1]
    first, *others = said
    text = (
        f"at batch {first.batch} half the latency of a link {_TIERS[first.tier]} saves {percent(first.quicker)}, "
        f"twice its bandwidth {percent(first.wider)}"
    )
    more = [f", of one {_TIERS[wish.tier]} {percent(wish.quicker)} and {percent(wish.wider)}" for wish in others]
    return text + "".join(more)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def band(effect: Effect) -> str:
    """Return the band of a gain."""
    if effect.low is None or effect.high is None:
        return "-"
    return f"{plain(effect.low)} to {plain(effect.high)} %"


def plain(share: float) -> str:
    """Return a share as a percentage without its sign of per cent."""
    text = f"{100 * share:.1f}" if abs(share) < 0.00995 else f"{100 * share:.0f}"  # noqa: PLR2004  tenths below one
    return "0" if text in ("0.0", "-0.0", "-0") else text

"""The answer of `nhalf buy` and `nhalf whatif`: two verdicts, the gains by batch, the flips, the tornado."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.option import ANOTHER_STACK, SAME_STACK
from nhalf.report.verdict import NOTHING, WORDS, joined, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.purchase import Effect, Purchase, State, Wish
    from nhalf.loading import Default
    from nhalf.report.canvas import Canvas

_TIERS: Final = {"intra_node": "inside the node", "inter_node": "between nodes", "inter_rack": "between racks"}
_SHOWN: Final = 8
_BAR: Final = 6
_MATTERS: Final = 0.005
_THOUSAND: Final = 1000.0


def write(purchases: Sequence[Purchase], defaults: Sequence[Default], canvas: Canvas, *, next_command: str) -> None:
    """Write the whole answer on a canvas, the verdicts of all systems first."""
    for place, found in enumerate(purchases):
        system = f"{_system(found)}. " if len(purchases) > 1 else ""
        gap = "\n" if place else ""
        canvas.paragraph(f"{gap}{system}Interactive use, {verdict_interactive(found)}", bold=True)
        canvas.paragraph(f"Throughput, {verdict_throughput(found)}", bold=True)
        canvas.paragraph(links(found), bold=True)
        canvas.paragraph(_number(found))
    for found in purchases:
        _gains(found, canvas)
        _money(found, canvas)
        _flips(found, canvas)
        _tornado(found, canvas)
    if defaults:
        canvas.heading("Defaults taken")
        for default in defaults:
            canvas.paragraph(f"  {default.flag} {default.value}: {default.reason}", indent="    ")
    canvas.heading("Next")
    canvas.paragraph(f"  {next_command}", indent="    ")


def _system(found: Purchase) -> str:
    """Return the system on which something is bought."""
    return found.effects[0].before.scenario.system.name


def verdict_interactive(found: Purchase) -> str:
    """Return the verdict at the smallest batch: what a user gets."""
    return _verdict(found, found.batches[0])


def verdict_throughput(found: Purchase) -> str:
    """Return the verdict at the largest batch: what a GPU gives."""
    return _verdict(found, found.batches[-1], per_gpu=True)


def _verdict(found: Purchase, batch: int, *, per_gpu: bool = False) -> str:
    """Return what to buy at a batch, or that nothing helps and why."""
    effects = _ranked([effect.per_gpu if per_gpu else effect for effect in found.at(batch)])
    helping = [effect for effect in effects if effect.helps]
    if not helping:
        return f"batch {batch}: {_nothing(effects)}"
    best = helping[0]
    whole = "GPU time of a token" if per_gpu else "time per token"
    text = f"batch {batch}: {best.option.name} saves {percent(best.gain or 0)} of the {whole} ({_band(best)})"
    if best.after is not None:
        before, after = ((state.tokens_per_s_per_gpu if per_gpu else state.tokens_per_s_per_user)
                         for state in (best.before, best.after))  # fmt: skip
        text += f", {rate(before)} to {rate(after)} tokens/s per {'GPU' if per_gpu else 'user'}"
    worth = [effect for effect in helping if effect.gain_per_money is not None]
    if worth:
        bargain = max(worth, key=lambda effect: effect.gain_per_money or 0.0)
        each = percent((bargain.gain_per_money or 0.0) * _THOUSAND)
        whose = "that is" if bargain is best else f"for the money {bargain.option.name} is better:"
        text += f"; {whose} {each} for each $1k a GPU"
    others = len(effects) - len(helping)
    if others:
        text += f". {others} of {len(effects)} on the list cannot be told from nothing"
    return text + "."


def _nothing(effects: Sequence[Effect]) -> str:
    """Return that nothing helps, what the best would do, and what the step is made of."""
    best = next((effect for effect in effects if effect.gain is not None), None)
    what = effects[0].before
    name = max(what.owed, key=lambda column: what.owed[column])
    share = percent(what.owed[name] / what.step_s)
    text = f"nothing on this list helps: {share} of your step is {WORDS[what.binding]}"
    if best is None:
        return f"{text}. Nothing on the list fits in memory."
    error = percent(best.option.error)
    if best.gain is not None and best.gain < -_MATTERS:
        return f"{text}. The best of it, {best.option.name}, makes the step {percent(-best.gain)} longer."
    gain = percent(best.gain or 0)
    return f"{text}. The best of it, {best.option.name}, saves {gain}, below the model's error of {error}."


def rate(tokens_per_s: float) -> str:
    """Return tokens/s to three digits, without an exponent."""
    return units.format_number(float(f"{tokens_per_s:.3g}"))


def _ranked(effects: Sequence[Effect]) -> list[Effect]:
    """Return effects by their gain, the largest first, those that do not fit last."""
    return sorted(effects, key=lambda effect: -(effect.gain if effect.gain is not None else -10.0))


def links(found: Purchase) -> str:
    """Return the answer to the question of the house: latency or bandwidth."""
    if not found.wishes:
        return "Latency or bandwidth: one device has no link to improve."
    ends = dict.fromkeys((found.batches[0], found.batches[-1]))
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


def _number(found: Purchase) -> str:
    """Return the one number: the step now and with the best option at the smallest batch."""
    best = _ranked(found.at(found.batches[0]))[0]
    now = f"{units.format_time(best.before.step_s)} per step now, {best.before.scenario.layout.name}"
    if best.after is None or best.gain is None:
        return now
    after = f"{units.format_time(best.after.step_s)} with {best.option.name}"
    return f"{now}; {after} (batch {best.batch}, saves {percent(best.gain)}, 80 % band {_band(best)})"


def _band(effect: Effect) -> str:
    """Return the band of a gain."""
    if effect.low is None or effect.high is None:
        return "-"
    return f"{_plain(effect.low)} to {_plain(effect.high)} %"


def _plain(share: float) -> str:
    """Return a share as a percentage without its sign of per cent."""
    text = f"{100 * share:.1f}" if abs(share) < 0.00995 else f"{100 * share:.0f}"  # noqa: PLR2004  tenths below one
    return "0" if text in ("0.0", "-0.0", "-0") else text


def _gains(found: Purchase, canvas: Canvas) -> None:
    """Write the table of gains: a row an option, a column a batch."""
    state = found.effects[0].before
    canvas.heading(f"{_scene(state)}: part of the time per token saved, % (80 % band)")
    heads = ["<option", *(f"batch {batch}" for batch in found.batches), *(["mix"] if found.mix else [])]
    rows = []
    for option in found.options:
        mixed = found.mixed_gain(option)
        cells = [_cell(effect) for effect in found.effects if effect.option is option]
        rows.append([option.name, *cells, *([("-" if mixed is None else _plain(mixed))] if found.mix else [])])
    canvas.table(heads, rows)
    canvas.paragraph(
        f"* above the model's error: {percent(SAME_STACK)}, or {percent(ANOTHER_STACK)} where machine, engine, library "
        "or number format is another one, and a band that does not reach 0.", indent="  "
    )  # fmt: skip
    for note in notes(found):
        canvas.paragraph(note, indent="  ")


def _money(found: Purchase, canvas: Canvas) -> None:
    """Write what each option saves for its price; a gain that the model cannot tell is worth nothing."""
    priced = [option for option in found.options if option.price_per_gpu]
    if not priced:
        return
    canvas.heading("For the money: % for each $1k that a GPU costs more")
    rows = []
    for option in priced:
        effects = [effect for effect in found.effects if effect.option is option]
        rates = [(effect.gain_per_money or 0.0) * _THOUSAND if effect.helps else None for effect in effects]
        cells = ["-" if rate is None else _plain(rate) for rate in rates]
        rows.append([option.name, units.format_money(option.price_per_gpu or 0.0), *cells])
    canvas.table(["<option", "$ a GPU", *(f"batch {batch}" for batch in found.batches)], rows)
    canvas.paragraph(
        "A price for a NIC, a node or all is spread over their GPUs; - no gain that can be told.", indent="  "
    )


def _scene(state: State) -> str:
    """Return what the gains are about."""
    scenario = state.scenario
    return f"{scenario.transformer.name} on {scenario.system.name}, {scenario.layout.name}, {scenario.stack.engine}"


def _cell(effect: Effect) -> str:
    """Return the cell of a gain with its band and its mark."""
    if effect.gain is None or effect.low is None or effect.high is None:
        return "no fit"
    star = "*" if effect.above_model_error else ""
    return f"{_plain(effect.gain)}{star} ({_plain(effect.low)}..{_plain(effect.high)})"


def notes(found: Purchase) -> list[str]:
    """Return why some options do nothing, and where a layout changes with one."""
    notes = []
    for option in found.options:
        effects = [effect for effect in found.effects if effect.option is option]
        reason = why_nothing(effects)
        if reason:
            notes.append(f"{option.name}: {reason}.")
        moved: dict[str, list[str]] = {}
        for effect in effects:
            if effect.after and effect.after.scenario.layout.name != effect.before.scenario.layout.name:
                moved.setdefault(effect.after.scenario.layout.name, []).append(f"{effect.batch}")
        notes += [f"{option.name}: {name} at batch {joined(batches)}." for name, batches in moved.items()]
    return notes


def why_nothing(effects: Sequence[Effect]) -> str:
    """Return why an option changes nothing at any batch, or an empty string where it does something."""
    if any(effect.gain is None or abs(effect.gain) > 1e-9 for effect in effects):  # noqa: PLR2004  rounding
        return ""
    before, moves = effects[0].before.scenario, effects[0].option.moves
    layout, fabric = before.layout, before.system.fabric
    for move in moves:
        crosses = layout.nodes(fabric) > 1
        if move.path.startswith("system.fabric.inter") and not crosses:
            return f"{layout.name} stays inside a node, where no such link is used; ask with a larger --tp or --pp"
        if move.path in ("stack.host_launch_s", "stack.kernels_per_layer") and before.stack.mode != "eager":
            return "graphs are launched as one, so the host's launches cost nothing; it matters with --mode eager"
    return "no term of this step reads it"


def _flips(found: Purchase, canvas: Canvas) -> None:
    """Write where the advice flips."""
    canvas.heading("Where the advice flips")
    if not found.flips:
        canvas.paragraph("  Nowhere: one answer for every batch that fits.")
    for flip in found.flips:
        first, second = (name or "nothing on the list" for name in (flip.before, flip.after))
        canvas.paragraph(f"  at batch {flip.batch}: from {first} to {second}", indent="    ")


def _tornado(found: Purchase, canvas: Canvas) -> None:
    """Write the inputs that move the step most, at the smallest and at the largest batch."""
    ends = list(dict.fromkeys((found.batches[0], found.batches[-1])))
    paths = [
        path for path in found.tornado[ends[0]] if path.startswith(("system.", "stack.")) and "remedies" not in path
    ]
    shares = {path: [found.tornado[batch].get(path, 0.0) for batch in ends] for path in paths}
    kept = sorted((path for path in shares if max(map(abs, shares[path])) >= _MATTERS),
                  key=lambda path: -max(map(abs, shares[path])))[:_SHOWN]  # fmt: skip
    canvas.heading("Tornado: % that the step moves for one per cent of an input")
    most = max((abs(share) for path in kept for share in shares[path]), default=1.0)
    rows = []
    for path in kept:
        cells = [cell for share in shares[path] for cell in (f"{share:+.2f}", "#" * round(_BAR * abs(share) / most))]
        rows.append([path, *cells])
    canvas.table(["<input", *(head for batch in ends for head in (f"b{batch}", "<"))], rows)

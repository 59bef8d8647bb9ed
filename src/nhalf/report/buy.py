"""The answer of `nhalf buy` and `nhalf whatif`: two verdicts, the gains by batch, the flips, the tornado."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.option import ANOTHER_STACK, SAME_STACK, unused
from nhalf.report.buy_words import (
    MATTERS,
    STAYS,
    THOUSAND,
    ask_with,
    plain,
    told,
)
from nhalf.report.view import percent
from nhalf.report.words import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.purchase import Effect, Purchase, State
    from nhalf.report.canvas import Canvas

_SHOWN: Final = 8
_BAR: Final = 6


def write(purchases: Sequence[Purchase], canvas: Canvas) -> None:
    """Write the verdicts by batch, the gains, what they are worth, the flips and the tornado of each system."""
    for found in purchases:
        system = f"{_system(found)}. " if len(purchases) > 1 else ""
        first, *others = told(found)
        canvas.paragraph("\n".join(["", f"{system}{first}", *others]), bold=True)
    for found in purchases:
        _gains(found, canvas)
        _money(found, canvas)
        _flips(found, canvas)
        _tornado(found, canvas)


def _system(found: Purchase) -> str:
    """Return the system on which something is bought."""
    return found.effects[0].before.scenario.system.name


def _gains(found: Purchase, canvas: Canvas) -> None:
    """Write the table of gains: a row an option, a column a batch."""
    state = found.effects[0].before
    canvas.heading(f"{_scene(state)}: part of the time per token saved, % (80 % band)")
    heads = ["<option", *(f"batch {batch}" for batch in found.batches), *(["mix"] if found.mix else [])]
    rows = []
    for option in found.options:
        mixed = found.mixed_gain(option)
        cells = [_cell(effect) for effect in found.effects if effect.option is option]
        rows.append([option.name, *cells, *([("-" if mixed is None else plain(mixed))] if found.mix else [])])
    canvas.table_in_parts(heads, rows, kept=1)
    canvas.paragraph(
        f"* above the model's error: {percent(SAME_STACK)}, or {percent(ANOTHER_STACK)} where machine, engine, library "
        "or number format is another one, and a band that does not reach 0. A saving is a ratio of two predictions, in "
        "which most of the error of each (nhalf validate) cancels.", indent="  "
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
        rates = [(effect.gain_per_money or 0.0) * THOUSAND if effect.helps else None for effect in effects]
        cells = ["-" if rate is None else plain(rate) for rate in rates]
        rows.append([option.name, units.format_money(option.price_per_gpu or 0.0), *cells])
    canvas.table_in_parts(["<option", "$ a GPU", *(f"batch {batch}" for batch in found.batches)], rows, kept=2)
    canvas.paragraph(
        "A price for a NIC, a node or all is spread over their GPUs; - no gain that can be told.", indent="  "
    )
    unpriced = [option.name for option in found.options if not option.price_per_gpu]
    if unpriced:
        canvas.paragraph(
            f"Without a price, so left out: {joined(unpriced)}. What is free beats any price.", indent="  "
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
    return f"{plain(effect.gain)}{star} ({plain(effect.low)}..{plain(effect.high)})"


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
    before, option = effects[0].before.scenario, effects[0].option
    if tier := unused(option, before):
        return f"{before.layout.name} {STAYS[tier]}, where no such link is used{ask_with(before, tier)}"
    for move in option.moves:
        if move.path in ("stack.host_launch_s", "stack.kernels_per_layer") and before.stack.mode != "eager":
            return "graphs are launched as one, so the host's launches cost nothing; it matters with --mode eager"
        if move.path.endswith("_flop_per_s"):
            return "arithmetic goes on while memory is read, which takes longer"
    return "no term of this step reads it"


def _flips(found: Purchase, canvas: Canvas) -> None:
    """Write where the advice flips."""
    flips = [
        f"at batch {flip.batch}: from {flip.before or 'nothing on the list'} to {flip.after or 'nothing on the list'}"
        for flip in found.flips
    ]
    canvas.listed("Where the advice flips: another option has the largest gain", flips or [_nowhere(found)])


def _nowhere(found: Purchase) -> str:
    """Return what gains most at every batch, where that is one option."""
    first = {option: found.curves.by[option.name][0] for option in found.options if len(found.curves.batches)}
    if any(gain >= option.error for option, gain in first.items()):
        most = max(first, key=lambda option: first[option])
        return f"Nowhere: {most.name} gains most at every batch that fits."
    return "Nowhere: at no batch that fits does any of them gain so much that it can be told from nothing."


def _tornado(found: Purchase, canvas: Canvas) -> None:
    """Write the inputs that move the step most, at the smallest and at the largest batch."""
    ends = list(dict.fromkeys((found.batches[0], found.batches[-1])))
    paths = [
        path for path in found.tornado[ends[0]] if path.startswith(("system.", "stack.")) and "remedies" not in path
    ]
    shares = {path: [found.tornado[batch].get(path, 0.0) for batch in ends] for path in paths}
    kept = sorted((path for path in shares if max(map(abs, shares[path])) >= MATTERS),
                  key=lambda path: -max(map(abs, shares[path])))[:_SHOWN]  # fmt: skip
    canvas.heading("Tornado: % that the step moves for one per cent of an input")
    most = max((abs(share) for path in kept for share in shares[path]), default=1.0)
    rows = []
    for path in kept:
        cells = [cell for share in shares[path] for cell in (f"{share:+.2f}", "#" * round(_BAR * abs(share) / most))]
        rows.append([path, *cells])
    canvas.table(["<input", *(head for batch in ends for head in (f"b{batch}", "<"))], rows)

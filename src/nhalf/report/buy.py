"""The answer of `nhalf buy` and `nhalf whatif`: two verdicts, the gains by batch, the flips, the tornado."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.decide.option import ANOTHER_STACK, SAME_STACK, unused
from nhalf.report.buy_words import (
    MATTERS,
    STAYS,
    THOUSAND,
    ask_with,
    links,
    plain,
    told,
    unused_links,
    verdict_between,
    verdict_interactive,
    verdict_throughput,
)
from nhalf.report.document import envelope, of, taken
from nhalf.report.fields import record
from nhalf.report.view import percent
from nhalf.report.words import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.purchase import Effect, Purchase, State
    from nhalf.loading import Default
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
    return "Nowhere: at no batch that fits is the gain of any of them above the model's error."


def _tornado(found: Purchase, canvas: Canvas) -> None:
    """Write the inputs that move the step most, at the smallest and at the largest batch."""
    ends = list(dict.fromkeys((found.batches[0], found.batches[-1])))
    paths = [
        path for path in found.tornado[ends[0]] if path.startswith(("system.", "stack.")) and "remedies" not in path
    ]
    shares = {path: [found.tornado[batch].get(path, 0.0) for batch in ends] for path in paths}
    kept = sorted((path for path in shares if max(map(abs, shares[path])) >= MATTERS),
                  key=lambda path: -max(map(abs, shares[path])))[:_SHOWN]  # fmt: skip
    canvas.heading("% that the step moves when an input moves by 1 %")
    most = max((abs(share) for path in kept for share in shares[path]), default=1.0)
    rows = []
    for path in kept:
        cells = [cell for share in shares[path] for cell in (f"{share:+.2f}", "#" * round(_BAR * abs(share) / most))]
        rows.append([path, *cells])
    canvas.table(["<input", *(head for batch in ends for head in (f"b{batch}", "<"))], rows)


def document(
    command: str, purchases: Sequence[Purchase], defaults: Sequence[Default], warnings: Sequence[str]
) -> dict[str, Any]:
    """Return the document of `nhalf buy` or `nhalf whatif`; of several systems, that of each and the options of all."""
    bodies = [_body(found, defaults, warnings) for found in purchases]
    if len(bodies) == 1:
        return envelope(command, bodies[0])
    verdicts = {
        key: " ".join(f"{body['system']}: {body[key]}" for body in bodies)
        for key in ("verdict_interactive", "verdict_throughput", "latency_or_bandwidth")
    }
    options = [option for body in bodies for option in body["options"]]
    return envelope(command, {**verdicts, "model": bodies[0]["model"], "options": options, "systems": bodies})


def _body(found: Purchase, defaults: Sequence[Default], warnings: Sequence[str]) -> dict[str, Any]:
    """Return what the document says of one system."""
    state = found.effects[0].before
    return {
            "unused_links": unused_links(found) or None,
            "verdict_interactive": verdict_interactive(found),
            "verdict_throughput": verdict_throughput(found),
            "verdict_between": verdict_between(found) or None,
            "latency_or_bandwidth": links(found),
            "model": state.scenario.transformer.name,
            "system": state.scenario.system.name,
            "options": [_option(effect, found) for effect in found.effects],
            "mix": [
                {"name": option.name, "gain": found.mixed_gain(option)} for option in found.options if found.mix
            ],
            "flips": [
                of(flip, "batch", **{"from": "before", "to": "after"}) for flip in found.flips
            ],
            "bandwidth_from_batch": found.wish_flip,
            "links": [
                of(wish, "batch", "tier", gain_twice_bandwidth="wider", gain_half_latency="quicker")
                for wish in found.wishes
            ],
            "tornado": [
                {"batch": batch, "input": path, "value": value}
                for batch, inputs in found.tornado.items()
                for path, value in inputs.items()
            ],
            "defaults": taken(defaults),
            "warnings": list(warnings),
    }  # fmt: skip


def _option(effect: Effect, found: Purchase) -> dict[str, Any]:
    before, after = effect.before, effect.after
    same = [other for other in found.effects if other.option is effect.option]
    return {
        "system": before.scenario.system.name,
        "name": effect.option.name,
        "batch": effect.batch,
        "layout_before": before.scenario.layout.name,
        "layout_after": after.scenario.layout.name if after else None,
        "before": record(before),
        "after": record(after) if after else None,
        "step_before_s": before.step_s,
        "step_after_s": after and after.step_s,
        **of(effect, "gain", "above_model_error", "gain_per_money", gain_low="low", gain_high="high"),
        **of(effect.option, "price_per_gpu", model_error="error"),
        **{
            f"{key}_{when}": state and getattr(state, key)
            for key in ("tokens_per_s_per_user", "tokens_per_s_per_gpu", "binding")
            for when, state in (("before", before), ("after", after))
        },
        "reason": why_nothing(same) or None,
    }

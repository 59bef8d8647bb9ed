"""The answer of `nhalf calibrate`: constants with intervals and what is not identified, as page, document and file."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.files.toml import dumped
from nhalf.report.document import envelope
from nhalf.report.validate import checks, findings, percent
from nhalf.report.view import Brief
from nhalf.report.words import INPUTS, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.calibrate.derive import Constant
    from nhalf.calibrate.split import Split
    from nhalf.calibrate.stack import StackFit
    from nhalf.loading.case_checks import Finding
    from nhalf.report.canvas import Canvas

_FEW = 4
_ROWS = 6
_HEADS = ("<constant", "before", "now", "<95 % range", "<your runs")
_SAID = ("one-device-count", "several-stacks", "no-freedom")
"""Notes that the first screen holds."""
_MOSTLY = 0.8
"""From this share of the weights on, what is shared out is said to read them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibrated:
    """Everything that a calibration found: the fit, the splits, and what looks wrong in the runs.

    `path` names the files.
    """

    fit: StackFit
    splits: Sequence[Split]
    doubts: Sequence[Finding]
    engine: str
    path: str


def write(found: Calibrated, canvas: Canvas, *, next_command: str) -> None:
    """Write the verdict, the constants, the split by device count, and the next command."""
    fit = found.fit
    shown = sorted(
        (each for each in fit.constants if each.identified or each.moved), key=lambda each: not each.identified
    )
    canvas.paragraph(_moves(fit, shown), bold=True)
    canvas.paragraph(_off(fit))
    canvas.heading("Constants (95 % intervals)" if fit.rows > 1 else "Constants (one run gives no interval)")
    if shown:
        canvas.table(_HEADS, [_row(each, interval=fit.rows > 1) for each in shown])
    kept = [_words(each.name) for each in fit.constants if each not in shown]
    if kept:
        canvas.paragraph(f"kept as they were: {'; '.join(kept)}", indent="  ")
    _splits(found.splits, canvas)
    if fit.notes:
        canvas.heading("Notes")
        for _, text in fit.notes:
            canvas.paragraph(f"  {text}", indent="    ")
    checks(found.doubts, canvas)
    canvas.following(next_command)


def brief(found: Calibrated, *, next_command: str) -> Brief:
    """Return the first screen: what the runs moved, how far off the refit is, and the split by device count."""
    fit = found.fit
    moved = [each for each in fit.constants if each.moved]
    moved.sort(key=lambda each: (not each.identified, -_moved(each)))
    ends = ", with 95 % ranges" if fit.rows > 1 else ": one run gives no range"
    kept = len(fit.constants) - len(moved[:_ROWS])
    codes = Counter(doubt.code for doubt in found.doubts)
    doubts = [text for code, text in fit.notes if code in _SAID]
    doubts += [f"Doubtful: {', '.join(f'{counted(n)} {code}' for code, n in codes.items())}."] if codes else []
    doubts += [f"{doubt.place}: {doubt.text}." for doubt in found.doubts if doubt.code == "waiting"][:1]
    command, _, why = next_command.partition("  # ")
    return Brief(
        verdict=[_moves(fit, moved)],
        number=f"{_off(fit)[0].upper()}{_off(fit)[1:]}.",
        title=f"What your runs say of the stack{ends}",
        table=(
            _HEADS, [_row(each, interval=fit.rows > 1) for each in moved[:_ROWS]]
        ) if moved else None,
        notes=[f"{kept} more stay as they were, or nearly.", *doubts],
        closing=_by_count(found.splits[0], len(found.splits)) if found.splits else (),
        next_command=command,
        next_why=why,
        warn=fit.worse,
    )  # fmt: skip


def _moved(each: Constant) -> float:
    return abs(math.log(each.value / each.prior))


def _moves(fit: StackFit, moved: Sequence[Constant]) -> str:
    """Return in a sentence what the runs moved, and what they cannot tell."""
    runs = "One run" if fit.rows == 1 else f"Your {fit.rows} runs"
    if not moved:
        return f"{runs} move{'s' if fit.rows == 1 else ''} no constant: they agree with those of all stacks."
    told = [each for each in moved if each.identified]
    if not told:
        first = max(moved, key=_moved)
        verb = "moves" if fit.rows == 1 else "move"
        return f"{runs} {verb} {_words(first.name)} by {_by(first)}, but cannot tell it from the others."
    return f"{runs} tell {', '.join(f'{_words(each.name)} ({_by(each)})' for each in told)}."


def _by(each: Constant) -> str:
    return f"{100 * (each.value / each.prior - 1):+.0f} %"


def _words(name: str) -> str:
    return INPUTS.get(name, _plain(name))


def _row(each: Constant, *, interval: bool) -> list[str]:
    unit = "s" if each.name.endswith("_s") else "1"
    prior, value, low, high = (units.format_value(x, unit) for x in (each.prior, each.value, each.low, each.high))
    return [_words(each.name), prior, value, f"{low} to {high}" if interval else "-",
            "tell" if each.identified else "cannot tell"]  # fmt: skip


def _by_count(split: Split, loads: int) -> list[str]:
    """Return c + W / K of a load in sentences: the constant, what it is for a collective, and where it ends."""
    counts = ", ".join(f"TP{count}" for count in split.devices)
    more = f" ({counted(loads - 1, 'other load')} with --detail)" if loads > 1 else ""
    if split.impossible:
        return [f"{split.name}, {counts}: {split.verdict}{more}."]
    constant = f"{units.format_time(split.constant_s)}{_interval(split.constant_interval_s)}"
    found = [f"{split.name}, {counts}: {constant} + {units.format_time(split.shared_s)} / TP{more}."]
    if split.constant_s <= 0:
        return [*found, f"{split.verdict[0].upper()}{split.verdict[1:]}."]
    modelled = units.format_time(split.link_s / split.collectives)
    low, high = (end / split.collectives for end in split.constant_interval_s)
    each = f"{units.format_time(split.per_collective_s)}{_interval((low, high))}"
    found.append(f"The constant is {each} for each of {split.collectives:g} all-reduces; the model has {modelled}: "
                 f"{split.verdict}.")  # fmt: skip
    value, most, least = split.ceiling_tokens_per_s
    upto = f"{least:.3g} to {most:.3g}" if most is not None else f"{least:.3g} or more"
    found.append(f"However many GPUs: at most {value:.3g} tokens/s per user ({upto}).")
    return [*found, f"{_reads(split)}."] if split.read_share > 1 and loads else found


def _off(fit: StackFit) -> str:
    """Return how far off runs are that the constants had not seen, and whether the refit is worth using."""
    before, stacks = percent(fit.before_error), "with the constants of all stacks"
    if math.isnan(fit.held_out_error):
        return f"{before} off {stacks}; one run cannot be held out, so nothing says whether the refit predicts better"
    text = f"{percent(fit.held_out_error)} off in the median on runs held out, {before} {stacks}"
    return f"{text}: the refit is worse, do not use it" if fit.worse else text


def _plain(name: str) -> str:
    """Return the name of a constant in words."""
    return name.removesuffix("_s").replace("_", " ")


def _splits(found: Sequence[Split], canvas: Canvas) -> None:
    """Write c + W / K of the loads that were measured on several device counts."""
    if not found:
        return
    canvas.heading("By device count: step = c + W / K")
    for split in found[:_FEW]:
        first, *rest = _by_count(split, 0)
        canvas.paragraph(f"  {first}", indent="    ")
        if split.impossible:
            canvas.paragraph(f"    {', '.join(units.format_time(time) for time in split.step_s)} were measured.")
            continue
        for text in (f"{_reads(split)}.", *rest, *([f"{split.refused}."] if split.refused else [])):
            canvas.paragraph(f"    {text}", indent="    ")
    if len(found) > _FEW:
        canvas.paragraph(f"  and {len(found) - _FEW} other loads, in the document")


def _reads(split: Split) -> str:
    """Return the memory bandwidth that a split implies, and what else than weights its shared part holds."""
    bandwidth = units.format_bandwidth(split.implied_bandwidth_bytes_per_s)
    share = percent(split.read_share)
    if split.read_share > 1:
        return f"W reads the weights at {share} of the datasheet ({bandwidth}): what the noise of a run can do"
    if split.weights_share > _MOSTLY:
        return f"W reads the weights at {bandwidth}, {share} of the datasheet"
    rest = percent(1 - split.weights_share)
    return (
        f"W reads the weights at {bandwidth} or more, {share} of the datasheet: by the model {rest} of it is not "
        "weights but experts, cache, arithmetic and prefills"
    )


def _interval(interval: tuple[float, float]) -> str:
    """Return an interval of times; a lower end below 0 is 0."""
    return f" ({units.format_time(max(interval[0], 0.0))} to {units.format_time(max(interval[1], 0.0))})"


def document(found: Calibrated) -> dict[str, Any]:
    """Return the document of the contract; the split of the first load stands at the top too."""
    fit = found.fit
    splits = [_split(split) for split in found.splits]
    body = {
        "constants": [
            {
                "name": each.name,
                "value": each.value,
                "low": each.low if fit.rows > 1 else None,
                "high": each.high if fit.rows > 1 else None,
                "identified": each.identified,
                "prior": each.prior,
            }
            for each in fit.constants
        ],
        "rows": fit.rows,
        "median_error": fit.median_error,
        "held_out_error": None if math.isnan(fit.held_out_error) else fit.held_out_error,
        "before_error": fit.before_error,
        "notes": [{"code": code, "text": text} for code, text in fit.notes],
        "findings": findings(found.doubts),
        "splits": splits,
        **(splits[0] if splits else dict.fromkeys(_SPLIT_KEYS)),
    }
    return envelope("calibrate", body)


_SPLIT_KEYS = (
    "constant_s", "weights_s", "implied_bandwidth_bytes_per_s", "per_collective_s", "degrees_of_freedom",
)  # fmt: skip
_SPLIT_ENDS = (
    "constant_low_s", "constant_high_s", "weights_low_s", "weights_high_s", "per_collective_low_s",
    "per_collective_high_s", "link_per_collective_s", "ceiling_tokens_per_s", "ceiling_low_tokens_per_s",
    "ceiling_high_tokens_per_s",
)  # fmt: skip


def _split(split: Split) -> dict[str, Any]:
    """Return a split; what is unknown is null, and so is all of one that is impossible."""
    told = {"load": split.name, "devices": list(split.devices), "degrees_of_freedom": split.degrees_of_freedom,
            "verdict": split.verdict, "refused": split.refused or None}  # fmt: skip
    if split.impossible:
        return {**dict.fromkeys((*_SPLIT_KEYS, *_SPLIT_ENDS)), **told}
    bandwidth = split.implied_bandwidth_bytes_per_s
    constant, shared = split.constant_interval_s, split.shared_interval_s
    ceiling = split.ceiling_tokens_per_s if split.constant_s > 0 else (None, None, None)
    return {
        **told,
        "constant_s": split.constant_s,
        "constant_low_s": constant[0],
        "constant_high_s": constant[1],
        "weights_s": split.shared_s,
        "weights_low_s": shared[0],
        "weights_high_s": shared[1],
        "per_collective_low_s": constant[0] / split.collectives,
        "per_collective_high_s": constant[1] / split.collectives,
        "link_per_collective_s": split.link_s / split.collectives,
        "ceiling_tokens_per_s": ceiling[0],
        "ceiling_low_tokens_per_s": ceiling[2],
        "ceiling_high_tokens_per_s": ceiling[1],
        "implied_bandwidth_bytes_per_s": bandwidth if math.isfinite(bandwidth) else None,
        "per_collective_s": split.per_collective_s,
    }


def stack_file(found: Calibrated, *, date: str) -> str:
    """Return the stack as the file that `--stack` reads."""
    head = f"# A stack calibrated by nhalf calibrate on {counted(found.fit.rows, 'run')}:\n# {_off(found.fit)}.\n\n"
    return head + dumped(stack(found, date=date))


def stack(found: Calibrated, *, date: str) -> dict[str, Any]:
    """Return the stack as tables: its constants with intervals and origins, and its band where runs were compared."""
    fit, constants = found.fit, {}
    for each in fit.constants:
        scale, unit = (1e6, " us") if each.name.endswith("_s") else (1.0, "")
        value, least, most = (f"{number * scale:.5g}{unit}" for number in (each.value, each.low, each.high))
        constants[each.name.removesuffix("_s")] = {
            "value": value, "low": least, "high": most, "source": found.path, "kind": "fitted", "date": date,
            "locator": f"nhalf calibrate, {counted(fit.rows, 'run')}",
            "note": "identified" if each.identified else "mostly prior",
        }  # fmt: skip
    ends = zip(("low", "high"), (-1, 1), fit.half_widths or (), strict=False)
    band = {name: round(math.exp(sign * width), 4) for name, sign, width in ends}
    return {**({"band": band} if band else {}), "constants": constants}

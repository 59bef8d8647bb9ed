"""The answer of `nhalf whatif --step`: what a quicker call saves of a step that is known by its numbers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.report.document import envelope
from nhalf.report.view import Brief, percent

if TYPE_CHECKING:
    from nhalf.loading.calls import Calls, Saved


def brief(found: Calls, *, next_command: str) -> Brief:
    """Return the first screen."""
    best = max(found.options, key=lambda each: each.saved_s)
    step, share = units.format_time(found.step_s), percent(found.waiting_s / found.step_s)
    rows = [_cells(each, found) for each in found.options]
    return Brief(
        verdict=[f"{best.name} saves {_time(best.saved_s)} of {step}, {_share(best, found)}."],
        number=f"Now {found.calls} calls take {_time(found.waiting_s)} of a step, {share}.",
        title=f"{found.calls} calls of {units.format_time(found.each_s)} in a step of {step}",
        table=(["<change", "each", "calls", "saved", "of the step", "step after"], rows),
        closing=_software(found),
        assumed="every call is waited for, and nothing else changes",
        next_command=next_command,
        next_why="with a model",
    )


def _cells(each: Saved, found: Calls) -> list[str]:
    return [
        each.name, units.format_time(each.each_s), f"{each.calls:g}", _time(each.saved_s), _share(each, found),
        units.format_time(each.step_after_s),
    ]  # fmt: skip


def _time(seconds: float) -> str:
    """Return a time of two digits, its sign before it."""
    text = units.format_time(float(f"{abs(seconds):.2g}"))
    return f"-{text}" if seconds < 0 else text


def _share(each: Saved, found: Calls) -> str:
    share = each.saved_s / found.step_s
    return f"{100 * share:.2g} %"


def _software(found: Calls) -> list[str]:
    """Return what part of a call is software, where a link is given."""
    if found.link_s is None:
        return []
    part, each = found.link_s / found.each_s, units.format_time(found.each_s)
    if part >= 1:
        return [
            f"One message on {found.link} takes {units.format_time(found.link_s)}: no call of {each} can be faster."
        ]
    software = units.format_time(found.each_s - found.link_s)
    told = f"Of {each} one message on {found.link} takes {units.format_time(found.link_s)}"
    return [f"{told}; {software}, {percent(1 - part)}, is software, or messages after the first."]


def document(found: Calls) -> dict[str, Any]:
    """Return the document: the same keys as with a model, as far as they are known."""
    return envelope(
        "whatif",
        {
            "step_s": found.step_s,
            "calls": found.calls,
            "each_s": found.each_s,
            "waiting_s": found.waiting_s,
            "software_s": None if found.link_s is None else max(found.each_s - found.link_s, 0.0),
            "options": [
                {
                    "name": each.name, "calls": each.calls, "each_s": each.each_s, "saved_s": each.saved_s,
                    "step_before_s": found.step_s, "step_after_s": each.step_after_s,
                    "gain": each.saved_s / found.step_s,
                }
                for each in found.options
            ],
        },
    )  # fmt: skip

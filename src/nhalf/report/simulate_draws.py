"""The answer of `nhalf simulate --draws`, as text and as a document."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.report.document import of
from nhalf.report.simulate import UNREAL, document
from nhalf.report.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.decide.agreement import Outcome
    from nhalf.decide.skewed import Lateness, Side, Spread
    from nhalf.report.canvas import Canvas

_ALL = 0.995
"""From this share on, lateness is passed on as a whole."""


def write(
    spreads: Sequence[Spread], canvas: Canvas, *, task: str, skew: str, ports: str, next_commands: Sequence[str]
) -> None:
    """Write the times of many draws: the verdict, the table, theory beside the latest arrival, and what became of it.

    `task` says what was simulated, `ports` how.
    """
    best = min([one for one in spreads if not one.what_if] or spreads, key=lambda one: one.mean_s)
    canvas.paragraph(
        f"Skew of {skew} makes {best.algorithm} take {units.format_time(best.mean_s)} on average, "
        f"{units.format_time(best.cost_s)} more than together{_reached(best)}.",
        bold=True,
    )
    canvas.paragraph(f"p50 {units.format_time(best.p50_s)}, p99 {units.format_time(best.p99_s)}")
    canvas.heading(f"{task}, {counted(best.draws, 'draw')}")
    canvas.table(
        ["<algorithm", "no skew", "mean", "p50", "p99", "skew costs"],
        [
            [one.algorithm, *map(units.format_time, (one.base_s, one.mean_s, one.p50_s, one.p99_s, one.cost_s))]
            for one in spreads
        ],
        marked=[spreads.index(best)] if len(spreads) > 1 else [],
    )
    canvas.paragraph(
        f"The latest of {best.ranks} ranks arrives {units.format_time(best.latest_s)} late on average, in every row "
        f"alike; theory says {units.format_time(best.expected_s)}: {best.rule}."
    )
    for one in spreads:
        if one.what_if:
            canvas.paragraph(f"  {one.algorithm}: {UNREAL}.", indent="    ")
    _write_lateness(spreads, canvas, ports=ports)
    canvas.following(*next_commands)


def _write_lateness(spreads: Sequence[Spread], canvas: Canvas, *, ports: str) -> None:
    """Write what becomes of the last rank's lateness, and what the columns mean."""
    canvas.heading("What becomes of the last rank's lateness")
    found = [(one.algorithm, one.lateness) for one in spreads if one.lateness is not None]
    if not found:
        canvas.paragraph("  In no draw are ranks apart.")
        return
    canvas.table(
        ["<algorithm", "passed on", "hidden in", "at most", "added in", "at most", "drags"],
        [
            [
                name,
                "-" if one.passed_on is None else f"{100 * one.passed_on:.1f} %",
                *_side(one.hidden),
                *_side(one.added),
                f"{one.dragged:.2f}",
            ]
            for name, one in found
        ],
    )
    hidden, added = (any(getattr(one, side).share for _, one in found) for side in ("hidden", "added"))
    for line in _legend(spreads[0].ranks - 1, hidden=hidden, added=added, ports=ports):
        canvas.paragraph(f"  {line}", indent="    ")


def _side(found: Side) -> tuple[str, str]:
    """Return the share of draws on one side, and by how much they are beside it at most."""
    return (f"{100 * found.share:.1f} %", units.format_time(found.most_s)) if found.share else ("-", "-")


def _legend(others: int, *, hidden: bool, added: bool, ports: str) -> Iterator[str]:
    """Yield what the columns mean, and where hidden and added lateness come from."""
    yield (
        "passed on: the delay of the end over that lateness, on average. Where nothing is hidden or added, every draw "
        "takes the last arrival plus the time without skew, within 1 % of how far its ranks are apart."
    )
    if hidden:
        yield "hidden in: the draws that end sooner than that; the others go on until they need the late rank."
    if added:
        fair = "" if ports == "fair" else f" Ports are {ports}; --ports fair has no order to lose."
        yield (
            "added in: the draws that end later than that; messages for late ranks queue behind each other (a convoy)."
            f"{fair}"
        )
    yield f"drags: how many of the other {others} end later than their own lateness explains, on average."


def _reached(one: Spread) -> str:
    """Return how much of the last rank's lateness reaches the end, as the end of a sentence."""
    found = one.lateness
    if found is None or found.passed_on is None:
        return ""
    latest = f"of the last rank's lateness ({units.format_time(one.latest_s)})"
    if found.passed_on < _ALL:
        return f": {100 * found.passed_on:.0f} % {latest} reaches the end"
    share = found.added.share
    convoy = f", and a convoy adds to it in {100 * share:.0f} % of draws" if share >= 1 - _ALL else ""
    return f": all {latest} reaches the end{convoy}"


def spreads_document(
    spreads: Sequence[Spread], outcomes: Sequence[Outcome], *, where: str, skew: str, partial: str = ""
) -> dict[str, Any]:
    """Return the document of many draws: the runs without skew, each with its draws; `partial` as in `document`."""
    found = document(outcomes, where=where, partial=partial)
    for entry, one in zip(found["runs"], spreads, strict=True):
        entry["draws"] = {
            "skew": skew,
            **of(one, "draws", "mean_s", "p50_s", "p99_s", "latest_s", "rule", expected_latest_s="expected_s"),
            "lateness": None if one.lateness is None else _flat(one.lateness),
        }
    return found


def _flat(found: Lateness) -> dict[str, Any]:
    """Return what becomes of lateness, in one level."""
    sides = {
        f"{name}_{key}": value
        for name, side in (("hidden", found.hidden), ("added", found.added))
        for key, value in asdict(side).items()
    }
    return {"late_draws": found.draws, "passed_on": found.passed_on, **sides, "dragged_ranks": found.dragged}

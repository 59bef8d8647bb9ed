"""The answer of `nhalf simulate decode`, as text and as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.report.document import envelope, of
from nhalf.report.words import counted, joined
from nhalf.simulate.machine import more_than_sold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.pacing import Loop, Pace
    from nhalf.report.canvas import Canvas

MATTERS = 0.005
"""A loss below this share is called none."""

_MOSTLY = 0.5
"""A rank that is the last to arrive at this share of the collectives sets the pace."""


def write(
    made: Loop,
    paces: Sequence[Pace],
    canvas: Canvas,
    *,
    tokens: int,
    slow: Sequence[str],
    partial: str = "",
) -> None:
    """Write what the straggler costs, the table, and what each remedy gives back.

    `slow` are the texts of stragglers that do all of their work slower; `partial` says what was interrupted.
    """
    base, *others = paces
    jitter_s = base.jitter_s
    verdict = _jitter(made, base) if jitter_s and not others else _verdict(base, others, partial=partial)
    canvas.paragraph(verdict, bold=True)
    shown = others[-1] if others else base
    canvas.paragraph(f"{shown.tokens_per_s:.4g} tokens/s, {units.format_time(shown.step_p50_s)} per step")
    scenario = made.scenario
    canvas.heading(
        f"{scenario.transformer.name} on {scenario.system.name}, TP{made.ranks}, batch {made.batch:g}: "
        f"{counted(tokens, 'token')}, "
        f"{made.collectives} all-reduces of {units.format_size(made.size_bytes)} by {made.algorithm} in each step"
    )
    rows = [
        [
            one.straggler or ("none but jitter" if jitter_s else "none"),
            f"{one.tokens_per_s:.4g}",
            ("-" if one is base else f"{100 * (1 - one.tokens_per_s / base.tokens_per_s):.1f} %"),
            units.format_time(one.step_p50_s),
            units.format_time(one.step_p99_s),
            _paced(one),
        ]
        for one in paces
    ]
    canvas.table(["<straggler", "tokens/s", "lost", "step p50", "step p99", "<the others wait for"], rows)
    _rests_on(made, canvas, slow=slow)
    for one in others:
        if one.behind < tokens:
            canvas.paragraph(f"  {one.straggler}: behind in {one.behind} of {counted(tokens, 'token')}.", indent="  ")
    if jitter_s:
        canvas.paragraph(
            f"  In every row each stretch of work of each rank is {units.format_time(jitter_s)} longer on average, at "
            f"random (exponential). Without that jitter the loop makes {made.batch / made.step_s:.4g} tokens/s.",
            indent="  ",
        )
    assumed = more_than_sold(scenario.system.name, made.ranks)
    if assumed:
        canvas.paragraph(f"  {assumed}.", indent="  ")
    if made.is_what_if:
        canvas.paragraph(f"  No library runs {made.algorithm} across NICs: this is a what-if only.", indent="  ")
    for one in others:
        if one.remedies:
            canvas.heading(f"Remedies for {one.straggler}")
            canvas.table(
                ["<remedy", "tokens/s", "gained"],
                [
                    [
                        remedy.name,
                        f"{remedy.tokens_per_s:.4g}",
                        f"{100 * (remedy.tokens_per_s / one.tokens_per_s - 1):+.1f} %",
                    ]
                    for remedy in one.remedies
                ],
            )


def _rests_on(made: Loop, canvas: Canvas, *, slow: Sequence[str]) -> None:
    """Write what a step is made of, and what a slow device does slower."""
    canvas.paragraph(
        f"  A step is {made.collectives} x ({units.format_time(made.work_s)} of work + "
        f"{units.format_time(made.collective_s)} of all-reduce), both as predicted; "
        "the loop plays the all-reduce message by message.",
        indent="  ",
    )
    if slow:
        canvas.paragraph(
            f"  With {joined(list(slow))} all work of the device takes that much longer, reading memory too, which is "
            f"{100 * made.reads_share:.0f} % of it. A throttled core clock alone leaves that as it is, and costs less.",
            indent="  ",
        )


def _paced(one: Pace) -> str:
    """Return who the others wait for."""
    if one.pace_rank is None:
        return "nobody in particular"
    share = 100 * one.pace_share
    if one.pace_by_link:
        return f"the link of rank {one.pace_rank} ({share:.0f} % of the steps)"
    return f"rank {one.pace_rank} ({share:.0f} % of the time)"


def _jitter(made: Loop, base: Pace) -> str:
    lost = 1 - base.tokens_per_s * made.step_s / made.batch
    what = f"Jitter of {units.format_time(base.jitter_s)} on every rank"
    if lost < 0:
        return f"{what} costs nothing: ranks that are apart meet less at ports ({-100 * lost:.1f} % more tokens)."
    return f"{what} costs {100 * lost:.1f} % of the tokens."


def _verdict(base: Pace, others: Sequence[Pace], *, partial: str) -> str:
    """Return what the straggler costs and what helps most."""
    if not others and partial:
        return "Interrupted before a straggler was played."
    if not others:
        return "Nobody is behind: no straggler was given."
    worst = min(others, key=lambda one: one.tokens_per_s)
    lost = 1 - worst.tokens_per_s / base.tokens_per_s
    together = worst.straggler.split(", ")
    costs = f"{joined(together)} {'cost' if len(together) > 1 else 'costs'}"
    if lost < MATTERS:
        return f"{costs} next to nothing ({100 * lost:.1f} % of the tokens)."
    verdict = f"{costs} {100 * lost:.1f} % of the tokens"
    if worst.pace_rank is not None and worst.pace_share >= _MOSTLY:
        verdict += f": {'the link of ' if worst.pace_by_link else ''}rank {worst.pace_rank} sets the pace"
    if not worst.remedies:
        return f"{verdict}."
    helps = worst.remedies[0]
    if helps.tokens_per_s <= worst.tokens_per_s:
        return f"{verdict}; no remedy here helps."
    return f"{verdict}; best remedy: {helps.name} ({100 * (helps.tokens_per_s / worst.tokens_per_s - 1):+.1f} %)."


def document(made: Loop, paces: Sequence[Pace], *, tokens: int, partial: str = "") -> dict[str, Any]:
    """Return the document of the contract; `partial` says what was interrupted."""
    return envelope(
        "simulate",
        {
            "model": made.scenario.transformer.name,
            "system": made.scenario.system.name,
            **of(made, "batch", "algorithm", "collectives", "work_s", "collective_s", tp="ranks", what_if="is_what_if"),
            "tokens": tokens,
            "jitter_s": paces[0].jitter_s,
            "undisturbed_tokens_per_s": made.batch / made.step_s,
            "assumed": more_than_sold(made.scenario.system.name, made.ranks) or None,
            "partial": partial or None,
            "runs": [
                {
                    **of(one, "straggler", "tokens_per_s", "step_p50_s", "step_p99_s", "pace_rank", "pace_by_link"),
                    "steps_behind": one.behind,
                    "pace_share": one.pace_share if one.pace_rank is not None else None,
                    "remedies": [of(remedy) for remedy in one.remedies],
                }
                for one in paces
            ],
        },
    )

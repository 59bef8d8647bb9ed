"""The first screen of `nhalf trace`: where a step goes, who is waited for, and what would help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.report.trace import number, verdict
from nhalf.report.view import Bars, Brief, Saving, Tone, percent
from nhalf.report.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.trace.budget import Budget
    from nhalf.trace.study import Study

_RANKS: Final = 6
_GAINS: Final = 5


def brief(study: Study, *, next_commands: Sequence[str]) -> Brief:
    """Return the first screen of a run."""
    commands = [command for command in next_commands if not command.startswith("# ")]
    remarks = [command.removeprefix("# ") for command in next_commands if command.startswith("# ")]
    return Brief(
        verdict=verdict(study),
        number=number(study),
        title=f"Mean of {counted(len(study.timeline.labels), 'step')}, {counted(len(study.timeline.traces), 'rank')}",
        bars=_bars(study),
        notes=study.notes[:1],
        asked="What would help?",
        savings=_savings(study),
        closing=[_floor(study), *(f"Next: give {remark}." for remark in remarks)],
        next_command=commands[0].partition("  # ")[0] if commands else "",
    )


def _stretches(one: Budget) -> list[float]:
    """Return what a step is made of, communication first: what is exposed of it moves bytes and waits."""
    known = one.exposed_transfer_s is not None and one.exposed_wait_s is not None
    exposed = [one.exposed_transfer_s or 0.0, one.exposed_wait_s or 0.0] if known else [one.exposed_s, 0.0]
    return [*exposed, one.compute_s + one.overlapped_s, one.gap_s + one.idle_s]


def _bars(study: Study) -> Bars:
    """Return the step of each rank."""
    ranked = sorted(zip(study.timeline.traces, study.budgets, strict=True), key=lambda item: item[0].rank)
    late = {rank for one in study.verdict.stragglers for rank in (one.rank, *one.together_with)}
    shown = ranked if len(ranked) <= _RANKS else sorted(ranked, key=lambda item: item[0].rank not in late)[:_RANKS]
    known = study.mean.exposed_wait_s is not None
    tones: list[Tone] = ["warn" if trace.rank in late else "plain" for trace, _ in shown]
    return Bars(
        heads=["<rank", "step", "waits" if known else "exposed"],
        rows=[
            [
                f"rank {trace.rank}",
                units.format_time(one.step_s),
                units.format_time((one.exposed_wait_s or 0.0) if known else one.exposed_s),
            ]
            for trace, one in shown
        ],
        names=["transfer" if known else "exposed", "wait", "compute", "idle and gaps"],
        parts=[_stretches(one) for _, one in shown],
        remarks=["late" if trace.rank in late else "" for trace, _ in shown],
        tones=tones,
    )


def _savings(study: Study) -> list[Saving]:
    """Return what each change would save; a bound is said to be one."""
    return [
        Saving(name=gain.name, share=gain.gain, note="at most" if gain.kind == "bound" else "")
        for gain in study.replayed.gains[:_GAINS]
    ]


def _floor(study: Study) -> str:
    """Return the latency of a step's collectives."""
    most = "at most " if study.floor_is_bound else ""
    share = percent(study.floor_s / study.mean.step_s)
    return f"Latency of the collectives of a step: {most}{units.format_time(study.floor_s)}, {share} of it."

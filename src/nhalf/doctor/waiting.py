"""What a trace adds: a rank that the others wait for, and steps that wait more than they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.doctor.diagnosis import Cause

if TYPE_CHECKING:
    from nhalf.trace.study import Study

_WORTH: Final = 0.05
"""A wait below this share of the step is not worth a name."""


def causes(study: Study) -> list[Cause]:
    """Return what a trace names."""
    found = []
    for straggler in study.verdict.stragglers[:1]:
        cost = units.format_time(straggler.cost_s)
        text = f"rank {straggler.rank} costs {cost} a step: {straggler.cause}, {straggler.why}"
        found.append(Cause(code="slow-rank", probability=0.9, for_=(text,), against=()))
    wait, sent = study.mean.exposed_wait_s, study.mean.exposed_transfer_s
    if wait is not None and sent is not None and wait > max(sent, _WORTH * study.mean.step_s):
        text = f"a step waits {units.format_time(wait)} and moves bytes for {units.format_time(sent)}"
        found.append(Cause(code="waiting", probability=0.8, for_=(text,), against=()))
    return found

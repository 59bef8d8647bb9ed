"""A ladder of batches: as many rungs as show where the collectives of a loop take twice their floor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.evidence.probe.plan import loop_cell

if TYPE_CHECKING:
    from nhalf.evidence.probe.cell import Program
    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.schedule import Schedule

_DOUBLE: Final = 2.2
"""Beyond twice the floor by what one reading may be wrong."""
_MOST: Final = 0.5
"""The share of the budget that may be spent before the first round."""


def climbed(schedule: Schedule, request: Request) -> list[int]:
    """Prepare rungs, every other one upwards until one takes twice the floor, then the one left out below it.

    The first of the ladder is the floor. Return the numbers of the cells.
    """
    if not request.ladder:
        return []

    def prepare(rung: Program) -> int:
        (number,) = schedule.prepare([loop_cell(request, rung)])
        return number

    floor, *rungs = request.ladder
    numbers = [prepare(floor)]
    for place in range(0, len(rungs), 2):
        if schedule.has_spent(_MOST):
            break
        numbers.append(prepare(rungs[place]))
        if schedule.about_s(numbers[-1]) >= _DOUBLE * schedule.about_s(numbers[0]):
            numbers += [prepare(rungs[place - 1])] if place else []
            break
    return numbers

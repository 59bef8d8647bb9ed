"""Instead: what could be run instead of a loop with a straggler, and what that gives back.

A loop without the straggler, a smaller group, another algorithm: each is played as the loop itself was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nhalf.collective import Op
from nhalf.decide.agreement import is_what_if
from nhalf.decide.pacing import IN_LINE, ON_TORUS, Loop, Remedy, all_reduce_of, loop, pace, usual
from nhalf.errors import InputError
from nhalf.layout import check
from nhalf.predict.memory import fits
from nhalf.simulate import programs
from nhalf.simulate.engine import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nhalf.simulate.straggler import Straggler

OTHERS = ("ring", "recursive-doubling", "one-shot", "two-shot", "hierarchical")
"""The algorithms that are tried as a remedy."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alternative:
    """A loop that could be run instead, with the stragglers or, when `cured`, without them."""

    name: str
    loop: Loop
    cured: bool


def alternatives(made: Loop) -> tuple[Alternative, ...]:
    """Return what could be run instead of a loop: no stragglers, a smaller group, another algorithm.

    Algorithms that no library runs on the loop's nodes are left out.
    """
    found = [Alternative(name="remove or replace it", loop=made, cured=True)]
    smaller = _smaller(made)
    if smaller is not None:
        name = f"a smaller group without it: TP{smaller.ranks}"
        found.append(Alternative(name=name, loop=smaller, cured=True))
    base = float(run(all_reduce_of(made, made.algorithm), made.machine.network).time_s)
    for name in _others(made):
        plain = float(run(all_reduce_of(made, name), made.machine.network).time_s)
        other = replace(made, algorithm=name, collective_s=made.collective_s * plain / base)
        found.append(Alternative(name=f"{name} instead of {made.algorithm}", loop=other, cured=False))
    return tuple(found)


def _others(made: Loop) -> Iterator[str]:
    """Yield the other algorithms that can be run."""
    machine = made.machine
    for name in (IN_LINE, ON_TORUS) if machine.network.kind == "torus" else OTHERS:
        grouped = name in programs.GROUPED and usual(machine) != name
        if name != made.algorithm and not grouped and not is_what_if(Op.ALL_REDUCE, name, machine):
            yield name


def remedies(
    instead: Sequence[Alternative],
    stragglers: Sequence[Straggler],
    *,
    tokens: int,
    seed: int,
    jitter_s: float = 0.0,
    progress: Callable[[int], None] | None = None,
) -> tuple[Remedy, ...]:
    """Return what each alternative leads to, best first; the other arguments are those of `pace`."""
    found = []
    for one in instead:
        behind = () if one.cured else stragglers
        played = pace(one.loop, behind, tokens=tokens, seed=seed, jitter_s=jitter_s, progress=progress)
        found.append(Remedy(name=one.name, tokens_per_s=played.tokens_per_s))
    return tuple(sorted(found, key=lambda remedy: -remedy.tokens_per_s))


def _smaller(made: Loop) -> Loop | None:
    """Return the loop of half the group, or None where the model does not split so or does not fit in memory."""
    half = made.ranks // 2
    if half < 2 or made.ranks % 2:  # noqa: PLR2004  a group of one has no loop
        return None
    layout = replace(made.scenario.layout, tensor_parallel=half)
    try:
        check(layout, made.scenario.transformer, made.scenario.system.fabric)
        smaller = replace(made.scenario, layout=layout)
        return None if fits(smaller) == "no" else loop(smaller)
    except InputError:
        return None

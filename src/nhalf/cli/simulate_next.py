"""What to run after `nhalf simulate OP`: the same command with something changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.cli import next_command
from nhalf.simulate import programs

if TYPE_CHECKING:
    from nhalf.loading.simulating import Session


def next_commands(session: Session) -> tuple[str, ...]:
    """Return the commands to try next."""
    return tuple(next_command.command("simulate", changed) for changed in _changes(session))


def _changes(session: Session) -> list[dict[str, object]]:
    """Return what to change of the command line, each in a command of its own."""
    fair: list[dict[str, object]] = []
    if session.conditions.ports != "fair":
        fair.append({"--ports": "fair"})
    late: dict[str, object] = {"--straggler": "rank 1: 20us"}
    if session.skew is not None:
        several = not session.flags["algorithm"] and len(programs.PROGRAMS.get(session.programs[0].op, ())) > 1
        every: list[dict[str, object]] = [{"--algorithm": "all"}] if several else []
        return [*every, *(fair or [late])]
    if session.conditions.starts_s is not None:
        return [{"--timeline": "out.json"}, *fair]
    return [late, {"--draws": 10_000, "--skew": "exponential:10us"}]

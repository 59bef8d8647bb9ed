"""Flags of `nhalf simulate` that would do nothing: each is refused, with what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError
from nhalf.simulate import straggler
from nhalf.simulate.machine import TOPOLOGIES
from nhalf.simulate.programs import GROUPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nhalf.simulate.program import Program

_WIRING: Final = {
    "oversubscription": ("tree", "rails"),
    "nics": ("nodes", "rails"),
    "nodes_per_leaf": ("rails",),
    "inter_latency": ("nodes", "rails"),
    "inter_bandwidth": ("nodes", "rails"),
    "hop_latency": ("ring", "torus", "tree", "rails"),
}
"""The topologies to which a flag applies."""
_SCHEDULED: Final = ("ranks", "size", "algorithm", "routing")
"""Flags that a schedule answers itself."""


def check(op: str, flags: Mapping[str, Any]) -> None:
    """Refuse a flag that would do nothing for an operation, or a schedule's file, on what the flags describe.

    Raises
    ------
    InputError
        There is such a flag.
    """
    if op.endswith(".json"):
        _refuse(flags, _SCHEDULED, "a schedule says this itself", do="leave it out")
    if op == "barrier":
        _refuse(flags, ("size",), "a barrier moves no data", do="leave it out, or simulate all-reduce")
    if not flags["skew"]:
        _refuse(flags, ("seed",), "nothing is random without --skew", do="add --skew exponential:10us, or leave it out")
    if flags["system"]:
        why = f"{flags['system']} brings its own links and topology"
        links = "leave it out, or give --latency and --bandwidth instead of --on"
        _refuse(flags, ("topology", "ranks_per_node", *_WIRING), why, do=links)
    kind = (flags["topology"] or "switch").strip().casefold()
    for name, fitting in _WIRING.items():
        if kind in TOPOLOGIES and kind not in fitting:
            needs = f"add --topology {' or '.join(fitting)}, or leave it out"
            _refuse(flags, (name,), f"it does not apply to the topology {kind}", do=needs)


def check_group(programs: Iterable[Program], flags: Mapping[str, Any]) -> None:
    """Refuse ranks per node where neither the topology nor an algorithm has nodes.

    Raises
    ------
    InputError
        Neither has.
    """
    kind = (flags["topology"] or "switch").strip().casefold()
    if kind in ("switch", "multicast", "mesh", "ring") and not GROUPED & {program.algorithm for program in programs}:
        _refuse(
            flags,
            ("ranks_per_node",),
            f"neither the topology {kind} nor an algorithm asked for has nodes",
            do="add --topology nodes, rails, torus or tree, or leave it out",
        )


def check_adding(programs: Sequence[Program], flags: Mapping[str, Any]) -> None:
    """Refuse a reduction rate where nothing is added up, and a rank that computes slower where that takes no time.

    Raises
    ------
    InputError
        There is one of them.
    """
    slow = [text for text in flags["stragglers"] if straggler.parse(text, programs[0].ranks).what == "slow"]
    if not slow and flags["reduction_rate"] is None:
        return
    adds_up = any(_adds_up(program) for program in programs)
    if not adds_up:
        why = f"{programs[0].op} adds nothing up"
        _refuse(flags, ("reduction_rate",), why, do="leave it out, or simulate all-reduce, reduce-scatter or reduce")
    if slow and flags["reduction_rate"] is None:
        raise InputError(
            f"{slow[0]!r} would do nothing: no rank of this run computes anything that takes time",
            where="--straggler",
            do=f"{'add --reduction-rate 1TB/s, or ' if adds_up else ''}take 'rank 3: link 2x' for a slow link, "
            "'rank 3: 20us' for a late start, or nhalf simulate decode for a slow device",
        )


def _adds_up(program: Program) -> bool:
    """Tell whether some receiver adds what it gets to what it has; a barrier's messages only say that they came."""
    if program.op == "barrier":
        return False
    if program.steps is not None:
        return bool(program.steps.reduces.any())
    return program.rounds is not None and any(played.reduces for played in program.rounds())


def _refuse(flags: Mapping[str, Any], names: Iterable[str], why: str, *, do: str) -> None:
    for name in names:
        if flags[name] is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} {flags[name]} would do nothing: {why}", where=flag, do=do)

"""The flags of `nhalf simulate decode`, read: a loop, and the stragglers to simulate it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.decide import pacing
from nhalf.decide.comparison import compare
from nhalf.errors import InputError
from nhalf.loading.request import load
from nhalf.loading.simulating import count, needed
from nhalf.simulate import straggler
from nhalf.simulate.program import MOST_AT_ONCE

if TYPE_CHECKING:
    from nhalf.simulate.straggler import Straggler


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopStudy:
    """What a command line asks for, read and checked: a loop, and the stragglers each alone and then together."""

    made: pacing.Loop
    tokens: int
    seed: int
    jitter_s: float
    groups: tuple[tuple[Straggler, ...], ...]


def loop_study(model: str, flags: dict[str, Any]) -> LoopStudy:
    """Return the study that the flags describe.

    Raises
    ------
    InputError
        A missing or impossible flag.
    NoAnswerError
        The model does not fit in the memory of the devices.
    """
    degree = units.parse_count(flags["tp"], where="--tp")
    named = {key: flags[key] for key in ("weights", "kv", "engine", "library", "mode") if flags[key]}
    scenario = load(
        model,
        on=needed({"on": flags["system"]}, "on", "h100-sxm"),
        tp=degree,
        batch=count(flags, "batch", 1),
        context=count(flags, "context", 1024),
        **named,
    )
    made = pacing.loop(scenario, flags["algorithm"] or "")
    compare([scenario]).require_fit()
    jitter = units.parse(flags["jitter"], "time", where="--jitter") if flags["jitter"] else 0.0
    found = [straggler.parse(text, degree) for text in flags["stragglers"]]
    if flags["seed"] and not (jitter or any(one.chance < 1 or one.what == "jitter" for one in found)):
        raise InputError(
            f"--seed {flags['seed']} would do nothing: nothing is random here",
            where="--seed",
            do="add --jitter 2us or --straggler 'rank 1: link 8x 5%', or leave it out",
        )
    return LoopStudy(
        made=made,
        tokens=_tokens(flags, degree),
        seed=count(flags, "seed", 1),
        jitter_s=jitter,
        groups=(*((one,) for one in found), *((tuple(found),) if len(found) > 1 else ())),
    )


def _tokens(flags: dict[str, Any], ranks: int) -> int:
    """Return how many tokens are decoded.

    Raises
    ------
    InputError
        There are more than memory holds, with a time for each rank.
    """
    tokens, most = count(flags, "tokens", 200), MOST_AT_ONCE // ranks
    if tokens > most:
        raise InputError(
            f"{tokens:,} tokens of {ranks} ranks are {tokens * ranks:,} times to keep",
            where="--tokens",
            allowed=f"1 to {most:,}",
        )
    return tokens

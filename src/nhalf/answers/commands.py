"""Commands as functions: `nhalf.plan` is `nhalf plan`, with its flags as keywords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.answers.answer import Answer
from nhalf.cli import asking
from nhalf.errors import in_python

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def ask(name: str, *arguments: object, **flags: object) -> Answer:
    """Return the answer of any command: arguments as on its line, flags by their names with `_` for `-`."""
    with in_python():
        return Answer(asking.ask(name, *arguments, **flags))


def compare(model: str, *, on: str | Sequence[str], layouts: Sequence[str] = (), **flags: Any) -> Answer:  # noqa: ANN401
    """Return how deployments of a model compare at one load, such as `layouts=["tp=8", "tp=16"]`.

    >>> compare("llama-3.1-70b", on="h100-sxm", layouts=["tp=4", "tp=8"], users=4).to_dict()["pairs"][0]["a"]
    'TP4'
    """
    return ask("compare", model, on=on, layout=list(layouts), **flags)


def plan(
    model: str,
    *,
    on: str | Sequence[str],
    limits: Mapping[str, object] | None = None,
    **flags: Any,  # noqa: ANN401  click's
) -> Answer:
    """Return which layout to run; `limits` may hold those of the command: `{"tpot": "20ms", "ttft": "1s"}`.

    Attributes are those of the plan: `chosen` (None where nothing holds the limits), `rows`, `to_polars()`, `chart()`.

    >>> plan("llama-3.1-70b", on="h100-sxm", gpus=8, weights="fp8", limits={"tpot": "20ms"}).chosen.meets
    'yes'
    """
    return ask("plan", model, on=on, **{**flags, **(limits or {})})


def buy(model: str, *, on: str | Sequence[str], options: Sequence[str] = (), **flags: Any) -> Answer:  # noqa: ANN401
    """Return what each option saves, by batch and by money, such as `options=["hbm=x1.5", "nvlink.bandwidth=x2"]`."""
    return ask("buy", model, on=on, option=list(options), **flags)


def whatif(model: str, *, on: str | Sequence[str], options: Sequence[str] = (), **flags: Any) -> Answer:  # noqa: ANN401
    """Return what each change would save, by batch."""
    return ask("whatif", model, on=on, option=list(options), **flags)


def crossover(model: str, **flags: Any) -> Answer:  # noqa: ANN401  click's
    """Return the batch at which each collective of a model turns from latency to bandwidth, with `on=` or `link=`."""
    return ask("crossover", model, **flags)


def simulate(op: str, **flags: Any) -> Answer:  # noqa: ANN401  click's
    """Return a collective played message by message.

    >>> simulate("all-reduce", ranks=4, size="64KiB", latency="5us", bandwidth="100GB/s", algorithm="ring").to_dict()[
    ...     "runs"
    ... ][0]["messages"]
    24
    """
    return ask("simulate", op, **flags)


def trace(*files: str | Path, **flags: Any) -> Answer:  # noqa: ANN401  click's
    """Return what communication costs in profiler traces, who waits for whom, and what would help."""
    return ask("trace", *files, **flags)


def doctor(*logs: str | Path, **flags: Any) -> Answer:  # noqa: ANN401  click's
    """Return whether logs are normal, and the likeliest cause where they are not, with `on=` the machine."""
    return ask("doctor", *logs, **flags)

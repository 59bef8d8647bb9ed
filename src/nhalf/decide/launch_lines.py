"""Launch lines: the commands of the engines that run a layout as it was predicted, or why one cannot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.engines import ENGINES
from nhalf.engines.served import PLACEHOLDER, Served
from nhalf.predict.memory import USABLE_SHARE

if TYPE_CHECKING:
    from nhalf.layout import Layout

__all__ = ["ENGINES", "Line", "Served", "lines", "runs_on", "switches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The command of an engine; or no command, and why. `also` are files or commands that go with it."""

    engine: str
    command: str
    reason: str = ""
    also: tuple[str, ...] = ()


def lines(layout: Layout, served: Served) -> dict[str, Line]:
    """Return the line of every engine for one replica of a layout."""
    found = {}
    for name, engine in ENGINES.items():
        reason = engine.refusal(layout)
        command, also = ("", ()) if reason else engine.command(layout, served)
        if command and served.model == PLACEHOLDER:
            also = (f"{PLACEHOLDER} the path of the checkpoint, or its repository", *also)
        found[name] = Line(engine=name, command=command, reason=reason, also=also)
    return found


def runs_on(layout: Layout, engine: str) -> bool:
    """Tell whether an engine has flags for a layout; one that is not known is thought to."""
    return engine not in ENGINES or not ENGINES[engine].refusal(layout)


def switches(layout: Layout, *, mode: str, serves_prompts: bool) -> tuple[str, ...]:
    """Return what a prediction assumes of switches that the lines leave at their defaults, or set."""
    found = []
    if mode == "graph":
        without = ", ".join(f"no --{engine.eager_flag}" for engine in ENGINES.values() if engine.eager_flag)
        found.append(f"CUDA graphs for every batch up to the one shown: {without}")
    elif mode == "eager":
        by = ", ".join(f"--{engine.eager_flag} ({engine.title})" for engine in ENGINES.values() if engine.eager_flag)
        found.append(f"no CUDA graphs: {by}")
    if layout.tensor_parallel > 1:
        found.append("the engine's own all-reduce inside a node: no --disable-custom-all-reduce")
    if layout.attention_dp > 1:
        by = "all-to-all (DeepEP, or NVLink)" if layout.routed_exchange == "all-to-all" else "all-gather, not DeepEP"
        found.append(f"tokens reach experts by {by}; no two batches in turns")
    if layout.pipeline_parallel > 1:
        found.append("as many micro-batches as stages, of equal size")
    if serves_prompts:
        by = ", ".join(f"--{engine.no_reuse_flag}" for engine in ENGINES.values() if engine.no_reuse_flag)
        found.append(f"no reuse of prefixes ({by}): reuse is faster")
    return (*found, f"{100 * USABLE_SHARE:.0f} % of the memory for the engine, and no speculative decoding")

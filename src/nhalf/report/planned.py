"""What a collective's plan is worth, in words: whose it is, between what it may lie, and what nobody measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.catalog import stated
from nhalf.decide.choice import planner
from nhalf.engines import ENGINES
from nhalf.report.document import datum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.citation import Datum
    from nhalf.decide.choice import Choice
    from nhalf.decide.collective_case import Question
    from nhalf.transport import Transport

LEVEL: Final = 0.95
"""What the interval of a plan is read as: the tuner's factor is an input, and those of inputs are of 95 %."""
_OF_ONE_VENDOR: Final = ("nccl", "flashinfer", "rccl", *(name for name, each in ENGINES.items() if each.one_vendor))
"""The libraries that run on the devices of one vendor only, which the tuner they rely on knows."""
_TRAYS: Final = ("tray_kernel", "tray_fallback")


def number(question: Question, at: Choice) -> str:
    """Return the time of one size where nothing was measured: the plan with its doubt, or the law of what runs."""
    law = f"{units.format_time(at.fastest_s)} by the law of {at.fastest}"
    if at.plan is not None and question.library is not None:
        low, high = (units.format_time(each) for each in (at.plan.low_s, at.plan.high_s))
        if at.plan.priced and question.place is not None:
            return (
                f"{units.format_time(at.plan.time_s)} ({low} to {high}) modelled: {planner(question.library)} chooses "
                f"{at.plan.path}, priced by {constants(question.place.transport)}; {law}"
            )
        if at.plan.priced:
            taken = f"{units.format_time(at.plan.time_s)} ({low} to {high}) by {at.plan.path}"
            return f"{taken}, across trays of a rack; {law}"
        return (
            f"{units.format_time(at.plan.time_s)} ({low} to {high}) planned by {planner(question.library)} "
            f"({at.plan.path}, kind assumed: by its own constants, not measured); {law}"
        )
    if at.time_s is not None and question.rule is not None:
        own = f"{units.format_time(at.time_s)} by the law of {at.algorithm}, which {at.decided_by} choose"
        other = "" if at.algorithm == at.fastest else f"; {law}"
        return f"{own}: wires alone, no plan and no measurement{other}"
    return law


def constants(transport: Transport) -> str:
    """Return whose constants price a path across nodes, in a few words."""
    whose = {"machine": "measured", "class": "of its class", "wide": "of no known class"}[transport.known]
    return f"the constants of fabric {transport.name} ({whose})"


def rests(transport: Transport) -> str:
    """Return what the constants of a fabric rest on."""
    return f"the constants of fabric {transport.name} rest on {stated.transports()[transport.name].rests_on}"


def notes(question: Question, known: Mapping[str, Datum]) -> list[str]:
    """Return what a reader must know of the plan: that another stands in, and that nothing was measured across nodes.

    `known` are the published times across trays, among the parts of a fixed time.
    """
    library = question.library
    if library is None:
        return []
    found = [] if library.at_home else [_stand_in(library.name, planner(library))]
    if question.span.nodes > 1 and question.curve is None:
        found.append(_across(question, known))
    return found


def _stand_in(library: str, plans: str) -> str:
    """Return that the tuner which a library relies on does not know the machine."""
    if library in _OF_ONE_VENDOR:
        return f"{library} does not run on this device: {plans} stands in for it, and all that follows is of that one."
    return f"Where {library}'s own rules decide nothing, {plans} stands in: NCCL does not run on this device."


def _across(question: Question, known: Mapping[str, Datum]) -> str:
    """Return that the path across nodes is unknown, with what was published where switches join them."""
    if question.place is not None:
        return f"No curve across nodes of this system is known: {rests(question.place.transport)}."
    if question.nics:
        return "Nothing was measured across nodes of this system: a plan there is worth its interval, and no more."
    kernel, fallback = (known[name] for name in _TRAYS)
    return (
        "Nothing was measured across trays of this system, and which kernel runs there is not known; it decides, not "
        f"the wire. Published: 16 GPUs over 4 trays of a GB300 rack took {units.format_time(kernel.value)} at 16 KiB "
        f"with TensorRT-LLM's multi-node NVLink kernels, and {units.format_time(fallback.value)} with the fallback of "
        f"vLLM and SGLang [{kernel.source}]. A plan here is of neither."
    )


def published(question: Question, known: Mapping[str, Datum]) -> list[dict[str, Any]]:
    """Return the published times across trays, where the question crosses them."""
    if question.library is None or question.curve is not None or question.nics or question.span.nodes == 1:
        return []
    return [{"size_bytes": 16384.0, "ranks": 16, **datum(known[name])} for name in _TRAYS]

"""Communication inside a step: the measured curve or the library's plan, moved by the law when a link changes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from nhalf.breakdown import Input, Quantity, Term, is_array, largest, leaf, portion, some, total
from nhalf.collective import Mode, Op
from nhalf.curve import preferred
from nhalf.laws import selection
from nhalf.laws.across_nodes import across_nodes, place
from nhalf.laws.domain import MEASURED, Kernels, in_domain
from nhalf.link import Link
from nhalf.tape import Traced

if TYPE_CHECKING:
    from nhalf.curve import MeasuredCurve
    from nhalf.fabric import Fabric, Span
    from nhalf.layout import Group
    from nhalf.library import Library
    from nhalf.scenario import Scenario
    from nhalf.stack import Stack
    from nhalf.system import System


COLLECTIVES: Final = ("collective_fixed", "collective_transfer")
"""The columns of a step that its collectives make up."""
_SMALL: Final = 8.0
"""A message [bytes] that is all latency."""
LINK_BYTES: Final = "links, transfer"
"""The name of the term that holds what the links take for the bytes of a collective."""
Known: TypeAlias = tuple[Term, Quantity]
"""A measured time of a collective [s], and its floor [s]."""


def links(scenario: Scenario) -> Fabric:
    """Return the links as messages find them: those between nodes with what the network stack adds to their latency."""
    fabric, added = scenario.system.fabric, scenario.stack.remedies.network_stack_s
    if not some(added != 0):
        return fabric
    tier = "inter_node" if fabric.inter_rack is None else "inter_rack"
    link: Link = getattr(fabric, tier)
    slower = Link(np.maximum(link.latency_s + added, 0.0), link.bandwidth_bytes_per_s)
    return replace(fabric, inter_node=slower) if tier == "inter_node" else replace(fabric, inter_rack=slower)


def measured_curve(scenario: Scenario, op: Op, group: Group) -> MeasuredCurve | None:
    """Return the curve that was measured for a group: same system, library and mode, on as many nodes."""
    if group.ranks == 1:
        return None
    nodes = group.span(scenario.system.fabric).nodes
    known = _of_stack(scenario.system, scenario.stack, op)
    return preferred((each for each in known if each.nodes == nodes), group.ranks)


def _of_stack(system: System, stack: Stack, op: Op) -> list[MeasuredCurve]:
    """Return the curves of an operation in the library and mode of a stack."""
    asked = (stack.library.name, stack.mode, op)
    return [each for each in system.curves if (each.key.library, each.key.mode, each.key.op) == asked]


def as_of(scenario: Scenario) -> str | None:
    """Return the library and version that a scenario's all-reduce was measured with, None where none was."""
    group, key = scenario.layout.tensor_group, (scenario.stack.library.name, scenario.stack.mode)
    own = measured_curve(scenario, Op.ALL_REDUCE, group) if group.ranks > 1 else None
    found = own or next((c for c in scenario.system.curves if (c.key.library, c.key.mode) == key), None)
    return None if found is None else f"{found.key.library} {found.key.version}"


def is_measured(scenario: Scenario, op: Op, group: Group) -> bool:
    """Tell whether a collective is a measured curve, at a measured rank count, on unchanged links."""
    curve = measured_curve(scenario, op, group)
    untouched = scenario.system.fabric is scenario.system.measured_fabric
    return curve is not None and curve.is_measured(group.ranks) and untouched


def collective(
    scenario: Scenario, op: Op, group: Group, size_bytes: Quantity | Term, known: Known | None = None
) -> Term:
    """Return the time [s] of one isolated collective of `size_bytes` [bytes] (as nccl-tests counts them) over a group.

    The base is the curve measured at the scenario's key, or, where nothing was measured, what the fabric's constants
    say across nodes, or NCCL's tuner plans. It splits into a fixed time (its floor) and transfer
    (the rest, at least what the law's bytes take). The law of the
    links is the part that a what-if moves; what the base holds beyond it is software, and stays. `known` is a base
    that was measured under another key.
    """
    size = size_bytes.value if isinstance(size_bytes, Term) else size_bytes
    if known is not None or type(size) is Traced or np.size(size) > _FEW:
        return _isolated(scenario, op, group, size, known)
    asked = scenario.system, scenario.stack, op, group, (size.shape, size.tobytes()) if is_array(size) else size
    found = _PRICED.get(asked)
    if found is None:
        found = _isolated(scenario, op, group, size, None)
        if np.size(found.value) <= _FEW:
            if len(_PRICED) >= _KEPT:
                _PRICED.clear()
            _PRICED[asked] = found
    return found


_FEW: Final = 64
_KEPT: Final = 1024
_PRICED: dict[tuple[object, ...], Term] = {}
"""What collectives of few sizes took on a system under a stack: layouts of a sweep or a plan ask for the same ones."""


def _isolated(scenario: Scenario, op: Op, group: Group, size: Quantity, known: Known | None) -> Term:
    """Return the time [s] of a collective of a size [bytes]; of the scenario, its system and its stack alone count."""
    library = scenario.stack.library
    now = links(scenario)
    law = selection.fastest(op, size, group.span(now), library)
    reference, measured_on = law, _measured_fabric(scenario.system)
    if measured_on is not now:
        reference = selection.fastest(op, size, group.span(measured_on), library)
    curve = measured_curve(scenario, op, group)
    beyond = False
    if known is None and curve is None and group.ranks > 1:
        known = carried(scenario.system, scenario.stack, op, group, size)
    if known is None and curve is None:
        kernels = Kernels(library=library.name, mode=scenario.stack.mode, tray_ranks=library.tray_ranks)
        known = in_domain(op, size, group.ranks, scenario.system, kernels) if library.at_home else None
        beyond = known is not None and known[0].name != MEASURED
    if known is None and curve is not None:
        known = leaf("measured", "curve(n)", {"curve": curve.at(group.ranks), "n": size}), curve.floor_s(group.ranks)
    if known is None:
        base, doubt = _unmeasured(scenario.system, library, op, size, group.span(measured_on), reference)
        moved = portion("planned transfer", base, "transfer")
    else:
        base, floor_s = known
        moved = _transfer(base, floor_s, portion("law's transfer", reference, "transfer"))
        doubt = library.tuner_factor if beyond else scenario.system.curve_factor
    factors: dict[str, Input] = {"doubt": doubt, "software": scenario.stack.software_factor}
    isolated = _anchored(str(op), (base, moved), law, reference, factors)
    # What was measured in eager mode holds its launches; what stands in from the host or from a graph does not.
    if scenario.stack.mode == Mode.EAGER and (known is None or (curve is not None and curve.taken_in is not None)):
        return total(f"{op}, launched by the host", isolated, _launched(scenario))
    return isolated


def carried(system: System, stack: Stack, op: Op, group: Group, size: Quantity) -> Known | None:
    """Return the user's own curve that is nearest to a group, moved by what the law says of both; None without one.

    What was measured in a node says nothing of several, and the other way round: other kernels run there.
    """
    fabric, library = _measured_fabric(system), stack.library
    here = group.span(fabric)
    own = [curve for curve in _of_stack(system, stack, op) if curve.own and (curve.nodes > 1) == (here.nodes > 1)]
    if not own:
        return None
    curve = min(own, key=lambda each: (abs(math.log2(each.nodes / here.nodes)), each.one_process))
    ranks = min(curve.ranks, key=lambda each: abs(math.log2(each / group.ranks)))
    there = replace(fabric, devices_per_node=max(ranks // curve.nodes, 1)).span(ranks)

    def law(size_bytes: Quantity, span: Span) -> Term:
        reference = selection.fastest(op, size_bytes, span, library)
        return _unmeasured(system, library, op, size_bytes, span, reference)[0]

    at = curve.at(ranks)
    inputs: dict[str, Input] = {"curve": at, "n": size, "law": law(size, here), "law_there": law(size, there)}
    floor_s = at.floor_s * law(_SMALL, here).value / law(_SMALL, there).value
    return leaf("own curve, moved by the law", "curve(n) * law / law_there", inputs), floor_s


def _unmeasured(
    system: System, library: Library, op: Op, size: Quantity, span: Span, reference: Term
) -> tuple[Term, Quantity]:
    """Return the time [s] of a collective that nobody measured there, and the factor that holds the doubt about it.

    Across nodes it is what the fabric's constants say, whose doubt is among them. Else it is the tuner's plan, whose
    constants are those of fast links: on a slow one it falls below what the link allows.
    """
    where = place(op, span, system, library)
    if where is not None:
        return across_nodes(op, size, where, library), 1.0
    return largest(
        "plan, or law of the links", selection.planned(op, size, span, library), reference
    ), library.tuner_factor


EAGER_LAUNCHES = 3.7
"""Kernel launches that an eager collective costs its host more than a replayed one: 18.5 us of vLLM, the median of
measured pairs (aiconfigurator-core 0.12.0; 27.6 us of SGLang), over 5 us a launch."""


def _launched(scenario: Scenario) -> Term:
    """Return what a collective of an eager engine pays its host, where no eager curve holds it already."""
    inputs: dict[str, Input] = {"calls": EAGER_LAUNCHES, "launch": scenario.stack.host_launch_s}
    return leaf("host launch", "calls * launch", inputs, column="collective_fixed")


def _measured_fabric(system: System) -> Fabric:
    """Return the links that the catalogue knows, on nodes of the size that the system has."""
    if system.fabric.devices_per_node == system.measured_fabric.devices_per_node:
        return system.measured_fabric
    return replace(system.measured_fabric, devices_per_node=system.fabric.devices_per_node)


def _transfer(measured: Term, floor_s: Quantity, least: Term) -> Term:
    """Return the part [s] of a measured time that moves bytes: what exceeds the floor, and at least the law's bytes."""
    inputs: dict[str, Input] = {"measured": measured, "floor": floor_s, "least": least}
    return leaf("measured transfer", "minimum(measured, maximum(measured - floor, least))", inputs)


def _anchored(name: str, base: tuple[Term, Term], law: Term, reference: Term, factors: dict[str, Input]) -> Term:
    """Return a base moved by the law: law(new) + software x (base - law(reference)), each as fixed time and transfer.

    Where the base is below the law of its own links, the law is scaled down to it. So unchanged links give back the
    base, whatever it was; a better link never costs more; and the answer is never below the scaled law of the new ones.
    `base` is the whole time and its part that moves bytes.
    """
    whole, moved = base
    share = leaf("scale", "minimum(1, base / law_0)", {"base": whole, "law_0": reference}, unit="1")
    links: dict[str, Input] = {**factors, "scale": share}
    law_0 = portion("law's transfer before", reference, "transfer")
    surplus = leaf("beyond the law", "maximum(base - law_0, 0)", {"base": whole, "law_0": reference})
    of_bytes = leaf(
        "beyond the law in transfer",
        "minimum(maximum(moved - scale * law_0, 0), surplus)",
        {"moved": moved, "scale": share, "law_0": law_0, "surplus": surplus},
    )
    rest: dict[str, Input] = {**factors, "surplus": surplus, "of_bytes": of_bytes}
    return total(
        name,
        leaf("links, fixed", "doubt * scale * law", {**links, "law": portion("law, fixed", law, "fixed")},
             column="collective_fixed"),
        leaf("software, fixed", "doubt * software * (surplus - of_bytes)", rest, column="collective_fixed"),
        leaf(LINK_BYTES, "doubt * scale * law", {**links, "law": portion("law, transfer", law, "transfer")},
             column="collective_transfer"),
        leaf("software, transfer", "doubt * software * of_bytes", rest, column="collective_transfer"),
    )  # fmt: skip

"""Communication inside a step: the measured curve or the library's plan, moved by the law when a link changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Quantity, Term, leaf, portion, total
from nhalf.collective import Op
from nhalf.laws import selection

if TYPE_CHECKING:
    from nhalf.curve import MeasuredCurve
    from nhalf.fabric import Fabric
    from nhalf.scenario import Scenario


def measured_curve(scenario: Scenario) -> MeasuredCurve | None:
    """Return the all-reduce curve that was measured for this group: same system, library and mode, inside a node."""
    ranks = scenario.layout.tensor_parallel
    if ranks > scenario.system.fabric.devices_per_node:
        return None
    for curve in scenario.system.curves:
        key = curve.key
        same = (key.library, key.mode, key.op) == (scenario.stack.library.name, scenario.stack.mode, Op.ALL_REDUCE)
        if same and 1 < ranks <= max(curve.ranks):
            return curve
    return None


def is_measured(scenario: Scenario) -> bool:
    """Tell whether the step's collectives are a measured curve, at a measured rank count, on unchanged links."""
    curve = measured_curve(scenario)
    untouched = _links_untouched(scenario)
    return curve is not None and curve.is_measured(scenario.layout.tensor_parallel) and untouched


def all_reduce(scenario: Scenario, size_bytes: Quantity) -> Term:
    """Return the time [s] of one isolated all-reduce of `size_bytes` [bytes] over the scenario's TP group.

    The base is the curve measured at the scenario's key, or, where nothing was measured, what NCCL's tuner plans. It
    splits into a fixed time (its floor) and transfer (the rest, at least what the law's bytes take). The law of the
    links is the part that a what-if moves; what the base holds beyond it is software, and stays.
    """
    ranks = scenario.layout.tensor_parallel
    library = scenario.stack.library
    law = selection.all_reduce(size_bytes, scenario.system.fabric.span(ranks), library)
    reference, measured_on = law, _measured_fabric(scenario)
    if measured_on is not scenario.system.fabric:
        reference = selection.all_reduce(size_bytes, measured_on.span(ranks), library)
    curve = measured_curve(scenario)
    if curve is None:
        base = selection.tuner_all_reduce(size_bytes, measured_on.span(ranks), library)
        moved = portion("planned transfer", base, "transfer")
        doubt = library.tuner_factor
    else:
        base = leaf("measured", "curve(n)", {"curve": curve.at(ranks), "n": size_bytes})
        moved = _transfer(base, curve.floor_s(ranks), portion("law's transfer", reference, "transfer"))
        doubt = scenario.system.curve_factor
    factors: dict[str, Input] = {"doubt": doubt, "software": scenario.stack.software_factor}
    return _anchored(base, moved, law, reference, factors)


def _links_untouched(scenario: Scenario) -> bool:
    """Tell whether no link differs from those that the curves were measured on."""
    return scenario.system.fabric is scenario.system.measured_fabric


def _measured_fabric(scenario: Scenario) -> Fabric:
    """Return the links that the catalogue knows, on nodes of the size that the scenario has."""
    system = scenario.system
    if system.fabric.devices_per_node == system.measured_fabric.devices_per_node:
        return system.measured_fabric
    return replace(system.measured_fabric, devices_per_node=system.fabric.devices_per_node)


def _transfer(measured: Term, floor_s: float, least: Term) -> Term:
    """Return the part [s] of a measured time that moves bytes: what exceeds the floor, and at least the law's bytes."""
    inputs: dict[str, Input] = {"measured": measured, "floor": floor_s, "least": least}
    return leaf("measured transfer", "minimum(measured, maximum(measured - floor, least))", inputs)


def _anchored(base: Term, moved: Term, law: Term, reference: Term, factors: dict[str, Input]) -> Term:
    """Return a base moved by the law: law(new) + software x (base - law(reference)), each as fixed time and transfer.

    Where the base is below the law of its own links, the law is scaled down to it. So unchanged links give back the
    base, whatever it was; a better link never costs more; and the answer is never below the scaled law of the new ones.
    """
    share = leaf("scale", "minimum(1, base / law_0)", {"base": base, "law_0": reference}, unit="1")
    links: dict[str, Input] = {**factors, "scale": share}
    law_0 = portion("law's transfer before", reference, "transfer")
    surplus = leaf("beyond the law", "maximum(base - law_0, 0)", {"base": base, "law_0": reference})
    of_bytes = leaf(
        "beyond the law in transfer",
        "minimum(maximum(moved - scale * law_0, 0), surplus)",
        {"moved": moved, "scale": share, "law_0": law_0, "surplus": surplus},
    )
    rest: dict[str, Input] = {**factors, "surplus": surplus, "of_bytes": of_bytes}
    return total(
        "all-reduce",
        leaf("links, fixed", "doubt * scale * law", {**links, "law": portion("law, fixed", law, "fixed")},
             column="collective_fixed"),
        leaf("software, fixed", "doubt * software * (surplus - of_bytes)", rest, column="collective_fixed"),
        leaf("links, transfer", "doubt * scale * law", {**links, "law": portion("law, transfer", law, "transfer")},
             column="collective_transfer"),
        leaf("software, transfer", "doubt * software * of_bytes", rest, column="collective_transfer"),
    )  # fmt: skip

"""Communication inside a step: the measured curve or the library's plan, moved by the law when a link changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Input, Quantity, Term, leaf, portion, total
from nhalf.collective import Op
from nhalf.laws import selection

if TYPE_CHECKING:
    from nhalf.curve import MeasuredCurve
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

    The base is the curve measured at the scenario's key, or, where nothing was measured, what NCCL's tuner plans. The
    base splits into a fixed time (its floor) and transfer (the rest, at least what the law's bytes take). Of each, the
    law of the links is what a what-if moves; the remainder is software, and stays.
    """
    ranks = scenario.layout.tensor_parallel
    library = scenario.stack.library
    span = scenario.system.fabric.span(ranks)
    law = selection.all_reduce(size_bytes, span, library)
    reference = law
    if not _links_untouched(scenario):
        reference = selection.all_reduce(size_bytes, scenario.system.measured_fabric.span(ranks), library)
    curve = measured_curve(scenario)
    if curve is None:
        span = scenario.system.measured_fabric.span(ranks)
        plan = selection.tuner_all_reduce(size_bytes, span, library)
        base = {of: portion(f"planned {of}", plan, of) for of in ("fixed", "transfer")}
        doubt = library.tuner_factor
    else:
        base = _split(curve, size_bytes, ranks, portion("law transfer", reference, "transfer"))
        doubt = scenario.system.curve_factor
    factors: dict[str, Input] = {"doubt": doubt, "software": scenario.stack.software_factor}
    return total("all-reduce", *(_anchored(of, base[of], law, reference, factors) for of in ("fixed", "transfer")))


def _links_untouched(scenario: Scenario) -> bool:
    """Tell whether no link differs from those that the curves were measured on."""
    return scenario.system.fabric is scenario.system.measured_fabric


def _split(curve: MeasuredCurve, size_bytes: Quantity, ranks: int, least: Term) -> dict[str, Term]:
    """Return the fixed time and the transfer of a measured time; bytes take at least what the law says."""
    measured = leaf("measured", "curve(n)", {"curve": curve.at(ranks), "n": size_bytes})
    inputs: dict[str, Input] = {"measured": measured, "floor": curve.floor_s(ranks), "least": least}
    transfer = leaf("measured transfer", "minimum(measured, maximum(measured - floor, least))", inputs)
    fixed = leaf("measured fixed", "measured - transfer", {"measured": measured, "transfer": transfer})
    return {"fixed": fixed, "transfer": transfer}


def _anchored(of: str, base: Term, law: Term, reference: Term, factors: dict[str, Input]) -> Term:
    """Return a base moved by the law: law(new) + software x (base - law(reference)), in two leaves.

    Where the base is below the law of its own links, the law is scaled down to it, so that unchanged links give back
    the base, whatever it was.
    """
    inputs: dict[str, Input] = {
        "law": portion("law", law, of),
        "law_0": portion("law of the catalogue's links", reference, of),
        "base": base,
        **factors,
    }
    column = f"collective_{of}"
    return total(
        of,
        leaf("links", "doubt * minimum(1, base / maximum(law_0, 1e-30)) * law", inputs, column=column),
        leaf("software", "doubt * software * maximum(base - law_0, 0)", inputs, column=column),
    )

"""What stands under the table of `nhalf decode`: what its collectives and links rest on, and what nobody measured."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nhalf import units
from nhalf.breakdown import walk
from nhalf.catalog import stated
from nhalf.collective import Mode, Op
from nhalf.laws.across_nodes import place
from nhalf.predict import incast
from nhalf.predict.step import HOST
from nhalf.report import planned, words
from nhalf.report.decode_parts import sizes_differ
from nhalf.report.words import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison, Row


def size_notes(comparison: Comparison) -> list[str]:
    """Return that layouts of other numbers of devices stand side by side, and how to ask about one number."""
    panel = comparison.panels[0]
    if not sizes_differ(panel):
        return []
    counts = Counter(row.scenario.layout.devices for row in panel.rows)
    count = max(counts, key=lambda devices: (devices > 1, counts[devices], devices))
    span = f"{min(counts)} to {max(counts)} GPUs"
    return [
        f"Every combination of the degrees is a row, of {span}; nhalf plan --gpus {count} compares those of {count}."
    ]


def exchange_notes(comparison: Comparison) -> list[str]:
    """Return what the collectives across nodes and those of experts rest on, and what splitting TP over nodes costs."""
    rows = comparison.rows
    across: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.crosses_nodes and row.kind == "modelled":
            across.setdefault(_across(row), {})[row.layout_name] = None
    notes = [f"{joined(list(names))}: {basis}, and the band is wide." for basis, names in across.items()]
    notes += incast_notes(rows)
    notes += _changing_notes(rows)
    for row in rows:
        found = row.split
        if found is not None and not row.prefills:
            per_node = row.scenario.system.fabric.devices_per_node
            notes.append(
                f"{row.layout_name}, batch {row.batch:g}: an all-reduce takes {units.format_time(found.across_s)} over "
                f"{found.nodes} nodes, {units.format_time(found.inside_s)} on the {per_node} devices of one; "
                f"{found.count:g} of them cost {units.format_time(found.cost_s)} a step more."
            )
    seen = {(way, curve, row.layout_name): None for row in rows for way, curve in row.exchange_curves.items()}
    for way, curve, label in seen:
        how = (
            f"measured, {curve}" if curve else "by the law of distinct ranks hit; nothing was measured there, wide band"
        )
        notes.append(f"{label}: {way} {how}.")
    return notes


def _across(row: Row) -> str:
    """Return what the collectives across nodes rest on: a plan, over a link that was measured there or not."""
    scenario = row.scenario
    span = scenario.system.fabric.span(scenario.layout.stage_devices)
    own = next((curve for curve in scenario.system.curves if curve.own and curve.nodes > 1), None)
    if own is not None:
        return f"what was measured on {own.nodes} nodes [{own.source}] is moved by the law of the fabric"
    where = place(Op.ALL_REDUCE, span, scenario.system, scenario.stack.library)
    if where is not None:
        return f"no curve of a collective across nodes is known; {planned.rests(where.transport)}"
    plan, tier = plan_of(scenario.stack.library.name), span.tier
    known = scenario.origins.get(f"system.fabric.{tier}.latency_s")
    if known is None or known.kind not in ("fitted", "measured"):
        return f"nothing was measured across nodes; {plan} taken"
    return (
        f"no curve of a collective across nodes is known; {plan} taken over the link {known.kind} there "
        f"[{known.source}]"
    )


def link_notes(rows: Sequence[Row]) -> list[str]:
    """Return that of a log a link was taken, and not its collective, where one that was measured on the system stands.

    A log's collective belongs to its own library and launch; a measured curve that stands is that of the engine's.
    """
    notes = []
    for row in rows:
        system, curve = row.scenario.system, row.curve
        origin = row.scenario.origins.get("system.fabric.intra_node.latency_s")
        if curve is None or origin is None or system.fabric.intra_node is system.measured_fabric.intra_node:
            continue
        if origin.kind in ("fitted", "measured"):
            key = curve.key
            notes.append(
                f"Of {origin.source} the link is taken, not its collective: the all-reduce of {key.library} "
                f"{key.version} in {key.mode} mode that was measured on {key.system} stands, moved by what the laws "
                "say of that link."
            )
    return list(dict.fromkeys(notes))


def plan_of(library: str) -> str:
    """Return whose plan a collective of a library rests on where nothing was measured, with its verb."""
    tuner = stated.library(library).tuner
    return "the law of the links and a fixed time are" if tuner == "prior" else "NCCL's own plan is"


_MOVED = 1.05
"""Fixed times within 5 % are alike: so are layouts, and the table shows two decimals."""


def _changing_notes(rows: Sequence[Row]) -> list[str]:
    """Return which layouts have another fixed time at another batch, as the plan takes another algorithm there."""
    fixed: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row.crosses_nodes and row.curve is None:
            fixed.setdefault((row.scenario.system.name, row.layout_name), []).append(row.columns["collective_fixed"])
    labels = list(dict.fromkeys(key[1] for key, times in fixed.items() if max(times) > _MOVED * min(times)))
    said = "the latency of collectives changes with the batch, as the plan takes other algorithms for longer messages."
    return [f"{joined(labels)}: {said}"] if labels else []


def incast_notes(rows: Sequence[Row]) -> list[str]:
    """Return that nodes which answer one root at once may overrun its port of the switch, where so many do."""
    labels = dict.fromkeys(row.layout_name for row in rows if incast.possible(row.scenario))
    return [f"{joined(list(labels))}: {words.INCAST}."] if labels else []


def band_notes(row: Row) -> list[str]:
    """Return what the band of a row rests on, where measured runs tell."""
    if row.prefills or not any(row.scenario.residual):
        return []
    return ["the 80 % band is what measured runs were off by, wider where something was changed or never measured."]


def launched_notes(comparison: Comparison) -> list[str]:
    """Return what the host takes for launches in eager mode, and that no such engine was calibrated."""
    rows = [row for row in comparison.rows if row.scenario.stack.mode != Mode.GRAPH and any(row.scenario.residual)]
    notes = [note for panel in comparison.panels if panel.tied for note in _host(panel.fastest)]
    if rows:
        notes.append(
            "No run of an engine that launches kernels one by one was in the calibration; the band is as wide as "
            "published runs of other such engines were off."
        )
    return notes


def _host(row: Row) -> list[str]:
    """Return how the host's launches compare with the device's step; nothing where no host launches."""
    found = next((term for _, term in walk(row.step) if term.name == HOST and term.rule == "excess"), None)
    if found is None:
        return []
    host, device = (units.format_time(float(part.value)) for part in found.parts)
    text = f"{row.layout_name}, batch {row.batch:g}: the host takes {host} to launch the kernels"
    if float(found.value) > 0:
        return [f"{text}, and the device, which takes {device} to run them, waits."]
    return [f"{text}, less than the {device} the device runs them."]

"""The answer of `nhalf decode` as a page: the answer card, then one figure for each thing that the answer says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.decide.choice import choices
from nhalf.decide.collective import flips, rows
from nhalf.decide.moving import grid
from nhalf.errors import InputError
from nhalf.loading.collective import Asked, load
from nhalf.predict.communication import collective, is_measured, measured_curve
from nhalf.report.fields import count, gigabytes
from nhalf.report.figures import latency
from nhalf.report.figures.algorithm import algorithms
from nhalf.report.figures.bars import levers, tornado
from nhalf.report.figures.moving import moving
from nhalf.report.figures.regime import regime
from nhalf.report.figures.stacks import Stack, stacks
from nhalf.report.figures.topology import topology
from nhalf.report.figures.waterfall import waterfall
from nhalf.report.page import Card, Page, Section, constants, meters, notes
from nhalf.report.verdict import said
from nhalf.report.words import joined, load_of, most, mostly, unit, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison, Panel, Row
    from nhalf.decide.regime import Crossover
    from nhalf.loading import Default
    from nhalf.report.figures.figure import Figure
    from nhalf.scenario import Scenario

SIZES_BYTES: Final = 2.0 ** np.arange(10, 27.01, 0.5)
"""The sizes at which a collective is drawn [bytes]: 1 KiB to 128 MiB."""
_MOST_CURVES: Final = 4
_MOST_LAYOUTS: Final = 8


def page(comparison: Comparison, defaults: Sequence[Default] = (), warnings: Sequence[str] = ()) -> Page:
    """Return the page of a comparison."""
    panels = comparison.panels
    running = [panel for panel in panels if panel.tied]
    fastest = (running or panels)[0].fastest
    room = max(row.high_s for panel in panels for row in panel.rows)
    sections = [
        Section(
            key="scaling",
            title="How the step scales",
            lead="Each bar is one layout, stacked by what takes the time. A stream is fastest where it is shortest.",
            figures=[scaling(panel, f"scaling-{place}", room) for place, panel in enumerate(panels)],
        ),
        Section(
            key="moving",
            title="Move it",
            lead="Choose the batch, and make every link slower or faster: the page needs no server for it.",
            figures=_moving(comparison),
        ),
        Section(
            key="regime",
            title="What takes most time, by batch and layout",
            lead="The colour is the largest part of the step. Where it changes, so does what is worth buying.",
            figures=_maps(comparison),
        ),
        *_collectives(comparison),
        Section(
            key="topology",
            expert=True,
            title="Where the layout lies on the machine",
            lead="The largest layout of each system. A group that leaves its node pays for the slower links, too.",
            figures=_sketches(comparison),
        ),
        Section(
            key="waterfall",
            title=f"Where the time of one {whole(fastest)} goes",
            figures=[waterfall(panel.fastest, f"waterfall-{place}") for place, panel in enumerate(running)],
        ),
        Section(
            key="levers",
            title="What would help",
            lead="Each change is computed alone, on the fastest layout.",
            figures=[levers(panel, f"levers-{place}") for place, panel in enumerate(running)],
        ),
        Section(
            key="tornado",
            expert=True,
            title="What the answer hangs on",
            lead="How far the step moves when an input moves by one per cent.",
            figures=[
                tornado(panel.fastest.scenario, panel.fastest.elasticities, f"tornado-{place}")
                for place, panel in enumerate(running)
            ],
        ),
    ]
    scenario = fastest.scenario
    return Page(
        title=f"{scenario.transformer.name} on {joined(list(dict.fromkeys(panel.system for panel in panels)))}",
        workload=load_of(scenario, sorted({row.batch for row in comparison.rows})),
        verdict=[text for text in said(comparison) if text],
        cards=[_card(panel) for panel in running],
        sections=[section for section in sections if section.figures],
        constants=constants(scenario, fastest.elasticities),
        notes=notes(warnings, defaults),
    )


def _moving(comparison: Comparison) -> list[Figure]:
    """Return the time per token of the layouts of each system, to be moved by sliders."""
    systems: dict[str, dict[str, Scenario]] = {}
    steps = [row for row in comparison.rows if row.phase != "prefill"]
    for row in sorted(steps, key=lambda row: row.layout.devices):
        systems.setdefault(row.system, {})[row.layout_name] = row.scenario
    return [
        moving([grid(each) for each in list(layouts.values())[:_MOST_LAYOUTS]], key=f"moving-{place}", title=name)
        for place, (name, layouts) in enumerate(systems.items())
    ]


def scaling(panel: Panel, key: str, room: float = 0.0) -> Figure:
    """Return the steps of one system and batch, by the devices of the layouts, on a scale with room for a time [s]."""
    rows = sorted(panel.rows, key=lambda row: row.layout.devices)
    bars = [
        Stack(
            name=row.layout_name,
            columns=row.columns,
            label=f"{count(row.tokens_per_s_per_user)}/s{f', {row.nodes} nodes' if row.nodes > 1 else ''}"
            f"{'*' if row in panel.tied else ''}",
            bold=row in panel.tied,
            faint=row.fits_memory == "no",
            band=(row.low_s, row.high_s),
            tips=(
                ("rate", f"{count(row.tokens_per_s_per_user)} tokens/s per user"),
                ("memory", f"{gigabytes(row.memory_bytes)} GB a device, fits: {row.fits_memory}"),
                ("nodes", f"{row.nodes}"), ("takes most time", most(row.binding)), ("kind", row.kind),
            ),
        )
        for row in rows
    ]  # fmt: skip
    return stacks(
        bars, key=key, title=f"{panel.system}, batch {panel.batch:g}", axis=f"time of a {whole(rows[0])}", room=room,
        note="* within 5 % of the fastest that fits. Thin line: the 80 % range. Pale: does not fit in memory.",
    )  # fmt: skip


def _card(panel: Panel) -> Card:
    row = panel.fastest
    return Card(
        label=f"{panel.system}, batch {panel.batch:g}: {row.layout_name}",
        number=f"{units.format_time(row.step_s)} per {unit(row)}",
        beside=(
            f"80 % range {units.format_time(row.low_s)} to {units.format_time(row.high_s)}",
            f"{count(row.tokens_per_s_per_user)} tokens/s per user, {mostly(row.binding)}",
        ),
        meters=meters(panel.levers, row.scenario.system),
    )


def _maps(comparison: Comparison) -> list[Figure]:
    """Return the regime map of each system."""
    systems = list(dict.fromkeys(panel.system for panel in comparison.panels))
    found = []
    for place, system in enumerate(systems):
        mine = [row for row in comparison.rows if row.scenario.system.name == system]
        by_size = sorted(mine, key=lambda row: row.scenario.layout.devices)
        layouts = {row.layout_name: row.scenario for row in by_size}
        crossovers = _crossovers(comparison)
        # With stages or groups of attention a message holds only a part of the batch.
        turns = {
            row.layout_name: crossovers[system, row.tp].batch_at_double_floor
            for row in by_size
            if 1 < row.tp == row.scenario.layout.devices
        }
        found.append(regime(layouts, turns, key=f"regime-{place}", title=system))
    return found


def _sketches(comparison: Comparison) -> list[Figure]:
    """Return the sketch of the largest layout of each system; one device has no links."""
    largest: dict[str, Row] = {}
    for row in sorted(comparison.rows, key=lambda row: -row.scenario.layout.devices):
        largest.setdefault(row.scenario.system.name, row)
    drawn = [row.scenario for row in largest.values() if row.scenario.layout.devices > 1]
    return [topology(scenario, key=f"topology-{place}") for place, scenario in enumerate(drawn)]


def _collectives(comparison: Comparison) -> list[Section]:
    """Return the sections on the all-reduce: its time against size, and its algorithms."""
    wanted = _groups(comparison)
    if not wanted:
        return []
    figures = []
    for place, (row, found) in enumerate(wanted):
        curve = _curve(row, found, sorted({each.batch for each in comparison.rows}))
        where = "across nodes" if found.tier != "intra_node" else "inside the node"
        title = f"{row.scenario.system.name}, {found.ranks} ranks {where}, {found.kind}"
        figures.append(latency.latency(curve, key=f"latency-{place}", title=title))
    drawn = [
        drawing
        for place, (row, _) in enumerate(wanted)
        if (drawing := algorithms_of(row, f"algorithms-{place}")) is not None
    ]
    return [
        Section(
            key="latency",
            title="The all-reduce against its size",
            lead="Left of the crossover a message pays for latency: a wider link buys little there. n_1/2 = alpha x "
            "beta is of one line through the whole curve and lies further right.",
            figures=figures,
        ),
        Section(
            key="algorithms",
            expert=True,
            title="Which algorithm, at which size",
            lead="Laws of the links alone, without software; what was measured stands beside them.",
            figures=drawn,
        ),
    ]


def _groups(comparison: Comparison) -> list[tuple[Row, Crossover]]:
    """Return the groups worth a picture: those of the fastest layouts and of the largest one, on each system."""
    found: dict[tuple[str, int], Row] = {}
    rows = [panel.fastest for panel in comparison.panels]
    rows += [max(panel.rows, key=lambda row: row.tp) for panel in comparison.panels]
    for row in rows:
        if row.tp > 1:
            found.setdefault((row.scenario.system.name, row.tp), row)
    crossovers = _crossovers(comparison)
    return [(row, crossovers[key]) for key, row in found.items() if key in crossovers][:_MOST_CURVES]


def _crossovers(comparison: Comparison) -> dict[tuple[str, int], Crossover]:
    """Return the crossovers by system and ranks: they stand in the order in which the panels' rows first have them."""
    keys = dict.fromkeys((panel.system, row.tp) for panel in comparison.panels for row in panel.rows if row.tp > 1)
    return dict(zip(keys, comparison.crossovers, strict=True))


def _curve(row: Row, found: Crossover, batches: Sequence[float]) -> latency.Curve:
    """Return the all-reduce of a row's TP group as a curve, with the messages of the batches asked for."""
    scenario, group = row.scenario, row.scenario.layout.tensor_group
    messages = np.array([batch * found.message_bytes_per_sequence for batch in batches])
    sizes = np.union1d(SIZES_BYTES, messages[(messages >= SIZES_BYTES[0]) & (messages <= SIZES_BYTES[-1])])
    times = np.asarray(collective(scenario, Op.ALL_REDUCE, group, sizes).value)
    at = np.broadcast_to(np.asarray(collective(scenario, Op.ALL_REDUCE, group, messages).value), messages.shape)
    points: list[tuple[float, float]] = []
    known = measured_curve(scenario, Op.ALL_REDUCE, group)
    if known is not None and is_measured(scenario, Op.ALL_REDUCE, group):
        place = known.ranks.index(found.ranks)
        pairs = zip(known.sizes_bytes[place].tolist(), known.times_s[place].tolist(), strict=True)
        points = [(size, time) for size, time in pairs if SIZES_BYTES[0] <= size <= SIZES_BYTES[-1]]
    return latency.Curve(
        sizes_bytes=sizes,
        times_s=times,
        kind=found.kind,
        points=points,
        latency_s=found.latency_s,
        bandwidth_bytes_per_s=found.bandwidth_bytes_per_s,
        floor_s=float(times[0]),
        half_size_bytes=found.half_size_bytes,
        double_floor_size_bytes=found.double_floor_size_bytes,
        messages=[
            (f"batch {batch:g}", float(size), float(time))
            for batch, size, time in zip(batches, messages, at, strict=True)
        ],
    )


def algorithms_of(row: Row, key: str) -> Figure | None:
    """Return the algorithm chart of a row's TP group on the links of its scenario; None where no system is known."""
    scenario = row.scenario
    asked = Asked(
        op=str(Op.ALL_REDUCE), system=scenario.system.name, ranks=str(row.tp), sizes="1KiB:128MiB",
        library=scenario.stack.library.name, mode=str(scenario.stack.mode),
    )  # fmt: skip
    try:
        loaded = load(asked)
    except InputError:  # a system or a library of the user's own has no name to look rules and curves up by
        return None
    span = scenario.layout.tensor_group.span(scenario.system.fabric)
    question = replace(loaded.question, span=span, library=scenario.stack.library)
    sizes = loaded.sizes_bytes
    drawn = algorithms(
        question,
        rows(question, sizes),
        choices(question, sizes),
        flips(question, sizes[0], sizes[-1]),
        key=key,
    )
    return replace(drawn, title=f"{scenario.system.name}: {drawn.title}")

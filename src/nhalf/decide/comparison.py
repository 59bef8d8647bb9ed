"""A comparison: the decode steps of several layouts, batches and systems, and what they say together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import weighted_parts
from nhalf.collective import Op, Routed
from nhalf.decide.levers import Lever, elasticities, levers
from nhalf.decide.regime import Crossover, best, crossover
from nhalf.decide.remedies import Remedy, remedies
from nhalf.decide.requests import Waits, waits
from nhalf.errors import NoAnswerError
from nhalf.layout import Group
from nhalf.points import Point, points
from nhalf.predict.communication import COLLECTIVES, LINK_BYTES, collective, measured_curve
from nhalf.predict.exchange import exchanges
from nhalf.predict.layer import tokens
from nhalf.predict.prefill import predicted
from nhalf.predict.routed import PROMPT, STEP, curve_for
from nhalf.predict.transfer import kv_transfer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.breakdown import Quantity, Term
    from nhalf.curve import MeasuredCurve
    from nhalf.link import Link
    from nhalf.scenario import Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Row(Point):
    """One point, and what a comparison says of it besides."""

    transfer: Term | None = None
    peers_s: float | None = None
    """The time [s] of the same step where devices of a node reach each other directly, where they do not here."""

    @cached_property
    def elasticities(self) -> dict[str, float]:
        """Return by how many per cent the step moves for one per cent of an input, by path."""
        return elasticities(self.scenario)

    @cached_property
    def waits(self) -> Waits | None:
        """Return what its requests wait, None where none come."""
        return waits(self)

    @property
    def crosses_nodes(self) -> bool:
        """Tell whether a collective of the layout crosses nodes; stage hand-overs may do so without one."""
        return self.scenario.system.fabric.span(self.layout.stage_devices).nodes > 1

    @property
    def split(self) -> Split | None:
        """Return what it costs that TP is split over nodes, None where it is not, or where nodes are single devices."""
        fabric = self.scenario.system.fabric
        divided = self.layout.tensor_group.span(fabric).nodes > 1 and fabric.devices_per_node > 1
        return split(self.scenario) if divided else None

    @property
    def exchange_curves(self) -> dict[str, str]:
        """Return the measured curve of each way of tokens to experts and back, empty for one that has none."""
        layout, kernels = self.layout, PROMPT if self.prefills else STEP
        if layout.routed_exchange != "all-to-all" or layout.attention_dp == 1:
            return {}
        found = {way: curve_for(self.scenario, way, kernels) for way in Routed}
        return {str(way): "" if curve is None else str(curve.at) for way, curve in found.items()}

    @property
    def curve(self) -> MeasuredCurve | None:
        """Return the measured curve of the layout's all-reduce, None where there is none."""
        group = self.layout.tensor_group
        return measured_curve(self.scenario, Op.ALL_REDUCE, group) if group.ranks > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """The rows of one system and batch, the layouts within the tie of the fastest, and what would help the fastest."""

    system: str
    batch: float
    rows: tuple[Row, ...]
    tied: tuple[Row, ...]
    levers: tuple[Lever, ...]
    remedies: tuple[Remedy, ...] = ()

    @property
    def fastest(self) -> Row:
        """Return the fastest row that fits; the first row where none does."""
        return min(self.tied, key=lambda row: row.step_s) if self.tied else self.rows[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """Every panel, and the crossovers of every collective in them."""

    panels: tuple[Panel, ...]
    crossovers: tuple[Crossover, ...]

    @property
    def rows(self) -> tuple[Row, ...]:
        """Return the rows of all panels."""
        return tuple(row for panel in self.panels for row in panel.rows)

    def require_fit(self) -> None:
        """Refuse a comparison in which nothing can run.

        Raises
        ------
        NoAnswerError
            No row fits in memory.
        """
        if not any(panel.tied for panel in self.panels):
            row = min(self.rows, key=lambda row: row.memory_bytes)
            raise NoAnswerError(
                f"no layout fits: the smallest needs {row.memory_bytes / 1e9:.1f} GB on each device",
                where=row.scenario.system.name,
                do="raise --tp, lower --batch or --context, or quantise with --weights",
            )


def compare(
    scenarios: Sequence[Scenario],
    *,
    cache_link: Link | None = None,
    launched: bool = False,
    with_peers: Sequence[Scenario] = (),
) -> Comparison:
    """Return the answer to several scenarios, grouped by system and batch in the order given.

    `cache_link` carries the cache of a prefill to where it is decoded; `launched` asks what CUDA graphs save;
    `with_peers` are the same scenarios with peer access, where these have none.
    """
    groups: dict[tuple[str, float], list[Row]] = {}
    for scenario, direct in zip_longest(scenarios, with_peers):
        key = (scenario.system.name, float(scenario.workload.batch))
        groups.setdefault(key, []).append(_row(scenario, cache_link, direct))
    panels = tuple(_panel(system, batch, rows, launched=launched) for (system, batch), rows in groups.items())
    found: dict[tuple[str, int], Crossover] = {}
    for panel in panels:
        for row in panel.rows:
            if row.tp > 1 and (panel.system, row.tp) not in found:
                found[panel.system, row.tp] = crossover(row.scenario)
    return Comparison(panels=panels, crossovers=tuple(found.values()))


def _row(scenario: Scenario, cache_link: Link | None, direct: Scenario | None) -> Row:
    return Row(
        points=points(scenario),
        transfer=None if cache_link is None else kv_transfer(scenario, cache_link),
        peers_s=None if direct is None else float(predicted(direct).value),
    )


def _panel(system: str, batch: float, rows: list[Row], *, launched: bool) -> Panel:
    """Return a panel with its best layouts and the levers of the fastest."""
    tied = tuple(rows[index] for index in best([None if row.fits_memory == "no" else row.step_s for row in rows]))
    fastest = min(tied, key=lambda row: row.step_s) if tied else rows[0]
    return Panel(
        system=system,
        batch=batch,
        rows=tuple(rows),
        tied=tied,
        levers=tuple(levers(fastest.scenario)),
        remedies=tuple(remedies(fastest.scenario, launched=launched)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One all-reduce of a step [s] over several nodes and on the devices of one, and how many a step pays for."""

    nodes: int
    across_s: float
    inside_s: float
    count: float

    @property
    def cost_s(self) -> float:
        """Return what the nodes add to a step [s], before anything hides it."""
        return self.count * (self.across_s - self.inside_s)


def split(scenario: Scenario) -> Split:
    """Return what the all-reduces of a step take over the nodes of its TP group, and would on one full node."""
    fabric, found = scenario.system.fabric, exchanges(scenario, tokens(scenario))[0]
    node = replace(found, group=Group(ranks=fabric.devices_per_node))
    times = [float(np.mean(collective(scenario, Op.ALL_REDUCE, each.group, each.size).value)) for each in (found, node)]
    count = float(np.mean(found.count.value))
    return Split(nodes=found.group.span(fabric).nodes, across_s=times[0], inside_s=times[1], count=count)


_PREFILL: Final = "prefill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """Times [s] of one step: `link_bytes_s` is what its links take for bytes, which a wider link shortens.

    `prefill_s` is what the collectives of arriving requests take, which the column of prefills holds.
    """

    link_bytes_s: float
    prefill_s: float


def exchanged(step: Term) -> Exchanged:
    """Return what a step exchanges over its links, and what the prefills in it exchange."""
    leaves = list(_leaves(step, 1.0, inside=False))
    return Exchanged(
        link_bytes_s=sum(_s(leaf, weight) for leaf, weight, inside in leaves if not inside and leaf.name == LINK_BYTES),
        prefill_s=sum(_s(leaf, weight) for leaf, weight, inside in leaves if inside),
    )


def _s(leaf: Term, weight: Quantity) -> float:
    """Return what a leaf adds to its step [s]."""
    return float(np.mean(weight * leaf.value))


def _leaves(term: Term, weight: Quantity, *, inside: bool) -> Iterator[tuple[Term, Quantity, bool]]:
    """Yield the terms of collectives with the weights by which they enter, and whether they are part of a prefill."""
    if term.column in COLLECTIVES:
        yield term, weight, inside
    elif not term.column or term.column == _PREFILL:
        for part, share in weighted_parts(term):
            yield from _leaves(part, weight * share, inside=inside or term.column == _PREFILL)

"""A comparison: the decode steps of several layouts, batches and systems, and what they say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.collective import Op
from nhalf.decide.elasticity import elasticities
from nhalf.decide.levers import Lever, levers
from nhalf.decide.regime import Crossover, best, binding, crossover, step_columns
from nhalf.errors import NoAnswerError
from nhalf.predict.band import band
from nhalf.predict.communication import is_measured
from nhalf.predict.memory import Fit, fits, needed
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Term
    from nhalf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One scenario and its answer."""

    scenario: Scenario
    step: Term
    low_s: float
    high_s: float
    memory_bytes: float
    fits: Fit
    elasticities: dict[str, float]

    @property
    def step_s(self) -> float:
        """Return the time [s] of the step."""
        return float(self.step.value)

    @property
    def tensor_parallel(self) -> int:
        """Return the TP degree."""
        return self.scenario.layout.tensor_parallel

    @property
    def label(self) -> str:
        """Return the layout in short, such as TP8 or TP4 PP2."""
        return self.scenario.layout.name

    @property
    def batch(self) -> float:
        """Return the batch."""
        return float(self.scenario.workload.batch)

    @property
    def nodes(self) -> int:
        """Return how many nodes the TP group spans."""
        return self.scenario.layout.nodes(self.scenario.system.fabric)

    @property
    def crosses_nodes(self) -> bool:
        """Tell whether a collective of the layout crosses nodes; stage hand-overs may do so without one."""
        return self.scenario.system.fabric.span(self.scenario.layout.stage_devices).nodes > 1

    @property
    def columns(self) -> dict[str, float]:
        """Return the columns [s] that add up to the step."""
        return step_columns(self.step)

    @property
    def binding(self) -> str:
        """Return the word for what binds."""
        return binding(self.step)

    @property
    def kind(self) -> str:
        """Return whether the collectives are a measured curve on its own links, or modelled."""
        group = self.scenario.layout.tensor_group
        return "measured" if is_measured(self.scenario, Op.ALL_REDUCE, group) else "modelled"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Panel:
    """The rows of one system and batch, the layouts within the tie of the fastest, and what would help the fastest."""

    system: str
    batch: float
    rows: tuple[Row, ...]
    tied: tuple[Row, ...]
    levers: tuple[Lever, ...]

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


def compare(scenarios: Sequence[Scenario]) -> Comparison:
    """Return the answer to several scenarios, grouped by system and batch in the order given."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for scenario in scenarios:
        key = (scenario.system.name, float(scenario.workload.batch))
        groups.setdefault(key, []).append(_row(scenario))
    panels = tuple(_panel(system, batch, rows) for (system, batch), rows in groups.items())
    found: dict[tuple[str, int], Crossover] = {}
    for panel in panels:
        for row in panel.rows:
            if row.tensor_parallel > 1 and (panel.system, row.tensor_parallel) not in found:
                found[panel.system, row.tensor_parallel] = crossover(row.scenario)
    return Comparison(panels=panels, crossovers=tuple(found.values()))


def _row(scenario: Scenario) -> Row:
    """Return the answer to one scenario."""
    low, high = band(scenario)
    return Row(
        scenario=scenario,
        step=decode(scenario),
        low_s=low,
        high_s=high,
        memory_bytes=float(needed(scenario).value),
        fits=fits(scenario),
        elasticities=elasticities(scenario),
    )


def _panel(system: str, batch: float, rows: list[Row]) -> Panel:
    """Return a panel with its best layouts and the levers of the fastest."""
    tied = tuple(rows[index] for index in best([None if row.fits == "no" else row.step_s for row in rows]))
    fastest = min(tied, key=lambda row: row.step_s) if tied else rows[0]
    return Panel(
        system=system,
        batch=batch,
        rows=tuple(rows),
        tied=tied,
        levers=tuple(levers(fastest.scenario)),
    )

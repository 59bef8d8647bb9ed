"""A comparison: the decode steps of several layouts, batches and systems, and what they say together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from nhalf.breakdown import Term
from nhalf.collective import Op, Routed
from nhalf.decide.elasticity import elasticities
from nhalf.decide.levers import Lever, levers
from nhalf.decide.regime import Crossover, best, binding, crossover, step_columns
from nhalf.decide.remedies import Remedy, remedies
from nhalf.decide.split import Split, split
from nhalf.errors import NoAnswerError
from nhalf.predict import exchange
from nhalf.predict.band import band
from nhalf.predict.communication import measured_curve
from nhalf.predict.layer import running
from nhalf.predict.memory import Fit, Memory, fits, memory
from nhalf.predict.prefill import predicted
from nhalf.predict.routed import PROMPT, STEP, curve_for
from nhalf.predict.transfer import kv_transfer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.curve import MeasuredCurve
    from nhalf.link import Link
    from nhalf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One scenario and its answer."""

    scenario: Scenario
    step: Term
    low_s: float
    high_s: float
    memory: Memory
    fits: Fit
    elasticities: dict[str, float]
    transfer: Term | None = None
    peers_s: float | None = None
    """The time [s] of the same step where devices of a node reach each other directly, where they do not here."""

    @property
    def step_s(self) -> float:
        """Return the time [s] of the step."""
        return float(self.step.value)

    @property
    def memory_bytes(self) -> float:
        """Return the bytes that the fullest device holds."""
        return self.memory.needed_bytes

    @property
    def prefills(self) -> bool:
        """Tell whether the row is of a prefill."""
        return self.scenario.workload.phase == "prefill"

    @property
    def accepted_tokens(self) -> float:
        """Return the tokens that each sequence keeps of a step."""
        return float(self.scenario.workload.accepted_tokens)

    @property
    def token_s(self) -> float:
        """Return the time [s] of each token that a sequence keeps; of a prefill, that of the whole."""
        return self.step_s / self.accepted_tokens

    @property
    def running(self) -> float:
        """Return the sequences that run at once: fewer than the batch where the cache has no room for all."""
        return _running(self.scenario)

    @property
    def tokens_per_s(self) -> float:
        """Return the tokens per second of one replica: kept ones of a decode, prompt tokens of a prefill."""
        per_sequence = float(self.scenario.workload.prompt_tokens) if self.prefills else self.accepted_tokens
        return self.running * per_sequence / self.step_s

    @property
    def tokens_per_s_per_user(self) -> float:
        """Return the tokens per second of a sequence that runs."""
        return self.tokens_per_s / self.running

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
    def split(self) -> Split | None:
        """Return what it costs that TP is split over nodes, None where it is not, or where nodes are single devices."""
        fabric = self.scenario.system.fabric
        divided = self.scenario.layout.tensor_group.span(fabric).nodes > 1 and fabric.devices_per_node > 1
        return split(self.scenario) if divided else None

    @property
    def routed(self) -> dict[str, str]:
        """Return the measured curve of each way of tokens to experts and back, empty for one that has none."""
        layout, kernels = self.scenario.layout, PROMPT if self.prefills else STEP
        if layout.routed_exchange != "all-to-all" or layout.attention_dp == 1:
            return {}
        found = {way: curve_for(self.scenario, way, kernels) for way in Routed}
        return {str(way): "" if curve is None else str(curve.at) for way, curve in found.items()}

    @property
    def curve(self) -> MeasuredCurve | None:
        """Return the measured curve of the layout's all-reduce, None where there is none."""
        group = self.scenario.layout.tensor_group
        return measured_curve(self.scenario, Op.ALL_REDUCE, group) if group.ranks > 1 else None

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
        """Return whether the collectives are measured curves on their own links, or modelled."""
        return exchange.kind(self.scenario)


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
            if row.tensor_parallel > 1 and (panel.system, row.tensor_parallel) not in found:
                found[panel.system, row.tensor_parallel] = crossover(row.scenario)
    return Comparison(panels=panels, crossovers=tuple(found.values()))


def _running(scenario: Scenario) -> float:
    """Return the sequences of a scenario that run at once."""
    found = running(scenario)
    return float(found.value if isinstance(found, Term) else found)


def _row(scenario: Scenario, cache_link: Link | None, direct: Scenario | None) -> Row:
    """Return the answer to one scenario.

    Where requests queue for room in the cache, what must fit is one of them on each rank.
    """
    low, high = band(scenario)
    runs = _running(scenario)
    capped = runs < float(scenario.workload.batch)
    least = scenario.having({"workload.batch": float(scenario.layout.attention_dp)}) if capped else scenario
    return Row(
        scenario=scenario,
        step=predicted(scenario),
        low_s=low,
        high_s=high,
        memory=memory(scenario.having({"workload.batch": runs})),
        fits=fits(least),
        elasticities=elasticities(scenario),
        transfer=None if cache_link is None else kv_transfer(scenario, cache_link),
        peers_s=None if direct is None else float(predicted(direct).value),
    )


def _panel(system: str, batch: float, rows: list[Row], *, launched: bool) -> Panel:
    """Return a panel with its best layouts and the levers of the fastest."""
    tied = tuple(rows[index] for index in best([None if row.fits == "no" else row.step_s for row in rows]))
    fastest = min(tied, key=lambda row: row.step_s) if tied else rows[0]
    return Panel(
        system=system,
        batch=batch,
        rows=tuple(rows),
        tied=tied,
        levers=tuple(levers(fastest.scenario)),
        remedies=tuple(remedies(fastest.scenario, launched=launched)),
    )

"""The panel: the numbers that the page draws, of all layouts and batches at once, without the trees behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.collective import Op
from nhalf.decide.levers import levers
from nhalf.decide.regime import TIE, best, crossover
from nhalf.errors import InputError
from nhalf.points import at_batches
from nhalf.predict.communication import collective
from nhalf.report.crossover_brief import floor_line
from nhalf.report.decode_brief import batch_line
from nhalf.report.document import number, taken
from nhalf.report.fields import PARTS, record
from nhalf.report.words import link_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.evidence.fit import Fit
    from nhalf.loading import Loaded
    from nhalf.points import Point
    from nhalf.simulate.engine import Run

_SIZES: Final[Array] = np.array([2.0**power for power in range(10, 31)])
"""Sizes [bytes] of the curve of the all-reduce."""
_MAP: Final[Array] = np.array([2.0**power for power in range(11)])
"""Batches of the map of what binds."""
_SHOWN: Final = 4000
"""Messages of a timeline that a page draws."""
_KEYS: Final = (
    "batch", "tp", "step_s", "low_s", "high_s", "tpot_s", "tpot_low_s", "tpot_high_s", "tokens_per_s_per_user",
    "tokens_per_s_per_gpu", *PARTS, "memory_bytes", "fits_memory", "kind",
)  # fmt: skip
"""What the page shows of a layout at a batch."""
_CURVES: Final = 6
"""Curves of a log that a page draws."""
SLIDERS: Final = {
    "system.device.memory_bandwidth_bytes_per_s": "HBM bandwidth",
    "system.fabric.intra_node.latency_s": "latency inside the node",
    "system.fabric.intra_node.bandwidth_bytes_per_s": "bandwidth inside the node",
    "system.fabric.inter_node.latency_s": "latency across nodes",
    "system.fabric.inter_node.bandwidth_bytes_per_s": "bandwidth across nodes",
}
"""Inputs that have a slider, by path."""


def panel(loaded: Loaded) -> dict[str, Any]:
    """Return what the page shows of some scenarios: rows, what binds, savings, and the all-reduce of the fastest."""
    layouts = {each.layout.name: each for each in loaded.scenarios}
    batches = sorted({float(np.mean(each.workload.batch)) for each in loaded.scenarios})
    every = np.union1d(_MAP, batches)
    shown, drawn = np.searchsorted(every, batches).tolist(), np.searchsorted(every, _MAP).tolist()
    rows: list[Point] = []
    binds = []
    for name, scenario in layouts.items():
        found = at_batches(scenario, every)
        rows += [found.at(place) for place in shown]
        binding, fits = found.binding, found.fits_memory
        binds.append({"layout": name, "binding": [binding[place] for place in drawn],
                      "fits_memory": [fits[place] for place in drawn]})  # fmt: skip
    rows.sort(key=lambda row: row.batch)
    inputs = dict(loaded.scenarios[0].inputs())
    tied = [_tied([row for row in rows if row.batch == batch]) for batch in batches]
    return {
        "rows": [{**record(row, _KEYS), "layout": row.layout_name} for row in rows],
        "best": [_best(batch, found) for batch, found in zip(batches, tied, strict=True)],
        "map": {"batches": _MAP.tolist(), "layouts": binds},
        **_all_reduce(_fastest(tied[-1])),
        "in_node": link_name(loaded.scenarios[0].system, "intra_node"),
        "sliders": [
            {"path": path, "name": name, "value": float(np.mean(inputs[path])) if path in inputs else None}
            for path, name in SLIDERS.items()
        ],
        "defaults": taken(loaded.defaults),
        "warnings": list(loaded.warnings),
    }


def _tied(rows: Sequence[Point]) -> list[Point]:
    """Return the rows within the model's error of the fastest that fits in memory."""
    return [rows[index] for index in best([None if row.fits_memory == "no" else row.step_s for row in rows])]


def _fastest(tied: Sequence[Point]) -> Point | None:
    """Return the fastest of some rows, None where there is none."""
    return min(tied, key=lambda row: row.step_s, default=None)


def _best(batch: float, tied: Sequence[Point]) -> dict[str, Any]:
    """Return which layouts are fastest at a batch, and what would save time there."""
    fastest = _fastest(tied)
    found = sorted(levers(fastest.scenario), key=lambda each: -each.gain) if fastest else []
    return {
        "batch": batch,
        "layouts": [row.layout_name for row in tied],
        "fastest": fastest and fastest.layout_name,
        "savings": [
            {"name": each.name, "path": each.path, "share": each.gain, "told": each.gain > TIE} for each in found
        ],
    }


def messages(run: Run) -> dict[str, Any]:
    """Return every message of a run: who sends to whom, when it begins and ends [s], and its bytes.

    Raises
    ------
    InputError
        There are more than a page can show.
    """
    if run.record is None or run.messages > _SHOWN:
        raise InputError(f"{run.messages:,} messages are too many to look at", where="/timeline",
                         allowed=f"up to {_SHOWN:,}", do="take fewer ranks")  # fmt: skip
    graph, record = run.record.graph, run.record
    columns = (graph.source, graph.target, record.posted_s, record.ended_s, graph.size_bytes)
    return {
        "algorithm": run.program.algorithm,
        "ranks": graph.ranks,
        "end_s": float(np.max(record.ended_s)),
        "messages": [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)],
    }


def measured(fit: Fit) -> list[dict[str, Any]]:
    """Return the curves of a log that was dropped: their points and the one line through each, as far as it has one."""
    curves = []
    for curve in fit.curves[:_CURVES]:
        sizes, times = curve.fitted_points
        known, drawn = curve.to_dict(), sizes > 0
        curves.append({
            "name": str(curve.series.key), "sizes_bytes": sizes[drawn].tolist(),
            "times_s": times[drawn].tolist(),
            "latency_s": known["latency_s"], "bandwidth_bytes_per_s": known["bandwidth_bytes_per_s"],
        })  # fmt: skip
    return [each for each in curves if len(each["sizes_bytes"]) > 1]


def _all_reduce(fastest: Point | None) -> dict[str, Any]:
    """Return the all-reduce of the fastest layout by size and where it turns, and what decode says of both."""
    if fastest is None or fastest.tp == 1:
        return {"all_reduce": None, "lines": []}
    scenario = fastest.scenario
    found = crossover(scenario)
    times = np.asarray(collective(scenario, Op.ALL_REDUCE, scenario.layout.tensor_group, _SIZES).value)
    blocks = scenario.transformer.block_count
    return {
        "all_reduce": {
            "tp": fastest.tp,
            "sizes_bytes": _SIZES.tolist(),
            "times_s": np.broadcast_to(times, _SIZES.shape).tolist(),
            "message_bytes_per_sequence": found.message_bytes_per_sequence,
            "half_size_bytes": number(found.half_size_bytes),
            "kind": found.kind,
        },
        "lines": [floor_line(blocks, found.floor_s, fastest.accepted_tokens), batch_line(fastest, found)],
    }

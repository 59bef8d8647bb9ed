"""The regime map: what binds at every batch and layout, with the tokens per second of a user in each cell."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.breakdown import columns
from nhalf.decide.regime import BINDING
from nhalf.predict.memory import needed, usable_bytes
from nhalf.predict.prefill import predicted
from nhalf.report import verdict
from nhalf.report.figures import figure
from nhalf.report.figures.figure import COLUMNS, Figure, altair, data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Row
    from nhalf.decide.regime import Crossover

BATCHES: Final = tuple(2**power for power in range(11))
_CELL: Final = 34
_PALE: Final = 0.25


def regime(rows: Sequence[Row], crossovers: Sequence[Crossover], *, key: str, title: str) -> Figure:
    """Return the map of one system: a line for each layout of `rows`, a column for each batch.

    `crossovers` say from which batch the bytes of the layouts' collectives count; a triangle in the map marks it.
    """
    layouts = {row.label: row for row in sorted(rows, key=lambda row: row.scenario.layout.devices)}
    cells = [cell for row in layouts.values() for cell in _cells(row)]
    alt = altair()
    batches = [f"{batch}" for batch in BATCHES]
    base = alt.Chart(data(cells)).encode(
        x=alt.X("at:O", sort=batches, title="batch", axis=alt.Axis(labelAngle=0, labelOverlap=False)),
        y=alt.Y("layout:N", sort=list(layouts), title=None, axis=alt.Axis(grid=False)),
    )
    words = list(dict.fromkeys(cell["binds"] for cell in cells))
    colour = alt.Color(
        "binds:N", scale=alt.Scale(domain=words, range=[_COLOURS[word] for word in words]),
        legend=alt.Legend(columns=4, columnPadding=10),
    )  # fmt: skip
    told = [
        "layout",
        "batch",
        "binds",
        "step",
        "per user",
        "per GPU",
        *(COLUMNS[name][0] for name in COLUMNS),
        "memory",
    ]
    held = {name for cell in cells for name in cell}
    shown = figure.tips(*(name for name in told if name in held))
    boxes = base.mark_rect(stroke="currentColor", strokeOpacity=0.25, strokeWidth=0.5).encode(
        color=colour, opacity=alt.Opacity("shade:Q", scale=None, legend=None),
        tooltip=shown,
    )  # fmt: skip
    # The numbers lie on top of the boxes, and are pointed at like them.
    rates = base.mark_text(aria=False, fontSize=10.5).encode(
        text=alt.Text("rate:N"), color=alt.Color("ink:N", scale=None), tooltip=shown
    )
    turns = _turns(layouts, crossovers)
    chart = alt.layer(boxes, rates, *turns)
    return Figure(
        key=key,
        title=title,
        text=_text(cells),
        note="In each cell: tokens/s per user. Pale: does not fit in memory."
        + (" Triangle: from this batch on an all-reduce takes twice its floor, so its bytes count." if turns else ""),
        chart=chart.properties(width="container", height=max(_CELL * len(layouts), 2 * _CELL)),
        rows=[_record(cell) for cell in cells],
    )


_COLOURS: Final = {BINDING[name]: colour for name, (_, colour) in COLUMNS.items()}


def _cells(row: Row) -> list[dict[str, Any]]:
    """Return the cells of one layout."""
    scenario = row.scenario
    batches = np.array(BATCHES, dtype=np.float64)
    moved = scenario.having({"workload.batch": batches})
    step = predicted(moved)
    shape = batches.shape
    steps = np.broadcast_to(step.value, shape)
    owed = {name: np.broadcast_to(value, shape) for name, value in columns(step).items()}
    bytes_held = np.broadcast_to(needed(moved).value, shape)
    _, most = usable_bytes(scenario)
    tokens = float(scenario.workload.prompt_tokens) if row.prefills else row.accepted_tokens
    found = []
    for place, batch in enumerate(BATCHES):
        parts = {name: float(owed[name][place]) for name in COLUMNS if name in owed}
        binds = BINDING[max(parts, key=lambda name: parts[name])]
        step_s, memory = float(steps[place]), float(bytes_held[place])
        fits, rate = memory <= most, tokens / step_s
        found.append(
            {
                "layout": row.label, "batch": batch, "at": f"{batch}", "binds": binds, "step_s": step_s,
                "tokens_per_s_per_user": rate, "fits": fits, "memory_bytes": memory,
                "shade": 1.0 if fits else _PALE,
                "ink": figure.on(_COLOURS[binds]) if fits else figure.INK,
                "rate": verdict.count(rate), "step": units.format_time(step_s),
                "per user": f"{verdict.count(rate)} tokens/s",
                "per GPU": f"{verdict.count(rate * batch / scenario.layout.devices)} tokens/s",
                "memory": f"{memory / 1e9:.1f} GB a device" + ("" if fits else ", does not fit"),
                **{COLUMNS[name][0]: _share(value, step_s) for name, value in parts.items() if value > 0},
            }
        )  # fmt: skip
    return found


def _share(value: float, whole: float) -> str:
    return f"{units.format_time(value)} ({verdict.percent(value / whole)})"


def _turns(layouts: dict[str, Row], crossovers: Sequence[Crossover]) -> list[Any]:
    """Return the mark in each row from which batch on the bytes of its all-reduce count."""
    batch = {found.ranks: found.batch_at_double_floor for found in crossovers}
    marks = []
    for name, row in layouts.items():
        at = batch.get(row.tensor_parallel)
        if at is not None and BATCHES[0] < at < BATCHES[-1]:
            # The middles of two cells stand one doubling apart.
            place, within = divmod(float(np.log2(at)) + 0.5, 1.0)
            cell = min(int(place), len(BATCHES) - 1)
            marks.append(
                {
                    "layout": name,
                    "at": f"{BATCHES[cell]}",
                    "within": within,
                    "label": f"bytes count from batch {at:.0f}",
                }
            )
    alt = altair()
    found = []
    for mark in marks:
        x = alt.X("at:O", sort=[f"{each}" for each in BATCHES], bandPosition=mark["within"])
        notch = alt.Chart(data([mark])).mark_point(
            shape="triangle-up", filled=True, size=60, yOffset=_CELL / 2 - 5, color=figure.INK, opacity=1
        )
        found.append(notch.encode(x=x, y=alt.Y("layout:N", sort=list(layouts)), tooltip=figure.tips("layout", "label")))
    return found


def _record(cell: dict[str, Any]) -> dict[str, object]:
    """Return a row of the table."""
    names = ("layout", "batch", "binds", "step_s", "tokens_per_s_per_user", "memory_bytes", "fits")
    return {name: cell[name] for name in names}


def _text(cells: list[dict[str, Any]]) -> str:
    """Return the map in words: where what binds changes along each layout."""
    parts = []
    for layout in dict.fromkeys(cell["layout"] for cell in cells):
        mine = [cell for cell in cells if cell["layout"] == layout]
        turns = [mine[0], *(b for a, b in pairwise(mine) if a["binds"] != b["binds"])]
        parts.append(f"{layout}: " + ", ".join(f"{cell['binds']} from batch {cell['batch']}" for cell in turns))
    return f"What binds by layout and batch. {'; '.join(parts)}."

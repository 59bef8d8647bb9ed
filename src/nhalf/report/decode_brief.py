"""The first screen of `nhalf decode`: which layout, how long a token takes, what it is made of, what saves time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.decide.levers import of_links
from nhalf.decide.regime import TIE
from nhalf.engines import ENGINES
from nhalf.report import fields
from nhalf.report.crossover_brief import floor_line, pays_text
from nhalf.report.verdict import (
    NOTHING,
    faint,
    of_flips,
    said,
)
from nhalf.report.view import Bars, Brief, Saving, Tone, percent
from nhalf.report.words import assumed, link_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison, Panel, Row
    from nhalf.decide.regime import Crossover
    from nhalf.loading import Default
    from nhalf.points import Point

_MOST_ROWS: Final = 8
_MOST_SAVINGS: Final = 5
_NETWORK: Final = ("collective_fixed", "collective_transfer", "hand_over")
_MEMORY: Final = ("weights", "experts", "kv", "compute")


def brief(comparison: Comparison, defaults: Sequence[Default], *, next_command: str) -> Brief:
    """Return the first screen of a comparison."""
    panels = comparison.panels
    if len(panels) > 1:
        return _several(comparison, defaults, next_command=next_command)
    [panel] = panels
    row = panel.fastest
    verdict, number = said(comparison)
    if not panel.tied:
        return Brief(verdict=[verdict], warn=True, assumed=assumed(row, defaults), next_command=next_command)
    return Brief(
        verdict=[verdict],
        number=number,
        title=_title(row),
        bars=_bars(panel.rows, panel),
        asked=f"{_made_of(row)}\n{_asks(row)}",
        savings=_savings(panel),
        closing=[*_floor(comparison, panel), *([fields.waits_line(row.waits)] if row.waits else [])],
        assumed=assumed(row, defaults),
        next_command=next_command,
        next_why="does the advice change with load?",
    )


def _several(comparison: Comparison, defaults: Sequence[Default], *, next_command: str) -> Brief:
    """Return the first screen of several batches or systems: the fastest of each, and what it is made of."""
    panels = comparison.panels
    systems = list(dict.fromkeys(panel.system for panel in panels))
    rows = [panel.fastest for panel in panels]
    heads = [
        *(["<system"] if len(systems) > 1 else []),
        "batch",
        "<fastest",
        "ms/token",
        "80 % range",
        "tok/s",
        "tok/s/GPU",
    ]
    cells = [
        [
            *([panel.system] if len(systems) > 1 else []),
            f"{panel.batch:g}",
            panel.fastest.layout_name if panel.tied else "none fits",
            *fields.cells(panel.fastest, ("tpot_s",)),
            "-".join(fields.cells(panel.fastest, ("tpot_low_s", "tpot_high_s"))),
            *fields.cells(panel.fastest, ("tokens_per_s_per_user", "tokens_per_s_per_gpu")),
        ]
        for panel in panels
    ]
    verdict, number = said(comparison)
    weak = _weak(of_flips(comparison)) if faint(panels) else []
    return Brief(
        verdict=[verdict],
        number=number,
        title=_title(rows[0], batch=False, systems=systems),
        bars=Bars(
            heads=heads,
            rows=cells,
            names=_names(rows),
            parts=[_parts(row, of_all=rows, share=True) for row in rows],
            remarks=["" if panel.tied else "does not fit" for panel in panels],
            tones=["plain" if panel.tied else "warn" for panel in panels],
        ),
        notes=["Each bar is a whole token: what part of it each is."],
        asked="What would save time?",
        savings=(),
        closing=[*_advice(panels), *weak, *(_floor(comparison, panels[0]) if len(systems) == 1 else [])],
        assumed=assumed(rows[0], defaults, batch=False),
        next_command=next_command,
    )


def _weak(found: Sequence[str]) -> list[str]:
    """Return which of latency and bandwidth of the links buys more at which batch, though neither can be told."""
    return [
        f"Links: {text.partition(': ')[2].removesuffix('.')}; none reaches the model's error of {100 * TIE:.0f} %."
        for text in found
    ]


def _advice(panels: Sequence[Panel]) -> list[str]:
    """Return what saves most at each batch or system, where the model can tell it from nothing."""
    said = []
    for panel in panels:
        if not panel.tied:
            continue
        best = [saving for saving in _savings(panel) if saving.told][:2]
        where = (
            f"{panel.system}, batch {panel.batch:g}"
            if len({each.system for each in panels}) > 1
            else f"Batch {panel.batch:g}"
        )
        told = ", ".join(f"{saving.name} {percent(saving.share)}" for saving in best)
        said.append(f"{where}: {told or 'no single change saves 5 %'}.")
    return said


def _title(row: Row, *, batch: bool = True, systems: Sequence[str] = ()) -> str:
    workload = row.scenario.workload
    load = f", batch {row.batch:g}" if batch and row.batch != 1 else ""
    return f"{row.model} on {', '.join(systems) or row.system}, {workload.weight_dtype} weights{load}{_as_of(row)}"


def _as_of(row: Row) -> str:
    """Return the version that the answer is as of, where a newer one is known or another one was asked for."""
    stack, measured = row.scenario.stack, (row.as_of or "").rpartition(" ")[2]
    engine = ENGINES.get(stack.engine)
    if engine is None or not measured or stack.library.name != stack.engine:
        return ""
    if stack.version in ("", measured) and measured == engine.newest:
        return ""
    asked = f" (nearest to {stack.version})" if stack.version not in ("", measured) else ""
    return f", as of {engine.title} {measured}{asked}"


def _names(rows: Sequence[Row]) -> list[str]:
    """Return the names of the stretches of the bars, those that occur."""
    ranks = any(row.layout.devices > 1 for row in rows)
    word = "all-reduce" if all(row.exchange is None for row in rows) else "network"
    prefill = any(row.columns["prefill"] > 0 for row in rows)
    memory = "experts + weights + KV" if any(row.columns["experts"] > 0 for row in rows) else "weights + KV"
    return [
        *([word] if ranks else []),
        "overhead" if prefill else "per-layer overhead",
        memory,
        *(["prefill"] if prefill else []),
    ]


def _parts(row: Row, *, of_all: Sequence[Row], share: bool = False) -> list[float]:
    """Return the stretches of the bar of a row, in the order of `_names`: times per token [s], or shares of it."""
    owed = row.columns
    found = [sum(owed[name] for name in _NETWORK)] if any(each.layout.devices > 1 for each in of_all) else []
    found += [owed["launch"], sum(owed[name] for name in _MEMORY)]
    if any(each.columns["prefill"] > 0 for each in of_all):
        found.append(owed["prefill"])
    return [part / (row.step_s if share else row.accepted_tokens) for part in found]


def _bars(rows: Sequence[Row], panel: Panel) -> Bars:
    shown = sorted(sorted(rows, key=lambda row: row.step_s)[:_MOST_ROWS], key=rows.index)
    plain = all(row.layout_name == f"TP{row.tp}" for row in shown)
    keys = ("tpot_s", "tokens_per_s_per_user")
    return Bars(
        heads=["<TP" if plain else "<layout", "ms/token", "tok/s"],
        rows=[[row.layout_name, *fields.cells(row, keys)] for row in shown],
        names=_names(shown),
        parts=[_parts(row, of_all=shown) for row in shown],
        remarks=[_remark(row, panel) for row in shown],
        tones=[_tone(row, panel) for row in shown],
    )


def _remark(row: Row, panel: Panel) -> str:
    """Return what stands behind a bar."""
    if row.fits_memory == "no":
        return "does not fit"
    modelled = row.kind == "modelled" and row.layout.devices > 1
    others = [each for each in panel.rows if each is not row]
    told = [
        *(["fastest"] if row is panel.fastest and any(each.fits_memory != "no" for each in others) else []),
        *(["tight fit"] if row.fits_memory == "marginal" else []),
        *([f"{row.nodes} nodes"] if row.nodes > 1 else []),
        *(["modelled"] if modelled else []),
    ]
    return ", ".join(told)


def _tone(row: Row, panel: Panel) -> Tone:
    if row.fits_memory != "yes":
        return "warn"
    return "good" if row is panel.fastest and len(panel.rows) > 1 else "plain"


def _made_of(row: Row) -> str:
    """Return what the time goes to."""
    parts = sorted(zip(_parts(row, of_all=[row], share=True), _names([row]), strict=True), reverse=True)
    told = ", ".join(f"{percent(share)} {name}" for share, name in parts if share >= NOTHING)
    return f"At {row.layout_name} a {'prompt' if row.prefills else 'token'} is {told}."


def _asks(row: Row) -> str:
    return f"What would save time at {row.layout_name}? The model's error is {100 * TIE:.0f} %."


def _savings(panel: Panel) -> list[Saving]:
    """Return what each change would save, most first; all of the latency is one lever, its owners are detail."""
    row = panel.fastest
    links = {id(lever) for pair in of_links(panel.levers) for lever in pair}
    found = [
        Saving(name=_NAMES.get(lever.path, lever.name), share=lever.gain, told=lever.gain >= TIE)
        for lever in panel.levers
        if id(lever) not in links and lever.path in _NAMES
    ]
    network = row.columns["collective_fixed"] / row.step_s / 2
    if row.layout.devices > 1:
        found.append(Saving(name="half the all-reduce latency", share=network, told=network >= TIE))
    linked: list[str] = []
    for wider, quicker in of_links(panel.levers)[: 2 if row.crosses_nodes else 1]:
        where = link_name(row.scenario.system, wider.path.split(".")[2])
        found.append(Saving(name=f"half the {where} latency", share=quicker.gain, told=quicker.gain >= TIE))
        found.append(Saving(name=f"2x {where} bandwidth", share=wider.gain, told=wider.gain >= TIE))
        linked += [f"half the {where} latency", f"2x {where} bandwidth"]
    found.sort(key=lambda saving: -saving.share)
    first, last = found[: _MOST_SAVINGS - 2], found[_MOST_SAVINGS - 2 :]
    of_link = [saving for saving in last if saving.name in linked]
    return [*first, *(of_link or last)][:_MOST_SAVINGS]


_NAMES: Final = {
    "system.device.memory_bandwidth_bytes_per_s": "2x HBM bandwidth",
    "stack.layer_time_s": "half the per-layer overhead",
    "system.device.bf16_flop_per_s": "2x arithmetic",
}


def _floor(comparison: Comparison, panel: Panel) -> list[str]:
    """Return the floor of the fastest layout, and from which batch on bytes and a wider link count."""
    row = panel.fastest
    found = next((each for each in comparison.crossovers if each.system == panel.system and each.ranks == row.tp), None)
    if found is None or row.prefills or not panel.tied:
        return []
    blocks = row.scenario.transformer.block_count
    return [floor_line(blocks, found.floor_s, row.accepted_tokens), batch_line(row, found)]


def batch_line(row: Point, found: Crossover) -> str:
    """Return the batch from which bytes outweigh latency, and that from which twice the bandwidth saves 5 %."""
    text = f"Bytes outweigh latency from batch {found.batch_at_double_floor:.0f}"
    return f"{text}; {pays_text(row.scenario)}."

"""The first screen of `nhalf decode`: which layout, how long a token takes, what it is made of, what saves time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.decide.levers import link_changes, of_links
from nhalf.decide.regime import TIE
from nhalf.engines import ENGINES
from nhalf.loading.defaults import MEASURED
from nhalf.points import points
from nhalf.report import fields
from nhalf.report.verdict import NOTHING, of_flips
from nhalf.report.view import Bars, Brief, Saving, Tone, percent, whole_number
from nhalf.report.words import joined, link_name, unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison, Panel, Row
    from nhalf.decide.regime import Crossover
    from nhalf.loading import Default
    from nhalf.points import Point
    from nhalf.scenario import Scenario

_MOST_ROWS: Final = 8
_MOST_SAVINGS: Final = 5
_NETWORK: Final = ("collective_fixed", "collective_transfer", "hand_over")
_MEMORY: Final = ("weights", "experts", "kv", "compute")
_BATCHES: Final = np.array(sorted({*np.geomspace(1, 4096, 200).round()}))
"""Batches at which it is looked whether a wider link saves what the model can tell."""


def said(comparison: Comparison) -> tuple[str, str]:
    """Return the verdict on a comparison, and the number with its range."""
    panels = comparison.panels
    if len(panels) > 1:
        flips = [] if _faint(panels) else of_flips(comparison)
        return " ".join(flips) or _steady(panels), _beyond(panels)
    [panel] = panels
    if not panel.tied:
        return _unfit(panel), ""
    return _best(panel), " ".join([_range(panel.fastest), *_slower(panel), *_capped(panel)])


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
    weak = _weak(of_flips(comparison)) if _faint(panels) else []
    return Brief(
        verdict=[verdict],
        number=number,
        title=_title(rows[0], batch=False),
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
        closing=[*_advice(panels), *weak, *_floor(comparison, panels[0])],
        assumed=assumed(rows[0], defaults, batch=False),
        next_command=next_command,
    )


def _steady(panels: Sequence[Panel]) -> str:
    """Return that one layout is the fastest in all panels, or which is where."""
    names = {panel.fastest.layout_name for panel in panels if panel.tied}
    if len(names) == 1:
        rates = [fields.count(panel.fastest.tokens_per_s_per_user) for panel in panels if panel.tied]
        what = "prompt tokens/s" if panels[0].fastest.prefills else "tokens/s per user"
        return f"{next(iter(names))} is fastest at every load asked for: {joined(rates)} {what}."
    told = [f"{panel.fastest.layout_name} at batch {panel.batch:g}" for panel in panels if panel.tied]
    return f"Fastest: {', '.join(told)}." if told else "No layout fits in memory."


def _beyond(panels: Sequence[Panel]) -> str:
    """Return by how much the next larger layout is slower in each panel, where that is one layout on one system."""
    found = []
    for panel in panels:
        most = max((row.layout.devices for row in panel.tied), default=0)
        found += [(row, panel) for row in panel.rows if row.layout.devices > most and row.fits_memory != "no"][:1]
    names = {row.layout_name for row, _ in found}
    if len(names) != 1 or len({panel.system for panel in panels}) > 1 or len(found) < len(panels):
        return ""
    slower = [percent(row.tpot_s / panel.fastest.tpot_s - 1) for row, panel in found]
    crosses = any(row.crosses_nodes and not panel.fastest.crosses_nodes for row, panel in found)
    why = ": its all-reduces cross nodes" if crosses else ""
    return f"{names.pop()} is {joined(slower)} slower{why}."


def _faint(panels: Sequence[Panel]) -> bool:
    """Tell whether no change of a link saves what the model can tell from nothing, on the one system asked for."""
    gains = [lever.gain for panel in panels if panel.tied for pair in of_links(panel.levers) for lever in pair]
    return len({panel.system for panel in panels}) == 1 and max(gains, default=0.0) < TIE


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


def _best(panel: Panel) -> str:
    """Return which layout is the fastest, and how fast."""
    row = panel.fastest
    per = unit(row) if row.prefills else "token"
    if row.prefills:
        rate = f"{whole_number(round(row.tokens_per_s))} prompt tokens/s"
    else:
        rate = f"{fields.count(row.tokens_per_s_per_user)} tokens/s per user"
    figure = f"{units.format_time(row.tpot_s)} per {per}, {rate}"
    if len(panel.rows) == 1:
        return f"{row.layout_name} takes {figure}."
    tied = [each.layout_name for each in panel.tied if each is not row]
    if tied:
        return f"{row.layout_name} is fastest: {figure}; {joined(tied)} within {100 * TIE:.0f} %."
    return f"{row.layout_name} is fastest: {figure}."


def _range(row: Row) -> str:
    return f"80 % range: {span(row.tpot_low_s, row.tpot_high_s)}."


def span(low_s: float, high_s: float) -> str:
    """Return a range of times with its unit once, where both ends have the same."""
    low, high = units.format_time(low_s), units.format_time(high_s)
    return f"{low.split()[0]} to {high}" if low.split()[1:] == high.split()[1:] else f"{low} to {high}"


def _slower(panel: Panel) -> list[str]:
    """Return by how much the next larger layout is slower, and why."""
    most = max(row.layout.devices for row in panel.tied)
    beyond = [row for row in panel.rows if row.layout.devices > most and row.fits_memory != "no"]
    if not beyond:
        return []
    row = beyond[0]
    why = ": its all-reduces cross nodes" if row.crosses_nodes and not panel.fastest.crosses_nodes else ""
    return [f"{row.layout_name} is {percent(row.tpot_s / panel.fastest.tpot_s - 1)} slower{why}."]


def _capped(panel: Panel) -> list[str]:
    """Return how many sequences really run, where the KV cache has no room for all."""
    row = panel.fastest
    if row.running >= row.batch:
        return []
    return [f"The KV cache has room for {row.running:.0f} of {row.batch:g} sequences; the others wait."]


def _unfit(panel: Panel) -> str:
    """Return that nothing fits, and what is missing."""
    row = min(panel.rows, key=lambda each: each.memory_bytes)
    needed, usable = (fields.gigabytes(size) for size in (row.memory_bytes, row.memory.usable_bytes))
    return f"Does not fit: {row.layout_name} needs {needed} GB per GPU, {usable} GB are usable."


def _title(row: Row, *, batch: bool = True) -> str:
    workload = row.scenario.workload
    load = f", batch {row.batch:g}" if batch and row.batch != 1 else ""
    return f"{row.model} on {row.system}, {workload.weight_dtype} weights{load}{_as_of(row)}"


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
    if len(panel.rows) > 1 and row is panel.fastest:
        return "fastest"
    if row.fits_memory == "marginal":
        return "tight fit"
    modelled = row.kind == "modelled" and row.layout.devices > 1
    return ", ".join([*([f"{row.nodes} nodes"] if row.nodes > 1 else []), *(["modelled"] if modelled else [])])


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
    for wider, quicker in of_links(panel.levers)[:1]:
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


def floor_line(count: int, each_s: float, kept: float = 1.0) -> str:
    """Return how long `count` all-reduces of a token take whatever the links carry, of which a step keeps `kept`."""
    rate = whole_number(float(f"{kept / (count * each_s):.3g}"))
    text = f"Floor: {count} all-reduces x {units.format_time(each_s)} = {1e3 * count * each_s:.2g} ms"
    return f"{text}: under {rate} tokens/s on any link."


def batch_line(row: Point, found: Crossover) -> str:
    """Return the batch from which bytes outweigh latency, and that from which twice the bandwidth saves 5 %."""
    text = f"Bytes outweigh latency from batch {found.batch_at_double_floor:.0f}"
    return f"{text}; {pays_text(row.scenario)}."


def pays_text(scenario: Scenario) -> str:
    """Return the batch from which on twice the bandwidth of the layout's link saves what the model can tell."""
    span = scenario.system.fabric.span(scenario.layout.stage_devices)
    batch = pays_from(scenario)
    where = link_name(scenario.system, span.tier)
    if batch is None:
        return f"2x {where} never saves {100 * TIE:.0f} %"
    return f"2x {where} saves {100 * TIE:.0f} % from batch {batch:.0f}"


def pays_from(scenario: Scenario) -> float | None:
    """Return the batch from which on twice the bandwidth of the layout's link saves what the model can tell."""
    (_, path, factor), _ = link_changes(scenario.system.fabric.span(scenario.layout.stage_devices).tier)
    base = scenario.having({"workload.batch": 1.0})
    batches = {"workload.batch": _BATCHES}
    before = points(base, batches).tpot_s
    after = points(base, {**batches, path: base.value(path) * factor}).tpot_s
    saves = np.flatnonzero(1 - after / before >= TIE)
    return float(_BATCHES[saves[0]]) if len(saves) else None


def assumed(row: Point, defaults: Sequence[Default], *, batch: bool = True) -> str:
    """Return in one line what nobody stated."""
    workload = row.scenario.workload
    words = {
        "--batch": "batch 1" if batch else "",
        "--context": f"context {whole_number(float(np.mean(workload.context_tokens)))}",
        "--kv": f"{workload.kv_dtype} KV cache",
        "--weights": f"{workload.weight_dtype} weights",
        "--engine": row.engine,
        "--mode": "CUDA graphs" if row.scenario.stack.mode == "graph" else f"{row.scenario.stack.mode} mode",
    }
    told = [words[default.flag] for default in defaults if words.get(default.flag)]
    return "; ".join([", ".join(told), *brought(defaults)])


def brought(defaults: Sequence[Default]) -> list[str]:
    """Return what cluster files and measured numbers brought, in short."""
    return [
        f"{default.flag.replace('--on', 'from').removeprefix('--')}: {default.value}"
        for default in defaults
        if default.flag.startswith(MEASURED)
    ]

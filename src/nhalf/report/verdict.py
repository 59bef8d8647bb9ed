"""The verdict in words: what binds, which layout is best, and what a wider link or a lower latency would buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units
from nhalf.decide.comparison import exchanged
from nhalf.decide.levers import of_links
from nhalf.decide.regime import TIE
from nhalf.report import fields
from nhalf.report.view import percent, whole_number
from nhalf.report.words import joined, span, unit, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison, Panel, Row


NOTHING = 0.001
"""A part of a step below this is not worth a word."""
_APART = 2.0
"""The bytes of collectives are said apart from what the links take for them, where they differ by more than this."""
_EARNEST = 0.005
"""A wider link must save half a per cent of the step more than a quicker one, or less, to be advice."""


def of_flips(comparison: Comparison) -> list[str]:
    """Return where advice flips between batches, and which of several systems is the fastest at each."""
    systems = list(dict.fromkeys(panel.system for panel in comparison.panels))
    flips = [_flip(comparison, system) for system in systems]
    if len(systems) > 1:
        flips += _winners(comparison)
    return [flip for flip in flips if flip]


def _winners(comparison: Comparison) -> list[str]:
    """Return which of several systems is the fastest at each batch."""
    said = []
    for batch in dict.fromkeys(panel.batch for panel in comparison.panels):
        rows = [panel.fastest for panel in comparison.panels if panel.batch == batch and panel.tied]
        if len(rows) > 1:
            first, second, *_ = sorted(rows, key=lambda row: row.step_s)
            ahead = percent(second.step_s / first.step_s - 1)
            winner, loser = first.scenario.system.name, second.scenario.system.name
            said.append(f"Batch {batch:g}: {winner} with {first.layout_name} is the fastest, {ahead} ahead of {loser}.")
    return said


def _flip(comparison: Comparison, system: str) -> str:
    """Return a sentence when one batch of a system wants latency and another bandwidth from the same links.

    Both wishes must be there to see, and each in earnest at one batch at least: gains that differ less are noise.
    """
    wants: dict[str, list[str]] = {}
    most: dict[str, float] = {}
    for panel in comparison.panels:
        pairs = of_links(panel.levers)
        if not panel.tied or not pairs or panel.system != system:
            continue
        ahead = pairs[0][0].gain - pairs[0][1].gain
        if abs(ahead) >= NOTHING:
            want = "a wider link" if ahead > 0 else "a lower latency"
            wants.setdefault(want, []).append(f"{panel.batch:g}")
            most[want] = max(most.get(want, 0.0), abs(ahead))
    if len(wants) < 2 or min(most.values()) < _EARNEST:  # noqa: PLR2004  two wishes make a flip
        return ""
    parts = [f"at batch {joined(batches)} {want} buys more" for want, batches in wants.items()]
    several = len({panel.system for panel in comparison.panels}) > 1
    cluster = f"Same cluster ({system})" if several else "Same cluster"
    return f"{cluster}, opposite advice: {', '.join(parts)}."


def inner_notes(comparison: Comparison) -> list[str]:
    """Return what part of each panel's fastest step collectives take, and what it takes to do without peer access."""
    panels = [panel for panel in comparison.panels if panel.tied]
    notes = []
    for panel in panels:
        where = f"{panel.system}, batch {panel.batch:g}: " if len(panels) > 1 else ""
        notes += [where + text for text in (_collectives(panel.fastest), _without_peers(panel.fastest)) if text]
    return notes


def _collectives(row: Row) -> str:
    """Return what part of a step collectives take, and what of it links, software and prompts."""
    fixed, transfer = (row.columns[f"collective_{part}"] / row.step_s for part in ("fixed", "transfer"))
    if row.scenario.layout.stage_devices == 1:
        return ""
    inner = exchanged(row.step)
    links, prompts = inner.link_bytes_s / row.step_s, inner.prefill_s / row.step_s
    text = f"Collectives take {percent(fixed + transfer)} of the {whole(row)}, of which bytes {percent(transfer)}"
    if transfer >= NOTHING and transfer > _APART * links:
        text += f" (the links' {percent(links)}; the rest is software, which a wider link does not move)"
    if prompts >= NOTHING:
        text += f", and those inside the prefills {percent(prompts)} more"
    return text + "."


def _without_peers(row: Row) -> str:
    """Return how much slower a step is than with peer access, where it has none and devices talk inside a node."""
    if row.peers_s is None or row.step_s <= row.peers_s:
        return ""
    times = fields.count(float(f"{row.step_s / row.peers_s:.2g}"))
    return f"With peer access it would take {units.format_time(row.peers_s)}: this is {times} times as long."


def said(comparison: Comparison) -> tuple[str, str]:
    """Return the verdict on a comparison, and the number with its range."""
    panels = comparison.panels
    if len(panels) > 1:
        flips = [] if faint(panels) else of_flips(comparison)
        return " ".join(flips) or _steady(panels), _beyond(panels)
    [panel] = panels
    if not panel.tied:
        return _unfit(panel), ""
    lacks = [_lacks(others) for others in [_alone(panel)] if others]
    return _best(panel), " ".join([_range(panel.fastest), *lacks, *_slower(panel), *_capped(panel)])


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


def faint(panels: Sequence[Panel]) -> bool:
    """Tell whether no change of a link saves what the model can tell from nothing, on the one system asked for."""
    gains = [lever.gain for panel in panels if panel.tied for pair in of_links(panel.levers) for lever in pair]
    return len({panel.system for panel in panels}) == 1 and max(gains, default=0.0) < TIE


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
    if _alone(panel):
        return f"Only {row.layout_name} fits: {figure}."
    if tied:
        return f"{row.layout_name} is fastest: {figure}; {joined(tied)} within {100 * TIE:.0f} %."
    return f"{row.layout_name} is fastest: {figure}."


def _alone(panel: Panel) -> list[Row]:
    """Return the other rows where none of them fits in memory."""
    others = [each for each in panel.rows if each is not panel.fastest]
    return others if all(each.fits_memory == "no" for each in others) else []


def _range(row: Row) -> str:
    return f"80 % range: {span(row.tpot_low_s, row.tpot_high_s)}."


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
    return f"Does not fit: {_lacks(panel.rows)}"


def _lacks(rows: Sequence[Row]) -> str:
    """Return what the smallest of some rows needs, which is too much."""
    row = min(rows, key=lambda each: each.memory_bytes)
    needed, usable = (fields.gigabytes(size) for size in (row.memory_bytes, row.memory.usable_bytes))
    return f"{row.layout_name} needs {needed} GB per GPU, {usable} GB are usable."

"""The answer of `nhalf decode` as text: the verdict, the number, the table, what it rests on, the next command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units
from nhalf.decide.regime import TIE
from nhalf.predict.memory import usable_bytes
from nhalf.report import decode_notes, decode_parts, verdict
from nhalf.report.canvas import grid
from nhalf.report.decode_bands import band_notes, launched_notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from nhalf.decide.comparison import Comparison, Panel, Row
    from nhalf.decide.regime import Crossover
    from nhalf.loading import Default
    from nhalf.report.canvas import Canvas
    from nhalf.workload import Workload

MATTERS = 0.01
"""A constant is shown when one per cent of it moves the step by at least a hundredth of a per cent."""
_KIND_ORDER = ("assumed", "fitted", "derived", "measured", "datasheet", "given")
_FEW = 3


def write(comparison: Comparison, defaults: Sequence[Default], canvas: Canvas, *, next_command: str) -> None:
    """Write the whole answer of `nhalf decode` on a canvas."""
    canvas.paragraph(verdict.of_comparison(comparison), bold=True)
    for panel in comparison.panels:
        _number(panel, canvas, several=len(comparison.panels) > 1)
    _tables(comparison, canvas)
    decode_parts.write_remedies(comparison, canvas)
    decode_parts.write_transfer(comparison, canvas)
    _turn_over(comparison, canvas)
    _crossovers(comparison, canvas)
    _levers(comparison, canvas)
    decode_parts.write_memory(comparison, canvas)
    _constants(comparison, canvas)
    if defaults:
        canvas.heading("Defaults taken")
        for default in defaults:
            canvas.paragraph(f"  {default.flag} {default.value}: {default.reason}", indent="    ")
    canvas.following(next_command)


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds to two decimals, so that columns add up by eye, and `0` for none."""
    return f"{1e3 * seconds:.2f}" if seconds else "0"


def _number(panel: Panel, canvas: Canvas, *, several: bool) -> None:
    """Write the one number of a panel with its band."""
    if not panel.tied:
        return
    row = panel.fastest
    where = f"  ({panel.system}, batch {panel.batch:g}, {row.layout_name})" if several else ""
    band = f"{units.format_time(row.low_s)} to {units.format_time(row.high_s)}"
    per = verdict.unit(row)
    canvas.paragraph(f"{units.format_time(row.step_s)} per {per}, 80 % band {band}{where}")


def _tables(comparison: Comparison, canvas: Canvas) -> None:
    """Write the table of each panel, next to each other where the width allows."""
    panels = comparison.panels
    shared = panels[0].fastest.scenario
    workload = shared.workload
    canvas.heading(
        f"{shared.transformer.name}, {workload.weight_dtype} weights, {workload.kv_dtype} {_work(workload)}, "
        f"{shared.stack.engine} in {shared.stack.mode} mode; ms per {verdict.whole(panels[0].fastest)}"
    )
    titled = len(panels) > 1
    narrow = not all(canvas.fits(_table(panel, titled=titled)) for panel in panels)
    if titled or narrow:
        canvas.side_by_side([_summary(panel) for panel in panels])
    for panel in panels:
        canvas.place(_table(panel, titled=titled or narrow, narrow=narrow))
    notes = _notes(comparison)
    for note in notes:
        canvas.paragraph(note, indent="  ")


def _work(workload: Workload) -> str:
    """Return what a step works on, in words."""
    if workload.phase == "prefill":
        chunk = f" in chunks of {workload.chunk_tokens:g}" if workload.chunk_tokens else ""
        return f"cache, prompts of {workload.prompt_tokens:g} tokens{chunk}"
    drafted = f", {workload.tokens_per_step - 1:g} tokens drafted" if workload.tokens_per_step != 1 else ""
    return f"cache of {workload.context_tokens:g} tokens{drafted}"


_COLUMN_NAMES = {
    "weights": "weights", "experts": "experts", "kv": "KV", "compute": "compute", "collective_fixed": "c.fixed",
    "collective_transfer": "c.bytes", "hand_over": "hand-over", "prefill": "prefill", "launch": "launch",
}  # fmt: skip
"""The heads of the columns; `c.` is a collective's."""
_MARKS = {"yes": "", "marginal": "?", "no": "!"}
_ALWAYS = {"weights", "kv", "compute", "launch", "collective_fixed", "collective_transfer"}


def _summary(panel: Panel) -> Table:
    """Return the small table of a panel that stands beside others: the step, the rate and what binds."""
    rows = [[*_named(row, panel), milliseconds(row.step_s), _rate(row), row.binding] for row in panel.rows]
    title = f"{panel.system}, batch {panel.batch:g}"
    return grid([*_heads(panel), "step", "tok/s", "<binds"], rows, marked=_marked(panel), title=title, gap=1)


def _label(row: Row, panel: Panel) -> str:
    """Return a TP degree with its marks: how it fits, and whether it ties with the fastest."""
    label = str(row.tp) if _only_tensor(panel) else row.layout_name
    return f"{label}{_MARKS[row.fits_memory]}{'*' if row in panel.tied else ''}"


def _head(panel: Panel) -> str:
    """Return the head of the column of layouts."""
    return "TP" if _only_tensor(panel) else "<layout"


def _named(row: Row, panel: Panel) -> list[str]:
    """Return the cells that name a layout: itself, and its devices where rows differ in them beyond TP."""
    return [_label(row, panel), *([str(row.scenario.layout.devices)] if decode_parts.sizes_differ(panel) else [])]


def _heads(panel: Panel) -> list[str]:
    """Return the heads over the cells that name a layout."""
    return [_head(panel), *(["GPUs"] if decode_parts.sizes_differ(panel) else [])]


def _only_tensor(panel: Panel) -> bool:
    """Tell whether the layouts of a panel differ from one device by TP alone."""
    return all(row.layout_name == f"TP{row.tp}" for row in panel.rows)


def _marked(panel: Panel) -> list[int]:
    """Return the indices of the rows within the tie."""
    return [index for index, row in enumerate(panel.rows) if row in panel.tied]


def _table(panel: Panel, *, titled: bool, narrow: bool = False) -> Table:
    """Return the table of a panel: columns that add up to the step, and unless it is narrow the rate and what binds."""
    shown = [name for name in _COLUMN_NAMES if name in _ALWAYS or any(row.columns[name] > 0 for row in panel.rows)]
    heads = {"hand_over": "hand"} if narrow else {}
    first = [_head(panel)] if narrow else _heads(panel)
    names = [*first, *(heads.get(name, _COLUMN_NAMES[name]) for name in shown), "step"]
    rows = [
        [
            *_named(row, panel)[: len(first)],
            *(milliseconds(row.columns[name]) for name in shown),
            milliseconds(row.step_s),
        ]
        for row in panel.rows
    ]
    if not narrow:
        names += ["tok/s", "<binds"]
        rows = [[*cells, _rate(row), row.binding] for cells, row in zip(rows, panel.rows, strict=True)]
    title = f"{panel.system}, batch {panel.batch:g}, column by column" if titled else ""
    return grid(names, rows, marked=_marked(panel), title=title, gap=1 if narrow else 2)


def _rate(row: Row) -> str:
    """Return the tokens per second of one user, or those of a prompt."""
    return verdict.count(row.tokens_per_s_per_user)


def _notes(comparison: Comparison) -> list[str]:
    """Return what the marks in the tables mean, for those that occur."""
    notes = [f"c.fixed, c.bytes: collectives. * within {100 * TIE:.0f} % of the fastest that fits."]
    if any(row.accepted_tokens != 1 for row in comparison.rows):
        notes.append("tok/s counts the tokens that are kept; the time to draft them is not in the step.")
    for row in comparison.rows:
        if row.fits_memory != "yes":
            low, high = usable_bytes(row.scenario)
            fits = "! does not fit" if row.fits_memory == "no" else "? fits only if the driver reports enough memory"
            notes.append(
                f"{fits}: {row.layout_name}, batch {row.batch:g} needs {row.memory_bytes / 1e9:.1f} GB on each "
                f"device; {low / 1e9:.1f} to {high / 1e9:.1f} GB are usable."
            )
    return [
        *notes,
        *decode_notes.size_notes(comparison),
        *_unmeasured(comparison),
        *decode_notes.link_notes(comparison.rows),
        *decode_notes.exchange_notes(comparison),
        *launched_notes(comparison),
    ]


def _unmeasured(comparison: Comparison) -> list[str]:
    """Return what was not measured inside a node: the library in that mode, on that system."""
    rows = [row for row in comparison.rows if row.tp > 1 and not row.crosses_nodes and row.curve is None]
    keys = dict.fromkeys(
        (row.scenario.stack.library.name, str(row.scenario.stack.mode), row.scenario.system.name) for row in rows
    )
    lent = dict.fromkeys(
        (row.curve.key.system, row.curve.lent_to)
        for row in comparison.rows
        if row.curve is not None and row.curve.lent_to
    )
    return [
        *(
            f"No all-reduce of {library} in {mode} mode was measured on {system}; "
            f"{decode_notes.plan_of(library)} taken instead."
            for library, mode, system in keys
        ),
        *(
            f"No all-reduce was measured on {system}; the curve of {sibling}, a sibling, stands in, with a wider band."
            for sibling, system in lent
        ),
    ]


def _turn_over(comparison: Comparison, canvas: Canvas) -> None:
    """Write the turn-over of each panel as a set."""
    panels = [panel for panel in comparison.panels if len(panel.rows) > 1 and panel.tied]
    if not panels:
        return
    canvas.heading("Turn-over")
    for panel in panels:
        devices = max(row.scenario.layout.devices for row in panel.tied)
        most = max(row.scenario.layout.devices for row in panel.rows if row.fits_memory != "no")
        names = [row.layout_name for row in sorted(panel.tied, key=lambda row: row.scenario.layout.devices)]
        span = names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}" if _only_tensor(panel) else ", ".join(names)
        within = f"{span} within {100 * TIE:.0f} %" if len(names) > 1 else f"{span} alone within {100 * TIE:.0f} %"
        beyond = "more devices make a stream slower" if most > devices else "not reached by the layouts asked for"
        canvas.paragraph(f"  {panel.system}, batch {panel.batch:g}: {within}; {beyond}", indent="    ")


def _crossing(found: Crossover) -> list[str]:
    """Return the cells of one crossover."""
    return [
        f"TP{found.ranks}",
        _TIERS[found.tier],
        units.format_time(found.latency_s),
        units.format_bandwidth(found.bandwidth_bytes_per_s),
        _size(found.half_size_bytes),
        f"{found.batch_at_half_size:.0f}",
        _size(found.double_floor_size_bytes),
        f"{found.batch_at_double_floor:.0f}",
        found.kind,
    ]


def _crossovers(comparison: Comparison, canvas: Canvas) -> None:
    """Write where each collective turns from latency to bandwidth, by both measures."""
    if not comparison.crossovers:
        return
    message = comparison.crossovers[0].message_bytes_per_sequence
    of = "tokens" if comparison.rows[0].prefills else "batch"
    canvas.heading(f"Crossovers of the all-reduce (one message is {of} x {units.format_size(message)})")
    heads = ["<", "<path", "alpha", "beta", "n_1/2", f"at {of}", "2x floor", f"from {of}", "<kind"]
    systems = dict.fromkeys(found.system for found in comparison.crossovers)
    for system in systems:
        rows = [_crossing(found) for found in comparison.crossovers if found.system == system]
        title = system if len(systems) > 1 else ""
        table = grid(heads, rows, title=title)
        canvas.place(table if canvas.fits(table) else grid(heads, rows, title=title, gap=1))
    canvas.paragraph(
        f"  2x floor is the size that takes twice the floor: use it. Below the {of} that it is reached from, a wider "
        "link buys little. n_1/2 = alpha x beta is of one line through the whole curve and overstates it"
        f"{_planned_line(comparison)}.",
        indent="  ",
    )


def _planned_line(comparison: Comparison) -> str:
    """Return why an alpha may lie above the time of a whole small all-reduce, where a plan changes algorithms.

    The line weighs all sizes alike, those with the fixed time of the algorithms of long messages too.
    """
    across = any(found.tier != "intra_node" for found in comparison.crossovers)
    return "; across nodes alpha may lie above a small all-reduce, as the plan changes algorithms" if across else ""


_TIERS = {"intra_node": "in node", "inter_node": "across", "inter_rack": "racks"}


def _size(size_bytes: float) -> str:
    """Return a size in binary units, of three significant digits."""
    return units.format_size(size_bytes, binary=True) if size_bytes < float("inf") else "never"


def _levers(comparison: Comparison, canvas: Canvas) -> None:
    """Write what would help, one line a lever with a column for each panel."""
    panels = [panel for panel in comparison.panels if panel.tied]
    if not panels:
        return
    canvas.heading("What would help (part of the step saved)")
    names: list[str] = list(dict.fromkeys(lever.name for panel in panels for lever in panel.levers))
    gains = [{lever.name: lever.gain for lever in panel.levers} for panel in panels]
    rows = [[name, *(verdict.percent(gain[name]) if name in gain else "-" for gain in gains)] for name in names]
    rows.sort(key=lambda row: -max(gain.get(row[0], 0.0) for gain in gains))
    several = len({panel.system for panel in panels}) > 1
    heads = [f"{panel.system}, " * several + f"batch {panel.batch:g}, {panel.fastest.layout_name}" for panel in panels]
    table = grid(["<change", *heads], rows)
    if canvas.fits(table):
        canvas.place(table)
        return
    for head, panel in zip(heads, panels, strict=True):
        best = sorted(panel.levers, key=lambda lever: -lever.gain)[:_FEW]
        told = ", ".join(f"{lever.name} {verdict.percent(lever.gain)}" for lever in best)
        canvas.paragraph(f"  {head}: {told}", indent="    ")


def _constants(comparison: Comparison, canvas: Canvas) -> None:
    """Write the constants that matter with source and kind, assumed ones first."""
    row = comparison.panels[0].fastest
    moved = [
        (path, origin, row.elasticities.get(path, 0.0))
        for path, origin in row.scenario.origins.items()
        if abs(row.elasticities.get(path, 0.0)) >= MATTERS
    ]
    moved.sort(key=lambda item: (_KIND_ORDER.index(item[1].kind), -abs(item[2])))
    canvas.heading(f"Constants that matter for {row.layout_name}, batch {row.batch:g}: % of step per % (95 % interval)")
    for path, origin, share in moved:
        interval = ""
        if origin.low is not None and origin.high is not None:
            low, high = units.format_value(origin.low, origin.unit), units.format_value(origin.high, origin.unit)
            interval = f" ({low} to {high})"
        value = units.format_value(origin.value, origin.unit)
        canvas.paragraph(
            f"  {share:+.2f} {path} = {value}{interval}, {origin.kind} [{origin.source}]", indent="        "
        )
    if row.curve is not None:
        key = f"{row.curve.key} x{row.tp}"
        how = "moved from what was measured" if row.curve.is_moved(row.tp) else "measured"
        canvas.paragraph(f"  all-reduce: {key}, {how} [{row.curve.source}]", indent="        ")
    for note in band_notes(row):
        canvas.paragraph(f"  {note}", indent="        ")

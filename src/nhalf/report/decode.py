"""What `nhalf decode` says below its first screen: the columns, what they rest on, crossovers, levers, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units
from nhalf.decide.regime import TIE
from nhalf.predict.memory import usable_bytes
from nhalf.report import decode_notes, decode_parts, fields, verdict, words
from nhalf.report.decode_brief import brief
from nhalf.report.decode_document import document
from nhalf.report.decode_notes import band_notes, launched_notes
from nhalf.report.view import View, percent, ranged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison, Panel, Row
    from nhalf.decide.regime import Crossover
    from nhalf.loading import Default
    from nhalf.report.canvas import Canvas
    from nhalf.workload import Workload

MATTERS = 0.01
"""A constant is shown when one per cent of it moves the step by at least a hundredth of a per cent."""
_KIND_ORDER = ("assumed", "fitted", "derived", "measured", "datasheet", "given")


def view(
    comparison: Comparison, defaults: Sequence[Default] = (), warnings: Sequence[str] = (), *, next_command: str = ""
) -> View:
    """Return the answer in every form."""
    return View(
        document=lambda: document(comparison, defaults, warnings),
        rows="rows",
        brief=lambda: brief(comparison, defaults, next_command=next_command),
        below=lambda canvas: write(comparison, canvas),
        defaults=defaults,
        found=comparison,
    )


def write(comparison: Comparison, canvas: Canvas) -> None:
    """Write all that the first screen has no room for."""
    _tables(comparison, canvas)
    decode_parts.write_remedies(comparison, canvas)
    decode_parts.write_transfer(comparison, canvas)
    _crossovers(comparison, canvas)
    _levers(comparison, canvas)
    decode_parts.write_memory(comparison, canvas)
    _constants(comparison, canvas)


def _tables(comparison: Comparison, canvas: Canvas) -> None:
    """Write a table for each panel: columns that add up to the step, the rate and what binds."""
    panels = comparison.panels
    shared = panels[0].fastest.scenario
    workload = shared.workload
    per = words.whole(panels[0].fastest)
    what = f"{shared.transformer.name}, {workload.weight_dtype} weights, {workload.kv_dtype} {_work(workload)}, "
    what += f"{shared.stack.engine} in {shared.stack.mode} mode; ms per {per}"
    for place, panel in enumerate(panels):
        title = f"{panel.system}, batch {panel.batch:g}, column by column" if len(panels) > 1 else ""
        canvas.heading(what if not title else title if place else f"{what}\n\n{title}")
        parts = [name for name in _COLUMN_NAMES if name in _ALWAYS or any(row.columns[name] > 0 for row in panel.rows)]
        heads = [*_heads(panel), *(_COLUMN_NAMES[name] for name in parts), "step", "tok/s", "<most time"]
        rows = [
            [
                *_named(row, panel),
                *(fields.milliseconds(row.columns[name]) for name in parts),
                *fields.cells(row, ("step_s", "tokens_per_s_per_user")),
                words.most(row.binding).removeprefix("per-layer "),
            ]
            for row in panel.rows
        ]
        canvas.table(heads, rows, marked=[index for index, row in enumerate(panel.rows) if row in panel.tied])
    for note in _notes(comparison):
        canvas.paragraph(note, indent="  ")


def _work(workload: Workload) -> str:
    """Return what a step works on, in words."""
    if workload.phase == "prefill":
        chunk = f" in chunks of {workload.chunk_tokens:g}" if workload.chunk_tokens else ""
        return f"cache, prompts of {workload.prompt_tokens:g} tokens{chunk}"
    drafted = f", {workload.tokens_per_step - 1:g} tokens drafted" if workload.tokens_per_step != 1 else ""
    return f"cache of {workload.context_tokens:g} tokens{drafted}"


_COLUMN_NAMES = {
    "weights": "weights", "experts": "experts", "kv": "KV", "compute": "arithmetic", "collective_fixed": "latency",
    "collective_transfer": "bytes", "hand_over": "pipeline", "prefill": "prefill", "launch": "overhead",
}  # fmt: skip
"""The heads of the columns; latency and bytes are those of collectives."""
_MARKS = {"yes": "", "marginal": "?", "no": "!"}
_ALWAYS = {"weights", "kv", "compute", "launch", "collective_fixed", "collective_transfer"}


def _label(row: Row, panel: Panel) -> str:
    """Return a TP degree with its marks: how it fits, and whether it ties with the fastest."""
    label = str(row.tp) if _only_tensor(panel) else row.layout_name
    return f"{label}{_MARKS[row.fits_memory]}{'*' if row in panel.tied else ''}"


def _named(row: Row, panel: Panel) -> list[str]:
    """Return the cells that name a layout: itself, and its devices where rows differ in them beyond TP."""
    return [_label(row, panel), *([str(row.scenario.layout.devices)] if decode_parts.sizes_differ(panel) else [])]


def _heads(panel: Panel) -> list[str]:
    """Return the heads over the cells that name a layout."""
    return ["TP" if _only_tensor(panel) else "<layout", *(["GPUs"] if decode_parts.sizes_differ(panel) else [])]


def _only_tensor(panel: Panel) -> bool:
    """Tell whether the layouts of a panel differ from one device by TP alone."""
    return all(row.layout_name == f"TP{row.tp}" for row in panel.rows)


def _notes(comparison: Comparison) -> list[str]:
    """Return what the marks in the tables mean, for those that occur."""
    notes = [f"latency, bytes: of collectives. * within {100 * TIE:.0f} % of the fastest that fits."]
    if any(row.accepted_tokens != 1 for row in comparison.rows):
        kept = comparison.panels[0].fastest.accepted_tokens
        notes.append(f"A step keeps {kept:.3g} tokens, which tok/s counts; the time to draft them is not in it.")
    if comparison.rows[0].prefills:
        notes.append("A prefill is timed to the first token, without queueing.")
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
        *verdict.inner_notes(comparison),
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


def _crossing(found: Crossover) -> list[str]:
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
    found = comparison.crossovers
    if not found:
        return
    of = "tokens" if comparison.rows[0].prefills else "batch"
    message = units.format_size(found[0].message_bytes_per_sequence)
    canvas.heading(f"Crossovers of the all-reduce (one message is {of} x {message})")
    several = len({each.system for each in found}) > 1
    heads = ["<", "<path", "alpha", "beta", "n_1/2", f"at {of}", "crossover", f"from {of}", "<kind"]
    rows = [[*([each.system] if several else []), *_crossing(each)] for each in found]
    canvas.table([*(["<system"] if several else []), *heads], rows)
    changes = "; across nodes alpha may lie above a small all-reduce, as the plan changes algorithms"
    canvas.paragraph(
        f"  The crossover takes twice the time of the smallest message: use it. Below the {of} that reaches it, a "
        "wider link buys little. n_1/2 = alpha x beta is of one line through the whole curve and overstates it"
        f"{changes if any(each.tier != 'intra_node' for each in found) else ''}.",
        indent="  ",
    )


_TIERS = {"intra_node": "inside", "inter_node": "across", "inter_rack": "racks"}


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
    rows = [[name, *(percent(gain[name]) if name in gain else "-" for gain in gains)] for name in names]
    rows.sort(key=lambda row: -max(gain.get(row[0], 0.0) for gain in gains))
    several = len({panel.system for panel in panels}) > 1
    heads = [f"{panel.system}, " * several + f"batch {panel.batch:g}, {panel.fastest.layout_name}" for panel in panels]
    canvas.table(["<change", *heads], rows)


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
        told = f"{share:+.2f} {path} = {ranged(origin)}, {origin.kind} [{origin.source}]"
        canvas.paragraph(f"  {told}", indent="        ")
    if row.curve is not None:
        key = f"{row.curve.key} x{row.tp}"
        how = "moved from what was measured" if row.curve.is_moved(row.tp) else "measured"
        canvas.paragraph(f"  all-reduce: {key}, {how} [{row.curve.source}]", indent="        ")
    for note in band_notes(row):
        canvas.paragraph(f"  {note}", indent="        ")

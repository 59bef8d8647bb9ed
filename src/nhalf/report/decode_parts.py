"""Parts of the answer of `nhalf decode` that not every one has: memory, remedies, caches on their way, term trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf import units
from nhalf.breakdown import Term, columns
from nhalf.report.document import of, whole
from nhalf.report.view import percent

if TYPE_CHECKING:
    from nhalf.breakdown import Input
    from nhalf.decide.comparison import Comparison, Panel, Row
    from nhalf.report.canvas import Canvas


def sizes_differ(panel: Panel) -> bool:
    """Tell whether the layouts of a panel are of several numbers of devices, and not all of TP alone."""
    layouts = [row.scenario.layout for row in panel.rows]
    return len({each.devices for each in layouts}) > 1 and any(each.devices > each.tensor_parallel for each in layouts)


def write_memory(comparison: Comparison, canvas: Canvas) -> None:
    """Write what each layout holds on a device, and how many sequences fit; each layout of a system once."""
    canvas.heading("Memory on each device (GB)")
    several = len({panel.system for panel in comparison.panels}) > 1
    rows: dict[tuple[str, str], list[Row]] = {}
    for row in comparison.rows:
        rows.setdefault((row.scenario.system.name, row.layout_name), []).append(row)
    batches = [f"{row.batch:g}" for row in next(iter(rows.values()))]
    cells = [
        [
            ", ".join(key) if several else key[1],
            _gigabytes(each[0].memory.weights_bytes),
            " / ".join(_gigabytes(row.memory.cache_bytes) for row in each),
            _gigabytes(each[0].memory.workspace_bytes),
            _gigabytes(each[0].memory.usable_bytes),
            f"{each[0].memory.largest_batch:.0f}",
        ]
        for key, each in rows.items()
    ]
    cache = f"KV at batch {' / '.join(batches)}"
    canvas.table(["<layout", "weights", cache, "workspace", "usable", "largest batch"], cells)
    for row in comparison.rows:
        if row.running < row.batch:
            canvas.paragraph(f"  {_cap(row)}", indent="    ")


def _gigabytes(size_bytes: float) -> str:
    """Return a size in GB to one decimal, more where that is nothing."""
    size = size_bytes / 1e9
    return f"{size:.1f}" if size >= 0.95 or not size else f"{size:.2g}"  # noqa: PLR2004  where one decimal has one digit


def _cap(row: Row) -> str:
    """Return in words that the cache holds fewer sequences than ask for it."""
    most = "1" if row.running <= 1 else f"{row.running:.0f}"
    return (
        f"{row.layout_name}, batch {row.batch:g}: the KV cache has room for {most} of {row.batch:g} sequences of "
        f"{_length(row):g} tokens; the others wait, and the step is that of {most}."
    )


def _length(row: Row) -> float:
    """Return the tokens of a sequence at its longest."""
    workload = row.scenario.workload
    return float(np.mean(workload.prompt_tokens + workload.output_tokens))


def write_remedies(comparison: Comparison, canvas: Canvas) -> None:
    """Write what each remedy that is on saves, a line each."""
    panels = [panel for panel in comparison.panels if panel.remedies]
    if not panels:
        return
    what = "prompt" if panels[0].rows[0].prefills else "token"
    canvas.heading(f"What the remedies save (time per {what} without it, with it)")
    said: set[str] = set()
    for panel in panels:
        where = f"{panel.fastest.layout_name}, batch {panel.batch:g}: " if len(panels) > 1 else ""
        for remedy in panel.remedies:
            times = f"{units.format_time(remedy.without_s)} to {units.format_time(remedy.with_s)}"
            word = "saves" if remedy.gain >= 0 else "costs"
            limit = "" if remedy.name in said else f" Limit: {remedy.limit}."
            said.add(remedy.name)
            text = f"{where}{remedy.name}: {word} {percent(abs(remedy.gain))}, {times}.{limit}"
            canvas.paragraph(f"  {text}", indent="      ")


def write_transfer(comparison: Comparison, canvas: Canvas) -> None:
    """Write what handing over the cache takes, and what binds it."""
    rows = [row for row in comparison.rows if row.transfer is not None]
    if not rows:
        return
    canvas.heading("Cache from prefill to decode (each device over a link of its own)")
    for row in rows:
        found = transfer(row)
        if found is None:
            continue
        words = f"{units.format_size(found['bytes_per_device'])} a device, {units.format_size(found['bytes'])} in all, "
        words += f"take {units.format_time(found['time_s'])}; {found['binding']} binds. "
        share = found["time_s"] / row.step_s
        hidden = "sent layer by layer the prefill hides it" if share < 1 else "the link is slower than the prefill"
        after = units.format_time(row.step_s + found["time_s"])
        words += f"That is {percent(share)} of the prefill: {hidden}; sent at its end, {after} in all."
        canvas.paragraph(f"  {row.layout_name}, batch {row.batch:g}: {words}", indent="    ")


def transfer(row: Row) -> dict[str, Any] | None:
    """Return the keys of the transfer of a cache; None where none was asked for."""
    if row.transfer is None:
        return None
    owed = {name: float(np.mean(value)) for name, value in columns(row.transfer).items()}
    sent = row.memory.cache_bytes
    return {
        "bytes_per_device": sent,
        "bytes": sent * row.scenario.layout.devices,
        "time_s": float(row.transfer.value),
        "latency_s": owed["fixed"],
        "transfer_s": owed["transfer"],
        "binding": "latency" if owed["fixed"] > owed["transfer"] else "bandwidth",
    }


def memory(row: Row) -> dict[str, Any]:
    """Return the keys of what a device of a row holds."""
    return of(row.memory, "weights_bytes", "workspace_bytes", "usable_bytes", kv_bytes="cache_bytes")


def remedies(panel: Panel) -> list[dict[str, Any]]:
    """Return what each remedy that is on saves for the fastest row of a panel."""
    where = {"system": panel.system, "batch": whole(panel.batch), "layout": panel.fastest.layout_name}
    keys = ("name", "flag", "without_s", "with_s", "gain", "limit")
    return [{**where, **of(remedy, *keys)} for remedy in panel.remedies]


def write_tree(step: Term, canvas: Canvas, title: str) -> None:
    """Write the whole tree of a step: each term's value, and each leaf's formula with its inputs.

    A term that several formulas read is written out once, where it is first read.
    """
    canvas.heading(title)
    _write(step, canvas, 0, set())


def _write(term: Term, canvas: Canvas, depth: int, seen: set[int]) -> None:
    pad = "  " * depth
    how = term.formula if term.rule == "leaf" else _HOW[term.rule]
    if term.rule == "portion":
        how = how.format(column=term.formula, whole=term.parts[0].name)
    again = id(term) in seen
    canvas.paragraph(f"{pad}{term.name} = {_value(term)}   [{'as above' if again else how}]", indent=pad + "    ")
    if again:
        return
    seen.add(id(term))
    if term.inputs:
        named = ", ".join(f"{name} = {_given(value)}" for name, value in term.inputs.items())
        canvas.paragraph(f"{pad}  with {named}", indent=pad + "    ")
    for part in term.parts:
        _write(part, canvas, depth + 1, seen)
    for given_term in term.inputs.values():
        if isinstance(given_term, Term) and id(given_term) not in seen:
            _write(given_term, canvas, depth + 1, seen)


_HOW = {
    "total": "sum of",
    "product": "product of",
    "largest": "largest of",
    "smallest": "smallest of",
    "chosen": "the one whose plan is the smallest of",
    "excess": "what the first takes beyond the second",
    "portion": "{column} part of {whole}",
}
"""How a term is folded from the parts that follow it."""


def _value(term: Term) -> str:
    """Return the value of a scalar term with its unit."""
    value = float(term.value)
    if term.unit == "s":
        return units.format_time(value)
    return f"{value:.6g}" if term.unit == "1" else f"{value:.6g} {term.unit}"


def _given(given: Input) -> str:
    """Return an input of a formula as text."""
    if isinstance(given, Term):
        return _value(given)
    return str(given) if callable(given) else f"{float(given):.6g}"

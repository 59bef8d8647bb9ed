"""The answer of `nhalf catalog`: what is known, of one thing every value with its source, and where sources differ."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.report.document import datum, envelope, of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.catalog.listing import Listed
    from nhalf.citation import Datum
    from nhalf.decide.ladder import Rung
    from nhalf.report.canvas import Canvas

_FEW = 3
"""So many named things or fewer are shown value by value."""
_DOUBTFUL = ("assumed", "fitted")
_BAR = 24
"""The widest bar of the ladder, in characters."""


_ON_A_SCREEN = 16
"""Things that a list has room for on one screen."""
_MARKS = {"added": "+", "overridden": "*", "": ""}


def write(
    listed: Sequence[Listed], canvas: Canvas, *, named: bool = False, yours: str = "", rungs: Sequence[Rung] = (),
    whole: bool = True,
) -> None:  # fmt: skip
    """Write everything in short, a list of one kind, or, where they were `named`, the values of a few things.

    Unless the `whole` is asked for, a list that is longer than a screen is one of names.
    `yours` says what the user's own catalogue adds and overrides; `rungs` are drawn where the hierarchy is listed.
    """
    kinds = list(dict.fromkeys(each.kind for each in listed))
    following = f"{kinds[0]} {_quoted(listed[0].name)}"
    few = named and len(listed) <= _FEW
    if few:
        for each in listed:
            _write_one(each, canvas)
    elif len(kinds) > 1:
        following = _plural(kinds[0])
        _write_kinds(listed, kinds, canvas)
    elif rungs:
        _write_ladder(listed, rungs, canvas)
    elif whole or len(listed) <= _ON_A_SCREEN:
        _write_list(listed, canvas)
    else:
        said = f"{len(listed)} {_plural(kinds[0])} are known; name one to see its values, or add --detail."
        canvas.paragraph(said, bold=True)
        names = Counter(f"{each.name.partition('/')[0]}{_MARKS[each.standing]}" for each in listed)
        shown = [name if count == 1 else f"{name} ({count})" for name, count in names.items()]
        canvas.paragraph(f"\n{', '.join(shown)}")
    if yours:
        marks = "" if few else " Marked + where added, * where overridden."
        canvas.paragraph(f"\nYours: {yours}{marks}", indent="  ")
    if not few:
        canvas.following(f"nhalf catalog {following}")


# --- everything -------------------------------------------------------------------------------------------------------


def _write_kinds(listed: Sequence[Listed], kinds: Sequence[str], canvas: Canvas) -> None:
    """Write how many things of each kind there are, and which are among them."""
    values = [origin for each in listed for origin in each.values.values()]
    doubtful = sum(origin.kind in _DOUBTFUL for origin in values)
    canvas.paragraph(
        f"{len(listed)} things are known, with {len(values)} values; {doubtful} of these are assumed or fitted, "
        f"{sum(_is_conflict(origin) for origin in values)} have bounds. Name a kind to list it.",
        bold=True,
    )
    rows = []
    for kind in kinds:
        names = [each.name for each in listed if each.kind == kind]
        rows.append([kind, str(len(names)), _some(names, canvas.width - 24)])
    canvas.table(["<kind", "how many", "<among them"], rows)


def _some(names: Sequence[str], width: int) -> str:
    """Return as many names as a line holds."""
    text = ""
    for index, name in enumerate(names):
        longer = f"{text}, {name}" if text else name
        if len(longer) + 5 > width:
            return f"{text}, ..." if index else longer[:width]
        text = longer
    return text


# --- one kind ---------------------------------------------------------------------------------------------------------


def _write_list(listed: Sequence[Listed], canvas: Canvas) -> None:
    """Write one kind as a table, with the columns that it has."""
    kind = listed[0].kind
    columns, row = _COLUMNS.get(kind, (("<what",), _titled))
    canvas.paragraph(
        f"{len(listed)} {_plural(kind)} are known; name one to see its values and their sources.", bold=True
    )
    rows = [[f"{each.name}{_MARKS[each.standing]}", *row(each)] for each in listed]
    canvas.table([f"<{kind}", *columns], rows)
    notes = _NOTES.get(kind)
    if notes:
        canvas.paragraph(notes, indent="  ")


def _titled(each: Listed) -> list[str]:
    return [each.title]


def _link_row(each: Listed) -> list[str]:
    latency, bandwidth = each.values["latency_s"], each.values["bandwidth_bytes_per_s"]
    half = units.format_size(latency.value * bandwidth.value, binary=True)
    kinds = latency.kind if latency.kind == bandwidth.kind else f"{latency.kind}, {bandwidth.kind}"
    return [_short(latency), _range(latency), _short(bandwidth), _range(bandwidth), half, kinds]


def _device_row(each: Listed) -> list[str]:
    names = ("memory_bytes", "memory_bandwidth_bytes_per_s", "bf16_flop_per_s", "fp8_flop_per_s", "fp4_flop_per_s")
    memory, *rates = (each.values[name] for name in names)
    balance = each.values["bf16_flop_per_s"].value / each.values["memory_bandwidth_bytes_per_s"].value
    return [
        each.facts["architecture"],
        units.format_size(memory.value, binary=False),
        *map(_short, rates),
        f"{balance:.3g}",
    ]


def _system_row(each: Listed) -> list[str]:
    fabric = "system.fabric."
    inside, across = f"{fabric}intra_node.", f"{fabric}inter_node."
    return [
        f"{each.values[f'{fabric}devices_per_node'].value:g}",
        each.facts["topology"],
        *(_short(each.values[f"{tier}{name}"]) for tier in (inside, across) for name in _LINK),
        _measured(each.facts["measured"]),
    ]


def _measured(curves: str) -> str:
    """Return in few letters whose curves a system has."""
    return "yes" if curves == "curves" else "a sibling" if curves.startswith("curves of") else ""


def _curve_row(each: Listed) -> list[str]:
    ranks = [path.removesuffix(".floor_s").removeprefix("ranks_") for path in each.values if path.endswith(".floor_s")]
    most = max(ranks, key=int)
    double = each.values.get(f"ranks_{most}.double_floor_size_bytes")
    size = units.format_size(double.value, binary=True) if double else "never"
    return [", ".join(ranks), _short(each.values[f"ranks_{most}.floor_s"]), size]


def _source_row(each: Listed) -> list[str]:
    return [each.facts.get("date", ""), each.title]


_LINK = ("latency_s", "bandwidth_bytes_per_s")
_COLUMNS: Mapping[str, tuple[Sequence[str], Callable[[Listed], list[str]]]] = {
    "link": (("latency", "<range", "bandwidth", "<range", "n_1/2", "<they are"), _link_row),
    "device": (("<architecture", "memory", "its rate", "bf16", "fp8", "fp4", "FLOP/byte"), _device_row),
    "system": (("node", "<topology", "inside", "", "across", "", "<measured"), _system_row),
    "curve": (("ranks", "floor at most", "twice it at"), _curve_row),
    "source": (("<date", "<title"), _source_row),
}
_NOTES = {
    "link": "  One device, one way. A latency is of one message, not of a collective; n_1/2 is their product.",
    "device": "  FLOP/byte: bf16 arithmetic for each byte of memory; below it a product waits for memory.",
    "system": "  node: devices in one. inside, across: what a device sends to its node, one NIC to the next.",
}


# --- the ladder -------------------------------------------------------------------------------------------------------


def _write_ladder(listed: Sequence[Listed], rungs: Sequence[Rung], canvas: Canvas) -> None:
    """Write the hierarchy: latency and bandwidth side by side, and their orders of magnitude as bars."""
    last = rungs[-1]
    canvas.paragraph(
        f"From {listed[0].name} to {listed[-1].name} latency grows by {last.latency_orders:.1f} orders of magnitude "
        f"and bandwidth shrinks by {last.bandwidth_orders:.1f}: far away it is latency that separates the rungs.",
        bold=True,
    )
    most = max(max(rung.latency_orders, rung.bandwidth_orders) for rung in rungs) or 1.0
    rows = [
        [
            f"{rung.name}{_MARKS[each.standing]}",
            units.format_time(rung.latency_s),
            f"10^{rung.latency_orders:.1f}",
            _bar(rung.latency_orders / most, canvas),
            units.format_bandwidth(rung.bandwidth_bytes_per_s),
            f"1/10^{rung.bandwidth_orders:.1f}",
            _bar(rung.bandwidth_orders / most, canvas),
        ]
        for rung, each in zip(rungs, listed, strict=True)
    ]
    canvas.table(["<rung", "latency", "x", "<slower", "bandwidth", "x", "<narrower"], rows)
    canvas.paragraph("  Around one H100, one way. x: against the first rung. Bars are decimal orders of magnitude.")


def _bar(share: float, canvas: Canvas) -> str:
    """Return a bar, as long as its share of the widest that the page has room for."""
    widest = min(_BAR, max(4, (canvas.width - 66) // 2))
    return ("#" if canvas.plain else "█") * round(max(share, 0.0) * widest)


# --- one thing --------------------------------------------------------------------------------------------------------


def _write_one(each: Listed, canvas: Canvas) -> None:
    """Write one thing, value by value; those to doubt are counted in the verdict, and bounds are said to be so."""
    values = each.values.values()
    doubtful = sum(origin.kind in _DOUBTFUL for origin in values)
    bounded = sum(_is_conflict(origin) for origin in values)
    doubts = f" {doubtful} of {len(values)} values are assumed or fitted; {bounded} have bounds." if each.values else ""
    standing = f" ({each.standing} by you)" if each.standing else ""
    canvas.paragraph(f"{each.name}{standing}: {each.title}.{doubts}", bold=True)
    for label, text in each.facts.items():
        canvas.paragraph(f"  {label}: {text}", indent="    ")
    for path, origin in each.values.items():
        date = f", {origin.date}" if origin.date else ""
        canvas.paragraph(f"  {path} = {_value(origin)}: {origin.kind}{date}", indent="    ")
        canvas.paragraph(f"    [{origin.source}] {origin.locator}", indent="    ")
        if _is_conflict(origin):
            canvas.paragraph(f"    differs: {_conflict(origin)}", indent="    ")
        if origin.note:
            canvas.paragraph(f"    {origin.note}", indent="    ")


def _is_conflict(origin: Datum) -> bool:
    """Tell whether something says another value than the one that is taken."""
    return (origin.low is not None and origin.low < origin.value) or (
        origin.high is not None and origin.high > origin.value
    )


def _conflict(origin: Datum) -> str:
    """Return how far the bounds lie from the value, both as a part of it."""
    parts = [
        f"{100 * (bound / origin.value - 1):+.3g} %"
        for bound in (origin.low, origin.high)
        if bound is not None and bound != origin.value and origin.value
    ]
    return " to ".join(parts)


def _short(origin: Datum) -> str:
    return units.format_value(origin.value, origin.unit)


def _range(origin: Datum) -> str:
    """Return the bounds of a value in one unit (`0.6-1.87 us`), open where only one is known; nothing without any."""
    ends = [end for end in (origin.low, origin.high) if end is not None]
    if not ends:
        return ""
    number, unit = units.format_value(ends[-1], origin.unit).split(" ", 1)
    base = 1024.0 if unit.endswith("iB") else 10.0
    scale = base ** round(math.log(ends[-1] / float(number), base))  # a prefix, whatever the rounding of the number
    low, high = (
        "" if end is None else number if end == ends[-1] else f"{end / scale:.3g}" for end in (origin.low, origin.high)
    )
    return f"{low}-{high} {unit}" if low and high else f"from {low} {unit}" if low else f"to {high} {unit}"


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _value(origin: Datum) -> str:
    text = _short(origin)
    low, high = (
        None if bound is None else units.format_value(bound, origin.unit) for bound in (origin.low, origin.high)
    )
    if low and high:
        return f"{text} ({low} to {high})"
    return f"{text} (from {low})" if low else f"{text} (to {high})" if high else text


def _quoted(name: str) -> str:
    return f"'{name}'" if " " in name else name


# --- the document -----------------------------------------------------------------------------------------------------


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the values of a document as rows, each with the thing it is of; a thing in a list of names is one row."""
    found = []
    for entry in document["entries"]:
        whose = {"of": entry["kind"], "name": entry["name"]}
        found += [{**whose, **value} for value in entry["values"]] or [
            {**whose, "title": entry["title"], **entry["facts"], "standing": entry["standing"]}
        ]
    return found


def document(listed: Sequence[Listed], *, yours: str = "", rungs: Sequence[Rung] = ()) -> dict[str, Any]:
    """Return the document of the contract; `ladder` holds the hierarchy where that is listed, `yours` may be null."""
    body: dict[str, Any] = {
        "yours": yours or None,
        "entries": [
            {
                **of(each, "kind", "name", "title", "standing"),
                "facts": dict(each.facts),
                "values": [{"path": path, **datum(origin)} for path, origin in each.values.items()],
            }
            for each in listed
        ],
    }
    if rungs:
        body["ladder"] = [of(rung) for rung in rungs]
    return envelope("catalog", body)

"""The answer of `nhalf catalog`: what is known, and of one thing every value with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.report.document import datum, envelope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.catalog.listing import Listed
    from nhalf.citation import Datum
    from nhalf.report.canvas import Canvas

_FEW = 3
"""So many things or fewer are shown value by value."""


def write(listed: Sequence[Listed], canvas: Canvas) -> None:
    """Write a list of names, or the values of a few."""
    if len(listed) > _FEW:
        canvas.paragraph(f"{len(listed)} things are known; name one to see its values and their sources.", bold=True)
        canvas.table(["<kind", "<name", "<what"], [[each.kind, each.name, each.title] for each in listed])
        canvas.heading("Next")
        canvas.paragraph(f"  nhalf catalog {listed[0].kind} {listed[0].name}")
        return
    for each in listed:
        _write_one(each, canvas)


def _write_one(each: Listed, canvas: Canvas) -> None:
    """Write one thing, value by value; assumed and fitted ones are counted in the verdict."""
    doubtful = sum(origin.kind in ("assumed", "fitted") for origin in each.values.values())
    canvas.paragraph(
        f"{each.name}: {each.title}. {doubtful} of {len(each.values)} values are assumed or fitted.", bold=True
    )
    for path, origin in each.values.items():
        canvas.paragraph(f"  {path} = {_value(origin)}: {origin.kind}, {origin.date}", indent="    ")
        canvas.paragraph(f"    [{origin.source}] {origin.locator}", indent="    ")
        if origin.note:
            canvas.paragraph(f"    {origin.note}", indent="    ")


def _value(origin: Datum) -> str:
    """Return a value with its bounds, where it has any."""
    text = units.format_value(origin.value, origin.unit)
    low, high = (
        None if bound is None else units.format_value(bound, origin.unit) for bound in (origin.low, origin.high)
    )
    if low and high:
        return f"{text} ({low} to {high})"
    return f"{text} (from {low})" if low else f"{text} (to {high})" if high else text


def document(listed: Sequence[Listed]) -> dict[str, Any]:
    """Return the document of the contract."""
    return envelope(
        "catalog",
        {
            "entries": [
                {
                    "kind": each.kind,
                    "name": each.name,
                    "title": each.title,
                    "values": [{"path": path, **datum(origin)} for path, origin in each.values.items()],
                }
                for each in listed
            ]
        },
    )

"""Documents: what every JSON answer shares, SI units in the keys, unknown is null; and their rows as tables."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.breakdown import Term
from nhalf.catalog import store
from nhalf.predict.band import LEVEL
from nhalf.units import format_number
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Input
    from nhalf.citation import Datum
    from nhalf.loading import Default


def envelope(command: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a document: its schema and versions, then its body."""
    return {
        "schema": f"nhalf.{command}/2",
        "nhalf_version": VERSION,
        "catalog_version": store.catalog_version(),
        "command": command,
        "interval_level": LEVEL,
        **body,
    }


def taken(defaults: Sequence[Default]) -> list[dict[str, Any]]:
    """Return the defaults that were taken."""
    return [{name: getattr(default, name) for name in ("flag", "value", "reason")} for default in defaults]


def whole(number: float) -> int | float:
    """Return a whole number as an int, so that batch 1 prints as 1."""
    return int(number) if float(number).is_integer() else number


def term(node: Term, seen: set[int] | None = None) -> dict[str, Any]:
    """Return a term as a tree: its name, value, rule, formula, inputs and parts.

    Inputs are plain numbers, or the name of a curve. Where an input is itself a term, `derived` says how it was made,
    the first time it occurs.
    """
    seen = set() if seen is None else seen
    new = {name: given for name, given in node.inputs.items() if isinstance(given, Term) and id(given) not in seen}
    seen.update(id(given) for given in new.values())
    tree = {
        "name": node.name,
        "value_s": number(node.value) if node.unit == "s" else None,
        "value": number(node.value),
        "unit": node.unit,
        "rule": node.rule,
        "formula": node.formula,
        "inputs": {name: _input(given) for name, given in node.inputs.items()},
        "parts": [term(part, seen) for part in _parts(node, seen)],
    }
    if new:
        tree["derived"] = {name: term(given, seen) for name, given in new.items()}
    return tree


def _parts(node: Term, seen: set[int]) -> list[Term]:
    """Return the parts of a term to show below it; the whole that a portion is taken from, only once."""
    parts = [part for part in node.parts if node.rule != "portion" or id(part) not in seen]
    seen.update(id(part) for part in parts)
    return parts


def _input(given: Input) -> object:
    """Return an input of a formula: a number, or the name of a curve."""
    if isinstance(given, Term):
        return number(given.value)
    return str(given) if callable(given) else number(given)


def number(value: object) -> object:
    """Return a scalar as a float, an array as a list, and what is not finite as null."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


def of(noun: object, *names: str, **renamed: str) -> dict[str, Any]:
    """Return attributes of a noun as keys: those that are named, or all of a dataclass; unknown is null.

    `renamed` are keys that the contract calls otherwise than the noun does.
    """
    given = names or () if names or renamed else tuple(field.name for field in fields(noun))  # type: ignore[arg-type]
    return {key: plain(getattr(noun, name)) for key, name in {**{name: name for name in given}, **renamed}.items()}


def plain(value: object) -> object:
    """Return a value as JSON has it: no text and no finite number are null, a tuple is a list."""
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return number(value) if isinstance(value, float) else None if isinstance(value, str) and not value else value


def datum(origin: Datum) -> dict[str, Any]:
    """Return a datum."""
    return {name: getattr(origin, name) for name in _DATUM}


_DATUM: Final = ("value", "unit", "kind", "source", "locator", "date", "low", "high", "note")


def keys(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys of all rows whose values are plain, in the order in which they first occur."""
    found: dict[str, None] = {}
    for row in rows:
        found |= {key: None for key, value in row.items() if not isinstance(value, list | dict | tuple)}
    return list(found)


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; unknown is empty, numbers have all their digits."""
    heads = keys(rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([[_cell(row.get(key)) for key in heads] for row in rows])
    return text.getvalue()


def to_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a Markdown table, numbers to three digits and to the right; ready to paste into an issue."""
    heads = keys(rows)
    right = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in heads]
    lines = [heads, ["---:" if numeric else "---" for numeric in right]]
    lines += [[_shown(row.get(key)) for key in heads] for row in rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(value: object) -> object:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


def _shown(value: object) -> str:
    """Return a cell of Markdown."""
    if isinstance(value, float):
        return format_number(value) if abs(value) >= 1e-6 or value == 0 else f"{value:.3g}"  # noqa: PLR2004  as units
    return str(_cell(value)).replace("|", "\\|").replace("\n", " ")

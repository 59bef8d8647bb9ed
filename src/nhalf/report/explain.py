"""Why this number: the whole tree of a term as text, each leaf with its formula and its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units
from nhalf.breakdown import Term

if TYPE_CHECKING:
    from nhalf.breakdown import Input
    from nhalf.report.canvas import Canvas


def write(step: Term, canvas: Canvas, title: str) -> None:
    """Write the whole tree of a step: each term's value, and each leaf's formula with its inputs.

    A term that several formulas read is written out once, where it is first read.
    """
    canvas.heading(title)
    _write(step, canvas, 0, set())


def _write(term: Term, canvas: Canvas, depth: int, seen: set[int]) -> None:
    """Write one term and what is below it."""
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

"""The breakdown: a number that knows how it was made.

A prediction is a tree of `Term`s. A leaf holds one formula and its inputs, and the string that is shown is the string
that is compiled and evaluated; every other term folds its parts by one of seven rules. Values are floats or NumPy
arrays, so that one body serves one answer, a sweep, a band of draws and a finite difference. NumPy is loaded where an
array is met: a single message needs none.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeGuard, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Quantity: TypeAlias = "float | Array"
Rule: TypeAlias = Literal["leaf", "total", "product", "largest", "smallest", "chosen", "excess", "portion"]


def is_array(value: object) -> TypeGuard[Array]:
    """Tell whether a value is an array, without loading NumPy for a plain number."""
    if isinstance(value, float | int):
        return False
    import numpy as np

    return isinstance(value, np.ndarray)


def some(asked: bool | NDArray[np.bool_]) -> bool:  # noqa: FBT001  what is asked about
    """Tell whether a comparison of quantities holds for any element."""
    return bool(asked if isinstance(asked, bool) else asked.any())


def maximum(left: Quantity, right: Quantity) -> Quantity:
    """Return the larger of two quantities, element by element."""
    if is_array(left) or is_array(right):
        import numpy as np

        return np.maximum(left, right)
    return max(left, right)


def minimum(left: Quantity, right: Quantity) -> Quantity:
    """Return the smaller of two quantities, element by element."""
    if is_array(left) or is_array(right):
        import numpy as np

        return np.minimum(left, right)
    return min(left, right)


def log2_ceil(value: Quantity) -> Quantity:
    """Return the ceiling of the base-2 logarithm: how many doublings reach `value`."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return cast("Array", np.ceil(np.log2(value)))
    return float(math.ceil(np.log2(value)))


def log2_floor(value: Quantity) -> Quantity:
    """Return the floor of the base-2 logarithm, as integer code computes it."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return cast("Array", np.floor(np.log2(value)))
    return float(math.floor(np.log2(value)))


def power(base: Quantity, exponent: Quantity) -> Quantity:
    """Return `base` to the power of `exponent`, by one routine for floats and arrays: the last digit is the same."""
    import numpy as np

    raised = np.power(base, exponent)
    return raised if isinstance(raised, np.ndarray) else float(raised)


FUNCTIONS: dict[str, Callable[..., Quantity]] = {
    "maximum": maximum,
    "minimum": minimum,
    "log2_ceil": log2_ceil,
    "log2_floor": log2_floor,
}
"""Every function that a formula may call, besides callables among its own inputs."""

_GLOBALS = {"__builtins__": {}, **FUNCTIONS, "power": power}
_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Load, ast.Call,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub,
)  # fmt: skip


class _Powers(ast.NodeTransformer):
    """Turns `a ** b` into a call of `power`."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Return the node, or the call that takes its place."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        return ast.Call(func=ast.Name(id="power", ctx=ast.Load()), args=[node.left, node.right], keywords=[])


@cache
def _compile(formula: str) -> tuple[Callable[..., Quantity], tuple[str, ...]]:
    """Return a formula as a function of the inputs it names, after checking that it is arithmetic and plain calls."""
    tree = ast.parse(formula, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            message = f"the formula {formula!r} uses {type(node).__name__}, which formulas may not"
            raise TypeError(message)
    names = dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id not in FUNCTIONS)
    arguments = ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])
    function = ast.fix_missing_locations(ast.Expression(ast.Lambda(arguments, _Powers().visit(tree).body)))
    code = compile(function, f"<formula {formula}>", "eval")
    return eval(code, _GLOBALS), tuple(names)  # noqa: S307  the syntax tree was checked


_NO_INPUTS: Mapping[str, Input] = {}


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Term:
    """One named number of a breakdown and how it came about.

    `value` is in `unit` (seconds unless said otherwise). `column` names the column of the answer that the term's
    whole value belongs to; a term without one hands the question down to its parts. `owed` is what each column owes
    it, once somebody asked (`columns`).
    """

    name: str
    value: Quantity
    rule: Rule
    formula: str
    inputs: Mapping[str, Input] = field(default_factory=dict)
    parts: tuple[Term, ...] = ()
    column: str = ""
    unit: str = "s"
    owed: Mapping[str, Quantity] | None = field(default=None, init=False)

    def __init__(  # noqa: PLR0913, PLR0917  its fields
        self, name: str, value: Quantity, rule: Rule, formula: str, inputs: Mapping[str, Input] = _NO_INPUTS,
        parts: tuple[Term, ...] = (), column: str = "", unit: str = "s",
    ) -> None:  # fmt: skip
        """Keep what is given: by the slots themselves, in half the time that a frozen dataclass takes for it."""
        _NAME(self, name)
        _VALUE(self, value)
        _RULE(self, rule)
        _FORMULA(self, formula)
        _INPUTS(self, inputs)
        _PARTS(self, parts)
        _COLUMN(self, column)
        _UNIT(self, unit)
        _OWED(self, None)

    def __repr__(self) -> str:
        """Return one line: the value or the shape of an array, and the names of the parts; `walk` goes further."""
        value = f"array of {self.value.shape}" if is_array(self.value) else f"{float(self.value):.4g}"
        parts = f": {self.rule} of {', '.join(part.name for part in self.parts)}" if self.parts else ""
        return f"<Term {self.name} = {value} {self.unit}{parts}>"

    def at(self, place: int, count: int) -> Term:
        """Return the term of one of `count` points over which its values are arrays: every number is a float."""
        return _taken(self, place, count, {})


_NAME, _VALUE, _RULE, _FORMULA, _INPUTS, _PARTS, _COLUMN, _UNIT, _OWED = (
    getattr(Term, each.name).__set__ for each in fields(Term)
)


def _taken(term: Term, place: int, count: int, seen: dict[int, Term]) -> Term:
    """Return a term at one point; terms that occur in several places of the tree are taken once."""
    if id(term) not in seen:
        inputs = {name: _element(given, place, count, seen) for name, given in term.inputs.items()}
        parts = tuple(_taken(part, place, count, seen) for part in term.parts)
        value = cast("float", _element(term.value, place, count, seen))
        seen[id(term)] = replace(term, value=value, inputs=inputs, parts=parts)
    return seen[id(term)]


def _element(given: Input, place: int, count: int, seen: dict[int, Term]) -> Input:
    """Return what a formula reads at one point."""
    if isinstance(given, Term):
        return _taken(given, place, count, seen)
    if not is_array(given):
        return given
    import numpy as np

    return float(np.broadcast_to(given, (count,))[place])


Input: TypeAlias = "Quantity | Term | Callable[[Quantity], Quantity]"
"""What a formula may read: a number, a term made elsewhere, or a function such as a measured curve."""


def leaf(name: str, formula: str, inputs: Mapping[str, Input], *, column: str = "", unit: str = "s") -> Term:
    """Return a term whose value is `formula` evaluated on `inputs`; it keeps those that the formula names.

    Raises
    ------
    TypeError
        The formula holds anything but arithmetic and calls of the closed name list.
    NameError
        The formula names an input that is not given.
    """
    _, names = _compile(formula)
    try:
        used = {name: inputs[name] for name in names}
    except KeyError as missing:
        message = f"the formula {formula!r} names {missing}, which is not given"
        raise NameError(message) from missing
    return Term(name, _evaluate(formula, used), "leaf", formula, used, (), column, unit)


def _evaluate(formula: str, used: Mapping[str, Input]) -> Quantity:
    """Return the value of a formula, whose inputs stand in the order in which it names them."""
    function, _ = _compile(formula)
    value = function(*[given.value if type(given) is Term else given for given in used.values()])
    return value if is_array(value) else float(value)


def total(name: str, *parts: Term, column: str = "") -> Term:
    """Return the sum of the parts."""
    return _fold(name, "total", " + ".join(part.name for part in parts) or "0", parts, column)


def product(name: str, factor: Term, part: Term, *, column: str = "") -> Term:
    """Return a count times a part: m collectives of one kind, L layers."""
    return _fold(name, "product", f"{factor.name} x {part.name}", (factor, part), column)


def largest(name: str, *parts: Term, column: str = "") -> Term:
    """Return the largest of the parts, element by element."""
    return _fold(name, "largest", f"largest of {', '.join(part.name for part in parts)}", parts, column)


def smallest(name: str, *parts: Term, column: str = "") -> Term:
    """Return the smallest of the parts, element by element: what a library that chooses well would run."""
    return _fold(name, "smallest", f"smallest of {', '.join(part.name for part in parts)}", parts, column)


def chosen(name: str, plans: tuple[Term, ...], parts: tuple[Term, ...]) -> Term:
    """Return the part whose plan is the smallest, element by element: a choice made by one rule, priced by another."""
    inputs: dict[str, Input] = {f"plan of {part.name}": plan for plan, part in zip(plans, parts, strict=True)}
    taken = Term(name, 0.0, "chosen", "the part whose plan is the smallest", inputs, parts, "", parts[0].unit)
    return replace(taken, value=_chosen_value(taken))


def _chosen_value(term: Term) -> Quantity:
    """Return the value of the part that a `chosen` term takes."""
    result: Quantity = 0.0
    for part, weight in weighted_parts(term):
        result = result + weight * part.value
    return result


def excess(name: str, part: Term, over: Term, *, column: str) -> Term:
    """Return by how much `part` outlasts `over`, and 0 where it does not: work hidden behind other work."""
    return _fold(name, "excess", f"what {part.name} takes beyond {over.name}", (part, over), column)


def portion(name: str, part: Term, of: str, *, column: str = "") -> Term:
    """Return what one column of `part` owes it: the fixed time of whichever law was the smallest."""
    return Term(name, columns(part).get(of, 0.0), "portion", of, {}, (part,), column, part.unit)


def _fold(name: str, rule: Rule, formula: str, parts: tuple[Term, ...], column: str) -> Term:
    """Return a term folded from its parts by a rule."""
    unit = parts[-1].unit if parts else "s"
    return Term(name, _fold_value(rule, parts), rule, formula, {}, parts, column, unit)


def _fold_value(rule: Rule, parts: tuple[Term, ...]) -> Quantity:
    """Return what a rule makes of its parts' values."""
    values = [part.value for part in parts]
    if not values:
        return 0.0
    result = values[0]
    for value in values[1:]:
        if rule == "total":
            result = result + value
        elif rule == "product":
            result = result * value
        elif rule == "largest":
            result = maximum(result, value)
        elif rule == "smallest":
            result = minimum(result, value)
        else:
            result = maximum(result - value, 0.0)
    return result


def columns(term: Term) -> Mapping[str, Quantity]:
    """Return what each column owes the term; the columns add up to its value.

    Raises
    ------
    ValueError
        A leaf that counts belongs to no column.
    """
    owed = term.owed
    if owed is None:
        owed = _columns(term)
        _OWED(term, owed)
    return owed


def _columns(term: Term) -> Mapping[str, Quantity]:
    """Return what each column owes a term, of which nobody asked before."""
    if term.column:
        return {term.column: term.value}
    if term.rule in ("leaf", "excess", "portion"):
        message = f"the term {term.name!r} belongs to no column"
        raise ValueError(message)
    sums: dict[str, Quantity] = {}
    for part, weight in weighted_parts(term):
        # Most weights are 1 and most columns come once: arrays are neither multiplied nor added for that.
        plain = isinstance(weight, float) and weight == 1.0
        for column, value in columns(part).items():
            owed = value if plain else weight * value
            sums[column] = sums[column] + owed if column in sums else owed
    return sums


def weighted_parts(term: Term) -> Iterator[tuple[Term, Quantity]]:
    """Yield each part with the weight by which its value enters the term: 1, a count, or 0 where it was not chosen."""
    if term.rule == "total":
        for part in term.parts:
            yield part, 1.0
    elif term.rule == "product":
        factor, part = term.parts
        yield part, factor.value
    elif term.rule in ("largest", "smallest"):
        taken: Quantity = 0.0
        for part in term.parts:
            chosen = (1.0 - taken) * (part.value == term.value)
            yield part, chosen
            taken = taken + chosen
    elif term.rule == "chosen":
        plans = [plan.value for plan in term.inputs.values() if isinstance(plan, Term)]
        least = plans[0]
        for plan in plans[1:]:
            least = minimum(least, plan)
        taken = 0.0
        for part, plan in zip(term.parts, plans, strict=True):
            chosen = (1.0 - taken) * (plan == least)
            yield part, chosen
            taken = taken + chosen
    elif term.rule in ("excess", "portion"):
        part = term.parts[0]
        yield part, _ratio(term.value, part.value)


def _ratio(value: Quantity, whole: Quantity) -> Quantity:
    """Return value / whole, and 0 where the whole is 0."""
    if is_array(value) or is_array(whole):
        import numpy as np

        nothing = np.equal(whole, 0)
        return np.where(nothing, 0.0, value / np.where(nothing, 1.0, whole))
    return value / whole if whole else 0.0


def walk(term: Term, path: str = "") -> Iterator[tuple[str, Term]]:
    """Yield every term of the tree with its path, a parent before its parts and before the terms its formula reads."""
    here = f"{path}/{term.name}" if path else term.name
    yield here, term
    read = (given for given in term.inputs.values() if isinstance(given, Term))
    for part in (*term.parts, *read):
        yield from walk(part, here)


def shares(term: Term) -> dict[str, Quantity]:
    """Return the share of the root that each term of the tree accounts for, by path; each lies in [0, 1]."""
    found: dict[str, Quantity] = {}

    def visit(node: Term, path: str, weight: Quantity) -> None:
        found[path] = found.get(path, 0.0) + _ratio(weight * node.value, term.value)
        for part, part_weight in weighted_parts(node):
            visit(part, f"{path}/{part.name}", weight * part_weight)

    visit(term, term.name, 1.0)
    return found


def audit(term: Term) -> list[str]:
    """Return the paths of the terms whose value is not what their formula or rule gives; empty when all agree."""
    import numpy as np

    wrong = []
    for path, node in walk(term):
        if node.rule == "leaf":
            again = _evaluate(node.formula, node.inputs)
        elif node.rule == "portion":
            again = columns(node.parts[0]).get(node.formula, 0.0)
        elif node.rule == "chosen":
            again = _chosen_value(node)
        else:
            again = _fold_value(node.rule, node.parts)
        if not np.array_equal(np.asarray(again), np.asarray(node.value), equal_nan=True):
            wrong.append(path)
    return wrong

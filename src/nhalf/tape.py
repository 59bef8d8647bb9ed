"""A tape: arithmetic on arrays as it is done, written down as one straight-line function.

Code that builds a tree does more than arithmetic: it looks up curves, counts hops, names terms. Run once on `Traced`
arrays, it leaves behind what was computed from them and nothing else: what does not depend on them is a constant, what
occurs twice is computed once. Where the code asked a question of their values (`if np.any(...)`), the answer becomes a
guard: a function that meets another answer says so, and the tree is built again.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

Called = TypeVar("Called", bound="Callable[..., Any]")
Node = tuple[str, tuple[Any, ...]]
"""An operation and its operands: places of other nodes, or constants."""


class UntraceableError(Exception):
    """The code did something with a traced array that a straight line cannot repeat."""


class LeftError(Exception):
    """The inputs answer a question of the code otherwise than those that were recorded."""


_SIGNS: Final = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "greater": ">",
    "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!=",
}  # fmt: skip
_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "maximum": max,
    "minimum": min,
    "negative": lambda value: -value,
    "where": lambda asked, one, other: one if asked else other,
    "any": bool,
    "all": bool,
    "ceil": lambda value: float(math.ceil(value)),
    "floor": lambda value: float(math.floor(value)),
}
"""What a function of NumPy is on a plain number, to the last digit. Others are called as they are."""
_CALLS: Final = frozenset({
    "maximum", "minimum", "negative", "absolute", "ceil", "floor", "rint", "power", "sqrt", "square", "exp", "exp2",
    "expm1", "log", "log2", "log1p", "logaddexp", "isfinite", "logical_and", "logical_or", "logical_not",
})  # fmt: skip
_WIDEST: Final = 100
"""Characters of an expression that is still written into the line that uses it."""


class Traced(np.ndarray[Any, np.dtype[Any]]):
    """An array whose operations are written on a tape; views and copies of it are none, and refuse to be used."""

    tape: Tape | None = None
    place: int = -1

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:  # noqa: ANN401
        """Do and record an operation of NumPy."""
        tape, plain = _tape(inputs), tuple(_bare(each) for each in inputs)
        name = ufunc.__name__
        if method == "reduce" and name in ("logical_or", "logical_and"):
            return tape.record("any" if name == "logical_or" else "all", inputs[:1], ufunc.reduce(*plain, **options))
        if method != "__call__" or not (name in _SIGNS or name in _CALLS) or set(options) - {"dtype"}:
            message = f"{name}.{method} of a traced array"
            raise UntraceableError(message)
        if options.get("dtype", np.float64) != np.float64:
            message = f"{name} of a traced array to {options['dtype']}"
            raise UntraceableError(message)
        return tape.record(name, inputs, ufunc(*plain, **options))

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: Iterable[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:  # noqa: ANN401
        """Do and record one of the few other functions of NumPy that act element by element, or ask about all."""
        args, name = tuple(args), func.__name__
        if name in ("size", "shape", "ndim"):
            return func(*(_bare(each) for each in args), **kwargs)
        if name not in ("where", "any", "all") or kwargs:
            message = f"{name} of a traced array"
            raise UntraceableError(message)
        return _tape(args).record(name, args, func(*(_bare(each) for each in args)))

    def __bool__(self) -> bool:
        """Return the answer to a question, and keep it as a guard."""
        if self.tape is None or self.ndim:
            message = "a traced array was asked for one truth"
            raise UntraceableError(message)
        answer = bool(self.view(np.ndarray))
        self.tape.guards[self.place] = answer
        return answer

    def _refuse(self, *_: object, **__: object) -> Any:  # noqa: ANN401
        message = "a traced array was taken for a plain number"
        raise UntraceableError(message)

    __float__ = __int__ = __index__ = __getitem__ = __iter__ = _refuse
    item = tolist = astype = reshape = mean = sum = min = max = _refuse


class Tape:
    """Operations in the order in which they were done, each once."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.guards: dict[int, bool] = {}
        self.inputs: list[int] = []
        self.constants: list[Any] = []
        self._known: dict[tuple[Any, ...], int] = {}

    def input(self, value: Array) -> Traced:
        """Return an array whose operations are recorded: the next argument of the function."""
        self.inputs.append(len(self.nodes))
        return self._made(("input", (len(self.inputs) - 1,)), value)

    def record(self, name: str, operands: tuple[Any, ...], value: Any) -> Traced:  # noqa: ANN401  array or number
        """Return the traced result of an operation; one that was done before is found again."""
        same = _same(name, operands)
        if same is not None:
            return self._seen(same.place, value)
        keys = tuple(self._operand(each) for each in operands)
        known = self._known.get((name, *keys))
        if known is None:
            return self._made((name, keys), value)
        return self._seen(known, value)

    def _made(self, node: Node, value: Any) -> Traced:  # noqa: ANN401
        place = self._known[node[0], *node[1]] = len(self.nodes)
        self.nodes.append(node)
        return self._seen(place, value)

    def _seen(self, place: int, value: Any) -> Traced:  # noqa: ANN401
        made = np.asarray(value).view(Traced)
        made.tape, made.place = self, place
        return made

    def _operand(self, operand: Any) -> tuple[str, Any]:  # noqa: ANN401
        """Return an operand as it stands in a node: the place of another node, a number, or the place of a constant."""
        if isinstance(operand, Traced):
            if operand.tape is not self:
                message = "a view of a traced array"
                raise UntraceableError(message)
            return "node", operand.place
        if isinstance(operand, np.generic) or (isinstance(operand, np.ndarray) and operand.ndim == 0):
            operand = operand.item()
        if isinstance(operand, bool | int | float):
            return "number", repr(operand)
        for place, constant in enumerate(self.constants):
            if constant is operand:
                return "constant", place
        self.constants.append(operand)
        return "constant", len(self.constants) - 1

    def source(self, arguments: tuple[str, ...], outputs: Mapping[str, Any]) -> str:
        """Return the text of a function of the inputs that returns the outputs as a tuple, after its guards."""
        ends = {name: self._operand(value) for name, value in outputs.items()}
        needed = _needed(self.nodes, [*self.guards, *(place for kind, place in ends.values() if kind == "node")])
        uses = Counter(place for index in needed for kind, place in _operands(self.nodes[index]) if kind == "node")
        uses.update(place for kind, place in ends.values() if kind == "node")
        uses.update(dict.fromkeys(self.guards, 2))
        text: dict[int, str] = {}
        lines = [f"def emitted({', '.join(arguments)}):"]
        for index in sorted(needed):
            name, operands = self.nodes[index]
            if name == "input":
                text[index] = arguments[operands[0]]
                continue
            written = _written(name, [_text(each, text) for each in operands])
            if uses[index] == 1 and len(written) <= _WIDEST:
                text[index] = written
                continue
            text[index] = f"t{index}"
            lines.append(f"    t{index} = {written}")
            if index in self.guards:
                lines.append(f"    if bool(t{index}) is not {self.guards[index]}: raise Left")
        lines.append(f"    return ({''.join(_text(each, text) + ', ' for each in ends.values())})")
        return "\n".join(lines) + "\n"

    def function(self, source: str, *, plain: bool) -> Callable[..., tuple[Any, ...]]:
        """Return the function of a text: of plain numbers, or of arrays."""
        names: dict[str, Any] = {"Left": LeftError, **{f"c{i}": each for i, each in enumerate(self.constants)}}
        for name in {node[0] for node in self.nodes} & (_CALLS | {"where", "any", "all"}):
            names[name] = _of_number(name) if plain else getattr(np, name)
        text = source if plain else freed(source)
        exec(compile(text, "<emitted>", "exec"), names)  # noqa: S102  written by `source`, of numbers and known names
        return cast("Callable[..., tuple[Any, ...]]", names["emitted"])


_NEUTRAL: Final = {"multiply": (1.0, (0, 1)), "divide": (1.0, (1,)), "add": (0.0, (0, 1)), "subtract": (0.0, (1,))}
"""The number that changes nothing as an operand of an operation, and where it may stand."""


def _same(name: str, operands: tuple[Any, ...]) -> Traced | None:
    """Return the operand that an operation gives back as it is, None where it makes something new."""
    if name == "where" and isinstance(_bare(operands[0]), bool | np.bool_):
        taken = operands[1] if operands[0] else operands[2]
        return taken if isinstance(taken, Traced) else None
    neutral, places = _NEUTRAL.get(name, (0.0, ()))
    for place in places:
        number, other = operands[place], operands[1 - place]
        plain = isinstance(number, int | float | np.number) and number == neutral
        if plain and isinstance(other, Traced) and other.dtype == np.float64:
            return other
    return None


def freed(source: str) -> str:
    """Return a function that lets go of every array after its last use, so that the next one takes its memory."""
    lines = source.splitlines()
    used = [frozenset(re.findall(r"\bt\d+\b", line)) for line in lines]
    later = set(used[-1])
    for place in range(len(lines) - 2, 0, -1):
        last = sorted(used[place] - later)
        later |= used[place]
        if last and not lines[place].startswith("    if "):
            lines[place] += f"; del {', '.join(last)}"
    return "\n".join(lines) + "\n"


def _operands(node: Node) -> tuple[Any, ...]:
    """Return the operands of a node; an input has none."""
    return () if node[0] == "input" else node[1]


def _needed(nodes: list[Node], ends: list[int]) -> set[int]:
    """Return the places of the nodes that some others need."""
    needed, waiting = set[int](), list(ends)
    while waiting:
        place = waiting.pop()
        if place not in needed:
            needed.add(place)
            waiting += [below for kind, below in _operands(nodes[place]) if kind == "node"]
    return needed


def _written(name: str, operands: list[str]) -> str:
    """Return an operation as an expression."""
    if name in _SIGNS:
        return f"({operands[0]} {_SIGNS[name]} {operands[1]})"
    if name == "call":
        return f"{operands[0]}({', '.join(operands[1:])})"
    return f"{name}({', '.join(operands)})"


def _text(operand: tuple[str, Any], text: Mapping[int, str]) -> str:
    """Return an operand as an expression."""
    kind, value = operand
    if kind == "node":
        return text[value]
    if kind == "constant":
        return f"c{value}"
    written: str = {"inf": "1e999", "-inf": "-1e999", "nan": "(1e999 - 1e999)"}.get(value, value)
    return written


def _of_number(name: str) -> Callable[..., Any]:
    """Return a function of NumPy for plain numbers."""
    of_array = getattr(np, name)
    return _PLAIN.get(name) or (lambda *values: float(of_array(*values)))


def _tape(operands: tuple[Any, ...]) -> Tape:
    """Return the tape of the first operand that has one."""
    for operand in operands:
        if isinstance(operand, Traced) and operand.tape is not None:
            return operand.tape
    message = "a view of a traced array"
    raise UntraceableError(message)


def _bare(operand: Any) -> Any:  # noqa: ANN401
    """Return an operand as NumPy knows it."""
    return operand.view(np.ndarray) if isinstance(operand, Traced) else operand


def recorded(function: Called) -> Called:
    """Return a method of one quantity that stands on a tape as a call, whatever it does inside: a measured curve."""

    @wraps(function)
    def call(self: object, quantity: Any) -> Any:  # noqa: ANN401
        if type(quantity) is not Traced:
            return function(self, quantity)
        return _tape((quantity,)).record("call", (self, quantity), function(self, _bare(quantity)))

    return cast("Called", call)

"""Axes: the texts of `--axis` as the cells and inner axes of a grid."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.catalog import store
from nhalf.decide.grid import Cell, Grid, Inner
from nhalf.errors import InputError, did_you_mean
from nhalf.layout import Layout, check
from nhalf.loading.changes import unit_of
from nhalf.loading.degrees import FIELDS, FLAGS, Degrees
from nhalf.loading.inputs import BY_NAME, INPUTS, of_part
from nhalf.loading.kv_rule import SEVERAL
from nhalf.loading.request import scenarios
from nhalf.loading.switches import check_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.loading.choices import Request
    from nhalf.loading.defaults import Default
    from nhalf.scenario import Scenario

_AXES: Final = tuple(row for row in INPUTS if row.axis)
NAMES: Final = tuple(row.name for row in _AXES if row.cell == "name")
"""Axes that choose another system, stack or number format."""
WORKLOAD: Final = {row.name: row.path for row in _AXES if row.cell == "number"}
"""Axes of whole numbers, by the words of their flags."""
OPTIONS: Final = {row.name: row.path for row in of_part("options") if row.axis}
"""Axes of options that are numbers."""
POINTS: Final = 25
"""How many values a range of quantities has that does not say."""
_RANGES: Final = (
    "values such as 1us,5us, ranges such as 1us:50us (25 values), 1us:50us:100 (100), 1us:50us:x2, 1us:50us:1us"
)
_MOST: Final = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """A grid, the defaults that were taken for what no axis says, and what looks wrong but is possible."""

    grid: Grid
    base: Scenario
    defaults: tuple[Default, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """One `--axis`: its name, its values as written, and where that was."""

    name: str
    text: str

    @property
    def where(self) -> str:
        return f"--axis {self.name}"


def grid(request: Request, texts: Sequence[str]) -> Loaded:
    """Return the grid of a request and its axes; lists of the request itself are axes too, unless one is named.

    Raises
    ------
    InputError
        An axis that is no input, twice there, or has values that are not possible.
    """
    axes = _axes(request, texts)
    base_request = _base_request(request, axes)
    loaded = scenarios(base_request)
    base = loaded.scenarios[0]
    whole = {path for path, value in base.inputs() if isinstance(value, int)}
    outer = [axis for axis in axes if axis.name in (*NAMES, *FLAGS) or axis.name in whole]
    inner = tuple(_inner(axis, base) for axis in axes if axis not in outer)
    choices = [_choices(axis) for axis in outer]
    cells = tuple(_cells(base_request, base, [axis.name for axis in outer], choices))
    if not any(cell.scenario for cell in cells):
        raise InputError(f"no point is legal: {cells[0].reason}", where="--axis", do="give values that are")
    made = Grid(outer=tuple(axis.name for axis in outer), cells=cells, inner=inner)
    swept = {"--batch" if axis.path == "workload.batch" else f"--{axis.name}" for axis in inner}
    defaults = tuple(_said(default, cells) for default in loaded.defaults if default.flag not in swept)
    return Loaded(grid=made, base=base, defaults=defaults, warnings=loaded.warnings)


def check_apart(texts: Sequence[str], flags: Mapping[str, object]) -> None:
    """Refuse a flag that fixes what an axis varies; a system is both, since a grid starts from one.

    Raises
    ------
    InputError
        There is one.
    """
    for text in texts:
        name, _, values = (part.strip() for part in text.partition("="))
        name = name.replace("-", "_")
        given = flags.get(name)
        if name != "system" and given not in (None, (), False) and str(given) != values:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} fixes what --axis {name} varies", where=flag, do="leave one of them out")


def _said(default: Default, cells: Sequence[Cell]) -> Default:
    """Return a default, with every dtype of the cache where machines and stacks of a grid take several."""
    if default.flag != "--kv":
        return default
    taken = dict.fromkeys(cell.scenario.workload.kv_dtype for cell in cells if cell.scenario is not None)
    return default if len(taken) == 1 else replace(default, value=" or ".join(taken), reason=SEVERAL)


def _axes(request: Request, texts: Sequence[str]) -> list[_Axis]:
    """Return the axes: those of `--axis` as written, then the lists that the request has of its own."""
    found = []
    for text in texts:
        name, equals, values = (piece.strip() for piece in text.partition("="))
        if not equals or not name or not values:
            raise InputError(
                f"{text!r} is no name=values", where="--axis", allowed="such as tp=1,2,4,8 or batch=1:512:x2"
            )
        plain = name.replace("-", "_")
        found.append(_Axis(name=plain if plain in (*FLAGS, *NAMES, *WORKLOAD, *OPTIONS) else name, text=values))
    names = [axis.name for axis in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError("the axis is given twice", where=f"--axis {name}", do="give all its values at once")
    own = {"system": request.systems, "batch": request.batches or ()}
    own |= {flag: getattr(request.degrees, flag) for flag in FLAGS}
    for name, given in own.items():
        if len(given) > 1 and name not in names:
            found.append(_Axis(name=name, text=",".join(str(value) for value in given)))
    if not found:
        raise InputError("there is no axis", where="--axis", do="give one: --axis tp=1,2,4,8")
    return found


def _base_request(request: Request, axes: Sequence[_Axis]) -> Request:
    """Return the request of one scenario, in which every axis has its first value, or one that is always legal."""
    named: dict[str, Any] = {axis.name: axis.text for axis in axes}
    values: dict[str, Any] = {name: _words(named[name])[0] for name in NAMES if name in named}
    # What is legal for the shortest of all lengths is so for each.
    values |= {
        axis.name: min(units.parse_int_list(axis.text, where=axis.where))
        for axis in axes
        if axis.name in WORKLOAD and axis.name != "batch"
    }
    degrees: dict[str, Any] = {flag: (1,) if flag in named else getattr(request.degrees, flag)[:1] for flag in FLAGS}
    one = replace(
        request, degrees=Degrees(**degrees), systems=request.systems[:1], batches=(request.batches or (1,))[:1]
    )
    return one.updated(values)


def _words(text: str) -> list[str]:
    """Return the names in a list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _choices(axis: _Axis) -> list[str | int]:
    """Return the values of an outer axis: names, or whole numbers."""
    if axis.name == "system":
        return [store.find("system", word, where=axis.where) for word in _words(axis.text)]
    if axis.name in NAMES:
        return list(_words(axis.text))
    return list(units.parse_int_list(axis.text, where=axis.where))


def _cells(
    request: Request, base: Scenario, names: Sequence[str], choices: Sequence[Sequence[str | int]]
) -> Iterator[Cell]:
    """Yield the cells of every combination of the outer axes; each machine and stack is loaded once."""
    loaded: dict[tuple[tuple[str, str | int], ...], Scenario | InputError] = {(): base}
    for labels in product(*choices):
        chosen = dict(zip(names, labels, strict=True))
        key = tuple((name, value) for name, value in chosen.items() if name in NAMES)
        if key not in loaded:
            loaded[key] = _loaded(request, dict(key))
        found = loaded[key]
        if isinstance(found, InputError):
            yield Cell(labels=labels, scenario=None, reason=found.what)
            continue
        degrees: dict[str, Any] = {FIELDS[name]: value for name, value in chosen.items() if name in FIELDS}
        paths = {name: value for name, value in chosen.items() if name not in (*NAMES, *FLAGS)}
        yield _cell(labels, found, replace(found.layout, **degrees), paths)


def _cell(labels: tuple[str | int, ...], found: Scenario, layout: Layout, paths: dict[str, Any]) -> Cell:
    """Return one cell: its scenario, or why its layout is not legal."""
    try:
        moved = found.having(paths) if paths else found
        check(layout, moved.transformer, moved.system.fabric)
        check_split(layout.context_parallel, moved.workload.context_tokens)
    except InputError as error:
        return Cell(labels=labels, scenario=None, reason=error.what)
    return Cell(labels=labels, scenario=replace(moved, layout=layout))


def _loaded(request: Request, names: dict[str, str | int]) -> Scenario | InputError:
    """Return the scenario of other names, or why there is none."""
    try:
        return scenarios(request.updated(names)).scenarios[0]
    except InputError as error:
        return error


def _inner(axis: _Axis, base: Scenario) -> Inner:
    """Return an axis of numbers."""
    known = dict(base.inputs())
    path = (WORKLOAD | OPTIONS).get(axis.name, axis.name)
    if path not in known:
        names = [*FLAGS, *NAMES, *WORKLOAD, *OPTIONS]
        raise InputError(
            f"there is no axis {axis.name!r}",
            where="--axis",
            allowed=f"{', '.join(names)}, or the path of any input",
            do=did_you_mean(axis.name, [*names, *known]),
        )
    if axis.name in WORKLOAD:
        values = np.array(units.parse_int_list(axis.text, where=axis.where), dtype=np.float64)
    else:
        values = quantities(axis.text, unit_of(path), where=axis.where)
    if axis.name in OPTIONS:
        for value in values.tolist():
            BY_NAME[axis.name].read(f"{value:g}", axis.where)
    if path.endswith("_efficiency") and np.any((values <= 0) | (values > 1)):
        raise InputError("an efficiency is a share of a datasheet rate", where=axis.where, allowed="above 0, at most 1")
    if path.endswith(("bandwidth_bytes_per_s", "_flop_per_s")) and np.any(values <= 0):
        raise InputError("a rate cannot be zero", where=axis.where, allowed="more than 0")
    return Inner(name=axis.name, path=path, values=values)


def quantities(text: str, unit: str, *, where: str) -> Array:
    """Return the values of a list of quantities and ranges.

    `1us:50us` has 25 values and `1us:50us:100` has 100, in equal ratios (in equal steps from zero); `1us:50us:x2`
    doubles; `1us:50us:1us` goes in steps.

    Raises
    ------
    InputError
        A value without its unit, a range that runs backwards or never ends, a value twice.
    """
    found: list[Array] = []
    for item in text.split(","):
        parts = [part.strip() for part in re.split(r":", item)]
        if len(parts) > 3 or not all(parts):  # noqa: PLR2004  from, to, by
            raise InputError(f"{item.strip()!r} is no value or range", where=where, allowed=_RANGES)
        ends = [units.parse_for_unit(part, unit, where=where) for part in parts[:2]]
        if len(ends) == 1:
            found.append(np.array(ends))
            continue
        if ends[1] <= ends[0]:
            raise InputError(f"the range {item.strip()} does not rise", where=where, allowed=_RANGES)
        found.append(_range(ends[0], ends[1], parts[2] if len(parts) > 2 else str(POINTS), unit, where))  # noqa: PLR2004
    values = np.concatenate(found)
    if len(np.unique(values)) != len(values):
        raise InputError("a value occurs twice", where=where, do="give each value once")
    return values


def _range(first: float, last: float, by: str, unit: str, where: str) -> Array:
    """Return the values of a range: so many, in a ratio, or in steps."""
    if re.fullmatch(r"\d+", by):
        count = int(by)
        if not 2 <= count <= _MOST:  # noqa: PLR2004  both ends
            raise InputError(f"{by} values are not possible", where=where, allowed=f"2 to {_MOST}")
        return np.geomspace(first, last, count) if first > 0 else np.linspace(first, last, count)
    ratio = re.fullmatch(r"x(\d+\.?\d*)", by)
    if ratio:
        factor = float(ratio[1])
        if factor <= 1 or first <= 0:
            raise InputError(f"a range from {first:g} by {by} never ends", where=where, allowed=_RANGES)
        count = int(np.floor(np.log(last / first) / np.log(factor) * (1 + 1e-12)))
        return first * factor ** np.arange(count + 1.0)
    step = units.parse_for_unit(by, unit, where=where)
    if step <= 0 or (last - first) / step > _MOST:
        raise InputError(f"a range by {by} never ends", where=where, allowed=_RANGES)
    return first + step * np.arange(np.floor((last - first) / step * (1 + 1e-12)) + 1)

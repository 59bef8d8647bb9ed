"""What a cluster file, or a measured number, brings to a scenario: curves, whose collectives run, constants, excess."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.catalog import stated, store
from nhalf.catalog.cluster import is_file
from nhalf.catalog.curves import of_cluster, of_library
from nhalf.citation import Datum
from nhalf.collective import Op
from nhalf.curve import CurveKey, MeasuredCurve
from nhalf.curve.moved import filled, is_sparse
from nhalf.errors import InputError
from nhalf.layout import Group
from nhalf.loading.defaults import Default
from nhalf.loading.inputs import BY_NAME
from nhalf.loading.stack_file import StackFile, of_tables
from nhalf.predict.communication import carried, collective
from nhalf.printable import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.collective import Mode
    from nhalf.scenario import Scenario
    from nhalf.system import System

FLAG: Final = "--measured"
_POINT: Final = re.compile(r"(?P<op>[\w-]+)\s+(?P<size>.+?)\s+x\s*(?P<ranks>\d+)\s*=\s*(?P<time>.+)", re.DOTALL)
_EXAMPLE: Final = "'all-reduce 16KiB x8 = 7.2us'"
_GRID: Array = 2.0 ** np.arange(3, 30.01, 0.5)
"""Sizes [bytes] at which the shape that points are moved by is looked at: 8 B to 1 GiB."""
_DENSE: Array = 2.0 ** np.arange(3, 30.01, 0.125)
"""The sizes [bytes] of a curve that the law moved."""
_NOISE: Final = 0.03
"""The noise of a number that somebody states [1]: two digits of it."""
_MOST_RANKS: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measured collective: `ranks` took `seconds` [s] for `size_bytes` [bytes] of `op`."""

    op: Op
    size_bytes: float
    ranks: int
    seconds: float


def measured(text: str) -> Measured:
    """Return what one `--measured` says.

    Raises
    ------
    InputError
        It is not an operation, a size, a number of ranks and a time.
    """
    where = f"{FLAG} {text!r}"
    found = _POINT.fullmatch(text.strip())
    if found is None:
        raise InputError("it is no measured collective", where=where, allowed=f"OP SIZE xK = TIME, such as {_EXAMPLE}")
    ranks = units.parse_count(found["ranks"], where=where)
    size, seconds = units.parse(found["size"], "size", where=where), units.parse(found["time"], "time", where=where)
    if not 1 < ranks <= _MOST_RANKS or size <= 0 or seconds <= 0:
        allowed = "2 or more ranks, a size and a time above 0"
        raise InputError("it is no measured collective", where=where, allowed=allowed)
    return Measured(op=Op.parse(found["op"], where=where), size_bytes=size, ranks=ranks, seconds=seconds)


def library_of(system: System, engine: str) -> str | None:
    """Return the library whose all-reduce a cluster file holds, where it holds none of the engine's own; else None.

    An engine's own kernel is never inferred from a benchmark of another library.
    """
    own = dict.fromkeys(curve.key.library for curve in system.curves if curve.own and curve.key.op == Op.ALL_REDUCE)
    known = [name for name in own if name in store.names("library")]
    if not known or stated.engine(engine).library in known:
        return None
    return "nccl" if "nccl" in known else known[0]


def constants(name: str) -> StackFile | None:
    """Return the constants of the stack that a cluster file holds, as `nhalf calibrate -o` writes them; None without.

    Raises
    ------
    InputError
        A constant is unknown or impossible.
    """
    entry = stated.system(store.find("system", name, where="--on"))
    return of_tables({"constants": entry.constants, "band": entry.band or None}, name) if entry.constants else None


def completed(scenario: Scenario, texts: Sequence[str]) -> Scenario:
    """Return a scenario with points that the user measured, and its cluster's sparse curves across nodes, as curves.

    Each is the curve or the law of its key, moved through the points; other rank counts move alike.

    Raises
    ------
    InputError
        A text is no measured collective.
    """
    points = [measured(text) for text in texts]
    sparse = [curve for curve in scenario.system.curves if curve.own and curve.nodes > 1 and _is_sparse(curve)]
    kept = tuple(curve for curve in scenario.system.curves if curve not in sparse)
    scenario = replace(scenario, system=replace(scenario.system, curves=kept))
    found = [_moved(scenario, curve) for curve in sparse]
    by_key: dict[tuple[Op, int], dict[int, list[Measured]]] = {}
    for point in points:
        nodes = scenario.system.fabric.span(point.ranks).nodes
        by_key.setdefault((point.op, nodes), {}).setdefault(point.ranks, []).append(point)
    found = [_moved(scenario, _curve(scenario, op, nodes, of)) for (op, nodes), of in by_key.items()] + found
    return replace(scenario, system=replace(scenario.system, curves=(*found, *kept)))


def _is_sparse(curve: MeasuredCurve) -> bool:
    return any(map(is_sparse, curve.sizes_bytes))


def _curve(scenario: Scenario, op: Op, nodes: int, by_ranks: dict[int, list[Measured]]) -> MeasuredCurve:
    """Return the points of one operation as a curve in the library and mode of the scenario."""
    stack, points = scenario.stack, {}
    for ranks, of in by_ranks.items():
        sizes = sorted({point.size_bytes for point in of})
        times = [[point.seconds for point in of if point.size_bytes == size] for size in sizes]
        points[ranks] = np.array(sizes), np.array([float(np.median(each)) for each in times])
    order = sorted(points)
    return MeasuredCurve(
        key=CurveKey(
            system=scenario.system.name, library=stack.library.name, version="", mode=stack.mode, op=op, dtype=""
        ),
        ranks=tuple(order), sizes_bytes=tuple(points[each][0] for each in order),
        times_s=tuple(points[each][1] for each in order), log_sd=_NOISE, source=FLAG, locator="command line", date="",
        own=FLAG, nodes=nodes,
    )  # fmt: skip


def _moved(scenario: Scenario, own: MeasuredCurve) -> MeasuredCurve:
    """Return a curve with all sizes, and inside a node other ranks, by what the scenario takes there without it."""
    most = scenario.system.fabric.devices_per_node if own.nodes == 1 else 1
    ranks = tuple(sorted({*own.ranks, *(2**power for power in range(1, most.bit_length()))}))
    shapes = [np.asarray(collective(scenario, own.key.op, Group(ranks=each), _GRID).value) for each in ranks]
    known = replace(own, ranks=ranks, sizes_bytes=(_GRID,) * len(ranks), times_s=tuple(shapes), log_sd=0.0)
    return filled(own, [known])


def with_excess(scenario: Scenario) -> Scenario:
    """Return a scenario with the excess of a collective in the model that the traces of its cluster show.

    It is the median over their collectives of what each took in the model beyond its isolated time here, 0 at least.
    """
    entry = stated.system(scenario.system.name)
    where, excess = scenario.system.name, []
    for each in entry.in_model:
        op, size = Op.parse(each.op, where=where), units.parse(each.size, "size", where=where)
        if each.ranks < 2:  # noqa: PLR2004  one rank waits for nobody
            continue
        alone = float(np.mean(collective(scenario, op, Group(ranks=each.ranks), size).value))
        excess.append(units.parse(each.time, "time", where=where) - alone)
    if not excess:
        return scenario
    value = max(float(np.median(excess)), 0.0)
    datum = Datum(
        value=value, unit="s", source=where, locator="in_model: traces, less the isolated time", kind="measured",
        date=max(each.date for each in entry.in_model), low=max(min(excess), 0.0), high=max(*excess, value, 0.0),
    )  # fmt: skip
    stack = replace(scenario.stack, collective_excess_s=value)
    return replace(scenario, stack=stack, origins={**scenario.origins, "stack.collective_excess_s": datum})


def said(scenario: Scenario, *, library_open: bool) -> list[Default]:
    """Return what of a scenario comes from a cluster file or a measured number, and what from the catalogue.

    `library_open` tells that nobody named the library.
    """
    system, stack = scenario.system, scenario.stack
    key = stack.library.name, stack.mode
    own = [curve for curve in system.curves if curve.own and (curve.key.library, curve.key.mode) == key]
    moved = "the curve or the law of its key, moved through it"
    points = [Default(flag=FLAG, value=_named(curve), reason=moved) for curve in own if curve.own == FLAG]
    if not system.like and not is_file(system.name):
        return points
    return [*_of_file(scenario, [curve for curve in own if curve.own != FLAG], library_open=library_open), *points]


def _of_file(scenario: Scenario, curves: Sequence[MeasuredCurve], *, library_open: bool) -> list[Default]:
    """Return what the cluster file of a scenario brought: curves, constants, and whose collectives run."""
    system, library = scenario.system, scenario.stack.library.name
    entry, flag = stated.system(system.name), f"--on {shown(system.name)}"
    brought = [
        ", ".join(map(_named, curves)) or "no curve",
        *(["constants of the stack"] if entry.constants else []),
        *(["the excess in the model"] if entry.in_model else []),
        *([f"the rest as {system.like}"] if system.like else []),
    ]
    why = "; ".join(dict.fromkeys(map(_why, curves))) or f"nothing in it is of {library}"
    found = [Default(flag=flag, value=", ".join(brought), reason=why)]
    engine = scenario.stack.engine
    kernel = stated.engine(engine).library
    others = dict.fromkeys(each.library for each in entry.measured if each.library not in ("", library))
    if library_open and curves and library != kernel:
        reason = f"measured there; {engine}'s own kernel was not, and is never inferred: --library {kernel}"
        found.append(Default(flag="--library", value=library, reason=reason))
    elif others and not curves:
        unused = f"curves of {', '.join(others)} are not used"
        found.append(Default(flag=flag, value=unused, reason=f"a kernel of {library} is never inferred from them"))
    return found


def moved_curve(system: System, library: str, mode: Mode, op: Op, ranks: int) -> MeasuredCurve | None:
    """Return a cluster's own curve of another rank count or number of nodes, moved there by the law; None without."""
    own = of_cluster(system.curves, library, mode)
    stack = store.stack(BY_NAME["engine"].default, library=library, mode=mode, architecture=system.device.architecture)[
        0
    ]
    known = replace(system, curves=of_library(system.curves, library, mode))
    found = carried(known, stack, op, Group(ranks=ranks), _DENSE) if own else None
    first = next((curve for curve in own if curve.key.op == op), None)
    if found is None or first is None:
        return None
    times = np.broadcast_to(np.asarray(found[0].value), _DENSE.shape)
    return replace(
        first, ranks=(ranks,), sizes_bytes=(_DENSE,), times_s=(times,), seen=(np.array([]),),
        nodes=system.fabric.span(ranks).nodes,
    )  # fmt: skip


def of_curve(curve: MeasuredCurve | None) -> list[tuple[str, str, str]]:
    """Return that a curve is of a cluster file as a flag, a value and why; nothing where it is of the catalogue."""
    return [] if curve is None or not curve.own else [(f"--on {shown(curve.own)}", _named(curve), _why(curve))]


def _named(curve: MeasuredCurve) -> str:
    """Return what a curve of the user's is of: `all-reduce x4 of nccl`."""
    known = [ranks for ranks in curve.ranks if not curve.seen or len(curve.seen[curve.ranks.index(ranks)])]
    if not known:
        return f"{curve.key.op} of {curve.key.library}, moved by the law"
    nodes = f" on {curve.nodes} nodes" if curve.nodes > 1 else ""
    return f"{curve.key.op} x{','.join(map(str, known))}{nodes} of {curve.key.library}"


def _why(curve: MeasuredCurve) -> str:
    """Return where a curve of the user's comes from, and what it stands in for."""
    parts = [f"measured with {curve.key.whose}", *(shown(text) for text in (curve.locator, curve.date) if text)]
    if curve.taken_in is not None:
        parts.append(f"in {curve.taken_in} mode, taken as it is in {curve.key.mode} mode")
    if curve.one_process:
        parts.append("one process drove all GPUs, so an upper bound: run it with a process a GPU")
    return ", ".join(parts)

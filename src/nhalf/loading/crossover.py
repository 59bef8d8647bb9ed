"""What `nhalf crossover` was asked: a model on systems, with every library that was measured there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf.catalog import store
from nhalf.catalog.curves import find
from nhalf.collective import Mode, Op
from nhalf.errors import InputError
from nhalf.layout import check
from nhalf.loading.defaults import MEASURED
from nhalf.loading.request import scenarios

if TYPE_CHECKING:
    from nhalf.curve import MeasuredCurve
    from nhalf.loading.choices import Request
    from nhalf.loading.defaults import Default
    from nhalf.scenario import Scenario

DEGREES: Final = (2, 4, 8, 16)
"""The TP degrees looked at where none is asked for, those that the model and the machine allow."""
_SPLIT: Final = (Op.ALL_GATHER, Op.REDUCE_SCATTER)


def load(request: Request, *, degrees: tuple[int, ...] | None) -> tuple[list[Scenario], list[Default]]:
    """Return a scenario for each system, library, mode and TP degree of a request, and what cluster files brought.

    Without a library, all that were measured in graph mode on the system are taken, and NCCL as nccl-tests launches
    it; where nothing was measured, the library of the default engine.

    Raises
    ------
    InputError
        An unknown name, or a TP degree that is not legal.
    """
    found: list[Scenario] = []
    told: dict[Default, None] = {}
    for name in request.systems:
        for library, mode in _stacks(request, name):
            asked = replace(request, systems=(name,), library=library, mode=str(mode))
            loaded = scenarios(asked)
            told |= dict.fromkeys(each for each in loaded.defaults if each.flag.startswith(MEASURED))
            base = loaded.scenarios[0]
            base = replace(base, system=replace(base.system, curves=_curves(name, base)))
            found += [
                replace(base, layout=replace(base.layout, tensor_parallel=each)) for each in _legal(base, degrees)
            ]
    return found, list(told)


def _stacks(request: Request, system: str) -> list[tuple[str | None, Mode]]:
    """Return the libraries and modes to look at on a system."""
    if request.library is not None or request.mode is not None:
        return [(request.library, Mode.parse(request.mode or "graph", where="--mode"))]
    curves = store.system(system, curves=True, where="--on")[0].curves
    own = dict.fromkeys(curve.key.library for curve in curves if curve.own and curve.key.op == Op.ALL_REDUCE)
    if own:
        return [(name, Mode.GRAPH) for name in own if name in store.names("library")] or [(None, Mode.GRAPH)]
    reduces = [curve.key for curve in curves if curve.key.op == Op.ALL_REDUCE and not curve.flag]
    graphed = dict.fromkeys(key.library for key in reduces if key.mode == Mode.GRAPH)
    found: list[tuple[str | None, Mode]] = [(name, Mode.GRAPH) for name in sorted(graphed)]
    found += [("nccl", Mode.HOST)] if any((key.library, key.mode) == ("nccl", Mode.HOST) for key in reduces) else []
    return found or [(None, Mode.GRAPH)]


def _curves(system: str, base: Scenario) -> tuple[MeasuredCurve, ...]:
    """Return the curves of the scenario's library and mode: its all-reduce, and the collectives that stand for it."""
    curves = store.system(system, curves=True, where="--on")[0].curves
    library, mode = base.stack.library.name, base.stack.mode
    split = [find(curves, library, mode=mode, op=op) for op in _SPLIT]
    return (*base.system.curves, *(curve for curve in split if curve is not None))


def _legal(base: Scenario, degrees: tuple[int, ...] | None) -> list[int]:
    """Return the TP degrees asked for, or those of the usual ones that are legal."""
    if degrees is not None:
        for degree in degrees:
            check(replace(base.layout, tensor_parallel=degree), base.transformer, base.system.fabric)
        several = [degree for degree in degrees if degree > 1]
        if not several:
            raise InputError("one device has no collective", where="--tp", allowed="degrees of 2 or more")
        return several
    found = []
    for degree in DEGREES:
        try:
            check(replace(base.layout, tensor_parallel=degree), base.transformer, base.system.fabric)
        except InputError:
            continue
        found.append(degree)
    if not found:
        raise InputError(
            f"none of the usual degrees splits {base.transformer.name} on {base.system.name}",
            where="--tp", do="name the degrees: --tp 3",
        )  # fmt: skip
    return found

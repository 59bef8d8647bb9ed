"""Compiled kernels: the same source through numba, when it is installed and the work is worth its start-up."""

from __future__ import annotations

import sys
from functools import cache
from importlib import util
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nhalf.simulate import binary_heap, event_queue, flows, kernels, sharing

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.simulate.kernels import State, Work
    from nhalf.simulate.plan import Plan

WORTH_COMPILING = 200_000
"""Messages from which compiled kernels pay for loading numba; the first compilation takes some ten seconds."""

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
"""Kernels make no array or list: without `_nrt` numba does not count who holds those that they are handed."""


def is_installed() -> bool:
    """Tell whether numba can be imported, without importing it."""
    return util.find_spec("numba") is not None


@cache
def compiled_play() -> Callable[[Plan, State, Work, int], None]:
    """Return the loop of the event engine, compiled by numba; compilation is cached on disk.

    A file of numba's cache is called after the function, and is checked against the function's own file alone. So each
    kernel is called after all the sources that go into it: those compiled from others are not found.
    """
    sources = _sources()
    done: dict[str, Any] = {}
    for original in (binary_heap, flows, sharing, kernels):
        module = _copy(original)
        # A kernel finds those it calls among its module's globals, so these must be compiled first.
        for name in done.keys() & vars(module).keys():
            setattr(module, name, done[name])
        for name in original.COMPILED:
            function = getattr(module, name)
            function.__qualname__ = f"{name}_{sources}"
            done[name] = _compiled(function)
            setattr(module, name, done[name])
    play: Callable[[Plan, State, Work, int], None] = done["play"]
    return play


def _compiled(function: Callable[..., Any]) -> Any:  # noqa: ANN401  numba's own kind of function
    """Return a function for numba to compile when it is first called; cached, unless there is nowhere to write."""
    import numba

    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba's word for neither the package's folder nor the user's
        return numba.njit(**_OPTIONS)(function)


def _sources() -> str:
    """Return a word that changes with every source and every option of the compiled kernels."""
    import hashlib

    files = (str(module.__file__) for module in (event_queue, binary_heap, flows, sharing, kernels))
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in (*files, __file__))).hexdigest()[:16]


def _copy(original: ModuleType) -> ModuleType:
    """Return a module of the same source whose functions can be replaced."""
    name = f"{original.__name__}_compiled"
    module = ModuleType(name)
    module.__file__ = original.__file__
    sys.modules[name] = module  # the cache on disk finds a function's module by its name
    SourceFileLoader(name, str(original.__file__)).exec_module(module)
    return module

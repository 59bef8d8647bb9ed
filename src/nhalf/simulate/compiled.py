"""Compiled kernels: the same source through numba, when it is installed and the work is worth its start-up."""

from __future__ import annotations

import sys
from functools import cache
from importlib import util
from typing import TYPE_CHECKING, Any

from nhalf.simulate import kernels, sharing

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from nhalf.simulate.kernels import Plan, State, Work

WORTH_COMPILING = 200_000
"""Messages from which compiled kernels pay for loading numba; the first compilation takes a quarter of a minute."""


def is_installed() -> bool:
    """Tell whether numba can be imported, without importing it."""
    return util.find_spec("numba") is not None


@cache
def compiled_play() -> Callable[[Plan, State, Work, int], None]:
    """Return the loop of the event engine, compiled by numba; compilation is cached on disk."""
    import numba

    done: dict[str, Any] = {}
    for original in (sharing, kernels):
        module = _copy(original)
        # A kernel finds those it calls among its module's globals, so these must be compiled first.
        for name in done.keys() & vars(module).keys():
            setattr(module, name, done[name])
        for name in original.COMPILED:
            done[name] = numba.njit(cache=True)(getattr(module, name))
            setattr(module, name, done[name])
    play: Callable[[Plan, State, Work, int], None] = done["play"]
    return play


def _copy(original: ModuleType) -> ModuleType:
    """Return a module of the same source whose functions can be replaced."""
    name = f"{original.__name__}_compiled"
    spec = util.spec_from_file_location(name, original.__file__)
    if spec is None or spec.loader is None:  # pragma: no cover  a file that was just imported can be found again
        return original
    module = util.module_from_spec(spec)
    sys.modules[name] = module  # the cache on disk finds a function's module by its name
    spec.loader.exec_module(module)
    return module

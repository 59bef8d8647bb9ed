"""What backends share whose messages come from the processor: work, a clock, no device and no graphs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class OnProcessor:
    """A backend whose calls have ended when they return."""

    device_clock = False

    def graphed(self, run: Callable[[], None], count: int) -> Callable[[], None]:
        """Refuse: there are no graphs here."""
        del run, count
        raise InputError("only a GPU has graphs", where="--backend", allowed="nccl")

    def computation(self) -> Callable[[], None]:
        """Return a small computation: a few microseconds of one core."""
        return product(48, 48, 48)

    def product(self, rows: int, inner: int, columns: int) -> Callable[[], None]:
        """Return a product of matrices."""
        return product(rows, inner, columns)

    def settle(self) -> None:
        """Return at once."""

    def stamp(self) -> int:
        """Return the time now [ns]."""
        return time.perf_counter_ns()

    def read(self, stamps: Sequence[Any]) -> Sequence[int]:
        """Return marks as they are [ns]."""
        return stamps


def product(rows: int, inner: int, columns: int) -> Callable[[], None]:
    """Return a product of matrices on the processor, without the interpreter's lock."""
    left = np.full((rows, inner), 1.0 / inner, dtype=np.float32)
    right, result = np.full((inner, columns), 1.0, np.float32), np.empty((rows, columns), np.float32)

    def work() -> None:
        np.matmul(left, right, out=result)

    return work

"""Sizes of messages as text: those of nccl-tests' flags, ranges and lists with units."""

from __future__ import annotations

import math
import re
from typing import Final

from nhalf import units
from nhalf.errors import InputError

DOUBLING: Final = 2.0
_LONGEST: Final = 200
_MOST_BYTES: Final = 1e18
_BINARY: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_NCCL_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)B?", re.IGNORECASE)
_FACTOR: Final = re.compile(r"x?(\d+(?:\.\d+)?)")


def nccl_size(text: str, *, where: str) -> float:
    """Return a size [bytes] as nccl-tests reads it: K, M and G are powers of 1024, and no letter is bytes.

    Raises InputError when it is no such size.
    """
    found = _NCCL_SIZE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise InputError(
            f"{text!r} is no size of nccl-tests", where=where, allowed="8, 512K, 128M, 1G: powers of 1024, above 0"
        )
    return _held(float(found[1]) * 1024.0 ** _BINARY[found[2].upper()], where)


def parse_sizes(text: str, *, where: str = "--sizes") -> list[float]:
    """Return sizes [bytes] from `1KiB:1GiB` (doubling), `1KiB:1GiB:x4`, or a list `16KiB,1MiB`.

    Raises InputError when a size has no unit, the range runs backwards, or there are too many.
    """
    if ":" not in text:
        return sorted({_size(item, where) for item in text.split(",")})
    first, _, rest = text.partition(":")
    last, _, factor = rest.partition(":")
    by = size_factor(factor, where) if factor else DOUBLING
    return size_range(_size(first, where), _size(last, where), by, where)


def _size(text: str, where: str) -> float:
    """Return one size [bytes] above 0."""
    size = units.parse(text, "size", where=where)
    if size <= 0:
        raise InputError("a message of no bytes has no place on a scale of sizes", where=where, allowed="above 0")
    return _held(size, where)


def _held(size_bytes: float, where: str) -> float:
    """Return a size [bytes] that a memory can hold."""
    if size_bytes > _MOST_BYTES:
        raise InputError("no memory holds a message of that size", where=where, allowed="up to 1 EB (1e18 bytes)")
    return size_bytes


def size_factor(text: str, where: str) -> float:
    """Return the factor from one size to the next."""
    found = _FACTOR.fullmatch(text.strip())
    if found is None or float(found[1]) <= 1:
        raise InputError(f"{text!r} is no factor from size to size", where=where, allowed="2, or any number above 1")
    return float(found[1])


def size_range(first: float, last: float, factor: float, where: str) -> list[float]:
    """Return the sizes from the first to the last."""
    if last < first:
        raise InputError("the sizes run backwards", where=where, allowed="the smaller size first")
    count = math.floor(math.log(last / first) / math.log(factor) + 1e-9) + 1
    if count > _LONGEST:
        raise InputError(f"{count} sizes are too many", where=where, allowed=f"up to {_LONGEST}", do="raise the factor")
    return [first * factor**step for step in range(count)]

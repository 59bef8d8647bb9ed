"""Sizes: how many bytes a call moved, counted as nccl-tests counts them, from what a trace holds."""

from __future__ import annotations

from typing import Any

from nhalf.collective import Op

_BYTES = {
    "double": 8, "float64": 8, "long": 8, "int64": 8, "uint64": 8, "complexfloat": 8, "i64": 8, "u64": 8, "f64": 8,
    "float": 4, "float32": 4, "int": 4, "int32": 4, "uint32": 4, "i32": 4, "u32": 4, "f32": 4, "longint": 8,
    "half": 2, "float16": 2, "bfloat16": 2, "short": 2, "int16": 2, "uint16": 2, "f16": 2, "bf16": 2, "longlong": 8,
    "char": 1, "byte": 1, "bool": 1, "int8": 1, "uint8": 1, "i8": 1, "u8": 1, "signedchar": 1, "unsignedchar": 1,
}  # fmt: skip


def dtype_bytes(name: object) -> int | None:
    """Return the bytes of one element of a dtype as traces write it (`BFloat16`, `c10::BFloat16`, `Float8_e4m3fn`)."""
    letters = str(name).rpartition("::")[2].replace("_", "").replace(" ", "").casefold()
    if letters.startswith(("float8", "f8")):
        return 1
    return _BYTES.get(letters)


def of_elements(op: Op, sent: object, received: object, dtype: object) -> float | None:
    """Return the size [bytes] of a call from its element counts; the larger buffer where the two differ by op."""
    each = dtype_bytes(dtype)
    counts = [count for count in (sent, received) if isinstance(count, int) and count >= 0]
    if each is None or not counts or op is Op.BARRIER:
        return None
    largest = max(counts) if op in (Op.ALL_GATHER, Op.REDUCE_SCATTER) else counts[0]
    return float(largest * each) or None


_MOST = 2**60
"""A tensor of more elements than this was never on a device: the shape is damaged."""


def of_shapes(op: Op, dims: Any, types: Any, *, index: int = 0, ranks: int | None = None) -> float | None:  # noqa: ANN401  decoded JSON
    """Return the size [bytes] of a call from the shape and type of one of its tensors.

    `ranks` turns the one part that an all-gather sends into the whole that nccl-tests counts.
    """
    try:
        shape, dtype = dims[index], types[index]
    except (IndexError, TypeError, KeyError):
        return None
    elements = _elements(shape)
    if isinstance(dtype, list):
        dtype = dtype[0] if dtype else None
    each = dtype_bytes(dtype)
    if elements is None or each is None:
        return None
    if op is Op.ALL_GATHER:
        return float(elements * each * ranks) if ranks else None
    return float(elements * each)


def _elements(shape: object) -> int | None:
    """Return the elements of a shape, or of a list of shapes."""
    if not isinstance(shape, list) or not shape:
        return None
    if all(isinstance(side, list) for side in shape):
        parts = [_elements(side) for side in shape]
        return sum(part for part in parts if part) or None
    count = 1
    for side in shape:
        if not isinstance(side, int) or side < 0:
            return None
        count *= side
    return count if count < _MOST else None

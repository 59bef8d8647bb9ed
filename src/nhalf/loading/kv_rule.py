"""The cache dtype of a serving run that does not say: what its engine and checkpoint make likely.

References
----------
The house's decode-step note: FP8 for TensorRT-LLM with a quantised model, for every NVFP4 checkpoint, and on Blackwell
for FP8 and MXFP4 models; bf16 otherwise. Dense rows fit better at one byte than at two, and nobody recorded which.
A checkpoint that asks for 8 bits got them from TensorRT-LLM alone: runs of vLLM and SGLang on Hopper read two bytes an
element (72 runs of three stacks: 0.75 to 0.81 of the memory's rate at two, 0.43 to 0.58 at one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.device import generation
from nhalf.engines import ENGINES
from nhalf.transformer import KV_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

_NARROW = "fp8"
_WIDE = "bf16"
_CONFIG = "the config says so"
SEVERAL = "what servers mostly run with each system, engine and checkpoint; the bands hold fp8 and bf16"
"""The reason where one answer is about several."""


def _likely(config: str, weights: str, engine: str, architecture: str) -> tuple[str, str]:
    """Return the dtype of the cache that is most likely, and why."""
    known = ENGINES.get(engine)
    if KV_BYTES[config] <= KV_BYTES[_NARROW] and (known is None or known.quantised_kv):
        return config, _CONFIG
    if known is not None and known.quantised_kv and weights not in ("bf16", "fp16"):
        return known.quantised_kv, f"{known.title} with a quantised model"
    if weights == "nvfp4":
        return _NARROW, "an NVFP4 checkpoint"
    if generation(architecture) == "blackwell" and weights in ("fp8", "mxfp4"):
        return _NARROW, f"{weights} weights on Blackwell"
    return _WIDE, f"{weights} weights in {engine}"


def assumed_kv(*, weights: str, engine: str, architecture: str, config: str = _WIDE) -> tuple[str, Datum]:
    """Return the dtype of the cache, and the bytes per element as an assumed value with its reason.

    A `config` that asks for 8 bits gets them for certain from an engine that follows it; else the interval holds both.
    """
    dtype, reason = _likely(config, weights, engine, architecture)
    sure = reason == _CONFIG
    return dtype, Datum(
        value=KV_BYTES[dtype],
        unit="bytes",
        source="nhalf-priors",
        locator=f"cache dtype where nobody stated it: {dtype} {'as' if sure else 'for'} {reason}",
        kind="assumed",
        date="2026-11",
        low=KV_BYTES[dtype] if sure else KV_BYTES[_NARROW],
        high=KV_BYTES[dtype] if sure else KV_BYTES[_WIDE],
        note="" if sure else "the serving data do not record it; bands hold both",
    )


def default_kv(config: str, *, weights: str, engine: str, systems: Sequence[str]) -> tuple[str | None, str, str]:
    """Return the dtype that all systems take (None where they differ), the default in words, and its reason."""
    found: dict[str, list[str]] = {}
    reasons: dict[str, None] = {}
    for name in systems:
        dtype, reason = _likely(config, weights, engine, store.system(name)[0].device.architecture)
        found.setdefault(dtype, []).append(name)
        reasons[reason] = None
    if list(reasons) == [_CONFIG]:
        why = _CONFIG
    else:
        why = f"what servers mostly run with {', '.join(reasons)}; the band holds {_NARROW} and {_WIDE}"
    shown = ", ".join(f"{dtype} on {', '.join(names)}" for dtype, names in found.items())
    shared = next(iter(found)) if len(found) == 1 else None
    return shared, shared or shown, why


def other_kv_bytes(origin: Datum) -> float:
    """Return what an element of the cache weighs if its assumed dtype is wrong [bytes]."""
    low, high = origin.low or origin.value, origin.high or origin.value
    return high if origin.value == low else low

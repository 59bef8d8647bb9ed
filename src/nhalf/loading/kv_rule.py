"""The cache dtype of a serving run that does not say: what its engine and checkpoint make likely.

References
----------
The house's decode-step note: FP8 for TensorRT-LLM with a quantised model, for every NVFP4 checkpoint, and on Blackwell
for FP8 and MXFP4 models; bf16 otherwise. Dense rows fit better at one byte than at two, and nobody recorded which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.device import generation
from nhalf.transformer import KV_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

_NARROW = "fp8"
_WIDE = "bf16"


def assumed_kv(*, weights: str, engine: str, architecture: str) -> tuple[str, Datum]:
    """Return the dtype of the cache, and the bytes per element as an assumed value with its reason."""
    if engine == "trtllm" and weights not in ("bf16", "fp16"):
        dtype, reason = _NARROW, "TensorRT-LLM with a quantised model"
    elif weights == "nvfp4":
        dtype, reason = _NARROW, "an NVFP4 checkpoint"
    elif generation(architecture) == "blackwell" and weights in ("fp8", "mxfp4"):
        dtype, reason = _NARROW, f"{weights} weights on Blackwell"
    else:
        dtype, reason = _WIDE, f"{weights} weights in {engine}"
    return dtype, Datum(
        value=KV_BYTES[dtype],
        unit="bytes",
        source="nhalf-priors",
        locator=f"cache dtype where nobody stated it: {dtype} for {reason}",
        kind="assumed",
        date="2026-11",
        low=KV_BYTES[_NARROW],
        high=KV_BYTES[_WIDE],
        note="the serving data do not record it; bands hold both",
    )


def default_reason(chosen: str, *, weights: str, engine: str, systems: Iterable[str]) -> str:
    """Return why a dtype of the cache is the default of one asked step, and where measured servers likely differ.

    The band of a step reaches down to 8 bits, and never up: a config that asks for 8 bits gets them.
    """
    narrow = KV_BYTES[chosen] <= KV_BYTES[_NARROW]
    for name in systems:
        architecture = store.system(name)[0].device.architecture
        likely, _ = assumed_kv(weights=weights, engine=engine, architecture=architecture)
        if KV_BYTES[likely] != KV_BYTES[chosen]:
            band = f"the band holds {chosen} alone" if narrow else "the band holds both"
            return f"the config says so; nhalf predict takes {likely} here, as such servers mostly run; {band}"
    if narrow:
        return "the config says so, and nhalf predict takes as much"
    return "the config says so; a server may run fp8, and the band allows for it"


def other_kv_bytes(dtype: str) -> float:
    """Return the bytes per element of the other common dtype [bytes]."""
    return KV_BYTES[_WIDE if KV_BYTES[dtype] == KV_BYTES[_NARROW] else _NARROW]

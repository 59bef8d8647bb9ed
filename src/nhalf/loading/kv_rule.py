"""The cache dtype of a serving run that does not say: what its engine and checkpoint make likely.

References
----------
The house's decode-step note: FP8 for TensorRT-LLM with a quantised model, for every NVFP4 checkpoint, and on Blackwell
for FP8 and MXFP4 models; bf16 otherwise. Dense rows fit better at one byte than at two, and nobody recorded which.
"""

from __future__ import annotations

from nhalf.citation import Datum
from nhalf.transformer import KV_BYTES

_NARROW = "fp8"
_WIDE = "bf16"


def assumed_kv(*, weights: str, engine: str, architecture: str) -> tuple[str, Datum]:
    """Return the dtype of the cache, and the bytes per element as an assumed value with its reason."""
    if engine == "trtllm" and weights not in ("bf16", "fp16"):
        dtype, reason = _NARROW, "TensorRT-LLM with a quantised model"
    elif weights == "nvfp4":
        dtype, reason = _NARROW, "an NVFP4 checkpoint"
    elif architecture == "blackwell" and weights in ("fp8", "mxfp4"):
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


def other_kv_bytes(dtype: str) -> float:
    """Return the bytes per element of the other common dtype [bytes]."""
    return KV_BYTES[_WIDE if KV_BYTES[dtype] == KV_BYTES[_NARROW] else _NARROW]

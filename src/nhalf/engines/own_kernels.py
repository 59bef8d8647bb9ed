"""Own kernels: up to which size engines do an all-reduce of one node without NCCL, and how that is changed.

A tuner of NCCL acts only on what these decline.

References
----------
vLLM 0.33.0, `distributed/device_communicators` (custom, symmetric memory, FlashInfer); SGLang 0.5.23,
`distributed/device_communicators`; TensorRT-LLM, `llmapi/llm_args.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKernels:
    """The kernels of one engine: `caps` [bytes] by architecture and ranks, the flags that turn them off, a size's name.

    Where no cap is known they run at every size of a decode step. `size_setting` takes KiB, empty where there is none.
    """

    off: str
    caps: Mapping[tuple[str, int], int] = field(default_factory=dict)
    size_setting: str = ""

    def cap(self, architecture: str, ranks: int) -> int | None:
        """Return up to which size they run on so many ranks of a node, None where it is not known."""
        return self.caps.get((architecture, ranks))


OWN: Final[Mapping[str, OwnKernels]] = {
    "vllm": OwnKernels(
        off="--disable-custom-all-reduce, VLLM_ALLREDUCE_USE_SYMM_MEM=0, VLLM_ALLREDUCE_USE_FLASHINFER=0 and "
        "pass_config.fuse_allreduce_rms=false",
        caps={
            ("hopper", 2): 64 * _MIB, ("hopper", 4): 32 * _MIB, ("hopper", 6): 64 * _MIB, ("hopper", 8): 64 * _MIB,
            ("blackwell", 2): 8 * _MIB, ("blackwell", 4): 32 * _MIB, ("blackwell", 6): 128 * _MIB,
            ("blackwell", 8): 128 * _MIB,
        },
    ),
    "sglang": OwnKernels(
        off="--disable-custom-all-reduce and --enforce-disable-flashinfer-allreduce-fusion",
        size_setting="SGLANG_CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB",
        caps={(name, ranks): 16 * _MIB for name in ("hopper", "blackwell") for ranks in (2, 4, 8)},
    ),
    "trtllm": OwnKernels(off="allreduce_strategy: NCCL"),
}  # fmt: skip
"""The kernels of each engine, by its name."""

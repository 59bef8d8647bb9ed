"""What is launched: a model, how many sequences, how long, and in which number formats.

References
----------
Of number formats, both vLLM and SGLang make only fp8 of 16-bit weights in every version under one name (vLLM,
"Quantization"; SGLang, "Quantization"): the others come from a checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nhalf.layout import Layout


PLACEHOLDER: Final = "MODEL"
"""What stands in a line for a model that no repository is known for: one described in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is launched: a model by the name that engines know, how many sequences (of one replica) and how long.

    `quantised` is the dtype of the weights where it is not the checkpoint's, which are of 16 bits if `plain`; `mixture`
    tells whether the model has experts; `devices_per_node` how nodes are filled.
    """

    model: str
    batch: int
    tokens: int
    kv_dtype: str
    quantised: str
    mixture: bool
    devices_per_node: int
    plain: bool = True

    def each(self, layout: Layout) -> int:
        """Return how many sequences each data-parallel rank of a layout runs."""
        return -(-self.batch // layout.attention_dp)

    def nodes(self, layout: Layout) -> int:
        """Return how many nodes a replica takes."""
        return -(-layout.devices // self.devices_per_node)

    @property
    def method(self) -> str:
        """Return the method by which an engine quantises the checkpoint when it loads, empty where none does."""
        return self.quantised if self.plain and self.quantised in _METHODS else ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Return what no flag of vLLM and SGLang makes: weights that no method makes of the checkpoint, a cache."""
        weights = [checkpoint(self.quantised)] if self.quantised and not self.method else []
        cache = [] if self.kv_dtype in ("bf16", "fp16", "fp8") else [f"a cache in {self.kv_dtype}, which has no flag"]
        return (*weights, *cache)


_METHODS: Final = ("fp8",)
"""Number formats that vLLM and SGLang both make of 16-bit weights when they load, under the format's own name."""


def checkpoint(dtype: str) -> str:
    """Return in words what checkpoint holds weights of a number format."""
    return f"a checkpoint in {dtype}" if dtype in ("bf16", "fp16") else f"a checkpoint quantised to {dtype}"

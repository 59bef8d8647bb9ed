"""A layout: how a model is split over devices, and whether it can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.fabric import Fabric
    from nhalf.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Degrees of parallelism: `tensor_parallel` (TP) devices share every layer."""

    tensor_parallel: int = 1

    @property
    def devices(self) -> int:
        """Return how many devices one replica uses."""
        return self.tensor_parallel


def check(layout: Layout, transformer: Transformer, fabric: Fabric) -> None:
    """Refuse a layout that the model or the machine does not allow.

    Raises
    ------
    InputError
        TP does not divide the heads or the feed-forward width, or does not fill whole nodes.
    """
    degree = layout.tensor_parallel
    if degree < 1:
        raise InputError(f"TP {degree} is no degree", where="--tp", allowed="a whole number of 1 or more")
    legal = [candidate for candidate in range(1, 1025) if _splits(candidate, transformer, fabric)]
    if degree in legal:
        return
    reason = _refusal(degree, transformer, fabric)
    raise InputError(
        f"TP {degree} cannot split {transformer.name}: {reason}",
        where="--tp",
        allowed=", ".join(str(candidate) for candidate in legal),
    )


def _splits(degree: int, transformer: Transformer, fabric: Fabric) -> bool:
    """Tell whether a TP degree is legal."""
    return not _refusal(degree, transformer, fabric)


def _refusal(degree: int, transformer: Transformer, fabric: Fabric) -> str:
    """Return why a TP degree is not legal, or an empty string."""
    for layer in transformer.layers:
        attention = layer.attention
        if attention.heads % degree:
            return f"it does not divide {attention.heads} attention heads"
        if attention.kv_heads % degree and degree % attention.kv_heads:
            return f"it neither divides nor is a multiple of {attention.kv_heads} key-value heads"
        if layer.feed_forward.intermediate_size % degree:
            return f"it does not divide the feed-forward width {layer.feed_forward.intermediate_size}"
    per_node = fabric.devices_per_node
    if degree > per_node and degree % per_node:
        return f"it does not fill whole nodes of {per_node}"
    return ""

"""Weights: what a parameter weighs, how groups of parameters are split over devices, and how often they are read.

Records that stay inside this package are NamedTuples: each costs a command an eighth of a dataclass to define.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

WEIGHT_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625, "mxfp4": 0.53125, "int4": 0.5625}
"""Bytes per weight [bytes], block scales included: nvfp4 is 4 bits and an 8-bit scale for 16 weights, mxfp4 for 32,
int4 a 16-bit scale for a group of 32 (OCP Microscaling Formats v1.0; the house's decode-step note). The scales of an
fp8 checkpoint depend on its blocks: see `WeightGroup.scale_bytes`."""
KV_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
"""Bytes per element of the key-value cache [bytes]."""
BITS = {"bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "nvfp4": 4, "mxfp4": 4, "int4": 4}
"""Bits per weight, scales left out: what makes one dtype wider than another."""
UNQUANTISED = 16
"""The `narrowest_bits` of what a quantiser leaves alone: embeddings, output head, norms, routers, biases."""

Split = Literal["tensor", "expert", "none"]
"""How ranks share a group: `tensor`, each TP rank holds its part; `expert`, each of moe_tp x ep ranks holds its part;
`none`, every rank holds and reads all of it."""
Read = Literal["step", "routed", "never"]
"""When a step reads a group: `step`, always; `routed`, only the experts that its tokens chose; `never`, not as a whole
(of an embedding table, one row per token)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightGroup:
    """Parameters of the whole model, all layers together, that share a dtype, a split and a way of being read.

    `scale_bytes` are the bytes per parameter [bytes] of scales beyond those that `WEIGHT_BYTES` includes. `pieces` is
    the most parts that a `tensor` group can be cut into (key-value heads); further ranks hold copies. `narrowest_bits`
    is the narrowest format that quantisers give the group unless they are told to. `inputs` counts the activations that
    its products read, over all layers: what is brought to the dtype of the weights first where products run in it.
    """

    name: str
    parameters: float
    dtype: str
    split: Split
    read: Read
    scale_bytes: float = 0.0
    pieces: int | None = None
    narrowest_bits: int = UNQUANTISED
    inputs: int = 0

    @property
    def bytes_per_parameter(self) -> float:
        """Return the bytes of one parameter with its part of the scales [bytes]."""
        return WEIGHT_BYTES[self.dtype] + self.scale_bytes

    @property
    def bytes(self) -> float:
        """Return the bytes of the group in the whole model [bytes]."""
        return self.parameters * self.bytes_per_parameter

    def share(self, ranks: int) -> float:
        """Return the part of the group on one of `ranks` ranks that split it: TP, or moe_tp x ep for experts."""
        if self.split == "none":
            return 1.0
        return 1.0 / min(ranks, self.pieces or ranks)


class Matrix(NamedTuple):
    """One weight matrix of one layer (or the vectors of a block), by the name its module has inside the layer.

    Modules are called as in the Llama and DeepSeek code; a family that calls them differently says so (see `Naming`).
    The remaining fields are those of `WeightGroup`; `group` is its name. `inputs` is 0 for a matrix that reads what one
    before it reads: keys and values what the queries read, an up projection what its gate reads.
    """

    module: str
    group: str
    parameters: int
    split: Split = "tensor"
    read: Read = "step"
    pieces: int | None = None
    narrowest_bits: int = 4
    inputs: int = 0


class Format(NamedTuple):
    """The number format of stored weights, with the bytes per weight of scales that `WEIGHT_BYTES` leaves out."""

    dtype: str
    scale_bytes: float = 0.0


def vectors(parameters: int) -> Matrix:
    """Return a block's biases, norms and other vectors: every rank holds them, nobody quantises them."""
    return Matrix(module="", group="vectors", parameters=parameters, split="none", narrowest_bits=UNQUANTISED)


def gathered(matrices: Iterable[tuple[Matrix, Format]]) -> tuple[WeightGroup, ...]:
    """Return the groups of matrices that are alike in everything but their module, in the order they first come."""
    totals: dict[tuple[object, ...], float] = {}
    inputs: dict[tuple[object, ...], int] = {}
    first: dict[tuple[object, ...], tuple[Matrix, Format]] = {}
    for matrix, form in matrices:
        key = (matrix.group, matrix.split, matrix.read, matrix.pieces, matrix.narrowest_bits, form)
        first.setdefault(key, (matrix, form))
        totals[key] = totals.get(key, 0.0) + matrix.parameters
        inputs[key] = inputs.get(key, 0) + matrix.inputs
    return tuple(
        WeightGroup(
            name=matrix.group,
            parameters=totals[key],
            dtype=form.dtype,
            split=matrix.split,
            read=matrix.read,
            scale_bytes=form.scale_bytes,
            pieces=matrix.pieces,
            narrowest_bits=matrix.narrowest_bits,
            inputs=inputs[key],
        )
        for key, (matrix, form) in first.items()
        if totals[key]
    )

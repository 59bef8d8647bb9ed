"""A transformer: what a model weighs, keeps and computes; counts are of the whole model, before any split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nhalf.errors import InputError, did_you_mean
from nhalf.transformer.feedforward import ExpertFeedForward
from nhalf.transformer.weights import BITS, KV_BYTES, WEIGHT_BYTES, Matrix, WeightGroup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.transformer.attention import Attention
    from nhalf.transformer.feedforward import FeedForward

_SPARSE_LATENT = ("sparse latent attention", "sparse latent attention, index shared", "compressed sparse attention")
_LATENT = ("latent attention", "heavily compressed attention", *_SPARSE_LATENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """`count` equal layers of the stack: an attention block, a feed-forward block and their norms of d elements.

    Hybrid stacks have layers of one block only; the other is None then. `indices` are the places in the stack.
    """

    count: int
    attention: Attention | None
    feed_forward: FeedForward | None
    norms: int = 2
    indices: tuple[int, ...] = ()

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the weights of one of the layers, its norms left out."""
        mixing = () if self.attention is None else self.attention.matrices(hidden_size)
        return (*mixing, *(() if self.feed_forward is None else self.feed_forward.matrices(hidden_size)))


class CachePart(NamedTuple):
    """The layers with one kind of attention: what they keep per token, or per sequence, is alike."""

    name: str
    layer_count: int
    attention: Attention


class MixtureOfExperts(NamedTuple):
    """The routed experts of a model: every token goes to `chosen` of the `experts` in each of `layer_count` layers.

    `expert_parameters` are those of one expert in one layer, `expert_bytes` its bytes as the checkpoint stores it
    [bytes]; a shared expert is not among them, each step reads it.
    """

    experts: int
    chosen: int
    expert_parameters: int
    intermediate_size: int
    expert_dtype: str
    expert_bytes: float
    layer_count: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Transformer:
    """A decoder-only transformer.

    `weight_dtype` is what its quantised matrices are stored in, `base_dtype` what the others are. `groups` are its
    weights as the checkpoint stores them. `left_out` names parts of the checkpoint that are not counted, because no
    decode step of the text model reads them.
    """

    name: str
    hidden_size: int
    vocabulary_size: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    weight_dtype: str
    kv_dtype: str
    base_dtype: str = "bf16"
    groups: tuple[WeightGroup, ...] = ()
    left_out: tuple[str, ...] = ()

    # ------------------------------------------------------------------------------------------------------- layers

    @cached_property
    def layer_count(self) -> int:
        """Return the number of layers L."""
        return sum(layer.count for layer in self.layers)

    @property
    def block_count(self) -> int:
        """Return the attention and feed-forward blocks of all layers: TP pays one all-reduce for each."""
        return sum(layer.count * ((layer.attention is not None) + (layer.feed_forward is not None))
                   for layer in self.layers)  # fmt: skip

    @cached_property
    def moe_layer_count(self) -> int:
        """Return the number of layers with experts."""
        return sum(layer.count for layer in self.layers if isinstance(layer.feed_forward, ExpertFeedForward))

    @cached_property
    def mla_layer_count(self) -> int:
        """Return the number of layers with latent or compressed attention, sparse or not."""
        return self._counted(*_LATENT)

    @cached_property
    def sparse_layer_count(self) -> int:
        """Return the number of layers whose attention reads the cached tokens that an indexer chose (DSA)."""
        return self._counted("block-sparse attention", *_SPARSE_LATENT)

    @cached_property
    def linear_layer_count(self) -> int:
        """Return the number of layers that keep a state instead of a cache: linear attention and state space."""
        return self._counted("linear attention", "state space")

    def _counted(self, *kinds: str) -> int:
        return sum(part.layer_count for part in self.cache_parts() if part.name in kinds)

    def cache_parts(self) -> tuple[CachePart, ...]:
        """Return the kinds of attention, each with its number of layers, in the order of the stack."""
        return self._parts

    @cached_property
    def _parts(self) -> tuple[CachePart, ...]:
        """Return what `cache_parts` does, counted once."""
        counts: dict[Attention, int] = {}
        for layer in self.layers:
            if layer.attention is not None:
                counts[layer.attention] = counts.get(layer.attention, 0) + layer.count
        return tuple(CachePart(name=each.kind, layer_count=count, attention=each) for each, count in counts.items())

    # ------------------------------------------------------------------------------------------------------- counts

    @property
    def layer_parameters(self) -> int:
        """Return the weights of every attention and feed-forward block, every expert counted."""
        return sum(
            layer.count * sum(matrix.parameters for matrix in layer.matrices(self.hidden_size)) for layer in self.layers
        )

    @property
    def norm_parameters(self) -> int:
        """Return the weights of the layers' norms and of the last one; every TP rank holds them all."""
        return (sum(layer.count * layer.norms for layer in self.layers) + 1) * self.hidden_size

    @property
    def head_parameters(self) -> int:
        """Return the weights of the output projection to the vocabulary, read each step."""
        return self.vocabulary_size * self.hidden_size

    @property
    def embedding_parameters(self) -> int:
        """Return the weights of an embedding table of its own: held in memory, of which a step reads one row."""
        return 0 if self.tied_embeddings else self.vocabulary_size * self.hidden_size

    @property
    def parameters(self) -> int:
        """Return the total parameter count, as a model card states it: embeddings too, but not what is `left_out`."""
        return self.layer_parameters + self.norm_parameters + self.head_parameters + self.embedding_parameters

    @property
    def active_parameters(self) -> int:
        """Return the parameters that one token multiplies with: the chosen experts, and no embedding table.

        Model cards differ: some count the table too (add `embedding_parameters`), a few leave out the head as well.
        """
        idle = sum(
            layer.count * (block.experts - block.chosen) * block.expert_parameters(self.hidden_size)
            for layer in self.layers
            if isinstance(block := layer.feed_forward, ExpertFeedForward)
        )
        return self.parameters - self.embedding_parameters - idle

    @cached_property
    def mixture(self) -> MixtureOfExperts | None:
        """Return the routed experts, None for a dense model."""
        blocks = [layer.feed_forward for layer in self.layers if isinstance(layer.feed_forward, ExpertFeedForward)]
        if not blocks:
            return None
        routed = [group for group in self.groups if group.read == "routed"]
        largest = max(routed, key=lambda group: group.parameters)
        return MixtureOfExperts(
            experts=blocks[0].experts,
            chosen=blocks[0].chosen,
            expert_parameters=blocks[0].expert_parameters(self.hidden_size),
            intermediate_size=blocks[0].intermediate_size,
            expert_dtype=largest.dtype,
            expert_bytes=sum(group.bytes for group in routed) / (blocks[0].experts * self.moe_layer_count),
            layer_count=self.moe_layer_count,
        )

    # -------------------------------------------------------------------------------------------------------- cache

    def kv_elements(self, ranks: int) -> float:
        """Return the cached elements per token of all layers on one of `ranks` TP ranks, index keys left out."""
        return sum(part.layer_count * part.attention.kv_elements(ranks) for part in self.cache_parts())

    def kv_bytes(self, ranks: int = 1, dtype: str | None = None) -> float:
        """Return the bytes per token [bytes] that one of `ranks` TP ranks caches within every window, index keys too.

        `dtype` is the cache's, the checkpoint's own when it is None.
        """
        element = KV_BYTES[dtype or self.kv_dtype]
        return self.kv_elements(ranks) * element + sum(
            part.layer_count * part.attention.index_bytes for part in self.cache_parts()
        )

    # ------------------------------------------------------------------------------------------------------ weights

    def weights(self, dtype: str | None = None) -> tuple[WeightGroup, ...]:
        """Return the weights as the checkpoint stores them, or as a quantiser to `dtype` would by default.

        A quantiser leaves embeddings, output head, norms, routers and biases alone, and one to 4 bits the latent
        projections too. A checkpoint that is already as narrow keeps its exceptions.

        Raises
        ------
        InputError
            The dtype is not known, or wider than what the checkpoint holds.
        """
        if dtype is None or dtype == self.weight_dtype:
            return self.groups
        if dtype not in BITS:
            known = ", ".join(WEIGHT_BYTES)
            raise InputError(
                f"{dtype!r} is not a weight dtype", where="--weights", allowed=known, do=did_you_mean(dtype, BITS)
            )
        held = BITS[self.weight_dtype]
        if BITS[dtype] > held:
            raise InputError(
                f"{dtype} is wider than the {self.weight_dtype} weights that {self.name} holds",
                where="--weights",
                allowed=", ".join(each for each, bits in BITS.items() if bits <= held),
                do="name the checkpoint of the wider dtype",
            )
        return _quantised(self, dtype)

    def in_dtype(self, group: WeightGroup, dtype: str) -> WeightGroup:
        """Return a group as a quantiser to the dtype stores it."""
        bits, held = BITS[dtype], BITS[self.weight_dtype]
        if bits == held:
            return replace(group, dtype=dtype, scale_bytes=0.0) if group.dtype == self.weight_dtype else group
        if bits >= group.narrowest_bits:
            return replace(group, dtype=dtype, scale_bytes=0.0)
        return replace(group, dtype=self.base_dtype, scale_bytes=0.0)


@lru_cache(maxsize=16)
def _quantised(transformer: Transformer, dtype: str) -> tuple[WeightGroup, ...]:
    """Return the weights of a model as a quantiser to a dtype stores them; the last few models asked for are kept."""
    return _merged(transformer.in_dtype(group, dtype) for group in transformer.groups)


def _merged(groups: Iterable[WeightGroup]) -> tuple[WeightGroup, ...]:
    """Return the groups with those that became alike added up."""
    sums: dict[WeightGroup, float] = {}
    for group in groups:
        alike = replace(group, parameters=0.0)
        sums[alike] = sums.get(alike, 0.0) + group.parameters
    return tuple(replace(alike, parameters=parameters) for alike, parameters in sums.items())

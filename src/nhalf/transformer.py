"""A transformer: what a model weighs, keeps and computes, read from its Hugging Face config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nhalf.errors import InputError, did_you_mean

WEIGHT_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "nvfp4": 0.5625, "mxfp4": 0.53125, "int4": 0.5625}
"""Bytes per weight [bytes], block scales included: nvfp4 is 4 bits and an 8-bit scale for 16 weights, mxfp4 for 32,
int4 a 16-bit scale for a group of 32 (OCP Microscaling Formats v1.0; the house's decode-step note)."""
KV_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
"""Bytes per element of the key-value cache [bytes]."""
_TORCH_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}
_ARCHITECTURES = {"LlamaForCausalLM": False, "Qwen3ForCausalLM": True}
"""The architectures read here, and whether they normalise queries and keys per head."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedQueryAttention:
    """Attention in which groups of query heads share key-value heads (Ainslie et al., arXiv:2305.13245)."""

    heads: int
    kv_heads: int
    head_dim: int
    biased: bool
    normed: bool

    def parameters(self, hidden_size: int) -> int:
        """Return the weights of the four projections, their biases and the per-head norms."""
        width = (2 * self.heads + 2 * self.kv_heads) * self.head_dim * hidden_size
        biases = (self.heads + 2 * self.kv_heads) * self.head_dim + hidden_size if self.biased else 0
        return width + biases + (2 * self.head_dim if self.normed else 0)

    def kv_elements(self, ranks: int) -> float:
        """Return the cached elements per token on one of `ranks` TP ranks; a head is not split but copied."""
        return 2.0 * max(1.0, self.kv_heads / ranks) * self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GatedFeedForward:
    """A feed-forward block of gate, up and down projections (Shazeer, arXiv:2002.05202)."""

    intermediate_size: int
    biased: bool

    def parameters(self, hidden_size: int) -> int:
        """Return the weights of the three projections and their biases."""
        biases = 2 * self.intermediate_size + hidden_size if self.biased else 0
        return 3 * hidden_size * self.intermediate_size + biases


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layer:
    """`count` equal layers of the stack: an attention block, a feed-forward block and their two norms."""

    count: int
    attention: GroupedQueryAttention
    feed_forward: GatedFeedForward


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transformer:
    """A decoder-only transformer; counts are of the whole model, before any split."""

    name: str
    hidden_size: int
    vocabulary_size: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool
    weight_dtype: str
    kv_dtype: str

    @property
    def layer_count(self) -> int:
        """Return the number of layers L."""
        return sum(layer.count for layer in self.layers)

    @property
    def layer_parameters(self) -> int:
        """Return the weights of every attention and feed-forward block: what a weight dtype quantises."""
        return sum(
            layer.count
            * (layer.attention.parameters(self.hidden_size) + layer.feed_forward.parameters(self.hidden_size))
            for layer in self.layers
        )

    @property
    def norm_parameters(self) -> int:
        """Return the weights of the norms; every TP rank holds them all."""
        return (2 * self.layer_count + 1) * self.hidden_size

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
        """Return the total parameter count, as a model card states it."""
        return self.layer_parameters + self.norm_parameters + self.head_parameters + self.embedding_parameters

    def kv_elements(self, ranks: int) -> float:
        """Return the cached elements per token of all layers on one of `ranks` TP ranks."""
        return sum(layer.count * layer.attention.kv_elements(ranks) for layer in self.layers)

    @property
    def attention_width(self) -> int:
        """Return the sum over layers of heads x head dimension: what the scores and the values multiply."""
        return sum(layer.count * layer.attention.heads * layer.attention.head_dim for layer in self.layers)


def from_config(config: Mapping[str, Any], *, name: str, where: str) -> Transformer:
    """Return the transformer that a Hugging Face config.json describes.

    `where` names the file in messages.

    Raises
    ------
    InputError
        An architecture that is not read here, or a field that is missing or impossible.
    """
    fields = _Fields(config, where)
    architecture = fields.architecture()
    hidden_size = fields.count("hidden_size")
    heads = fields.count("num_attention_heads")
    attention = GroupedQueryAttention(
        heads=heads,
        kv_heads=fields.count("num_key_value_heads", default=heads),
        head_dim=fields.count("head_dim", default=hidden_size // heads),
        biased=fields.flag("attention_bias"),
        normed=_ARCHITECTURES[architecture],
    )
    if heads % attention.kv_heads:
        raise fields.error(
            "num_key_value_heads", f"{attention.kv_heads} does not divide {heads} heads", f"a divisor of {heads}"
        )
    if fields.flag("use_sliding_window"):
        raise fields.error("use_sliding_window", "sliding-window layers are not modelled yet", "false")
    feed_forward = GatedFeedForward(intermediate_size=fields.count("intermediate_size"), biased=fields.flag("mlp_bias"))
    layer = Layer(count=fields.count("num_hidden_layers"), attention=attention, feed_forward=feed_forward)
    return Transformer(
        name=name,
        hidden_size=hidden_size,
        vocabulary_size=fields.count("vocab_size"),
        layers=(layer,),
        tied_embeddings=fields.flag("tie_word_embeddings"),
        weight_dtype=fields.weight_dtype(),
        kv_dtype=fields.torch_dtype(),
    )


@dataclass(frozen=True, slots=True)
class _Fields:
    """A config's fields, read with one clear error for each kind of fault."""

    config: Mapping[str, Any]
    where: str

    def error(self, key: str, what: str, allowed: str) -> InputError:
        """Return the error of a field."""
        return InputError(f"field {key!r}: {what}", where=self.where, allowed=allowed)

    def architecture(self) -> str:
        """Return the architecture, if it is one that is read here."""
        named = self.config.get("architectures")
        known = ", ".join(_ARCHITECTURES)
        if not isinstance(named, list) or not named or not isinstance(named[0], str):
            raise self.error("architectures", "it is missing or no list of names", known)
        if named[0] not in _ARCHITECTURES:
            raise InputError(
                f"field 'architectures': {named[0]!r} is not an architecture nhalf knows, and it never guesses",
                where=self.where,
                allowed=known,
                do=did_you_mean(named[0], _ARCHITECTURES),
            )
        return named[0]

    def count(self, key: str, *, default: int | None = None) -> int:
        """Return a positive whole number."""
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.error(key, "it is missing", "a positive whole number")
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise self.error(key, f"{value!r} is not possible", "a positive whole number")
        return value

    def flag(self, key: str) -> bool:
        """Return a switch that is off when it is absent."""
        value = self.config.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(key, f"{value!r} is not possible", "true or false")
        return value

    def torch_dtype(self) -> str:
        """Return the dtype that weights and cache have unless something says otherwise; bf16 when none is named."""
        named = self.config.get("torch_dtype", self.config.get("dtype"))
        if named is None:
            return "bf16"
        if named not in _TORCH_DTYPES:
            raise self.error("torch_dtype", f"{named!r} is not read", ", ".join(_TORCH_DTYPES))
        return _TORCH_DTYPES[named]

    def weight_dtype(self) -> str:
        """Return the dtype of the layers' weights, quantised or not."""
        quantised = self.config.get("quantization_config")
        if quantised is None:
            return self.torch_dtype()
        method = quantised.get("quant_method") if isinstance(quantised, Mapping) else None
        if method != "fp8":
            raise self.error("quantization_config.quant_method", f"{method!r} is not read", "fp8")
        return "fp8"

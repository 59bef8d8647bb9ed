"""Reads a description of a transformer in TOML: for an architecture that no config.json reader here knows.

    name = "my-model"
    hidden_size = 4096
    vocabulary_size = 128_256
    tied_embeddings = false        # the default
    weights = "bf16"               # dtype of the matrices of all layers (the default), or a table with
                                   # attention, feed_forward, experts: {attention = "bf16", experts = "mxfp4"}
    kv = "bf16"                    # dtype of the cache (the default)

    [[layers]]                     # once for each kind of layer
    count = 36
    attention = {kind = "grouped", heads = 32, kv_heads = 8, head_dim = 128}    # window = 4096 where there is one
    feed_forward = {kind = "gated", width = 14_336}

Kinds of attention and their fields (those in brackets may be left out):

- grouped: heads, kv_heads, head_dim, [window]
- latent: heads, latent, rope_dim, nope_dim, value_dim, [query_rank], [index_heads, index_dim, index_tokens]
- linear: heads, key_heads, key_dim, value_dim, kernel, [state: fp32 or bf16]
- state-space: heads, head_dim, groups, state_size, kernel, [state: fp32 or bf16]

Kinds of feed_forward: gated (three matrices) and plain (two), both with width; experts with experts, chosen, width,
[shared_width], [gated = true]. A layer may lack attention or feed_forward, not both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.transformer.assembly import Shape, assemble, stacked
from nhalf.transformer.attention import Attention, GroupedQueryAttention, Indexer
from nhalf.transformer.feedforward import ExpertFeedForward, GatedFeedForward
from nhalf.transformer.fields import Fields
from nhalf.transformer.latent import LatentAttention
from nhalf.transformer.model import Layer
from nhalf.transformer.recurrence import STATE_BYTES, LinearAttention, StateSpace
from nhalf.transformer.weights import KV_BYTES, WEIGHT_BYTES, Format

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.transformer.feedforward import FeedForward
    from nhalf.transformer.model import Transformer

_BLOCKS = ("attention", "feed_forward", "experts")
_FIELDS = ("name", "hidden_size", "vocabulary_size", "tied_embeddings", "weights", "kv", "layers")


def from_description(table: Mapping[str, Any], *, where: str) -> Transformer:
    """Return the transformer that a TOML table describes; the form is that of this module's own text.

    Raises
    ------
    InputError
        A field that is missing, impossible or unknown.
    """
    fields = Fields(table, where)
    fields.known_fields(_FIELDS)
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise fields.error("name", "it is missing or no text", "what to call the model")
    dtypes = _dtypes(fields)
    layers = stacked(_layers(fields))

    def formats(index: int, module: str) -> Format:
        del index
        return Format(dtype=dtypes[_block(module)])

    narrowest = min(dtypes.values(), key=WEIGHT_BYTES.__getitem__)
    shape = Shape(
        name=name,
        hidden_size=fields.count("hidden_size"),
        vocabulary_size=fields.count("vocabulary_size"),
        tied_embeddings=fields.flag("tied_embeddings"),
    )
    kv = fields.text("kv", KV_BYTES, default="bf16")
    return assemble(shape, layers, base="bf16", kv=kv, dtype=narrowest, formats=formats)


def _dtypes(fields: Fields) -> dict[str, str]:
    """Return the dtype of each kind of block."""
    if not isinstance(fields.config.get("weights"), dict):
        return dict.fromkeys(_BLOCKS, fields.text("weights", WEIGHT_BYTES, default="bf16"))
    table = fields.table("weights")
    table.known_fields(_BLOCKS)
    return {block: table.text(block, WEIGHT_BYTES, default="bf16") for block in _BLOCKS}


def _block(module: str) -> str:
    """Return which kind of block a module belongs to."""
    if module.startswith("mlp.experts."):
        return "experts"
    return "feed_forward" if module.startswith("mlp.") else "attention"


def _layers(fields: Fields) -> list[Layer]:
    """Return every layer, in order."""
    value = fields.config.get("layers")
    if not isinstance(value, list) or not value:
        raise fields.error(
            "layers", "it is missing or no list of tables", "[[layers]] with count, attention, feed_forward"
        )
    found: list[Layer] = []
    for place, entry in enumerate(value):
        key = f"layers[{place}]"
        table = Fields({key: entry}, fields.where).table(key)
        table.known_fields(("count", "attention", "feed_forward"))
        mixing = _chosen(table.table("attention"), _ATTENTIONS) if table.has("attention") else None
        block = _chosen(table.table("feed_forward"), _FEED_FORWARDS) if table.has("feed_forward") else None
        if mixing is None and block is None:
            raise table.error("attention", "the layer has neither attention nor feed_forward", "at least one of them")
        norms = (mixing is not None) + (block is not None)
        layer = Layer(count=1, attention=mixing, feed_forward=block, norms=norms)
        found += [layer] * table.layer_count("count")
    return found


def _chosen(fields: Fields, kinds: Mapping[str, tuple[Callable[[Fields], Any], tuple[str, ...]]]) -> Any:  # noqa: ANN401
    """Return the block of the kind that a table names; its fields are checked against those of the kind."""
    read, known = kinds[fields.text("kind", kinds)]
    fields.known_fields(("kind", *known))
    return read(fields)


def _grouped(fields: Fields) -> Attention:
    heads, kv_heads = fields.count("heads"), fields.count("kv_heads")
    if heads % kv_heads:
        raise fields.error("kv_heads", f"{kv_heads} does not divide {heads} heads", f"a divisor of {heads}")
    return GroupedQueryAttention(
        heads=heads, kv_heads=kv_heads, head_dim=fields.count("head_dim"), window=fields.optional("window")
    )


def _latent(fields: Fields) -> Attention:
    indexer = None
    if any(fields.has(key) for key in ("index_heads", "index_dim", "index_tokens")):
        indexer = Indexer(
            heads=fields.count("index_heads"),
            head_dim=fields.count("index_dim"),
            tokens=fields.count("index_tokens"),
        )
    return LatentAttention(
        heads=fields.count("heads"),
        query_rank=fields.optional("query_rank"),
        latent=fields.count("latent"),
        rope_dim=fields.count("rope_dim"),
        nope_dim=fields.count("nope_dim"),
        value_dim=fields.count("value_dim"),
        indexer=indexer,
    )


def _linear(fields: Fields) -> Attention:
    return LinearAttention(
        heads=fields.count("heads"),
        key_heads=fields.count("key_heads"),
        key_dim=fields.count("key_dim"),
        value_dim=fields.count("value_dim"),
        kernel=fields.count("kernel"),
        state_dtype=fields.text("state", STATE_BYTES, default="fp32"),
    )


def _state_space(fields: Fields) -> Attention:
    return StateSpace(
        heads=fields.count("heads"),
        head_dim=fields.count("head_dim"),
        groups=fields.count("groups"),
        state=fields.count("state_size"),
        kernel=fields.count("kernel"),
        state_dtype=fields.text("state", STATE_BYTES, default="bf16"),
    )


def _experts(fields: Fields) -> FeedForward:
    experts, chosen = fields.count("experts"), fields.count("chosen")
    if chosen > experts:
        raise fields.error("chosen", f"{chosen} is more than the {experts} experts there are", f"1 to {experts}")
    gated, shared = fields.flag("gated", default=True), fields.optional("shared_width")
    return ExpertFeedForward(
        experts=experts,
        chosen=chosen,
        intermediate_size=fields.count("width"),
        gated=gated,
        shared=GatedFeedForward(intermediate_size=shared, gated=gated) if shared else None,
    )


_ATTENTIONS: dict[str, tuple[Callable[[Fields], Any], tuple[str, ...]]] = {
    "grouped": (_grouped, ("heads", "kv_heads", "head_dim", "window")),
    "latent": (_latent, ("heads", "query_rank", "latent", "rope_dim", "nope_dim", "value_dim", "index_heads",
                         "index_dim", "index_tokens")),
    "linear": (_linear, ("heads", "key_heads", "key_dim", "value_dim", "kernel", "state")),
    "state-space": (_state_space, ("heads", "head_dim", "groups", "state_size", "kernel", "state")),
}  # fmt: skip
_FEED_FORWARDS: dict[str, tuple[Callable[[Fields], Any], tuple[str, ...]]] = {
    "gated": (lambda fields: GatedFeedForward(intermediate_size=fields.count("width")), ("width",)),
    "plain": (lambda fields: GatedFeedForward(intermediate_size=fields.count("width"), gated=False), ("width",)),
    "experts": (_experts, ("experts", "chosen", "width", "shared_width", "gated")),
}

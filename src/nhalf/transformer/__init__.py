"""A transformer: what a model weighs, keeps and computes, read from its Hugging Face config.json or a description."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nhalf.transformer.attention import Attention, GroupedQueryAttention, Indexer
from nhalf.transformer.config import from_config
from nhalf.transformer.feedforward import ExpertFeedForward, GatedFeedForward
from nhalf.transformer.model import CachePart, Layer, MixtureOfExperts, Transformer
from nhalf.transformer.weights import BITS, KV_BYTES, WEIGHT_BYTES, Read, Split, WeightGroup

if TYPE_CHECKING:
    from nhalf.transformer.description import from_description
    from nhalf.transformer.latent import LatentAttention
    from nhalf.transformer.recurrence import LinearAttention, StateSpace

__all__ = [
    "BITS",
    "KV_BYTES",
    "WEIGHT_BYTES",
    "Attention",
    "CachePart",
    "ExpertFeedForward",
    "GatedFeedForward",
    "GroupedQueryAttention",
    "Indexer",
    "LatentAttention",
    "Layer",
    "LinearAttention",
    "MixtureOfExperts",
    "Read",
    "Split",
    "StateSpace",
    "Transformer",
    "WeightGroup",
    "from_config",
    "from_description",
]

# What most models do not need is imported when it is asked for.
_LATER = {
    "LatentAttention": "latent",
    "LinearAttention": "recurrence",
    "StateSpace": "recurrence",
    "from_description": "description",
}


def __getattr__(name: str) -> object:
    """Return a name of a module that is imported only now (PEP 562)."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)

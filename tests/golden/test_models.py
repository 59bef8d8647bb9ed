"""The built-in models weigh what their publishers say, to the parameter."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from nhalf.catalog import store
from nhalf.transformer import GatedFeedForward, GroupedQueryAttention

GIVEN = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
MODELS: list[dict[str, Any]] = GIVEN["model"]
SHAPES: list[dict[str, Any]] = GIVEN["shape"]


@pytest.mark.parametrize("published", MODELS, ids=[model["name"] for model in MODELS])
def test_parameters_and_cache_are_those_published(published: dict[str, Any]) -> None:
    model, datum = store.transformer(published["name"])
    assert published["source"] in GIVEN["sources"]
    assert model.parameters == published["parameters"]
    assert datum.value == published["parameters"]
    assert model.kv_elements(1) * 2 == published["cache_bytes_per_token"]
    if printed := published.get("printed"):
        assert printed["source"] in GIVEN["sources"]
        assert round(model.parameters / 1e9, 1) == printed["total"]
        inner = (model.layer_parameters + model.norm_parameters) / 1e9
        assert inner == pytest.approx(printed["without_embeddings"], abs=0.05)


@pytest.mark.parametrize("published", SHAPES, ids=[shape["name"] for shape in SHAPES])
def test_shapes_are_those_published(published: dict[str, Any]) -> None:
    model, _ = store.transformer(published["name"])
    (layer,) = model.layers
    attention, feed_forward = layer.attention, layer.feed_forward
    assert isinstance(attention, GroupedQueryAttention)
    assert isinstance(feed_forward, GatedFeedForward)
    width = feed_forward.intermediate_size
    numbers = [layer.count, model.hidden_size, width, attention.heads, attention.kv_heads, model.vocabulary_size]
    assert published["source"] in GIVEN["sources"]
    assert numbers == published["numbers"]


def test_the_dense_models_of_the_first_example_are_built_in() -> None:
    assert {model["name"] for model in MODELS} <= set(store.names("model"))

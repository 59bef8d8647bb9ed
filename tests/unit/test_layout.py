"""Layouts: which TP degrees a model and a machine allow, and a refusal that names them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.fabric import Fabric
from nhalf.layout import Layout, check
from nhalf.link import Link
from nhalf.transformer import GatedFeedForward, GroupedQueryAttention

if TYPE_CHECKING:
    from nhalf.transformer import Transformer


def fabric(devices_per_node: int = 8) -> Fabric:
    link = Link("1us", "100GB/s")
    return Fabric(intra_node=link, inter_node=link, devices_per_node=devices_per_node, nics_per_node=8.0)


def model(name: str) -> Transformer:
    return store.transformer(name)[0]


LEGAL = {
    "llama-3.1-8b": [1, 2, 4, 8, 16, 32],
    "llama-3.1-70b": [1, 2, 4, 8, 16, 32, 64],
    "llama-3.1-405b": [1, 2, 4, 8, 16, 32, 64, 128],
    "qwen3-8b": [1, 2, 4, 8, 16, 32],
    "qwen3-32b": [1, 2, 4, 8, 16, 32, 64],
}


@pytest.mark.parametrize("name", LEGAL)
def test_the_legal_degrees_and_no_others_are_let_through(name: str) -> None:
    for degree in range(1, 260):
        layout = Layout(tensor_parallel=degree)
        if degree in LEGAL[name]:
            check(layout, model(name), fabric())
        else:
            with pytest.raises(InputError):
                check(layout, model(name), fabric())


@pytest.mark.parametrize("name", LEGAL)
def test_a_refusal_names_the_model_the_reason_and_the_legal_degrees(name: str) -> None:
    with pytest.raises(InputError) as caught:
        check(Layout(tensor_parallel=3), model(name), fabric())
    error = caught.value
    assert error.where == "--tp"
    assert error.allowed == ", ".join(str(degree) for degree in LEGAL[name])
    assert name in error.what
    assert "attention heads" in error.what


@pytest.mark.parametrize("degree", [0, -1, -8])
def test_a_degree_below_one_is_refused_with_a_reason(degree: int) -> None:
    with pytest.raises(InputError) as caught:
        check(Layout(tensor_parallel=degree), model("llama-3.1-70b"), fabric())
    assert caught.value.allowed.startswith("1, 2, 4")
    assert not caught.value.what.rstrip().endswith(":")


def test_a_group_must_fill_whole_nodes() -> None:
    check(Layout(tensor_parallel=4), model("llama-3.1-70b"), fabric(4))
    check(Layout(tensor_parallel=8), model("llama-3.1-70b"), fabric(4))
    with pytest.raises(InputError, match="whole nodes of 6") as caught:
        check(Layout(tensor_parallel=8), model("llama-3.1-70b"), fabric(6))
    assert caught.value.allowed == "1, 2, 4"


def test_key_value_heads_are_split_or_copied_evenly() -> None:
    transformer = model("llama-3.1-70b")
    layer = transformer.layers[0]
    assert isinstance(layer.attention, GroupedQueryAttention)
    odd = replace(layer, attention=replace(layer.attention, heads=60, kv_heads=6))
    with pytest.raises(InputError, match="6 key-value heads") as caught:
        check(Layout(tensor_parallel=4), replace(transformer, layers=(odd,)), fabric())
    assert caught.value.allowed.startswith("1, 2")


def test_the_feed_forward_width_is_split_evenly() -> None:
    transformer = model("llama-3.1-70b")
    layer = transformer.layers[0]
    assert isinstance(layer.feed_forward, GatedFeedForward)
    narrow = replace(layer, feed_forward=replace(layer.feed_forward, intermediate_size=28670))
    with pytest.raises(InputError, match="feed-forward width 28670"):
        check(Layout(tensor_parallel=4), replace(transformer, layers=(narrow,)), fabric())


def test_a_replica_uses_as_many_devices_as_its_degree() -> None:
    assert Layout().devices == 1
    assert Layout(tensor_parallel=16).devices == 16

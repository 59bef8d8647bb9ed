"""A dtype means one thing: what a quantised checkpoint's own config says, `--weights` says too."""

from __future__ import annotations

import pytest

from nhalf.catalog import store
from nhalf.catalog.naming import base_of, checkpoint_in, checkpoints
from nhalf.loading import load
from nhalf.loading.launch import checkpoint_of
from nhalf.loading.model import model_of
from nhalf.points import points

PATH = "stack.routing_concentration"


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
@pytest.mark.parametrize("system", ["h200-sxm", "b200-sxm"])
@pytest.mark.parametrize("name", checkpoints())
def test_an_override_is_the_checkpoint_that_it_stands_for(name: str, system: str, engine: str) -> None:
    base, dtype = checkpoints()[name]
    stated = points(load(name, on=system, tp=8, batch=16, engine=engine)).at(0)
    over = points(load(base, on=system, tp=8, batch=16, weights=dtype, engine=engine)).at(0)
    assert over.step_s == stated.step_s
    assert (over.low_s, over.high_s) == (stated.low_s, stated.high_s)
    assert over.columns == stated.columns


def test_checkpoints_are_found_by_their_names() -> None:
    assert {"deepseek-v3.1-nvfp4", "kimi-k2.5-nvfp4", "minimax-m2.5-nvfp4"} <= set(checkpoints())
    assert base_of("deepseek-v3.1-nvfp4") == "deepseek-v3"
    assert checkpoint_in("qwen3-32b-fp8", "nvfp4") == "qwen3-32b-nvfp4"
    assert checkpoint_in("qwen3-8b", "fp8") == ""
    assert checkpoint_of("llama-3.3-70b", "fp8") == "nvidia/Llama-3.3-70B-Instruct-FP8"


@pytest.mark.parametrize("engine", ["vllm", "trtllm"])
def test_experts_of_four_bits_cost_a_layer_alike_where_no_checkpoint_is_known(engine: str) -> None:
    # Nobody's list of exceptions is at hand, so the default of a quantiser holds; its experts are FP4 all the same.
    scenario = load("qwen3.5-397b-a17b", on="b200-sxm", tp=8, batch=4, weights="nvfp4", engine=engine)
    wide = load("qwen3.5-397b-a17b", on="b200-sxm", tp=8, batch=4, engine=engine)
    assert scenario.expert_dtype == "nvfp4"
    assert points(scenario).at(0).columns["launch"] < points(wide).at(0).columns["launch"]


@pytest.mark.parametrize(
    ("mirror", "model"),
    [
        ("zhipuai/GLM-5", "glm-5"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("someone/DeepSeek-R1-0528", "deepseek-r1"),
    ],
)
def test_a_mirror_is_known_by_the_name_of_its_repository(mirror: str, model: str) -> None:
    assert store.find("model", mirror, where="MODEL") == model
    assert model_of(mirror)[0].name == model


@pytest.mark.parametrize(("batch", "least", "most"), [(1, 0.9, 1.0), (16, 0.5, 0.85), (4096, 0.85, 1.0)])
def test_fewer_experts_are_read_where_routing_is_concentrated(batch: int, least: float, most: float) -> None:
    even, uneven = (
        points(load("qwen3-235b-a22b-fp8", on="h100-sxm", tp=8, batch=batch, set={PATH: each})).at(0).columns["experts"]
        for each in ("0", "2")
    )
    assert least <= uneven / even <= most

"""The response is the decode tree as a function of its constants, whatever the model, the layout and the mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from nhalf.loading.case_table import Table
from nhalf.loading.cases import Cases, cases
from nhalf.predict.response import CONSTANTS, Response, joined, response
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from nhalf.breakdown import Array

HEADER = (
    "model", "system", "engine", "weight_dtype", "mode", "isl", "osl", "context", "concurrency", "tp", "pp",
    "attention_dp", "moe_ep",
)  # fmt: skip
ROWS = {
    "dense": "llama-3.1-70b,h100-sxm,vllm,fp8,,1024,1024,,{},8,,,",
    "without prompts": "llama-3.1-8b,h200-sxm,sglang,,,,,4096,{},2,,,",
    "eager": "llama-3.1-8b,h100-sxm,vllm,,eager,1024,1024,,{},4,,,",
    "stages": "llama-3.1-70b,h100-sxm,vllm,,,1024,1024,,{},4,2,,",
    "across nodes": "llama-3.1-70b,h100-sxm,vllm,,,1024,1024,,{},16,,,",
    "one host": "llama-3.1-8b,h100-sxm,llama-cpp,,,,,512,{},4,,,",
    "undivided": "llama-3.1-8b,raspberry-pi-cluster,distributed-llama,int4,,,,512,{},4,,,",
    "experts": "gpt-oss-120b,b200-sxm,trtllm,,,8192,1024,,{},1,,4,4",
    "latent": "deepseek-v3,b200-sxm,sglang,nvfp4,,1024,8192,,{},8,,,8",
    "sparse": "deepseek-v3.2,h200-sxm,vllm,,,1024,1024,,{},8,,,",
    "linear": "qwen3-next-80b-a3b,h200-sxm,vllm,,,1024,1024,,{},4,,,",
}


def loaded(name: str, batches: tuple[int, ...] = (1, 16, 300)) -> Cases:
    rows = [ROWS[name].format(batch).split(",") for batch in batches]
    found = cases(Table(path="rows", header=HEADER, rows=rows))
    assert not any(found.refused)
    return found


def tree_s(found: Cases, constants: dict[str, float]) -> list[float]:
    (group,) = found.groups
    changes = {f"stack.{name}": value for name, value in constants.items()}
    return [float(time) for time in np.broadcast_to(decode(group.scenario.having(changes)).value, len(group.rows))]


@pytest.mark.parametrize("name", ROWS)
def test_it_is_the_tree_at_any_constants(name: str) -> None:
    found = loaded(name)
    (group,) = found.groups
    random = np.random.default_rng(1)
    read = response(group.scenario, len(group.rows))
    for scale in (0.0, 0.5, 2.0):
        constants = {
            each: float(np.mean(getattr(group.scenario.stack, each)) * np.exp(scale * random.standard_normal()))
            for each in CONSTANTS
        }
        assert read.step_s(constants) == pytest.approx(tree_s(found, constants), rel=1e-9)


def test_constants_of_many_draws_give_as_many_rows() -> None:
    (group,) = loaded("experts").groups
    read = response(group.scenario, 3)
    plain = {name: float(np.mean(getattr(group.scenario.stack, name))) for name in CONSTANTS}
    draws: dict[str, Array | float] = {**plain, "layer_time_s": np.array([[1e-6], [2e-6]])}
    times = read.step_s(draws)
    assert times.shape == (2, 3)
    assert times[1] == pytest.approx(read.step_s({**plain, "layer_time_s": 2e-6}))


def test_no_step_is_below_its_bound() -> None:
    for name in ROWS:
        (group,) = loaded(name).groups
        read = response(group.scenario, 3)
        plain = {each: float(np.mean(getattr(group.scenario.stack, each))) for each in CONSTANTS}
        assert np.all(read.bound_s < read.step_s(plain))
        assert np.all(read.bound_s > 0)


def test_responses_are_joined_and_taken_apart_by_row() -> None:
    parts = [response(loaded(name).groups[0].scenario, 3) for name in ("dense", "experts")]
    whole = joined(parts)
    assert isinstance(whole, Response)
    assert len(whole) == 6
    plain = dict.fromkeys(CONSTANTS, 0.5)
    assert whole.take(np.array([3, 4, 5])).step_s(plain) == pytest.approx(parts[1].step_s(plain))

"""Memory: what one device holds, and the three answers to whether it fits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import audit
from nhalf.predict.memory import Fit, fits, needed, usable_bytes

if TYPE_CHECKING:
    from nhalf.scenario import Scenario


@cache
def scenario(tp: int = 8, weights: str = "bf16", **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    model = choices.pop("model", "llama-3.1-70b")
    return nhalf.load(model, on=choices.pop("on", "h100-sxm"), tp=tp, weights=weights, **choices)


def parts(scenario: Scenario) -> dict[str, float]:
    return {part.name: float(np.mean(part.value)) for part in needed(scenario).parts}


@pytest.mark.parametrize(
    ("tp", "weights", "fit"),
    [
        (1, "bf16", "no"),  # 141 GB of weights on 80 GB
        (1, "fp8", "marginal"),  # 73 GB and 3 GB on what a driver reports of 80 GB
        (2, "bf16", "marginal"),
        (2, "fp8", "yes"),
        (4, "bf16", "yes"),
        (8, "bf16", "yes"),
        (16, "fp8", "yes"),
    ],
)
def test_llama_70b_on_h100_fits_where_it_is_known_to(tp: int, weights: str, fit: Fit) -> None:
    assert fits(scenario(tp, weights)) == fit


def test_the_weights_of_llama_70b_in_bf16_are_141_gb() -> None:
    assert parts(scenario(1))["weights"] == pytest.approx(141.107e9, rel=1e-5)


def test_fp8_halves_what_it_quantises_and_leaves_embeddings_and_head() -> None:
    saved = parts(scenario(1))["weights"] - parts(scenario(1, "fp8"))["weights"]
    assert saved == scenario().transformer.layer_parameters


def test_a_rank_holds_its_share_of_the_weights_and_all_norms() -> None:
    norms = scenario().transformer.norm_parameters * 2.0
    split = parts(scenario(1))["weights"] - norms
    for tp in (2, 4, 8):
        assert parts(scenario(tp))["weights"] - norms == pytest.approx(split / tp)
    copied = 80 * 2 * 1024 * 8192 * 2 / 8  # of 8 key-value heads, 16 ranks hold one each, twice
    assert parts(scenario(16))["weights"] - norms == pytest.approx((split / 8 - copied) / 2 + copied)


def test_a_token_of_llama_70b_takes_320_kib_of_cache_split_over_at_most_its_8_heads() -> None:
    whole = 80 * 2 * 8 * 128 * 2.0
    assert whole == 320 * 1024
    for tp, heads in ((1, 1), (2, 2), (8, 8), (16, 8)):
        assert parts(scenario(tp, context=1000, batch=3))["kv"] == 3 * 1000 * whole / heads


def test_an_8_bit_cache_takes_half() -> None:
    assert parts(scenario(kv="fp8"))["kv"] == parts(scenario(kv="bf16"))["kv"] / 2


def test_a_sequence_counts_at_its_full_length() -> None:
    assert parts(scenario(isl=1000, osl=200))["kv"] == parts(scenario(context=1200))["kv"]


def test_the_engine_keeps_3_gb_and_a_tenth_to_itself() -> None:
    assert parts(scenario())["reserve"] == 3e9
    low, high = usable_bytes(scenario())
    assert (low, high) == (0.9 * 80e9, 0.9 * 80 * 2**30)


def test_without_an_interval_nothing_is_marginal() -> None:
    exact = nhalf.load("llama-3.1-70b", on="h100-sxm", weights="fp8", set={"system.device.memory_bytes": "85GB"})
    low, high = usable_bytes(exact)
    assert low == high == 0.9 * 85e9
    assert fits(exact) == "yes"


def test_a_what_if_on_the_memory_moves_the_answer() -> None:
    path = "system.device.memory_bytes"
    assert fits(scenario(1).having({path: 200e9})) == "yes"
    assert fits(scenario(8).having({path: 16e9})) == "no"


def test_what_is_needed_is_computed_and_adds_up() -> None:
    for tp in (1, 8, 16):
        term = needed(scenario(tp, batch=64, context=8192))
        assert audit(term) == []
        assert sum(parts(scenario(tp, batch=64, context=8192)).values()) == pytest.approx(float(term.value))
        assert {part.unit for part in term.parts} == {"bytes"}


@pytest.mark.parametrize("path", ["workload.batch", "workload.context_tokens", "workload.kv_bytes"])
def test_arrays_and_scalars_need_the_same(path: str) -> None:
    base = float(np.mean(scenario().value(path)))
    values = base * np.array([1.0, 2.0, 8.0])
    together = np.asarray(needed(scenario().having({path: values})).value)
    alone = [float(needed(scenario().having({path: value})).value) for value in values.tolist()]
    assert together == pytest.approx(alone, rel=1e-15)
    assert np.all(np.diff(together) > 0)

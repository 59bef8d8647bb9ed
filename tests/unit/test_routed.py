"""Experts' exchanges: measured where the key is there, by the law elsewhere, and never by another machine."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tools import build_routed

import nhalf
from nhalf.breakdown import audit, columns
from nhalf.catalog import store
from nhalf.catalog.routed import COLUMNS, read_routed
from nhalf.collective import Routed
from nhalf.errors import InputError
from nhalf.predict.communication import collective
from nhalf.predict.exchange import Exchange, backed, exchanges
from nhalf.predict.layer import tokens
from nhalf.predict.routed import PROMPT, STEP, curve_for

if TYPE_CHECKING:
    from pathlib import Path

SPREAD: dict[str, Any] = {"tp": 1, "attention_dp": 8, "ep": 8, "exchange": "all-to-all"}


def load(model: str = "deepseek-r1", on: str = "h200-sxm", **choices: Any) -> nhalf.Scenario:  # noqa: ANN401
    return nhalf.load(model, on=on, **{**SPREAD, "batch": 64, **choices})


def found(scenario: nhalf.Scenario) -> dict[str, Exchange]:
    return {each.name: each for each in exchanges(scenario, tokens(scenario))}


def one_s(scenario: nhalf.Scenario, way: str) -> float:
    exchange = found(scenario)[way]
    return float(np.mean(collective(scenario, exchange.op, exchange.group, exchange.size, exchange.known).value))


def test_a_measured_point_is_what_was_measured() -> None:
    # h200_sxm, SGLang 0.5.12, DeepEP low latency, 8 ranks, hidden 7168, 8 of 256, a token a rank: 11.905 and 12.557 us
    scenario = load(engine="sglang", batch=8)
    assert one_s(scenario, "dispatch") == pytest.approx(11.905e-6, rel=1e-3)
    assert one_s(scenario, "combine") == pytest.approx(12.557e-6, rel=1e-3)
    assert all(backed(scenario, exchange) for exchange in found(scenario).values())


def test_the_curve_is_of_the_engine_the_machine_and_the_ranks() -> None:
    for engine in ("vllm", "sglang", "trtllm"):
        curve = curve_for(load(engine=engine), Routed.DISPATCH, STEP)
        assert curve is not None
        assert (curve.system, curve.library, curve.ranks) == ("h200-sxm", engine, 8)
        assert (curve.hidden, curve.chosen) == (7168, 8)


def test_prompts_and_steps_run_other_kernels() -> None:
    step, prompt = (curve_for(load(engine="vllm"), Routed.DISPATCH, kernels) for kernels in (STEP, PROMPT))
    assert step is not None
    assert prompt is not None
    assert (step.kernel, prompt.kernel) == ("deepep_ll", "deepep_ht")


@pytest.mark.parametrize(
    ("model", "kernel", "dtype"),
    [("deepseek-r1", "NVLinkTwoSided", "fp8"), ("deepseek-r1-nvfp4", "NVLinkOneSided", "nvfp4")],
)
def test_trays_of_a_rack_have_a_curve_of_their_own_in_the_format_of_the_experts(
    model: str, kernel: str, dtype: str
) -> None:
    for way in Routed:
        curve = curve_for(load(model, on="gb200-nvl72", engine="trtllm", attention_dp=16, ep=16), way, STEP)
        assert curve is not None
        assert (curve.ranks, curve.ranks_per_node, curve.kernel, curve.dtype) == (16, 4, kernel, dtype)


@pytest.mark.parametrize(
    "choices",
    [
        {"on": "gb300-nvl72", "engine": "trtllm", "attention_dp": 16, "ep": 16},
        {"on": "h100-sxm-efa", "engine": "sglang"},
        {"on": "mi300x", "engine": "vllm"},
        {"on": "h200-sxm", "engine": "sglang", "attention_dp": 4, "ep": 4},
        {"on": "h200-sxm", "engine": "vllm", "attention_dp": 16, "ep": 16},
        {"on": "h200-sxm", "engine": "vllm", "library": "nccl"},
        {"on": "h200-sxm", "engine": "vllm", "tp": 2, "attention_dp": 4, "ep": 4},
    ],
    ids=str,
)
def test_where_the_key_was_not_measured_the_law_stands_in(choices: dict[str, Any]) -> None:
    scenario = load(**choices)
    assert curve_for(scenario, Routed.DISPATCH, STEP) is None
    assert all(exchange.known is None for exchange in found(scenario).values())
    assert audit(nhalf.decode(scenario)) == []


def test_a_model_of_other_dimensions_takes_the_nearest_and_scales_its_tokens() -> None:
    scenario = load("qwen3-30b-a3b", engine="sglang", batch=8 * 1024)
    curve = curve_for(scenario, Routed.DISPATCH, STEP)
    assert curve is not None
    assert (curve.hidden, curve.chosen, curve.experts) == (2048, 8, 128)
    assert one_s(scenario, "dispatch") == pytest.approx(73.469e-6, rel=0.02)


def test_the_law_sends_a_token_once_to_each_rank_that_it_hits() -> None:
    scenario = load(library="nccl", batch=8 * 64)
    hit = 8 * (1 - (1 - 1 / 8) ** 8)
    sizes = {name: float(exchange.size.value) for name, exchange in found(scenario).items()}
    assert sizes["combine"] == pytest.approx(64 * 7168 * 2 * hit)
    assert sizes["dispatch"] == pytest.approx(64 * 7168 * (1 + 4 / 128) * hit)  # fp8 experts take fp8 tokens


def test_the_hits_are_those_of_a_draw() -> None:
    random = np.random.default_rng(3)
    ranks = random.integers(0, 16, (20_000, 6))
    drawn = np.mean([len(set(row)) for row in ranks.tolist()])
    assert float(drawn) == pytest.approx(16 * (1 - (1 - 1 / 16) ** 6), rel=0.01)


@pytest.mark.parametrize("library", ["vllm", "nccl"])
def test_a_skew_slows_the_exchange(library: str) -> None:
    even, skewed = (load(library=library, batch=2048, skew=skew) for skew in (1, 2))
    assert one_s(even, "combine") < one_s(skewed, "combine") < 2.1 * one_s(even, "combine")


def test_split_experts_get_a_token_on_every_rank() -> None:
    whole = load(library="nccl", batch=64)
    split = load(library="nccl", batch=64, ep=4)
    hits = [8 * (1 - (1 - 1 / 8) ** 8), 2 * 4 * (1 - (1 - 1 / 4) ** 8)]
    sizes = [float(found(each)["combine"].size.value) for each in (whole, split)]
    assert sizes[1] / sizes[0] == pytest.approx(hits[1] / hits[0])


def test_a_better_link_moves_a_measured_exchange_and_never_slows_it() -> None:
    scenario = load(engine="sglang", batch=4096)
    path = "system.fabric.intra_node.bandwidth_bytes_per_s"
    wider = scenario.having({path: 900e9})
    before, after = (columns(nhalf.decode(each))["collective_transfer"] for each in (scenario, wider))
    assert after < before
    assert not any(backed(wider, exchange) for exchange in found(wider).values())


def test_arrays_and_scalars_agree() -> None:
    scenario = load(engine="sglang")
    batches = [8.0, 64.0, 5000.0]
    together = np.asarray(nhalf.decode(scenario.having({"workload.batch": np.array(batches)})).value)
    alone = [float(nhalf.decode(scenario.having({"workload.batch": batch})).value) for batch in batches]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@pytest.mark.parametrize("system", ["b200-sxm", "b300-sxm", "gb200-nvl72", "h100-sxm", "h200-sxm"])
def test_every_curve_of_the_catalogue_is_sane(system: str) -> None:
    curves = store.routed(system)
    assert len(curves) > 80
    for curve in curves:
        assert curve.system == system
        assert 1e-6 < float(np.min(curve.times_s)) < 1e-3
        assert curve.ranks % curve.ranks_per_node == 0
        assert curve.source == "aiconfigurator-core-0.12.0"
        assert curve.locator
        at = [curve.at(float(tokens)) for tokens in curve.tokens]
        np.testing.assert_allclose(np.array(at, dtype=float), curve.times_s, rtol=1e-9)


HEADER = ",".join(COLUMNS)
ROW = "vllm,1,k,dispatch,fp8,8,8,7168,8,256,0.1,s,l,2026,,1 2,1e-5 2e-5"


def test_a_table_is_read_and_its_faults_are_named() -> None:
    (curve,) = read_routed(f"# a comment\n{HEADER}\n{ROW}\n", "mine")
    assert curve.at(2.0) == pytest.approx(2e-5)
    assert read_routed("", "mine") == ()
    for text, part in (
        ("library,version\n", "no column"),
        (f"{HEADER}\n{ROW},more\n", "18 cells"),
        (f"{HEADER}\n{ROW.replace('7168', 'wide')}\n", "wide"),
        (f"{HEADER}\n{ROW.replace('dispatch', 'dispatches')}\n", "dispatches"),
        (f"{HEADER}\n{ROW.replace('1 2,', '2 1,')}\n", "rise"),
    ):
        with pytest.raises(InputError, match=part):
            read_routed(text, "mine")


@pytest.mark.parametrize(
    ("choices", "where", "part"),
    [
        ({"exchange": "all-to-all"}, "--exchange", "attention_dp=8"),
        ({"exchange": "everyone", "attention_dp": 8, "ep": 8}, "--exchange", "all-to-all"),
        ({"skew": 2}, "--skew", "exchange=all-to-all"),
        ({"exchange": "all-to-all", "attention_dp": 8, "ep": 8, "skew": 0}, "--skew", "1 (even)"),
        ({"exchange": "all-to-all", "attention_dp": 8, "ep": 8, "skew": 1e9}, "--skew", "64"),
    ],
    ids=str,
)
def test_an_exchange_that_cannot_be_is_refused(choices: dict[str, Any], where: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        nhalf.load("deepseek-r1", on="h200-sxm", **choices)
    assert caught.value.where == where.removeprefix("--").replace("-", "_")
    assert part in str(caught.value)


def test_a_dense_model_has_no_experts_to_send_to() -> None:
    with pytest.raises(InputError, match="no experts"):
        nhalf.load("llama-3.1-8b", on="h200-sxm", exchange="all-to-all")


def test_a_system_without_curves_has_none_for_anything() -> None:
    scenario = load(engine="sglang")
    bare = replace(scenario, system=replace(scenario.system, routed=()))
    assert curve_for(bare, Routed.COMBINE, STEP) is None


# ---------------------------------------------------------------------------------------------------------- the table

MEASURED = """system,library,version,mode,op,kernel,dtype,ranks,ranks_per_node,tokens,hidden,topk,experts,bytes,\
time_us,source
h100_sxm,vllm,1,host,moe_dispatch,deepep_ll,fp8,8,8,1.0,7168.0,8.0,256.0,1,10,a: b/c.parquet
h100_sxm,vllm,1,host,moe_dispatch,deepep_ll,fp8,8,8,1.0,7168.0,8.0,256.0,1,12,a: b/c.parquet
h100_sxm,vllm,1,host,moe_dispatch,deepep_ll,fp8,8,8,4.0,7168.0,8.0,256.0,1,30,a: b/c.parquet
h100_sxm,vllm,1,host,moe_dispatch,deepep_v2_context,fp8,8,8,1.0,7168.0,8.0,256.0,1,12,a: b/c.parquet
gb200,trtllm,2,host,moe_dispatch,NVLinkTwoSided,fp8,8,4,1.0,7168.0,8.0,256.0,1,10,a: d.parquet
gb200,trtllm,2,host,moe_prepare,NVLinkTwoSided,fp8,8,4,1.0,7168.0,8.0,256.0,1,5,a: d.parquet
"""


def test_a_table_is_made_of_medians_with_the_prepare_step_in_its_dispatch(tmp_path: Path) -> None:
    path = tmp_path / "measured.csv.gz"
    path.write_bytes(gzip.compress(MEASURED.encode()))
    texts = {system: build_routed.table(system, curves) for system, curves in build_routed.read(path).items()}
    assert set(texts) == {"h100-sxm", "gb200-nvl72"}
    (curve,) = read_routed(texts["h100-sxm"], "h100-sxm")
    assert curve.at(1.0) == pytest.approx(11e-6)
    assert curve.at(2.0) == pytest.approx((11e-6 * 30e-6) ** 0.5)
    assert curve.at(8.0) == pytest.approx(60e-6)
    (rack,) = read_routed(texts["gb200-nvl72"], "gb200-nvl72")
    assert rack.at(1.0) == pytest.approx(15e-6)
    assert (rack.ranks, rack.ranks_per_node, rack.locator) == (8, 4, "d.parquet")

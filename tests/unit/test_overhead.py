"""What a pass costs beyond its shared reads and arithmetic: the undivided part, and a host that launches for all."""

from __future__ import annotations

import numpy as np
import pytest

from nhalf.breakdown import columns
from nhalf.calibrate.evidence import evidence
from nhalf.calibrate.fit import NOISE
from nhalf.calibrate.prior import prior
from nhalf.catalog import store
from nhalf.loading.case_table import Table
from nhalf.loading.cases import cases
from nhalf.loading.choices import Request
from nhalf.loading.request import load, scenarios
from nhalf.predict.overhead import quantised_inputs
from nhalf.predict.response import CONSTANTS
from nhalf.predict.step import decode

SHARE = 0.2


def board(tp: int, share: float) -> dict[str, float]:
    scenario = load("llama-3.1-8b", on="raspberry-pi-cluster", tp=tp, engine="distributed-llama", weights="int4")
    return {
        name: float(value) for name, value in columns(decode(scenario.having({"stack.unsharded_share": share}))).items()
    }


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_what_is_not_shared_out_is_its_share_of_the_whole(tp: int) -> None:
    plain, more = board(tp, 0.0), board(tp, SHARE)
    shared = sum(plain[name] for name in ("weights", "kv", "compute"))
    # T / K (1 + s (K - 1)) = T (s + (1 - s) / K): Amdahl's law on T = K x shared.
    whole = tp * shared
    assert more["compute"] - plain["compute"] + shared == pytest.approx(whole * (SHARE + (1 - SHARE) / tp))
    assert {name: plain[name] for name in plain if name != "compute"} == {
        name: more[name] for name in more if name != "compute"
    }


def test_one_device_shares_nothing_out() -> None:
    assert board(1, SHARE) == board(1, 0.0)


def test_engines_on_processors_have_a_share_with_its_interval_and_those_on_gpus_none() -> None:
    for engine in store.names("engine"):
        datum = store.constant_data(engine=engine)["unsharded_share"]
        if engine in ("generic-cpu", "distributed-llama", "xfastertransformer"):
            assert datum.low == pytest.approx(0.05)
            assert datum.high == pytest.approx(0.31)
        else:
            assert datum.value == 0


def test_one_host_process_launches_for_every_rank() -> None:
    scenario = load("llama-3.1-8b", on="h100-sxm", tp=4, engine="llama-cpp", mode="eager")
    launches = 32 * 25 * 2.5e-6
    alone = scenario.having({"stack.host_sharing": 0.0, "stack.layer_time_s": 0.0})
    together = alone.having({"stack.host_sharing": 1.0})
    assert float(decode(together).value) == pytest.approx(4 * launches)
    assert float(decode(alone).value) < 2 * launches


def test_an_engine_runs_in_its_own_mode_unless_told_otherwise() -> None:
    for engine, mode in (("vllm", "graph"), ("llama-cpp", "eager"), ("distributed-llama", "host")):
        found = scenarios(Request(model="llama-3.1-8b", systems=("h100-sxm",), engine=engine))
        assert str(found.scenarios[0].stack.mode) == mode
        assert next(each.value for each in found.defaults if each.flag == "--mode") == mode


def test_priors_keep_what_is_an_engines_own() -> None:
    scenario = load("llama-3.1-8b", on="h100-sxm", tp=2, engine="distributed-llama", stack="priors")
    assert scenario.stack.unsharded_share == pytest.approx(0.125)


def test_runs_on_a_cluster_of_processors_tell_the_share() -> None:
    header = ("model", "system", "engine", "weight_dtype", "context", "batch", "tp")
    rows = [
        ["llama-3.1-8b", "raspberry-pi-cluster", "distributed-llama", "int4", "512", "1", str(tp)]
        for tp in (1, 2, 4, 8)
    ]
    loaded = cases(Table(path="rows", header=header, rows=rows))
    centre = {name: float(getattr(loaded.groups[0].scenario.stack, name)) for name in CONSTANTS}
    times = [
        float(decode(group.scenario.having({"stack.unsharded_share": 0.3})).value[0])  # type: ignore[index]
        for group in loaded.groups
    ]
    measured = evidence(loaded, np.array(times))
    found = measured.fit(prior(calibrated=True).around(centre), correlation=0.0, noise=NOISE / 10)
    assert found.constants["unsharded_share"] == pytest.approx(0.3, rel=0.1)
    assert found.constants["host_sharing"] == 0


def test_one_micro_batch_goes_through_the_output_head_once() -> None:
    # 8 stages of 4 layers each: the last one alone has the head.
    whole = load("llama-3.1-8b", on="h100-sxm")
    staged = load("llama-3.1-8b", on="h100-sxm", pp=8)
    read = columns(decode(whole))["weights"]
    assert columns(decode(staged))["weights"] == pytest.approx(read)
    # As many micro-batches as stages wait for the last one in every slot.
    full = columns(decode(load("llama-3.1-8b", on="h100-sxm", pp=8, batch=8)))["weights"]
    head = 128256 * 4096 * 2 / 3.35e12 / float(whole.stack.memory_efficiency)
    assert full - read == pytest.approx(7 * head, rel=0.01)


@pytest.mark.parametrize(
    ("model", "weights", "system", "inputs"),
    [
        ("llama-3.1-8b", "bf16", "b200-sxm", 0),
        ("llama-3.1-8b", "fp8", "h100-sxm", 32 * 4),
        ("llama-3.1-8b", "fp8", "a100-sxm", 0),  # no fp8 arithmetic: the weights are widened instead
        ("llama-3.1-8b", "int4", "h100-sxm", 0),
        ("qwen3-32b-nvfp4", None, "b200-sxm", 64 * 4),
        ("qwen3-32b-nvfp4", None, "h100-sxm", 0),
        # Queries down (as keys and values) and up, and out; three dense layers and 58 shared experts of two each.
        ("deepseek-v3", None, "h200-sxm", 61 * 3 + 3 * 2 + 58 * 2),
        ("deepseek-v3.1-nvfp4", None, "b200-sxm", 61 + 3 * 2 + 58 * 2),
        ("gpt-oss-120b", None, "b200-sxm", 0),  # its experts alone are quantised, which their own factor covers
    ],
)
def test_activations_are_quantised_where_products_run_in_the_narrower_dtype(
    model: str, weights: str | None, system: str, inputs: int
) -> None:
    assert quantised_inputs(load(model, on=system, tp=8, weights=weights)) == inputs


def test_what_quantising_takes_is_a_part_of_a_layer_for_each_input() -> None:
    scenario = load("llama-3.1-8b", on="h100-sxm", tp=8, weights="fp8")
    without, with_it = (scenario.having({"stack.quantised_input_layer_factor": each}) for each in (0.0, 0.1))
    added = float(decode(with_it).value) - float(decode(without).value)
    assert added == pytest.approx(0.1 * 32 * 4 * float(np.mean(scenario.stack.layer_time_s)))

"""The prefill: arithmetic and bytes counted by hand, chunks, stages, context parallelism, and a cache on its way."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.ends import band

import nhalf
from nhalf.breakdown import audit, columns, leaf, walk
from nhalf.decide.levers import elasticities
from nhalf.errors import InputError
from nhalf.link import Link
from nhalf.loading.options import Options
from nhalf.loading.switches import cache_link
from nhalf.predict.exchange import context_gather, prompt_exchanges
from nhalf.predict.prefill import predicted, prefill
from nhalf.predict.transfer import kv_bytes, kv_transfer

if TYPE_CHECKING:
    from nhalf.scenario import Scenario

DENSE = "llama-3.1-70b"


@cache
def scenario(tp: int = 8, *, isl: int = 4096, model: str = DENSE, on: str = "h100-sxm", **more: Any) -> Scenario:  # noqa: ANN401
    return nhalf.load(model, on=on, tp=tp, isl=isl, phase="prefill", **more)


def owed(scenario: Scenario) -> dict[str, float]:
    return {name: float(np.mean(value)) for name, value in columns(prefill(scenario)).items()}


def time_s(scenario: Scenario) -> float:
    return float(np.mean(prefill(scenario).value))


KINDS: list[dict[str, Any]] = [
    {"tp": 8}, {"tp": 8, "chunk": 1000}, {"tp": 4, "pp": 4, "chunk": 512, "batch": 3}, {"tp": 2, "cp": 4},
    {"tp": 2, "cp": 4, "cp_exchange": "ring"}, {"tp": 16, "batch": 8, "overlap": 0.5},
    {"tp": 8, "batch": 4, "two_batch_overlap": True}, {"tp": 8, "mode": "eager", "chunk": 256},
    {"tp": 1, "attention_dp": 8, "ep": 8, "model": "deepseek-r1", "on": "h200-sxm", "exchange": "all-to-all",
     "batch": 8},
    {"tp": 4, "model": "gpt-oss-120b"}, {"tp": 4, "model": "nemotron-h-56b"}, {"tp": 8, "model": "deepseek-v3.2",
     "on": "b200-sxm", "ep": 8},
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_prefill_adds_up_and_takes_arrays(kind: dict[str, Any]) -> None:
    found = scenario(**kind)
    term = prefill(found)
    assert audit(term) == []
    assert sum(owed(found).values()) == pytest.approx(float(term.value), rel=1e-12)
    assert min(owed(found).values()) >= 0
    for path, values in (("workload.prompt_tokens", [128.0, 1000.0, 5000.0]), ("workload.batch", [1.0, 2.0, 64.0])):
        together = np.broadcast_to(np.asarray(prefill(found.having({path: np.array(values)})).value), 3)
        alone = [time_s(found.having({path: value})) for value in values]
        np.testing.assert_allclose(together, alone, rtol=1e-12, err_msg=path)


def test_the_arithmetic_of_a_prompt_is_counted() -> None:
    # 2 operations a weight and token; 4 h d per pair of tokens and layer, of which a causal prompt has half.
    tokens, heads, width, layers = 8192, 64, 128, 80
    weights = 68_452_352_000
    flop = 2 * weights * tokens + 4 * heads * width * tokens**2 / 2 * layers
    found = scenario(8, isl=tokens)
    terms = dict(walk(prefill(found)))
    beyond = (("weights", "projections"), ("kv", "attention"))
    times = [terms[f"step/compute/beyond the {name}/{word}"] for name, word in beyond]
    rate = 989e12 * float(found.stack.prefill_efficiency)
    assert sum(float(term.value) for term in times) == pytest.approx(flop / 8 / rate, rel=1e-2)


def test_the_messages_of_a_prompt_hold_all_of_its_tokens_and_bandwidth_binds_them() -> None:
    found = scenario(8, isl=8192)
    (exchange,) = prompt_exchanges(found, leaf("tokens", "t", {"t": 8192.0}, unit="tokens"))
    assert float(exchange.size.value) == 8192 * 8192 * 2
    assert float(exchange.count.value) == 160
    assert owed(found)["collective_transfer"] > 10 * owed(found)["collective_fixed"]


def test_a_decode_step_and_a_prefill_are_told_apart_by_the_phase() -> None:
    found = scenario(8)
    assert predicted(found).value == prefill(found).value
    assert found.workload.context_tokens == 4096


def test_a_short_prompt_is_bound_by_reading_weights() -> None:
    assert owed(scenario(8, isl=16))["compute"] == 0
    assert owed(scenario(8, isl=8192))["compute"] > owed(scenario(8, isl=8192))["weights"]


# ------------------------------------------------------------------------------------------------------------- chunks


def test_each_chunk_reads_the_weights_and_pays_its_layers_again() -> None:
    whole, chunked = owed(scenario(8)), owed(scenario(8, chunk=1024))
    launched = 80 * float(scenario(8).stack.layer_time_s) + float(scenario(8).stack.step_time_s)
    assert chunked["weights"] == pytest.approx(4 * whole["weights"])
    assert chunked["launch"] == pytest.approx(whole["launch"] + 3 * launched)
    assert chunked["kv"] > whole["kv"]
    assert chunked["compute"] + chunked["weights"] == pytest.approx(whole["compute"] + whole["weights"], rel=0.01)


@pytest.mark.parametrize(("chunk", "count"), [(4096, 1), (4095, 2), (1366, 3), (1365, 4), (5000, 1), (1, 4096)])
def test_chunks_are_counted_whole(chunk: int, count: int) -> None:
    steps = [term for path, term in walk(prefill(scenario(8, chunk=chunk))) if path.endswith("/steps/chunks")]
    assert steps[0].value == count


def test_a_pipeline_has_a_bubble_of_its_stages_less_one() -> None:
    terms = dict(walk(prefill(scenario(8, pp=4, chunk=512))))
    assert terms["step/chunks/turns of chunks"].value == 8 + 4 - 1
    deep, flat = time_s(scenario(8, pp=4, chunk=512)), time_s(scenario(8, pp=4))
    assert deep < 0.6 * flat  # one chunk keeps one stage busy at a time


def test_a_stage_hands_over_the_activations_of_a_chunk() -> None:
    found = scenario(8, pp=2, chunk=1024)
    sent = 1024 * 8192 * 2 / 50e9
    assert owed(found)["hand_over"] == pytest.approx(sent, rel=0.2)


# ---------------------------------------------------------------------------------------------------- context parallel


def test_context_parallelism_splits_tokens_and_gathers_keys_and_values() -> None:
    one, four = scenario(2), scenario(2, cp=4)
    terms = dict(walk(prefill(four)))
    busy = [owed(each)["compute"] + owed(each)["weights"] for each in (one, four)]  # arithmetic, where it is longer
    assert busy[1] == pytest.approx(busy[0] / 4, rel=1e-3)
    gathered = context_gather(four, leaf("seen", "t", {"t": 4096.0}, unit="tokens"))
    assert (float(gathered.size.value), float(gathered.count.value)) == (4096 * 4 * 2 * 128 * 2, 80)
    assert any(path.endswith("context/context all-gather") for path in terms)
    assert not any("context all-reduce" in path for path in terms)


def test_a_ring_hides_the_exchange_under_attention() -> None:
    gathered, ring = (scenario(1, cp=8, isl=65536, cp_exchange=way) for way in ("all-gather", "ring"))
    assert time_s(ring) < time_s(gathered)
    exposed = [term for path, term in walk(prefill(ring)) if path.endswith("exposed context")]
    assert float(exposed[0].value) == 0.0
    short = [term for path, term in walk(prefill(scenario(1, cp=8, isl=512, cp_exchange="ring")))
             if path.endswith("exposed context")]  # fmt: skip
    assert float(short[0].value) > 0


def test_stages_share_the_prefills_of_a_batch_and_spare_a_single_stream_nothing() -> None:
    def prefills(pp: int, batch: int) -> float:
        served = nhalf.load(DENSE, on="h100-sxm", tp=8, pp=pp, batch=batch, isl=4096, osl=512)
        return float(np.mean(columns(nhalf.decode(served))["prefill"]))

    assert prefills(2, 1) == pytest.approx(prefills(1, 1), rel=0.02)
    assert prefills(2, 16) == pytest.approx(prefills(1, 16) / 2, rel=0.02)
    assert prefills(4, 2) == pytest.approx(prefills(2, 2), rel=0.02)  # two micro-batches keep two stages busy


def test_prefills_of_arriving_requests_are_split_by_context_too() -> None:
    choices: dict[str, Any] = {"isl": 4000, "osl": 200, "batch": 16}
    one, four = (nhalf.load(DENSE, on="h100-sxm", tp=4, cp=cp, **choices) for cp in (1, 4))
    found = [float(np.mean(columns(nhalf.decode(each))["prefill"])) for each in (one, four)]
    assert found[1] < found[0] / 2
    assert audit(nhalf.decode(four)) == []


# ----------------------------------------------------------------------------------------------------------- transfer


def test_the_cache_of_a_prompt_is_handed_over_by_every_device() -> None:
    found = scenario(8, isl=8192, batch=2)
    each = 2 * 8192 * 80 * 2 * 128 * 2  # prompts, tokens, layers, keys and values, head width, bytes; one of 8 heads
    assert float(kv_bytes(found).value) == each
    link = Link("5us", "50GB/s")
    assert float(kv_transfer(found, link).value) == pytest.approx(5e-6 + each / 50e9)
    assert set(columns(kv_transfer(found, link))) == {"fixed", "transfer"}


def test_the_link_of_a_cache_is_a_name_or_two_quantities() -> None:
    given = cache_link(Options().having({"kv_transfer": "5us, 50GB/s"}))
    assert given is not None
    assert (given.latency_s, given.bandwidth_bytes_per_s) == (5e-6, 50e9)
    named = cache_link(Options().having({"kv_transfer": "ib-ndr"}))
    assert named is not None
    assert named.bandwidth_bytes_per_s == 50e9
    assert cache_link(Options()) is None


# ------------------------------------------------------------------------------------------------------------- refusals


def test_bands_and_elasticities_are_those_of_the_prefill() -> None:
    found = scenario(8)
    low, high = band(found)
    assert low < time_s(found) < high
    assert elasticities(found)["stack.prefill_efficiency"] < -0.5


@pytest.mark.parametrize(
    ("choices", "where", "parts"),
    [
        ({"phase": "prefill"}, "--isl", ["length of its prompt"]),
        ({"phase": "prefill", "isl": 10, "osl": 5}, "--phase prefill", ["osl=5"]),
        ({"phase": "prefill", "isl": 10, "context": 5}, "--phase prefill", ["context=5"]),
        ({"phase": "prefil", "isl": 10}, "--phase", ["Did you mean 'prefill'?"]),
        ({"chunk": 100}, "--chunk", ["phase=prefill"]),
        ({"phase": "prefill", "isl": 10, "chunk": 0}, "--chunk", ["whole number"]),
        ({"kv_transfer": "ib-ndr"}, "--kv-transfer", ["phase=prefill"]),
        ({"phase": "prefill", "isl": 10, "kv_transfer": "ib"}, "--kv-transfer", ["ib"]),
        ({"phase": "prefill", "isl": 10, "kv_transfer": "5us"}, "--kv-transfer", ["5us"]),
        ({"phase": "prefill", "isl": 10, "kv_transfer": "5us,50GB/s,1"}, "--kv-transfer", ["LATENCY,BANDWIDTH"]),
        ({"phase": "prefill", "isl": 10, "kv_transfer": "5us,0GB/s"}, "--kv-transfer", ["zero"]),
        ({"phase": "prefill", "isl": 10, "kv_transfer": "5,50GB/s"}, "--kv-transfer", ["no unit"]),
        ({"cp_exchange": "ring"}, "--cp-exchange", ["cp=2"]),
        ({"cp_exchange": "tree", "cp": 2}, "--cp-exchange", ["ring"]),
    ],
    ids=str,
)
def test_a_prefill_that_cannot_be_is_refused(choices: dict[str, Any], where: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        nhalf.load(DENSE, on="h100-sxm", tp=8, **choices)
    assert caught.value.where == where.removeprefix("--").replace("-", "_").replace("phase ", "phase=")
    for part in parts:
        assert part in str(caught.value)

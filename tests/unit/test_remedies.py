"""Remedies: the laws of overlap and fusion against a schedule played by hand, each switch against what it can do."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import audit, columns, leaf, walk
from nhalf.catalog import store
from nhalf.decide.remedies import remedies
from nhalf.errors import InputError
from nhalf.laws.overlap import alternating_share, exposed_share, fused_fixed_time
from nhalf.laws.point_to_point import hockney
from nhalf.link import Link
from nhalf.loading.switches import bypass
from nhalf.predict.exchange import exchanges
from nhalf.predict.layer import tokens

if TYPE_CHECKING:
    from nhalf.breakdown import Term
    from nhalf.scenario import Scenario


@cache
def scenario(tp: int = 8, **choices: Any) -> Scenario:  # noqa: ANN401  as nhalf.load
    model = choices.pop("model", "llama-3.1-70b")
    return nhalf.load(model, on=choices.pop("on", "h100-sxm"), tp=tp, **choices)


def step_s(scenario: Scenario) -> float:
    return float(np.mean(nhalf.decode(scenario).value))


def owed(scenario: Scenario) -> dict[str, float]:
    return {name: float(np.mean(value)) for name, value in columns(nhalf.decode(scenario)).items()}


def between(scenario: Scenario) -> float:
    found = owed(scenario)
    return found["collective_fixed"] + found["collective_transfer"]


def time(seconds: float) -> Term:
    return leaf("time", "t", {"t": seconds})


# -------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize(
    ("communication", "cover", "share", "exposed"),
    [(4.0, 10.0, 0.5, 2.0), (4.0, 10.0, 1.0, 0.0), (4.0, 1.0, 0.5, 3.0), (4.0, 0.0, 1.0, 4.0), (0.0, 5.0, 0.5, 0.0)],
)
def test_what_hides_is_the_share_and_at_most_what_there_is_to_hide_under(
    communication: float, cover: float, share: float, exposed: float
) -> None:
    found = exposed_share(time(communication), time(cover), share)
    assert float(found.value) * communication == pytest.approx(exposed)
    assert 0 <= float(found.value) <= 1


def played(work: float, communication: float, turns: int) -> float:
    """Return when two micro-batches end: each works and communicates in turns, on one device and one network."""
    device = network = 0.0
    ready = [0.0, 0.0]
    for _ in range(turns):
        for batch in (0, 1):
            device = max(device, ready[batch]) + work / turns
            network = max(network, device) + communication / turns
            ready[batch] = network
    return network


@pytest.mark.parametrize("turns", [1, 2, 7, 160])
@pytest.mark.parametrize(("work", "communication"), [(5.0, 5.0), (9.0, 2.0), (2.0, 9.0), (1.0, 0.0), (0.0, 1.0)])
def test_two_batches_take_what_a_schedule_takes(work: float, communication: float, turns: int) -> None:
    share = alternating_share(time(communication), time(work), float(turns), 2.0)
    assert 2 * work + float(share.value) * 2 * communication == pytest.approx(played(work, communication, turns))


def test_one_batch_hides_nothing() -> None:
    assert float(alternating_share(time(3.0), time(5.0), 10.0, 1.0).value) == 1.0


@pytest.mark.parametrize("messages", [2, 3, 8])
def test_fused_messages_save_all_fixed_times_but_one(messages: int) -> None:
    link = Link("5us", "400GB/s")
    apart = messages * float(hockney(16384.0, link).value)
    together = float(hockney(16384.0 * messages, link).value)
    fixed = messages * 5e-6
    assert apart - together == pytest.approx(float(fused_fixed_time(fixed, messages).value))
    assert apart - together == pytest.approx((messages - 1) * 5e-6)


# ------------------------------------------------------------------------------------------------- switches of a step

SWITCHES: list[dict[str, Any]] = [
    {"fuse_norm": True}, {"fuse": 2}, {"overlap": 0.5}, {"overlap": 1.0}, {"two_batch_overlap": True},
    {"quantised_all_reduce": "fp8"}, {"kernel_bypass": "on"}, {"kernel_bypass": "off"},
    {"fuse_norm": True, "fuse": 2, "overlap": 0.3, "quantised_all_reduce": "fp8", "kernel_bypass": "off"},
]  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
@pytest.mark.parametrize(
    "more", [{"tp": 8, "batch": 1}, {"tp": 16, "batch": 64}, {"tp": 8, "batch": 8, "mode": "eager"}]
)
def test_a_step_with_a_remedy_still_adds_up(switch: dict[str, Any], more: dict[str, Any]) -> None:
    found = scenario(**more, **switch)
    step = nhalf.decode(found)
    assert audit(step) == []
    assert sum(owed(found).values()) == pytest.approx(float(step.value), rel=1e-12)
    assert min(owed(found).values()) >= 0
    batches = np.array([1.0, 2.0, 64.0, 1000.0])
    together = nhalf.decode(found.having({"workload.batch": batches}))
    alone = [step_s(found.having({"workload.batch": batch})) for batch in batches.tolist()]
    np.testing.assert_allclose(np.broadcast_to(together.value, 4), alone, rtol=1e-12)


@pytest.mark.parametrize("switch", SWITCHES[:-2], ids=str)
@pytest.mark.parametrize("batch", [1, 64])
def test_no_remedy_but_two_batches_makes_a_step_slower(switch: dict[str, Any], batch: int) -> None:
    plain, with_it = step_s(scenario(8, batch=batch)), step_s(scenario(8, batch=batch, **switch))
    if "two_batch_overlap" in switch:
        assert (with_it > plain) == (batch > 1)  # the weights of a dense step are read twice
    else:
        assert with_it <= plain


def test_without_a_switch_the_step_has_no_term_of_one() -> None:
    names = {path.rsplit("/", 1)[-1] for path, _ in walk(nhalf.decode(scenario(8)))}
    assert not names & {"exposed share", "exposed collectives", "micro-batches", "busy"}


def test_a_fused_norm_saves_one_kernel_of_a_layer_for_each_all_reduce() -> None:
    saved = step_s(scenario(8)) - step_s(scenario(8, fuse_norm=True))
    stack = scenario(8).stack
    assert saved == pytest.approx(2 * 80 * float(stack.layer_time_s) / float(stack.kernels_per_layer))
    assert step_s(scenario(1)) == step_s(scenario(1, fuse_norm=True))  # nothing to be fused with


def test_a_fused_norm_saves_a_launch_of_an_eager_host() -> None:
    slow = {"stack.host_launch_s": 1e-3}
    plain = scenario(8, mode="eager").having(slow)
    fused = scenario(8, mode="eager", fuse_norm=True).having(slow)
    assert step_s(plain) - step_s(fused) == pytest.approx(160e-3)


def test_fusing_two_collectives_halves_the_fixed_time_and_keeps_the_bytes() -> None:
    plain, fused = owed(scenario(8)), owed(scenario(8, fuse=2))
    assert fused["collective_fixed"] == pytest.approx(plain["collective_fixed"] / 2, rel=0.05)
    terms = dict(walk(nhalf.decode(scenario(8, fuse=2))))
    assert terms["step/collectives/all-reduce/collectives per pass"].value == 80


@pytest.mark.parametrize("exchange", ["all-gather", "all-to-all"])
def test_fusing_keeps_the_bytes_of_every_exchange(exchange: str) -> None:
    choices = {"tp": 2, "cp": 2, "attention_dp": 2, "ep": 4, "model": "qwen3-30b-a3b", "on": "h200-sxm"}
    found = [sent(scenario(**choices, batch=512, exchange=exchange, **more)) for more in ({}, {"fuse": 2})]
    assert len(found[0]) == 4
    assert found[1] == pytest.approx(found[0])


def sent(scenario: Scenario) -> dict[str, float]:
    """Return the bytes of each kind of collective in a step."""
    found = exchanges(scenario, tokens(scenario))
    return {each.name: float(each.count.value) * float(each.size.value) for each in found}


def test_overlap_hides_its_share() -> None:
    hidden = between(scenario(8, batch=16)) - between(scenario(8, batch=16, overlap=0.4))
    collectives = dict(walk(nhalf.decode(scenario(8, batch=16))))["step/collectives"].value
    assert hidden == pytest.approx(0.4 * float(collectives))


def test_overlap_cannot_hide_more_than_there_is_to_hide_under() -> None:
    fast = {"system.device.memory_bandwidth_bytes_per_s": 1e18}
    fast |= {f"system.device.{name}_flop_per_s": 1e24 for name in ("bf16", "fp8", "fp4")}
    plain, hiding = (scenario(8, batch=64, **more).having(fast) for more in ({}, {"overlap": 1.0}))
    assert step_s(hiding) == pytest.approx(step_s(plain), rel=1e-3)


def test_two_batches_pay_where_weights_are_a_small_part_of_a_step() -> None:
    choices = {"batch": 512, "phase": "prefill", "isl": 2048}
    found = remedies(scenario(8, **choices, two_batch_overlap=True))
    assert found[0].name == "two-batch overlap"
    assert 0.02 < found[0].gain < 0.45


def test_an_all_reduce_in_fp8_sends_half_of_the_bytes() -> None:
    plain, narrow = (scenario(8, batch=512, **more) for more in ({}, {"quantised_all_reduce": "fp8"}))
    assert sent(narrow)["all-reduce"] == pytest.approx(sent(plain)["all-reduce"] * (1 + 4 / 128) / 2)
    assert owed(narrow)["collective_transfer"] < 0.7 * owed(plain)["collective_transfer"]
    assert owed(narrow)["collective_fixed"] == pytest.approx(owed(plain)["collective_fixed"], rel=0.05)
    gathered = {"tp": 1, "attention_dp": 8, "ep": 8, "model": "deepseek-r1", "on": "h200-sxm"}
    assert sent(scenario(**gathered)) == sent(scenario(**gathered, quantised_all_reduce="fp8"))


def test_kernel_bypass_acts_between_nodes_only() -> None:
    assert step_s(scenario(8, kernel_bypass="off")) == step_s(scenario(8))
    through = scenario(16, kernel_bypass="off")
    added = through.stack.remedies.network_stack_s
    assert added == pytest.approx(15e-6)  # 20 us through the kernel, 5 us of the link
    own = 5e-6
    slower = scenario(16).having({"system.fabric.inter_node.latency_s": own + added})
    assert step_s(through) == pytest.approx(step_s(slower))
    assert step_s(scenario(16, kernel_bypass="on")) == step_s(scenario(16))


def test_kernel_bypass_helps_a_link_that_is_known_through_the_kernel() -> None:
    system = store.system("raspberry-pi-cluster")[0]
    found = bypass(system.fabric)
    assert found["through_kernel_s"].value == 0
    assert found["bypassed_s"].value < 0


def test_kernel_bypass_is_of_the_nics_of_a_rack() -> None:
    inside, across = (scenario(tp, on="gb200-nvl72", model="llama-3.1-405b", kernel_bypass="off") for tp in (8, 16))
    for found in (inside, across):  # trays are joined by switches, not by NICs
        plain = scenario(found.layout.tensor_parallel, on="gb200-nvl72", model="llama-3.1-405b")
        assert step_s(found) == step_s(plain)


# ------------------------------------------------------------------------------------------------------- what is shown


def test_every_remedy_that_is_on_is_recomputed_without_it() -> None:
    found = remedies(scenario(16, batch=64, fuse_norm=True, fuse=2, overlap=0.5, quantised_all_reduce="fp8",
                              kernel_bypass="on", draft_tokens=2, acceptance=0.7))  # fmt: skip
    assert [remedy.flag for remedy in found] == [
        "--fuse-norm", "--fuse 2", "--overlap 0.5", "--quantised-all-reduce fp8", "--kernel-bypass on",
        "--draft-tokens 2", "--mode graph",
    ]  # fmt: skip
    assert all(remedy.gain > 0 for remedy in found)
    assert len({remedy.with_s for remedy in found}) == 1


def test_nothing_is_shown_where_nothing_is_on_unless_asked() -> None:
    assert remedies(scenario(8)) == []
    (graph,) = remedies(scenario(8), launched=True)
    assert graph.without_s == pytest.approx(step_s(scenario(8, mode="eager")))
    assert graph.gain > 0


def test_a_remedy_is_given_and_its_numbers_have_origins() -> None:
    found = scenario(16, overlap=0.5, fuse=2, quantised_all_reduce="fp8", kernel_bypass="off").origins
    assert found["stack.remedies.overlap_share"].kind == "given"
    assert found["stack.remedies.fused_collectives"].source == "--fuse"
    assert found["stack.remedies.message_factor"].kind == "derived"
    assert found["stack.remedies.through_kernel_s"].high == pytest.approx(95e-6)


@pytest.mark.parametrize(
    ("choices", "where", "parts"),
    [
        ({"overlap": 0}, "--overlap", ["share", "more than 0"]),
        ({"overlap": 1.5}, "--overlap", ["share"]),
        ({"overlap": "-1"}, "--overlap", ["negative"]),
        ({"overlap": 0.5, "two_batch_overlap": True}, "--overlap", ["both"]),
        ({"two_batch_overlap": True, "pp": 2}, "--two-batch-overlap", ["micro-batches"]),
        ({"fuse": 0}, "--fuse", ["whole number"]),
        ({"fuse": 161}, "--fuse", ["160 collectives", "1 to 160"]),
        ({"quantised_all_reduce": "fp4"}, "--quantised-all-reduce", ["fp8"]),
        ({"kernel_bypass": "maybe"}, "--kernel-bypass", ["on, off"]),
        ({"fuse_norm": 1}, "--fuse-norm", ["neither true nor false"]),
        ({"set": {"stack.remedies.overlap_share": "5"}}, "--set stack.remedies.overlap_share", ["use overlap"]),
    ],
    ids=str,
)
def test_a_remedy_that_cannot_be_is_refused(choices: dict[str, Any], where: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, **choices)
    assert caught.value.where == where.removeprefix("--").replace("-", "_").replace(" ", "=")
    for part in parts:
        assert part in str(caught.value)

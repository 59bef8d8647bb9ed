"""Purchases: gains are those of two predictions, bands are paired, flips are where the answer changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import nhalf
from nhalf.catalog import store
from nhalf.decide.option import ANOTHER_STACK, SAME_STACK, Move, Option
from nhalf.decide.purchase import purchase
from nhalf.errors import InputError, NoAnswerError
from nhalf.loading import Degrees, Request, scenarios
from nhalf.loading.purchase_options import options, parse

if TYPE_CHECKING:
    from nhalf.decide.purchase import Purchase
    from nhalf.scenario import Scenario

HBM = "system.device.memory_bandwidth_bytes_per_s"
NIC = "system.fabric.inter_node.bandwidth_bytes_per_s"


def request(*tp: int, on: str = "h100-sxm") -> Request:
    return Request(model="llama-3.1-70b", systems=(on,), weights="fp8", degrees=Degrees(tp=tp), batches=(1,))


def bought(*texts: str, tp: tuple[int, ...] = (8,), batches: tuple[int, ...] = (1, 128)) -> Purchase:
    asked = request(*tp)
    layouts = scenarios(asked).scenarios
    found, _ = options(asked, layouts, texts, prices=True)
    return purchase(layouts, found, batches)


def step_s(scenario: Scenario) -> float:
    return float(np.mean(nhalf.decode(scenario).value))


def test_a_gain_is_that_of_two_predictions() -> None:
    found = bought("hbm=x1.4")
    for effect in found.effects:
        before = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, batch=effect.batch, weights="fp8")
        after = before.having({HBM: before.value(HBM) * 1.4})
        assert effect.before.step_s == pytest.approx(step_s(before), rel=1e-12)
        assert effect.gain == pytest.approx(1 - step_s(after) / step_s(before), rel=1e-12)


def test_another_system_is_predicted_with_its_own_constants_and_curves() -> None:
    (effect,) = bought("system=b200-sxm", batches=(16,)).effects
    other = nhalf.load("llama-3.1-70b", on="b200-sxm", tp=8, batch=16, weights="fp8")
    assert effect.after is not None
    assert effect.after.step_s == pytest.approx(step_s(other), rel=1e-12)
    assert effect.option.error == ANOTHER_STACK


def test_the_band_of_a_gain_is_narrower_than_that_of_the_steps_and_holds_the_gain() -> None:
    (effect,) = bought("hbm=x1.4", batches=(1,)).effects
    assert effect.gain is not None
    assert effect.low is not None
    assert effect.high is not None
    assert effect.low <= effect.gain <= effect.high
    assert effect.high - effect.low < 0.15  # the step's own band spans 60 %


def test_nothing_is_above_the_error_unless_it_is_large_and_of_one_sign() -> None:
    small, large, harm = bought("nvlink.bandwidth=x2", "hbm=x1.4", "hbm=x0.5", batches=(1,)).effects
    assert not small.above_model_error
    assert large.above_model_error
    assert large.helps
    assert harm.above_model_error
    assert not harm.helps
    assert harm.gain is not None
    assert harm.gain < -SAME_STACK


def test_a_nic_does_nothing_inside_a_node_and_something_across() -> None:
    assert bought("nic=800Gb/s", batches=(128,)).effects[0].gain == 0
    across = bought("nic=800Gb/s", tp=(16,), batches=(128,)).effects[0].gain
    assert across is not None
    assert across > 0.01


def test_every_option_may_choose_its_layout() -> None:
    found = bought("nic.latency=x0.1 + stack.software_factor=x0.1 + nvlink.latency=x0.1", tp=(8, 16), batches=(1,))
    (effect,) = found.effects
    assert effect.after is not None
    assert effect.before.scenario.layout.name == "TP8"
    assert effect.after.scenario.layout.name == "TP16"


def test_flips_are_where_the_best_option_changes() -> None:
    found = bought("hbm=x1.4", "nvlink.bandwidth=x4", batches=(1, 512))
    names = [flip.after for flip in found.flips]
    assert "nvlink.bandwidth=x4" in names
    at = next(flip.batch for flip in found.flips if flip.after == "nvlink.bandwidth=x4")
    below, above = (bought("hbm=x1.4", "nvlink.bandwidth=x4", batches=(batch,)).effects for batch in (at - 1, at))
    assert below[0].gain > below[1].gain  # type: ignore[operator]
    assert above[0].gain < above[1].gain  # type: ignore[operator]


def test_links_want_latency_at_small_batches_and_bandwidth_at_large_ones() -> None:
    found = bought("hbm=x1.4")
    assert found.wishes[0].quicker > found.wishes[0].wider
    assert found.wishes[-1].quicker < found.wishes[-1].wider
    assert found.wish_flip is not None
    assert 1 < found.wish_flip < 128


def test_a_mix_is_weighted_by_the_time_of_its_steps() -> None:
    asked = request(8)
    layouts = scenarios(asked).scenarios
    found, _ = options(asked, layouts, ["hbm=x1.4"], prices=True)
    both = purchase(layouts, found, (), {1: 0.75, 128: 0.25})
    one, many = both.effects
    assert one.after is not None
    assert many.after is not None
    before = 0.75 * one.before.step_s + 0.25 * many.before.step_s
    after = 0.75 * one.after.step_s + 0.25 * many.after.step_s
    assert both.mixed_gain(found[0]) == pytest.approx(1 - after / before)


def test_gpu_time_counts_the_devices() -> None:
    (effect,) = bought("tp=8", tp=(16,), batches=(1,)).effects
    assert effect.after is not None
    assert effect.per_gpu.gain == pytest.approx(1 - effect.after.step_s * 8 / (effect.before.step_s * 16))


def test_what_does_not_fit_before_is_refused_and_after_is_told() -> None:
    with pytest.raises(NoAnswerError) as refusal:
        bought("hbm=x2", batches=(100_00,))
    assert "does not fit before anything is bought" in str(refusal.value)
    (effect,) = bought("memory=-70GB", batches=(128,)).effects
    assert effect.after is None
    assert effect.gain is None
    assert not effect.above_model_error


# --- the texts of options ---------------------------------------------------------------------------------------------


def moves(text: str, on: str = "h100-sxm") -> tuple[Move, ...]:
    asked = request(8, on=on)
    return options(asked, scenarios(asked).scenarios, [text], prices=True)[0][0].moves


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nic=800Gb/s", [(NIC, "value", 100e9)]),
        ("nic=+100Gb/s", [(NIC, "delta", 12.5e9)]),
        ("nic=2us, 800Gb/s", [("system.fabric.inter_node.latency_s", "value", 2e-6), (NIC, "value", 100e9)]),
        ("nic.bandwidth=x2", [(NIC, "factor", 2.0)]),
        ("nvlink.latency=-50%", [("system.fabric.intra_node.latency_s", "factor", 0.5)]),
        ("stack.host_launch_s=-2us", [("stack.host_launch_s", "delta", -2e-6)]),
        ("hbm=4.8TB/s", [(HBM, "value", 4.8e12)]),
        ("big: hbm=x2 + stack.layer_time_s=-3us", [(HBM, "factor", 2.0), ("stack.layer_time_s", "delta", -3e-6)]),
        ("system.fabric.devices_per_node=16", [("system.fabric.devices_per_node", "value", 16)]),
    ],
)
def test_settings_are_read_as_moves(text: str, expected: list[tuple[str, str, float]]) -> None:
    found = moves(text)
    assert [(move.path, str(move.kind)) for move in found] == [(path, kind) for path, kind, _ in expected]
    assert [move.amount for move in found] == pytest.approx([amount for _, _, amount in expected])


def test_a_nic_leaves_the_domain_of_a_rack_whose_trays_share_switches() -> None:
    assert moves("nic=800Gb/s", on="gb200-nvl72")[0].path == "system.fabric.inter_node.bandwidth_bytes_per_s"


def test_a_nic_of_another_network_stack_brings_its_constants() -> None:
    found = {move.path: move.amount for move in moves("nic=efa-v3")}
    assert found["system.transport.hop_s"] == store.transport("efa-v3")[1]["hop_s"].value
    assert "system.fabric.inter_node.latency_s" not in found, "the constants of the stack hold it"
    assert {move.path for move in moves("fabric=tcp")} >= {"system.transport.hop_s", "system.transport.ring_share"}


def test_a_link_of_the_catalogue_is_both_numbers() -> None:
    assert [move.path.rpartition(".")[2] for move in moves("nic=ib-xdr")] == ["latency_s", "bandwidth_bytes_per_s"]


def test_a_delta_below_zero_takes_a_time_to_zero_and_says_so() -> None:
    asked = request(8)
    found, warnings = options(asked, scenarios(asked).scenarios, ["stack.host_launch_s=-10us"], prices=True)
    assert found[0].moves[0].of(5e-6) == 0
    assert "only 5 us to take" in warnings[0]


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("hbm=x2 @ $1.2k", 1200.0),
        ("hbm=x2 @ $1.2k/gpu", 1200.0),
        ("hbm=x2@$8k/node", 1000.0),
        ("hbm=x2 @ $1.2k/nic", 1200.0),
        ("hbm=x2 @ $8k/all", 1000.0),
        ("hbm=x2", None),
    ],
)
def test_a_price_is_spread_over_gpus(text: str, price: float | None) -> None:
    asked = request(8)
    found, _ = options(asked, scenarios(asked).scenarios, [text], prices=True)
    assert found[0].price_per_gpu == price


def test_a_label_names_an_option() -> None:
    assert parse("fast nic: nic=800Gb/s @ $1k").name == "fast nic"
    assert parse("nic=800Gb/s @ $1k").name == "nic=800Gb/s"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nic", ["no key=value"]),
        ("nick=800Gb/s", ["Did you mean 'nic'?"]),
        ("nic=800G", ["800Gb/s", "800GB/s"]),
        ("nic=x2", ["nic.bandwidth=x2"]),
        ("hbm=-4TB/s", ["leaves nothing"]),
        ("hbm=x0", ["leaves nothing"]),
        ("stack.memory_efficiency=+0.4", ["at most 1"]),
        ("system=gb2000", ["Did you mean"]),
        ("workload.batch=4", ["--batch"]),
        ("nic=1us @ 1200", ["no unit"]),
        ("nic=1us @ $1k/rack", ["/node"]),
        ("nic=1us @ $0", ["leave out"]),
        ("tp=3", ["TP 3"]),
        ("inter-rack=1us", ["h100-sxm has no links"]),
    ],
)
def test_a_bad_option_is_refused_with_what_to_do(text: str, parts: list[str]) -> None:
    asked = request(8)
    with pytest.raises(InputError) as refusal:
        options(asked, scenarios(asked).scenarios, [text], prices=True)
    for part in parts:
        assert part in str(refusal.value)


def test_an_empty_list_and_a_thing_twice_are_refused() -> None:
    asked = request(8)
    layouts = scenarios(asked).scenarios
    for texts in ([], ["hbm=x2", "hbm=x2"]):
        with pytest.raises(InputError):
            options(asked, layouts, texts, prices=True)


def test_prices_are_for_buying_only() -> None:
    asked = request(8)
    with pytest.raises(InputError) as refusal:
        options(asked, scenarios(asked).scenarios, ["hbm=x2 @ $1"], prices=False)
    assert "nhalf buy" in str(refusal.value)


def test_an_option_without_moves_saves_nothing() -> None:
    layouts = scenarios(request(8)).scenarios
    (effect,) = purchase(layouts, [Option(name="same", layouts=layouts)], (16,)).effects
    assert (effect.gain, effect.low, effect.high) == (0, 0, 0)

"""Peer access off: devices of a node through the host, over NCCL, with nothing borrowed from their own links."""

from __future__ import annotations

from typing import Any

import pytest

import nhalf
from nhalf.breakdown import columns
from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.loading.request import load

HOST = store.link("pcie5-host")[0]


def step_s(**choices: Any) -> float:  # noqa: ANN401  options of any kind
    return float(nhalf.decode(load("llama-3.1-70b", weights="bf16", **choices)).value)


def test_the_link_the_library_and_the_curves_are_those_of_the_host() -> None:
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=8, p2p="off")
    fabric = scenario.system.fabric
    assert (fabric.intra_node.latency_s, fabric.intra_node.bandwidth_bytes_per_s) == (
        HOST.latency_s, HOST.bandwidth_bytes_per_s,
    )  # fmt: skip
    assert scenario.system.measured_fabric is fabric
    assert scenario.stack.library.name == "nccl"
    assert scenario.system.curves == ()
    assert scenario.origins["system.fabric.intra_node.latency_s"].source == "nhalf-priors"


def test_one_device_and_the_reads_do_not_notice() -> None:
    assert step_s(on="h200-sxm", p2p="off") == step_s(on="h200-sxm", p2p="on") == step_s(on="h200-sxm")
    with_access, without = (
        columns(nhalf.decode(load("llama-3.1-70b", on="h100-sxm", tp=8, p2p=p2p))) for p2p in ("on", "off")
    )
    assert with_access["weights"] == without["weights"]
    assert without["collective_fixed"] > 3 * with_access["collective_fixed"]


def test_a_measured_turn_over_without_peer_access_has_its_shape() -> None:
    # The house's decode-step note: Llama-3-70B in bf16 on H100 without P2P at batch 1. Nothing was fitted to it.
    measured = {2: 29.6e-3, 4: 18.7e-3, 8: 19.4e-3}
    found = {tp: step_s(on="h100-sxm", tp=tp, p2p="off") for tp in measured}
    for tp, time in measured.items():
        assert found[tp] == pytest.approx(time, rel=0.15), tp
    assert found[8] > found[4]
    assert step_s(on="h100-sxm", tp=8) < 0.7 * step_s(on="h100-sxm", tp=4)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"on": "h100-sxm", "library": "vllm"}, ["--library nccl", "without peer access"]),
        ({"on": "mi300x"}, ["cdna3", "hopper"]),
        ({"on": "dgx-spark-pair", "tp": 2}, ["one device"]),
        ({"on": "h100-sxm", "p2p": "perhaps"}, ["on, off"]),
    ],
)
def test_what_has_no_way_through_the_host_is_refused(choices: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        step_s(**{"p2p": "off", "tp": 8, **choices})
    assert "--p2p" in caught.value.where
    for word in words:
        assert word in str(caught.value)

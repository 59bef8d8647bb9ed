"""Moving a page: lines between the nodes of a grid stay near what the model says."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.command import invoke

from nhalf.decide.moving import NEAR, grid
from nhalf.loading.choices import Request
from nhalf.loading.request import scenarios


@pytest.mark.parametrize(
    ("model", "system", "tp"),
    [("llama-3.1-70b", "h100-sxm", "8"), ("llama-3.1-70b", "h100-sxm", "16"), ("qwen3-32b", "mi300x", "2"),
     ("deepseek-r1", "b200-sxm", "8"), ("llama-3.1-70b", "gb200-nvl72", "16")],
)  # fmt: skip
def test_a_grid_is_within_one_per_cent_and_small(model: str, system: str, tp: str) -> None:
    one = scenarios(Request(model=model, systems=()).updated({"system": system, "tp": tp})).scenarios[0]
    found = grid(one)
    assert 0 <= found.error <= NEAR
    assert found.times_s.shape == found.axes.shape
    assert found.times_s.size < 100_000
    for nodes in found.axes.nodes:
        assert 1.0 in nodes
        assert np.all(np.diff(nodes) > 0)
    assert np.all(found.axes.batches == np.round(found.axes.batches))


def test_a_node_is_what_decode_says_with_the_same_links() -> None:
    request = Request(model="llama-3.1-8b", systems=()).updated({"system": "h100-sxm", "tp": "4"})
    found = grid(scenarios(request).scenarios[0])
    batch, latency, byte = 3, -1, 0
    link = found.scenario.system.fabric.intra_node
    path = "system.fabric.intra_node."
    document = invoke(
        "decode", "llama-3.1-8b", "--on", "h100-sxm", "--tp", "4", "--batch", f"{found.axes.batches[batch]:g}",
        "--json",
        "--set", f"{path}latency_s={float(np.mean(link.latency_s)) * 4!r}s",
        "--set", f"{path}bandwidth_bytes_per_s={float(np.mean(link.bandwidth_bytes_per_s)) * 4!r}B/s",
    ).document  # fmt: skip
    assert found.times_s[batch, latency, byte] == pytest.approx(document["rows"][0]["tpot_s"], rel=1e-9)

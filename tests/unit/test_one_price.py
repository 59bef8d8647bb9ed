"""One number for a collective between nodes or trays: what nhalf collective says and what a step of decode pays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tensor_group import all_reduce

import nhalf
from nhalf.decide.collective import rows
from nhalf.errors import InputError
from nhalf.loading.changes import apply
from nhalf.loading.collective import Asked, load
from nhalf.predict.band import draws

SIZES = [2.0**power for power in range(10, 31, 2)]
PLACES = [
    ("h100-sxm", 16), ("h100-sxm", 32), ("h100-sxm-efa", 16), ("h100-sxm-roce", 16), ("h200-sxm-efa", 16),
    ("b200-sxm", 16), ("a100-sxm", 16), ("a100-sxm-efa", 16), ("gh200-slingshot", 8), ("gh200-slingshot", 16),
    ("a100-sxm-4-slingshot", 8), ("h100-sxm-4", 8), ("mi300x-roce", 16), ("gb200-nvl72", 8), ("gb300-nvl72", 8),
    ("gb300-nvl72", 16), ("gb300-nvl72", 32), ("gb200-nvl72", 16), ("gb300-nvl72", 64),
]  # fmt: skip


@pytest.mark.parametrize(("system", "ranks"), PLACES)
def test_collective_and_decode_say_the_same(system: str, ranks: int) -> None:
    scenario = nhalf.load("llama-3.1-70b", on=system, tp=ranks)
    asked = Asked(op="all-reduce", system=system, ranks=str(ranks), library=scenario.stack.library.name,
                  mode=str(scenario.stack.mode))  # fmt: skip
    question = load(asked).question
    (said,) = {row.algorithm for row in rows(question, [1024.0]) if row.kind in ("measured", "modelled", "plan")}
    times = [row.time_s for row in rows(question, SIZES) if row.algorithm == said and row.kind != "law"]
    np.testing.assert_allclose(times, np.asarray(all_reduce(scenario, np.array(SIZES)).value), rtol=1e-9)


def test_engines_differ_across_nodes_only_where_their_kernels_do() -> None:
    def floor_s(system: str, ranks: int, engine: str) -> float:
        asked = nhalf.load("llama-3.1-70b", on=system, tp=ranks, engine=engine)
        return float(np.mean(all_reduce(asked, 16384.0).value))

    assert len({floor_s("h100-sxm", 16, engine) for engine in ("vllm", "sglang", "trtllm")}) == 1
    kernel, fallback = (floor_s("gb300-nvl72", 16, engine) for engine in ("trtllm", "sglang"))
    assert kernel == pytest.approx(5e-6, rel=0.1)
    assert fallback == pytest.approx(49e-6, rel=0.1)


def test_another_fabric_is_set_by_its_name_and_its_constants_are_drawn() -> None:
    asked = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=16)
    changed, _ = apply(asked, {"system.transport": "efa-v2-p5"})
    own = nhalf.load("llama-3.1-70b", on="h100-sxm-efa", tp=16)
    assert changed.system.transport is not None
    assert own.system.transport is not None
    assert changed.system.transport.hop_s == own.system.transport.hop_s
    assert float(np.mean(all_reduce(changed, 16384.0).value)) > 2 * float(np.mean(all_reduce(asked, 16384.0).value))
    drawn = draws(changed)["system.transport.hop_s"]
    origin = changed.origins["system.transport.hop_s"]
    assert origin.source == "nccl-tests-across-nodes"
    assert np.median(drawn) == pytest.approx(origin.value, rel=0.05)
    with pytest.raises(InputError, match="no fabric 'token-ring'"):
        apply(asked, {"system.transport": "token-ring"})

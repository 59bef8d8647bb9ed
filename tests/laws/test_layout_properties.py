"""What holds for every built-in model in every format and layout: the tree adds up, and splitting never reads more."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import Term, audit, columns
from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.layout import Layout, check
from nhalf.predict import layer
from nhalf.predict.memory import held_weights
from nhalf.predict.prefill import prefill
from nhalf.predict.step import COLUMNS

MODELS = store.names("model")
DTYPES = ("own", "fp8", "nvfp4")
LAYOUTS = (
    Layout(),
    Layout(tensor_parallel=8),
    Layout(tensor_parallel=2, pipeline_parallel=3, context_parallel=2),
    Layout(tensor_parallel=8, expert_parallel=8),
    Layout(tensor_parallel=2, attention_dp=4, expert_parallel=4),
    Layout(attention_dp=16, expert_parallel=16, routed_exchange="all-to-all"),
)
BATCHES = np.array([1.0, 7.0, 256.0])


@cache
def scenario(model: str, dtype: str) -> nhalf.Scenario | None:
    """Return a model in a format, None where its checkpoint is narrower."""
    try:
        found = nhalf.load(model, on="b200-sxm", weights=None if dtype == "own" else dtype)
        assert found.weight_groups
    except InputError:
        return None
    return found


def legal(found: nhalf.Scenario, layouts: tuple[Layout, ...]) -> list[nhalf.Scenario]:
    """Return the scenario in each layout that its model allows."""
    kept = []
    for layout in layouts:
        try:
            check(layout, found.transformer, found.system.fabric)
        except InputError:
            continue
        kept.append(replace(found, layout=layout))
    return kept


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_step_adds_up_in_every_layout(model: str, dtype: str) -> None:
    found = scenario(model, dtype)
    if found is None:
        assert dtype != "own"
        return
    placed = legal(found, LAYOUTS)
    assert len(placed) >= 2
    for each in placed:
        together = nhalf.decode(each.having({"workload.batch": BATCHES}))
        assert audit(together) == [], each.layout.name
        values = np.broadcast_to(np.asarray(together.value), len(BATCHES))
        owed = columns(together)
        assert set(owed) <= set(COLUMNS)
        assert all(np.all(np.asarray(value) >= 0) for value in owed.values())
        sums = np.sum([np.broadcast_to(np.asarray(value), len(BATCHES)) for value in owed.values()], axis=0)
        np.testing.assert_allclose(sums, values, rtol=1e-12, err_msg=each.layout.name)
        alone = [float(nhalf.decode(each.having({"workload.batch": batch})).value) for batch in BATCHES.tolist()]
        np.testing.assert_allclose(values, alone, rtol=1e-12, err_msg=each.layout.name)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_more_devices_never_read_or_hold_more_weights_each(model: str, dtype: str) -> None:
    found = scenario(model, dtype)
    if found is None:
        return
    found = found.having({"workload.batch": 64.0})
    for layout in LAYOUTS:
        doubled = [
            replace(layout, tensor_parallel=2 * layout.tensor_parallel),
            replace(layout, pipeline_parallel=2 * layout.pipeline_parallel),
            replace(layout, tensor_parallel=2 * layout.tensor_parallel, expert_parallel=2 * layout.expert_parallel),
            replace(layout, attention_dp=2 * layout.attention_dp, expert_parallel=2 * layout.expert_parallel),
        ]
        for before in legal(found, (layout,)):
            for after in legal(found, tuple(doubled)):
                name = f"{before.layout.name} to {after.layout.name}"
                assert read_s(after) <= read_s(before) * (1 + 1e-12), name
                assert bytes_of(held_weights(after)) <= bytes_of(held_weights(before)) * (1 + 1e-12), name


def read_s(scenario: nhalf.Scenario) -> float:
    """Return the time [s] of the weights and experts that a device reads in one pass of the whole batch."""
    alike = replace(scenario, layout=replace(scenario.layout, micro_batches=1))
    routed = layer.experts(alike, layer.tokens(alike))
    return bytes_of(layer.weights(alike)) + (bytes_of(routed) if routed is not None else 0.0)


def bytes_of(term: Term) -> float:
    return float(np.mean(term.value))


@pytest.mark.parametrize("model", MODELS)
def test_a_prefill_adds_up_in_every_layout(model: str) -> None:
    found = scenario(model, "own")
    assert found is not None
    workload = replace(found.workload, phase="prefill", prompt_tokens=3000.0, chunk_tokens=1024.0, batch=2.0)
    for each in legal(replace(found, workload=workload), LAYOUTS):
        term = prefill(each)
        assert audit(term) == [], each.layout.name
        assert sum(float(np.mean(value)) for value in columns(term).values()) == pytest.approx(float(term.value))
        larger = prefill(each.having({"workload.prompt_tokens": 6000.0}))
        assert float(larger.value) > float(term.value)

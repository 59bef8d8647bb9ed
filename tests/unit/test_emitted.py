"""Emitted functions: the tree's numbers as one function, to the last digit, and the tree where they do not hold."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf import emitted
from nhalf.errors import InputError
from nhalf.points import points
from nhalf.predict.prefill import predicted
from nhalf.tape import LeftError, Tape, Traced, UntraceableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Term
    from nhalf.scenario import Scenario

MODELS = ("llama-3.1-70b", "deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b", "minimax-m3")
SYSTEMS = ("h100-sxm", "b200-sxm", "gb200-nvl72", "mi300x", "a100-sxm", "trn2")
BATCH, CONTEXT = "workload.batch", "workload.context_tokens"
PATHS = (
    BATCH, CONTEXT, "system.device.memory_bandwidth_bytes_per_s", "system.fabric.intra_node.latency_s",
    "system.fabric.inter_node.latency_s", "system.fabric.inter_node.bandwidth_bytes_per_s", "stack.layer_time_s",
    "stack.software_factor", "stack.collective_excess_s",
)  # fmt: skip


def drawn(seed: int) -> tuple[Scenario, list[str]]:
    """Return a scenario, and some of its inputs."""
    dice = random.Random(seed)  # noqa: S311  the same scenarios every time
    model = dice.choice(MODELS)
    choices: dict[str, Any] = {"tp": dice.choice((1, 2, 4, 8, 16)), "pp": dice.choice((1, 1, 2)), "batch": 16}
    if dice.random() < 0.4:
        choices |= {"isl": 2048, "osl": 256}
    if dice.random() < 0.3:
        choices["mode"] = "eager"
    if model != "llama-3.1-70b" and dice.random() < 0.4:
        choices |= {"tp": 1, "attention_dp": 8, "ep": 8}
    return nhalf.load(model, on=dice.choice(SYSTEMS), **choices), dice.sample(PATHS, 3)


@pytest.mark.parametrize("seed", range(24))
def test_an_emitted_function_is_the_tree(seed: int) -> None:
    scenario, paths = drawn(seed)
    function = nhalf.emit(scenario, *paths)
    assert function.audit(4, seed) <= emitted.TOLERANCE
    scale = np.exp2(np.random.default_rng(seed).uniform(-2, 2, (3, 50)))
    values = [float(np.mean(scenario.value(path))) * row for path, row in zip(paths, scale, strict=True)]
    together = function(*values)
    alone = [function(*(float(row[place]) for row in values)) for place in range(50)]
    for name, found in together.items():
        assert np.array_equal(np.broadcast_to(np.asarray(found), (50,)), [float(each[name]) for each in alone]), name


def test_prefills_are_emitted_too() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, isl=4096, phase="prefill")
    assert nhalf.emit(scenario, BATCH, "workload.prompt_tokens").audit(6) <= emitted.TOLERANCE


def test_what_the_code_asks_of_an_input_is_a_guard() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, batch=32)
    path = "stack.remedies.overlap_share"
    function = nhalf.emit(scenario, path)
    moved = scenario.moved({path: 0.5})
    with pytest.raises(LeftError):
        function._of_numbers(0.5)
    assert function(0.5)["step_s"] == nhalf.decode(moved).value < nhalf.decode(scenario).value


def test_counts_of_devices_cannot_be_written_down() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8)
    with pytest.raises(InputError, match="no straight line"):
        nhalf.emit(scenario, "system.fabric.devices_per_node")
    with pytest.raises(InputError, match=r"no input 'workload.batchs'.*Did you mean 'workload.batch'"):
        nhalf.emit(scenario, "workload.batchs")
    with pytest.raises(InputError, match="no input is named"):
        nhalf.emit(scenario)


def test_the_text_is_a_function_of_named_inputs() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8)
    function = nhalf.emit(scenario, "system.fabric.intra_node.latency_s", "system.fabric.inter_node.latency_s", BATCH)
    assert function.source.startswith("def emitted(intra_node_latency_s, inter_node_latency_s, batch):")
    assert repr(function).startswith("<Emitted: llama-3.1-70b by system.fabric.intra_node.latency_s")


def test_points_that_are_asked_for_often_build_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, isl=1024, osl=1024)
    trees: list[Scenario] = []

    def counted(each: Scenario) -> Term:
        trees.append(each)
        return predicted(each)

    monkeypatch.setattr("nhalf.points.predicted", counted)
    batches = np.arange(1.0, 400.0)
    first = points(scenario, {BATCH: batches})
    asked = [points(scenario, {BATCH: batches}) for _ in range(14)]
    for name in ("step_s", "running", "memory_bytes", "fit_codes", "binds", "tokens_per_s_per_gpu"):
        for each in asked:
            assert np.array_equal(getattr(each, name), getattr(first, name)), name
    assert len(trees) == 10
    assert np.array_equal(asked[-1].step.value, first.step_s)


def test_a_function_is_far_faster_than_the_tree() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8)
    function = nhalf.emit(scenario, BATCH, CONTEXT)

    def took(work: Callable[[float], object], count: int) -> float:
        began = time.process_time()
        for batch in range(count):
            work(batch + 0.5)
        return (time.process_time() - began) / count

    tree = min(took(lambda batch: nhalf.decode(scenario.moved({BATCH: batch})), 50) for _ in range(3))
    assert tree > 15 * min(took(lambda batch: function(batch, 2048.0), 1000) for _ in range(3))


def test_a_tape_keeps_what_depends_on_its_inputs_once() -> None:
    tape = Tape()
    x = tape.input(np.array([2.0]))
    once = x * (3.0 * 2.0) + 0.0
    again = np.maximum(x * 6.0, once) / 1.0
    source = tape.source(("x",), {"a": again, "b": 7.0})
    assert source == "def emitted(x):\n    t1 = (x * 6.0)\n    return (maximum(t1, t1), 7.0, )\n"
    assert tape.function(source, plain=True)(4.0) == (24.0, 7.0)
    assert tape.function(source, plain=False)(np.array([4.0, 5.0]))[0].tolist() == [24.0, 30.0]


@pytest.mark.parametrize(
    "use",
    [
        float, bool, list, lambda x: x[0], lambda x: x.astype(int), np.mean, np.sin,
        lambda x: np.stack([x, x]), lambda x: x.copy() + 1.0, lambda x: np.add(x, 1.0, out=np.zeros(1)),
    ],
)  # fmt: skip
def test_what_a_line_cannot_repeat_is_refused(use: Callable[[Traced], object]) -> None:
    with pytest.raises(UntraceableError):
        use(Tape().input(np.array([2.0])))

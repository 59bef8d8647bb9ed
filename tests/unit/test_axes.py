"""Axes: the texts of `--axis` as values, cells and inner axes, with every reason kept."""

from __future__ import annotations

import numpy as np
import pytest

import nhalf
from nhalf.decide.grid import NUMBERS, Grid, Numbers, Task
from nhalf.decide.workers import here
from nhalf.errors import InputError
from nhalf.loading import Degrees, Request
from nhalf.loading.axes import Loaded, grid, quantities
from nhalf.predict.step import COLUMNS

LATENCY = "system.fabric.intra_node.latency_s"


def request(**fields: object) -> Request:
    given = {"model": "llama-3.1-70b", "systems": ("h100-sxm",), "weights": "fp8", **fields}
    return Request(**given)  # type: ignore[arg-type]


def made(*texts: str, **fields: object) -> Loaded:
    return grid(request(**fields), texts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5us", [5e-6]),
        ("1us,2.5us", [1e-6, 2.5e-6]),
        ("1us:8us:x2", [1e-6, 2e-6, 4e-6, 8e-6]),
        ("1us:4us:1us", [1e-6, 2e-6, 3e-6, 4e-6]),
        ("1us:100us:3", [1e-6, 1e-5, 1e-4]),
        ("0us:4us:3", [0.0, 2e-6, 4e-6]),
    ],
)
def test_quantities_are_lists_and_ranges(text: str, expected: list[float]) -> None:
    assert quantities(text, "s", where="x") == pytest.approx(expected)


def test_a_range_that_does_not_say_has_25_values_in_equal_ratios() -> None:
    values = quantities("1us:50us", "s", where="x")
    assert len(values) == 25
    assert (values[0], values[-1]) == (pytest.approx(1e-6), pytest.approx(50e-6))
    assert np.diff(np.log(values)) == pytest.approx(np.log(50) / 24)


@pytest.mark.parametrize(
    "text", ["1:5", "5us:1us", "1us:", "1us:2us:3us:4us", "1us:5us:1", "1us:5us:x1", "0us:5us:x2", "1us,1us"]
)
def test_bad_quantities_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        quantities(text, "s", where="x")


def test_layout_axes_make_cells_and_numbers_run_inside_them() -> None:
    loaded = made("batch=1:4", "tp=1,2,8", f"{LATENCY}=1us:5us:5")
    found = loaded.grid
    assert found.outer == ("tp",)
    assert [axis.name for axis in found.inner] == ["batch", LATENCY]
    assert (found.points_per_cell, found.points) == (20, 60)
    assert [cell.scenario.layout.tensor_parallel for cell in found.cells if cell.scenario] == [1, 2, 8]


def test_an_illegal_point_keeps_its_place_with_the_reason() -> None:
    legal, illegal = made("tp=2,3").grid.cells
    assert (legal.reason, illegal.scenario) == ("", None)
    assert "64 attention heads" in illegal.reason


def test_every_kind_of_layout_and_stack_is_an_axis() -> None:
    texts = (
        "tp=1,8",
        "pp=1,2",
        "ep=1,8",
        "attention-dp=1,8",
        "cp=1,2",
        "system=h200-sxm,b200-sxm",
        "engine=vllm,nosuch",
    )
    found = made(*texts, model="deepseek-v3").grid
    assert found.outer == ("tp", "pp", "ep", "attention_dp", "cp", "system", "engine")
    assert len(found.cells) == 2**7
    assert {cell.reason for cell in found.cells if cell.labels[-1] == "nosuch"} == {
        "the catalogue has no engine 'nosuch'"
    }
    ok = [cell for cell in found.cells if cell.scenario is not None]
    for cell in ok:
        assert cell.scenario is not None
        layout = cell.scenario.layout
        degrees = (layout.tensor_parallel, layout.pipeline_parallel, layout.expert_parallel, layout.attention_dp)
        assert (*degrees, layout.context_parallel, cell.scenario.system.name) == cell.labels[:6]


def test_the_lists_of_a_scenario_file_are_axes_unless_one_is_named() -> None:
    found = made("tp=4", degrees=Degrees(tp=(1, 2)), batches=(1, 16)).grid
    assert found.outer == ("tp",)
    assert [cell.labels for cell in found.cells] == [(4,)]
    assert found.inner[0].values.tolist() == [1.0, 16.0]


def numbers_at(grid: Grid, task: Task) -> Numbers:
    ((_, answers),) = here(grid, [task])
    assert answers is not None
    return answers


def test_every_point_is_what_decode_gives_alone() -> None:
    found = made("tp=1,8", "batch=1,64", f"{LATENCY}=0.5us,4us").grid
    parts = [numbers_at(found, task) for task in found.tasks(3)]
    numbers = {name: np.concatenate([part[name] for part in parts]) for name in NUMBERS}
    points = [(tp, batch, latency) for tp in (1, 8) for batch in (1, 64) for latency in (0.5e-6, 4e-6)]
    assert len(numbers["step_s"]) == len(points)
    for place, (tp, batch, latency) in enumerate(points):
        alone = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=tp, batch=batch, weights="fp8").having({LATENCY: latency})
        step_s = numbers["step_s"][place]
        assert step_s == float(nhalf.decode(alone).value)
        assert sum(numbers[f"{name}_s"][place] for name in COLUMNS) == pytest.approx(step_s, rel=1e-12)


def test_prompts_and_outputs_set_the_context_between_them() -> None:
    found = made("osl=100,200", "isl=1000,3000").grid
    task = Task(cell=0, start=3, stop=4)
    row = numbers_at(found, task)
    alone = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=1, weights="fp8", isl=3000, osl=200)
    assert row["step_s"][0] == pytest.approx(float(nhalf.decode(alone).value), rel=1e-12)


def test_memory_as_an_axis_decides_what_fits() -> None:
    found = made("system.device.memory_bytes=40GB,200GB").grid
    task = next(found.tasks())
    assert numbers_at(found, task)["fits_memory"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (("tp",), "no name=values"),
        (("bach=1:4",), "Did you mean 'batch'?"),
        (("tp=1", "tp=2"), "given twice"),
        ((), "there is no axis"),
        (("tp=3",), "no point is legal"),
        (("stack.memory_efficiency=0.5,1.5",), "at most 1"),
        (("batch=4:1",), "backwards"),
        (("isl=100,200",), "--osl"),
        (("system=h100",), "h100-sxm"),
    ],
)
def test_a_bad_axis_is_refused(texts: tuple[str, ...], part: str) -> None:
    with pytest.raises(InputError) as refusal:
        made(*texts)
    assert part in str(refusal.value)

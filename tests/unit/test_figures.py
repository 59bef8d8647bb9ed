"""Figures: each shows the numbers of its answer, is legal Vega-Lite, and reads without colours and without eyes."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nhalf import loading
from nhalf.decide.comparison import Comparison, compare
from nhalf.errors import InputError
from nhalf.loading.degrees import Degrees
from nhalf.report.decode_page import page
from nhalf.report.figures import figure, latency
from nhalf.report.figures.bars import Bar, of_bars
from nhalf.report.figures.pareto import Spot, pareto
from nhalf.report.figures.regime import WORDS, edges, levels, regime
from nhalf.report.figures.waterfall import of_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.report.figures.figure import Figure

pytest.importorskip("altair", reason="the extra [report] is not installed")


@cache
def comparison() -> Comparison:
    request = loading.Request(
        model="llama-3.1-70b", systems=("h100-sxm",), degrees=Degrees(tp=(1, 8, 16)), batches=(1, 128), weights="fp8"
    )
    return compare(loading.scenarios(request).scenarios)


@cache
def figures() -> dict[str, Figure]:
    return {each.key: each for each in page(comparison()).figures}


def datasets(spec: Any) -> Iterator[list[dict[str, Any]]]:  # noqa: ANN401  a tree of JSON
    """Yield the rows of every layer of a chart."""
    if isinstance(spec, dict):
        if "values" in spec.get("data", {}):
            yield spec["data"]["values"]
        for value in spec.values():
            yield from datasets(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from datasets(value)


@pytest.mark.parametrize(
    "kind", ["scaling", "moving", "regime", "latency", "algorithms", "topology", "waterfall", "levers", "tornado"]
)
def test_a_page_of_decode_has_every_kind_and_each_is_legal(kind: str) -> None:
    mine = [each for key, each in figures().items() if key.startswith(kind)]
    assert mine
    for each in mine:
        spec = each.chart.to_dict(validate=True)
        assert spec["width"] == "container"
        assert len(each.text) > 40
        assert each.rows


def test_the_bars_of_the_scaling_curve_add_up_to_the_step() -> None:
    for panel, place in zip(comparison().panels, itertools.count()):
        bars = next(datasets(figures()[f"scaling-{place}"].chart.to_dict()))
        for row in panel.rows:
            mine = [bar for bar in bars if bar["layout"] == row.layout_name]
            assert max(bar["to_s"] for bar in mine) == pytest.approx(row.step_s)
            assert sum(bar["to_s"] - bar["from_s"] for bar in mine) == pytest.approx(row.step_s)


def test_a_layout_beyond_one_node_says_so_at_the_end_of_its_bar() -> None:
    rows = list(itertools.chain(*datasets(figures()["scaling-0"].chart.to_dict())))
    assert {row["layout"] for row in rows if str(row.get("label", "")).endswith("2 nodes")} == {"TP16"}


def test_the_turn_over_set_is_marked() -> None:
    panel = comparison().panels[0]
    rows = list(itertools.chain(*datasets(figures()["scaling-0"].chart.to_dict())))
    starred = {row["layout"] for row in rows if str(row.get("label", "")).endswith("*")}
    assert starred == {row.layout_name for row in panel.tied}


def test_the_regime_map_says_what_the_rows_say() -> None:
    cells = {(cell["layout"], cell["batch"]): cell for cell in figures()["regime-0"].rows}
    for row in comparison().rows:
        cell = cells[row.layout_name, int(row.batch)]
        assert cell["binds"] == WORDS[row.binding]
        assert cell["tokens_per_s_per_user"] == pytest.approx(row.tokens_per_s_per_user)
        assert cell["fits"] == (row.fits_memory != "no")


def test_contours_run_between_the_cells_of_which_one_reaches_a_level() -> None:
    made = [
        [{"layout": name, "doubling": at, "tokens_per_s_per_user": rate} for at, rate in enumerate(rates, start)]
        for name, start, rates in (("a", 0, (120.0, 90.0, 50.0)), ("b", 1, (110.0, 30.0)))
    ]
    upright, level = edges(made, [100.0, 50.0])
    assert [(edge["layout"], edge["at_doubling"], edge["per user"]) for edge in upright] == [
        ("a", 0.5, "100 tokens/s"), ("b", 1.5, "100, 50 tokens/s"),
    ]  # fmt: skip
    assert [(edge["from_doubling"], edge["to_doubling"], edge["per user"]) for edge in level] == [
        (0.5, 1.5, "100 tokens/s"), (1.5, 2.5, "50 tokens/s"),
    ]  # fmt: skip
    assert levels([3.0, 120.0]) == [100.0, 50.0, 20.0, 10.0, 5.0]
    assert len(levels([0.2, 9000.0])) <= 6


def test_a_map_begins_at_the_first_batch_that_a_layout_can_run_and_breaks_long_names() -> None:
    base = comparison().rows[0].scenario
    wide = replace(base, layout=replace(base.layout, attention_dp=8))
    spec = regime({"TP1 PP2 DP16 EP16 a2a": wide}, {}, key="k", title="t").chart.to_dict()
    boxes = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "rect")
    assert boxes["encoding"]["x"]["scale"]["domain"] == [2.5, 10.5]
    assert '["TP1 PP2 DP16", "EP16 a2a"]' in boxes["encoding"]["y"]["axis"]["labelExpr"]


def test_the_latency_curve_has_the_messages_of_the_batches_on_it() -> None:
    rows = figures()["latency-0"].rows
    curve = [(row["size_bytes"], row["time_s"]) for row in rows if row["kind"] in ("measured", "modelled")]
    for batch in (1, 128):
        message = next(row for row in rows if row["kind"] == f"batch {batch}")
        assert message["size_bytes"] == batch * 8192 * 2
        assert (message["size_bytes"], message["time_s"]) in curve


def test_the_sketch_has_the_links_of_the_system_and_says_which_a_tp_group_pays_for() -> None:
    sketch = figures()["topology-0"]
    fabric = comparison().rows[-1].scenario.system.fabric
    inside, between = sketch.rows
    assert inside["latency_s"] == fabric.intra_node.latency_s
    assert between["bandwidth_bytes_per_s"] == fabric.inter_node.bandwidth_bytes_per_s
    assert (inside["tp_group_crosses"], between["tp_group_crosses"]) == (True, True)
    assert "TP16 takes 16 devices on 2 nodes" in sketch.text
    devices = [row for row in itertools.chain(*datasets(sketch.chart.to_dict())) if "device" in row]
    assert {row["TP group"] for row in devices} == {"0"}
    assert {row["device"] for row in devices} == {str(rank) for rank in range(16)}


def test_a_waterfall_ends_where_its_parts_do() -> None:
    drawn = of_parts([("a", 1e-3, "#000000"), ("b", 3e-3, "#000000")], key="w", title="w", whole="all")
    bars = next(datasets(drawn.chart.to_dict()))
    assert [(bar["from_s"], bar["to_s"]) for bar in bars] == [
        (0.0, 1e-3),
        (1e-3, pytest.approx(4e-3)),
        (0.0, pytest.approx(4e-3)),
    ]
    assert "75 %" in drawn.text


def test_what_is_said_of_a_bar_does_not_replace_its_value() -> None:
    bar = Bar(name="x", value=0.5, label="+0.50", colour="#000000", tips=(("value", "3 us"), ("name", "other")))
    row = next(rows[0] for rows in datasets(of_bars([bar], key="b", title="b", axis="a").chart.to_dict()))
    assert row["bar_value"] == 0.5
    assert row["bar_name"] == "x"


def test_a_curve_without_an_intercept_is_drawn_without_it() -> None:
    sizes = np.array([1024.0, 2048.0])
    curve = latency.Curve(sizes_bytes=sizes, times_s=np.array([1e-6, 2e-6]), kind="fitted")
    assert latency.latency(curve, key="l", title="l").chart.to_dict(validate=True)
    assert latency.misfit(curve, key="m", title="m") is None


def test_the_misfit_is_that_of_the_points() -> None:
    sizes = np.array([1e3, 1e6])
    curve = latency.Curve(
        sizes_bytes=sizes, times_s=np.array([2e-6, 4e-6]), kind="fitted", points=[(1e3, 2.2e-6)], latency_s=1e-6,
        bandwidth_bytes_per_s=1e9,
    )  # fmt: skip
    drawn = latency.misfit(curve, key="m", title="m")
    assert drawn is not None
    assert drawn.rows[0]["miss"] == pytest.approx(2.0 / 2.2 - 1)


def test_a_pareto_front_names_the_best() -> None:
    spots = [
        Spot(name="TP8", per_user=100.0, per_gpu=50.0, role="chosen", front=True),
        Spot(name="TP4", per_user=60.0, per_gpu=40.0, role="other"),
    ]
    drawn = pareto(spots, key="p", title="p", room=(100.0, 50.0), limit=(80.0, "12.5 ms"))
    assert drawn.chart.to_dict(validate=True)
    assert "TP8" in drawn.text
    assert "TP4" not in drawn.text


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(3e-6, 6e-5, [5e-6, 1e-5, 2e-5, 5e-5]), (1e-6, 1e-3, [1e-6, 1e-5, 1e-4, 1e-3])],
)
def test_logarithmic_axes_have_round_labels(low: float, high: float, ticks: list[float]) -> None:
    assert figure.decades(low, high) == ticks


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colour", figure.PALETTE)
def test_what_is_written_on_a_colour_can_be_read(colour: str) -> None:
    assert contrast(colour, figure.on(colour)) >= 4.5


# Machado, Oliveira and Fernandes (2009), table 1: severity 1.0 of deuteranomaly and protanomaly, linear RGB.
BLIND = {
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
}


@pytest.mark.parametrize("kind", BLIND)
def test_colours_that_touch_in_a_stack_stay_apart_for_the_colour_blind(kind: str) -> None:
    def seen(colour: str) -> np.ndarray[Any, Any]:
        channels = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
        found: np.ndarray[Any, Any] = np.clip(np.array(BLIND[kind]) @ channels**2.2, 0, 1) ** (1 / 2.2)
        return found

    colours = [colour for _, colour in figure.COLUMNS.values()]
    for below, above in itertools.pairwise(colours):
        assert np.linalg.norm(seen(below) - seen(above)) > 0.15, (below, above)


def test_without_altair_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "altair", None)
    with pytest.raises(InputError, match=re.escape("pip install '.[report]'")):
        figure.altair()

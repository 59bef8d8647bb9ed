"""Commands as Python functions: answers that print in a line, agree with the command line, and keep what they were."""

from __future__ import annotations

import doctest
import itertools
import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.cli.command import invoke

import nhalf
from nhalf.answers import commands, decoded, measured, study
from nhalf.answers.answer import html
from nhalf.breakdown import Term, walk
from nhalf.cli import asking
from nhalf.errors import InputError
from nhalf.report.view import Bars, Brief

if TYPE_CHECKING:
    from collections.abc import Callable

ON = {"on": "h100-sxm", "weights": "fp8"}
FLAGS = ("--on", "h100-sxm", "--weights", "fp8")
MODEL = "llama-3.1-70b"


def test_the_public_names_are_listed() -> None:
    assert {"decode", "compare", "plan", "buy", "fit", "read", "simulate", "trace", "load", "Link"} <= set(dir(nhalf))
    assert all(hasattr(nhalf, name) for name in dir(nhalf))


def test_a_room_named_after_a_command_is_the_command_too() -> None:
    for room, module in (("trace", "study"), ("simulate", "engine")):
        loaded = import_module(f"nhalf.{room}.{module}")
        assert getattr(getattr(nhalf, room), module) is loaded
        assert callable(getattr(nhalf, room))


def test_every_example_runs() -> None:
    for module in (asking, commands, decoded, measured, study):
        found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
        assert found.attempted
        assert not found.failed


def test_a_decoded_step_is_the_term_that_it_was() -> None:
    scenario = nhalf.load(MODEL, tp=8, **ON)
    step = nhalf.decode(scenario)
    assert isinstance(step, Term)
    assert type(step.step) is Term
    assert step.value == step.step.value
    assert [name for name, _ in walk(step)] == [name for name, _ in walk(step.step)]
    row = invoke("decode", MODEL, *FLAGS, "--tp", "8", "--json").document["rows"][0]
    assert (step.value, *step.band) == (row["step_s"], row["low_s"], row["high_s"])
    assert step.to_dict()["rows"][0]["step_s"] == row["step_s"]
    assert step.table()[0]["binding"] == row["binding"]
    assert step.text().splitlines()[0] == invoke("decode", MODEL, *FLAGS, "--tp", "8").out.splitlines()[0]
    assert step.levers
    assert step.crossovers[0].ranks == 8
    assert len(repr(step)) < 200


def test_a_decoded_step_of_arrays_has_as_many_bands() -> None:
    step = nhalf.decode(MODEL, tp=8, batch=np.array([1, 2, 4]), **ON)
    assert np.shape(step.value) == np.shape(step.low_s) == (3,)
    assert "3 points" in repr(step)
    assert "3 points" in step._repr_html_()
    alone = nhalf.decode(MODEL, tp=8, batch=4, **ON)
    assert np.asarray(step.high_s)[2] == alone.high_s


def test_a_plan_is_short_and_has_what_it_had() -> None:
    found = nhalf.plan(MODEL, gpus=8, limits={"tpot": "20ms"}, **ON)
    assert len(repr(found)) < 300
    assert found.chosen.layout.devices * found.chosen.layout.replicas == 8
    assert "chosen" in dir(found)
    told = invoke("plan", MODEL, *FLAGS, "--gpus", "8", "--tpot", "20ms", "--json").document
    assert found.to_dict() == told
    assert [row["layout"] for row in found.table()] == [row["layout"] for row in told["rows"]]
    assert found.frame().height == len(told["rows"])


def test_a_question_without_an_answer_says_so_and_keeps_what_was_found() -> None:
    found = nhalf.plan(MODEL, on="h100-sxm", gpus=8, limits={"tpot": "1ms"})
    assert "1 ms" in found.problem
    assert found.chosen is None


@pytest.mark.parametrize(
    ("name", "arguments", "flags"),
    [
        ("compare", (MODEL,), {"layouts": ["tp=4", "tp=8"], "users": 4, **ON}),
        ("buy", (MODEL,), {"options": ["hbm=x1.5", "nvlink.bandwidth=x2"], "tp": 8, "batch": [1, 128], **ON}),
        ("whatif", (MODEL,), {"options": ["nvlink.bandwidth=x2"], "tp": 8, **ON}),
        ("crossover", (MODEL,), {"link": "5us,400GB/s"}),
        ("simulate", ("all-reduce",), {"ranks": 4, "size": "64KiB", "latency": "5us", "bandwidth": "100GB/s"}),
    ],
)
def test_each_command_answers(name: str, arguments: tuple[str, ...], flags: dict[str, object]) -> None:
    found = getattr(nhalf, name)(*arguments, **flags)
    assert found.verdict
    assert found.table()
    assert found.text(columns=80)
    json.dumps(found.to_dict(), allow_nan=False)


def test_what_is_wrong_is_said_by_the_name_of_the_keyword() -> None:
    with pytest.raises(InputError, match="there is no 'gups'"):
        nhalf.plan(MODEL, gups=8, on="h100-sxm")
    with pytest.raises(InputError, match="no model"):
        nhalf.compare("llama-9", layouts=["tp=2"], **ON)
    with pytest.raises(AttributeError, match="has no attribute 'chosn'"):
        _ = nhalf.plan(MODEL, gpus=8, on="h100-sxm").chosn


def test_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = nhalf.crossover(MODEL, on="h100-sxm")
    assert found.verdict
    assert capsys.readouterr() == ("", "")


def test_the_doctor_is_an_answer() -> None:
    log = Path(__file__).parents[1] / "logs" / "nccl_tests" / "2025-06_all_reduce.txt"
    found = nhalf.doctor(log, on="h100-sxm")
    assert found.to_dict()["normal"] is True
    assert "This is normal" in repr(found)


def test_a_trace_is_an_answer() -> None:
    found = nhalf.trace(Path(__file__).parents[1] / "golden" / "trace" / "tp2_slow1")
    assert found.to_dict()["ranks"] == 2
    assert found.verdict


def test_html_is_escaped_and_holds_the_bars() -> None:
    brief = Brief(
        verdict=["<b>"],
        bars=Bars(heads=["<a"], rows=[["<script>"]], names=["x", "y"], parts=[[1.0, 2.0]], remarks=["&"]),
    )
    made = html(brief)
    assert "<script>" not in made
    assert made.count("inline-block") == 2
    assert "&lt;script&gt;" in made
    assert "<table>" in html(Brief(verdict=["a"], table=(["<h", "n"], [["x", "1"]])))


def test_a_study_is_the_rows_of_a_sweep(tmp_path: Path) -> None:
    found = nhalf.study(MODEL, {"tp": [2, 3, 8], "batch": np.array([1, 64])}, **ON)
    assert len(found) == 6
    path = tmp_path / "rows.json"
    assert invoke("sweep", MODEL, *FLAGS, "--axis", "tp=2,3,8", "--axis", "batch=1,64", "-o", str(path)).code == 0
    rows = json.loads(path.read_text())
    rows = rows["rows"] if isinstance(rows, dict) else rows
    for mine, other in zip(found.table(), rows, strict=True):
        assert {name: value for name, value in mine.items() if value == value} == {  # noqa: PLR0124  not a number
            name: value for name, value in other.items() if value is not None or mine[name] is None
        }
    assert found.columns["tpot_s"].shape == (6,)
    assert np.isnan(found.columns["tpot_s"][2])
    assert "6 points, 2 not legal" in repr(found)
    assert found._repr_html_().count("<tr>") == 3
    pl = pytest.importorskip("polars", reason="the extra [frames] is not installed")
    assert found.frame().filter(pl.col("tp") == 8)["batch"].to_list() == [1, 64]
    several = nhalf.study(MODEL, {"batch": "1:4:x2"}, on=["h100-sxm", "h200-sxm"], weights="fp8", tp=8)
    assert sorted(set(several.columns["system"].tolist())) == ["h100-sxm", "h200-sxm"]
    with pytest.raises(InputError, match="no axis"):
        nhalf.study(MODEL, {}, **ON)
    for axes, why in (
        ({"batch": range(1, 10**9)}, "has over 100000 values"),
        ({"batch": itertools.count(1)}, "has over 100000 values"),
        ({"tp": []}, "tp has no values"), ("tp=1,2", "no axis"), ({"weights": ["fp8"]}, "an axis and a choice"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=why):
            nhalf.study(MODEL, axes, **ON)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no system"):
        nhalf.study(MODEL, {"tp": [1]}, on=5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="there is no choice"):
        nhalf.study(MODEL, {"tp": [1]}, on="h100-sxm", wieghts="fp8")


def test_samples_and_fits_print_in_a_line_and_show_a_table(tmp_path: Path) -> None:
    sizes = [2.0**power for power in range(3, 25)]
    columns = {"op": "all-reduce", "ranks": 8, "size_bytes": sizes, "seconds": [5e-6 + n / 4e11 for n in sizes]}
    fitted = nhalf.fit(columns)
    assert isinstance(fitted, nhalf.Fit)
    assert repr(fitted).startswith("<Fit: all-reduce on 8 ranks")
    assert len(repr(fitted)) < 400
    assert fitted.table()[0]["latency_s"] == pytest.approx(5e-6, rel=1e-3)
    page = fitted._repr_html_()
    assert "5 us" in page
    assert "n_1/2" in page
    assert isinstance(fitted.select(ranks=8), nhalf.Fit)
    path = tmp_path / "sizes.csv"
    lines = [f"all-reduce,8,{n:g},{5e-6 + n / 4e11!r}" for n in sizes]
    path.write_text("\n".join(["op,ranks,size_bytes,seconds", *lines]) + "\n")
    read = nhalf.read(path)
    assert read == list(read)
    assert repr(read) == "<Samples: 22 points of all-reduce on 8 ranks, 8 B to 16 MiB>"
    assert "2 more" in read._repr_html_()
    assert nhalf.fit(read, system="h100-sxm").table()[0]["points"] == 22
    for nothing in (None, 3, b"x", [None]):
        with pytest.raises(InputError, match="no log"):
            nhalf.read(nothing)  # type: ignore[arg-type]
    pytest.importorskip("polars", reason="the extra [frames] is not installed")
    assert read.frame().shape == (22, 8)
    assert fitted.frame().shape[0] == 1


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: nhalf.study("llama-3.1-8b", {"tpp": [1]}, on="h100-sxm"), "axes: there is no axis 'tpp'"),
        (lambda: nhalf.study("llama-3.1-8b", {"tp": [0]}, on="h100-sxm"), "axes['tp']: '0' is not"),
        (lambda: nhalf.load("llama-3.1-8b", on="h100-sxm", weights="fp9"), "weights: 'fp9'"),
        (lambda: nhalf.load("nobody", on="h100-sxm"), "model: the catalogue has no model"),
        (lambda: nhalf.simulate("all-reduce", ranks=4), "add latency=5us (or link=5us,400GB/s, or on=SYSTEM)"),
        (lambda: nhalf.compare("llama-3.1-8b", on="h100-sxm", layouts=["tp=4"]), "add layouts='tp=16', or on=A,B"),
        (lambda: nhalf.plan("llama-3.1-8b", on="h100-sxm", devices=8), "Allowed: gpus, tpot"),
    ],
)
def test_errors_speak_of_keywords_to_whoever_wrote_python(ask: Callable[[], object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        ask()
    assert says in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_study_of_nothing_that_fits_shows_no_table_and_counts_in_english() -> None:
    none = nhalf.study("llama-3.1-405b", {"tp": [1]}, on="h100-sxm")
    assert none.verdict == "1 point, 1 does not fit in memory; none is left."
    assert "<table" not in none._repr_html_()
    floats = nhalf.study("llama-3.1-8b", {"batch": np.array([1.0, 2.0])}, on="h100-sxm")
    assert "<th" in floats._repr_html_()
    assert "experts" not in floats._repr_html_()


def test_what_changes_would_save_is_in_a_notebook_too() -> None:
    shown = nhalf.decode("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")._repr_html_()
    assert "2x HBM bandwidth" in shown
    simulated = nhalf.simulate("all-reduce", ranks=4, size="64KiB", latency="5us", bandwidth="100GB/s")
    assert "\n" not in repr(simulated)
    assert "<pre>" in simulated._repr_html_()

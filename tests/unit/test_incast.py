"""Nodes that answer one root at once over TCP: no term, a band that reaches further up, and words that say why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import columns
from nhalf.decide.comparison import compare
from nhalf.loading.case_table import Table
from nhalf.loading.cases import cases
from nhalf.loading.predictions import Predictions, predictions
from nhalf.loading.request import load
from nhalf.points import points
from nhalf.predict import incast
from nhalf.predict.band import PLAN
from nhalf.report import decode_document, predict

if TYPE_CHECKING:
    from nhalf.decide.comparison import Comparison
    from nhalf.scenario import Scenario

HEADER = ("model", "system", "engine", "weight_dtype", "context", "concurrency", "tp")


def boards(tp: int, engine: str = "distributed-llama") -> Comparison:
    return compare([load("llama-3.1-8b", on="raspberry-pi-cluster", tp=tp, engine=engine, weights="int4")])


def without_root(scenario: Scenario) -> Scenario:
    """Return the same where no node answers a root."""
    return replace(scenario, stack=replace(scenario.stack, gathers_at_root=False))


def told(tp: int, engine: str = "distributed-llama") -> Predictions:
    row = ["llama-3.1-8b", "raspberry-pi-cluster", engine, "int4", "512", "1", str(tp)]
    return predictions(cases(Table(path="rows", header=HEADER, rows=[row])))


@pytest.mark.parametrize(("tp", "engine"), [(4, "distributed-llama"), (8, "xfastertransformer")])
def test_fewer_nodes_and_engines_without_a_root_are_not_in_doubt(tp: int, engine: str) -> None:
    assert not decode_document.document(boards(tp, engine), [], [])["doubts"]
    assert not predict.doubts(told(tp, engine))


def test_eight_nodes_are_in_doubt_and_the_answers_say_so() -> None:
    (said,) = decode_document.document(boards(8), [], [])["doubts"]
    assert said.startswith("TP8: ")
    (row,) = predict.document(told(8))["doubts"]
    assert row.startswith("1 row: ")
    for text in (said, row):
        assert all(word in text for word in ("incast", "200 ms", "90 %", "290 ms", "51 ms", "distributed-llama"))


def test_the_doubt_reaches_up_by_the_loss_that_was_published_and_never_down() -> None:
    doubtful = boards(8).rows[0]
    (plain,) = compare([without_root(doubtful.scenario)]).rows
    assert doubtful.step_s == plain.step_s
    assert doubtful.low_s == plain.low_s
    owed = columns(doubtful.step)
    between = sum(float(np.max(owed[name])) for name in ("collective_fixed", "collective_transfer"))
    assert plain.high_s + between < doubtful.high_s


def test_a_table_has_the_same_doubt() -> None:
    found = told(8)
    scenario = found.cases.groups[0].scenario
    plain = points(without_root(scenario))
    assert found.tpot_s[0] == plain.tpot_s[0]
    assert found.low_s[0] == plain.low_s[0]
    between = float(incast.exposed_s(scenario, nhalf.decode(scenario))[0])
    ratio = {name: np.log(each.high_s[0] / each.tpot_s[0]) ** 2 for name, each in (("with", found), ("without", plain))}
    planned = between * (PLAN[1] - 1) / found.tpot_s[0]
    lost = between * (incast.COLLAPSE - 1) / found.tpot_s[0]
    expected = np.log1p(lost) ** 2 - np.log1p(planned) ** 2
    assert ratio["with"] - ratio["without"] == pytest.approx(expected)


def test_messages_past_the_kernel_do_not_wait_for_its_timer() -> None:
    def asked(**chosen: Any) -> Scenario:  # noqa: ANN401  options of any kind
        return load("llama-3.1-8b", on="raspberry-pi-cluster", tp=8, engine="distributed-llama", **chosen)

    assert incast.possible(asked())
    assert not incast.possible(asked(kernel_bypass="on"))

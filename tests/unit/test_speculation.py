"""Speculative decoding: tokens that are kept, a step that checks several, and a draft that pays or does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nhalf
from nhalf.breakdown import audit, columns
from nhalf.decide.comparison import compare
from nhalf.decide.remedies import remedies
from nhalf.errors import InputError
from nhalf.laws.speculation import accepted_tokens
from nhalf.predict.exchange import exchanges
from nhalf.predict.layer import tokens


def load(**choices: Any) -> nhalf.Scenario:  # noqa: ANN401  as nhalf.load
    return nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, **choices)


@pytest.mark.parametrize("draft", [1, 3, 7])
@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8, 0.99])
def test_the_kept_tokens_are_those_of_the_paper(draft: int, chance: float) -> None:
    paper = (1 - chance ** (draft + 1)) / (1 - chance)  # Leviathan et al., equation 1
    assert float(accepted_tokens(draft, chance).value) == pytest.approx(paper)


def test_the_kept_tokens_are_those_of_a_draw() -> None:
    random = np.random.default_rng(7)
    hits = random.random((200_000, 4)) < 0.7
    kept = 1 + np.cumprod(hits, axis=1).sum(axis=1)  # accepted until the first miss, and one token of its own
    assert float(accepted_tokens(4, 0.7).value) == pytest.approx(float(kept.mean()), rel=0.01)


def test_a_draft_that_is_always_accepted_keeps_all_of_it() -> None:
    assert float(accepted_tokens(3, 1.0).value) == 4.0


def test_a_step_checks_every_drafted_token_and_reads_the_cache_once() -> None:
    plain, drafted = load(batch=16), load(batch=16, draft_tokens=3, acceptance=0.8)
    sizes = [float(exchanges(each, tokens(each))[0].size.value) for each in (plain, drafted)]
    assert sizes[1] == 4 * sizes[0]
    read = [columns(nhalf.decode(each)) for each in (plain, drafted)]
    assert read[1]["kv"] == read[0]["kv"]
    assert read[1]["weights"] == read[0]["weights"]
    assert audit(nhalf.decode(drafted)) == []


def test_a_draft_pays_at_a_small_batch_and_not_where_arithmetic_binds() -> None:
    gains = {batch: remedies(load(batch=batch, draft_tokens=3, acceptance=0.6))[0].gain for batch in (1, 1024)}
    assert gains[1] > 0.5
    assert gains[1024] < 0.2


def test_a_row_says_both_times() -> None:
    (row,) = compare([load(draft_tokens=3, acceptance=0.8)]).rows
    assert row.accepted_tokens == pytest.approx(2.952)
    assert row.tpot_s == pytest.approx(row.step_s / 2.952)
    assert row.tokens_per_s_per_user == pytest.approx(2.952 / row.step_s)


@pytest.mark.parametrize(
    ("choices", "where"),
    [
        ({"draft_tokens": 3}, "--acceptance"),
        ({"acceptance": 0.8}, "--draft-tokens"),
        ({"draft_tokens": 0, "acceptance": 0.8}, "--draft-tokens"),
        ({"draft_tokens": 65, "acceptance": 0.8}, "--draft-tokens"),
        ({"draft_tokens": 3, "acceptance": 0}, "--acceptance"),
        ({"draft_tokens": 3, "acceptance": 1.01}, "--acceptance"),
        ({"draft_tokens": 3, "acceptance": "80"}, "--acceptance"),
        ({"draft_tokens": 3, "acceptance": "-1"}, "--acceptance"),
        ({"draft_tokens": 3, "acceptance": 0.5, "phase": "prefill", "isl": 10}, "--phase prefill"),
    ],
    ids=str,
)
def test_a_draft_that_cannot_be_is_refused(choices: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        load(**choices)
    assert caught.value.where == where.removeprefix("--").replace("-", "_").replace("phase ", "phase=")

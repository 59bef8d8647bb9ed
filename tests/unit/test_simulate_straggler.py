"""Stragglers and skew: what a text means, and what a draw is."""

from __future__ import annotations

import numpy as np
import pytest

from nhalf.errors import InputError
from nhalf.simulate import straggler


@pytest.mark.parametrize(
    ("text", "what", "amount", "chance"),
    [
        ("rank 3: 20us", "late", 20e-6, 1.0),
        ("3: 1.15x", "slow", 1.15, 1.0),
        ("Rank 3:1.15×", "slow", 1.15, 1.0),
        ("rank 3: 15%", "slow", 1.15, 1.0),
        ("rank 3: +15 %", "slow", 1.15, 1.0),
        ("rank 3: 15% 5%", "slow", 1.15, 0.05),
        ("rank 3: link 50%", "link", 1.5, 1.0),
        ("rank 3: link 8x 5%", "link", 8.0, 0.05),
        ("rank 3: jitter 2us", "jitter", 2e-6, 1.0),
        ("rank 3: 5 ms 0.5%", "late", 5e-3, 0.005),
    ],
)
def test_a_straggler_is_read(text: str, what: str, amount: float, chance: float) -> None:
    found = straggler.parse(text, 8)
    assert (found.rank, found.what) == (3, what)
    assert (found.amount, found.chance) == pytest.approx((amount, chance))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rank 3", "is not understood"),
        ("rank 8: 20us", "there is no rank 8"),
        ("rank 3: 20", "has no unit"),
        ("rank 3: 0x", "infinitely fast"),
        ("rank 3: link 20us", "is not understood"),
        ("rank 3: jitter 2x", "is not understood"),
        ("rank 3: jitter 15%", "is not understood"),
        ("rank 3: 2x 0%", "is no chance"),
        ("rank 3: 2x 200%", "is no chance"),
        ("", "is not understood"),
    ],
)
def test_a_text_that_is_no_straggler_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        straggler.parse(text, 8)


def test_stragglers_of_one_rank_add_up() -> None:
    found = [straggler.parse(text, 4) for text in ("0: 1us", "0: 2us", "1: 2x", "1: 3x", "2: link 4x")]
    assert straggler.starts(found, 4).tolist() == pytest.approx([3e-6, 0, 0, 0])
    assert straggler.factors(found, 4, "slow").tolist() == [1, 6, 1, 1]
    assert straggler.factors(found, 4, "link").tolist() == [1, 1, 4, 1]


@pytest.mark.parametrize(
    ("text", "mean"),
    [("exponential:10us", 10e-6), ("hiccup:1%:1ms", 10e-6), ("pareto:3:10us", 10e-6), ("normal:10us", 60e-6)],
)
def test_draws_have_the_mean_that_the_text_says(text: str, mean: float) -> None:
    drawn = straggler.parse_skew(text).draw(8, 200_000, seed=1)
    assert drawn.shape == (8, 200_000)
    assert drawn.min() >= 0
    assert drawn.mean() == pytest.approx(mean, rel=0.02)


def test_draws_repeat_with_their_seed() -> None:
    skew = straggler.parse_skew("exponential:10us")
    assert np.array_equal(skew.draw(4, 10, seed=1), skew.draw(4, 10, seed=1))
    assert not np.array_equal(skew.draw(4, 10, seed=1), skew.draw(4, 10, seed=2))


def test_samples_are_read_with_units_or_in_seconds() -> None:
    skew = straggler.samples("# lateness\n12us\n0.00001\n\n3 ms\n", where="late.txt")
    assert skew.samples_s is not None
    assert skew.samples_s.tolist() == pytest.approx([12e-6, 1e-5, 3e-3])
    assert set(skew.draw(4, 100, seed=1).ravel().tolist()) <= set(skew.samples_s.tolist())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gauss:10us", "is not a skew"),
        ("exponential", "is not a skew"),
        ("exponential:10", "has no unit"),
        ("hiccup:200%:1ms", "is no probability"),
        ("pareto:0.9:1ms", "has no mean"),
    ],
)
def test_a_text_that_is_no_skew_is_refused(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        straggler.parse_skew(text)


def test_an_empty_sample_file_is_refused_and_a_bad_line_is_named() -> None:
    with pytest.raises(InputError, match="holds no time"):
        straggler.samples("# nothing\n", where="late.txt")
    with pytest.raises(InputError, match=r"late\.txt:2"):
        straggler.samples("1us\nsoon\n", where="late.txt")

"""Every built-in model against what its maker publishes: total and active parameters, and bytes cached per token."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nhalf.catalog import store

TABLE = tomllib.loads(Path(__file__).with_name("parameters.toml").read_text(encoding="utf-8"))
MODELS: list[dict[str, Any]] = TABLE["models"]
SUFFIXES = {"B": 1e9, "T": 1e12}
TOLERANCE = 0.01


def published(text: str) -> tuple[float, float]:
    """Return a published figure, and what one more in its last digit is worth."""
    digits, scale = text[:-1], SUFFIXES[text[-1]]
    decimals = len(digits.partition(".")[2])
    return float(digits) * scale, 10.0**-decimals * scale


def agrees(counted: float, text: str) -> bool:
    """Tell whether a count is within 1 % of a published figure, or is what the figure was rounded or cut off from."""
    figure, step = published(text)
    return abs(counted / figure - 1) <= TOLERANCE or figure - step / 2 <= counted < figure + step


def by_hand(formula: str) -> int:
    """Return a sum of products of whole numbers."""
    return sum(math.prod(int(factor) for factor in term.split("*")) for term in formula.split("+"))


def active(name: str, counts: str) -> float:
    """Return the active parameters with the parts that a published figure counts."""
    model = store.transformer(name)[0]
    if counts == "table":
        return model.active_parameters + model.embedding_parameters
    return model.active_parameters - (model.head_parameters if counts == "neither" else 0)


def test_the_table_has_every_built_in_model_and_no_other() -> None:
    assert sorted(row["name"] for row in MODELS) == sorted(store.names("model"))
    assert len(MODELS) >= 25


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_the_total_is_the_published_one(row: dict[str, Any]) -> None:
    assert row["source"]
    assert agrees(store.transformer(row["name"])[0].parameters + row.get("left_out", 0.0), row["total"])


@pytest.mark.parametrize("row", [row for row in MODELS if "active" in row], ids=lambda row: row["name"])
def test_the_active_parameters_are_the_published_ones(row: dict[str, Any]) -> None:
    assert agrees(active(row["name"], row["active_counts"]), row["active"])


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_a_model_with_experts_has_an_active_count(row: dict[str, Any]) -> None:
    assert ("active" in row) == (store.transformer(row["name"])[0].mixture is not None)


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_the_bytes_cached_per_token_are_exact(row: dict[str, Any]) -> None:
    model = store.transformer(row["name"])[0]
    assert by_hand(row["kv"]) * row["kv_width"] + by_hand(row.get("index", "0")) == row["kv_bytes"]
    assert model.kv_elements(1) == by_hand(row["kv"])
    assert model.kv_bytes() == row["kv_bytes"]


@pytest.mark.parametrize("row", TABLE["checkpoints"], ids=lambda row: row["name"])
def test_a_checkpoint_has_the_published_size(row: dict[str, Any]) -> None:
    size = sum(group.bytes for group in store.transformer(row["name"])[0].weights())
    assert round(size / 2**30, 1) == row["gibibytes"]


@pytest.mark.parametrize(
    ("counted", "text", "agreed"),
    [
        (3.353e9, "3.3B", True),  # cut off
        (3.26e9, "3.3B", True),  # rounded
        (3.41e9, "3.3B", False),
        (3.24e9, "3.3B", False),
        (117.9e9, "116.83B", True),
        (118.1e9, "116.83B", False),
        (1.026e12, "1T", True),
    ],
)
def test_agreement_can_fail(counted: float, text: str, agreed: bool) -> None:  # noqa: FBT001  a table
    assert agrees(counted, text) is agreed

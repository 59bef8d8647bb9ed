"""What must hold between two answers, over random models, systems, engines and layouts of the catalogue."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.fuzz.trial import ended

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
_EXACT = 1e-12


@cache
def names(kind: str) -> list[str]:
    """Return the names of the catalogue's entries of a kind."""
    return sorted({entry["name"] for entry in json.loads(ended(["catalog", kind, "--json"]).out)["entries"]})


@cache
def decoded(*words: str) -> dict[str, Any] | None:
    """Return the answer of decode; None where the case is refused or does not run."""
    ending = ended(["decode", *words, "--json"])
    assert ending.code in {0, 2, 3, 4}, ending.err
    found = json.loads(ending.out) if ending.code == 0 else None
    return found if found and found["rows"] and found["rows"][0].get("step_s") is not None else None


def step(answer: dict[str, Any]) -> float:
    """Return the time of the one step of an answer [s]."""
    value: float = answer["rows"][0]["step_s"]
    return value


Case = tuple[tuple[str, ...], int, int]
"""The words of a command but its model and system, whose places in the catalogue come first; a batch; a context."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a model on a system in a layout, with a batch and a context."""
    words = (
        str(draw(st.integers(0, 9999))), "--on", str(draw(st.integers(0, 9999))),
        "--tp", str(draw(st.sampled_from((1, 2, 4, 8)))),
        "--engine", draw(st.sampled_from(("vllm", "sglang", "trtllm"))),
    )  # fmt: skip
    return words, draw(st.sampled_from((1, 2, 3, 7, 8, 32, 200))), draw(st.sampled_from((1, 128, 1024, 8192)))


def named(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a case with the names of its model and system."""
    models, systems = names("models"), names("systems")
    return (models[int(words[0]) % len(models)], words[1], systems[int(words[2]) % len(systems)], *words[3:])


def answered(case: Case, *more: str) -> dict[str, Any]:
    """Return the answer of a case; a case without one is not tried."""
    words, batch, context = case
    found = decoded(*named(words), "--batch", str(batch), "--context", str(context), *more)
    assume(found)
    assert found is not None
    return found


@SETTINGS
@given(case=cases(), tier=st.sampled_from(("intra_node", "inter_node")), factor=st.sampled_from((1.1, 2.0, 30.0)))
def test_a_better_link_is_never_slower(case: Case, tier: str, factor: float) -> None:
    before = answered(case)
    values = {each["path"]: each["value"] for each in before["sources"]}
    for name, unit, better in (("latency_s", "s", 1 / factor), ("bandwidth_bytes_per_s", "B/s", factor)):
        path = f"system.fabric.{tier}.{name}"
        if isinstance(values.get(path), int | float):
            after = answered(case, "--set", f"{path}={values[path] * better!r}{unit}")
            assert step(after) <= step(before) * (1 + _EXACT)


@SETTINGS
@given(case=cases(), more=st.sampled_from((1, 2, 7, 64)))
def test_more_sequences_never_make_a_step_shorter(case: Case, more: int) -> None:
    words, batch, context = case
    assert step(answered((words, batch + more, context))) >= step(answered(case)) * (1 - _EXACT)


@SETTINGS
@given(case=cases(), more=st.sampled_from((1, 10, 5000)))
def test_a_longer_context_never_makes_a_step_shorter(case: Case, more: int) -> None:
    words, batch, context = case
    assert step(answered((words, batch, context + more))) >= step(answered(case)) * (1 - _EXACT)


@SETTINGS
@given(case=cases(), unit=st.sampled_from((("us", 1e6), ("ms", 1e3), ("ns", 1e9))))
def test_the_unit_of_a_value_changes_nothing(case: Case, unit: tuple[str, float]) -> None:
    path, value = "stack.step_time_s", 3e-4
    plain = answered(case, "--set", f"{path}={value!r}s")
    other = answered(case, "--set", f"{path}={value * unit[1]!r}{unit[0]}")
    assert step(other) == pytest.approx(step(plain), rel=_EXACT)


@settings(SETTINGS, max_examples=8, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_a_scenario_that_was_saved_gives_the_same_answer(case: Case, tmp_path: Path) -> None:
    target = str(tmp_path / "q.toml")
    (tmp_path / "q.toml").unlink(missing_ok=True)
    decoded.cache_clear()
    before = answered(case, "--save", target)
    after = decoded(target)
    decoded.cache_clear()
    assert after is not None
    for name in ("step_s", "low_s", "high_s"):
        assert after["rows"][0][name] == pytest.approx(before["rows"][0][name], rel=_EXACT)


@settings(SETTINGS, max_examples=6)
@given(case=cases(), order=st.permutations(["1", "2", "4", "8"]), batches=st.permutations(["1", "4", "16"]))
def test_the_order_in_which_things_are_asked_changes_nothing(case: Case, order: list[str], batches: list[str]) -> None:
    words = (*named(case[0])[:3], *case[0][5:])
    one = decoded(*words, "--tp", "1,2,4,8", "--batch", "1,4,16")
    other = decoded(*words, "--tp", ",".join(order), "--batch", ",".join(batches))
    assert (one is None) == (other is None)
    if one and other:
        rows = [{(row["tp"], row["batch"]): row for row in each["rows"]} for each in (one, other)]
        assert rows[0].keys() == rows[1].keys()
        for key, row in rows[0].items():
            for name in ("step_s", "low_s", "high_s"):
                assert rows[1][key][name] == (None if row[name] is None else pytest.approx(row[name], rel=_EXACT))

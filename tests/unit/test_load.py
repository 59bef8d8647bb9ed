"""`nhalf.load`: values of every type that a program may pass, and one clear error for those that cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nhalf
from nhalf.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

COUNTS = (("batch", "batch"), ("tp", "tp"), ("pp", "pp"), ("cp", "cp"), ("context", "context"))
NO_COUNTS: list[Any] = [
    np.array([1.5, 2]), np.array(["a"]), np.array([0]), 1.5, 8.0, float("nan"), float("inf"), True, "8", [8],
    0, -1, 10**30, {}, "",
]  # fmt: skip
NO_TEXTS: list[Any] = [8, "", " ", ["fp8"], b"fp8", {}, float("nan")]
NO_CHANGES: list[Any] = [
    5, "a=b", [("a", "b")], {5: "1ms"}, {"stack.step_time_s": ["1ms"]}, {"stack.step_time_s": True},
]  # fmt: skip
WRONG: list[tuple[dict[str, Any], str]] = [
    *(({name: value}, flag) for name, flag in COUNTS for value in NO_COUNTS),
    *(({name: np.array([1, 2])}, name) for name in ("tp", "pp", "cp")),
    *(({name: None}, name) for name in ("tp", "pp", "cp")),
    *(({"isl": value, "osl": 5}, "isl") for value in (-100, 0, 100.5, "100", False)),
    *(({name: value}, name) for name in ("weights", "kv", "engine", "library", "mode") for value in NO_TEXTS),
    *(({name: value}, name) for name in ("stack", "links") for value in NO_TEXTS),
    *(({"set": value}, "set") for value in NO_CHANGES),
    *(({"model": value}, "model") for value in (5, None, ["a"], "", "x" * 5000, "y/" + "x" * 5000)),
    *(({"on": value}, "on") for value in (5, None, ["h100-sxm"], "", "h100-sxm,h200-sxm")),
]


def load(model: Any = "llama-3.1-8b", on: Any = "h100-sxm", **choices: Any) -> nhalf.Scenario:  # noqa: ANN401
    return nhalf.load(model, on=on, **choices)


@pytest.mark.parametrize(("choices", "where"), WRONG, ids=lambda value: repr(value)[:40])
def test_a_value_of_the_wrong_type_or_range_is_one_short_error(choices: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        load(**choices)
    assert caught.value.where == where
    assert caught.value.allowed
    assert len(caught.value.what) < 200


@pytest.mark.parametrize("batch", [8, np.int64(8), np.array(8)])
def test_every_kind_of_whole_number_is_one(batch: Any) -> None:  # noqa: ANN401
    found = load(batch=batch)
    assert found.workload.batch == 8
    assert nhalf.decode(found).value == nhalf.decode(load(batch=8)).value


def test_arrays_of_a_batch_and_of_lengths_are_the_numbers_of_one_scenario() -> None:
    batch, isl = np.array([1, 16, 64]), np.array([512, 1024, 2048])
    found = nhalf.decode(load(batch=batch, isl=isl, osl=256)).value
    each = [nhalf.decode(load(batch=int(b), isl=int(n), osl=256)).value for b, n in zip(batch, isl, strict=True)]
    assert np.asarray(found) == pytest.approx(np.array(each), rel=1e-12)


def test_a_choice_of_none_is_the_default() -> None:
    assert nhalf.decode(load(context=None, weights=None, set=None)).value == nhalf.decode(load()).value


def test_a_plain_number_sets_an_input_without_a_unit() -> None:
    as_text = load(set={"stack.memory_efficiency": "0.5"})
    assert nhalf.decode(load(set={"stack.memory_efficiency": 0.5})).value == nhalf.decode(as_text).value


def test_a_path_will_do_for_a_model(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        load(tmp_path)

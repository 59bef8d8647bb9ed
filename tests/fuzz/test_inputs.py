"""Three thousand damaged files and odd options: each ends with an answer or one clear error, soon and in little memory.

The seeds are fixed. `make fuzz` tries a hundred thousand others.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.fuzz import inputs, trial
from tests.fuzz.campaign import tried
from tests.fuzz.mutation import damaged

from nhalf.cli import output

if TYPE_CHECKING:
    from pathlib import Path

PARTS, EACH = 12, 250


@pytest.mark.parametrize("part", range(PARTS))
def test_damaged_files_and_odd_options_end_well(part: int) -> None:
    found = tried(part, EACH)
    assert [(what, [word[:80] for word in given.arguments]) for what, given in found] == []


def test_an_input_is_the_same_whenever_its_seed_is() -> None:
    assert damaged(Random("a"), inputs.CASES) == damaged(Random("a"), inputs.CASES)
    assert inputs.option(Random(3)) == inputs.option(Random(3))


def test_every_kind_of_fault_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert trial.faults(["link", "5us", "400GB/s", "--json"]) == []
    monkeypatch.setattr(output, "write_json", lambda _: print('{"low_s": 3, "high_s": 2, "step_s": -1, "x": NaN}'))
    assert trial.faults(["link", "5us", "400GB/s", "--json"]) == ["JSON: NaN"]
    monkeypatch.setattr(output, "write_json", lambda _: print('{"low_s": 3, "high_s": 2, "step_s": -1}\x1b[2J'))
    wrong = trial.faults(["link", "5us", "400GB/s", "--json"])
    assert wrong[0] == "a control character: '\\x1b'"
    assert trial.nonsense('{"low_s": 3, "high_s": 2, "step_s": -1}') == [
        "/step_s is below zero: -1", ": low_s 3 is above high_s 2",
    ]  # fmt: skip

    def broken(_: object) -> None:
        raise ValueError

    monkeypatch.setattr(output, "write_json", broken)
    assert trial.faults(["link", "5us", "400GB/s", "--json"])[0].startswith("exit code 1: ")


def test_an_input_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(_: object) -> None:
        while True:
            pass

    monkeypatch.setattr(output, "write_json", endless)
    monkeypatch.setattr(trial, "LONGEST_S", 0.2)
    assert trial.faults(["link", "5us", "400GB/s", "--json"]) == ["more than 0 s"]

"""`nhalf compare`, and the load in users: numbers of decode, one screen, and what is refused."""

from __future__ import annotations

import shlex

import pytest
from tests.cli.command import invoke, refused

JOB = ("llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8")
LAYOUTS = ("tp=8", "tp=8 pp=2", "tp=4 replicas=4", "tp=16", "tp=8 engine=sglang", "tp=8 system=h200-sxm")


def flags(layout: str) -> list[str]:
    """Return a layout as flags of decode, which wins over those before it."""
    words = []
    for word in layout.split():
        key, _, value = word.partition("=")
        words += [{"system": "--on"}.get(key, f"--{key}"), value]
    return words


def test_every_number_is_that_of_decode_to_the_last_digit() -> None:
    asked = [word for layout in LAYOUTS for word in ("--layout", layout)]
    found = invoke("compare", *JOB, *asked, "--users", "9", "--json").document
    assert found["schema"] == "nhalf.compare/2"
    rows = {row["name"]: row for row in found["rows"]}
    assert len(rows) == len(LAYOUTS)
    for row, layout in zip(found["rows"], LAYOUTS, strict=True):
        own = flags(layout)
        base = JOB if "--on" not in own else ("llama-3.1-70b", "--weights", "fp8")
        [decoded] = invoke("decode", *base, *own, "--users", "9", "--json").document["rows"]
        shared = set(row) & set(decoded)
        assert {"step_s", "tpot_s", "low_s", "high_s", "batch", "tokens_per_s_per_user", "memory_bytes"} <= shared
        assert {key: row[key] for key in shared} == {key: decoded[key] for key in shared}
    assert len(found["pairs"]) == len(LAYOUTS) * (len(LAYOUTS) - 1) // 2
    for pair in found["pairs"]:
        assert pair["ratio"] == rows[pair["a"]]["tpot_s"] / rows[pair["b"]]["tpot_s"]
        assert pair["ratio_low"] < pair["ratio"] < pair["ratio_high"]
        assert (pair["odds_a_faster"] > 0.5) == (pair["ratio"] < 1) or abs(pair["ratio"] - 1) < 0.05


@pytest.mark.parametrize(
    "asked",
    [
        ("--layout", "tp=8", "--layout", "tp=16", "--users", "4"),
        [word for layout in (*LAYOUTS, "tp=4", "tp=1") for word in ("--layout", layout)],
        ("--tp", "4,8", "--batch", "16"),
    ],
)
def test_the_first_screen_is_of_twenty_lines_and_its_command_runs(asked: tuple[str, ...]) -> None:
    result = invoke("compare", *JOB, *asked, columns=80)
    assert result.code == 0, result.err
    assert len(result.out.splitlines()) <= 20
    assert max(map(len, result.out.splitlines())) <= 80
    command = result.out.rpartition("Next: ")[2].replace("\\\n", " ")
    words = shlex.split(command, comments=True)
    assert words[:2] == ["nhalf", "decode"]
    assert invoke(*words[1:]).code == 0


def test_the_faster_is_named_with_its_odds_and_the_load_at_which_it_flips() -> None:
    job = ("deepseek-v3", "--on", "h200-sxm", "--layout", "tp=8", "--layout", "attention-dp=8 ep=8")
    text = invoke("compare", *job, "--users", "64").out
    [pair] = invoke("compare", *job, "--users", "64", "--json").document["pairs"]
    assert text.startswith(f"TP8 is faster than TP1 DP8 EP8, in {100 * pair['odds_a_faster']:.0f} % of cases")
    assert f"TP1 DP8 EP8 is ahead from {pair['flips_at_users']} users on." in text
    later = invoke("compare", *job, "--users", str(pair["flips_at_users"])).out
    assert later.startswith(("TP1 DP8 EP8 is faster", "The model cannot tell TP1 DP8 EP8"))


def test_two_that_are_close_are_not_told_apart() -> None:
    out = invoke("compare", *JOB, "--layout", "tp=8", "--layout", "tp=8 pp=2", "--users", "2").out
    assert out.startswith("The model cannot tell TP8")


def test_what_does_not_fit_is_said_and_has_no_pair() -> None:
    job = ("compare", "llama-3.1-70b", "--on", "h100-sxm", "--layout", "tp=8", "--layout", "tp=1")
    result = invoke(*job)
    assert result.code == 3
    assert "No room in memory: TP1." in result.out
    assert invoke(*job, "--json").document["pairs"] == []


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--layout", "tp=8"), ["--layout", "2 to 8"]),
        (("--layout", "tq=8", "--layout", "tp=4"), ["tq", "KEY=VALUE"]),
        (("--layout", "tp=4,8", "--layout", "tp=4"), ["'8'"]),
        (("--layout", "tp=4 tp=8", "--layout", "tp=4"), ["twice"]),
        (("--layout", "tp=4", "--layout", "tp=4"), ["TP4", "twice"]),
        (("--layout", "", "--layout", "tp=4"), ["empty"]),
        (("--layout", "tp='4", "--layout", "tp=4"), ["--layout"]),
        (("--tp", "4,8", "--batch", "1,2"), ["one load"]),
        (("--tp", "4,8", "--batch", "1", "--users", "2"), ["--users and --batch"]),
        (("--tp", "4,8", "--users", "0"), ["--users"]),
    ],
)
def test_refusals(words: tuple[str, ...], parts: list[str]) -> None:
    message = refused("compare", *JOB, *words)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("command", ["decode", "buy"])
def test_users_are_the_batch_of_every_replica(command: str) -> None:
    job = (command, *JOB, "--tp", "4", "--replicas", "4", "--json")
    by_users, by_batch = (invoke(*job, *load).document for load in (("--users", "9"), ("--batch", "3")))
    rows = "rows" if command == "decode" else "options"
    assert by_users[rows] == by_batch[rows]


def test_a_saved_scenario_takes_users_anew(tmp_path: object) -> None:
    file = f"{tmp_path}/saved.toml"
    assert invoke("decode", *JOB, "--tp", "8", "--users", "5", "--save", file).code == 0
    assert [row["batch"] for row in invoke("decode", file, "--json").document["rows"]] == [5]
    assert [row["batch"] for row in invoke("decode", file, "--users", "6", "--json").document["rows"]] == [6]

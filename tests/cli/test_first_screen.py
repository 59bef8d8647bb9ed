"""The first screen of every command: 24 lines of 79 columns, and everything else under --detail."""

from __future__ import annotations

import pytest
from tests.cli.command import detailed, invoke, matches

from nhalf.report.view import LINES, MORE_LINES

LLAMA = ("llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8")
COMMANDS = {
    "plan": ("plan", *LLAMA, "--gpus", "16", "--tpot", "20ms"),
    "plan_experts": ("plan", "deepseek-v3", "--on", "h200-sxm", "--gpus", "16", "--isl", "4000", "--osl", "1000"),
    "buy": ("buy", *LLAMA, "--tp", "8,16", "--option", "nic=800Gb/s @ $1500/nic", "--option", "hbm=4.8TB/s"),
    "whatif": ("whatif", *LLAMA, "--tp", "16", "--batch", "1,16"),
    "compare": ("compare", *LLAMA, "--layout", "tp=8", "--layout", "tp=8 pp=2", "--layout", "tp=16", "--users", "4"),
    "plan_odds": ("plan", *LLAMA, "--tpot", "20ms", "--odds", "90%"),
    "collective": ("collective", "all-reduce", "--on", "h100-sxm", "--ranks", "8"),
    "crossover": ("crossover", "llama-3.1-70b", "--on", "h100-sxm"),
    "link": ("link", "5us", "400GB/s"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_screen_is_one_screen(name: str) -> None:
    result = invoke(*COMMANDS[name], columns=80)
    lines = result.out.splitlines()
    assert result.code == 0, result.err
    assert len(lines) <= LINES, len(lines)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("Next: nhalf ") for line in lines)
    assert len([line for line in lines if line.startswith("Assumed: ")]) <= 1
    assert matches(f"first_{name}_80", result.out)


@pytest.mark.parametrize("name", COMMANDS)
def test_detail_holds_more(name: str) -> None:
    brief, everything = invoke(*COMMANDS[name]).out, detailed(*COMMANDS[name]).out
    assert len(everything.splitlines()) > len(brief.splitlines())


def test_batches_side_by_side_take_some_lines_more() -> None:
    lines = invoke("decode", *LLAMA, "--tp", "1,2,4,8,16", "--batch", "1,16,128", columns=80).out.splitlines()
    assert len(lines) <= MORE_LINES

"""Shell completion: what a shell is offered, and the scripts that make it ask."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.cli.command import invoke, refused


def offered(line: str) -> list[str]:
    """Return what bash is offered for the last word of a line."""
    words = line.split(" ")
    given = {"_NHALF_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    found = subprocess.run(
        [sys.executable, "-c", "from nhalf.cli import main; main()"], env={**os.environ, **given},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert found.stderr == ""
    return found.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nhalf pl", ["plain,plan"]),
        ("nhalf plan --on h100-sxm-e", ["plain,h100-sxm-efa"]),
        ("nhalf decode x --on h100-sxm,gb200-n", ["plain,h100-sxm,gb200-nvl72"]),
        ("nhalf decode llama-3.1-4", ["plain,llama-3.1-405b"]),
        ("nhalf decode ./conf", ["file,./conf"]),
        ("nhalf fit --model qwen3-32b-f", ["plain,qwen3-32b-fp8"]),
        ("nhalf plan --goal la", ["plain,latency"]),
        ("nhalf simulate decode --on b300-sxm-", ["plain,b300-sxm-roce"]),
        ("nhalf plan --tpo", ["plain,--tpot"]),
    ],
)
def test_a_word_is_completed(line: str, expected: list[str]) -> None:
    assert offered(line) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.code == 0
    assert f"{shell}_complete" in result.out
    assert "_NHALF_COMPLETE" in result.out


def test_another_shell_is_refused_with_those_that_are_known() -> None:
    assert "bash, zsh, fish" in refused("completion", "tcsh")


def test_nothing_changes_where_no_shell_asks() -> None:
    assert invoke("link", "5us", "400GB/s", "--json").document["half_size_bytes"] == 2e6

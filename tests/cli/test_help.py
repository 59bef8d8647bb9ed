"""Help: the questions of a bare `nhalf`, `nhalf help COMMAND`, examples that run, and options in groups."""

from __future__ import annotations

import shlex

import pytest
from tests.cli.command import invoke

from nhalf.cli.group import COMMANDS
from nhalf.cli.help_pages import EXAMPLES, GROUPS
from nhalf.cli.welcome import QUESTIONS

RUN = [
    line
    for lines in EXAMPLES.values()
    for line in lines
    if line.startswith("nhalf ")
    and not any(
        part in line for part in (".csv", ".json", ".toml", ".log", ".txt", "/ ", "profiles/", "before/", "http:")
    )
    and not line.startswith(("nhalf measure", "nhalf app"))
]
"""Examples that need no file of the user's."""


def test_a_bare_nhalf_shows_the_questions_that_people_come_with() -> None:
    result = invoke(columns=80)
    assert result.code == 0
    for question, command in QUESTIONS:
        assert question in result.out
        assert command in result.out
    assert len(result.out.splitlines()) <= 24
    for name in COMMANDS:
        assert name == "completion" or f" {name}" in result.out, name


def test_help_takes_the_name_of_a_command() -> None:
    assert invoke("help", "plan").out == invoke("plan", "--help").out
    assert invoke("help").out == invoke("--help").out


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("simulate", "completion")])
def test_each_help_has_two_examples_and_ends_with_the_rare_options(name: str) -> None:
    text = invoke(name, "--help").out
    assert len(EXAMPLES[name]) == 2
    for line in EXAMPLES[name]:
        assert line in text
    heads = [line.removesuffix(":") for line in text.splitlines() if line.removesuffix(":") in (*GROUPS, "Rare")]
    assert heads == [head for head in (*GROUPS, "Rare") if head in heads]


@pytest.mark.parametrize("line", RUN)
def test_examples_run(line: str) -> None:
    assert invoke(*shlex.split(line)[1:]).code == 0


def test_there_are_examples_to_run() -> None:
    assert len(RUN) > 15

"""Every option of the commands about scenarios is read: what it cannot mean is refused, whatever else is said."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from tests.cli.command import invoke, refused

from nhalf.loading.golden import SERVING

if TYPE_CHECKING:
    from collections.abc import Iterator

JOB = ("llama-3.1-8b", "--on", "h100-sxm")
COMMANDS = {
    **dict.fromkeys(("decode", "plan", "buy", "whatif", "crossover"), JOB),
    "sweep": (*JOB, "--axis", "batch=1,2"),
    **dict.fromkeys(("predict", "validate", "calibrate"), ("runs.csv",)),
    "fit": ("plain.csv",),
}
FILES = ("--save", "--output")
"""Options that name a file to write: any text is a name, and a folder that is not there is refused."""
BAD = ("garbage", "", "-5", "\u0663", "1e-400", "9223372036854775808")
"""A word, nothing, a negative number, digits of another alphabet, a number that is too small and one that is too
large."""


def options(name: str) -> Iterator[str]:
    """Yield the options of a command that take a value."""
    command = getattr(import_module(f"nhalf.cli.{name}"), name)
    for param in command.params:
        if isinstance(param, click.Option) and not param.is_flag:
            yield max(param.opts, key=len)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a table of runs and a log."""
    made = tmp_path_factory.mktemp("options")
    lines = SERVING.read_text().splitlines(keepends=True)
    (made / "runs.csv").write_text("".join(lines[:40]))
    shutil.copy(Path(__file__).parents[1] / "logs" / "csv" / "plain.csv", made / "plain.csv")
    return made


@pytest.mark.parametrize(("command", "option"), [(name, option) for name in COMMANDS for option in options(name)])
def test_what_an_option_cannot_mean_is_refused(
    command: str, option: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = list(COMMANDS[command])
    if option in words:
        at = words.index(option)
        del words[at : at + 2]
    if option in FILES:
        assert invoke(command, *words, option, "no/such/folder/x.csv").code == 2
        return
    for bad in BAD:
        assert "internal error" not in refused(command, *words, option, bad)


@pytest.mark.parametrize(
    ("job", "parts"),
    [
        (("decode", *JOB, "--cp", "1000000000"), ["--cp", "1 to 1024"]),
        (("decode", *JOB, "--cp", "1000000000", "--context", "999999999999"), ["--cp", "65,536"]),
        (("sweep", *JOB, "--cp", "8", "--axis", "context=4,4096"), ["--cp", "1 to 4"]),
        (("plan", *JOB, "--replicas", "2"), ["No such option"]),
        (("plan", *JOB, "--cp-exchange", "ring"), ["No such option"]),
        (("fit", "plain.csv", "--nodes", "1000000000", "--ranks", "8"), ["--nodes", "1 to 8"]),
        (("fit", "plain.csv", "--batch", "8"), ["--batch", "--model"]),
        (("calibrate", "runs.csv", "--tp", "9223372036854775808"), ["--tp", "1 to 65,536"]),
        (("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm", "--reduce-at", "1e-300GB/s"), ["too small"]),
        (("topo", "x", "--pcie", "\u0663"), ["--pcie", "whole number"]),
    ],
)
def test_degrees_counts_and_rates_have_a_ceiling_or_a_floor(
    job: tuple[str, ...], parts: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    message = refused(*job)
    for part in parts:
        assert part in message


def test_a_point_whose_context_is_split_too_often_keeps_its_row_with_the_reason() -> None:
    rows = invoke("sweep", *JOB, "--axis", "cp=1,2,8", "--axis", "context=4,4096", "-o", "-").out.splitlines()
    assert [("is more than" in row) for row in rows[1:]] == [False, False, False, False, True, True]


@pytest.mark.parametrize("text", ["p90>=400%", "P90 > 4", "latency>=1s"])
def test_limits_are_of_one_grammar(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    command, file = ("fit", "plain.csv") if "latency" in text else ("validate", "runs.csv")
    result = invoke(command, file, "--fail-if", text)
    assert result.code == (2 if text == "P90 > 4" else 0)
    assert ("400 %" in result.err) == (result.code == 2)

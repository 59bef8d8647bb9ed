"""The command line as a process: help, streams, encodings, and what it does not load."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nhalf", *arguments],
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_help_lists_every_command() -> None:
    result = process("--help")
    assert result.returncode == 0
    for command in ("link", "decode", "catalog"):
        assert f"  {command} " in result.stdout


def test_version() -> None:
    assert process("--version").stdout.startswith("nhalf 0.")


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (("--help",), ("numpy", "rich", "msgspec", "scipy")),
        (("decode", "qwen3-8b", "--on", "h100-sxm"), ("scipy", "polars", "altair", "numba", "torch", "pandas")),
    ],
)
def test_nothing_heavy_is_loaded(arguments: tuple[str, ...], absent: tuple[str, ...]) -> None:
    code = (
        "import sys; from nhalf.cli import run; code = run(sys.argv[1:]);"
        "sys.stderr.write(' '.join(sorted({name.split('.')[0] for name in sys.modules}))); sys.exit(code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, encoding="utf-8", check=False
    )
    assert result.returncode == 0
    assert not set(absent) & set(result.stderr.split())


def test_an_ascii_terminal_gets_ascii() -> None:
    result = process("decode", "qwen3-8b", "--on", "h100-sxm", "--tp", "1,2", PYTHONIOENCODING="ascii")
    assert result.returncode == 0
    assert result.stdout.isascii()


def test_output_that_is_piped_has_no_colour() -> None:
    assert "\x1b" not in process("decode", "qwen3-8b", "--on", "h100-sxm").stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"'{sys.executable}' -m nhalf decode qwen3-8b --on h100-sxm --json | head -n 1"
    result = subprocess.run(command, shell=True, capture_output=True, encoding="utf-8", check=False)  # noqa: S602
    assert result.stdout.strip() == "{"
    assert result.stderr == ""


def test_a_reader_that_was_never_there_is_no_failure() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "nhalf", "decode", "qwen3-8b", "--on", "h100-sxm"],
            stdout=write, stderr=subprocess.PIPE, encoding="utf-8", check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert result.returncode == 0
    assert result.stderr == ""

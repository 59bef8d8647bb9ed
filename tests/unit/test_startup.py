"""What a command loads before it answers: a link is two numbers, and needs neither NumPy nor the catalogue."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MOST_FOR_A_LINK = 50
LIST = """
import contextlib, io, json, sys
from nhalf.cli import run
with contextlib.redirect_stdout(io.StringIO()) as page:
    code = run(sys.argv[1:])
json.dump([code, page.getvalue(), sorted(sys.modules)], sys.stdout)
"""
"""A program that runs a command and lists what was loaded."""


def loaded(*arguments: str) -> set[str]:
    """Return the modules that a command has loaded when it has answered, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", LIST, *arguments], capture_output=True, text=True, check=True)
    code, page, modules = json.loads(done.stdout)
    assert code == 0
    assert page
    return set(modules)


def rooms_of(modules: set[str]) -> set[str]:
    """Return the rooms of nhalf among modules."""
    return {name.split(".")[1] for name in modules if name.startswith("nhalf.")}


@pytest.mark.parametrize("arguments", [(), ("--size", "16KiB"), ("--detail",)])
def test_a_link_of_two_quantities_loads_neither_numpy_nor_the_catalogue(arguments: tuple[str, ...]) -> None:
    modules = loaded("link", "5us", "400GB/s", *arguments)
    own = {name for name in modules if name.split(".")[0] == "nhalf"}
    assert len(own) <= MOST_FOR_A_LINK, sorted(own)
    assert "numpy" not in modules
    assert not {"catalog", "predict", "transformer", "scenario"} & rooms_of(modules)


def test_help_loads_no_room_but_its_own() -> None:
    modules = loaded("--help")
    assert not {"numpy", "rich", "msgspec"} & modules
    assert rooms_of(modules) <= {"cli", "errors", "printable", "version"}


def test_a_decode_loads_nothing_heavy() -> None:
    modules = loaded("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8")
    heavy = {"scipy", "altair", "polars", "numba", "jinja2", "dask", "torch", "secrets", "shutil"}
    assert not heavy & {name.split(".")[0] for name in modules}
    assert not {"simulate", "evidence", "trace", "calibrate"} & rooms_of(modules)

"""What a command loads before it answers: a link is two numbers, and needs neither NumPy nor the catalogue."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from nhalf.catalog import compiled

if TYPE_CHECKING:
    from pathlib import Path

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


def test_files_of_the_catalogue_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_FOLDER", tmp_path / "kept")
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    file, parsed = tmp_path / "a.toml", list[str]()

    def tables() -> dict[str, object]:
        def parse() -> dict[str, object]:
            parsed.append(file.read_text("utf-8"))
            return tomllib.loads(parsed[-1])

        return compiled.tables(file, "x/a.toml", parse)

    file.write_text("a = 1\n[b]\nc = [1.5, 'x']\n", encoding="utf-8")
    assert tables() == tables() == {"a": 1, "b": {"c": [1.5, "x"]}}
    assert len(parsed) == 1
    file.write_text("a = 20\n", encoding="utf-8")
    assert tables() == {"a": 20}
    [kept] = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:9])  # damaged: it is made anew
    assert tables() == tables() == {"a": 20}
    assert len(parsed) == 3
    file.write_text("a = 1979-05-27\n", encoding="utf-8")  # a date cannot be kept
    assert tables() == tables() == {"a": dt.date(1979, 5, 27)}
    assert len(parsed) == 5


def test_nothing_is_kept_where_nothing_may_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.toml"
    file.write_text("a = 1\n", encoding="utf-8")
    monkeypatch.setattr(compiled, "_FOLDER", file / "no folder")
    assert compiled.tables(file, "a.toml", lambda: {"a": 1}) == {"a": 1}
    monkeypatch.setattr(compiled, "_FOLDER", tmp_path / "kept")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    assert compiled.tables(file, "a.toml", lambda: {"a": 1}) == {"a": 1}
    assert not (tmp_path / "kept").exists()

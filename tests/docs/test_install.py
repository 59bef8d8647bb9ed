"""The ways of installing that the README names, each into an environment of its own, away from the repository.

They take what nhalf depends on from a package index: without one, or without the tool, they skip and say so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip")
VENV = (sys.executable, "-m", "venv", "--without-pip")
NETWORK = re.compile(r"timed? ?out|[Cc]onnection|[Tt]emporary failure|Could not fetch|Failed to fetch|50\d")
FOLDERS = {"PIPX_HOME": "pipx", "PIPX_BIN_DIR": "bin", "UV_TOOL_DIR": "uv", "UV_TOOL_BIN_DIR": "bin",
           "UV_CACHE_DIR": "kept"}  # fmt: skip


def done(*command: str, into: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder where nothing of the repository is, with every tool's own folders below it."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    folders = {name: str(into / folder) for name, folder in FOLDERS.items()}
    own = {**kept, **folders, "PIP_REQUIRE_VIRTUALENV": "1"}  # a mistake here fails: it installs nowhere else
    return subprocess.run(command, cwd=into, env=own, capture_output=True, text=True, check=False)


def pip(into: Path) -> tuple[str, ...]:
    """Make a wheel and a clean environment, and return what installs the one into the other."""
    for command in ((*PIP, "wheel", "--no-deps", "-w", "made", str(ROOT)), (*VENV, "clean")):
        made = done(*command, into=into)
        assert made.returncode == 0, made.stderr
    (into / "bin").symlink_to(into / "clean" / "bin")
    return *PIP, "--python", "clean/bin/python", "install", "--no-compile", *map(str, into.glob("made/*.whl"))


def pipx(into: Path) -> tuple[str, ...]:
    """Return what installs by pipx."""
    del into
    return "pipx", "install", "--python", sys.executable, str(ROOT)


def uv(into: Path) -> tuple[str, ...]:
    """Return what installs by uv."""
    del into
    return "uv", "tool", "install", "--python", sys.executable, str(ROOT)


def lacking(tool: str, into: Path) -> str:
    """Return why a tool cannot install here, nothing where it can."""
    if tool != "pip" and shutil.which(tool) is None:
        return f"no {tool} here: pip install {tool}"
    look = ("uv", "pip", "install") if tool == "uv" else (*PIP, "install", "--retries", "0", "--timeout", "9")
    found = done(*look, "--dry-run", "--no-deps", "--target", "looked", "hatchling", into=into)
    return f"{tool} reaches no package index" if found.returncode else ""


WAYS = {"pip": pip, "pipx": pipx, "uv": uv}


@pytest.mark.parametrize("tool", WAYS)
def test_an_installed_command_answers(tool: str, tmp_path: Path) -> None:
    why = lacking(tool, tmp_path)
    if why:
        pytest.skip(why)
    installed = done(*WAYS[tool](tmp_path), into=tmp_path)
    if installed.returncode and NETWORK.search(installed.stderr):
        pytest.skip(f"{tool} lost the package index on the way")
    assert installed.returncode == 0, installed.stderr
    nhalf = str(tmp_path / "bin" / "nhalf")
    link = done(nhalf, "link", "5us", "400GB/s", "--json", into=tmp_path)
    assert json.loads(link.stdout)["schema"] == "nhalf.link/2", link.stderr
    decode = done(nhalf, "decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", into=tmp_path)
    assert decode.stdout.startswith("TP8 takes "), decode.stderr

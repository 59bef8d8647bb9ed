"""Run the command line inside the test process, and compare what it prints with a snapshot."""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from nhalf.cli import run

SNAPSHOTS = Path(__file__).parent / "snapshots"


@dataclass(frozen=True)
class Result:
    """What a command did: its exit code and what it wrote to each stream."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401  JSON is whatever it is
        return json.loads(self.out)


def invoke(*arguments: str, columns: int = 100) -> Result:
    out, err = io.StringIO(), io.StringIO()
    environment = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        # StringIO has no encoding; the pages of a terminal that has one are tested in a process of their own.
        code = run(list(arguments))
    return Result(code, out.getvalue(), err.getvalue())


def detailed(*arguments: str, columns: int = 100) -> Result:
    """Return what a command does with --detail: everything, where its answer is of one screen else."""
    return invoke(*arguments, "--detail", columns=columns)


def matches(name: str, text: str) -> bool:
    """Return whether a text is the stored one; NHALF_UPDATE_SNAPSHOTS=1 stores it instead."""
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("NHALF_UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    stored = path.read_text(encoding="utf-8")
    assert text == stored, f"{path.name} differs; look at the change, then run with NHALF_UPDATE_SNAPSHOTS=1"
    return True


def refused(*arguments: str, code: int = 2) -> str:
    """Return the one message of a command that must fail with a code, with nothing on standard output."""
    result = invoke(*arguments)
    assert result.code == code, (result.code, result.out, result.err)
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1, result.err
    return result.err

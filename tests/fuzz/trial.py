"""One trial: a command run in this process, and what is wrong with how it ended, if anything."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import re
import resource
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from functools import cache
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn
from unittest import mock

from nhalf.app.server import Settings, application
from nhalf.cli import run
from nhalf.cli.asking import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_S = 20.0
"""Processor time that any input may take [s]."""
MOST_BYTES = 500 * 2**20
"""Memory by which any input may raise the peak of the process [bytes]."""
_KINDS = (0, 2, 3, 4)
_OK, _REFUSED = 200, (400, 404, 405, 413, 414)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LONGEST_MESSAGE = 4000
_SIGNED = (
    "gain", "offset", "difference", "bias", "elastic", "saved", "cost_s", "low", "error", "excess", "skew_s", "shift",
    "change", "begin", "start", "clock", "drift", "high", "value", "split[]/time_s",
)  # fmt: skip
"""Words of fields that may be below zero."""
_ORDERED = (("low_s", "high_s"), ("low", "high"), ("gain_low", "gain_high"), ("ttft_low_s", "ttft_high_s"))


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code, what it wrote, and its processor time [s]."""

    code: int
    out: str
    err: str
    taken_s: float


class OvertimeError(BaseException):
    """The processor time is up; no handler of exceptions may catch it."""


def _over(_number: int, _frame: FrameType | None) -> NoReturn:
    raise OvertimeError


def ended(arguments: Sequence[str], given: bytes = b"") -> Ending:
    """Run a command with some standard input, for no longer than any may take."""
    out, err = io.StringIO(), io.StringIO()
    stdin = SimpleNamespace(buffer=io.BytesIO(given), isatty=lambda: False)
    before = time.process_time()
    usual = signal.signal(signal.SIGPROF, _over)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        with (
            contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch("sys.stdin", stdin),
            warnings.catch_warnings(),
        ):  # fmt: skip
            warnings.simplefilter("error", RuntimeWarning)  # a warning of NumPy is an answer that rests on no number
            code = visited(*arguments[1:4], body=given) if arguments[0] == "app" else run(list(arguments))
    except OvertimeError:
        code = -1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, usual)
    return Ending(code, out.getvalue(), err.getvalue(), time.process_time() - before)


@cache
def _app() -> Any:  # noqa: ANN401  an ASGI application
    return application(Settings(ask=ask))


def visited(method: str, path: str, query: str, *, body: bytes) -> int:
    """Ask the app as a browser does, print what it answers, and return the exit code that its status stands for."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query.encode(),
        "headers": [(b"host", b"localhost:8000")], "server": ("localhost", 8000), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    status, answer = 0, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, answer
        status, answer = message.get("status", status), answer + message.get("body", b"")

    asyncio.run(_app()(scope, receive, send))
    print(answer.decode(), file=sys.stdout if status == _OK else sys.stderr)
    if status not in (_OK, *_REFUSED):
        return 1
    return 0 if status == _OK else 2


def faults(arguments: Sequence[str], given: bytes = b"") -> list[str]:
    """Return what is wrong with how a command ends."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ending = ended(arguments, given)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak)
    found = []
    if ending.code == -1:
        found.append(f"more than {LONGEST_S:.0f} s")
    elif ending.code not in _KINDS:
        found.append(f"exit code {ending.code}: {ending.err[-300:]!r}")
    if grown > MOST_BYTES:
        found.append(f"{grown / 2**20:.0f} MiB of memory")
    if control := _CONTROL.search(ending.out + ending.err):
        found.append(f"a control character: {control[0]!r}")
    if ending.code in _KINDS[1:] and not ending.err.strip():
        found.append("no message")
    if ending.code in _KINDS[1:] and len(ending.err) > _LONGEST_MESSAGE:
        found.append(f"a message of {len(ending.err)} letters")
    if ending.code == 0 and "--json" in arguments and ending.out.strip():
        found += nonsense(ending.out)
    return found


def nonsense(text: str) -> list[str]:
    """Return what in a JSON answer cannot be: no number, a time below zero, a band whose ends are swapped."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    try:
        document = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return [f"JSON: {error}"]
    return list(_walk(document, ""))


def _walk(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _impossible(value, path)
        for name, inner in value.items():
            yield from _walk(inner, f"{path}/{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from _walk(inner, f"{path}[]")


def _impossible(table: dict[str, object], path: str) -> Iterator[str]:
    numbers = {
        name: value for name, value in table.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    for name, value in numbers.items():
        if not math.isfinite(value):
            yield f"{path}/{name} is {value}"
        if value < 0 and not any(word in f"{path}/{name}" for word in _SIGNED):
            yield f"{path}/{name} is below zero: {value}"
    for low, high in _ORDERED:
        if low in numbers and high in numbers and numbers[low] > numbers[high]:
            yield f"{path}: {low} {numbers[low]} is above {high} {numbers[high]}"

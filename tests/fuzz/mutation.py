"""Damage: a file as a stranger, a full disk or a bad cable may send it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

NUMBERS = (
    b"0", b"-1", b"nan", b"inf", b"Infinity", b"-Infinity", b"1e400", b"1e-400", b"9" * 400, b"9" * 5000, b"1e308",
    b"-0.0", b"1e18", b"123456789012345678901", b'""', b"null", b"true", b"[]", b"{}", b'"x"', b"0x1F", b"1,5", b"1_0",
    b".5", b"5.", b"--5", b"1e", "½".encode(), "٣".encode(), b"1e400 MB", b"99999999999999999999", b"1e30",
)  # fmt: skip
TEXTS = (*NUMBERS, b'"<script>alert(1)</script>"', b'"../../x"', b'"\\u0000"', b'"\\ud800"', b'"\\u001b]0;x\\u0007"')
LUMPS = (
    b"[" * 20_000, b'{"a":' * 3000, b"(" * 20_000, b"a" * 100_000, b"0" * 100_000, b" " * 100_000, b"=" * 50_000,
    b"a." * 5000, b"\x00" * 1000, b"\x1b[2J\x1b]0;pwn\x07", "\u202e\u200b".encode(), b"},{" * 5000, b"\xff" * 100,
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eE][+-]?\d+)?")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_KEY = re.compile(rb'"(\w+)"\s*:|^(\w+)\s*=', re.MULTILINE)
_TOKEN = re.compile(rb"\S+")
_LOOK = 100_000


def _replaced(random: Random, data: bytes, pattern: re.Pattern[bytes], others: tuple[bytes, ...]) -> bytes:
    for _ in range(random.choice((1, 1, 1, 3))):
        found = list(pattern.finditer(data[:_LOOK]))
        if not found:
            break
        one = random.choice(found)
        data = data[: one.start()] + random.choice(others) + data[one.end() :]
    return data


def _numbers(random: Random, data: bytes) -> bytes:
    return _replaced(random, data, _NUMBER, NUMBERS)


def _strings(random: Random, data: bytes) -> bytes:
    return _replaced(random, data, _STRING, TEXTS)


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _flipped(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 3, 30))):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _lines(random: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    one = random.randrange(len(lines))
    kind = random.randrange(3)
    if kind == 0:
        lines[one : one + 1] = []
    elif kind == 1:
        lines[one : one + 1] = [lines[one]] * random.choice((2, 100))
    else:
        random.shuffle(lines)
    return b"\n".join(lines)


def _spelled(random: Random, data: bytes) -> bytes:
    old, new = random.choice(((b"\n", b"\r\n"), (b"\n", b"\r"), (b" ", b"\t"), (b",", b";"), (b"\n", b"")))
    return data.replace(old, new)


def _encoded(random: Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(random.choice(("utf-16", "utf-32", "utf-16-be", "utf-8-sig")))


def _lumped(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(LUMPS) + data[at:]


def _swapped(random: Random, data: bytes) -> bytes:
    tokens = _TOKEN.findall(data[:_LOOK])
    if not tokens:
        return data
    return data.replace(random.choice(tokens), random.choice(tokens), random.choice((1, -1)))


def _renamed(random: Random, data: bytes) -> bytes:
    keys = [one or other for one, other in _KEY.findall(data[:_LOOK])]
    return data.replace(random.choice(keys), random.choice((b"", b"x", random.choice(keys)))) if keys else data


def _longer(random: Random, data: bytes) -> bytes:
    return data + random.choice((data, random.randbytes(200), data[: len(data) // 2]))


_WAYS: tuple[Callable[[Random, bytes], bytes], ...] = (
    _numbers, _numbers, _numbers, _strings, _cut, _flipped, _lines, _spelled, _encoded, _lumped, _swapped, _renamed,
    _longer,
)  # fmt: skip


def damaged(random: Random, data: bytes) -> bytes:
    """Return a file with one or two kinds of damage."""
    for _ in range(random.choice((1, 1, 2))):
        data = random.choice(_WAYS)(random, data)
    return data

"""Read the JSON form of perftest (`--out_json`); one file holds one size, unless several were joined.

Source, by description: linux-rdma/perftest, src/perftest_resources.c. A bandwidth is in the unit of the command and
is not in the file, so only the message rate is used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nhalf.evidence.readers.columns import note
from nhalf.evidence.readers.json_text import array, dictionary, number, objects
from nhalf.evidence.readers.numerals import MICROSECOND
from nhalf.evidence.readers.perftest import MILLION, TITLE, Test, titled
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Point, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line
    from nhalf.evidence.table import Table

_HALF_A_STEP = 0.005  # of a time printed with two decimals


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    tests: dict[str, Test] = {}
    found, problem = objects(lines)
    for one in found:
        info = dictionary(one.get("test_info"))
        title = str(info.get("test", ""))
        test = tests.setdefault(title, _empty(source, title))
        test.device = str(info.get("Device", "")) or test.device
        results = one.get("results")
        for result in array(results) or [dictionary(results)]:
            _take(test, dictionary(result))
    if problem:
        tests.setdefault("", Test(source=source)).skipped.append(Skipped(file=source, line=0, why=problem))
    for test in tests.values():
        test.points.sort(key=lambda point: point.size_bytes)
        if len(test.points) == 1:
            test.notes.append(note("one-size", "a JSON file holds one size"))
    return [test.table() for test in tests.values() if test.points or test.skipped]


def _empty(source: str, title: str) -> Test:
    found = TITLE.search(title)
    return titled(source, found) if found else Test(source=source)


def _take(test: Test, result: dict[str, Any]) -> None:
    size = number(result.get("MsgSize"))
    rate = number(result.get("MsgRate"))
    time = number(result.get("t_typical")) or number(result.get("t_avg"))
    seconds = time * MICROSECOND if time else None
    if not seconds and rate:
        test.bandwidth = True
        seconds = (2.0 if test.bidirectional else 1.0) / (rate * MILLION)
    if not size or not seconds or seconds < 0.0:
        why = "a result without a size, or without a time or message rate above 0"
        test.skipped.append(Skipped(file=test.source, line=0, why=why))
        return
    test.points.append(
        Point(
            size_bytes=size,
            seconds=seconds,
            min_s=_seconds(result.get("t_min")),
            max_s=_seconds(result.get("t_max")),
            low_s=_moved(time, -_HALF_A_STEP),
            high_s=_moved(time, _HALF_A_STEP),
        )
    )


def _moved(time: float | None, by: float) -> float | None:
    """Return an end of the interval of a printed time [s], or None where it reaches 0."""
    return (time + by) * MICROSECOND if time and time + by > 0.0 else None


def _seconds(value: object) -> float | None:
    time = number(value)
    return time * MICROSECOND if time is not None and time > 0.0 else None


READER = Format(
    name="perftest-json",
    words=('"MsgSize"', '"test_info"'),
    signs=((re.compile(r'"MsgSize"\s*:'), 1.0), (re.compile(r'"test_info"\s*:\s*\{'), 0.6)),
    parse=_parse,
    whole=True,
)

"""The result block that vLLM's and SGLang's serving benchmarks print."""

from __future__ import annotations

import re
from itertools import pairwise

from nhalf.engines import of_backend
from nhalf.evidence.readers.numerals import real
from nhalf.loading.bench.numbers import cell, drafted, in_flight, per_request, per_token

_START = "Serving Benchmark Result"
_LINE = re.compile(r"[#>\s]*(?P<name>[A-Za-z0-9 ()/.%]+?):\s+(?P<value>[-+0-9.,einfa]+|[a-z-]+)\s*")
_CONCURRENCY = re.compile(r"[Mm]ax(?:imum)? request concurrency:\s*([0-9]+)")


def rows(text: str) -> list[dict[str, str]]:
    """Return every block in a text as a run; the concurrency may be printed before its block."""
    parts = text.split(_START)
    found = []
    for before, inside in pairwise(parts):
        told = {m["name"].strip().lower(): m["value"] for m in map(_LINE.fullmatch, inside.splitlines()) if m}
        announced = _CONCURRENCY.findall(inside.split("----")[0]) or _CONCURRENCY.findall(before)
        row = _row(told, announced[-1] if announced else "")
        if row["tpot_s"]:
            found.append(row)
    return found


def _row(told: dict[str, str], concurrency: str) -> dict[str, str]:
    """Return the run of a block."""

    def number(name: str) -> float | None:
        return real(told.get(name, ""))

    def time(name: str, ways: tuple[str, ...] = ("median", "mean")) -> float | None:
        return next(filter(None, (number(f"{way} {name} (ms)") for way in ways)), None)

    requests, means = number("successful requests"), ("mean",)
    row = {
        "engine": of_backend(told.get("backend", "")),
        "isl": per_request(number("total input tokens"), requests),
        "osl": per_request(number("total generated tokens"), requests),
        "ttft_s": cell(time("ttft"), 1e-3),
    }
    draft = drafted(number("acceptance length") or number("accept length"), number("drafts"), number("draft tokens"))
    # The mean step is the mean time of a token times the mean of those kept; a chunk of a draft is no token.
    ways = means if draft else ("median", "mean")
    whole = time("e2el", means) or time("e2e latency", means)
    tpot = time("tpot", ways) or per_token(
        whole, time("ttft", means), row["osl"], None if draft else time("itl", means)
    )
    row |= {"tpot_s": cell(tpot, 1e-3), **draft}
    row["concurrency"] = concurrency or cell(number("concurrency"))
    return row if row["concurrency"] else {**row, **in_flight(row, number("request throughput (req/s)"))}

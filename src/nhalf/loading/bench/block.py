"""The result block that vLLM's and SGLang's serving benchmarks print."""

from __future__ import annotations

import re
from itertools import pairwise

from nhalf.engines import of_backend
from nhalf.loading.bench.numbers import cell, in_flight, per_request

_START = "Serving Benchmark Result"
_LINE = re.compile(r"[#\s]*(?P<name>[A-Za-z0-9 ()/.]+?):\s+(?P<value>[-+0-9.einfa]+|[a-z-]+)\s*")
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
        try:
            return float(told[name])
        except (KeyError, ValueError):
            return None

    requests = number("successful requests")
    row = {
        "engine": of_backend(told.get("backend", "")),
        "isl": per_request(number("total input tokens"), requests),
        "osl": per_request(number("total generated tokens"), requests),
        "tpot_s": cell(number("median tpot (ms)") or number("mean tpot (ms)"), 1e-3),
        "ttft_s": cell(number("median ttft (ms)") or number("mean ttft (ms)"), 1e-3),
    }
    accepted = number("accept length")
    if accepted is not None and accepted > 1:
        row["accepted_tokens"] = row["tokens_per_step"] = cell(accepted)
    row["concurrency"] = concurrency or cell(number("concurrency"))
    return row if row["concurrency"] else {**row, **in_flight(row, number("request throughput (req/s)"))}

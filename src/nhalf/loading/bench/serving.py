"""JSON of `vllm bench serve --save-result` and JSON lines of `sglang.bench_serving --output-file`."""

from __future__ import annotations

from typing import Any

from nhalf.engines import of_backend
from nhalf.loading.bench.numbers import cell, in_flight, parsed, per_request


def rows(text: str) -> list[dict[str, str]]:
    """Return the runs in a text; none where it is of another format."""
    found = []
    for result in _results(text):
        if "completed" not in result or not ({"median_tpot_ms", "mean_tpot_ms"} & set(result)):
            continue
        found.append(_row(result))
    return found


def _results(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text: one, a list, or one a line."""
    whole = parsed(text)
    if whole is None:
        whole = [parsed(line) for line in text.splitlines() if line.strip()]
        if None in whole:
            return []
    return [result for result in (whole if isinstance(whole, list) else [whole]) if isinstance(result, dict)]


def _row(result: dict[str, Any]) -> dict[str, str]:
    """Return one run: medians, because a mean holds the start of the burst."""
    backend = str(result.get("backend") or result.get("endpoint_type") or "")
    row = {
        "model": str(result.get("model_id") or result.get("model") or ""),
        "engine": of_backend(backend),
        "isl": per_request(result.get("total_input_tokens"), result["completed"]),
        "osl": per_request(result.get("total_output_tokens"), result["completed"]),
        "tpot_s": cell(result.get("median_tpot_ms", result.get("mean_tpot_ms")), 1e-3),
        "ttft_s": cell(result.get("median_ttft_ms", result.get("mean_ttft_ms")), 1e-3),
        "accepted_tokens": "",
    }
    accepted = result.get("accept_length")
    if isinstance(accepted, int | float) and accepted > 1:
        row["accepted_tokens"] = row["tokens_per_step"] = cell(accepted)
    if not result["completed"]:
        row |= {"tpot_s": "", "quality_flag": "no request was completed"}
    row["concurrency"] = cell(result.get("max_concurrency")) or cell(result.get("concurrency"))
    return row if row["concurrency"] else {**row, **in_flight(row, result.get("request_throughput"))}

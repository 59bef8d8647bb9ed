"""JSON of `vllm bench serve --save-result` and JSON lines of `sglang.bench_serving --output-file`."""

from __future__ import annotations

from typing import Any

from nhalf.engines import of_backend
from nhalf.loading.bench.numbers import cell, documents, drafted, in_flight, per_request


def rows(text: str) -> list[dict[str, str]]:
    """Return the runs in a text; none where it is of another format."""
    found = []
    for result in documents(text):
        if "completed" not in result or not ({"median_tpot_ms", "mean_tpot_ms"} & set(result)):
            continue
        found.append(_row(result))
    return found


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
    if draft := drafted(
        result.get("spec_decode_acceptance_length") or result.get("accept_length"),
        result.get("spec_decode_num_drafts"), result.get("spec_decode_draft_tokens"),
    ):  # fmt: skip
        # The mean step is the mean time of a token times the mean of those kept.
        row |= {"tpot_s": cell(result.get("mean_tpot_ms", result.get("median_tpot_ms")), 1e-3), **draft}
    if not result["completed"]:
        row |= {"tpot_s": "", "quality_flag": "no request was completed"}
    row["concurrency"] = cell(result.get("max_concurrency")) or cell(result.get("concurrency"))
    return row if row["concurrency"] else {**row, **in_flight(row, result.get("request_throughput"))}

"""Results of serving benchmarks: what each tool prints becomes a row, and a run that drafts is no plain one."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from nhalf.errors import InputError
from nhalf.loading import bench

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = """============ Serving Benchmark Result ============
Backend:                                 sglang
Max request concurrency:                 16
Successful requests:                     64
Total input tokens:                      65536
Total generated tokens:                  16384
"""
E2E = "Mean E2E Latency (ms):                   2951.10\nMean TTFT (ms):                          95.10\n"
ITL = "Mean ITL (ms):                           {}\n"
TPOT = "Mean TPOT (ms):                          11.20\nMedian TPOT (ms):                        11.09\n"
DRAFT = "Acceptance length:                       2.84\nDrafts: 5800\nDraft tokens: 17400\n"
LLAMA = {"gpu_info": "NVIDIA A, NVIDIA A", "backends": "CUDA", "model_type": "llama 70B Q8_0", "split_mode": "layer",
         "n_prompt": 0, "n_gen": 128, "n_depth": 512, "avg_ts": 20.0}  # fmt: skip
MARKDOWN = """| model | size | params | backend | ngl | sm | fa | test | t/s |
| --- | ---: | ---: | --- | --: | ---: | -: | ---: | ---: |
| llama 70B Q4_K - Medium | 39.59 GiB | 70.55 B | {} | 99 | {} | 1 | pp512 | 612.10 ± 1.20 |
| llama 70B Q4_K - Medium | 39.59 GiB | 70.55 B | {} | 99 | {} | 1 | tg128 | 20.00 ± 0.02 |
"""


def rows(text: str, folder: Path, behind: str = "") -> list[dict[str, str]]:
    path = folder / "run.txt"
    path.write_text(text, encoding="utf-8")
    table = bench.read([f"{path}{behind}"])
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


@pytest.mark.parametrize(("text", "tpot_ms"), [
    (BLOCK + TPOT, 11.09),
    (BLOCK + E2E + ITL.format("11.20"), 11.2),
    (BLOCK + E2E, 11.2),
    (BLOCK + E2E + ITL.format("30.00"), 11.2),  # chunks of several tokens
    (BLOCK + ITL.format("11,20"), 11.2),
])  # fmt: skip
def test_the_time_of_a_token_comes_from_what_is_printed(text: str, tpot_ms: float, tmp_path: Path) -> None:
    (row,) = rows(text, tmp_path)
    assert float(row["tpot_s"]) == pytest.approx(tpot_ms * 1e-3)
    assert (row["engine"], row["concurrency"], row["osl"]) == ("sglang", "16", "256")


def test_a_run_that_drafts_has_the_mean_step_and_what_it_feeds(tmp_path: Path) -> None:
    (row,) = rows(BLOCK + TPOT + DRAFT, tmp_path)
    assert [float(row[name]) for name in ("tpot_s", "accepted_tokens", "tokens_per_step")] == [0.0112, 2.84, 4.0]
    result = {"completed": 64, "backend": "vllm", "total_input_tokens": 64, "total_output_tokens": 640,
              "mean_tpot_ms": 11.2, "median_tpot_ms": 11.0, "max_concurrency": 4,
              "spec_decode_acceptance_length": 2.84, "spec_decode_num_drafts": 10,
              "spec_decode_draft_tokens": 30}  # fmt: skip
    (row,) = rows(f"INFO done {json.dumps(result)}", tmp_path)
    assert [float(row[name]) for name in ("tpot_s", "accepted_tokens", "tokens_per_step")] == [0.0112, 2.84, 4.0]


@pytest.mark.parametrize(
    ("split", "layout"),
    [("layer", ("1", "node")), ("row", ("node", "")), ("tensor", ("node", "")), ("none", ("1", ""))],
)
def test_a_split_of_llama_bench_is_a_layout(split: str, layout: tuple[str, str], tmp_path: Path) -> None:
    (row,) = rows(MARKDOWN.format("CUDA", split, "CUDA", split), tmp_path)
    assert (row["tp"], row["pp"]) == layout
    assert (row["tpot_s"], row["weight_dtype"], row["concurrency"], row["osl"]) == ("0.05", "int4", "1", "128")


def csv_of(fields: dict[str, object]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(fields), quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerow(fields)
    return text.getvalue()


@pytest.mark.parametrize("text", [json.dumps([LLAMA]), json.dumps(LLAMA), csv_of(LLAMA)])
def test_the_other_forms_of_llama_bench_count_the_devices(text: str, tmp_path: Path) -> None:
    (row,) = rows(text, tmp_path)
    assert [row[name] for name in ("tp", "pp", "isl", "osl", "tpot_s", "weight_dtype")] == [
        *("1", "2", "512", "128", "0.05", "int8")
    ]


def test_a_run_over_rpc_needs_its_layout_said(tmp_path: Path) -> None:
    text = MARKDOWN.format("CUDA,RPC", "layer", "CUDA,RPC", "layer")
    assert "over RPC" in rows(text, tmp_path)[0]["quality_flag"]
    (row,) = rows(text, tmp_path, "@pp=3")
    assert (row["quality_flag"], row["pp"]) == ("", "3")


def test_a_prompt_alone_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no result of a serving benchmark"):
        rows(json.dumps([{**LLAMA, "n_gen": 0, "n_prompt": 512}]), tmp_path)

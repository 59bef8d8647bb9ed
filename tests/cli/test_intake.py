"""One door: `-` is standard input for every command that reads, and what stands around a log does not matter."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import invoke
from tests.logs.intake import MORE, SHAPES
from tests.unit.test_bench_results import BLOCK, TPOT

if TYPE_CHECKING:
    from pathlib import Path

CASES = (
    "model,system,engine,weight_dtype,isl,osl,concurrency,tp,tpot_s\n"
    "llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,8,8,0.01\n"
)
CURVE = "devices,batch,step_s\n1,8,0.02\n2,8,0.012\n4,8,0.008\n"
MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X\n"
TRACE = json.dumps({
    "schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2},
    "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 0, "tid": 1, "ts": 100.0 * step,
         "dur": 100.0} for step in range(4)
    ] + [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 100.0 * step + start, "dur": length,
         "args": {"device": 0, "stream": 7}}
        for step in range(4)
        for name, start, length in (("gemm", 0.0, 60.0), ("ncclSymDevKernel_AllReduce_LL_sum(x)", 60.0, 19.0))
    ],
})  # fmt: skip
FLAGS = ("--on", "h100-sxm", "--model", "llama-3.1-70b", "--weights", "bf16", "--tp", "8")


def piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(("arguments", "text", "word"), [
    (("fit", "-"), SHAPES["nccl-tests"].text, "all-reduce on 8 ranks"),
    (("topo", "-"), MATRIX, "every pair of GPUs is NV12"),
    (("validate", "-", *FLAGS), BLOCK + TPOT, "11.1 ms"),
    (("validate", "-"), CASES, "10 ms"),
    (("predict", "-"), CASES, "predicted_tpot_s"),
    (("calibrate", "-", *FLAGS), BLOCK + TPOT, ""),
    (("lint", "-"), CURVE, "3"),
    (("trace", "-"), TRACE, "19 %"),
])  # fmt: skip
def test_standard_input_is_a_file(
    arguments: tuple[str, ...], text: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(monkeypatch, text)
    result = invoke(*arguments)
    assert result.code == 0, result.err
    assert word in result.out


@pytest.mark.parametrize("how", ["docker", "kubectl time", "json message", "two hosts", "prterun", "json one string"])
@pytest.mark.parametrize(("arguments", "text", "word"), [
    (("topo", "-"), MATRIX, "every pair of GPUs is NV12"),
    (("validate", "-", *FLAGS), BLOCK + TPOT, "11.1 ms"),
])  # fmt: skip
def test_what_stands_around_a_result_is_taken_off(
    how: str, arguments: tuple[str, ...], text: str, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(monkeypatch, MORE[how](text))
    assert word in invoke(*arguments).out


def test_a_run_that_drafts_is_never_calibrated_on(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text(f"{BLOCK}{TPOT}Acceptance length: 2.84\n", encoding="utf-8")
    assert "2.84 x 11.2 ms = 31.8 ms a step" in invoke("validate", str(path), *FLAGS).err
    result = invoke("calibrate", str(path), *FLAGS)
    assert result.code == 4
    assert "left out, since no plain step was timed" in result.err


def test_the_formats_are_listed_without_a_log() -> None:
    result = invoke("fit", "--format", "list")
    assert result.code == 0
    names = result.out.split()
    assert names == sorted(names)
    assert {"nccl-tests", "rccl-tests-csv", "oneccl", "hccl-test", "flight-recorder"} <= set(names)

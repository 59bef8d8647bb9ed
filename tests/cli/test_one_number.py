"""One scenario has one number, whichever command is asked: plan, decode, sweep, buy and predict say the same."""

from __future__ import annotations

import csv
import io
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.command import detailed, invoke, refused

if TYPE_CHECKING:
    from pathlib import Path

SENT = "--exchange all-to-all"
CASES = [
    ("llama-3.1-70b", "--on h100-sxm --weights fp8 --tp 8", 16),
    ("llama-3.1-70b", "--on h100-sxm --weights fp8 --tp 4 --pp 2 --engine trtllm", 64),
    ("llama-3.1-70b", "--on h100-sxm --weights fp8 --tp 8 --mode eager", 16),
    ("deepseek-v3", "--on h200-sxm --attention-dp 8 --ep 8", 584),
    ("deepseek-v3", f"--on h200-sxm --attention-dp 8 --ep 8 {SENT}", 584),
    ("deepseek-v3", f"--on h200-sxm --attention-dp 16 --ep 16 {SENT}", 960),
    ("deepseek-v3", f"--on h200-sxm --attention-dp 8 --ep 8 {SENT} --library nccl", 584),
    ("qwen3-235b-a22b", f"--on h200-sxm --attention-dp 8 --ep 8 {SENT} --engine sglang", 256),
    ("deepseek-r1-nvfp4", f"--on gb200-nvl72 --attention-dp 8 --ep 8 {SENT} --engine trtllm", 256),
]
COLUMNS = {
    "on": "system", "weights": "weight_dtype", "ep": "moe_ep", "attention_dp": "attention_dp", "tp": "tp", "pp": "pp",
    "engine": "engine", "library": "library", "mode": "mode",
}  # fmt: skip


def options(flags: str) -> dict[str, str]:
    words = flags.replace("--", "").split()
    return {name.replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def gpus(flags: str) -> int:
    given = options(flags)
    return int(given.get("tp", 1)) * int(given.get("pp", 1)) * int(given.get("attention_dp", 1))


def decoded(model: str, flags: str, batch: int) -> Any:  # noqa: ANN401  JSON is whatever it is
    job = ("decode", model, *flags.split(), "--isl", "1024", "--osl", "512", "--batch", str(batch))
    return invoke(*job, "--kv", "bf16", "--json").document["rows"][0]


def predicted(model: str, flags: str, batch: int, folder: Path) -> float:
    given = options(flags)
    row = {"model": model, "isl": 1024, "osl": 512, "concurrency": batch, "kv_dtype": "bf16"}
    row |= {COLUMNS[name]: value for name, value in given.items()}
    table = folder / "cases.csv"
    table.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    [answer] = csv.DictReader(io.StringIO(invoke("predict", str(table), "--csv").out))
    assert not answer["refused"]
    return float(answer["predicted_tpot_s"])


@pytest.mark.parametrize(("model", "flags", "batch"), CASES)
def test_every_command_says_what_decode_says(model: str, flags: str, batch: int, tmp_path: Path) -> None:
    row = decoded(model, flags, batch)
    alone, kind = row["step_s"], row["kind"]
    job = (model, *flags.split(), "--isl", "1024", "--osl", "512", "--kv", "bf16", "--batch", str(batch))
    plain = (f"--{name.replace('_', '-')}" for name in ("tp", "pp", "ep", "attention_dp") if name not in options(flags))
    degrees = [word for flag in plain for word in (flag, "1")]
    rows = invoke("plan", *job, *degrees, "--gpus", str(gpus(flags)), "--json", "--all").document["rows"]
    exchange = options(flags).get("exchange", "all-gather")
    found = [(row["tpot_s"], row["kind"]) for row in rows if row["exchange"] in (exchange, None)]
    assert found == [(pytest.approx(alone, rel=1e-9), kind)]

    [swept] = csv.DictReader(io.StringIO(invoke("sweep", *job, "--axis", f"batch={batch}", "-o", "-").out))
    assert float(swept["step_s"]) == pytest.approx(alone, rel=1e-9)
    assert swept["kind"] == kind

    bought = invoke("buy", *job, "--option", "hbm=x2", "--json").document["options"]
    assert [each["step_before_s"] for each in bought] == [pytest.approx(alone, rel=1e-9)]

    if exchange == "all-gather":  # a table of cases has no column of the exchange
        assert predicted(model, flags, batch, tmp_path) == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(
    "job",
    [
        "plan deepseek-v3 --on h200-sxm --gpus 16 --tpot 50ms",
        "plan deepseek-v3 --on h200-sxm --gpus 8 --mode eager --library nccl --exchange all-to-all --skew 1.5",
        "plan llama-3.1-70b --on h100-sxm --gpus 8 --tpot 20ms --set stack.step_time_s=3ms --quantised-all-reduce fp8",
    ],
)
def test_the_next_command_of_a_plan_gives_the_number_of_the_plan(job: str) -> None:
    document = invoke(*job.split(), "--json").document
    following = invoke(*job.split()).out.rpartition("\nNext: ")[2].partition("   w")[0].replace("\\\n", "")
    words = shlex.split(following)
    assert words[:2] == ["nhalf", "decode"]
    words.remove("--explain")
    row = invoke(*words[1:], "--json").document["rows"][0]
    assert row["step_s"] == pytest.approx(document["chosen"]["tpot_s"], rel=1e-9)


def test_a_plan_says_which_exchanges_nothing_was_measured_for() -> None:
    said = " ".join(detailed("plan", "deepseek-v3", "--on", "h200-sxm", "--gpus", "16", "--tpot", "50ms").out.split())
    assert "TP1 DP16 EP16 a2a and TP2 DP8 EP16 a2a: dispatch and combine by the law of distinct ranks hit" in said


def test_a_skew_needs_experts() -> None:
    message = refused("plan", "llama-3.1-8b", "--on", "h100-sxm", "--skew", "2")
    assert "--skew: llama-3.1-8b has no experts" in message

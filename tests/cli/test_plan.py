"""`nhalf plan` on the command line: the page, the document, launch lines, limits that nothing holds, bad input."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.command import invoke, matches, refused

JOB = ("plan", "llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8")
LIMITS = ("--gpus", "16", "--tpot", "20ms", "--ttft", "1s", "--isl", "4096", "--osl", "512")
KEYS = {
    "layout", "tp", "pp", "ep", "attention_dp", "replicas", "batch", "tpot_s", "ttft_low_s", "ttft_high_s",
    "tokens_per_s_per_user", "tokens_per_s_per_gpu", "cost_per_mtoken", "binding", "pareto", "meets",
}  # fmt: skip


@pytest.fixture(scope="module")
def document() -> Any:  # noqa: ANN401  JSON is whatever it is
    return invoke(*JOB, *LIMITS, "--json").document


@pytest.mark.parametrize("columns", [80, 140])
def test_the_main_job_prints_the_stored_page(columns: int) -> None:
    result = invoke(*JOB, *LIMITS, columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"plan_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns


def test_the_document_has_the_keys_of_the_contract(document: Any) -> None:  # noqa: ANN401
    assert document["schema"] == "nhalf.plan/1"
    assert all(set(row) >= KEYS for row in document["rows"])
    assert set(document["launch"]) == {"vllm", "sglang", "trtllm"}
    assert document["chosen"]["meets"] in ("yes", "marginal")
    assert any(row["pareto"] for row in document["rows"])
    assert document["assumes"]


def test_the_chosen_row_is_one_of_the_rows_and_holds_the_limits(document: Any) -> None:  # noqa: ANN401
    chosen = document["chosen"]
    assert chosen in document["rows"]
    assert chosen["tpot_s"] <= 0.02
    assert chosen["ttft_low_s"] <= 1.0
    assert chosen["cost_per_mtoken"] is None
    assert chosen["tokens_per_s_per_gpu"] == pytest.approx(
        chosen["batch"] / chosen["tpot_s"] / (chosen["tp"] * chosen["pp"])
    )


def test_every_point_on_request() -> None:
    few = invoke(*JOB, "--gpus", "8", "--json").document["rows"]
    many = invoke(*JOB, "--gpus", "8", "--json", "--all").document["rows"]
    assert len(many) > 2 * len(few)
    assert len({(row["layout"], row["batch"]) for row in many}) == len(many)


def test_money_is_known_where_a_price_is() -> None:
    result = invoke(*JOB, "--gpus", "8", "--price", "$3.6/h", "--goal", "cost")
    assert "$/Mtok" in result.out
    row = invoke(*JOB, "--gpus", "8", "--price", "$3.6", "--json").document["chosen"]
    assert row["cost_per_mtoken"] == pytest.approx(1e3 / row["tokens_per_s_per_gpu"])


def test_the_launch_line_is_read_back_as_the_chosen_layout(document: Any) -> None:  # noqa: ANN401
    line = document["launch"]["vllm"]
    found = invoke("plan", line, *JOB[2:], *LIMITS, "--json").document
    judged, chosen = found["judged"], document["chosen"]
    assert {key: judged[key] for key in ("tp", "pp", "batch")} == {key: chosen[key] for key in ("tp", "pp", "batch")}
    assert judged["tpot_s"] == pytest.approx(chosen["tpot_s"])
    assert "within the model's error of the best" in found["judgement"]


def test_a_worse_line_is_told_what_it_loses() -> None:
    line = "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 2 --quantization fp8 --max-num-seqs 4"
    result = invoke("plan", line, "--on", "h100-sxm", "--gpus", "8", "--tpot", "25ms")
    assert result.code == 0
    said = " ".join(result.out.split())
    assert "Your vllm line, TP2, batch 4:" in said
    assert "its best is batch" in said
    assert "The chosen layout has" in said


def test_data_parallelism_of_a_dense_model_is_replicas() -> None:
    line = "vllm serve llama-3.1-8b --tensor-parallel-size 1 --data-parallel-size 4 --max-num-seqs 8"
    found = invoke("plan", line, "--on", "h100-sxm", "--json").document
    assert found["gpus"] == 4
    assert (found["judged"]["replicas"], found["judged"]["batch"]) == (4, 8)


def test_limits_that_nothing_holds_show_the_nearest_and_leave_with_3() -> None:
    result = invoke(*JOB, "--gpus", "16", "--tpot", "1ms")
    assert result.code == 3
    assert result.out.startswith("no layout holds 1 ms per token: the nearest is ")
    assert "twice the memory bandwidth" in result.err
    found = invoke(*JOB, "--gpus", "16", "--tpot", "1ms", "--json")
    assert found.code == 3
    assert found.document["chosen"] is None
    assert found.document["nearest"]["tpot_s"] > 1e-3
    assert set(found.document["launch"]) <= {"vllm", "sglang", "trtllm"}


def test_a_prompt_that_takes_too_long_is_named() -> None:
    result = invoke(*JOB, "--gpus", "8", "--ttft", "1ms")
    assert result.code == 3
    assert "shorten it, or relax --ttft" in result.err


def test_what_does_not_fit_says_how_many_devices_would_hold_it() -> None:
    message = refused("plan", "llama-3.1-405b", "--on", "h100-sxm", "--gpus", "4", code=3)
    assert "none fits in memory" in message
    assert "on 16 devices" in message


def test_a_context_without_prompts_has_no_first_token() -> None:
    row = invoke(*JOB, "--gpus", "8", "--context", "1000", "--json").document["chosen"]
    assert row["ttft_low_s"] is None
    assert row["ttft_high_s"] is None


def test_csv_and_markdown_hold_the_rows(document: Any) -> None:  # noqa: ANN401
    assert len(invoke(*JOB, *LIMITS, "--csv").out.splitlines()) == 1 + len(document["rows"])
    assert len(invoke(*JOB, *LIMITS, "--md").out.splitlines()) == 2 + len(document["rows"])


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (("plan",), 2, ["the model is missing"]),
        (("plan", "llama-3.1-70b"), 2, ["--on"]),
        ((*JOB, "--gpus", "0"), 2, ["--gpus"]),
        ((*JOB, "--gpus", "99999"), 2, ["4096"]),
        ((*JOB, "--goal", "speed"), 2, ["tokens-per-gpu, latency, cost"]),
        ((*JOB, "--goal", "cost"), 2, ["--price"]),
        ((*JOB, "--tpot", "20"), 2, ["20us"]),
        ((*JOB, "--tpot", "0ms"), 2, ["--tpot"]),
        ((*JOB, "--price", "free"), 2, ["--price"]),
        ((*JOB, "--tp", "3"), 2, ["no legal layout"]),
        ((*JOB, "--batch", "1000000"), 3, ["none fits", "lower --batch"]),
        ((*JOB, "--isl", "100"), 2, ["--osl"]),
        ((*JOB, "--launch", "ollama run x"), 2, ["vllm serve"]),
        ((*JOB, "--launch", "vllm serve x -tp 3"), 2, ["TP 3"]),
        ((*JOB, "--launch", "vllm serve x -tp 8", "--gpus", "12"), 2, ["multiple of 8"]),
        ((*JOB, "--phase", "prefill"), 2, ["decode steps"]),
        (("plan", "llama-3.1-70b", "--on", "h100-sxm,b200-sxm"), 2, ["one system"]),
        ((*JOB, "--json", "--md"), 2, ["more than one form"]),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], code: int, parts: list[str]) -> None:
    message = refused(*arguments, code=code)
    for part in parts:
        assert part in message, message

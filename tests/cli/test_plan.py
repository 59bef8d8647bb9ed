"""`nhalf plan` on the command line: the page, the document, launch lines, limits that nothing holds, bad input."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.command import detailed, invoke, matches, refused

from nhalf.loading.inputs import OUTPUT, PROMPT

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
    assert document["schema"] == "nhalf.plan/2"
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
    result = detailed("plan", line, "--on", "h100-sxm", "--gpus", "8", "--tpot", "25ms")
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
    result = detailed(*JOB, "--gpus", "16", "--tpot", "1ms")
    assert result.code == 3
    assert result.out.startswith("No layout holds 1 ms per token: the nearest is ")
    assert "2x HBM bandwidth" in result.err
    found = detailed(*JOB, "--gpus", "16", "--tpot", "1ms", "--json")
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
        ((*JOB, "--isl", "100"), 2, ["--osl"]),
        ((*JOB, "--launch", "ollama run x"), 2, ["vllm serve"]),
        ((*JOB, "--launch", "vllm serve x -tp 3"), 2, ["TP 3"]),
        ((*JOB, "--launch", "vllm serve x -tp 8", "--gpus", "12"), 2, ["multiple of 8"]),
        ((*JOB, "--phase", "prefill"), 2, ["No such option"]),
        ((*JOB, "--price", "$1,$2,$3"), 2, ["3 prices for 1 systems"]),
        ((*JOB, "--json", "--md"), 2, ["more than one form"]),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], code: int, parts: list[str]) -> None:
    message = refused(*arguments, code=code)
    for part in parts:
        assert part in message, message


TWO = ("plan", "llama-3.1-70b", "--on", "h100-sxm,gb200-nvl72", *LIMITS)


@pytest.fixture(scope="module")
def two() -> Any:  # noqa: ANN401  JSON is whatever it is
    return invoke(*TWO, "--price", "$2.5,$6", "--json").document


def test_two_systems_stand_side_by_side() -> None:
    result = invoke(*TWO, columns=80)
    assert (result.code, result.err) == (0, "")
    assert matches("plan_two_systems_80", result.out)


def test_the_document_of_two_systems_is_that_of_the_better_one_with_the_rows_of_both(two: Any) -> None:  # noqa: ANN401
    plans = {plan["system"]: plan for plan in two["plans"]}
    best = max(plans.values(), key=lambda plan: plan["chosen"]["tokens_per_s_per_gpu"])
    assert two["chosen"] == best["chosen"]
    assert two["launch"] == best["launch"]
    assert {row["system"] for row in two["rows"]} == set(plans)
    alone = invoke(*JOB[:3], "gb200-nvl72", *LIMITS, "--price", "$6", "--json").document
    assert plans["gb200-nvl72"]["chosen"] == alone["chosen"]
    assert [row for row in two["rows"] if row["system"] == "gb200-nvl72"] == alone["rows"]


def test_each_system_may_have_its_price_and_the_cheapest_tokens_win() -> None:
    found = invoke(*TWO, "--goal", "cost", "--price", "$1,$60", "--json").document
    assert found["chosen"]["system"] == "h100-sxm"
    costs = {plan["system"]: plan["chosen"]["cost_per_mtoken"] for plan in found["plans"]}
    assert costs["h100-sxm"] < costs["gb200-nvl72"]
    assert found["verdict"].startswith("h100-sxm gives")


def test_a_default_that_systems_do_not_share_says_whose_it_is() -> None:
    job = ("plan", "llama-3.1-8b", "--on", "h100-sxm,gb200-nvl72", "--weights", "fp8")
    told = detailed(*job, columns=200).out.partition("Defaults taken")[2].splitlines()
    assert "  on h100-sxm: --gpus 8: a node" in told
    assert "  on gb200-nvl72: --gpus 4: a node" in told
    assert "  --engine vllm: the most used" in told
    assert [line.split()[1] for line in told if "--kv" in line] == ["h100-sxm:", "gb200-nvl72:"]
    said = detailed(*job, "--gpus", "8").out.partition("Defaults taken")[2].partition("\nNext\n")[0]
    assert "--engine" in said
    assert "--gpus" not in said


def test_one_system_that_holds_the_limits_is_an_answer_and_none_is_not() -> None:
    job = ("plan", "llama-3.1-405b", "--on", "h100-sxm,b200-sxm", "--gpus", "8")
    result = invoke(*job, "--weights", "bf16")
    assert result.code == 0
    assert "h100-sxm has no layout" in result.out
    impossible = invoke(*job, "--tpot", "1ns")
    assert impossible.code == 3
    assert impossible.err.count("none fits in memory") == 1
    assert impossible.err.count("the nearest is TP8, batch 1") == 1


def test_the_reasons_add_up_to_what_the_ranking_says(document: Any) -> None:  # noqa: ANN401
    rows = {f"{row['layout']} (batch {row['batch']})": row for row in document["rows"]}
    assert document["why"]
    for text in document["why"]:
        row = rows[text.split(" gives ")[0]]
        share = 1 - row["tokens_per_s_per_gpu"] / document["chosen"]["tokens_per_s_per_gpu"]
        assert f"gives {100 * share:.2g} % less" in text
        assert not row["tied"]


def test_help_says_what_is_taken_where_a_flag_is_not_given() -> None:
    text = " ".join(invoke("plan", "--help").out.split())
    for flag in ("--tp", "--pp", "--ep", "--attention-dp"):
        assert "[default: all]" in text[text.index(f"{flag} LIST") :][:120], flag
    assert f"[default: {PROMPT}, if --context" in text
    assert f"[default: {OUTPUT}, if --context" in text
    assert "1024]" not in text[text.index("--context N") : text.index("--isl N")]


def test_the_front_has_the_chosen_point_and_says_what_it_leaves_out() -> None:
    flags = ("plan", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "16", "--tpot", "20ms", "--weights", "fp8")
    document = detailed(*flags, "--json").document
    text = detailed(*flags).out.split("Pareto front")[1]
    points = sum(row["pareto"] for row in document["rows"])
    marked = [
        line for line in text.splitlines() if line.split() and line.split()[-4:][0] == str(document["chosen"]["batch"])
    ]
    assert "*" in marked[0]
    assert f"of {points} points" in text


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-70B-Instruct", "/models/llama"])
def test_a_launch_line_keeps_the_name_that_it_was_given(name: str) -> None:
    line = f"vllm serve {name} --tensor-parallel-size 8"
    given = ("--launch", line) if name.startswith("meta-llama") else ("llama-3.1-70b", "--launch", line)
    launch = invoke("plan", *given, "--on", "h100-sxm", "--json").document["launch"]
    assert all(name in command.split() for command in launch.values())


def test_a_mark_is_explained_without_limits_that_nobody_gave() -> None:
    job = ("plan", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "2")
    free, bound = detailed(*job).out, detailed(*job, "--tpot", "1s").out
    assert "? fits only if the driver reports enough memory." in free
    assert "limits" not in free
    assert "? holds the limits for one prompt alone" in bound


def test_one_layout_that_fits_is_one() -> None:
    text = " ".join(detailed("plan", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--pp", "1").out.split())
    assert "It is the only layout that fits." in text
    wide = detailed("plan", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--pp", "1", columns=140).out
    assert "TTFT: from that of a prompt alone to that of the last when the whole batch arrives at once." in wide


def test_every_row_has_the_band_that_decode_states(document: Any) -> None:  # noqa: ANN401
    rows = [document["chosen"], *document["rows"][:3]]
    assert all(row["tpot_low_s"] < row["tpot_s"] < row["tpot_high_s"] for row in document["rows"])
    for row in rows:
        job = ("decode", *JOB[1:], "--tp", str(row["tp"]), "--pp", str(row["pp"]), "--batch", str(row["batch"]))
        alone = invoke(*job, "--isl", "4096", "--osl", "512", "--json").document["rows"][0]
        assert (row["tpot_low_s"], row["tpot_high_s"]) == pytest.approx((alone["low_s"], alone["high_s"]), rel=1e-9)


@pytest.mark.parametrize(("limit", "tenths"), [("low", 1), ("middle", 5), ("high", None)])
def test_a_plan_says_how_often_a_run_keeps_its_limit(limit: str, tenths: int | None) -> None:
    one = (*JOB, "--gpus", "8", "--tp", "8", "--batch", "32")
    row = detailed(*one, "--json").document["chosen"]
    ends = {"low": row["tpot_low_s"], "middle": row["tpot_s"] * 1.001, "high": row["tpot_high_s"] * 1.001}
    result = detailed(*one, "--tpot", f"{1e6 * ends[limit]:.3f}us", "--json")
    assert result.code == (3 if limit == "low" else 0)
    said = " ".join(detailed(*one, "--tpot", f"{1e6 * ends[limit]:.3f}us").out.split())
    assert "80 % band" in said
    assert (f"in about {tenths} of 10 cases" in said) == (tenths is not None)
    assert ("even odds: the middle of the band meets the limit" in said) == (limit == "middle")


def test_an_option_of_other_tools_leads_to_the_one_here() -> None:
    assert "Did you mean '--gpus'?" in refused("plan", "llama-3.1-8b", "--on", "h100-sxm", "--devices", "16")


def test_of_layouts_that_tie_for_a_user_the_one_of_more_throughput_leads() -> None:
    job = ("plan", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "16", "--weights", "fp8", "--goal", "latency")
    result = invoke(*job, "--batch", "4", columns=80)
    assert result.out.startswith("Run TP8 x2 for 8 users")
    assert "--users compares at one load" in result.out
    rows = invoke(*job, "--batch", "4", "--json").document["rows"]
    tied = {row["layout"]: row["tokens_per_s_per_gpu"] for row in rows if row["tied"]}
    assert len(tied) > 1
    assert max(tied, key=lambda layout: tied[layout]) == "TP8 x2"

"""`nhalf calibrate` on the command line: from runs to a stack file that predicts them better, in every format."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import invoke, refused

from nhalf.loading.stack_file import read_stack

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "model,system,engine,weight_dtype,isl,osl,concurrency,tp,tpot_s\n"
# A stack that is slower than all stacks together by a fixed time: 1.15 times plus 1 ms at every point.
TIMES = {
    (1, 2): 24.9, (16, 2): 31.5, (64, 2): 46.7, (1, 4): 16.0, (16, 4): 20.4, (64, 4): 29.7, (1, 8): 11.9, (16, 8): 15.1,
    (64, 8): 21.0,
}  # fmt: skip
VLLM = {
    "backend": "vllm", "model_id": "meta-llama/Llama-3.1-70B", "completed": 100, "max_concurrency": 16,
    "total_input_tokens": 102400, "total_output_tokens": 102400, "median_tpot_ms": 13.0, "median_ttft_ms": 100.0,
    "request_throughput": 1.2,
}  # fmt: skip
BLOCK = """\
Maximum request concurrency: 16
============ Serving Benchmark Result ============
Successful requests:                     100
Benchmark duration (s):                  150.0
Total input tokens:                      102400
Total generated tokens:                  102400
Request throughput (req/s):              1.20
---------------Time to First Token----------------
Mean TTFT (ms):                          120.0
Median TTFT (ms):                        100.0
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          13.5
Median TPOT (ms):                        13.0
==================================================
"""
PERF = {
    "request_throughput": {"unit": "requests/sec", "avg": 1.2},
    "time_to_first_token": {"unit": "ms", "avg": 120.0, "p50": 100.0},
    "inter_token_latency": {"unit": "ms", "avg": 13.5, "p50": 13.0},
    "input_sequence_length": {"unit": "tokens", "avg": 1024.0},
    "output_sequence_length": {"unit": "tokens", "avg": 1024.0},
}
GENAI_CSV = """\
Metric,avg,min,max,p99,p50
Time To First Token (ms),120.00,90.00,200.00,190.00,100.00
Inter Token Latency (ms),13.50,12.00,20.00,19.00,13.00
Output Sequence Length (tokens),"1,024.00",1024.00,1024.00,1024.00,1024.00
Input Sequence Length (tokens),"1,024.00",1024.00,1024.00,1024.00,1024.00

Metric,Value
Request Throughput (per sec),1.20
"""
FORMATS = {
    "vllm.json": json.dumps(VLLM),
    "sglang.jsonl": json.dumps({**VLLM, "backend": "sglang", "accept_length": None}) + "\n",
    "block.txt": BLOCK,
    "genai.json": json.dumps(
        {**PERF, "input_config": {"model": ["llama-3.1-70b"], "perf_analyzer": {"stimulus": {"concurrency": 16}}}}
    ),
    "aiperf.json": json.dumps(
        {**PERF, "input_config": {"endpoint": {"model_names": ["llama-3.1-70b"]}, "loadgen": {"concurrency": 16}}}
    ),
    "genai.csv": GENAI_CSV,
}
FLAGS = ("--on", "h100-sxm", "--weights", "fp8")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    rows = [f"llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,{b},{tp},{ms / 1e3}\n" for (b, tp), ms in TIMES.items()]
    path.write_text(HEADER + "".join(rows), encoding="utf-8")
    return path


def test_a_stack_is_written_and_predicts_its_own_runs_better(runs: Path, tmp_path: Path) -> None:
    stack = tmp_path / "my.toml"
    result = invoke("calibrate", str(runs), "-o", str(stack), columns=400)
    assert (result.code, result.err) == (0, "")
    assert re.match(r"Your 9 runs tell .*per-layer overhead \(\+", result.out)
    assert result.out.splitlines()[-1] == f"Next: nhalf validate {runs} --stack {stack}"
    before = invoke("validate", str(runs), "--json").document["overall"]["median_error"]
    after = invoke("validate", str(runs), "--stack", str(stack), "--json").document["overall"]["median_error"]
    assert after < before / 2
    assert after < 0.05


def test_the_document_says_which_constants_the_runs_tell(runs: Path) -> None:
    document = invoke("calibrate", str(runs), "--json").document
    assert document["schema"] == "nhalf.calibrate/2"
    assert document["rows"] == 9
    constants = {each["name"]: each for each in document["constants"]}
    assert constants["layer_time_s"]["identified"]
    assert not constants["expert_efficiency"]["identified"]
    for each in constants.values():
        assert each["low"] <= each["value"] <= each["high"]
        assert {"name", "value", "low", "high", "identified", "prior"} <= set(each)
    assert "collective_excess_s" not in constants


def test_several_device_counts_split_into_a_constant_and_a_shared_part(runs: Path) -> None:
    document = invoke("calibrate", str(runs), "--json").document
    assert document["degrees_of_freedom"] == 1
    assert document["constant_s"] > 0
    assert document["weights_s"] > document["constant_s"]
    assert document["implied_bandwidth_bytes_per_s"] > 1e12
    assert document["per_collective_s"] == pytest.approx(document["constant_s"] / 160)
    page = " ".join(invoke("calibrate", str(runs)).out.split())
    assert "most of the constant is not the link" in page
    assert f"at most {1 / document['constant_s']:.0f} tokens/s per user" in page
    assert "a part that grows with the devices needs a fourth count" in document["splits"][0]["refused"]


def test_two_counts_have_an_interval_too(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    rows = [f"llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,1,{tp},{TIMES[1, tp] / 1e3}\n" for tp in (4, 8)]
    path.write_text(HEADER + "".join(rows), encoding="utf-8")
    document = invoke("calibrate", str(path), "--json").document
    assert document["degrees_of_freedom"] == 0
    split = document["splits"][0]
    assert split["constant_low_s"] < split["constant_s"] < split["constant_high_s"]
    assert split["per_collective_low_s"] == pytest.approx(split["constant_low_s"] / 160)
    assert split["ceiling_tokens_per_s"] == pytest.approx(1 / split["constant_s"])
    assert split["ceiling_low_tokens_per_s"] < split["ceiling_tokens_per_s"]


WAITING = HEADER.replace("tpot_s\n", "tpot_s,calls,call_us,pure_us,skew_us\n")
WAITS = "over 90 % of this is waiting for another rank (skew, host, scheduling), no link change helps"


def waiting_runs(path: Path, told: str) -> Path:
    """Write runs of which half wait 570 us in each of 160 all-reduces, which `told` says or not."""
    rows = [
        f"llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,{b},{tp},{ms / 1e3 + (0.0912 if tp == 8 else 0.0)},"
        + (told if tp == 8 else ",,,") + "\n"
        for (b, tp), ms in TIMES.items()
    ]  # fmt: skip
    path.write_text(WAITING + "".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("told", ["160,600,30,", "160,,30,570", "160,600,,570"])
def test_waiting_is_taken_out_before_anything_is_fitted(runs: Path, tmp_path: Path, told: str) -> None:
    path = waiting_runs(tmp_path / "waiting.csv", told)
    result = invoke("calibrate", str(path), "--json")
    without = invoke("calibrate", str(runs), "--json").document
    for one, other in zip(result.document["constants"], without["constants"], strict=True):
        assert one["value"] == pytest.approx(other["value"], rel=1e-3), one["name"]
    assert "waiting of 91.2 ms a step in the median is taken out of 3 of the runs" in result.err
    found = [each for each in result.document["findings"] if each["code"] == "waiting"]
    assert len(found) == 3
    assert all(each["text"].endswith(WAITS) for each in found)


def test_a_step_that_only_waiting_explains_moves_no_constant(runs: Path, tmp_path: Path) -> None:
    path = waiting_runs(tmp_path / "waiting.csv", ",,,")
    result = invoke("calibrate", str(path), "--json")
    kept = tmp_path / "kept.csv"
    kept.write_text(
        "".join(line for line in runs.read_text().splitlines(keepends=True) if ",8,0.0" not in line), encoding="utf-8"
    )
    without = invoke("calibrate", str(kept), "--json").document
    assert result.document["rows"] == without["rows"] == 6
    for one, other in zip(result.document["constants"], without["constants"], strict=True):
        assert one["value"] == pytest.approx(other["value"], rel=1e-9)
    assert "left out: 3 of the runs, 5 times over their predictions or more" in result.err
    assert WAITS in result.err
    told = invoke("validate", str(path), "--json").document["findings"]
    assert [each["code"] for each in told].count("waiting") == 3


def test_what_waits_little_is_taken_out_and_no_finding(tmp_path: Path) -> None:
    path = tmp_path / "little.csv"
    path.write_text(WAITING + "llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,1,8,0.0119,160,30,20,\n", encoding="utf-8")
    result = invoke("calibrate", str(path), "--json")
    assert "waiting of 1.6 ms a step" in result.err
    assert result.document["findings"] == []
    path.write_text(WAITING + "llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,1,8,0.0119,160,-3,20,\n", encoding="utf-8")
    assert "call_us '-3' is no number above 0" in refused("calibrate", str(path))


def test_two_counts_that_make_no_sense_claim_no_constant(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    rows = [f"llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,1,{tp},{time}\n" for tp, time in ((4, 0.0001), (8, 0.02))]
    path.write_text(HEADER + "".join(rows), encoding="utf-8")
    document = invoke("calibrate", str(path), "--json").document
    assert document["constant_s"] is document["implied_bandwidth_bytes_per_s"] is None
    page = " ".join(invoke("calibrate", str(path), "--detail").out.split())
    assert "the data cannot tell" in page
    assert "nan" not in page
    # Nothing that explains one of the two explains the other: the refit is not offered.
    assert document["held_out_error"] > document["before_error"]
    assert "the refit is worse, do not use it" in page
    assert page.endswith(
        f"# without --stack: the constants of all stacks predict these runs better nhalf validate {path}"
    )


def test_one_run_has_nothing_held_out_and_no_interval(tmp_path: Path) -> None:
    path, stack = tmp_path / "one.csv", tmp_path / "one.toml"
    path.write_text(HEADER + "llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,16,8,0.012\n", encoding="utf-8")
    document = invoke("calibrate", str(path), "--json").document
    assert document["held_out_error"] is None
    assert not any(each["identified"] for each in document["constants"])
    assert {(each["low"], each["high"]) for each in document["constants"]} == {(None, None)}
    page = " ".join(invoke("calibrate", str(path), "-o", str(stack)).out.split())
    assert "One run moves per-layer overhead by +" in page
    assert "but cannot tell it from the others" in page
    assert "one run gives no range" in page
    assert "one run cannot be held out, so" in page
    assert read_stack(str(stack)).half_widths is None


@pytest.mark.parametrize("name", FORMATS)
def test_every_benchmark_says_the_same_of_the_same_run(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FORMATS[name], encoding="utf-8")
    asked = ("calibrate", f"{path}@tp=8,engine=vllm,concurrency=16,model=llama-3.1-70b", *FLAGS, "--json")
    document = invoke(*asked).document
    assert document["rows"] == 1
    reference = tmp_path / "reference.csv"
    row = "llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,16,8,0.013\n"
    reference.write_text(HEADER + row, encoding="utf-8")
    same = invoke("calibrate", str(reference), "--json").document
    assert document["before_error"] == pytest.approx(same["before_error"])


def test_the_load_comes_from_the_file_where_it_knows_it(tmp_path: Path) -> None:
    for name in ("vllm.json", "genai.json", "aiperf.json", "block.txt"):
        path = tmp_path / name
        path.write_text(FORMATS[name], encoding="utf-8")
        flags = ("--tp", "8", "--model", "llama-3.1-70b", *FLAGS)
        assert invoke("calibrate", str(path), *flags, "--json").document["rows"] == 1


def test_an_open_loop_takes_its_batch_from_littles_law_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "open.json"
    path.write_text(json.dumps({**VLLM, "max_concurrency": None}), encoding="utf-8")
    result = invoke("calibrate", f"{path}@tp=8", *FLAGS, "--json")
    assert result.document["rows"] == 1
    assert "1 row has no concurrency: Little's law is taken" in result.err
    assert "Little" not in invoke("calibrate", f"{path}@tp=8,concurrency=16", *FLAGS, "--json").err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("deep.json", "[" * 100_000, "there is no result of a serving benchmark in it"),
        ("unit.json", json.dumps({**PERF, "inter_token_latency": {"unit": "beats", "avg": 13}}), "the unit 'beats'"),
        ("bare.json", json.dumps({**PERF, "inter_token_latency": {"avg": 13}}), "inter_token_latency has no unit"),
        ("bare.csv", GENAI_CSV.replace("Latency (ms)", "Latency"), "inter_token_latency has no unit"),
    ],
)
def test_a_result_that_cannot_be_read_is_one_message(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    message = refused("calibrate", f"{path}@tp=8,concurrency=16,model=llama-3.1-70b", *FLAGS)
    assert str(path) in message
    assert words in message


def test_a_run_without_a_completed_request_is_left_out_and_the_others_count(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    failed = {**VLLM, "completed": 0, "total_input_tokens": 0, "total_output_tokens": 0, "median_tpot_ms": 0.0}
    path.write_text(f"{json.dumps(failed)}\n{json.dumps(VLLM)}\n", encoding="utf-8")
    result = invoke("calibrate", f"{path}@tp=8", *FLAGS, "--json")
    assert result.document["rows"] == 1
    assert "left out: 1 row with a quality_flag (no request was completed)" in result.err


def test_a_printed_accept_length_is_a_draft(tmp_path: Path) -> None:
    path = tmp_path / "block.txt"
    path.write_text(
        BLOCK.replace("Request throughput", "Accept length:      2.50\nRequest throughput"), encoding="utf-8"
    )
    drafted = invoke("validate", f"{path}@tp=8,model=llama-3.1-70b", *FLAGS, "--json").document
    path.write_text(BLOCK, encoding="utf-8")
    plain = invoke("validate", f"{path}@tp=8,model=llama-3.1-70b", *FLAGS, "--json").document
    assert drafted["worst"][0]["predicted_s"] < plain["worst"][0]["predicted_s"] / 2


def test_the_concurrency_of_a_phase_is_found(tmp_path: Path) -> None:
    path = tmp_path / "aiperf.json"
    config = {"models": ["llama-3.1-70b"], "phases": [{"type": "profiling", "concurrency": 16}]}
    path.write_text(json.dumps({**PERF, "input_config": config}), encoding="utf-8")
    result = invoke("validate", f"{path}@tp=8", *FLAGS, "--json")
    assert ", 16 x 1024+1024" in result.document["worst"][0]["row"]
    assert "Little" not in result.err


@pytest.mark.parametrize("behind", ["@tp=8,tp=4", "@tp=", "@speed=9"])
def test_what_is_said_twice_or_not_at_all_behind_a_name_is_refused(tmp_path: Path, behind: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(FORMATS["vllm.json"], encoding="utf-8")
    assert str(path) in refused("calibrate", f"{path}{behind}", *FLAGS)
    assert "there is no name of a file" in refused("calibrate", "@tp=8", *FLAGS)


def test_a_quoted_header_is_that_of_a_case_table(tmp_path: Path, runs: Path) -> None:
    head, _, rest = runs.read_text(encoding="utf-8").partition("\n")
    path = tmp_path / "QUOTED.CSV"
    path.write_text(",".join(f'"{name}"' for name in head.split(",")) + f"\n{rest}", encoding="utf-8")
    plain, quoted = (invoke("calibrate", str(each), "--json").document for each in (runs, path))
    assert quoted["constants"] == plain["constants"]


def test_a_stack_file_is_read_back_with_units_and_origins(runs: Path, tmp_path: Path) -> None:
    stack = tmp_path / "my.toml"
    invoke("calibrate", str(runs), "-o", str(stack))
    found = read_stack(str(stack))
    datum = found.constants["layer_time_s"]
    assert 1e-6 < datum.value < 1e-3
    assert (datum.kind, datum.source) == ("fitted", str(runs))
    assert found.half_widths is not None


def test_a_stack_file_by_hand_may_be_short(tmp_path: Path) -> None:
    path = tmp_path / "hand.toml"
    path.write_text('[constants]\nlayer_time = "30 us"\n', encoding="utf-8")
    found = read_stack(str(path))
    assert {name: datum.value for name, datum in found.constants.items()} == {"layer_time_s": pytest.approx(30e-6)}
    assert found.constants["layer_time_s"].kind == "given"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no table of constants"),
        ('[constants]\nlayer_tme = "30 us"\n', "Did you mean 'layer_time'"),
        ('[constants]\nlayer_time = "30"\n', "layer_time"),
        ('[constants]\nlayer_time = "30 us"\n[band]\nlow = 2.0\nhigh = 1.0\n', "is no band"),
        ("[constants", "not TOML"),
    ],
)
def test_a_stack_file_that_is_wrong_is_one_message(tmp_path: Path, runs: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    assert words in refused("predict", str(runs), "--stack", str(path))


def test_a_file_of_no_format_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n", encoding="utf-8")
    assert "no result of a serving benchmark" in refused("calibrate", str(path))
    assert "says nothing" in refused("calibrate", f"{path}@color=red")


def test_runs_without_a_scenario_are_too_weak(tmp_path: Path) -> None:
    path = tmp_path / "unknown.csv"
    path.write_text(HEADER + "llama-9,h100-sxm,vllm,fp8,1024,1024,1,8,0.01\n", encoding="utf-8")
    result = invoke("calibrate", str(path))
    assert result.code == 4
    assert "no model 'llama-9'" in result.err


# --- nhalf decode with a stack of one's own ---------------------------------------------------------------------------

DECODE = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "4,8", "--batch", "16", "--weights", "fp8")


def steps(*flags: str) -> list[float]:
    return [row["step_s"] for row in invoke(*DECODE, *flags, "--json").document["rows"]]


def test_decode_takes_a_stack_file_and_the_priors(runs: Path, tmp_path: Path) -> None:
    stack = tmp_path / "my.toml"
    invoke("calibrate", str(runs), "-o", str(stack))
    plain, own, priors = steps(), steps("--stack", str(stack)), steps("--stack", "priors")
    assert own[1] > plain[1]
    assert priors != plain


def test_a_set_value_wins_over_the_stack(runs: Path, tmp_path: Path) -> None:
    stack = tmp_path / "my.toml"
    invoke("calibrate", str(runs), "-o", str(stack))
    document = invoke(*DECODE, "--stack", str(stack), "--set", "stack.layer_time_s=1us", "--json").document
    (source,) = [each for each in document["sources"] if each["path"] == "stack.layer_time_s"]
    assert (source["value"], source["kind"]) == (pytest.approx(1e-6), "given")


def test_decode_is_pulled_to_an_anchor() -> None:
    plain = steps()
    anchored = steps("--anchor", "tp=8,batch=16: 9.8ms")
    assert abs(anchored[1] / 9.8e-3 - 1) < abs(plain[1] / 9.8e-3 - 1) / 2
    assert anchored[0] > plain[0]
    assert "--anchor" in refused(*DECODE, "--anchor", "tp=8")


def test_runs_on_boards_tell_their_undivided_share(tmp_path: Path) -> None:
    path = tmp_path / "boards.csv"
    steps = {tp: 0.330 + 0.980 / tp for tp in (1, 2, 4, 8)}  # a quarter is not shared out
    rows = [f"llama-3.1-8b,raspberry-pi-cluster,distributed-llama,int4,16,1,{tp},{time}" for tp, time in steps.items()]
    header = "model,system,engine,weight_dtype,context,batch,tp,tpot_s"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    constants = {each["name"]: each for each in invoke("calibrate", str(path), "--json").document["constants"]}
    assert constants["unsharded_share"]["value"] == pytest.approx(0.25, rel=0.25)
    assert constants["unsharded_share"]["prior"] == pytest.approx(0.125)
    assert "host_sharing" not in constants


def test_the_next_command_of_a_benchmarks_output_is_one_that_works(tmp_path: Path) -> None:
    run, stack = tmp_path / "run.json", tmp_path / "my.toml"
    run.write_text(FORMATS["vllm.json"], encoding="utf-8")
    result = invoke("calibrate", str(run), *FLAGS, "--tp", "8", "-o", str(stack), columns=400)
    words = result.out.splitlines()[-1].split()[1:]
    assert words[:2] == ["nhalf", "validate"]
    assert "--stack" in words
    again = invoke(*words[1:], columns=400)
    assert (again.code, again.err) == (0, "")
    assert again.out.startswith("The one prediction is ")
    assert f"nhalf calibrate {run} --on h100-sxm --tp 8 --weights fp8 -o" in again.out


def test_one_device_that_nobody_stated_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run.json"
    run.write_text(FORMATS["vllm.json"], encoding="utf-8")
    result = invoke("calibrate", str(run), *FLAGS)
    assert "warning: 1 row has no tp: 1 is taken, one device" in result.err
    bf16 = invoke("calibrate", str(run), "--on", "h100-sxm")
    assert bf16.code == 4
    assert bf16.err.count("memory") == 1
    assert "state tp" in bf16.err


@pytest.mark.parametrize(
    ("behind", "flags", "where"),
    [
        ("", ("--on", "nosuch"), "--on: the catalogue has no system 'nosuch'"),
        ("", ("--on", "h100-sxm", "--tp", "x"), "--tp: tp 'x' is not a whole number"),
        ("@tp=x", ("--on", "h100-sxm"), "run.json@tp=x: tp 'x' is not a whole number"),
        ("@batch=many", ("--on", "h100-sxm"), "run.json@batch=many: batch 'many' is not a number"),
        ("", ("--on", "h100-sxm", "--weights", "fp9"), "--weights: dtype 'fp9' is not known"),
    ],
)
def test_what_no_run_can_mean_is_said_once(tmp_path: Path, behind: str, flags: tuple[str, ...], where: str) -> None:
    run = tmp_path / "run.json"
    run.write_text(FORMATS["vllm.json"], encoding="utf-8")
    for command in ("calibrate", "validate"):
        result = invoke(command, f"{run}{behind}", *flags)
        assert result.code == 2
        assert where in result.err
        assert len(result.err.splitlines()) == 1

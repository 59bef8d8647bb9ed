"""`nhalf decode` beyond one node's TP: layouts, prompts, drafts, remedies, memory, and the scenario files of it all."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import detailed, invoke, refused

if TYPE_CHECKING:
    from pathlib import Path

DENSE = ("decode", "llama-3.1-70b", "--on", "h100-sxm")
EXPERTS = ("decode", "deepseek-r1", "--on", "h200-sxm", "--engine", "sglang")
SPREAD = ("--attention-dp", "8", "--ep", "8", "--exchange", "all-to-all")
PROMPT = ("--phase", "prefill", "--isl", "8192")
DRAFT = ("--draft-tokens", "3", "--acceptance", "0.8")
REMEDIES = ("--fuse-norm", "--fuse", "2", "--overlap", "0.5", "--quantised-all-reduce", "fp8", "--kernel-bypass", "off")
PAGES = [
    (*DENSE, "--tp", "4,8", "--pp", "1,2,4", "--batch", "1,64"),
    (*DENSE, "--tp", "8,16", "--batch", "1,16,128", *REMEDIES, *DRAFT),
    (*DENSE, "--tp", "8", "--pp", "2", "--cp", "2", *PROMPT, "--chunk", "2048", "--kv-transfer", "5us,50GB/s"),
    (*DENSE, "--tp", "2", "--batch", "512", "--isl", "3000", "--osl", "1000", "--weights", "fp8"),
    (*EXPERTS, "--tp", "1,8", "--attention-dp", "1,8", "--ep", "8", "--pp", "1,2", "--batch", "64", "--replicas", "2"),
    (*EXPERTS, *SPREAD, "--batch", "64,2048", "--skew", "1.5", "--two-batch-overlap"),
]


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("arguments", PAGES, ids=lambda arguments: " ".join(arguments[4:12]))
def test_every_page_keeps_to_its_width_and_breaks_no_label(arguments: tuple[str, ...], columns: int) -> None:
    brief = invoke(*arguments, columns=columns)
    assert max(map(len, brief.out.splitlines())) <= columns
    result = detailed(*arguments, columns=columns)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if len(line) == 1]  # a column squeezed to one letter
    heads = [line for line in lines if line.startswith(("layout", "TP ")) or " weights " in line]
    assert heads
    assert result.out.rstrip().splitlines()[-1].startswith(("  nhalf decode", "  add --explain", "    "))


@pytest.mark.parametrize("arguments", PAGES, ids=lambda arguments: " ".join(arguments[4:12]))
def test_every_row_of_a_document_adds_up(arguments: tuple[str, ...]) -> None:
    document = invoke(*arguments, "--json").document
    for row in document["rows"]:
        columns = ("weights", "experts", "kv", "compute", "launch", "collective_fixed", "collective_transfer",
                   "hand_over", "prefill")  # fmt: skip
        assert sum(row[f"{name}_s"] for name in columns) == pytest.approx(row["step_s"])
        assert row["memory_bytes"] == pytest.approx(
            sum(row["memory"][f"{name}_bytes"] for name in ("weights", "kv", "workspace"))
        )
        assert row["low_s"] < row["step_s"] < row["high_s"]


# ------------------------------------------------------------------------------------------------------------- prompts


def test_a_prefill_is_told_per_prompt_and_not_per_token() -> None:
    out = detailed(*DENSE, "--tp", "8", *PROMPT, columns=140).out
    assert "ms per prompt, " in out
    assert "to the first token, without queueing" in out
    assert "prompt tokens/s" in out
    assert "ms per prefill" in out
    assert "per token" not in out.split("\n\n", 1)[0]
    assert "per 4 prompts" in detailed(*DENSE, "--tp", "8", *PROMPT, "--batch", "4").out
    row = detailed(*DENSE, "--tp", "8", *PROMPT, "--json").document["rows"][0]
    assert row["phase"] == "prefill"
    assert row["tpot_s"] is None
    assert row["tokens_per_s"] == pytest.approx(8192 / row["step_s"])


def test_a_prompt_is_bandwidth_bound_where_a_step_is_latency_bound() -> None:
    step, prompt = (invoke(*DENSE, "--tp", "8", *more, "--json").document["rows"][0] for more in ((), PROMPT))
    assert step["collective_fixed_s"] > 5 * step["collective_transfer_s"]
    assert prompt["collective_transfer_s"] > 5 * prompt["collective_fixed_s"]


def test_a_cache_on_its_way_says_bytes_time_and_what_binds() -> None:
    arguments = (*DENSE, "--tp", "8", *PROMPT, "--kv-transfer", "5us,50GB/s")
    found = detailed(*arguments, "--json").document["rows"][0]["kv_transfer"]
    assert found["bytes_per_device"] == 8192 * 80 * 2 * 128 * 2
    assert found["bytes"] == 8 * found["bytes_per_device"]
    assert found["time_s"] == pytest.approx(5e-6 + found["bytes_per_device"] / 50e9)
    assert found["binding"] == "bandwidth"
    out = detailed(*arguments).out
    assert "320 MiB a device" in out
    assert "bandwidth binds" in out
    short = (*DENSE, "--tp", "8", "--phase", "prefill", "--isl", "1", "--kv-transfer", "1ms,50GB/s", "--json")
    assert detailed(*short).document["rows"][0]["kv_transfer"]["binding"] == "latency"
    assert detailed(*DENSE, "--tp", "8", "--json").document["rows"][0]["kv_transfer"] is None


# -------------------------------------------------------------------------------------------------------------- drafts


def test_a_draft_says_time_per_step_and_per_token() -> None:
    out = detailed(*DENSE, "--tp", "8", *DRAFT, columns=140).out
    assert "A step keeps 2.95 tokens" in out
    assert "per token" in out
    assert "3 drafted tokens: saves" in out
    assert "the time to draft them is not" in out
    row = detailed(*DENSE, "--tp", "8", *DRAFT, "--json").document["rows"][0]
    assert (row["tokens_per_step"], row["accepted_tokens"]) == (4, pytest.approx(2.952))
    assert row["tpot_s"] == pytest.approx(row["step_s"] / 2.952)
    assert row["tokens_per_s_per_user"] == pytest.approx(1 / row["tpot_s"])


# ------------------------------------------------------------------------------------------------------------ remedies


def test_each_remedy_has_a_line_and_an_entry() -> None:
    arguments = (*DENSE, "--tp", "16", "--batch", "64", *REMEDIES)
    document = detailed(*arguments, "--json").document
    found = {remedy["flag"]: remedy for remedy in document["remedies"]}
    assert set(found) == {
        "--fuse-norm", "--fuse 2", "--overlap 0.5", "--quantised-all-reduce fp8", "--kernel-bypass off", "--mode graph"
    }  # fmt: skip
    assert found["--kernel-bypass off"]["gain"] < 0
    for remedy in found.values():
        assert remedy["gain"] == pytest.approx(1 - remedy["with_s"] / remedy["without_s"])
        assert remedy["limit"]
    out = detailed(*arguments, columns=140).out
    for text in ("overlap with compute: saves", "kernel bypass off: costs", "Limit:", "all-reduce in fp8: saves"):
        assert text in out
    # What a line says is what the command without that flag predicts.
    plain = detailed(*(part for part in arguments if part not in ("--overlap", "0.5")), "--json").document
    assert plain["rows"][0]["step_s"] == pytest.approx(found["--overlap 0.5"]["without_s"])


def test_a_mode_that_is_stated_is_held_against_eager() -> None:
    assert "What the remedies save" not in detailed(*DENSE, "--tp", "8").out
    assert (
        "CUDA graphs against eager launches: saves" in detailed(*DENSE, "--tp", "8", "--mode", "graph", columns=140).out
    )


# -------------------------------------------------------------------------------------------------------------- memory


def test_memory_is_shown_for_each_layout() -> None:
    out = detailed(*DENSE, "--tp", "4,8", "--batch", "1,64", columns=100).out
    assert "Memory on each device (GB)" in out
    assert "KV at batch 1 / 64" in out
    assert "largest batch" in out
    rows = detailed(*DENSE, "--tp", "4,8", "--batch", "1,64", "--json").document["rows"]
    assert [row["largest_batch"] for row in rows[:2]] == [row["largest_batch"] for row in rows[2:]]
    assert rows[0]["memory"]["kv_bytes"] * 64 == pytest.approx(rows[2]["memory"]["kv_bytes"])


def test_a_cap_on_a_serving_batch_is_said_in_words() -> None:
    result = detailed(*PAGES[3], columns=140)
    assert result.code == 0
    assert "The KV cache has room for 57 of 512 sequences; the others wait." in result.out
    assert "the KV cache has room for 57 of 512 sequences of 4000 tokens" in result.out
    row = detailed(*PAGES[3], "--json").document["rows"][0]
    assert 57 <= row["running"] < 58
    assert row["tokens_per_s"] == pytest.approx(row["running"] / row["step_s"])


def test_replicas_multiply_devices_and_throughput() -> None:
    one, two = (
        invoke(*DENSE, "--tp", "4", "--batch", "8", *more, "--json").document["rows"][0]
        for more in ((), ("--replicas", "2"))
    )
    assert (one["devices"], two["devices"]) == (4, 8)
    assert two["step_s"] == one["step_s"]
    assert two["tokens_per_s"] == pytest.approx(2 * one["tokens_per_s"])
    assert two["tokens_per_s_per_gpu"] == pytest.approx(one["tokens_per_s_per_gpu"])
    assert (two["replicas"], two["layout"]) == (2, "TP4 x2")


# ------------------------------------------------------------------------------------------------------ scenario files


@pytest.mark.parametrize("arguments", PAGES, ids=lambda arguments: " ".join(arguments[4:12]))
def test_a_scenario_file_keeps_every_option_and_gives_the_same_answer(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    saved = tmp_path / "scenario.toml"
    first = invoke(*arguments, "--json", "--save", str(saved))
    again = invoke("decode", str(saved), "--json")
    assert again.err == ""
    assert again.document["rows"] == first.document["rows"]
    taken = [{default["flag"] for default in each.document["defaults"]} for each in (first, again)]
    assert taken[0] == taken[1]


def test_a_scenario_file_says_its_schema_its_defaults_and_its_origins(tmp_path: Path) -> None:
    saved = tmp_path / "scenario.toml"
    invoke(*DENSE, "--tp", "8", *REMEDIES, "--set", "stack.step_time_s=1ms", "--save", str(saved))
    content = tomllib.loads(saved.read_text())
    assert content["schema"] == "nhalf.scenario/1"
    assert (content["overlap"], content["fuse"], content["fuse_norm"]) == (0.5, 2, True)
    assert content["context"] == 1024
    assert content["defaults"]["context"] == "a short chat"
    assert "batch" in content["defaults"]
    origins = content["origins"]["h100-sxm"]
    assert origins["stack.step_time_s"] == {
        "value": 1e-3, "unit": "s", "kind": "given", "source": "--set", "locator": "stack.step_time_s"
    }  # fmt: skip
    bandwidth = origins["system.device.memory_bandwidth_bytes_per_s"]
    assert (bandwidth["value"], bandwidth["kind"]) == (3.35e12, "datasheet")
    assert bandwidth["source"]
    assert origins["stack.remedies.overlap_share"]["kind"] == "given"


def test_a_saved_default_stays_an_assumption_and_a_flag_replaces_it(tmp_path: Path) -> None:
    saved = tmp_path / "scenario.toml"
    first = invoke(*DENSE, "--tp", "8", "--json", "--save", str(saved)).document["rows"][0]
    again = invoke("decode", str(saved), "--kv", "fp8", "--json").document
    assert "--kv" not in [default["flag"] for default in again["defaults"]]
    assert again["rows"][0]["kv_s"] == pytest.approx(first["kv_s"] / 2)
    shorter = invoke("decode", str(saved), "--overlap", "0.5", "--tp", "4", "--json").document
    assert shorter["rows"][0]["tp"] == 4
    assert [remedy["flag"] for remedy in shorter["remedies"]] == ["--overlap 0.5", "--mode graph"]


def test_a_number_that_has_moved_since_is_said(tmp_path: Path) -> None:
    saved = tmp_path / "scenario.toml"
    invoke(*DENSE, "--tp", "8", "--save", str(saved))
    text = saved.read_text()
    assert "value = 3350000000000.0" in text
    saved.write_text(text.replace("value = 3350000000000.0", "value = 3000000000000.0"))
    result = invoke("decode", str(saved), "--json")
    assert "memory_bandwidth_bytes_per_s is 3.35 TB/s now, and was 3 TB/s" in result.err
    assert result.document["warnings"]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ('schema = "nhalf.scenario/2"', ["nhalf.scenario/2", "nhalf.scenario/1", "--save"]),
        ("schema = 1", ["schema"]),
        ("overlap = 2", ["overlap", "share"]),
        ("overlap = true", ["overlap"]),
        ("fuse_norm = 1", ["fuse_norm", "true"]),
        ('fuse = "two"', ["fuse", "whole number"]),
        ("context = 0", ["context", "whole number"]),
        ("context = -5", ["context", "whole number"]),
        ("context = true", ["context", "whole number"]),
        ("chunks = 5", ["'chunks'", "Did you mean 'chunk'?"]),
        ('defaults = { isl = "why" }', ["'isl' is no key"]),
        ('origins = { h100-sxm = { x = { value = "1" } } }', ["'x' has no value"]),
        ("origins = 3", ["origins", "a table"]),
    ],
)
def test_a_bad_line_of_a_scenario_file_is_named(tmp_path: Path, line: str, parts: list[str]) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'model = "qwen3-8b"\nsystems = ["h100-sxm"]\n{line}\n')
    message = refused("decode", str(path))
    assert str(path) in message
    for part in parts:
        assert part in message, message


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ((*EXPERTS, "--tp", "8", "--ep", "512"), ["--ep", "256 experts"]),
        ((*DENSE, "--pp", "81"), ["--pp", "80 layers"]),
        ((*DENSE, "--tp", "6"), ["--tp", "64 attention heads", "1, 2, 4, 8"]),
        ((*DENSE, "--attention-dp", "8"), ["--attention-dp", "no experts", "--replicas"]),
        (("decode", "llama-3.1-70b-fp8", "--on", "h100-sxm", "--tp", "8", "--weights", "bf16"), ["--weights", "wider"]),
        ((*DENSE, "--cp", "0"), ["--cp", "whole number"]),
        ((*DENSE, "--cp", "2", "--cp-exchange", "rings"), ["--cp-exchange", "Did you mean 'ring'?"]),
        ((*DENSE, "--replicas", "0"), ["--replicas", "whole number"]),
        ((*DENSE, "--phase", "prefill"), ["--isl", "add --isl"]),
        ((*DENSE, "--phase", ""), ["--phase", "empty"]),
        ((*DENSE, *PROMPT, "--chunk", "1.5"), ["--chunk", "whole number"]),
        ((*DENSE, *PROMPT, "--kv-transfer", "400G"), ["--kv-transfer", "400G"]),
        ((*DENSE, "--draft-tokens", "3"), ["--acceptance", "without"]),
        ((*DENSE, "--draft-tokens", "1000", "--acceptance", "0.8"), ["--draft-tokens", "1 to 64"]),
        ((*DENSE, "--draft-tokens", "3", "--acceptance", "2"), ["--acceptance", "at most 1"]),
        ((*DENSE, "--overlap", "0"), ["--overlap", "more than 0"]),
        ((*DENSE, "--overlap", "half"), ["--overlap", "half"]),
        ((*DENSE, "--fuse", "-1"), ["fuse", "whole number"]),
        ((*DENSE, "--kernel-bypass", "yes"), ["--kernel-bypass", "on, off"]),
        ((*DENSE, "--quantised-all-reduce", "int4"), ["--quantised-all-reduce", "fp8"]),
        ((*EXPERTS, *SPREAD, "--skew", "0.5"), ["--skew", "1 (even)"]),
        ((*EXPERTS, "--exchange", "all-to-all"), ["--exchange", "--attention-dp"]),
        ((*DENSE, "--set", "workload.accepted_tokens=0"), ["--acceptance"]),
    ],
    ids=lambda value: " ".join(value[4:]) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], parts: list[str]) -> None:
    message = refused(*arguments)
    for part in parts:
        assert part in message, message


def test_the_next_command_repeats_what_was_asked() -> None:
    out = invoke(*DENSE, "--tp", "8", "--overlap", "0.5", "--fuse-norm", columns=140).out
    assert "--fuse-norm --overlap 0.5" in out.rsplit("Next", 1)[1]


def test_the_document_is_plain_json() -> None:
    result = invoke(*PAGES[2], "--json")
    assert json.loads(result.out)["rows"]


def test_a_cluster_of_single_devices_has_no_node_to_stay_inside() -> None:
    told = invoke("decode", "llama-3.1-8b", "--on", "raspberry-pi-cluster", "--tp", "1,2", "--weights", "int4")
    assert told.out.startswith("TP2 is fastest")

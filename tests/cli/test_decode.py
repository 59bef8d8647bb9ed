"""`nhalf decode` on the command line: whole pages, the document of the contract, and every kind of bad input."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import detailed, invoke, matches, refused

from nhalf.report.view import LINES, MORE_LINES

LOGS = Path(__file__).parents[1] / "logs" / "nccl_tests"
JOB = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "1,2,4,8,16", "--batch", "1", "--weights", "fp8")
QUICK = ("decode", "qwen3-8b", "--on", "h100-sxm")
COLUMNS = (
    "weights_s", "experts_s", "kv_s", "compute_s", "launch_s", "collective_fixed_s", "collective_transfer_s",
    "hand_over_s", "prefill_s",
)  # fmt: skip


@pytest.fixture(scope="module")
def document() -> Any:  # noqa: ANN401  JSON is whatever it is
    return invoke(*JOB, "--json").document


@pytest.mark.parametrize("columns", [80, 140])
def test_the_main_job_prints_the_stored_page(columns: int) -> None:
    result = invoke(*JOB, columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"decode_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns


@pytest.mark.parametrize("columns", [80, 140])
def test_everything_is_under_detail(columns: int) -> None:
    result = detailed(*JOB, columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"decode_detail_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns


def test_the_first_screen_is_one_screen() -> None:
    lines = invoke(*JOB, columns=80).out.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) < 80
    assert lines[0].startswith("TP8 is fastest: 7.87 ms per token")
    assert any(line.startswith("Floor: 160 all-reduces x 3.66 us = 0.59 ms") for line in lines)
    rows = [line.split() for line in lines if line.startswith("TP") and line.split()[1][:1].isdigit()]
    bars = [sum(cells[3].count(shade) for shade in "#=.") for cells in rows]  # ASCII, as no terminal is there
    assert bars[:4] == sorted(bars[:4], reverse=True)
    assert len(bars) == 5


def test_three_batches_stand_side_by_side_at_80_columns() -> None:
    brief = invoke(*JOB[:-4], "--batch", "1,16,128", "--weights", "fp8", columns=80)
    assert len(brief.out.splitlines()) <= MORE_LINES
    assert matches("decode_batches_80", brief.out)
    result = detailed(*JOB[:-4], "--batch", "1,16,128", "--weights", "fp8", columns=80)
    assert result.code == 0
    assert matches("decode_batches_detail_80", result.out)
    assert any(line.count("batch") == 3 for line in result.out.splitlines())
    assert "Links: at batch 1 and 16 a lower latency buys more, at batch 128 a wider link" in result.out


def links_in(folder: Path, tier: str, latency: str, bandwidth: str) -> str:
    """Return a file of one link, as if somebody had fitted it."""
    value = 'source = "graph.txt"\nlocator = "all of it"\nkind = "fitted"\ndate = "2026-11-29"\n'
    file = folder / "links.toml"
    file.write_text(
        f'[links.{tier}]\ntitle = "Fitted"\n[links.{tier}.latency]\nvalue = "{latency}"\n{value}'
        f'[links.{tier}.bandwidth]\nvalue = "{bandwidth}"\nper = "device"\ndirection = "one_way"\n{value}',
        encoding="utf-8",
    )
    return str(file)


def test_the_collective_of_a_log_is_not_taken_and_that_is_said(tmp_path: Path) -> None:
    links = links_in(tmp_path, "intra-node", "1.9 us", "400 GB/s")
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--weights", "fp8")
    said = "graph.txt the link is taken, not its collective: the all-reduce of vllm 0.31.0 in graph mode that was"
    found = detailed(*job, "--links", links)
    assert said in " ".join(found.out.split())
    assert found.err == ""
    assert any(said in doubt for doubt in detailed(*job, "--links", links, "--json").document["doubts"])
    assert "not its collective" not in detailed(*job).out
    assert "not its collective" not in detailed(*job, "--set", "system.fabric.intra_node.latency_s=1us").out


def test_a_fitted_link_above_that_of_the_system_is_doubted(tmp_path: Path) -> None:
    links = links_in(tmp_path, "intra-node", "1.86 us", "701 GB/s")
    job = ("decode", "llama-3.1-70b", "--tp", "8", "--links", links)
    doubted = " ".join(invoke(*job, "--on", "h100-sxm").err.split())
    assert "a link of 701 GB/s is above the 450 GB/s of h100-sxm (intra_node, datasheet" in doubted
    assert invoke(*job, "--on", "b200-sxm").err == ""


def test_advice_on_links_is_of_the_tier_that_the_collectives_use() -> None:
    job = ("decode", "qwen3-32b", "--on", "rtx-4090-pair", "--tp", "2", "--pp", "2", "--weights", "int4")
    result = detailed(*job, "--batch", "8", "--json").document
    gains = {lever["input"]: lever["gain"] for lever in result["levers"]}
    assert gains["system.fabric.intra_node.latency_s"] > 0.01
    change = ("whatif", *job[1:], "--batch", "8", "--option", "nvlink.latency=x0.5", "--json")
    (option,) = detailed(*change).document["options"]
    assert option["gain"] == pytest.approx(gains["system.fabric.intra_node.latency_s"])


def test_what_a_plan_does_to_the_figures_across_nodes_is_said() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8", "--batch", "1,16", "--tp")
    changes = "TP16: the latency of collectives changes with the batch, as the plan takes other algorithms for longer"
    alpha = "across nodes alpha may lie above a small all-reduce, as the plan changes algorithms"
    found = detailed(*job, "16", "--json").document
    fixed = [row["collective_fixed_s"] for row in found["rows"]]
    assert fixed[1] > 1.2 * fixed[0]
    told = " ".join(detailed(*job, "16").out.split())
    assert changes in told
    assert alpha in told
    inside = " ".join(detailed(*job, "8").out.split())
    assert "latency of collectives changes" not in inside
    assert alpha not in inside


def test_a_group_over_nodes_is_told_of_both_tiers() -> None:
    result = detailed("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "16", "--batch", "64", "--json").document
    paths = [lever["input"] for lever in result["levers"] if lever["input"].startswith("system.fabric")]
    assert {path.split(".")[2] for path in paths} == {"intra_node", "inter_node"}
    assert len(paths) == 4


def test_a_link_between_nodes_that_was_fitted_is_not_called_unmeasured(tmp_path: Path) -> None:
    links = links_in(tmp_path, "inter-node", "8 us", "44 GB/s")
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8,16")
    told = " ".join(detailed(*job, "--links", links).out.split())
    basis = "the constants of fabric ib rest on 8 machines"
    assert f"TP16: no curve of a collective across nodes is known; {basis}" in told
    planned = (*job, "--library", "nccl-plan")
    basis = "NCCL's own plan is taken over the link fitted there [graph.txt]"
    told = " ".join(detailed(*planned, "--links", links).out.split())
    assert f"no curve of a collective across nodes is known; {basis}, and the band is wide." in told
    assert "TP16: nothing was measured across nodes" in " ".join(detailed(*planned).out.split())


def test_gains_that_differ_by_noise_are_no_opposite_advice() -> None:
    """One stage a device: hand-overs are all that links do, and they do next to nothing."""
    job = ("decode", "qwen3-8b", "--on", "h100-sxm", "--tp", "1", "--pp", "2", "--batch", "1,64,512", "--json")
    assert "opposite advice" not in invoke(*job).document["verdict"]


@pytest.mark.parametrize("columns", [80, 120])
def test_layouts_of_other_numbers_of_devices_say_so(columns: int) -> None:
    job = ("decode", "llama-3.1-8b", "--on", "h100-sxm", "--batch", "1")
    out = detailed(*job, "--tp", "1,2", "--pp", "1,2", columns=columns).out
    assert re.search(r"^layout +GPUs", out, re.MULTILINE)
    for label, devices in (("TP1", 1), (r"TP2\*", 2), ("TP1 PP2", 2), (r"TP2 PP2\*", 4)):
        assert re.search(rf"^{label} +{devices} ", out, re.MULTILINE)
    assert "nhalf plan --gpus 2 compares those of 2" in " ".join(out.split())
    for same in (("--tp", "1,2"), ("--tp", "2", "--pp", "2")):
        assert "GPUs" not in detailed(*job, *same, columns=columns).out


def test_explain_prints_each_leaf_with_its_formula_and_inputs() -> None:
    result = detailed(*QUICK, "--tp", "8", "--explain", columns=120)
    assert matches("decode_explain_120", result.out)
    assert "[2 * (k - 1) / k * n / beta]" in result.out
    assert "curve = h100-sxm/vllm" in result.out


def test_the_page_answers_in_the_order_of_the_contract() -> None:
    page = detailed(*JOB, "--stack", "priors").out
    wanted = [
        "TP8 is fastest", "80 % range", "latency, bytes", "Crossovers", "What would help",
        "Constants that matter", "Defaults taken", "Next",
    ]  # fmt: skip
    places = [page.index(text) for text in wanted]
    assert places == sorted(places)
    kinds = [kind for line in page.splitlines() for kind in ("assumed", "fitted", "datasheet") if f"{kind} [" in line]
    assert kinds.index("datasheet") > max(index for index, kind in enumerate(kinds) if kind == "assumed")


def test_the_document_has_the_envelope(document: dict[str, Any]) -> None:
    assert document["schema"] == "nhalf.decode/2"
    assert document["command"] == "decode"
    assert document["interval_level"] == 0.8
    assert document["nhalf_version"]
    assert document["catalog_version"]
    assert document["verdict"].startswith("TP8 is fastest")


def test_rows_have_the_keys_of_the_contract_and_columns_add_up(document: dict[str, Any]) -> None:
    keys = {
        "system", "tp", "pp", "ep", "attention_dp", "moe_tp", "batch", "nodes", "step_s", "low_s", "high_s",
        "tokens_per_s_per_user", "tokens_per_s_per_gpu", "binding", *COLUMNS, "memory_bytes", "fits_memory", "kind",
        "terms",
    }  # fmt: skip
    assert [row["tp"] for row in document["rows"]] == [1, 2, 4, 8, 16]
    for row in document["rows"]:
        assert keys <= set(row)
        assert sum(row[name] for name in COLUMNS) == pytest.approx(row["step_s"], rel=1e-9)
        assert row["low_s"] < row["step_s"] < row["high_s"]
        assert row["terms"]["value_s"] == row["step_s"]
        assert row["tokens_per_s_per_gpu"] == pytest.approx(row["batch"] / row["step_s"] / row["tp"])
    assert [row["nodes"] for row in document["rows"]] == [1, 1, 1, 1, 2]
    assert [row["kind"] for row in document["rows"]] == ["modelled", "measured", "measured", "measured", "modelled"]


def test_best_crossovers_elasticities_and_sources(document: dict[str, Any]) -> None:
    assert [[layout["tp"] for layout in best["layouts"]] for best in document["best"]] == [[8]]
    found = {crossover["ranks"]: crossover for crossover in document["crossovers"]}
    assert set(found) == {2, 4, 8, 16}
    assert found[8]["tier"] == "intra_node"
    assert found[16]["tier"] == "inter_node"
    assert found[8]["message_bytes_per_sequence"] == 16384
    assert found[8]["batch_at_half_size"] > found[8]["batch_at_double_floor"]
    moved = {(e["tp"], e["input"]): e["value"] for e in document["elasticities"]}
    assert moved[8, "system.device.memory_bandwidth_bytes_per_s"] < -0.35
    assert moved[16, "system.fabric.inter_node.bandwidth_bytes_per_s"] < 0
    assert moved[16, "system.fabric.inter_node.latency_s"] > 0.1
    for source in document["sources"]:
        assert source["kind"] in ("datasheet", "measured", "fitted", "derived", "assumed", "given")
        assert source["source"]
        assert source["unit"]


def test_every_term_in_the_document_names_its_formula(document: dict[str, Any]) -> None:
    def visit(term: dict[str, Any]) -> None:
        assert set(term) >= {"name", "value_s", "rule", "formula", "inputs", "parts"}
        assert term["rule"] != "leaf" or (term["formula"] and term["inputs"])
        for part in itertools.chain(term["parts"], term.get("derived", {}).values()):
            visit(part)

    for row in document["rows"]:
        visit(row["terms"])


def test_a_changed_input_is_given_and_a_changed_link_makes_the_answer_modelled() -> None:
    path = "system.fabric.intra_node.latency_s"
    answer = invoke(*QUICK, "--tp", "8", "--set", f"{path}=2us", "--json").document
    assert answer["rows"][0]["kind"] == "modelled"
    assert {source["path"]: source["kind"] for source in answer["sources"]}[path] == "given"
    plain = invoke(*QUICK, "--tp", "8", "--json").document
    assert answer["rows"][0]["step_s"] > plain["rows"][0]["step_s"]


def test_a_link_twice_as_wide_as_known_draws_a_warning() -> None:
    result = invoke(*QUICK, "--tp", "8", "--set", "system.fabric.intra_node.bandwidth_bytes_per_s=900GB/s")
    assert result.code == 0
    assert "looks bidirectional" in result.err
    assert "did you mean 450 GB/s?" in result.err


def test_a_saved_scenario_gives_the_same_answer(tmp_path: Path) -> None:
    saved = tmp_path / "scenario.toml"
    flags = (*QUICK, "--tp", "2,4", "--batch", "1,8", "--kv", "fp8", "--set", "stack.step_time_s=1ms", "--json")
    first = invoke(*flags, "--save", str(saved)).document
    again = invoke("decode", str(saved), "--json").document
    assert again["rows"] == first["rows"]


def test_nothing_that_fits_exits_3_and_still_prints_the_rows() -> None:
    result = invoke("decode", "llama-3.1-405b", "--on", "h100-sxm", "--tp", "1,2", "--json")
    assert result.code == 3
    assert [row["fits_memory"] for row in result.document["rows"]] == ["no", "no"]
    assert result.document["best"][0]["layouts"] == []
    assert "no layout fits" in result.err


def test_arriving_requests_add_prefill_time() -> None:
    with_prefill = invoke(*QUICK, "--tp", "2", "--batch", "16", "--isl", "1024", "--osl", "512", "--json").document
    assert with_prefill["rows"][0]["prefill_s"] > 0


def test_a_config_file_or_its_folder_works_like_a_name(tmp_path: Path) -> None:
    config = {
        "architectures": ["Qwen3ForCausalLM"], "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288,
        "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "vocab_size": 151936,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    named = invoke(*QUICK, "--tp", "2", "--json").document
    for given in (tmp_path, tmp_path / "config.json"):
        read = invoke("decode", str(given), "--on", "h100-sxm", "--tp", "2", "--json").document
        assert read["rows"][0]["step_s"] == named["rows"][0]["step_s"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("decode", "llama-3.1-70b"), ["--on", "missing", "h100-sxm"]),
        (("decode", "lama-3.1-70b", "--on", "h100-sxm"), ["lama-3.1-70b", "Did you mean 'llama-3.1-70b'?"]),
        (("decode", "llama-3.1-70b", "--on", "h100-smx"), ["h100-smx", "Did you mean 'h100-sxm'?"]),
        ((*QUICK, "--tp", "3"), ["TP 3", "32 attention heads", "1, 2, 4, 8, 16, 32"]),
        ((*QUICK, "--tp", "1,2,,4"), ["--tp", "empty item"]),
        ((*QUICK, "--tp", "0"), ["--tp", "whole number of 1 or more"]),
        ((*QUICK, "--batch", "-1"), ["--batch", "whole number"]),
        ((*QUICK, "--batch", "2.5"), ["--batch", "whole number"]),
        ((*QUICK, "--context", "1,024"), ["--context", "write 1024"]),
        ((*QUICK, "--isl", "1024"), ["--osl", "without"]),
        ((*QUICK, "--context", "1024", "--isl", "1", "--osl", "1"), ["--context", "one of the two"]),
        ((*QUICK, "--weights", "fp7"), ["--weights", "fp7", "bf16"]),
        ((*QUICK, "--kv", "nvfp4"), ["--kv", "fp8"]),
        ((*QUICK, "--engine", "vlm"), ["vlm", "Did you mean 'vllm'?"]),
        ((*QUICK, "--library", "gloo"), ["gloo", "nhalf catalog libraries"]),
        ((*QUICK, "--mode", "graphs"), ["--mode", "graphs", "Did you mean 'graph'?"]),
        ((*QUICK, "--set", "stack.step_time_s"), ["--set", "no '='"]),
        ((*QUICK, "--set", "stack.step_time=1ms"), ["stack.step_time", "Did you mean 'stack.step_time_s'?"]),
        ((*QUICK, "--set", "stack.step_time_s=1"), ["stack.step_time_s", "no unit"]),
        ((*QUICK, "--set", "stack.step_time_s=-1ms"), ["stack.step_time_s", "negative"]),
        ((*QUICK, "--set", "system.fabric.inter_node.bandwidth_bytes_per_s=400G"), ["400 Gb/s", "400 GB/s"]),
        ((*QUICK, "--set", "stack.memory_efficiency=1.2"), ["stack.memory_efficiency", "at most 1"]),
        ((*QUICK, "--what"), ["--what"]),
        ((*QUICK, "--batch", "1:3000"), ["--batch", "12,000 rows", "nhalf sweep"]),
        ((*QUICK, "--tp", "1:100000"), ["--tp", "100,000 rows"]),
        ((*QUICK, "--save", ""), ["--save", "empty"]),
        ((*QUICK, "--csv", "--md"), ["one of them"]),
        (("decode", "", "--on", "h100-sxm"), ["MODEL", "empty"]),
        (("decode", "x" * 5000, "--on", "h100-sxm"), ["MODEL", "xxx..."]),
        (("decode", "qwen3-8b", "--on", ""), ["--on", "empty"]),
        (("decode", "qwen3-8b", "--on", "h100-sxm,"), ["--on", "empty item"]),
        (("decode", "qwen3-8b", "--on", "h100-sxm,h100_sxm"), ["--on", "h100-sxm is there twice"]),
        (("decod", "qwen3-8b"), ["decod", "Did you mean 'decode'?"]),
    ],
)
def test_bad_input_is_one_message_with_where_and_what(arguments: tuple[str, ...], parts: list[str]) -> None:
    message = refused(*arguments)
    assert len(message) < 1200
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize("command", ["plan --gpus 8", "buy --option nic=800Gb/s", "whatif --option nic=800Gb/s"])
@pytest.mark.parametrize("flag", ["--on", "--weights", "--engine", "--batch"])
def test_an_empty_value_is_refused_by_every_command_about_a_scenario(command: str, flag: str) -> None:
    name, *rest = command.split()
    on = () if flag == "--on" else ("--on", "h100-sxm")
    assert flag in refused(name, "llama-3.1-8b", *on, *rest, flag, "")


def test_a_name_of_thousands_of_letters_is_not_thrown_back() -> None:
    message = refused("decode", "qwen3-8b", "--on", "x" * 5000)
    assert "x..." in message
    assert len(message) < 1200


def test_rows_as_csv_and_as_markdown() -> None:
    rows = invoke(*QUICK, "--tp", "1,2", "--json").document["rows"]
    table = list(csv.DictReader(io.StringIO(invoke(*QUICK, "--tp", "1,2", "--csv").out)))
    assert [float(row["step_s"]) for row in table] == [row["step_s"] for row in rows]
    lines = invoke(*QUICK, "--tp", "1,2", "--md").out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("| ") for line in lines)


@pytest.mark.parametrize(
    ("name", "content", "parts"),
    [
        ("config.json", "{", ["config.json:1", "not JSON"]),
        ("config.json", "[1]", ["config.json", "no object"]),
        ("config.json", "{}", ["'architectures'", "LlamaForCausalLM"]),
        ("config.json", '{"architectures": ["MambaForCausalLM"]}', ["'architectures'", "MambaForCausalLM", "guess"]),
        ("config.json", '{"architectures": ["LlamaForCausalLM"]}', ["'intermediate_size'", "missing"]),
        ("s.toml", "model = ", ["s.toml", "not TOML"]),
        ("s.toml", 'model = "qwen3-8b"', ["'systems'", "missing"]),
        ("s.toml", 'model = "qwen3-8b"\nsystem = "h100"', ["'system'", "Did you mean 'systems'?"]),
        ("s.toml", 'model = "qwen3-8b"\nsystems = "h100-sxm"', ["'systems'", "list"]),
        ("s.toml", 'model = "qwen3-8b"\nsystems = ["h100-sxm"]\ntp = [0]', ["tp", "whole number"]),
    ],
)
def test_a_bad_file_is_named_with_its_fault(tmp_path: Path, name: str, content: str, parts: list[str]) -> None:
    path = tmp_path / name
    path.write_text(content)
    message = refused("decode", str(path), *(("--on", "h100-sxm") if name.endswith("json") else ()))
    assert str(path) in message
    for part in parts:
        assert part in message, message


def test_a_missing_file_is_named() -> None:
    assert "no-such/config.json" in refused("decode", "no-such/config.json", "--on", "h100-sxm")


def test_nodes_of_one_device_have_no_inside_to_compare_with() -> None:
    result = invoke("decode", "llama-3.1-70b", "--on", "dgx-spark-pair", "--tp", "2", "--weights", "fp8")
    assert result.code == 0
    assert "TP2" in result.out


@pytest.mark.parametrize(
    ("tier", "rate", "doubted"),
    [("inter_node", "100GB/s", False), ("inter_node", "97GB/s", False), ("inter_node", "140GB/s", True),
     ("intra_node", "900GB/s", True)],
)  # fmt: skip
def test_the_rate_of_a_faster_nic_is_not_taken_for_both_ways(tier: str, rate: str, *, doubted: bool) -> None:
    setting = f"system.fabric.{tier}.bandwidth_bytes_per_s={rate}"
    result = invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "16", "--set", setting)
    assert result.code == 0
    assert ("looks bidirectional" in result.err) is doubted


def test_without_peer_access_the_step_with_it_is_named() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8")
    (row,) = detailed(*job, "--p2p", "off", "--json").document["rows"]
    (plain,) = detailed(*job, "--json").document["rows"]
    assert row["with_peer_access_s"] == plain["step_s"]
    assert plain["with_peer_access_s"] is None
    times = row["step_s"] / plain["step_s"]
    text = " ".join(detailed(*job, "--p2p", "off").out.split())
    assert f"this is {times:.2g} times as long" in text
    assert "With peer access" not in detailed(*job).out


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--set", "system.fabric.inter_node=tcp-25g"), ["nhalf whatif --option nic=tcp-25g", "inter_node.latency_s"]),
        (("--set", "system.fabric.intra_node=nvlink5"), ["nhalf whatif --option nvlink=nvlink5"]),
        (("--links", str(LOGS.parent / "iperf3" / "iperf3.json")), ["nhalf fit", "-o mycluster.toml"]),
    ],
)
def test_what_is_no_input_or_no_file_of_links_says_what_to_do(flags: tuple[str, ...], parts: list[str]) -> None:
    message = refused(*QUICK, "--tp", "8", *flags)
    for part in parts:
        assert part in message


def test_eager_mode_says_who_waits_and_why_its_band_is_wide() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--weights", "fp8")
    said = " ".join(detailed(*job, "--mode", "eager").out.split())
    assert "the host takes 4.8 ms to launch the kernels, less than the" in said
    assert "No run of an engine that launches kernels one by one was in the calibration" in said
    slow = detailed(*job, "--mode", "eager", "--set", "stack.host_launch_s=20us")
    assert "to run them, waits" in " ".join(slow.out.split())
    graph = detailed(*job).out
    assert "the host takes" not in graph
    assert "launches kernels one by one" not in " ".join(graph.split())


def test_a_step_across_nodes_explains_which_path_was_chosen_and_what_it_costs() -> None:
    told = " ".join(
        invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "16", "--batch", "1", "--explain").out.split()
    )
    assert "the one whose plan is the smallest of" in told
    assert "chain-tree/LL = " in told
    assert "floor + base + 2 * depth * hop" in told


def test_the_only_layout_that_fits_is_said_to_be_that_and_keeps_its_marks() -> None:
    text = invoke("decode", "kimi-k3", "--on", "b200-sxm", "--tp", "8,16", "--weights", "mxfp4", columns=80).out
    assert text.startswith("Only TP16 fits: ")
    assert "TP8 needs 208.0 GB per GPU, 173.0 GB are usable." in text
    assert any(line.startswith("TP16") and line.endswith("2 nodes, modelled") for line in text.splitlines())
    assert "half the NIC latency" in text


def test_what_fits_nowhere_leads_to_a_degree_that_fits() -> None:
    found = invoke("decode", "llama-3.1-405b", "--on", "h100-sxm", "--tp", "1")
    assert found.code == 3
    following = next(line for line in found.out.splitlines() if line.startswith("Next: "))
    assert following == "Next: nhalf decode llama-3.1-405b --on h100-sxm --tp 16"
    assert invoke(*following.removeprefix("Next: nhalf ").split()).code == 0

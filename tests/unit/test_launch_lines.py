"""Launch lines: written for three engines, and read back as the same layout; what an engine cannot run is said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nhalf.decide.launch_lines import ENGINES, Served, lines, runs_on, switches
from nhalf.errors import InputError
from nhalf.layout import Layout
from nhalf.loading.launch import check_same, is_launch_line, read

if TYPE_CHECKING:
    from pathlib import Path

SERVED = Served(
    model="deepseek-ai/DeepSeek-V3",
    batch=256,
    tokens=4608,
    kv_dtype="bf16",
    quantised="",
    mixture=True,
    devices_per_node=8,
)
LAYOUTS = (
    Layout(tensor_parallel=8),
    Layout(tensor_parallel=8, expert_parallel=8),
    Layout(tensor_parallel=4, pipeline_parallel=2),
    Layout(attention_dp=8, expert_parallel=8),
    Layout(attention_dp=8, expert_parallel=8, routed_exchange="all-to-all"),
    Layout(tensor_parallel=2, attention_dp=4, expert_parallel=8),
    Layout(tensor_parallel=8, pipeline_parallel=4, expert_parallel=8),
)


def degrees(layout: Layout) -> tuple[object, ...]:
    return (
        layout.tensor_parallel, layout.pipeline_parallel, layout.expert_parallel, layout.attention_dp,
        layout.context_parallel, layout.routed_exchange,
    )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_line_is_read_back_as_the_same_layout(
    layout: Layout, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = lines(layout, SERVED)[engine]
    if not line.command:
        assert line.reason
        assert not runs_on(layout, engine)
        return
    monkeypatch.chdir(tmp_path)
    options = next((also for also in line.also if also.startswith("options.yaml: ")), "")
    (tmp_path / "options.yaml").write_text(options.removeprefix("options.yaml: ").replace("; ", "\n"), encoding="utf-8")
    found = read(line.command)
    assert (found.engine, found.model) == (engine, SERVED.model)
    expected = layout
    if not ENGINES[engine].exchange_is_a_flag:  # its way to the experts is its own choice, and no flag
        expected = Layout(
            tensor_parallel=layout.tensor_parallel, pipeline_parallel=layout.pipeline_parallel,
            expert_parallel=layout.expert_parallel, attention_dp=layout.attention_dp,
        )  # fmt: skip
    assert degrees(found.layout) == degrees(expected)
    assert found.batch == 256


@pytest.mark.parametrize(
    ("layout", "cannot"),
    [
        (Layout(tensor_parallel=8, expert_parallel=4), {"vllm"}),
        (Layout(tensor_parallel=2, attention_dp=4, expert_parallel=8), {"trtllm"}),
        (Layout(tensor_parallel=4, context_parallel=2), {"vllm", "sglang", "trtllm"}),
        (Layout(tensor_parallel=16), set()),
    ],
)
def test_what_an_engine_cannot_run_is_said(layout: Layout, cannot: set[str]) -> None:
    found = lines(layout, SERVED)
    assert {engine for engine, line in found.items() if not line.command} == cannot
    assert all(bool(line.reason) != bool(line.command) for line in found.values())


def test_number_formats_and_lengths_are_in_the_lines() -> None:
    served = Served(
        model="m/x", batch=64, tokens=4608, kv_dtype="fp8", quantised="fp8", mixture=False, devices_per_node=8
    )
    found = lines(Layout(tensor_parallel=8), served)
    assert "--kv-cache-dtype fp8 --quantization fp8" in found["vllm"].command
    assert "--kv-cache-dtype fp8_e4m3 --quantization fp8" in found["sglang"].command
    assert any("kv_cache_config: {dtype: fp8}" in also for also in found["trtllm"].also)
    assert any("quantised to fp8" in also for also in found["trtllm"].also)
    assert all("4608" in line.command for line in found.values())


@pytest.mark.parametrize("dtype", ["int4", "int8", "nvfp4", "mxfp4"])
def test_formats_that_no_method_makes_need_a_checkpoint(dtype: str) -> None:
    served = replace(SERVED, kv_dtype="int8", quantised=dtype)
    for line in lines(Layout(tensor_parallel=8), served).values():
        assert "--quantization" not in line.command
        assert f"a checkpoint quantised to {dtype}" in line.also
    assert "int8" not in lines(Layout(tensor_parallel=8), served)["vllm"].command
    held = replace(SERVED, quantised="fp8", plain=False)
    assert "a checkpoint quantised to fp8" in lines(Layout(tensor_parallel=8), held)["vllm"].also


@pytest.mark.parametrize(
    ("layout", "flags", "also"),
    [
        (Layout(attention_dp=16), "--data-parallel-size-local 8 --data-parallel-address", "--headless"),
        (Layout(attention_dp=32), "--data-parallel-size-local 8 --data-parallel-address", "8 to 24 in steps of 8"),
        (Layout(tensor_parallel=4, attention_dp=4), "--data-parallel-size-local 2", "--data-parallel-start-rank 2"),
        (Layout(tensor_parallel=16, attention_dp=2), "--data-parallel-backend ray", "VLLM_RAY_DP_PACK_STRATEGY=span"),
        (Layout(tensor_parallel=3, attention_dp=4), "--data-parallel-backend ray", "ray start"),
        (Layout(tensor_parallel=16), "--distributed-executor-backend ray", "ray start on all 2 nodes"),
    ],
)
def test_data_parallel_ranks_on_several_nodes(layout: Layout, flags: str, also: str) -> None:
    line = lines(layout, SERVED)["vllm"]
    assert flags in line.command
    assert any(also in text for text in line.also)
    assert ("--distributed-executor-backend" in line.command) == (layout.attention_dp == 1)
    assert read(line.command).notes == ()


def test_several_nodes_say_how_to_start_them() -> None:
    found = lines(Layout(tensor_parallel=8, pipeline_parallel=2), SERVED)
    assert "ray" in found["vllm"].command
    assert "--nnodes 2" in found["sglang"].command
    assert any("16 ranks on 2 nodes" in also for also in found["trtllm"].also)


def test_the_switches_are_those_that_the_prediction_takes() -> None:
    text = " ".join(switches(Layout(attention_dp=8, expert_parallel=8), mode="graph", serves_prompts=True))
    assert "CUDA graphs" in text
    assert "all-gather" in text
    assert "prefix" in text
    assert "--enforce-eager" in " ".join(switches(Layout(), mode="eager", serves_prompts=False))


@pytest.mark.parametrize(
    ("line", "expected", "batch"),
    [
        ("vllm serve meta-llama/Llama-3.1-70B -tp 4 -pp 2", Layout(tensor_parallel=4, pipeline_parallel=2), None),
        ("vllm serve x --tensor-parallel-size=8 --max-num-seqs 32", Layout(tensor_parallel=8), 32),
        (
            "VLLM_USE_V1=1 vllm serve x \\\n --data-parallel-size 8 --enable-expert-parallel --max_num_seqs 16",
            Layout(attention_dp=8, expert_parallel=8),
            128,
        ),
        ("python -m vllm.entrypoints.openai.api_server --model x -tp 2", Layout(tensor_parallel=2), None),
        ("python3 -m sglang.launch_server --model-path x --tp 8", Layout(tensor_parallel=8), None),
        (
            "python3 -m sglang.launch_server --model x --tp 8 --dp 8 --enable-dp-attention --ep 8",
            Layout(attention_dp=8, expert_parallel=8),
            None,
        ),
        ("python3 -m sglang.launch_server --model x --tp 4 --dp 2", Layout(tensor_parallel=4, replicas=2), None),
        (
            "trtllm-serve x --tp_size 8 --ep_size 4 --max_batch_size 64",
            Layout(tensor_parallel=8, expert_parallel=4),
            64,
        ),
        ("docker run img trtllm-serve serve x --tp_size 2", Layout(tensor_parallel=2), None),
    ],
)
def test_pasted_lines_are_read(line: str, expected: Layout, batch: int | None) -> None:
    assert is_launch_line(line)
    found = read(line)
    assert degrees(found.layout) == degrees(expected)
    assert found.layout.replicas == expected.replicas
    assert found.batch == batch
    assert found.model in ("x", "meta-llama/Llama-3.1-70B")


def test_formats_and_modes_are_read() -> None:
    found = read("vllm serve x --quantization fp8 --kv-cache-dtype fp8_e4m3 --enforce-eager")
    assert (found.weights, found.kv, found.eager) == ("fp8", "fp8", True)


def test_flags_that_are_left_out_of_account_are_told() -> None:
    assert "decode-context" in read("vllm serve x -tp 8 -dcp 2").notes[0]
    assert "no.yaml is not here" in read("trtllm-serve x --tp_size 8 --extra_llm_api_options no.yaml").notes[0]


@pytest.mark.parametrize("text", ["llama-3.1-70b", "deepseek-ai/DeepSeek-V3", "./vllm/config.json", "scenario.toml"])
def test_names_of_models_are_no_launch_lines(text: str) -> None:
    assert not is_launch_line(text)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("ollama run x", "vllm serve"),
        ("vllm serve x --tensor-paralel-size 8", "Did you mean 'tensor-parallel-size'?"),
        ("vllm serve x -tp eight", "--tensor-parallel-size"),
        ("vllm serve x -tp 0", "--tensor-parallel-size"),
        ("python -m sglang.launch_server --model x --tp 8 --dp 3 --enable-dp-attention", "does not divide"),
        ("vllm serve 'x", "close its quotes"),
    ],
)
def test_a_bad_line_is_refused(line: str, part: str) -> None:
    with pytest.raises(InputError) as refusal:
        read(line)
    assert part in str(refusal.value)


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve m/x -tp8",
        "vllm serve --enable-prefix-caching m/x -tp 8",
        "vllm serve --trust-remote-code m/x --tensor_parallel_size=8",
        "vllm serve --seed -1 m/x -tp 8",
        "A=1 B='2 3' vllm serve m/x \\\r\n  -tp 8",
        "vllm serve m/x ^\n -tp 8",
        "vllm serve m/x `\n -tp 8",
        "vllm serve \u201cm/x\u201d \u2014tensor-parallel-size 8",
        "$ nohup vllm serve m/x -tp 8 > log 2>&1 &",
        "docker run --gpus all -p 8000:8000 vllm/vllm-openai:latest --model m/x --tensor-parallel-size 8",
        "docker run --gpus all lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path m/x --tp 8",
        "mpirun -n 8 trtllm-llmapi-launch trtllm-serve m/x --tp_size 8",
    ],
)
def test_lines_as_people_paste_them(line: str) -> None:
    found = read(line)
    assert (found.model, degrees(found.layout), found.notes) == ("m/x", degrees(Layout(tensor_parallel=8)), ())
    assert is_launch_line(line)


def test_a_draft_that_is_left_out_of_account_is_said() -> None:
    found = read("vllm serve m/x -tp 8 --speculative-config '{\"num_speculative_tokens\": 3}'")
    assert found.notes == ("--speculative-config is left out of account: the prediction is without a draft",)


def test_attention_dp_of_trtllm_is_taken_into_account() -> None:
    found = read("trtllm-serve m/x --tp_size 8 --enable_attention_dp true")
    assert (found.layout.attention_dp, found.notes) == (8, ())


def test_a_line_of_another_model_or_engine_is_refused() -> None:
    line = read("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 8")
    with pytest.raises(InputError, match=r"launches meta-llama/Llama-3\.1-8B, and llama-3\.1-70b is asked about"):
        check_same(line, "llama-3.1-70b", None)
    with pytest.raises(InputError, match="one of vllm, and --engine sglang"):
        check_same(line, None, "sglang")
    check_same(line, "llama-3.1-8b", "vllm")
    check_same(replace(line, model="my-org/My-Finetune"), "llama-3.1-70b", None)

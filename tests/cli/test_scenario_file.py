"""Scenario files as people write them: what is read, what is refused, and where the files that they name lie."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import invoke, refused

if TYPE_CHECKING:
    from pathlib import Path

HEAD = 'model = "llama-3.1-8b"\nsystems = ["h100-sxm"]\n'
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16",
}  # fmt: skip
QUANTISATION = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("context = -100000", ["context", "-100000", "1 to "]),
        ("context = 1.5", ["'context'", "whole number"]),
        ("isl = 100\nosl = 0", ["osl", "0 is not possible"]),
        ("batch = []", ["batch", "empty"]),
        ("batch = [nan]", ["batch", "'nan'"]),
        ("batch = [true]", ["batch", "'True'"]),
        *((f'{key} = ""', [f"'{key}'", "is empty"]) for key in ("weights", "kv", "engine", "mode", "stack", "links")),
        ("overlap = nan", ["overlap", "finite"]),
        ("replicas = 100000000000", ["replicas", "1 to 1,000,000"]),
        ('systems = ["h100-sxm", "H100_SXM"]', ["h100-sxm is there twice"]),
        ('[set]\n"stack.step_time_s" = ["1ms"]', ["'stack.step_time_s'", "text"]),
        ("[set]\nstack.step_time_s = true", ["'stack.step_time_s'", "True"]),
        ('[set]\nstack.nope = "1ms"', ["stack.nope"]),
        ("[origins]\nx = 5", ["origins", "'x'"]),
        ('[origins."h100-sxm"]\n"stack.step_time_s" = { value = nan }', ["'stack.step_time_s'", "no value"]),
    ],
)
def test_what_a_file_cannot_say_is_one_error(tmp_path: Path, content: str, parts: list[str]) -> None:
    path = tmp_path / "s.toml"
    head = HEAD if "systems" not in content else HEAD.splitlines()[0] + "\n"
    path.write_text(head + content)
    message = refused("decode", str(path))
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize("written", ["stack.step_time_s", '"stack.step_time_s"'])
def test_a_path_of_an_input_needs_no_quotes(tmp_path: Path, written: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'{HEAD}[set]\n{written} = "1ms"\n')
    read = invoke("decode", str(path), "--json").document
    job = ("decode", "llama-3.1-8b", "--on", "h100-sxm", "--tp", "1", "--set", "stack.step_time_s=1ms")
    asked = invoke(*job, "--json").document
    assert read["rows"] == asked["rows"]


def test_a_saved_scenario_finds_its_model_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "models" / "mine"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "saved").mkdir()
    monkeypatch.chdir(tmp_path)
    flags = ("--on", "h100-sxm", "--save", "saved/s.toml", "--json")
    first = invoke("decode", "models/mine", *flags).document
    assert 'model = "../models/mine"' in (tmp_path / "saved" / "s.toml").read_text()
    monkeypatch.chdir("/")
    again = invoke("decode", str(tmp_path / "saved" / "s.toml"), "--json").document
    assert again["rows"] == first["rows"]


def test_a_quantisation_file_is_found_beside_a_config_with_a_prefix(tmp_path: Path) -> None:
    (tmp_path / "mine_config.json").write_text(json.dumps(CONFIG))
    plain = invoke("decode", str(tmp_path / "mine_config.json"), "--on", "h100-sxm", "--json").document["rows"][0]
    (tmp_path / "mine_hf_quant_config.json").write_text(json.dumps(QUANTISATION))
    found = invoke("decode", str(tmp_path / "mine_config.json"), "--on", "h100-sxm", "--json").document["rows"][0]
    assert found["model"] == plain["model"] == "mine"
    assert found["weights_s"] < 0.6 * plain["weights_s"]


@pytest.mark.parametrize(
    ("saved", "stated"),
    [
        ((), ("--isl", "4096", "--osl", "512")),
        (("--context", "2048"), ("--isl", "4096", "--osl", "512")),
        (("--isl", "4096", "--osl", "512"), ("--context", "2048")),
        (("--isl", "4096", "--osl", "512"), ("--osl", "100")),
        ((), ("--phase", "prefill", "--isl", "4096")),
    ],
)
def test_lengths_that_flags_state_replace_those_of_the_file(
    tmp_path: Path, saved: tuple[str, ...], stated: tuple[str, ...]
) -> None:
    path = str(tmp_path / "s.toml")
    asked = ("decode", "llama-3.1-8b", "--on", "h100-sxm")
    assert invoke(*asked, *saved, "--save", path).code == 0
    full = stated if stated[0] != "--osl" else ("--isl", "4096", *stated)
    assert (
        invoke("decode", path, *stated, "--json").document["rows"] == invoke(*asked, *full, "--json").document["rows"]
    )

"""Wrappers of text models, parts that are left out, and one error for each field that is missing or cannot be."""

from __future__ import annotations

import copy
import json

import pytest
from tests.unit.transformer_configs import HYBRID, LATENT, MAMBA, Config, D, read, refused, wrapped

from nhalf.catalog import files
from nhalf.errors import InputError
from nhalf.transformer import GroupedQueryAttention, from_config

# ---------------------------------------------------------------------------------------------------------- wrappers


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        ("Qwen3VLForConditionalGeneration", {}),
        ("Mistral3ForConditionalGeneration", {}),
        ("Gemma3ForConditionalGeneration", {"sliding_window": 8}),
        ("KimiK25ForConditionalGeneration", LATENT),
        ("Qwen3_5ForConditionalGeneration", HYBRID),
    ],
)
def test_a_wrapper_is_its_text_model_and_says_what_is_left_out(architecture: str, changes: Config) -> None:
    model = wrapped(architecture, {"vision_config": {"hidden_size": 7}}, **changes)
    assert model.hidden_size == D
    assert model.left_out == ("the vision encoder",)
    assert "'text_config'" in refused(lambda: read(architecture)).what
    error = refused(lambda: wrapped(architecture, **{**changes, "hidden_size": "absent"}))
    assert "'text_config.hidden_size'" in error.what


def test_a_wrapper_may_say_outside_what_its_text_model_does_not() -> None:
    outer: Config = {"tie_word_embeddings": True, "dtype": "float16"}
    model = wrapped("Qwen3VLForConditionalGeneration", outer, tie_word_embeddings="absent", torch_dtype="absent")
    assert model.tied_embeddings
    assert model.weight_dtype == "fp16"


def test_a_gemma3_text_config_may_leave_out_what_its_code_fixes() -> None:
    model = wrapped("Gemma3ForConditionalGeneration", vocab_size="absent", sliding_window="absent")
    assert model.vocabulary_size == 262_208
    attentions = [part.attention for part in model.cache_parts()]
    assert [each.window for each in attentions if isinstance(each, GroupedQueryAttention)] == [4096]


@pytest.mark.parametrize(
    ("field", "count"), [("num_nextn_predict_layers", 1), ("mtp_num_hidden_layers", 1), ("num_mtp_modules", 3)]
)
def test_heads_that_predict_further_tokens_are_left_out_and_said_to_be(field: str, count: int) -> None:
    plain, drafting = read("LlamaForCausalLM"), read("LlamaForCausalLM", **{field: count})
    assert drafting.parameters == plain.parameters
    assert drafting.left_out == (f"the heads that predict further tokens ({field} = {count})",)
    assert plain.left_out == read("LlamaForCausalLM", **{field: 0}).left_out == ()


# ------------------------------------------------------------------------------------------------------------ errors


NEEDED: list[tuple[str, Config, str]] = [
    *[("DeepseekV3ForCausalLM", LATENT, field) for field in LATENT if field not in {"q_lora_rank", "n_shared_experts",
                                                                                  "topk_method"}],
    *[("Qwen3NextForCausalLM", {**HYBRID, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 20}, f)
      for f in HYBRID if f != "mamba_ssm_dtype"],
    *[("NemotronHForCausalLM", MAMBA, field) for field in MAMBA if field not in {"use_conv_bias", "n_shared_experts"}],
    ("MixtralForCausalLM", {"num_local_experts": 8, "num_experts_per_tok": 2}, "num_local_experts"),
    ("MixtralForCausalLM", {"num_local_experts": 8, "num_experts_per_tok": 2}, "num_experts_per_tok"),
    ("GptOssForCausalLM", {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": 8}, "sliding_window"),
    ("DeciLMForCausalLM", {"block_configs": []}, "block_configs"),
]  # fmt: skip


@pytest.mark.parametrize(("architecture", "changes", "field"), NEEDED)
def test_a_field_that_a_family_needs_is_named_when_it_is_missing(
    architecture: str, changes: Config, field: str
) -> None:
    error = refused(lambda: read(architecture, **{**changes, field: "absent"}))
    assert f"'{field}'" in error.what
    assert "missing" in error.what
    assert error.allowed


@pytest.mark.parametrize(
    ("architecture", "changes", "field"),
    [
        ("LlamaForCausalLM", {"num_hidden_layers": 1_000_000_000}, "num_hidden_layers"),
        ("MixtralForCausalLM", {"num_local_experts": 2, "num_experts_per_tok": 3}, "num_experts_per_tok"),
        ("Gemma3ForCausalLM", {"sliding_window": 8, "layer_types": ["full_attention"]}, "layer_types"),
        ("Gemma3ForCausalLM", {"sliding_window": 8, "layer_types": ["magic"] * 4}, "layer_types"),
        ("Gemma3ForCausalLM", {"sliding_window": 8, "layer_types": "full_attention"}, "layer_types"),
        ("Qwen3NextForCausalLM", {**HYBRID, "layer_types": ["sliding_attention"] * 4, "num_experts": 8,
                                  "num_experts_per_tok": 2, "moe_intermediate_size": 20}, "layer_types"),
        ("NemotronHForCausalLM", {**MAMBA, "hybrid_override_pattern": "M-*"}, "hybrid_override_pattern"),
        ("NemotronHForCausalLM", {**MAMBA, "hybrid_override_pattern": "M-*Z"}, "hybrid_override_pattern"),
        ("NemotronHForCausalLM", {**MAMBA, "hybrid_override_pattern": 4}, "hybrid_override_pattern"),
        ("NemotronHForCausalLM", {**MAMBA, "layers_block_type": ["mamba"] * 3 + ["magic"]}, "layers_block_type"),
        ("NemotronHForCausalLM", {**MAMBA, "mamba_ssm_cache_dtype": "int3"}, "mamba_ssm_cache_dtype"),
        ("DeciLMForCausalLM", {"block_configs": [{"attention": {"n_heads_in_group": 3}, "ffn": {"no_op": True}}] * 4},
         "block_configs[0].attention.n_heads_in_group"),
        ("DeciLMForCausalLM", {"block_configs": [{"attention": {"no_op": True}, "ffn": {"ffn_mult": -1}}] * 4},
         "block_configs[0].ffn.ffn_mult"),
        ("DeciLMForCausalLM", {"block_configs": [{"attention": {"replace_with_linear": True}, "ffn": {}}] * 4},
         "block_configs[0].attention.replace_with_linear"),
        ("DeciLMForCausalLM", {"block_configs": [7] * 4}, "block_configs[0]"),
        ("MiniMaxM2ForCausalLM", {"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 9},
         "shared_intermediate_size"),
        ("Qwen3MoeForCausalLM", {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                                 "mlp_only_layers": "none"}, "mlp_only_layers"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_is_named(architecture: str, changes: Config, field: str) -> None:
    error = refused(lambda: read(architecture, **changes))
    assert f"'{field}'" in error.what
    assert error.allowed


@pytest.mark.parametrize("field", ["num_kv_shared_layers", "hidden_size_per_layer_input"])
def test_what_gemma4_may_have_and_is_not_modelled_is_refused(field: str) -> None:
    error = refused(lambda: wrapped("Gemma4ForConditionalGeneration", None, sliding_window=8, **{field: 1}))
    assert f"'text_config.{field}'" in error.what


def test_an_unknown_architecture_is_refused_with_how_to_describe_it() -> None:
    error = refused(lambda: read("RwkvForCausalLM"))
    assert "'architectures'" in error.what
    assert "TOML" in error.do
    assert "[[layers]]" in error.do


WRONG: list[object] = [None, -1, 1.5, "x", [], {}, True, [7], 10**400, float("nan")]
READ = ["deepseek-v3.2", "gemma-4-31b-nvfp4", "gpt-oss-20b", "kimi-k2.5", "llama-4-scout", "nemotron-3-nano-30b-a3b",
        "nemotron-super-49b", "qwen3-235b-a22b-fp8", "qwen3.5-35b-a3b"]  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_whatever_a_field_says_there_is_a_model_or_one_error_that_names_a_field(name: str) -> None:
    config = json.loads(files.text(f"models/{name}.json"))
    for path in _paths(config):
        for wrong in WRONG:
            changed = copy.deepcopy(config)
            table = changed
            for key in path[:-1]:
                table = table[key]
            table[path[-1]] = wrong
            try:
                assert from_config(changed, name="m", where="config.json").parameters > 0
            except InputError as error:
                assert error.where == "config.json"  # noqa: PT017  the other outcome is just as good
                assert "field '" in error.what  # noqa: PT017


def _paths(table: Config) -> list[tuple[str, ...]]:
    """Return the paths of every field, those of tables inside too."""
    found: list[tuple[str, ...]] = []
    for key, value in table.items():
        found.append((key,))
        if isinstance(value, dict):
            found += [(key, *inner) for inner in _paths(value)]
    return found

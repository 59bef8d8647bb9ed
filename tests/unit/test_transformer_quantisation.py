"""Quantisation: each way in which checkpoints say what is stored how, with the modules they leave out."""

from __future__ import annotations

from typing import Any

import pytest

from nhalf.errors import InputError
from nhalf.transformer import Transformer, from_config

Config = dict[str, Any]

DENSE: Config = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}
MOE: Config = {
    **DENSE,
    "architectures": ["DeepseekV3ForCausalLM"],
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_routed_experts": 16,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 20,
    "first_k_dense_replace": 1,
}
FFN = 3 * 64 * 96


def read(config: Config, quantised: object, beside: Config | None = None) -> Transformer:
    more = {} if quantised is None else {"quantization_config": quantised}
    return from_config({**config, **more}, beside, name="m", where="config.json")


def refused(quantised: object, beside: Config | None = None) -> InputError:
    with pytest.raises(InputError) as caught:
        read(DENSE, quantised, beside)
    assert caught.value.where == "config.json"
    return caught.value


def amounts(model: Transformer, dtype: str) -> dict[str, float]:
    """Return the parameters stored in a dtype, by group."""
    found: dict[str, float] = {}
    for group in model.weights():
        if group.dtype == dtype:
            found[group.name] = found.get(group.name, 0.0) + group.parameters
    return found


def inside(*ignored: str, algorithm: str = "NVFP4", **more: object) -> Config:
    return {"quant_method": "modelopt", "quant_algo": algorithm, "ignore": list(ignored), **more}


def beside(*excluded: str, algorithm: str | None = "NVFP4", **more: object) -> Config:
    return {"quantization": {"quant_algo": algorithm, "exclude_modules": list(excluded), **more}}


def compressed(bits: int, kind: str, *ignored: str, **more: object) -> Config:
    weights = {"num_bits": bits, "type": kind, **more}
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": list(ignored)}


# ----------------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize(
    ("quantised", "dtype", "bytes_per_parameter"),
    [
        ({"quant_method": "fp8"}, "fp8", 1.0),
        ({"quant_method": "fbgemm_fp8"}, "fp8", 1.0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 1 + 4 / 128**2),
        ({"quant_method": "mxfp4"}, "mxfp4", 0.5 + 1 / 32),
        (compressed(8, "float"), "fp8", 1.0),
        (compressed(8, "float", block_structure=[128, 128]), "fp8", 1 + 4 / 128**2),
        (compressed(4, "float", group_size=16), "nvfp4", 0.5 + 1 / 16),
        (compressed(4, "float", group_size=32), "mxfp4", 0.5 + 1 / 32),
        (compressed(4, "int", group_size=32), "int4", 0.5 + 2 / 32),
        (compressed(4, "int", group_size=128), "int4", 0.5 + 2 / 128),
        (compressed(4, "int"), "int4", 0.5),
        (compressed(8, "int"), "int8", 1.0),
        (inside(), "nvfp4", 0.5 + 1 / 16),
        (inside(algorithm="FP8"), "fp8", 1.0),
        (inside(algorithm="FP8_PB_WO"), "fp8", 1 + 4 / 128**2),
        (inside(algorithm="W4A16_AWQ"), "int4", 0.5 + 2 / 128),
        (inside(algorithm="INT4_AWQ", group_size=64), "int4", 0.5 + 2 / 64),
        ({**compressed(4, "float", group_size=16), "quant_method": "modelopt"}, "nvfp4", 0.5 + 1 / 16),
    ],
)
def test_a_format_has_its_bytes_with_their_scales(quantised: Config, dtype: str, bytes_per_parameter: float) -> None:
    model = read(DENSE, quantised)
    assert model.weight_dtype == dtype
    assert amounts(model, dtype)["feed-forward"] == 3 * FFN
    (group,) = [each for each in model.weights() if each.name == "feed-forward"]
    assert group.bytes_per_parameter == pytest.approx(bytes_per_parameter, rel=1e-12)


def test_a_config_without_quantisation_stores_everything_in_its_dtype() -> None:
    model = read(DENSE, None)
    assert {group.dtype for group in model.weights()} == {"bf16"}
    assert (model.weight_dtype, model.kv_dtype) == ("bf16", "bf16")


@pytest.mark.parametrize("quantised", [{"quant_method": "fp8"}, inside(), compressed(4, "int", group_size=32)])
def test_router_norms_head_and_embeddings_are_never_quantised(quantised: Config) -> None:
    left = amounts(read(MOE, quantised), "bf16")
    assert {"router", "norms", "output head", "embeddings", "vectors"} == set(left)


# ---------------------------------------------------------------------------------------------------------- excluded


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        (["lm_head"], {}),
        (["model.layers.1.mlp.up_proj"], {"feed-forward": FFN / 3}),
        (["model.layers.1.mlp"], {"feed-forward": FFN}),  # a module and all below it
        (["model.layers.1.mlp*"], {"feed-forward": FFN}),
        (["*mlp.up_proj"], {"feed-forward": FFN}),
        (["up_proj"], {"feed-forward": FFN}),  # what is above may be left out
        (["model.layers.*.self_attn"], {"attention": 3 * 2 * 64 * 64, "attention keys and values": 3 * 2 * 64 * 16}),
        (["*self_attn*"], {"attention": 3 * 2 * 64 * 64, "attention keys and values": 3 * 2 * 64 * 16}),
        (["up", "self_att", "model.layers.10*", "mlp.down"], {}),  # a part of a name is no name
        (["model.layers.1*", "lm_head"], {"feed-forward": FFN, "attention": 2 * 64 * 64,
                                          "attention keys and values": 2 * 64 * 16}),
    ],
)  # fmt: skip
def test_what_a_list_names_keeps_its_dtype(ignored: list[str], left: dict[str, float]) -> None:
    always = {"norms", "output head", "embeddings"}
    found = amounts(read(DENSE, inside(*ignored)), "bf16")
    assert {name: count for name, count in found.items() if name not in always} == left
    assert read(DENSE, None, beside(*ignored)).weights() == read(DENSE, inside(*ignored)).weights()
    fp8 = read(DENSE, {"quant_method": "fp8", "modules_to_not_convert": ignored})
    assert {name: count for name, count in amounts(fp8, "bf16").items() if name not in always} == left


def test_gate_is_the_router_and_no_gate_projection() -> None:
    quantised = {"quant_method": "fp8", "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"]}
    assert amounts(read(MOE, quantised), "bf16") == amounts(read(MOE, {"quant_method": "fp8"}), "bf16")


def test_expressions_name_modules_as_compressed_tensors_writes_them() -> None:
    ignored = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]
    model = read(MOE, compressed(4, "int", *ignored, group_size=32))
    assert amounts(model, "int4") == {"experts": 2 * 16 * 3 * 64 * 20}  # and nothing else, the dense layer neither
    assert "feed-forward" in amounts(model, "bf16")


@pytest.mark.parametrize(
    ("architecture", "names", "group"),
    [
        ("MixtralForCausalLM", ["model.layers.*.block_sparse_moe.experts.*.w1"], "experts"),
        ("Qwen3MoeForCausalLM", ["model.layers.*.mlp.experts.*.gate_proj"], "experts"),
        ("GptOssForCausalLM", ["model.layers.*.mlp.experts.gate_proj"], "experts"),
        ("Llama4ForCausalLM", ["model.layers.*.feed_forward.experts.gate_proj"], "experts"),
        ("Llama4ForCausalLM", ["model.layers.*.feed_forward.shared_expert.gate_proj"], "shared expert"),
        ("Llama4ForCausalLM", ["model.layers.*.feed_forward.gate_proj"], "feed-forward"),
        ("NemotronHForCausalLM", ["backbone.layers.*.mixer.experts.*.up_proj"], "experts"),
        ("NemotronHForCausalLM", ["backbone.layers.*.mixer.shared_experts.up_proj"], "shared expert"),
        ("NemotronHForCausalLM", ["backbone.layers.*.mixer.out_proj"], "state space"),
        ("NemotronHForCausalLM", ["backbone.layers.*.mixer.q_proj"], "attention"),
    ],
)
def test_modules_are_called_as_the_family_calls_them(architecture: str, names: list[str], group: str) -> None:
    config = {
        **MOE,
        "architectures": [architecture],
        "num_hidden_layers": 4,
        "num_local_experts": 4,
        "num_experts": 4,
        "intermediate_size_mlp": 160,
        "interleave_moe_layer_step": 2,
        "sliding_window": 8,
        "hybrid_override_pattern": "ME*-",
        "moe_shared_expert_intermediate_size": 40,
        **dict.fromkeys(("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size"), 8),
        "conv_kernel": 4,
    }
    plain, left = read(config, inside("lm_head")), read(config, inside("lm_head", *names))
    assert amounts(left, "bf16").get(group, 0.0) > amounts(plain, "bf16").get(group, 0.0)
    assert amounts(left, "nvfp4")[group] < amounts(plain, "nvfp4")[group]


def test_mixed_precision_names_the_format_of_each_module() -> None:
    layers = {
        "model.layers.0.mlp.up_proj": {"quant_algo": "FP8"},
        "model.layers.1.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "model.layers.2.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
    }
    model = read(DENSE, None, beside(algorithm="MIXED_PRECISION", quantized_layers=layers))
    assert model.weight_dtype == "nvfp4"
    assert amounts(model, "fp8") == {"feed-forward": FFN / 3}
    assert amounts(model, "nvfp4") == {"feed-forward": 2 * FFN / 3}


def test_groups_with_targets_come_before_the_one_for_everything() -> None:
    config = compressed(4, "float", group_size=16)
    fp8 = {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}}
    config["config_groups"]["group_1"] = fp8
    model = read(DENSE, config)
    assert set(amounts(model, "fp8")) == {"attention", "attention keys and values"}
    assert set(amounts(model, "nvfp4")) == {"feed-forward"}


# ------------------------------------------------------------------------------------------------------------- cache


@pytest.mark.parametrize(
    ("quantised", "outside", "kv"),
    [
        (inside(), None, "bf16"),
        (inside(kv_cache_quant_algo="FP8"), None, "fp8"),
        (inside(kv_cache_scheme={"num_bits": 8, "type": "float"}), None, "fp8"),
        (compressed(4, "int", group_size=32) | {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, None, "int8"),
        (None, beside(kv_cache_quant_algo="FP8"), "fp8"),
        (None, beside(kv_cache_quant_algo=None), "bf16"),
        (None, beside(algorithm=None, kv_cache_quant_algo="FP8"), "fp8"),
    ],
)
def test_the_cache_has_the_dtype_that_the_checkpoint_says(quantised: object, outside: Config | None, kv: str) -> None:
    assert read(DENSE, quantised, outside).kv_dtype == kv


def test_only_the_cache_may_be_quantised() -> None:
    model = read(DENSE, None, beside(algorithm=None, kv_cache_quant_algo="FP8"))
    assert (model.weight_dtype, model.kv_dtype) == ("bf16", "fp8")
    assert {group.dtype for group in model.weights()} == {"bf16"}


def test_a_wrappers_quantisation_may_stand_outside_its_text_model() -> None:
    text = {key: value for key, value in DENSE.items() if key != "architectures"}
    config = {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "text_config": text,
        "quantization_config": inside("lm_head", "model.language_model.layers.0.mlp*", "model.visual*"),
    }
    model = from_config(config, name="m", where="config.json")
    assert amounts(model, "nvfp4")["feed-forward"] == 2 * FFN


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("quantised", "field"),
    [
        ({"quant_method": "gguf"}, "quantization_config.quant_method"),
        (["fp8"], "quantization_config.quant_method"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "quantization_config.weight_block_size"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "quantization_config.weight_block_size"),
        ({"quant_method": "fp8", "modules_to_not_convert": "lm_head"}, "quantization_config.modules_to_not_convert"),
        (inside(algorithm="INT3"), "quantization_config.quant_algo"),
        (inside(kv_cache_quant_algo="NVFP4"), "quantization_config.kv_cache_quant_algo"),
        (inside(kv_cache_scheme={"num_bits": 4, "type": "float"}), "quantization_config.kv_cache_scheme"),
        (inside(algorithm="MIXED_PRECISION"), "quantization_config.quantized_layers"),
        (inside(algorithm="MIXED_PRECISION", quantized_layers={}), "quantization_config.quantized_layers"),
        (inside(algorithm="MIXED_PRECISION", quantized_layers={"a": {}}),
         "quantization_config.quantized_layers.a.quant_algo"),
        ({"quant_method": "compressed-tensors"}, "quantization_config.config_groups"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "quantization_config.config_groups"),
        (compressed(3, "int"), "quantization_config.config_groups.group_0.weights.num_bits"),
        (compressed(4, "complex"), "quantization_config.config_groups.group_0.weights.type"),
        (compressed(4, "int", "re:("), "quantization_config.ignore"),
        ({**compressed(4, "int"), "ignore": [7]}, "quantization_config.ignore"),
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_is_named(quantised: object, field: str) -> None:
    error = refused(quantised)
    assert f"'{field}'" in error.what
    assert error.allowed


@pytest.mark.parametrize("content", [{}, {"quantization": 7}, {"quantization": {"quant_algo": "INT3"}}])
def test_a_file_beside_the_config_is_named_in_its_errors(content: Config) -> None:
    assert "hf_quant_config.json: quantization" in refused(None, content).what

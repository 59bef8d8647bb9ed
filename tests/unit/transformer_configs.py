"""Small configs of every family, read as config.json files are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nhalf.errors import InputError
from nhalf.transformer import Transformer, from_config

if TYPE_CHECKING:
    from collections.abc import Callable

Config = dict[str, Any]

D = 64
BASE: Config = {
    "hidden_size": D,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
ATTENTION = D * 16 * (8 + 2 + 2 + 8)
LATENT: Config = {
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
    "topk_method": "noaux_tc",
}
HYBRID: Config = {
    "full_attention_interval": 4,
    "linear_num_value_heads": 8,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
}
MAMBA: Config = {
    "hybrid_override_pattern": "M-*E",
    "mamba_num_heads": 8,
    "mamba_head_dim": 8,
    "n_groups": 2,
    "ssm_state_size": 16,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 20,
    "moe_shared_expert_intermediate_size": 40,
}


def read(architecture: str, **changes: Any) -> Transformer:  # noqa: ANN401  any value a JSON file may hold
    config = {"architectures": [architecture], **BASE, **changes}
    present = {key: value for key, value in config.items() if value != "absent"}
    return from_config(present, name="m", where="config.json")


def wrapped(architecture: str, outer: Config | None = None, **changes: Any) -> Transformer:  # noqa: ANN401  as above
    text = {key: value for key, value in {**BASE, **changes}.items() if value != "absent"}
    config = {"architectures": [architecture], "text_config": text, **(outer or {})}
    return from_config(config, name="m", where="config.json")


def refused(call: Callable[[], object]) -> InputError:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.where == "config.json"
    return caught.value


def blocks(model: Transformer) -> int:
    """Return the parameters of the blocks, and check that the groups of weights add up to the model."""
    assert sum(group.parameters for group in model.groups) == model.parameters
    return model.layer_parameters

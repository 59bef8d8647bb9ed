"""Architectures: which family reads a config, by the name that it gives itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import NamedTuple

from nhalf.transformer import grouped_query
from nhalf.transformer.assembly import Naming
from nhalf.transformer.fields import Fields
from nhalf.transformer.grouped_query import Traits
from nhalf.transformer.model import Layer

Reader = Callable[[Fields, Traits], list[Layer]]
_PLAIN = Traits()
_PLAIN_NAMES = Naming()


def _compound(name: str, module: str = "hybrid") -> Reader:
    """Return a reader of a module that is imported when it reads: most models need none of it."""

    def read(fields: Fields, traits: Traits) -> list[Layer]:
        reader: Reader = getattr(import_module(f"nhalf.transformer.{module}"), name)
        return reader(fields, traits)

    return read


class Family(NamedTuple):
    """How the config of an architecture is read.

    `defaults` are values that the family's own code gives to fields which its published configs may leave out; `text`
    says that the language model is described by text_config, beside an encoder of `senses`.
    """

    read: Reader
    traits: Traits = _PLAIN
    naming: Naming = _PLAIN_NAMES
    tied: bool = False
    text: bool = False
    senses: str = ""
    defaults: Mapping[str, int] = MappingProxyType({})


_INSIDE = "model.language_model.layers"
_FIRST = "language_model.model.layers"
_MIXTRAL = (("mlp.", "block_sparse_moe."), ("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2"))
_GPT_OSS = (("mlp.gate", "mlp.router"), ("experts.0.", "experts."))
_LLAMA4 = (("mlp.gate", "mlp.router"), ("router_proj", "gate_proj"), ("shared_experts", "shared_expert"),
           ("mlp.", "feed_forward."), ("experts.0.", "experts."))  # fmt: skip
_QWEN = (("shared_experts", "shared_expert"),)
_KIMI = (("linear_attn.", "self_attn."), ("mlp.experts", "block_sparse_moe.experts"),
         ("mlp.shared_experts", "block_sparse_moe.shared_experts"))  # fmt: skip
_NEMOTRON = (("self_attn.", "mixer."), ("mamba.", "mixer."), ("mlp.", "mixer."))

_VISION = "the vision encoder"
_SENSES = "the encoders of images and sound"
_QWEN2 = Traits(biased="inputs", windows="upper")
_QWEN3 = Traits(normed="per head", windows="upper")
_HYBRID = Traits(normed="per head")
_MISTRAL = Traits(biased="none", windows="always")
_GEMMA = Traits(norms=4, windows="alternate")
_GEMMA3 = Traits(norms=4, normed="per head", windows="pattern")
_GEMMA3_DEFAULTS = {
    "vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
}  # fmt: skip
"""What Hugging Face transformers gives a Gemma 3 text_config that leaves these out, as the published ones do."""

FAMILIES: dict[str, Family] = {
    "LlamaForCausalLM": Family(read=grouped_query.dense, traits=_PLAIN),
    "Qwen3ForCausalLM": Family(read=grouped_query.dense, traits=_QWEN3),
    "Qwen2ForCausalLM": Family(read=grouped_query.dense, traits=_QWEN2),
    "MiMoForCausalLM": Family(read=grouped_query.dense, traits=_QWEN2),
    "MistralForCausalLM": Family(read=grouped_query.dense, traits=_MISTRAL),
    "Gemma2ForCausalLM": Family(read=grouped_query.dense, traits=_GEMMA, tied=True),
    "Gemma3ForCausalLM": Family(read=grouped_query.dense, traits=_GEMMA3, tied=True, defaults=_GEMMA3_DEFAULTS),
    "Gemma3ForConditionalGeneration": Family(
        read=grouped_query.dense, traits=_GEMMA3, naming=Naming(layers=_INSIDE), tied=True, text=True, senses=_VISION,
        defaults=_GEMMA3_DEFAULTS,
    ),
    "Gemma4ForConditionalGeneration": Family(
        read=_compound("gemma4", "two_shapes"), traits=_GEMMA3, naming=Naming(layers=_INSIDE), tied=True, text=True,
        senses=_SENSES,
    ),
    "Mistral3ForConditionalGeneration": Family(
        read=grouped_query.dense, traits=_MISTRAL, naming=Naming(layers=_INSIDE), text=True, senses=_VISION
    ),
    "DeciLMForCausalLM": Family(read=_compound("searched"), traits=_PLAIN),
    "MixtralForCausalLM": Family(read=grouped_query.mixtral, traits=_MISTRAL, naming=Naming(renames=_MIXTRAL)),
    "MiniMaxM2ForCausalLM": Family(
        read=grouped_query.mixtral, traits=Traits(biased="none", normed="all"), naming=Naming(renames=_MIXTRAL)
    ),
    "Qwen2MoeForCausalLM": Family(read=grouped_query.qwen_moe, traits=_QWEN2, naming=Naming(renames=_QWEN)),
    "Qwen3MoeForCausalLM": Family(read=grouped_query.qwen_moe, traits=_QWEN3, naming=Naming(renames=_QWEN)),
    "GptOssForCausalLM": Family(read=grouped_query.gpt_oss, traits=Traits(sinks=True, windows="alternate"),
                                naming=Naming(renames=_GPT_OSS)),
    "Llama4ForConditionalGeneration": Family(
        read=grouped_query.llama4, traits=Traits(windows="chunks"), naming=Naming(layers=_FIRST, renames=_LLAMA4),
        text=True, senses=_VISION,
    ),
    "Llama4ForCausalLM": Family(
        read=grouped_query.llama4, traits=Traits(windows="chunks"), naming=Naming(renames=_LLAMA4)
    ),
    "Glm4MoeForCausalLM": Family(read=grouped_query.glm4_moe, traits=Traits(biased="flagged-inputs", normed="flag")),
    "DeepseekV2ForCausalLM": Family(read=_compound("deepseek", "deepseek")),
    "DeepseekV3ForCausalLM": Family(read=_compound("deepseek", "deepseek")),
    "DeepseekV32ForCausalLM": Family(read=_compound("deepseek_sparse", "deepseek")),
    "GlmMoeDsaForCausalLM": Family(read=_compound("deepseek_sparse", "deepseek")),
    "DeepseekV4ForCausalLM": Family(read=_compound("deepseek_v4", "deepseek")),
    "KimiLinearForCausalLM": Family(read=_compound("kimi_linear", "deepseek"), naming=Naming(renames=_KIMI)),
    "KimiK3ForConditionalGeneration": Family(
        read=_compound("kimi_linear", "deepseek"), naming=Naming(layers=_FIRST, renames=_KIMI), text=True,
        senses=_VISION,
    ),
    "MiMoV2FlashForCausalLM": Family(read=_compound("mimo_v2", "two_shapes")),
    "MiMoV2ForCausalLM": Family(read=_compound("mimo_v2", "two_shapes"), senses=_SENSES),
    "Step3p5ForCausalLM": Family(read=_compound("step", "two_shapes"), traits=_HYBRID),
    "Step3p7ForConditionalGeneration": Family(
        read=_compound("step", "two_shapes"), traits=_HYBRID, naming=Naming(layers=_INSIDE), text=True, senses=_VISION
    ),
    "MiniMaxM3SparseForConditionalGeneration": Family(
        read=_compound("minimax_m3", "two_shapes"), traits=_HYBRID, naming=Naming(layers=_FIRST, renames=_MIXTRAL),
        text=True, senses=_VISION,
    ),
    "KimiK25ForConditionalGeneration": Family(
        read=_compound("deepseek", "deepseek"), naming=Naming(layers=_FIRST), text=True, senses=_VISION
    ),
    "Qwen3NextForCausalLM": Family(read=_compound("qwen_hybrid_moe"), traits=_HYBRID, naming=Naming(renames=_QWEN)),
    "Qwen3_5ForConditionalGeneration": Family(
        read=_compound("qwen_hybrid"), traits=_HYBRID, naming=Naming(layers=_INSIDE, renames=_QWEN), text=True,
        senses=_VISION,
    ),
    "Qwen3_5MoeForConditionalGeneration": Family(
        read=_compound("qwen_hybrid_moe"), traits=_HYBRID, naming=Naming(layers=_INSIDE, renames=_QWEN), text=True,
        senses=_VISION,
    ),
    "Qwen3VLForConditionalGeneration": Family(
        read=grouped_query.dense, traits=_QWEN3, naming=Naming(layers=_INSIDE), text=True, senses=_VISION
    ),
    "Qwen3VLMoeForConditionalGeneration": Family(
        read=grouped_query.qwen_moe,
        traits=_QWEN3,
        naming=Naming(layers=_INSIDE, renames=_QWEN),
        text=True,
        senses=_VISION,
    ),
    "NemotronHForCausalLM": Family(
        read=_compound("nemotron_h"), traits=_PLAIN, naming=Naming(layers="backbone.layers", renames=_NEMOTRON)
    ),
}  # fmt: skip
"""Every architecture that is read, as `architectures` of a config.json names it."""

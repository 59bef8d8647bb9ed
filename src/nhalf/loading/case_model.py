"""The model that a cell of a table names, whoever quantised it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.loading.model import transformer_of

if TYPE_CHECKING:
    from nhalf.transformer import Transformer

_ONE_BYTE = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_block", "fp8_static", "fp8_ootb", "w8a8", "float8")
DTYPES = {
    **dict.fromkeys(_ONE_BYTE, "fp8"),
    **dict.fromkeys(("bfloat16", "bf16", "float16", "fp16", "half"), "bf16"),
    **dict.fromkeys(("w4a16_mxfp4", "w4a8_mxfp4_mxfp8", "mxfp4"), "mxfp4"),
    **dict.fromkeys(("int4", "int4_wo", "w4a16", "w4afp8", "awq", "gptq"), "int4"),
    **dict.fromkeys(("nvfp4", "fp4"), "nvfp4"),
    **dict.fromkeys(("int8", "int8_wo", "w8a16"), "int8"),
}
"""The dtypes that a table may name, by every spelling that is known."""
_SUFFIX = re.compile(
    r"(?P<base>.+?)-(?P<dtype>FP8|NVFP4|FP4|MXFP4|AWQ|GPTQ|INT4|INT8|W8A8|W4A16)(?:-.*)?", re.IGNORECASE
)
"""How the names of quantised repositories end."""
_MAKERS = (
    "deepseek-ai",
    "google",
    "meta-llama",
    "MiniMaxAI",
    "mistralai",
    "moonshotai",
    "nvidia",
    "openai",
    "Qwen",
    "XiaomiMiMo",
    "zai-org",
)
"""Under whose name a base model is known that someone else quantised."""


def model_of(name: str) -> tuple[Transformer, str]:
    """Return the model that a name means, and the dtype that the end of the name states, or an empty string.

    A quantised repository that the catalogue does not hold is its base model in another dtype: `nvidia/GLM-5-NVFP4`.

    Raises
    ------
    InputError
        Neither the name nor its base is known.
    """
    try:
        return transformer_of(name), ""
    except InputError:
        stated = _SUFFIX.fullmatch(name.rpartition("/")[2])
        if stated is None:
            raise
        base = stated["base"]
        for known in (base, base.removesuffix("-Instruct"), *(f"{maker}/{base}" for maker in _MAKERS)):
            try:
                return transformer_of(known), DTYPES[stated["dtype"].lower().replace("-", "")]
            except InputError:
                continue
        raise

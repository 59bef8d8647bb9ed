"""Number formats: every spelling that tables and flags use, and the name of each here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

_ONE_BYTE: Final = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_block", "fp8_static", "fp8_ootb", "w8a8", "float8")
DTYPES: Final = {
    **dict.fromkeys(_ONE_BYTE, "fp8"),
    **dict.fromkeys(("bfloat16", "bf16", "float16", "fp16", "half"), "bf16"),
    **dict.fromkeys(("w4a16_mxfp4", "w4a8_mxfp4_mxfp8", "mxfp4"), "mxfp4"),
    **dict.fromkeys(("int4", "int4_wo", "w4a16", "w4afp8", "awq", "gptq"), "int4"),
    **dict.fromkeys(("nvfp4", "fp4"), "nvfp4"),
    **dict.fromkeys(("int8", "int8_wo", "w8a16"), "int8"),
}
"""The dtypes that a table may name, by every spelling that is known."""


def known(name: str, dtypes: Mapping[str, float], flag: str) -> str:
    """Return a dtype by its name, whatever its case.

    Raises
    ------
    InputError
        It is none of `dtypes`.
    """
    lowered = name.lower().replace("bfloat16", "bf16").replace("float16", "fp16")
    if lowered not in dtypes:
        raise InputError(
            f"{name!r} is not a dtype read here", where=flag, allowed=", ".join(dtypes), do=did_you_mean(name, dtypes)
        )
    return lowered

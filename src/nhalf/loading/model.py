"""Models: a name of the catalogue, or a config.json with what lies beside it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf.catalog import store
from nhalf.catalog.naming import checkpoint_in
from nhalf.errors import InputError
from nhalf.files.reading import read_json, read_toml
from nhalf.loading.dtypes import DTYPES
from nhalf.transformer import from_config, from_description

if TYPE_CHECKING:
    from nhalf.transformer import Transformer

CONFIG: Final = "config.json"
QUANTISATION: Final = "hf_quant_config.json"
"""The file in which some quantisers say what they did, beside config.json; a prefix is of both: 8b_config.json."""
_ALLOWED: Final = "a name of `nhalf catalog models`, a config.json or its folder, or a description in TOML"
_SHOWN: Final = 60
_SUFFIX: Final = re.compile(
    r"(?P<base>.+?)-(?P<dtype>FP8|NVFP4|FP4|MXFP4|AWQ|GPTQ|INT4|INT8|W8A8|W4A16)(?:-.*)?", re.IGNORECASE
)
"""How the names of quantised repositories end."""
_MAKERS: Final = (
    "deepseek-ai", "google", "meta-llama", "MiniMaxAI", "mistralai", "moonshotai", "nvidia", "openai", "Qwen",
    "XiaomiMiMo", "zai-org",
)  # fmt: skip
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


def in_dtype(model: Transformer, dtype: str) -> Transformer:
    """Return a model of the catalogue as its checkpoint in a dtype holds it, under its own name; else the model itself.

    What a quantiser would make of it by default is a guess where nobody published what one made.
    """
    name = checkpoint_in(model.name, dtype) if dtype != model.weight_dtype else ""
    return replace(store.transformer(name)[0], name=model.name) if name else model


def is_file(model: str) -> bool:
    """Tell whether a model is named by a file or a folder, and not by its name."""
    path = Path(model)
    return path.suffix in (".json", ".toml") or path.exists()


def transformer_of(model: str) -> Transformer:
    """Return a built-in model, or the one that a config.json (or its folder), or a description in TOML, tells of.

    Raises
    ------
    InputError
        A name that is not known, a file that cannot be read, or a model that it does not describe.
    """
    if not model.strip():
        raise InputError("the model is missing: the text is empty", where="MODEL", allowed=_ALLOWED)
    path = Path(model)
    try:
        if path.is_dir():
            path /= CONFIG
        is_name = not is_file(model)
    except OSError as error:  # longer than a file system takes, or in a folder that may not be looked into
        shown = model if len(model) <= _SHOWN else f"{model[:_SHOWN]}..."
        raise InputError(f"{shown}: {error.strerror or error}", where="MODEL", allowed=_ALLOWED) from error
    if is_name:
        return store.transformer(model, where="MODEL")[0]
    if path.suffix == ".toml":
        return from_description(read_toml(path, holds="a model"), where=str(path))
    config = read_json(path)
    prefix = path.name.removesuffix(CONFIG) if path.name.endswith(CONFIG) else ""
    beside = path.with_name(prefix + QUANTISATION)
    quantisation = read_json(beside) if beside.is_file() else None
    named = config.get("_name_or_path") or prefix.rstrip("-_.") or path.resolve().parent.name
    return from_config(config, quantisation, name=str(named), where=str(path))

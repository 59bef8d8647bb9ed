"""Models: a name of the catalogue, or a config.json with what lies beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nhalf.catalog import store
from nhalf.loading.files import read_json, read_toml
from nhalf.transformer import from_config, from_description

if TYPE_CHECKING:
    from nhalf.transformer import Transformer

QUANTISATION = "hf_quant_config.json"
"""The file in which some quantisers say what they did, beside config.json."""


def transformer_of(model: str) -> Transformer:
    """Return a built-in model, or the one that a config.json (or its folder), or a description in TOML, tells of.

    Raises
    ------
    InputError
        A name that is not known, a file that cannot be read, or a model that it does not describe.
    """
    path = Path(model)
    if path.is_dir():
        path /= "config.json"
    if path.suffix not in (".json", ".toml") and not path.exists():
        return store.transformer(model, where="MODEL")[0]
    if path.suffix == ".toml":
        return from_description(read_toml(path, holds="a model"), where=str(path))
    config = read_json(path)
    beside = path.with_name(QUANTISATION)
    quantisation = read_json(beside) if beside.is_file() else None
    named = config.get("_name_or_path") or path.resolve().parent.name
    return from_config(config, quantisation, name=str(named), where=str(path))

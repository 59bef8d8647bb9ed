"""Reads a Hugging Face config.json, and the hf_quant_config.json beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.errors import InputError, did_you_mean
from nhalf.transformer.architectures import FAMILIES, Family
from nhalf.transformer.assembly import Shape, assemble, stacked
from nhalf.transformer.fields import Fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.transformer.model import Transformer
    from nhalf.transformer.quantisation import Quantisation
    from nhalf.transformer.weights import Format

_DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""Fields that count the layers of heads which predict further tokens."""

_DESCRIBE = (
    "describe the model in a TOML file (name, hidden_size, vocabulary_size, and a [[layers]] table with count, "
    "attention and feed_forward for each kind of layer) and give that file instead"
)


def from_config(
    config: Mapping[str, Any], quantisation: Mapping[str, Any] | None = None, *, name: str, where: str
) -> Transformer:
    """Return the transformer that a Hugging Face config.json describes.

    `quantisation` is the content of the hf_quant_config.json beside it, where there is one; `where` names the file in
    messages.

    Raises
    ------
    InputError
        An architecture that is not read here, or a field that is missing or impossible.
    """
    outer = Fields(config, where)
    family = _family(outer)
    fields = outer.table("text_config") if family.text else outer
    if family.defaults:
        fields = Fields({**family.defaults, **fields.config}, where, fields.prefix, fields.outer)
    layers = stacked(family.read(fields, family.traits))
    shape = Shape(
        name=name,
        hidden_size=fields.count("hidden_size"),
        vocabulary_size=fields.count("vocab_size"),
        tied_embeddings=fields.tied(default=family.tied),
        left_out=_left_out(fields, family),
    )
    found = _quantisation(fields, quantisation)
    base = fields.torch_dtype()

    def formats(index: int, module: str) -> Format | None:
        return None if found is None else found.format(family.naming.full(index, module))

    return assemble(
        shape,
        layers,
        base=base,
        kv=(found.kv_dtype if found else None) or base,
        dtype=(found.dtype if found else None) or base,
        formats=formats,
    )


def _quantisation(fields: Fields, beside: Mapping[str, Any] | None) -> Quantisation | None:
    """Return what is quantised; most models are read without the module that reads it."""
    key = "quantization_config"
    if beside is None and not fields.has(key) and (fields.outer or {}).get(key) is None:
        return None
    from nhalf.transformer.quantisation import read_quantisation

    return read_quantisation(fields, beside)


def _family(fields: Fields) -> Family:
    """Return the family of the architecture that a config names."""
    named, known = fields.config.get("architectures"), ", ".join(FAMILIES)
    if not isinstance(named, list) or not named or not isinstance(named[0], str):
        raise fields.error("architectures", "it is missing or no list of names", known)
    if named[0] in FAMILIES:
        return FAMILIES[named[0]]
    near = did_you_mean(named[0], FAMILIES)
    raise InputError(
        f"field 'architectures': {named[0]!r} is not an architecture nhalf knows, and it never guesses",
        where=fields.where,
        allowed=known,
        do=f"{near} Or {_DESCRIBE}" if near else _DESCRIBE,
    )


def _left_out(fields: Fields, family: Family) -> tuple[str, ...]:
    """Return the parts of the checkpoint that are not counted."""
    found = [family.senses] if family.senses else []
    found += [f"the heads that predict further tokens ({key} = {fields.config[key]})"
              for key in _DRAFTS if fields.config.get(key)]  # fmt: skip
    return tuple(found)

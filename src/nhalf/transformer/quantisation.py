"""Quantisation: which weights a checkpoint stores in which format, as its files say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nhalf.transformer.fields import Fields
from nhalf.transformer.weights import WEIGHT_BYTES, Format

if TYPE_CHECKING:
    from collections.abc import Callable

_MODELOPT = {
    "FP8": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "FP8_PB_WO": "fp8", "FP8_PB_REAL": "fp8",
    "NVFP4": "nvfp4", "NVFP4_AWQ": "nvfp4", "W4A16_NVFP4": "nvfp4", "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP4": "mxfp4", "W4A8_MXFP4_FP8": "mxfp4",
    "INT4_AWQ": "int4", "W4A16_AWQ": "int4", "W4A8_AWQ": "int4", "INT8_SQ": "int8", "W8A16": "int8",
}  # fmt: skip
"""The algorithms of NVIDIA's ModelOpt, by the format that they store weights in."""
_MIXED = "MIXED_PRECISION"
_CACHES = {"FP8": "fp8", "INT8": "int8"}
_BLOCK_SCALE_BYTES = 4.0
"""Bytes of the scale of an fp8 block [bytes]: one fp32 (DeepSeek-V3, arXiv:2412.19437, section 3.3)."""
_GROUP_SCALE_BYTES = 2.0
"""Bytes of the scale of a group of integers [bytes]: 16 bits."""


_NARROW_EXPERTS = ("fp4", "mxfp4")
"""What a config calls routed experts of 4 bits with a scale for 32 in a checkpoint that is fp8 otherwise."""


class Names(NamedTuple):
    """A list of module names as quantisers write it.

    A name stands for its module and all below it, and may leave out what is above: `gate` is every `...mlp.gate` and
    no `gate_proj`. `*` stands for anything; after `re:` comes a regular expression for the whole name.
    """

    exact: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, names: Iterable[object], refuse: Callable[[str], Exception]) -> Names:
        """Return the list; `refuse` makes the error of an entry that is none."""
        exact: set[str] = set()
        globs: list[str] = []
        patterns: list[re.Pattern[str]] = []
        for name in names:
            if not isinstance(name, str):
                raise refuse(f"{name!r} is no name of a module")
            if name.startswith("re:"):
                try:
                    patterns.append(re.compile(name[3:]))
                except re.error as error:
                    raise refuse(f"{name!r} is no regular expression: {error}") from error
            elif "*" in name:
                globs.append(".*".join(re.escape(part) for part in name.split("*")))
            else:
                exact.add(name)
        if globs:
            patterns.append(re.compile(rf"(?:.*\.)?(?:{'|'.join(globs)})(?:\..*)?$"))
        return cls(frozenset(exact), tuple(patterns))

    def match(self, module: str) -> bool:
        """Tell whether the list has a module, or one above it."""
        if any(pattern.match(module) for pattern in self.patterns):
            return True
        if not self.exact:
            return False
        parts = module.split(".")
        ends = range(1, len(parts) + 1)
        return any(".".join(parts[start:end]) in self.exact for end in ends for start in range(end))


class Quantisation(NamedTuple):
    """What is stored in which format: the first of `formats` whose names have a module, unless `excluded` has it.

    `dtype` is the format of most weights, None where only the cache is quantised.
    """

    dtype: str | None
    formats: tuple[tuple[Names | None, Format], ...] = ()
    excluded: Names = Names(frozenset(), ())
    kv_dtype: str | None = None

    def format(self, module: str) -> Format | None:
        """Return the format of a linear layer, None where it is not quantised."""
        if self.excluded.match(module):
            return None
        return next((form for names, form in self.formats if names is None or names.match(module)), None)


def read_quantisation(fields: Fields, beside: Mapping[str, Any] | None) -> Quantisation:
    """Return the quantisation that a config, or the hf_quant_config.json beside it, describes.

    Raises
    ------
    InputError
        A method, algorithm or format that is not read, or a field that is missing or impossible.
    """
    if beside is not None:
        return _modelopt(
            Fields(beside, fields.where, "hf_quant_config.json: ").table("quantization"), "exclude_modules"
        )
    holder = fields if fields.has("quantization_config") else Fields(fields.outer or {}, fields.where)
    value = holder.config["quantization_config"]
    key, known = "quantization_config.quant_method", ", ".join(_METHODS)
    method = value.get("quant_method") if isinstance(value, Mapping) else None
    if not isinstance(method, str) or method not in _METHODS:
        raise holder.error(key, f"{method!r} is not read", known)
    return _METHODS[method](holder.table("quantization_config"))


def _fp8(fields: Fields) -> Quantisation:
    """Return fp8 as Hugging Face transformers stores it: all linear layers, in blocks or whole.

    DeepSeek-V4 (expert_dtype) and MiMo-V2.6 (store_dtype) keep the routed experts in mxfp4 beside it.
    """
    form = Format(dtype="fp8", scale_bytes=_block_scales(fields, "weight_block_size"))
    excluded = _names(fields, "modules_to_not_convert", "ignored_layers")
    narrower = (fields.outer or {}).get("expert_dtype") or fields.config.get("store_dtype")
    if narrower is None:
        return Quantisation(dtype="fp8", formats=((None, form),), excluded=excluded)
    if narrower not in _NARROW_EXPERTS:
        raise fields.error("store_dtype", f"experts in {narrower!r} are not read", ", ".join(_NARROW_EXPERTS))
    experts = (_listed(fields, "store_dtype", ["*.experts.*"]), Format(dtype="mxfp4"))
    return Quantisation(dtype="mxfp4", formats=(experts, (None, form)), excluded=excluded)


def _mxfp4(fields: Fields) -> Quantisation:
    """Return mxfp4 as gpt-oss stores it: the experts, and nothing that the list names."""
    form = Format(dtype="mxfp4")
    return Quantisation(dtype="mxfp4", formats=((None, form),), excluded=_names(fields, "modules_to_not_convert"))


def _compressed(fields: Fields) -> Quantisation:
    """Return compressed-tensors: groups of targets with a format each."""
    formats = _groups(fields)
    scheme = fields.config.get("kv_cache_scheme")
    return Quantisation(
        dtype=formats[0][1].dtype, formats=formats, excluded=_names(fields, "ignore"), kv_dtype=_scheme(fields, scheme)
    )


def _modelopt_inside(fields: Fields) -> Quantisation:
    """Return ModelOpt's description inside a config.json, which says the same in other words."""
    return _modelopt(fields, "ignore")


def _modelopt(fields: Fields, excluded: str) -> Quantisation:
    """Return ModelOpt's description: an algorithm for all linear layers but some, or one for each that is named."""
    algorithm, cache = fields.config.get("quant_algo"), fields.config.get("kv_cache_quant_algo")
    kv_dtype = _CACHES.get(str(cache)) if cache else _scheme(fields, fields.config.get("kv_cache_scheme"))
    if cache and kv_dtype is None:
        raise fields.error("kv_cache_quant_algo", f"{cache!r} is not read", ", ".join(_CACHES))
    names = _names(fields, excluded, "exclude_modules", "ignore")
    if algorithm is None and fields.has("config_groups"):
        formats = _groups(fields)
        return Quantisation(dtype=formats[0][1].dtype, formats=formats, excluded=names, kv_dtype=kv_dtype)
    if algorithm is None:
        return Quantisation(dtype=None, kv_dtype=kv_dtype)
    if algorithm != _MIXED:
        form = _algorithm(fields, "quant_algo", algorithm)
        return Quantisation(dtype=form.dtype, formats=((None, form),), excluded=names, kv_dtype=kv_dtype)
    formats = _layers(fields)
    narrowest = min((form.dtype for _, form in formats), key=WEIGHT_BYTES.__getitem__)
    return Quantisation(dtype=narrowest, formats=formats, excluded=names, kv_dtype=kv_dtype)


def _layers(fields: Fields) -> tuple[tuple[Names | None, Format], ...]:
    """Return the format of each module that mixed precision names, modules of one format together."""
    table = fields.table("quantized_layers")
    by_form: dict[Format, list[str]] = {}
    for module in table.config:
        entry = table.table(module)
        by_form.setdefault(_algorithm(entry, "quant_algo", entry.config.get("quant_algo")), []).append(module)
    if not by_form:
        raise fields.error("quantized_layers", "it names no module", "at least one module")
    return tuple((_listed(fields, "quantized_layers", names), form) for form, names in by_form.items())


def _algorithm(fields: Fields, key: str, algorithm: object) -> Format:
    """Return the format that an algorithm of ModelOpt stores."""
    if not isinstance(algorithm, str) or algorithm not in _MODELOPT:
        raise fields.error(key, f"{algorithm!r} is not read", ", ".join([*_MODELOPT, _MIXED]))
    dtype = _MODELOPT[algorithm]
    if dtype == "int4":
        return Format(dtype=dtype, scale_bytes=_group_scales(fields.count("group_size", default=128)))
    blocks = _BLOCK_SCALE_BYTES / (128 * 128) if algorithm.startswith("FP8_PB") else 0.0
    return Format(dtype=dtype, scale_bytes=blocks)


def _groups(fields: Fields) -> tuple[tuple[Names | None, Format], ...]:
    """Return the formats of the groups, each with the modules that it is for; None for every linear layer."""
    groups = fields.table("config_groups")
    if not groups.config:
        raise fields.error("config_groups", "it is empty", "at least one group")
    formats: list[tuple[Names | None, Format]] = []
    for key in groups.config:
        group = groups.table(key)
        targets = group.config.get("targets") or ["Linear"]
        every = isinstance(targets, list) and "Linear" in targets
        formats.append((None if every else _listed(group, "targets", targets), _scheme_format(group.table("weights"))))
    return tuple(sorted(formats, key=lambda each: each[0] is None))


def _scheme_format(weights: Fields) -> Format:
    """Return the format that bits, type and group size mean."""
    bits, kind = weights.count("num_bits"), weights.text("type", ("int", "float"))
    group = weights.optional("group_size")
    if (kind, bits) == ("float", 4):
        return Format(dtype="mxfp4" if group == 32 else "nvfp4")  # noqa: PLR2004  the block of OCP Microscaling
    if (kind, bits) == ("float", 8):
        return Format(dtype="fp8", scale_bytes=_block_scales(weights, "block_structure"))
    if (kind, bits) == ("int", 4):
        return Format(dtype="int4", scale_bytes=_group_scales(group))
    if (kind, bits) == ("int", 8):
        return Format(dtype="int8")
    raise weights.error("num_bits", f"{kind} of {bits} bits is not read", "float or int, of 4 or 8 bits")


def _scheme(fields: Fields, scheme: object) -> str | None:
    """Return the dtype of the cache that a scheme means, None for no scheme."""
    if scheme is None:
        return None
    form = _scheme_format(fields.table("kv_cache_scheme"))
    if form.dtype not in _CACHES.values():
        raise fields.error("kv_cache_scheme", f"a cache in {form.dtype} is not modelled", ", ".join(_CACHES.values()))
    return form.dtype


def _block_scales(fields: Fields, key: str) -> float:
    """Return the bytes of block scales per weight [bytes]: none where one scale is for a whole matrix or channel."""
    block = fields.config.get(key)
    if block is None:
        return 0.0
    if not isinstance(block, list) or len(block) != 2 or not all(isinstance(n, int) and 0 < n < 2**20 for n in block):  # noqa: PLR2004
        raise fields.error(key, f"{block!r} is not possible", "[rows, columns]")
    return _BLOCK_SCALE_BYTES / int(block[0] * block[1])


def _group_scales(group: int | None) -> float:
    """Return the bytes per weight [bytes] of scales beyond those of a group of 32; None is a scale for a channel."""
    return (_GROUP_SCALE_BYTES / group if group else 0.0) - (WEIGHT_BYTES["int4"] - 0.5)


def _names(fields: Fields, *keys: str) -> Names:
    """Return the names in the first of some lists that is there."""
    for key in keys:
        if fields.has(key):
            return _listed(fields, key, fields.config[key])
    return Names(frozenset(), ())


def _listed(fields: Fields, key: str, names: object) -> Names:
    """Return the names in a list."""
    if not isinstance(names, list):
        raise fields.error(key, "it is no list of names", "a list of module names")
    return Names.of(names, lambda what: fields.error(key, what, "names, `*` for anything, or `re:` and an expression"))


_METHODS: dict[str, Callable[[Fields], Quantisation]] = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "mxfp4": _mxfp4,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt_inside,
    "modelopt_fp4": _modelopt_inside,
}

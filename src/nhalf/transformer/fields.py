"""Fields: a config's values, read with one clear error for each kind of fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nhalf.errors import InputError, did_you_mean

_TORCH_DTYPES = {"bfloat16": "bf16", "float16": "fp16"}
_MOST = 10**9
_MOST_LAYERS = 10_000
_STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The fields of a table; `prefix` is its path in the file, and `outer` the table around it."""

    config: Mapping[str, Any]
    where: str
    prefix: str = ""
    outer: Mapping[str, Any] | None = None

    def error(self, key: str, what: str, allowed: str = "", do: str = "") -> InputError:
        """Return the error of a field."""
        return InputError(f"field {self.prefix + key!r}: {what}", where=self.where, allowed=allowed, do=do)

    def table(self, key: str) -> Fields:
        """Return the fields of a table inside this one."""
        value = self.config.get(key)
        if value is None:
            raise self.error(key, "it is missing", "a table of fields")
        if not isinstance(value, Mapping):
            raise self.error(key, "it is no table", "a table of fields")
        return Fields(value, self.where, f"{self.prefix}{key}.", self.config)

    def has(self, key: str) -> bool:
        """Tell whether a field says anything."""
        return self.config.get(key) is not None

    def count(self, key: str, *, default: int | None = None, least: int = 1, most: int = _MOST) -> int:
        """Return a whole number of at least 1, or of at least 0."""
        value = self.config.get(key)
        allowed = "a positive whole number" if least else "0 or a positive whole number"
        if value is None and default is not None:
            return default
        if value is None:
            raise self.error(key, "it is missing", allowed)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(key, f"{value!r} is not possible", allowed)
        if value > most:
            raise self.error(key, "it is too large to be possible", f"{allowed} up to {most}")
        return value

    def layer_count(self, key: str = "num_hidden_layers") -> int:
        """Return a number of layers, of which a slip of the pen must not make a billion."""
        return self.count(key, most=_MOST_LAYERS)

    def optional(self, key: str) -> int | None:
        """Return a positive whole number, None when the field says nothing."""
        return self.count(key) if self.has(key) else None

    def number(self, key: str) -> float:
        """Return a positive number."""
        value = self.config.get(key)
        if value is None:
            raise self.error(key, "it is missing", "a positive number")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self.error(key, f"{value!r} is not possible", "a positive number")
        return float(value)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a switch that has its default when it is absent."""
        value = self.config.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, f"{value!r} is not possible", "true or false")
        return value

    def text(self, key: str, known: Mapping[str, Any] | tuple[str, ...], *, default: str | None = None) -> str:
        """Return one of some known words."""
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or value not in known:
            what = "it is missing" if value is None else f"{value!r} is not known"
            raise self.error(key, what, ", ".join(known), did_you_mean(str(value), known) if value else "")
        return value

    def entries(self, key: str, length: int) -> list[Any]:
        """Return a list with one entry for each of `length` layers."""
        value = self.config.get(key)
        if value is None:
            raise self.error(key, "it is missing", f"a list of {length} entries")
        if not isinstance(value, list) or len(value) != length:
            got = f"it has {len(value)} entries" if isinstance(value, list) else "it is no list"
            raise self.error(key, f"{got} and the model {length} layers", f"a list of {length} entries")
        return value

    def whole_numbers(self, key: str) -> list[int]:
        """Return a list of whole numbers, empty when the field says nothing."""
        value = self.config.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
            raise self.error(key, "it is no list of whole numbers", "a list of whole numbers")
        return value

    def absent(self, key: str, why: str) -> None:
        """Refuse a field that says something which is not modelled."""
        if self.config.get(key):
            raise self.error(key, f"{self.config[key]!r} is not modelled: {why}", "0, false, null or no such field")

    def known_fields(self, known: tuple[str, ...]) -> None:
        """Refuse a field that is not one of the known ones: a slip of the pen must not go unseen."""
        for key in self.config:
            if key not in known:
                raise self.error(key, "there is no such field", ", ".join(known), did_you_mean(key, known))

    def torch_dtype(self) -> str:
        """Return the dtype that weights and cache have unless something says otherwise; bf16 when none is named."""
        for table in (self.config, self.outer or {}):
            named = table.get("torch_dtype", table.get("dtype"))
            if named is not None:
                if not isinstance(named, str) or named not in _TORCH_DTYPES:
                    raise self.error("torch_dtype", f"{named!r} is not read", ", ".join(_TORCH_DTYPES))
                return _TORCH_DTYPES[named]
        return "bf16"

    def state_dtype(self, key: str) -> str:
        """Return the dtype of a recurrent state: that of the field, or that of the model."""
        return _STATE_DTYPES[self.text(key, _STATE_DTYPES)] if self.has(key) else self.torch_dtype()

    def tied(self, *, default: bool) -> bool:
        """Return whether the output projection is the embedding table."""
        key = "tie_word_embeddings"
        if self.has(key) or self.outer is None:
            return self.flag(key, default=default)
        return Fields(self.outer, self.where).flag(key, default=default)

"""Tables written as TOML: the part of it that cluster files are made of."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_WIDE: Final = 100


def dumped(tables: Mapping[str, Any]) -> str:
    """Return tables as TOML: texts and numbers first, then tables, then lists of tables; what is None is left out."""
    return "\n".join(_lines(tables, "")).strip() + "\n"


def _lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    rows = {key: value for key, value in table.items() if value is not None}
    for key, value in rows.items():
        if not isinstance(value, dict) and not _is_list_of_tables(value):
            yield f"{_key(key)} = {_value(value)}"
    for key, value in rows.items():
        below = f"{path}{_key(key)}"
        if isinstance(value, dict):
            # A table of tables alone needs no head of its own.
            if not value or any(not isinstance(each, dict) for each in value.values()):
                yield from ("", f"[{below}]")
            yield from _lines(value, f"{below}.")
        elif _is_list_of_tables(value):
            for each in value:
                yield from ("", f"[[{below}]]")
                yield from _lines(each, f"{below}.")


def _is_list_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    """Return a text, a number, a switch or a list of them; a long list of lists has a line for each."""
    if not isinstance(value, list | tuple):
        # A JSON text is a TOML text but for one control character, which JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    parts = [_value(each) for each in value]
    line = f"[{', '.join(parts)}]"
    nested = any(isinstance(each, list | tuple) for each in value)
    return line if len(line) <= _WIDE or not nested else "\n".join(["[", *(f"  {part}," for part in parts), "]"])

"""Reads a text of the catalogue's format into typed entries; every fault is one error with file and field."""

from __future__ import annotations

import re
import types
import typing
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from nhalf.errors import InputError, did_you_mean
from nhalf.files.reading import parse_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

Entry = TypeVar("Entry")

_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_QUOTED: Final = re.compile(r"`([^`]*)`|'([^']*)'")
_VALUE: Final = "value"
_COMMON: Final = "common"


def parse(
    text: str,
    *,
    where: str,
    dates: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
    shorthand: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return the tables of a TOML text, with what its values share filled in.

    A table that has a `value` takes each key it lacks from the table `[common]`, then from `defaults`, and its date
    from `dates`, which holds the date of each known source. A text or number under a name of `shorthand` becomes such
    a table, of which it is the value.

    Raises InputError when the text is not TOML or `[common]` is not a table.
    """
    return filled(parse_toml(text, where=where), where=where, dates=dates, defaults=defaults, shorthand=shorthand)


def filled(
    tables: dict[str, Any],
    *,
    where: str,
    dates: Mapping[str, str],
    defaults: Mapping[str, str] | None = None,
    shorthand: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return parsed tables with what their values share filled in, as `parse` says.

    Raises InputError when `[common]` is not a table.
    """
    common = tables.pop(_COMMON, {})
    if not isinstance(common, dict):
        raise InputError("`common` is not a table", where=where, allowed="[common] with source, kind, locator or date")
    if shorthand:
        _expand(tables, shorthand)
    _fill(tables, {**(defaults or {}), **common}, dates)
    return tables


def _expand(table: dict[str, Any], shorthand: frozenset[str]) -> None:
    """Make a table of every value that is written as a text or a number alone; a bandwidth is one device's, one way."""
    for key, inner in table.items():
        if key in shorthand and isinstance(inner, str | int | float) and not isinstance(inner, bool):
            table[key] = {_VALUE: str(inner)}
        elif isinstance(inner, dict):
            _expand(inner, shorthand)
        if key == "bandwidth" and isinstance(table[key], dict) and _VALUE in table[key]:
            table[key] = {"per": "device", "direction": "one_way", **table[key]}


def _fill(table: dict[str, Any], common: Mapping[str, Any], dates: Mapping[str, str]) -> None:
    if _VALUE in table:
        source = table.get("source", common.get("source"))
        if isinstance(source, str) and source in dates and "date" not in common:
            table.setdefault("date", dates[source])
        for key, shared in common.items():
            table.setdefault(key, shared)
        return
    for inner in table.values():
        if isinstance(inner, dict):
            _fill(inner, common, dates)


def convert(table: object, shape: type[Entry], *, where: str) -> Entry:
    """Return a table as an entry of a shape.

    Raises InputError when a field is missing, unknown, or of the wrong kind.
    """
    try:
        return msgspec.convert(table, shape)
    except msgspec.ValidationError as error:
        raise _fault(str(error), shape, where) from error


def convert_each(table: object, shape: type[Entry], *, where: str) -> dict[str, Entry]:
    """Return a table of tables as entries of one shape, by name; messages then name the entry.

    Raises InputError as `convert` does.
    """
    named = convert(table, dict[str, Any], where=where)
    return {name: convert(inner, shape, where=f"{where} [{name}]") for name, inner in named.items()}


def _fault(message: str, shape: object, where: str) -> InputError:
    """Return the error that says where a table departs from its shape, and what is allowed there."""
    found = _AT.fullmatch(message)
    what, path = (found["what"], found["path"] or "") if found else (message, "")
    names = [name for name in path.split(".") if name]
    wanted = _shape_at(shape, names)
    allowed = _allowed(wanted)
    bad = _QUOTED.search(what)
    near = did_you_mean(bad[1] or bad[2], allowed) if bad and "missing" not in what else ""
    field = ".".join(names)
    return InputError(
        f"field {field!r}: {_plain(what)}" if field else _plain(what),
        where=where,
        allowed=", ".join(allowed),
        do=near,
    )


def _plain(what: str) -> str:
    """Return what msgspec says in the words of a table."""
    what = re.sub(r"Invalid enum value '(.*)'", r"'\1' is not possible", what)
    what = re.sub(r"Expected `(.*?)`(, got `.*`| .*)", r"it is not of the type `\1`\2", what)
    return what.replace("Object contains", "it has an").replace("Object missing", "it lacks the").replace("`", "'")


def _shape_at(shape: object, names: list[str]) -> object:
    """Return the type that a path of fields leads to."""
    for name in names:
        arguments = [part for part in typing.get_args(shape) if part is not types.NoneType]
        shape = arguments[0] if isinstance(shape, types.UnionType) and arguments else shape
        hints = typing.get_type_hints(shape) if isinstance(shape, type) and issubclass(shape, msgspec.Struct) else {}
        shape = hints.get(name.partition("[")[0])
    return shape


def _allowed(shape: object) -> list[str]:
    """Return the fields of a table, the words of a closed list, or what a plain field takes."""
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        return list(shape.__struct_fields__)
    arguments = typing.get_args(shape)
    if int in arguments or any(int in typing.get_args(part) for part in arguments):
        return ["a whole number of 1 or more"]
    if float in arguments:
        return ["a number"]
    words = [part for part in arguments if isinstance(part, str)]
    for part in (shape, *arguments):
        words += [str(member) for member in getattr(part, "__members__", {}).values()]
    return words or ["text in quotes, a value with its unit, such as '5 us'"]

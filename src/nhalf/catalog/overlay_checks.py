"""What cannot be meant in a user's catalogue: names that are none, one value stated twice, sources nobody named."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_NAME: Final = re.compile(r"[A-Za-z0-9][\w .+-]*")
_ALIASED: Final = ("system", "device", "engine", "library", "link", "model")
"""The kinds of things that have other names."""


def named_table(head: str, name: str, table: object, where: str) -> dict[str, Any]:
    """Return the table of one thing.

    Raises InputError when its name cannot be one (a path, a dot in front), or it is no table.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} cannot be the name of anything", where=f"{where}, {head}",
            allowed="letters, digits, - _ . and +, such as my-box", do=f"write [{head}.NAME]",
        )  # fmt: skip
    if not isinstance(table, dict):
        raise InputError(f"{name} is no table", where=f"{where}, {head}", allowed=f"[{head}.{name}]")
    return table


def aliases(content: Mapping[str, Any], where: str) -> None:
    """Refuse other names in another form than by kind and id.

    Raises InputError when a kind is unknown, or an id has no list of names.
    """
    for kind, ids in content.items():
        place = f"{where}, aliases"
        if kind not in _ALIASED:
            written = f'[aliases.system] and {ids} = ["{kind}"]' if isinstance(ids, str) else ""
            raise InputError(
                f"there is no kind {kind!r} of things with other names", where=place,
                allowed=", ".join(f"[aliases.{each}]" for each in _ALIASED),
                do=f"write {written}, if it is a system" if written else did_you_mean(kind, _ALIASED),
            )  # fmt: skip
        for name, others in ids.items() if isinstance(ids, dict) else [("", None)]:
            if not isinstance(others, list) or not all(isinstance(other, str) for other in others):
                raise InputError(
                    f"{name or kind} has no list of names", where=f"{place}.{kind}",
                    allowed=f'an id and its other names: {name or "my-box"} = ["the-box"]',
                )  # fmt: skip


def stated_twice(one: Mapping[str, Any], other: Mapping[str, Any], path: str = "") -> str:
    """Return the first value, by its path, that two tables both state; empty when there is none. Lists are joined."""
    for key, new in other.items():
        here = f"{path}.{key}".lstrip(".")
        if key not in one or isinstance(new, list):
            continue
        old = one[key]
        if isinstance(old, dict) and isinstance(new, dict) and "value" not in old and "value" not in new:
            inside = stated_twice(old, new, here)
            if inside:
                return inside
        else:
            return here
    return ""


def sources(tables: Mapping[str, dict[str, Any]], known: Collection[str], where: str) -> None:
    """Refuse a value whose source is none that is known.

    Raises InputError that names the value and the source.
    """
    for path, table in tables.items():
        for place, source in _stated(table):
            if source not in known:
                raise InputError(
                    f"the source {source!r} of {place} is not known", where=f"{where}, {path}",
                    allowed=f"a key of [sources], yours or nhalf's ({len(known)} in `nhalf catalog`)",
                    do=did_you_mean(source, known) or f"add [sources.{source}] with its title and date",
                )  # fmt: skip


def _stated(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value's path and its source."""
    for key, inner in table.items():
        here = f"{path}.{key}".lstrip(".")
        if isinstance(inner, dict) and "value" in inner:
            if isinstance(inner.get("source"), str):
                yield here, inner["source"]
        elif isinstance(inner, dict):
            yield from _stated(inner, here)

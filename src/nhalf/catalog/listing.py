"""Lists what the catalogue holds, with the origin of every value, for `nhalf catalog`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.catalog import schema, store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.citation import Datum


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One thing of the catalogue: its kind, its id, what it is, and each of its values by path."""

    kind: str
    name: str
    title: str
    values: Mapping[str, Datum]


def entries(kind: str | None = None, name: str | None = None) -> list[Listed]:
    """Return everything in the catalogue, or everything of a kind, or the one thing of a kind with a name.

    Raises InputError when there is no such kind or name.
    """
    if kind is None:
        return [listed for each in store.KINDS for listed in entries(each)]
    known = store.names(kind)
    keys = known if name is None else [store.find(kind, name, where=kind)]
    return [_LISTERS[kind](key) for key in keys]


def _system(key: str) -> Listed:
    return Listed(kind="system", name=key, title=store.system_entry(key).title, values=store.system(key)[1])


def _engine(key: str) -> Listed:
    values = {f"stack.{path}": datum for path, datum in schema.data(store.constants(), where="constants")}
    return Listed(kind="engine", name=key, title=store.engine_entry(key).title, values=values)


def _library(key: str) -> Listed:
    """Return a library; a limit has the architecture at the end of its path."""
    entry = store.library_entry(key)
    values: dict[str, Datum] = {}
    for architecture in store.architectures(entry.tuner):
        for path, datum in store.library(key, architecture=architecture)[1].items():
            is_limit = path.endswith("bandwidth_limit_bytes_per_s")
            values[f"{path}.{architecture}" if is_limit else path] = datum
    return Listed(kind="library", name=key, title=entry.title, values=values)


def _link(key: str) -> Listed:
    return Listed(kind="link", name=key, title=store.link_entries()[key].title, values=store.link(key)[1])


def _model(key: str) -> Listed:
    built, datum = store.transformer(key)
    sizes = f"{built.layer_count} layers of width {built.hidden_size}"
    return Listed(kind="model", name=key, title=sizes, values={"transformer.parameters": datum})


_LISTERS: dict[str, Callable[[str], Listed]] = {
    "system": _system,
    "engine": _engine,
    "library": _library,
    "link": _link,
    "model": _model,
}

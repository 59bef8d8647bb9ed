"""Puts the parts that a file names in their places: a system's device and links, and what is `like` another.

`like = "h100-sxm"` at the top of a system or device takes over everything that it does not say itself; so does `like`
in an engine, and in a tier of a fabric, of a link. A name alone is short for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf.catalog import files
from nhalf.catalog.overlay import LIKE, merged
from nhalf.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

TIERS: Final = ("intra_node", "inter_node", "inter_rack")
_STREAMING: Final = "streaming_efficiency"
"""What was measured of the memory of one device, which says nothing of another memory."""


def system(key: str) -> dict[str, Any]:
    """Return the tables of a system, with the device and the links that it names.

    Raises InputError when it names something that is not there, or is like itself.
    """
    defaults = files.tables("defaults.toml")
    own = named("systems", key)
    known = own.get("measured") or _has_curves(measured_on(key))
    doubt = "measured" if known else "lent" if sibling_of(key) else "unmeasured"
    tables = merged(defaults[doubt], own)
    where = files.place(f"systems/{key}.toml")
    if "device" in tables:
        tables["device"] = _device(tables["device"], f"{where}, device")
    fabric = tables.get("fabric")
    if isinstance(fabric, dict):
        tables.setdefault("transport", _transport(fabric))
        tables["fabric"] = {
            name: _link(part, f"{where}, fabric.{name}") if name in TIERS else part for name, part in fabric.items()
        }
        if isinstance(fabric.get("switches"), str):
            trees: Mapping[str, Any] = defaults["switches"]
            tables["fabric"]["switches"] = trees[_known(fabric["switches"], list(trees), f"{where}, fabric.switches")]
    return tables


def measured_on(key: str) -> str:
    """Return the system whose curves are those of a system: itself, or the one of the same node that it names.

    Raises InputError when that is not there.
    """
    return _other_system(key, "curves") or key


def sibling_of(key: str) -> str:
    """Return the system whose curves stand in for those of a system that has none, or nothing.

    Raises InputError when the sibling that it names is not there.
    """
    other = "" if _has_curves(measured_on(key)) else _other_system(key, "sibling")
    return other if other and _has_curves(measured_on(other)) else ""


def sibling_named(key: str) -> str:
    """Return the system that a system names as its sibling, or nothing.

    Raises InputError when that is not there.
    """
    return _other_system(key, "sibling")


def lender(key: str) -> str:
    """Return the system whose curves are taken on a system: itself, the one of the same node, a sibling, or nothing.

    Raises InputError when one that it names is not there.
    """
    of = measured_on(key)
    return of if _has_curves(of) else sibling_of(key)


def _has_curves(key: str) -> bool:
    return bool(files.text(f"curves/{key}.csv"))


def _other_system(key: str, field: str) -> str:
    """Return the system that a field of a system's file names, or nothing.

    A cluster of the user's is like another system, and not the same: that one's curves are a sibling's.
    """
    if files.is_cluster(key):
        tables = files.tables(f"systems/{key}.toml")
        if field not in tables:
            return lender(tables[LIKE]) if field == "sibling" and LIKE in tables else ""
    other = named("systems", key).get(field, "")
    where = f"{files.place(f'systems/{key}.toml')}, {field}"
    return _known(other, files.stems("systems", ".toml"), where) if other else ""


def named(folder: str, key: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the tables of a system or a device, laid over those of what it is like.

    Raises InputError when that is not there, or leads back to itself.
    """
    tables = dict(files.tables(f"{folder}/{key}.toml"))
    other = tables.pop(LIKE, None)
    if other is None:
        return tables
    where = f"{files.place(f'{folder}/{key}.toml')}, like"
    if other == key or other in seen:
        raise InputError(f"{key} is like itself", where=where, allowed="another name")
    known = _known(other, files.stems(folder, ".toml"), where)
    found = named(folder, known, (*seen, key))
    if isinstance(tables.get("device"), dict) and isinstance(found.get("device"), dict):
        found["device"] = _without_measured(found["device"], tables["device"])
    return merged(found, tables)


def engine(key: str) -> dict[str, Any]:
    """Return the table of an engine, laid over that of the engine that it is like.

    Raises InputError when that is not there, or is like another one in turn.
    """
    engines: Mapping[str, dict[str, Any]] = files.tables("stacks.toml")["engines"]
    own = dict(engines[key])
    if LIKE not in own:
        return own
    plain = [name for name, table in engines.items() if LIKE not in table]
    return merged(engines[_known(own.pop(LIKE), plain, f"{files.place('stacks.toml')} [engines.{key}], like")], own)


def _device(part: Any, where: str) -> Any:  # noqa: ANN401  a part of a file, whatever was written there
    """Return the tables of a device: its own, over those of a device that it names."""
    if isinstance(part, str):
        part = {LIKE: part}
    if not isinstance(part, dict) or LIKE not in part:
        return part
    found = named("devices", _known(part[LIKE], files.stems("devices", ".toml"), where))["device"]
    return merged(_without_measured(found, part), {name: value for name, value in part.items() if name != LIKE})


def _without_measured(found: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a device without what was measured of its memory, where one that is like it has another."""
    return {name: value for name, value in found.items() if name != _STREAMING or "memory_bandwidth" not in own}


def _transport(fabric: Mapping[str, Any]) -> str:
    """Return the network stack of the link by which a fabric leaves its node or rack; empty where none is known."""
    part = fabric.get("inter_rack", fabric.get("inter_node"))
    name = part.get(LIKE) if isinstance(part, dict) else part
    links: Mapping[str, Any] = files.tables("links.toml")["links"]
    return str(links.get(name, {}).get("transport", "")) if isinstance(name, str) else ""


def rungs() -> dict[str, dict[str, Any]]:
    """Return the tables of the hierarchy, each rung with the numbers of the link that it names.

    Raises InputError when it names one that is not there.
    """
    where = files.place("hierarchy.toml")
    found: Mapping[str, dict[str, Any]] = files.tables("hierarchy.toml")["rungs"]
    return {name: dict(_link(part, f"{where}, {name}")) for name, part in found.items()}


def _link(part: Any, where: str) -> Any:  # noqa: ANN401  a part of a file, whatever was written there
    """Return the two numbers of a tier: its own, over those of a link that it names."""
    if isinstance(part, str):
        part = {LIKE: part}
    if not isinstance(part, dict) or LIKE not in part:
        return part
    links: Mapping[str, Any] = files.tables("links.toml")["links"]
    found = dict(links[_known(part[LIKE], list(links), where)])
    for word in ("title", "transport"):
        found.pop(word, None)
    return merged(found, {name: value for name, value in part.items() if name != LIKE})


def _known(name: object, known: list[str], where: str) -> str:
    """Return a name that is known, spelled as it is known."""
    if not isinstance(name, str) or name not in known:
        raise InputError(
            f"there is no {name!r}", where=where, allowed=", ".join(known), do=did_you_mean(str(name), known)
        )
    return name

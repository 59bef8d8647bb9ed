"""Links: two quantities with units, or a name of the catalogue."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.citation import Datum
from nhalf.errors import InputError
from nhalf.files.reading import parse_toml, read_text
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nhalf.scenario import Scenario

TIERS = {"intra-node": "intra_node", "inter-node": "inter_node", "inter-rack": "inter_rack"}
"""The names under which a file of links holds those of a system's tiers, and the tiers."""


def link(texts: Sequence[str], *, where: str = "LATENCY BANDWIDTH") -> tuple[Link, dict[str, Datum]]:
    """Return the link that `nhalf link` names: LATENCY BANDWIDTH, with a comma or apart, or one name of the catalogue.

    Raises
    ------
    InputError
        Neither one name nor two quantities with units.
    """
    parts = [part for text in texts for part in re.split(r"[,\s]+", text) if part] or list(texts)
    if len(parts) == 1:
        from nhalf.catalog import store

        _refuse_half(parts[0], where)
        return store.link(parts[0])
    if len(parts) > 2:  # noqa: PLR2004  a latency and a bandwidth
        text = " ".join(texts)
        raise InputError(f"{text!r} is no link", where="nhalf link", allowed="5us,400GB/s, or a name of the catalogue")
    latency, bandwidth = parts
    found = Link(latency, bandwidth)
    given = {"latency_s": (latency, "s"), "bandwidth_bytes_per_s": (bandwidth, "bytes/s")}
    return found, {
        name: Datum(
            value=float(getattr(found, name)), unit=unit, source="command line", locator=text, kind="given", date=""
        )
        for name, (text, unit) in given.items()
    }


def link_of(text: str, *, where: str) -> Link:
    """Return the link that one text names: LATENCY,BANDWIDTH, or a name of the catalogue.

    Raises
    ------
    InputError
        It is neither.
    """
    parts = [part for part in re.split(r"[,\s]+", text.strip()) if part]
    if len(parts) not in (1, 2):
        raise InputError(f"{text!r} is no link", where=where, allowed="5us,400GB/s, or a name of `nhalf catalog links`")
    return link(parts, where=where)[0]


def _refuse_half(text: str, where: str) -> None:
    """Refuse a latency without a bandwidth, or a bandwidth without a latency: a name is neither."""
    for dimension, is_a, other, written in (
        ("time", "latency", "bandwidth", f"{text} 400GB/s"),
        ("bandwidth", "bandwidth", "latency", f"5us {text}"),
    ):
        try:
            units.parse(text, dimension)
        except InputError:
            continue
        raise InputError(
            f"{text!r} is a {is_a}, and the {other} is missing", where=where,
            allowed="two quantities, or the name of one link", do=f"write {written}",
        )  # fmt: skip


def is_toml(text: str) -> bool:
    """Tell whether a text is TOML."""
    try:
        parse_toml(text, where="")
    except InputError:
        return False
    return True


def replaced(scenario: Scenario, path: Path) -> tuple[Scenario, list[str]]:
    """Return the scenario with the links of its tiers taken from a file of links, and doubts.

    The curves stay those of the catalogue's links: only the law part of a time moves with the new ones.

    Raises
    ------
    InputError
        The file cannot be read, is not of the catalogue's form, or holds no link by the name of a tier.
    """
    from nhalf.catalog import build, files, reading, stated

    text = read_text(path)
    if path.suffix.lower() != ".toml" and not is_toml(text):
        raise InputError(
            "it is no file of links", where=f"--links {path}", allowed="TOML with [links.intra-node] or the like",
            do=f"if it is the log of a benchmark, run nhalf fit {path} -o mycluster.toml, then --on mycluster.toml",
        )  # fmt: skip
    tables = reading.parse(text, where=str(path), dates=files.dates())
    if "like" in tables:
        raise InputError("it is a cluster file", where=f"--links {path}", allowed="a file of links", do=f"--on {path}")
    found = stated.links_in(tables, where=str(path))
    tiers = {TIERS[name]: entry for name, entry in found.items() if name in TIERS}
    if not tiers:
        raise InputError("no link is named after a tier", where=str(path), allowed=", ".join(TIERS))
    origins = dict(scenario.origins)
    fields: dict[str, Any] = {}
    doubts: list[str] = []
    for tier, entry in tiers.items():
        fields[tier], data = build.link(entry, where=f"{path}: {tier}")
        doubts += _above(scenario, tier, data["bandwidth_bytes_per_s"], path)
        origins |= {f"system.fabric.{tier}.{name}": datum for name, datum in data.items()}
    fabric = replace(scenario.system.fabric, **fields)
    return replace(scenario, system=replace(scenario.system, fabric=fabric), origins=origins), doubts


def _above(scenario: Scenario, tier: str, fitted: Datum, path: Path) -> list[str]:
    """Return that a link was fitted wider than the system's own, interval and all: it is not what one link carries."""
    stated = scenario.origins.get(f"system.fabric.{tier}.bandwidth_bytes_per_s")
    least = fitted.value if fitted.low is None else fitted.low
    if stated is None or fitted.kind not in ("fitted", "measured") or least <= stated.value:
        return []
    wide, own = units.format_bandwidth(fitted.value), units.format_bandwidth(stated.value)
    doubt = (
        f"{path}: a link of {wide} is above the {own} of {scenario.system.name} ({tier}, {stated.kind} "
        f"[{stated.source}]): the log is of another machine, or its bus bandwidth is one of switches that add up "
        "(NVLS, SHARP), which no single link carries"
    )
    return [doubt]

"""Changes: the inputs that a user sets by path, with their units, and what looks wrong but is possible."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.errors import InputError
from nhalf.loading.inputs import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Quantity
    from nhalf.scenario import Scenario

BIDIRECTIONAL = 1.3
"""A bandwidth this many times the known one-way rate is most likely the sum of both directions."""
_HEADERS = 0.05
"""Headers take up to so much of a line rate (note on `roce-800g` in links.toml), so rates so near are one."""
_LINKS = {
    "system.fabric.intra_node": "nvlink", "system.fabric.inter_node": "inter-node",
    "system.fabric.inter_rack": "inter-rack",
}  # fmt: skip
"""Paths of links, and the word by which an option names each."""
_SUFFIXES = {"_bytes_per_s": "bytes/s", "_flop_per_s": "FLOP/s", "_bytes": "bytes", "_s": "s"}
_REASON = {
    "s": (1e-12, 1e4), "bytes": (1e-3, 1e18), "bytes/s": (1.0, 1e18), "FLOP/s": (1.0, 1e24), "1": (1e-9, 1e9),
}  # fmt: skip
"""The least and the most that a number of a unit can be; beyond them a prediction would only be noise."""
FLAGGED = {row.path: row.on_command_line for row in BY_NAME.values() if row.path} | {
    "workload.context_tokens": "--context, or --isl and --osl",
    **dict.fromkeys(("stack.remedies.bypassed_s", "stack.remedies.through_kernel_s"), "--kernel-bypass"),
}
"""Inputs that a flag sets, for which there are several values in one answer."""
_MAY_BE_ZERO: Final = ("software_factor", "_layer_factor", "_share", "_sharing", "_concentration")


TRANSPORT: Final = "system.transport"
"""The path of all constants of the network stack between nodes: its value is the name of a fabric of the catalogue."""


def apply(scenario: Scenario, changes: Mapping[str, str]) -> tuple[Scenario, list[str]]:
    """Return the scenario with the texts of `--set` applied as given values, and warnings about them.

    Raises
    ------
    InputError
        A path that is no input, a value without its unit, or one that is impossible.
    """
    values: dict[str, Quantity] = {}
    origins = dict(scenario.origins)
    warnings: list[str] = []
    if TRANSPORT in changes:
        scenario = _on_fabric(scenario, changes[TRANSPORT])
        origins = dict(scenario.origins)
    for path, text in changes.items():
        if path == TRANSPORT:
            continue
        where = f"--set {path}"
        if path in FLAGGED:
            raise InputError("a flag of its own sets this", where=where, do=f"use {FLAGGED[path]}")
        _refuse_tier(path, text, scenario)
        before = scenario.value(path)
        unit = unit_of(path)
        count = isinstance(before, int)
        value = units.parse_count(text, where=where) if count else units.parse_for_unit(text, unit, where=where)
        _check(path, value, text)
        values[path] = value
        origins[path] = Datum(value=value, unit=unit, source="--set", locator=path, kind="given", date="")
        if path.endswith("bandwidth_bytes_per_s") and path.startswith("system.fabric"):
            warnings += bidirectional(value, float(before), where, sold_one_way=path.startswith(_of_nic(scenario)))
    return replace(scenario.having(values), origins=origins), warnings


def _on_fabric(scenario: Scenario, name: str) -> Scenario:
    """Return the scenario with the network stack of a fabric of the catalogue between its nodes."""
    transport, of_transport = store.transport(name, where=f"--set {TRANSPORT}")
    origins = {**scenario.origins, **{f"{TRANSPORT}.{path}": datum for path, datum in of_transport.items()}}
    return replace(scenario, system=replace(scenario.system, transport=transport), origins=origins)


def _refuse_tier(path: str, text: str, scenario: Scenario) -> None:
    """Refuse the path of a whole link, and say how another link is asked for."""
    if path not in _LINKS:
        return
    word = "nic" if f"{path}." == _of_nic(scenario) else _LINKS[path]
    raise InputError(
        "a link is two inputs", where=f"--set {path}", allowed=f"{path}.latency_s, {path}.bandwidth_bytes_per_s",
        do=f"set them, or ask nhalf whatif --option {word}={text}",
    )  # fmt: skip


def _check(path: str, value: float, text: str) -> None:
    """Refuse a value that no machine has: a share above 1, a rate or a count of 0, a size beyond all reason."""
    where = f"--set {path}"
    if path.endswith("_efficiency") and not 0 < value <= 1:
        raise InputError(f"{text!r} is no share of a datasheet rate", where=where, allowed="more than 0, at most 1")
    may_be_zero = unit_of(path) == "s" or path.endswith(_MAY_BE_ZERO)
    if value == 0 and not may_be_zero:
        raise InputError(f"{text!r} is zero", where=where, allowed="more than 0")
    least, most = _REASON[unit_of(path)]
    if value and not least <= value <= most:
        unit = "" if unit_of(path) == "1" else f" {unit_of(path)}"
        raise InputError(f"{text!r} is beyond reason", where=where, allowed=f"{least:g} to {most:g}{unit}")


def unit_of(path: str) -> str:
    """Return the unit that the suffix of a path states; "1" where it states none."""
    return next((unit for suffix, unit in _SUFFIXES.items() if path.endswith(suffix)), "1")


def _of_nic(scenario: Scenario) -> str:
    """Return the path of the link that leaves a node, or a rack where nodes share switches."""
    return f"system.fabric.{'inter_node' if scenario.system.fabric.inter_rack is None else 'inter_rack'}."


def bidirectional(value: float, known_one_way: float, where: str, *, sold_one_way: bool = False) -> list[str]:
    """Return a warning when a bandwidth [bytes/s] is well above the known one-way rate, else nothing.

    NICs are sold by their rate one way, so a rate that a link of the catalogue has is that of a faster NIC. NVLink is
    sold by the sum of both ways, which is the rate of the next generation one way: there the warning stays.
    """
    if value < BIDIRECTIONAL * known_one_way or (sold_one_way and _is_of_a_link(value)):
        return []
    given, known, half = (units.format_bandwidth(rate) for rate in (value, known_one_way, value / 2))
    doubt = f"{given} looks bidirectional: the known rate is {known} one way"
    return [f"{where}: {doubt}; did you mean {half}?"]


def _is_of_a_link(rate: float) -> bool:
    """Tell whether a link of the catalogue has a rate [bytes/s], as a line rate or without its headers."""
    links = (store.link(name)[0] for name in store.names("link"))
    return any(math.isclose(rate, float(link.bandwidth_bytes_per_s), rel_tol=_HEADERS) for link in links)


def moved(scenario: Scenario, recorded: Mapping[str, float]) -> list[str]:
    """Return a warning for each number that is no longer what a scenario file recorded; those that are given may be."""
    found = []
    for path, before in recorded.items():
        origin = scenario.origins.get(path)
        if origin is None or origin.kind == "given" or math.isclose(origin.value, before, rel_tol=1e-9, abs_tol=1e-15):
            continue
        now, then = (units.format_value(value, origin.unit) for value in (origin.value, before))
        found.append(f"{path} is {now} now, and was {then} when the scenario was saved; set it with --set {path}=...")
    return found

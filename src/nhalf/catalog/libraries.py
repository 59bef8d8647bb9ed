"""Builds communication libraries from their entries: what they run where, their tuner, and their own thresholds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.catalog.build import numbers_at
from nhalf.catalog.schema import data
from nhalf.citation import Datum
from nhalf.errors import InputError, did_you_mean
from nhalf.library import (
    NO_CORRECTION,
    NO_PLATEAU,
    Correction,
    Library,
    Plateau,
    Rate,
    Rule,
    SymmetricKernels,
    Tuner,
    TunerPath,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nhalf.catalog.schema import (
        LibraryEntry,
        LimitsEntry,
        PathEntry,
        RuleEntry,
        SourceEntry,
        SymmetricEntry,
        TunerEntry,
    )

Origins = dict[str, Datum]
"""The origin of each number, by its scenario path."""

_AT: Final = "stack.library.tuner."
_LIMIT: Final = "bandwidth_limit_bytes_per_s"
_NODES: Final = {"in_node": "in_node.", "many_nodes": "many_nodes."}
_OWN: Final = ("ring", "tree")
_PRIOR: Final = "prior"
_ANY: Final = "any"
_RANKS: Final = re.compile(r"(\d+)(?:-(\d+)|(\+))?")
_MANY: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class TunerParts:
    """A tuner on one architecture, still in entries; `at_home` where it is the library's own and no stand-in."""

    entry: TunerEntry
    limits: LimitsEntry
    name: str
    at_home: bool = True


def tuner_for(own: str, architecture: str, tuners: Mapping[str, TunerEntry], known: frozenset[str]) -> TunerParts:
    """Return the tuner of a library on an architecture: its own, or another one that knows the architecture.

    NCCL does not run everywhere: where it does not, the library that stands for it there plans (RCCL), and on an
    architecture of the catalogue that no tuner knows, a prior does. `known` are the architectures of the catalogue.

    Raises InputError when nothing knows the architecture.
    """
    for name in dict.fromkeys((own, *tuners)):
        entry = tuners[name]
        limits = entry.limits.get(entry.like.get(architecture, architecture))
        if limits is None and name == own:
            limits = entry.limits.get(_ANY)
        if limits is not None:
            same = name.partition("-")[0] == own.partition("-")[0]
            return TunerParts(entry=entry, limits=limits, name=name, at_home=same)
    if architecture in known:
        return TunerParts(entry=tuners[_PRIOR], limits=tuners[_PRIOR].limits[_ANY], name=_PRIOR, at_home=False)
    names = sorted({name for entry in tuners.values() for name in (*entry.limits, *entry.like)} - {_ANY})
    raise InputError(
        f"the tuner of {own} has no limits for the architecture {architecture!r}",
        where="architecture",
        allowed=", ".join(names),
        do=did_you_mean(architecture, names),
    )


def library(name: str, entry: LibraryEntry, parts: TunerParts, *, where: str) -> tuple[Library, Origins]:
    """Return a library with its tuner, and the origins of those of its numbers that can be set.

    What only counts on one node, on many, or with help from switches are facts of the library, and no inputs: `values`
    has the origins of all.

    Raises InputError when a value cannot be read.
    """
    origins = values(parts, where=where)
    paths = dict(_paths(parts, origins))
    built = Library(
        name=name,
        in_node=entry.in_node,
        across_nodes=entry.across_nodes,
        tuner=Tuner(
            **{name: path for name, path in paths.items() if path.family in _OWN},
            helped=tuple(path for path in paths.values() if path.family not in _OWN),
            channels=origins[f"{_AT}channels"].value,
        ),
        tuner_factor=origins["stack.library.tuner_factor"].value,
        planner=parts.name,
        at_home=parts.at_home,
        planned=entry.planned,
    )
    fixed = tuple(f"{_AT}{path}." for path, made in paths.items() if made.family not in _OWN)
    kept = {
        path: datum
        for path, datum in origins.items()
        if not path.startswith(fixed) and not any(f".{prefix}" in path for prefix in _NODES.values())
    }
    return built, kept


def symmetric(
    entries: Mapping[str, SymmetricEntry], architecture: str, *, where: str
) -> tuple[SymmetricKernels | None, Origins]:
    """Return what NCCL expects of its symmetric kernels on an architecture, with the origins; None where it has none.

    Raises InputError when a value cannot be read.
    """
    if architecture not in entries:
        return None, {}
    origins = dict(data(entries[architecture], where=f"{where}.{architecture}"))
    return SymmetricKernels(**{name: datum.value for name, datum in origins.items()}), origins


def values(parts: TunerParts, *, where: str) -> Origins:
    """Return the origin of every number of a library's tuner, by the path of the noun's field.

    Raises InputError when a value cannot be read.
    """
    origins: Origins = {
        "stack.library.tuner_factor": parts.entry.factor.datum(f"{where}, factor"),
        f"{_AT}channels": parts.entry.channels.datum(f"{where}, channels"),
    }
    for path, datum in data(parts.entry.paths, where=where):
        if _is_run(path.partition(".")[0], parts.limits):
            origins[f"{_AT}{_share(path)}"] = datum
    for path, datum in data(parts.limits, where=where):
        if path == "nvls_share":
            origins[f"{_AT}nvls_simple.bandwidth_share"] = datum
            origins[f"{_AT}nvls_tree_simple.bandwidth_share"] = datum
            continue
        nodes, _, name = path.removesuffix("_bytes_per_s").rpartition(".")
        origins[f"{_AT}{name}.{_NODES.get(nodes, '')}{_LIMIT}"] = datum
    for path in parts.entry.paths.__struct_fields__:
        _complete(origins, f"{_AT}{path}.")
    return origins


def _share(path: str) -> str:
    """Return a path of an entry as that of the noun: a share on one node or on many belongs to their rates."""
    for nodes, prefix in _NODES.items():
        path = path.replace(f"{nodes}_share", f"{prefix}share")
    return path


def _is_run(path: str, limits: LimitsEntry) -> bool:
    """Tell whether an architecture has a path at all: switches that add up are not everywhere."""
    return not path.startswith("nvls") or limits.nvls_share is not None


def _complete(origins: Origins, at: str) -> None:
    """Give a rate that has a limit or a share of its own the other of the two, which is that on two nodes."""
    for prefix in _NODES.values():
        if not any(path.startswith(f"{at}{prefix}") for path in origins):
            continue
        for mine, other in ((f"{prefix}share", "bandwidth_share"), (f"{prefix}{_LIMIT}", _LIMIT)):
            if f"{at}{other}" in origins:
                origins.setdefault(f"{at}{mine}", origins[f"{at}{other}"])


def _paths(parts: TunerParts, origins: Origins) -> Iterator[tuple[str, TunerPath]]:
    """Yield each path of the tuner that the architecture has."""
    for name in parts.entry.paths.__struct_fields__:
        entry: PathEntry | None = getattr(parts.entry.paths, name)
        if entry is None or not _is_run(name, parts.limits):
            continue
        yield name, _path(entry, f"{_AT}{name}.", origins)


def _path(entry: PathEntry, at: str, origins: Origins) -> TunerPath:
    """Return a path of a tuner with the numbers below `at`."""
    rates = {
        nodes: Rate(**numbers) for nodes, prefix in _NODES.items() if (numbers := numbers_at(origins, f"{at}{prefix}"))
    }
    return TunerPath(
        algorithm=entry.algorithm,
        protocol=entry.protocol,
        family=entry.family,
        in_node=rates.get("in_node"),
        many_nodes=rates.get("many_nodes"),
        correction=Correction(entry.correction.factors) if entry.correction else NO_CORRECTION,
        plateau=Plateau(*entry.plateau.factors) if entry.plateau else NO_PLATEAU,
        **numbers_at(origins, at),
    )


def rules(name: str, entry: RuleEntry, origins: Mapping[str, SourceEntry], *, where: str) -> Iterator[Rule]:
    """Yield the rule of each number of ranks that an entry names.

    Raises InputError when the sizes do not fit the algorithms, fall, or cannot be read, or the source is not there.
    """
    if entry.source not in origins:
        raise InputError(f"there is no source {entry.source!r}", where=f"{where} [{name}]", allowed=", ".join(origins))
    for ranks, texts in entry.limits.items():
        here = f"{where} [{name}] limits.{ranks}"
        if len(texts) != len(entry.algorithms) - 1:
            raise InputError(
                f"{len(texts)} sizes for {len(entry.algorithms)} algorithms",
                where=here,
                allowed="one size for each algorithm but the last",
            )
        limits = tuple(_limit(entry, text, origins[entry.source].date, here) for text in texts)
        sizes = [limit.value for limit in limits]
        if sizes != sorted(sizes):
            raise InputError("the sizes fall", where=here, allowed="sizes that rise, or stay where one is never run")
        yield Rule(
            limits=limits,
            ranks=_rank_range(ranks, here),
            date=origins[entry.source].date,
            **{field: getattr(entry, field) for field in entry.__struct_fields__ if field != "limits"},
        )


def _limit(entry: RuleEntry, text: str, date: str, where: str) -> Datum:
    """Return one size of a rule with its origin; a fact about one version of a library."""
    value = units.parse(text, "size", where=where)
    return Datum(value=value, unit="bytes", source=entry.source, locator=entry.locator, kind="assumed", date=date)


def _rank_range(text: str, where: str) -> tuple[int, int]:
    """Return the first and last number of ranks of `8`, `4-7` or `512+`."""
    found = _RANKS.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is no number of ranks", where=where, allowed="8, 4-7 or 512+")
    first = int(found[1])
    last = int(found[2]) if found[2] else _MANY if found[3] else first
    return first, last

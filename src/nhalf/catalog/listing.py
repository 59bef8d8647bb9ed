"""Lists what the catalogue holds, with the origin of every value, for `nhalf catalog`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from nhalf import units
from nhalf.catalog import files, naming, overlay, resolve, schema, stated, store
from nhalf.catalog.reading import convert
from nhalf.citation import Datum
from nhalf.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nhalf.citation import Kind
    from nhalf.curve import MeasuredCurve
    from nhalf.link import Link
    from nhalf.transformer import Transformer

KINDS: Final = (*store.KINDS, "hierarchy", "curve", "source")
"""Every kind that can be listed."""

Standing = Literal["", "added", "overridden"]

_PLACES: Final = {
    "system": "systems/{}.toml",
    "device": "devices/{}.toml",
    "link": "links.toml",
    "fabric": "fabrics.toml",
    "library": "libraries.toml",
    "engine": "stacks.toml",
    "model": "models/{}.json",
    "hierarchy": "hierarchy.toml",
    "curve": "curves/{}.csv",
    "source": "sources.toml",
}
_TABLES: Final = {
    "link": "links",
    "fabric": "transports",
    "library": "libraries",
    "engine": "engines",
    "hierarchy": "rungs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One thing of the catalogue: its kind, its id, what it is, and each of its values by path.

    `facts` are what is said of it in words; `standing` tells whether the user's own catalogue added or overrides it.
    """

    kind: str
    name: str
    title: str
    values: Mapping[str, Datum]
    facts: Mapping[str, str] = field(default_factory=dict)
    standing: Standing = ""


def kind_of(text: str) -> str:
    """Return the kind that a word means, in the singular or the plural, whatever its case.

    Raises InputError when there is no such kind.
    """
    word = text.strip().casefold()
    readings = (word, word.removesuffix("s"), f"{word.removesuffix('ies')}y")
    found = next((reading for reading in readings if reading in KINDS), None)
    if found is None:
        raise _no_kind(text)
    return found


def entries(kind: str | None = None, name: str | None = None) -> list[Listed]:
    """Return everything in the catalogue, or everything of a kind, or the one thing of a kind with a name.

    The name of a curve may be any part of its key (`h100-sxm/vllm`); then every curve that has it is returned.

    Raises InputError when there is no such kind or name.
    """
    if kind is None:
        return [listed for each in KINDS for listed in entries(each)]
    if kind not in KINDS:
        raise _no_kind(kind)
    if kind == "curve":
        return _curves(name)
    if kind in ("source", "hierarchy"):
        known = list(store.sources()) if kind == "source" else list(resolve.rungs())
        keys = known if name is None else [_known(name, known, kind)]
    else:
        keys = store.names(kind) if name is None else [store.find(kind, name, where=kind)]
    return [_LISTERS[kind](key) for key in keys]


def rungs() -> Iterator[tuple[str, Link]]:
    """Yield the rungs of the hierarchy of memories and links, the nearest to the arithmetic first."""
    yield from ((key, store.rung(key)[0]) for key in resolve.rungs())


def yours() -> str:
    """Return what the user's own catalogue adds and overrides, in one sentence; empty when there is none."""
    mine = overlay.current()
    if mine is None:
        return ""
    standing: dict[str, list[str]] = {"added": [], "overridden": []}
    for kind in KINDS:
        for key in _touched(kind, mine):
            standing[_standing(kind, key)].append(f"{kind} {key}")
    parts = [
        f"{verb} {', '.join(names)}"
        for verb, names in (("adds", standing["added"]), ("overrides", standing["overridden"]))
        if names
    ]
    return f"{overlay.VARIABLE}={mine.name} {' and '.join(parts) or 'holds nothing'}."


# --- one thing of each kind -------------------------------------------------------------------------------------------


def _system(key: str) -> Listed:
    entry = stated.system(key)
    sibling = resolve.sibling_of(key)
    measured = f"curves of {sibling}, a sibling" if sibling else "curves" if store.measured(key) else ""
    if entry.measured:
        measured = f"{len(entry.measured)} of its own{f', else {measured}' if sibling else ''}"
    facts = {
        "device": entry.device.name,
        "architecture": entry.device.architecture,
        "topology": str(entry.fabric.topology),
        **({"fabric": entry.transport} if entry.transport else {}),
        "measured": measured or "nothing: a tuner's plan is taken",
        **({"like": store.like(key)} if store.like(key) else {}),
        **dict(map(_measurement, entry.measured)),
        **{f"{each.op} x{each.ranks} in a model": f"{each.size}: {each.time}, {each.file}" for each in entry.in_model},
    }
    values = dict(store.system(key)[1])
    if entry.constants:
        shape = convert(entry.constants, schema.SomeConstants, where=f"{key} [constants]")
        values |= {f"stack.{path}": datum for path, datum in schema.data(shape, where=key)}
    return _listed("system", key, entry.title, values, facts)


def _measurement(entry: schema.MeasuredEntry) -> tuple[str, str]:
    """Return what a measurement of a cluster file is of, and what it holds and rests on."""
    nodes = f" on {entry.nodes} nodes" if entry.nodes > 1 else ""
    sizes = [size for size, _ in entry.points]
    launched = {"one": "one process for all GPUs", "one a rank": "a process a GPU"}.get(entry.processes, "")
    whose = " ".join(filter(None, (entry.library or "a library unknown", entry.version)))
    rests = " ".join(filter(None, (entry.file, entry.sha256 and f"({entry.sha256})", entry.tool)))
    parts = [launched, f"{len(sizes)} sizes, {sizes[0]} to {sizes[-1]}", entry.points[0][1], rests, entry.note]
    key = [f"{entry.op} x{entry.ranks}{nodes} of {whose}", str(entry.mode), entry.date]
    return ", ".join(filter(None, key)), ", ".join(filter(None, parts))


def _device(key: str) -> Listed:
    entry = stated.device(key)
    facts = {"architecture": entry.device.architecture}
    return _listed("device", key, entry.title, store.device(key)[1], facts)


def _engine(key: str) -> Listed:
    entry = stated.engine(key)
    values = {f"stack.{path}": datum for path, datum in schema.data(stated.constants(of_engine=key), where="constants")}
    return _listed("engine", key, entry.title, values, {"library": entry.library, "mode": str(entry.mode)})


def _library(key: str) -> Listed:
    """Return a library; a limit has the architecture at the end of its path."""
    entry = stated.library(key)
    values: dict[str, Datum] = {}
    for architecture in stated.architectures(entry.tuner):
        for path, datum in store.library(key, architecture=architecture)[1].items():
            is_limit = path.endswith("bandwidth_limit_bytes_per_s")
            values[f"{path}.{architecture}" if is_limit else path] = datum
    facts = {"in node": ", ".join(entry.in_node), "across nodes": ", ".join(entry.across_nodes), "tuner": entry.tuner}
    return _listed("library", key, entry.title, values, facts)


def _link(key: str) -> Listed:
    return _listed("link", key, stated.links()[key].title, store.link(key)[1])


def _fabric(key: str) -> Listed:
    entry = stated.transports()[key]
    known = {"machine": "measured on this machine", "class": "of its class", "wide": "nobody measured its class"}
    facts = {
        "constants": known[entry.known],
        "rest on": entry.rests_on,
        "protocol LL128": "yes" if entry.ll128 else "no",
    }
    return _listed("fabric", key, entry.title, store.transport(key)[1], facts)


def _rung(key: str) -> Listed:
    return _listed("hierarchy", key, str(resolve.rungs()[key].get("title", key)), store.rung(key)[1])


def _model(key: str) -> Listed:
    built, datum = store.transformer(key)
    sizes = f"{built.layer_count} layers of width {built.hidden_size}"
    return _listed("model", key, sizes, {"transformer.parameters": datum}, _dimensions(built))


def _dimensions(built: Transformer) -> dict[str, str]:
    """Return what a step hangs on of a model, in words: width, attention, cache, experts, formats, parameters."""
    mixture, element = built.mixture, built.kv_dtype
    found = {
        "hidden size": f"{built.hidden_size}, vocabulary {built.vocabulary_size}",
        "attention": "; ".join(
            f"{part.name} in {part.layer_count} layers, {part.attention.heads} heads"
            + (f", {kv_heads} of keys and values" if (kv_heads := getattr(part.attention, "kv_heads", 0)) else "")
            for part in built.cache_parts()
        ),
        "cache": f"{units.format_size(built.kv_bytes())} in {element} for each token, on one device",
    }
    if mixture is not None:
        found["experts"] = (
            f"{mixture.experts} in {mixture.layer_count} layers, of which a token takes {mixture.chosen}, "
            f"in {mixture.expert_dtype}"
        )
    found["weights"] = built.weight_dtype if built.weight_dtype == built.base_dtype else (
        f"{built.weight_dtype}, what is not quantised in {built.base_dtype}"
    )  # fmt: skip
    active = (
        ""
        if mixture is None
        else f", of which a token multiplies with {units.format_number(built.active_parameters / 1e9)} billion"
    )
    found["parameters"] = f"{units.format_number(built.parameters / 1e9)} billion{active}"
    return found


def _source(key: str) -> Listed:
    source = store.sources()[key]
    facts = {"date": source.date, "url": source.url, "licence": source.licence}
    return _listed("source", key, source.title, {}, {name: text for name, text in facts.items() if text})


def _listed(
    kind: str, key: str, title: str, values: Mapping[str, Datum], facts: Mapping[str, str] | None = None
) -> Listed:
    standing = _standing(kind, key)
    return Listed(kind=kind, name=key, title=title, values=values, facts=facts or {}, standing=standing)


# --- curves -----------------------------------------------------------------------------------------------------------


def _curves(name: str | None) -> list[Listed]:
    """Return the curves whose key has every part of a name, or all of them."""
    wanted = (name or "").casefold().replace("_", "-").split("/")
    keys = [key for key in store.names("system") if resolve.measured_on(key) == key and not resolve.sibling_of(key)]
    found = [_curve(key, curve) for key in keys for curve in store.measured(key)]
    matching = [each for each in found if all(part in each.name.casefold() for part in wanted)]
    if not matching:
        measured = [key for key in keys if bool(store.measured(key))]
        raise InputError(
            f"no curve has {name!r} in its key", where="curve", allowed=f"any part of SYSTEM/LIBRARY VERSION/MODE/OP"
            f"/DTYPE; measured systems: {', '.join(measured)}", do=did_you_mean(wanted[0], measured)
        )  # fmt: skip
    return matching


def _curve(system: str, curve: MeasuredCurve) -> Listed:
    """Return a curve by its quantities: at each number of ranks the floor, twice the floor, and its line."""
    values: dict[str, Datum] = {}
    for ranks in curve.ranks:
        line = curve.line(ranks)
        quantities: tuple[tuple[str, float, str, Kind], ...] = (
            ("floor_s", curve.floor_s(ranks), "s", "measured"),
            ("double_floor_size_bytes", curve.double_floor_size_bytes(ranks), "bytes", "measured"),
            ("line.latency_s", line.latency_s, "s", "fitted"),
            ("line.bandwidth_bytes_per_s", line.bandwidth_bytes_per_s, "bytes/s", "fitted"),
        )
        for quantity, value, unit, kind in quantities:
            if math.isfinite(value):
                values[f"ranks_{ranks}.{quantity}"] = Datum(
                    value=value, unit=unit, source=curve.source, locator=curve.locator, kind=kind, date=curve.date
                )
    name = f"{curve.key} ({curve.flag})" if curve.flag else str(curve.key)
    title = f"{curve.key.op} of {curve.key.library} {curve.key.version} at {', '.join(map(str, curve.ranks))} ranks"
    facts = {"kernel": curve.key.kernel, "noise of one run": f"{100 * curve.log_sd:.2g} %", "note": curve.note}
    kept = {label: text for label, text in facts.items() if text}
    return Listed(kind="curve", name=name, title=title, values=values, facts=kept, standing=_standing("curve", system))


# --- the user's own ---------------------------------------------------------------------------------------------------


def _touched(kind: str, mine: overlay.Overlay) -> list[str]:
    """Return the names of a kind that the user's catalogue holds."""
    place = _PLACES[kind]
    if "{}" in place:
        folder, _, suffix = place.partition("/{}")
        return sorted(set(mine.stems(folder, suffix)))
    content = mine.tables.get(place, {})
    return list(content if kind == "source" else content.get(_TABLES[kind], {}))


def _standing(kind: str, key: str) -> Standing:
    """Return whether the user's catalogue added a thing or overrides nhalf's."""
    mine = overlay.current()
    if mine is None or key not in _touched(kind, mine):
        return ""
    place = _PLACES[kind]
    if "{}" in place:
        return "overridden" if files.own_text(place.format(key)) else "added"
    own = files.own_tables(place)
    return "overridden" if key in (own if kind == "source" else own.get(_TABLES[kind], {})) else "added"


def _known(name: str, known: list[str], kind: str) -> str:
    """Return a name of a kind that has no aliases."""
    letters = {naming.letters(key): key for key in known}
    if naming.letters(name) not in letters:
        raise InputError(
            f"the catalogue has no {kind} {name!r}",
            where=kind,
            allowed=", ".join(known),
            do=did_you_mean(name, known),
        )
    return letters[naming.letters(name)]


def _no_kind(text: str) -> InputError:
    return InputError(
        f"there is no kind {text!r}", where="catalogue", allowed=", ".join(KINDS), do=did_you_mean(text, KINDS)
    )


_LISTERS: dict[str, Callable[[str], Listed]] = {
    "system": _system,
    "device": _device,
    "engine": _engine,
    "library": _library,
    "link": _link,
    "fabric": _fabric,
    "model": _model,
    "hierarchy": _rung,
    "source": _source,
}

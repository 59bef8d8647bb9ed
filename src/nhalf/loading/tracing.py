"""The flags of `nhalf trace`, read: the marks of steps, the sizes of a model and the prices of links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.catalog import build, reading, stated, store
from nhalf.catalog import files as catalogue
from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.files.reading import read_json, read_text
from nhalf.loading.links import link as read_link
from nhalf.trace import pricing

if TYPE_CHECKING:
    from nhalf.link import Link
    from nhalf.trace.fixed_time import Pricing

_ELEMENT_BYTES: Final = 2.0  # activations are summed in 16 bits by every engine that is read here
_TWO: Final = 2


def step_marks(text: str | None) -> str | None:
    """Return the marker's expression, checked."""
    if text is not None:
        try:
            re.compile(text)
        except re.error as error:
            raise InputError(
                f"{text!r} is no regular expression: {error}", where="--step", allowed="ProfilerStep#"
            ) from error
    return text


def sizes(model: str | None, batch: str | None) -> dict[Op, float] | None:
    """Return the bytes of an all-reduce by the model: the hidden vectors of the batch."""
    if model is None:
        return None
    if batch is None:
        raise InputError("--model needs --batch to say a size", where="nhalf trace", do="add --batch 8")
    return {Op.ALL_REDUCE: _hidden_size(model) * units.parse_count(batch, where="--batch") * _ELEMENT_BYTES}


def _hidden_size(model: str) -> int:
    """Return the hidden size of a built-in model or of a config.json; nothing else of the config is asked."""
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.suffix != ".json":
        return store.transformer(model, where="--model")[0].hidden_size
    config = read_json(path)
    text = config.get("text_config")
    found = config.get("hidden_size") or (text.get("hidden_size") if isinstance(text, dict) else None)
    if not isinstance(found, int) or isinstance(found, bool) or found <= 0:
        raise InputError("the config says no hidden_size", where=str(path), allowed="a positive whole number")
    return found


def price(links: str | None) -> Pricing | None:
    """Return the prices of the links or the fit."""
    if links is None:
        return None
    path = Path(links)
    if path.suffix == ".toml":
        return _of_file(path)
    if path.suffix == ".json" or path.is_file():
        return pricing.of_fits(read_json(path), str(path))
    parts = [part for part in re.split(r"[,\s]+", links.strip()) if part]
    if len(parts) > _TWO or not parts:
        raise InputError(f"{links!r} is no link", where="--links", allowed='"5us,400GB/s", one name, or a fit.json')
    return pricing.of_link(read_link(parts)[0])


def _of_file(path: Path) -> Pricing:
    """Return the prices of a file: a cluster's own curves, or the link inside its node; or a file of links."""
    tables = reading.parse(read_text(path), where=str(path), dates=catalogue.dates())
    if "links" in tables:
        return pricing.of_link(_link_in(tables, path))
    system, _ = store.system(str(path), curves=True, where="--links")
    lines = [
        {"op": str(curve.key.op), "ranks": ranks, "latency_s": line.latency_s, "bandwidth_bytes_per_s": rate}
        for curve in system.curves
        for ranks in curve.ranks
        if curve.own
        and curve.is_measured(ranks)
        and (line := curve.line(ranks))
        and (rate := line.bandwidth_bytes_per_s)
    ]
    return pricing.of_fits({"fits": lines}, str(path)) if lines else pricing.of_link(system.fabric.intra_node)


def _link_in(tables: dict[str, Any], path: Path) -> Link:
    """Return the link of a file of links: that inside a node, or else across nodes."""
    found = stated.links_in(tables, where=str(path))
    for name in ("intra-node", "inter-node"):
        if name in found:
            return build.link(found[name], where=f"{path}: {name}")[0]
    raise InputError("no link is named after a tier", where=str(path), allowed="intra-node, inter-node")


def check_outputs(outputs: tuple[str, ...], *, compares: bool) -> None:
    """Refuse an output that is neither kind, before the work is done."""
    if compares and outputs:
        raise InputError("a comparison writes no file", where="-o", do="leave -o out, or --diff")
    for name in outputs:
        if Path(name).suffix not in (".json", ".html", ".toml"):
            allowed = ".json (Perfetto), .html (page), .toml (cluster file)"
            raise InputError(f"{name!r} has no known ending", where="-o", allowed=allowed)

"""Fitted links as a file of the catalogue's format, which `nhalf decode --links` reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.curve.surface import sent_share
from nhalf.errors import WeakEvidenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.evidence.intervals import Estimate

_HEAD: Final = """\
# Links fitted by nhalf. A latency is that of one message and a bandwidth that of one device, one way, as in the
# catalogue: a collective's fixed time is divided by the steps of a ring, its bandwidth is the bus bandwidth. Between
# nodes these are the steps that cross them, and the bus bandwidth is shared by as many NICs as a node has ranks.
"""
_SENDS_TWICE: Final = (Op.ALL_REDUCE,)
_IN_RINGS: Final = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER)
_IN_STEPS: Final = (*_IN_RINGS, Op.ALL_TO_ALL)


class _Value(NamedTuple):
    value: float
    low: float | None
    high: float | None


def write_links(fit: Fit, *, date: str) -> str:
    """Return the text of a links file: `intra-node` and `inter-node`, and every curve under a name of its own.

    `date` [ISO] is when it is written. A tier's link comes from its point-to-point curve, or else from its all-reduce
    on the most ranks. One rank count leaves the launch inside the latency, and the note says so.

    Raises WeakEvidenceError when no curve holds both a latency and a bandwidth.
    """
    usable = _usable(fit)
    if not usable:
        raise WeakEvidenceError(
            "no curve holds both a latency and a bandwidth of a link", where="-o",
            allowed="a sweep from the floor to the ceiling", do="see what is missing above, and measure it",
        )  # fmt: skip
    parts = [_HEAD]
    parts += [_entry(tier, curve, usable, date) for tier, curve in of_tiers(fit).items()]
    names: dict[str, int] = {}
    for curve in usable:
        name = f"{curve.series.key.name or 'message'}-{curve.series.key.ranks or 2}-{_tier(curve)}"
        names[name] = names.get(name, 0) + 1
        parts.append(_entry(name if names[name] == 1 else f"{name}-{names[name]}", curve, usable, date))
    return "\n".join(parts)


def described(fit: Fit) -> list[str]:
    """Return what `write_links` writes for each tier in words, and why that differs from the line of the operation."""
    usable = _usable(fit)
    return [_described(tier, curve, usable) for tier, curve in of_tiers(fit).items()]


def _described(tier: str, curve: CurveFit, usable: Sequence[CurveFit]) -> str:
    latency, why = _latency(curve, usable)
    share, beside = _sent(curve), _ranks_per_node(curve)
    whole = 0.0 if curve.bandwidth is None else curve.bandwidth.value
    shared = f" for the {beside} ranks of a node" if beside > 1 else ""
    values = f"{tier} {units.format_time(latency.value)}, {units.format_bandwidth(whole * share)}{shared}"
    if share == 1.0:
        return f"{values}. The latency: {why}."
    return (
        f"{values}: what one message pays on the link, not the whole operation. The latency: {why}. The bandwidth: the "
        f"bus bandwidth, {share:.3g} times the {units.format_bandwidth(whole)} of the operation; where switches add up "
        "(NVLS, SHARP) it is above the link's, and --on SYSTEM tells."
    )


def _usable(fit: Fit) -> list[CurveFit]:
    """Return the curves that hold both a latency and a bandwidth of a link."""
    usable = [curve for curve in fit.curves if curve.half_size_bytes is not None and not curve.misconfigured]
    return [curve for curve in usable if math.isfinite(curve.half_size_bytes or math.inf)]


def of_tiers(fit: Fit) -> dict[str, CurveFit]:
    """Return the curve that the link of each tier is taken from."""
    found, usable = {}, _usable(fit)
    for tier in ("intra-node", "inter-node"):
        of_tier = [curve for curve in usable if _tier(curve) == tier]
        if of_tier:
            found[tier] = max(of_tier, key=_preference)
    return found


def _tier(curve: CurveFit) -> str:
    return "inter-node" if (curve.series.key.nodes or 1) > 1 else "intra-node"


def _preference(curve: CurveFit) -> tuple[bool, bool, int]:
    key = curve.series.key
    return key.op is Op.SEND_RECV, key.op is Op.ALL_REDUCE, key.ranks or 0


def _entry(name: str, curve: CurveFit, curves: Sequence[CurveFit], date: str) -> str:
    key = curve.series.key
    origin = f"nhalf fit: {key}, {key.quantity or 'quantity unknown'}"
    latency, why = _latency(curve, curves)
    beside = _ranks_per_node(curve)
    bandwidth = _scaled(curve.bandwidth, _sent(curve))
    lines = [f"[links.{name}]", f"title = {_text(f'Fitted: {key}')}", ""]
    lines += [f"[links.{name}.latency]", *_value(latency, "s", curve, origin, date), f"note = {_text(why)}", ""]
    lines += [f"[links.{name}.bandwidth]", *_value(bandwidth, "B/s", curve, origin, date)]
    shared = ['per = "node"', f"devices = {beside}"] if beside > 1 else ['per = "device"']
    lines += [*shared, 'direction = "one_way"']
    if beside > 1:
        lines.append(f'note = "as if each of the {beside} ranks of a node had a NIC of its own"')
    elif any(note.code == "above-the-link" for note in curve.notes):
        lines.append('note = "above the wire: the switch reduces, which only an all-reduce sees"')
    lines.append("")
    return "\n".join(lines)


def _sent(curve: CurveFit) -> float:
    key = curve.series.key
    if key.op not in _IN_STEPS or key.ranks is None:
        return 1.0
    return float(sent_share(np.array(float(key.ranks)), doubled=key.op in _SENDS_TWICE))


def _ranks_per_node(curve: CurveFit) -> int:
    """Return the ranks of a node, which send side by side where a collective crosses nodes; else 1."""
    key = curve.series.key
    nodes = key.nodes or 1
    return max(key.ranks // nodes, 1) if nodes > 1 and key.op in _IN_RINGS and key.ranks is not None else 1


def _steps(curve: CurveFit) -> float:
    """Return the steps of a ring; across nodes only those between nodes count, one for each node in a turn."""
    turns = 2.0 if curve.series.key.op in _SENDS_TWICE else 1.0
    return turns * ((curve.series.key.nodes or 1) if _ranks_per_node(curve) > 1 else (curve.series.key.ranks or 2) - 1)


def _latency(curve: CurveFit, curves: Sequence[CurveFit]) -> tuple[_Value, str]:
    """Return the latency of one message, and how it was had from the fixed time of the operation."""
    key = curve.series.key
    if key.op not in _IN_STEPS or key.ranks is None:
        return _scaled(curve.latency, 1.0), "one message, software included"
    alike = [
        other
        for other in curves
        if other.series.key.name == key.name and other.series.key.mode == key.mode and _tier(other) == _tier(curve)
    ]
    counts = sorted({other.series.key.ranks or 0 for other in alike})
    own = _steps(curve)
    upper = _scaled(curve.latency, 1.0 / own)
    if len({_steps(other) for other in alike}) > 1:
        steps = np.array([_steps(other) for other in alike])
        times = np.array([other.latency.value for other in alike if other.latency is not None])
        slope = float(np.polyfit(steps, times, 1)[0])
        if slope > 0.0:
            high = max(upper.high or upper.value, slope)
            return _Value(slope, None, high), f"growth of the fixed time per ring step over {counts} ranks"
    return upper._replace(
        low=None
    ), f"fixed time over the {own:.0f} steps of a ring{_between(curve)}: an upper bound, as the launch is inside it"


def _between(curve: CurveFit) -> str:
    return " between nodes" if _ranks_per_node(curve) > 1 else ""


def _scaled(found: Estimate | None, factor: float) -> _Value:
    if found is None:
        return _Value(0.0, None, None)
    low, high = (None if end is None else end * factor for end in (found.low, found.high))
    return _Value(found.value * factor, low, high)


def _value(found: _Value, unit: str, curve: CurveFit, origin: str, date: str) -> list[str]:
    lines = [f'value = "{found.value:.6g} {unit}"']
    lines += [f'low = "{found.low:.6g} {unit}"'] if found.low is not None else []
    lines += [f'high = "{found.high:.6g} {unit}"'] if found.high is not None else []
    source = curve.series.key.file or "samples"
    return [*lines, f"source = {_text(source)}", f"locator = {_text(origin)}", 'kind = "fitted"', f'date = "{date}"']


def _text(text: str) -> str:
    """Return a text as a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(letter if letter.isprintable() else " " for letter in escaped) + '"'

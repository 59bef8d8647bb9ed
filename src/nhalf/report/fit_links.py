"""Fitted links as tables of a cluster file: those of messages between two ranks; a collective is no link."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.collective import Op

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.evidence.intervals import Estimate


def link_tables(fit: Fit, *, date: str) -> dict[str, Any]:
    """Return the `fabric` of a cluster file with the links of a fit: that inside a node, and that between nodes.

    `date` [ISO] is when it is written. A latency is that of one message with its software, a bandwidth one way.
    """
    found = {tier: _entry(curve, date) for tier, curve in of_tiers(fit).items()}
    return {"fabric": found} if found else {}


def described(fit: Fit) -> list[str]:
    """Return what `link_tables` writes for each tier in words."""
    return [
        f"{tier.replace('_', '-')} link {units.format_time(curve.latency.value)}, "
        f"{units.format_bandwidth(curve.bandwidth.value)}: what one message pays, software included"
        for tier, curve in of_tiers(fit).items()
        if curve.latency is not None and curve.bandwidth is not None
    ]


def of_tiers(fit: Fit) -> dict[str, CurveFit]:
    """Return the curve of messages that the link of each tier is taken from: the first that holds both of its numbers.

    A curve that describes software, or results that are wrong, holds none.
    """
    found: dict[str, CurveFit] = {}
    for curve in fit.curves:
        half, key = curve.half_size_bytes, curve.series.key
        if key.op is Op.SEND_RECV and half is not None and math.isfinite(half) and not curve.misconfigured:
            found.setdefault("inter_node" if (key.nodes or 1) > 1 else "intra_node", curve)
    return found


def _entry(curve: CurveFit, date: str) -> dict[str, Any]:
    latency, bandwidth = _value(curve.latency, "s", curve, date), _value(curve.bandwidth, "B/s", curve, date)
    return {"latency": latency, "bandwidth": {**bandwidth, "per": "device", "direction": "one_way"}}


def _value(found: Estimate | None, unit: str, curve: CurveFit, date: str) -> dict[str, Any]:
    ends = {} if found is None else {"value": found.value, "low": found.low, "high": found.high}
    return {
        **{name: f"{end:.6g} {unit}" for name, end in ends.items() if end is not None},
        "source": curve.series.key.file.rpartition("/")[2] or "samples",
        "locator": f"nhalf fit: {curve.series.key}, {curve.series.key.quantity or 'quantity unknown'}",
        "kind": "fitted",
        "date": date,
    }

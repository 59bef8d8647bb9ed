"""The answer of `nhalf decode` as the JSON document of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf.decide.comparison import exchanged
from nhalf.report import decode_notes, decode_parts
from nhalf.report.document import datum, envelope, of, taken, term, whole
from nhalf.report.fields import LAYOUT, record, waited
from nhalf.report.verdict import said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.curve import MeasuredCurve
    from nhalf.decide.comparison import Comparison, Row
    from nhalf.loading import Default


def document(comparison: Comparison, defaults: Sequence[Default], warnings: Sequence[str]) -> dict[str, Any]:
    """Return the document of `nhalf decode`."""
    return envelope(
        "decode",
        {
            "verdict": " ".join(filter(None, said(comparison))),
            "rows": [_row(row) for row in comparison.rows],
            "best": [
                {"system": panel.system, "batch": whole(panel.batch), "layouts": [_layout(row) for row in panel.tied]}
                for panel in comparison.panels
            ],
            "crossovers": [of(found, "system", *CROSSOVER) for found in comparison.crossovers],
            "elasticities": [
                {**_which(row), "input": path, "value": value}
                for row in comparison.rows
                for path, value in row.elasticities.items()
            ],
            "levers": [
                {**_which(panel.fastest), **of(lever, "name", "factor", "gain", input="path")}
                for panel in comparison.panels
                for lever in panel.levers
            ],
            "remedies": [remedy for panel in comparison.panels for remedy in decode_parts.remedies(panel)],
            "sources": sources(comparison),
            "defaults": taken(defaults),
            "doubts": [*decode_notes.link_notes(comparison.rows), *decode_notes.incast_notes(comparison.rows)],
            "warnings": list(warnings),
        },
    )


def _layout(row: Row) -> dict[str, Any]:
    return {**record(row, LAYOUT), "replicas": row.layout.replicas, "layout": row.layout_name}


def _which(row: Row) -> dict[str, Any]:
    return {"system": row.system, "batch": whole(row.batch), "tp": row.tp, "layout": row.layout_name}


CROSSOVER: Final = (
    "collective", "tier", "ranks", "latency_s", "bandwidth_bytes_per_s", "half_size_bytes", "double_floor_size_bytes",
    "message_bytes_per_sequence", "batch_at_half_size", "batch_at_double_floor", "kind",
)  # fmt: skip
"""What is said of a crossover."""


def _row(row: Row) -> dict[str, Any]:
    """Return a row of the decode table."""
    inner = exchanged(row.step)
    return {
        **record(row),
        "tpot_s": None if row.prefills else row.tpot_s,
        "layout": row.layout_name,
        "replicas": row.layout.replicas,
        "with_peer_access_s": row.peers_s,
        **waited(row.waits),
        "tokens_per_step": float(row.scenario.workload.tokens_per_step),
        "accepted_tokens": row.accepted_tokens,
        "tokens_per_s": row.tokens_per_s * row.layout.replicas,
        "devices": row.layout.devices * row.layout.replicas,
        "collective_link_bytes_s": inner.link_bytes_s,
        "prefill_collective_s": inner.prefill_s,
        "memory": decode_parts.memory(row),
        "largest_batch": row.memory.largest_batch,
        "split_over_nodes_s": None if row.split is None else row.split.cost_s,
        "exchange_curves": row.exchange_curves or None,
        "kv_transfer": decode_parts.transfer(row),
        "terms": term(row.step),
    }


def sources(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the origin of every number that the comparison rests on, each once."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in comparison.rows:
        system = row.scenario.system.name
        for path, origin in row.scenario.origins.items():
            found.setdefault((system, path), {"system": system, "path": path, **datum(origin)})
        if row.curve is not None:
            found.setdefault((system, "system.curves.all-reduce"), _curve(row.curve, system))
    return list(found.values())


def _curve(curve: MeasuredCurve, system: str) -> dict[str, Any]:
    """Return the origin of a measured curve, which has many values and therefore none here."""
    own = {"value": None, "unit": "s", "kind": "measured", "low": None, "high": None, "note": str(curve.key)}
    own["as_of"] = f"{curve.key.library} {curve.key.version}"
    told = {name: getattr(curve, name) for name in ("source", "locator", "date")}
    return {"system": system, "path": "system.curves.all-reduce", **own, **told}

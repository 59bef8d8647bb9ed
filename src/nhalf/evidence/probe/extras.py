"""What follows from a run beside the fit: slow pairs, what hides under computing, what fusing saves, fixed times."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.evidence.probe.cell import FUSE, label_of
from nhalf.evidence.probe.statistics import median

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SLOW: Final = 1.25
"""A pair this many times above the quick quarter of its like, and out of their spread, is slow."""
_SPREADS: Final = 5.0
"""Out of the spread: as far above the quick quarter as this many times the way from the quickest to it."""
_LIKE: Final = 3
_MOST_RANKS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table of text with its notes; `marked` rows stand out."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    marked: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """Verdicts that come before the fit's, tables, the values behind them, and the next command (empty: none)."""

    verdicts: Sequence[str] = ()
    tables: Sequence[Sheet] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the values for the document."""
        return dict(self.values)


def of_run(run: Mapping[str, Any], *, pairs: bool) -> Extras:
    """Return what follows from the document of a run; `pairs`: every pair was measured."""
    found = [_fixed(run), _overlap(run), _fused(run)]
    if pairs:
        found.insert(0, _pairs(run))
    return Extras(
        verdicts=[verdict for each in found for verdict in each.verdicts],
        tables=[table for each in found for table in each.tables],
        values={name: value for each in found for name, value in each.values.items()},
        command=next((each.command for each in found if each.command), ""),
    )


# --- pairs ------------------------------------------------------------------------------------------------------------


def _pairs(run: Mapping[str, Any]) -> Extras:
    nodes = {rank["rank"]: rank["node"] for rank in run["ranks"]}
    hosts = {rank["rank"]: rank["host"] for rank in run["ranks"]}
    values: list[dict[str, Any]] = []
    verdicts: list[str] = []
    tables: list[Sheet] = []
    named = [
        curve
        for curve in run["curves"]
        if curve["of_ranks"] and curve["label"] == label_of(curve["channel"], curve["of_ranks"])
    ]
    for channel in sorted({curve["channel"] for curve in named}):
        rows = [_pair(curve, nodes) for curve in named if curve["channel"] == channel]
        rows = [row for row in rows if row["latency_s"] is not None]
        _mark(rows)
        values += rows
        verdicts.append(f"{channel}: {_said(rows, hosts)}")
        tables += _matrices(channel, rows, sorted(nodes))
    return Extras(verdicts=verdicts, tables=tables, values={"pairs": values},
                  command=f"{run['command']} -o pairs.json" if values else "")  # fmt: skip


def _pair(curve: Mapping[str, Any], nodes: Mapping[int, int]) -> dict[str, Any]:
    first, second = curve["of_ranks"]
    points = [point for point in curve["points"] if point["median_s"] is not None]
    latency = points[0]["median_s"] if points else None
    bandwidth = None
    if len(points) >= 2:  # noqa: PLR2004  a slope
        low, high = points[-2:]
        grown = high["median_s"] - low["median_s"]
        bandwidth = (high["size_bytes"] - low["size_bytes"]) / grown if grown > 0 else None
    return {
        "ranks": [first, second],
        "channel": curve["channel"],
        "across_nodes": nodes[first] != nodes[second],
        "latency_s": latency,
        "bandwidth_bytes_per_s": bandwidth,
        "slow": [],
    }


def _mark(rows: list[dict[str, Any]]) -> None:
    """Mark the pairs that are slow among those of their kind, inside nodes or across."""
    for across in (False, True):
        kind = [row for row in rows if row["across_nodes"] is across]
        if len(kind) < _LIKE:
            continue
        for name, sign in (("latency_s", 1.0), ("bandwidth_bytes_per_s", -1.0)):
            known = [row for row in kind if row[name]]
            costs = [row[name] if sign > 0 else 1.0 / row[name] for row in known]
            if len(costs) < _LIKE:
                continue
            # One slow host of three is part of two thirds of the pairs: the quick quarter says what is usual.
            usual = sorted(costs)[(len(costs) - 1) // 4]
            spread = usual - min(costs)
            for row, cost in zip(known, costs, strict=True):
                if cost > max(_SLOW * usual, usual + _SPREADS * spread):
                    row["slow"].append(name.partition("_")[0])


def _said(rows: Sequence[Mapping[str, Any]], hosts: Mapping[int, str]) -> str:
    """Return the verdict on a matrix in words."""
    tiers = []
    for across, name in ((False, "inside a node"), (True, "between nodes")):
        kind = [row for row in rows if row["across_nodes"] is across]
        # Slow pairs have a line of their own: a middle that they pull up would be nobody's time.
        kind = [row for row in kind if not row["slow"]] or kind
        if kind:
            tiers.append(f"{name} {_typical(kind)}")
    slow = [row for row in rows if row["slow"]]
    text = f"{len(rows)} pairs, {', '.join(tiers)}"
    if not slow:
        return f"{text}; no pair is slow among its like."
    are = "is" if len(slow) == 1 else "are"
    return f"{text}; {len(slow)} {are} slow: {_blamed(slow, rows, hosts)}, at {_typical(slow)}."


def _typical(rows: Sequence[Mapping[str, Any]]) -> str:
    text = units.format_time(median([row["latency_s"] for row in rows]))
    rates = [row["bandwidth_bytes_per_s"] for row in rows if row["bandwidth_bytes_per_s"]]
    return f"{text} and {units.format_bandwidth(median(rates))}" if rates else text


def _blamed(slow: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], hosts: Mapping[int, str]) -> str:
    """Return whom the slow pairs have in common: a host, a rank, or nobody."""
    for what, of in (("host", hosts), ("rank", {rank: rank for rank in hosts})):
        names = {of[rank] for row in slow for rank in row["ranks"]}
        for name in sorted(names, key=str):
            touching = [row for row in rows if name in {of[rank] for rank in row["ranks"]}]
            outer = [row for row in touching if len({of[rank] for rank in row["ranks"]}) > 1]
            # All that leave it are slow, and nothing else is.
            if outer and all(row["slow"] for row in outer) and all(row in touching for row in slow) and len(outer) > 1:
                where = f" (on {hosts[int(name)]})" if what == "rank" else ""
                return f"all pairs of {what} {name}{where}"
    pairs = [f"{row['ranks'][0]}-{row['ranks'][1]} ({' and '.join(row['slow'])})" for row in slow]
    return ", ".join(pairs)


def _matrices(channel: str, rows: Sequence[Mapping[str, Any]], ranks: Sequence[int]) -> Iterable[Sheet]:
    if len(ranks) > _MOST_RANKS:
        slow = [row for row in rows if row["slow"]]
        shown = slow or sorted(rows, key=lambda row: -row["latency_s"])[:_MOST_RANKS]
        cells = [[f"{row['ranks'][0]}-{row['ranks'][1]}", units.format_time(row["latency_s"]),
                  _rate(row), " and ".join(row["slow"])] for row in shown]  # fmt: skip
        yield Sheet(title=f"{channel}: {'slow' if slow else 'slowest'} pairs",
                    columns=["<pair", "latency", "bandwidth", "<slow in"], rows=cells)  # fmt: skip
        return
    by_pair = {tuple(row["ranks"]): row for row in rows}
    for name, show in (("latency", lambda row: units.format_time(row["latency_s"])), ("bandwidth", _rate)):
        cells = []
        for first in ranks:
            line = [str(first)]
            for second in ranks:
                row = by_pair.get((min(first, second), max(first, second)))
                line.append("" if row is None else show(row) + (" *" if name in row["slow"] else ""))
            cells.append(line)
        starred = any(name in row["slow"] for row in rows)
        yield Sheet(title=f"{channel}: {name} of every pair of ranks", columns=["", *map(str, ranks)], rows=cells,
                    notes=["* slow among its like"] if starred else [])  # fmt: skip


def _rate(row: Mapping[str, Any]) -> str:
    return units.format_bandwidth(row["bandwidth_bytes_per_s"]) if row["bandwidth_bytes_per_s"] else "-"


# --- fixed times, overlap, fusing -------------------------------------------------------------------------------------


def _fixed(run: Mapping[str, Any]) -> Extras:
    """Split a fixed time: the call that begins it, the wait for its end, and the rest of the isolated time."""
    isolated = {(curve["op"], point["size_bytes"]): point["median_s"]
                for curve in run["curves"] if curve["quantity"] == "isolated" and curve["count"] == 1
                for point in curve["points"]}  # fmt: skip
    values = []
    for part in run["parts"]:
        if part["how"] != "split" or not part["rounds_ns"].get("enqueue"):
            continue
        enqueue, wait = (median(part["rounds_ns"][name]) * 1e-9 for name in ("enqueue", "wait"))
        whole = isolated.get((part["op"], part["size_bytes"]))
        rest = max(whole - enqueue - wait, 0.0) if whole is not None else None
        values.append({"op": part["op"], "size_bytes": part["size_bytes"], "enqueue_s": enqueue, "wait_s": wait,
                       "rest_s": rest})  # fmt: skip
    if not values:
        return Extras()
    rows = [[row["op"], units.format_size(row["size_bytes"]), *(
        units.format_time(row[name]) if row[name] is not None else "-" for name in ("enqueue_s", "wait_s", "rest_s")
    )] for row in values]  # fmt: skip
    sheet = Sheet(
        title="Where a small one's time goes",
        columns=["<op", "size", "enqueue", "wait", "rest"],
        rows=rows,
        notes=["rest: what an isolated one costs beyond both, mostly ranks that wait for each other"],
    )
    return Extras(tables=[sheet], values={"fixed": values})


def _overlap(run: Mapping[str, Any]) -> Extras:
    values = []
    for part in run["parts"]:
        if part["how"] != "overlap" or not part["rounds_ns"].get("both"):
            continue
        alone, work, both = (median(part["rounds_ns"][name]) * 1e-9 for name in ("alone", "work", "both"))
        hidden = min(max((alone + work - both) / min(alone, work), 0.0), 1.0)
        values.append({"op": part["op"], "size_bytes": part["size_bytes"], "alone_s": alone, "compute_s": work,
                       "both_s": both, "hidden": hidden})  # fmt: skip
    if not values:
        return Extras()
    rows = [[row["op"], units.format_size(row["size_bytes"]), units.format_time(row["alone_s"]),
             units.format_time(row["compute_s"]), units.format_time(row["both_s"]), f"{100 * row['hidden']:.0f} %"]
            for row in values]  # fmt: skip
    typical = median([row["hidden"] for row in values])
    sheet = Sheet(title="What hides under computing", columns=["<op", "size", "alone", "compute", "both", "hidden"],
                  rows=rows)  # fmt: skip
    return Extras(verdicts=[f"Overlap: in the middle {100 * typical:.0f} % of a collective hides under computing."],
                  tables=[sheet], values={"overlap": values})  # fmt: skip


def _fused(run: Mapping[str, Any]) -> Extras:
    times: dict[int, dict[int, float]] = defaultdict(dict)
    op = ""
    for curve in run["curves"]:
        if curve["label"] == FUSE:
            op = curve["op"]
            for point in curve["points"]:
                if point["median_s"] is not None:
                    times[curve["count"]][point["size_bytes"]] = point["median_s"]
    if not times:
        return Extras()
    base = min(size for sizes in times.values() for size in sizes)
    values: list[dict[str, Any]] = []
    for count in sorted(times):
        apart, together = times[count].get(base), times.get(1, {}).get(base * count)
        if apart is not None and together is not None:
            values.append({"op": op, "count": count, "size_bytes": base, "separate_s": apart, "fused_s": together,
                           "saved_s": apart - together})  # fmt: skip
    rows = [[str(row["count"]), units.format_time(row["separate_s"]), units.format_time(row["fused_s"]),
             f"{100 * row['saved_s'] / row['separate_s']:.0f} %"] for row in values]  # fmt: skip
    if not values:
        return Extras()
    last = values[-1]
    if last["count"] == 1:
        return Extras(values={"fuse": values})
    fused, separate = (units.format_time(last[name]) for name in ("fused_s", "separate_s"))
    said = f"Fusing {last['count']} {op}s of {units.format_size(base)} into one takes {fused} instead of {separate}."
    sheet = Sheet(title=f"m {op}s of {units.format_size(base)} against one of m times that",
                  columns=["m", "separate", "fused", "saved"], rows=rows)  # fmt: skip
    return Extras(verdicts=[said], tables=[sheet], values={"fuse": values})

"""The topology sketch: nodes, devices and the links between them, with what each link costs and whom it joins."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.figures.figure import GREY, INK, ORANGE, PALETTE, VERMILION, Figure, altair, data, tips
from nhalf.report.words import joined

if TYPE_CHECKING:
    from nhalf.fabric import Fabric
    from nhalf.link import Link
    from nhalf.scenario import Scenario

_MOST_NODES: Final = 2
_MOST_DEVICES: Final = 8
_HEIGHT: Final = {1: 150, 2: 210, 3: 260}
_FLOOR, _LABEL_Y, _DEVICE_Y, _INTRA_Y, _STEP = -1.25, -0.95, 0.0, 1.0, 1.25
_GROUPS: Final = tuple(colour for colour in PALETTE if colour not in (VERMILION, ORANGE, GREY))
"""Colours of TP groups: not those of links."""
_WORDS: Final = {"intra_node": "in a node", "inter_node": "between nodes", "inter_rack": "between racks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tier:
    """One tier as it is drawn: its height, its link, what it joins, and whether the TP group pays for it."""

    name: str
    y: float
    link: Link
    joins: str
    used: bool

    @property
    def label(self) -> str:
        """Return what the link costs."""
        alpha, beta = units.format_time(float(self.link.latency_s)), units.format_bandwidth(_rate(self.link))
        return f"{_WORDS[self.name]}: {alpha}, {beta}{' each NIC' if self.name != 'intra_node' else ''}"


def _rate(link: Link) -> float:
    return float(link.bandwidth_bytes_per_s)


def topology(scenario: Scenario, *, key: str) -> Figure:
    """Return the sketch of a system with the TP groups of a layout in it; a long row is cut short."""
    fabric, layout = scenario.system.fabric, scenario.layout
    nodes = min(max(layout.nodes(fabric), 1), _MOST_NODES)
    tiers = _tiers(fabric, layout.tensor_group.span(fabric).tier, crosses=layout.nodes(fabric) > 1)
    devices = _devices(scenario, nodes)
    across = layout.tensor_group.span(fabric)
    alt = altair()
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, 1], nice=False))
    top = tiers[-1].y
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[_FLOOR - 0.03, top + 0.55], nice=False))
    layers = [
        _boxes(nodes, fabric, layout.nodes(fabric)).encode(x=x, x2=alt.X2("to_x:Q"), y=y, y2=alt.Y2("to_y:Q")),
        _wires(devices, nodes, tiers).encode(x=x, x2=alt.X2("to_x:Q"), y=y, y2=alt.Y2("to_y:Q")),
        *_bars(tiers, nodes, x, y),
        *_dots(devices, x, y),
    ]
    return Figure(
        key=key,
        title=f"{scenario.system.name}: {layout.name}",
        text=_text(scenario, tiers, across.tier),
        note="Each colour is a TP group. Orange: links that it pays for. Latency of a message, rate one way.",
        chart=alt.layer(*layers).properties(width="container", height=_HEIGHT[len(tiers)]),
        rows=[
            {"tier": _WORDS[tier.name], "joins": tier.joins, "latency_s": float(tier.link.latency_s),
             "bandwidth_bytes_per_s": _rate(tier.link), "half_size_bytes": float(tier.link.half_size_bytes),
             "tp_group_crosses": tier.used}
            for tier in tiers
        ],
    )  # fmt: skip


def _tiers(fabric: Fabric, slowest: str, *, crosses: bool) -> list[_Tier]:
    """Return the tiers to draw, from the devices up: those beyond the node only where the layout leaves it."""
    names = ("intra_node", "inter_node", "inter_rack")
    links = [("intra_node", fabric.intra_node, f"{fabric.devices_per_node} devices")]
    if crosses:
        links.append(("inter_node", fabric.inter_node, f"{float(fabric.nics_per_node):g} NICs a node"))
    if fabric.inter_rack is not None and slowest == "inter_rack":
        links.append(("inter_rack", fabric.inter_rack, f"racks of {fabric.nodes_per_rack} nodes"))
    used = names[: names.index(slowest) + 1]
    return [
        _Tier(name=name, y=_INTRA_Y + place * _STEP, link=link, joins=joins, used=name in used)
        for place, (name, link, joins) in enumerate(links)
    ]


def _devices(scenario: Scenario, nodes: int) -> list[dict[str, Any]]:
    """Return the devices of the nodes drawn, each with its place in the layout."""
    fabric, layout = scenario.system.fabric, scenario.layout
    per_node = fabric.devices_per_node
    shown = min(per_node, _MOST_DEVICES)
    found = []
    for node in range(nodes):
        for place in range(shown):
            rank = node * per_node + place
            used = rank < layout.devices
            group = rank // layout.tensor_parallel
            colour = _GROUPS[group % len(_GROUPS)] if used else GREY
            stage = rank // layout.stage_devices
            found.append(
                {"x": (node + (place + 0.5) / shown * 0.86 + 0.07) / nodes, "y": _DEVICE_Y, "node": node,
                 "colour": colour, "shade": 1.0 if used else 0.35, "device": f"{rank}",
                 "TP group": f"{group}" if used else "not used", "stage": f"{stage}" if used else "not used"}
            )  # fmt: skip
    return found


def _boxes(nodes: int, fabric: Fabric, spanned: int) -> Any:  # noqa: ANN401  an altair chart
    rows = [
        {"x": (node + 0.02) / nodes, "to_x": (node + 0.98) / nodes, "y": _FLOOR, "to_y": _INTRA_Y + 0.5,
         "node": f"{node + 1} of {spanned}, {fabric.devices_per_node} devices"}
        for node in range(nodes)
    ]  # fmt: skip
    chart = altair().Chart(data(rows)).mark_rect(fill=None, stroke=INK, strokeOpacity=0.5, cornerRadius=8)
    return chart.encode(tooltip=tips("node"))


def _wires(devices: list[dict[str, Any]], nodes: int, tiers: list[_Tier]) -> Any:  # noqa: ANN401  an altair chart
    """Return the lines from the devices to the links of their node, and from each node up."""
    rows = [
        {"x": each["x"], "to_x": each["x"], "y": each["y"], "to_y": _INTRA_Y, "colour": _colour(tiers[0])}
        for each in devices
    ]  # fmt: skip
    for lower, upper in pairwise(tiers):
        rows += [
            {"x": (node + 0.5) / nodes, "to_x": (node + 0.5) / nodes, "y": lower.y, "to_y": upper.y,
             "colour": _colour(upper)}
            for node in range(nodes)
        ]  # fmt: skip
    alt = altair()
    return alt.Chart(data(rows)).mark_rule(strokeWidth=1.6, aria=False).encode(color=alt.Color("colour:N", scale=None))


def _colour(tier: _Tier) -> str:
    return VERMILION if tier.used else GREY


def _bars(tiers: list[_Tier], nodes: int, x: Any, y: Any) -> list[Any]:  # noqa: ANN401  altair channels
    """Return the links as bars with what they cost above them: one in each node, one over all for the tiers beyond."""
    alt = altair()
    rows = [
        {"x": (at + 0.07) / count, "to_x": (at + 0.93) / count, "y": tier.y, "colour": _colour(tier),
         "link": _WORDS[tier.name], "joins": tier.joins, "latency": units.format_time(float(tier.link.latency_s)),
         "bandwidth": units.format_bandwidth(_rate(tier.link)),
         "n_1/2": units.format_size(float(tier.link.half_size_bytes)),
         "a TP group": "pays for it" if tier.used else "does not use it", "label": tier.label if at == 0 else "",
         "label_y": tier.y + 0.3 if place else _LABEL_Y}
        for place, tier in enumerate(tiers)
        for count in (nodes if place == 0 else 1,)
        for at in range(count)
    ]  # fmt: skip
    base = alt.Chart(data(rows))
    told = tips("link", "joins", "latency", "bandwidth", "n_1/2", "a TP group")
    bars = base.mark_rule(strokeWidth=7, strokeCap="round").encode(
        x=x, x2=alt.X2("to_x:Q"), y=y, color=alt.Color("colour:N", scale=None), tooltip=told
    )
    names = base.mark_text(align="left", aria=False).encode(
        x=x, y=alt.Y("label_y:Q", axis=None), text=alt.Text("label:N")
    )
    return [bars, names]


def _dots(devices: list[dict[str, Any]], x: Any, y: Any) -> list[Any]:  # noqa: ANN401  altair channels
    alt = altair()
    base = alt.Chart(data(devices)).encode(x=x, y=y)
    dots = base.mark_point(filled=True, size=230, opacity=1).encode(
        color=alt.Color("colour:N", scale=None), opacity=alt.Opacity("shade:Q", scale=None),
        tooltip=tips("device", "TP group", "stage"),
    )  # fmt: skip
    ranks = base.mark_text(dy=19, fontSize=10, aria=False, opacity=0.8).encode(text=alt.Text("device:N"))
    return [dots, ranks]


def _text(scenario: Scenario, tiers: list[_Tier], slowest: str) -> str:
    """Return the sketch in words."""
    layout, fabric = scenario.layout, scenario.system.fabric
    parts = [f"{tier.label}, n_1/2 {units.format_size(float(tier.link.half_size_bytes))}" for tier in tiers]
    group = f"a TP group of {layout.tensor_parallel} stays inside a node"
    if slowest != "intra_node":
        group = f"a TP group of {layout.tensor_parallel} crosses the links {_WORDS[slowest]}"
    where = f"{layout.name} takes {layout.devices} devices on {layout.nodes(fabric)} nodes"
    return f"{joined([where, group])}. Links: {'; '.join(parts)}."

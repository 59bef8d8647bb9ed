"""Moving: the time of a token on a grid of batch, latency and bandwidth, between whose nodes lines are near enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.points import points
from nhalf.predict.memory import FITS

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.scenario import Scenario

NEAR: Final = 0.01
"""How far a line between two nodes may lie from the time itself [1]."""
_AIMS: Final = (0.004, 0.003, 0.0025, 0.002, 0.0015, 0.001)
"""Nodes are added until each axis alone is as near as the first of these [1], then the next: three axes add up."""
_TIERS: Final = ("intra_node", "inter_node")
_MOST: Final = 64
"""Nodes of an axis at most."""
_DRAWN: Final = 4000
"""Points between the nodes at which the grid is compared with the model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Axes:
    """The nodes: batches, factors [1] on every link's latency, and factors [1] on the time of every byte."""

    batches: Array
    latencies: Array
    byte_times: Array

    @property
    def nodes(self) -> tuple[Array, Array, Array]:
        """Return the nodes of the three axes."""
        return self.batches, self.latencies, self.byte_times

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return how many nodes each axis has."""
        return len(self.batches), len(self.latencies), len(self.byte_times)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """The time per token [s] of a layout at every node; `fits` tells at which batches it has the memory.

    `error` [1] is the largest distance of a line between nodes from the model, over points drawn at random.
    """

    scenario: Scenario
    axes: Axes
    times_s: Array
    fits: Array
    error: float


def grid(scenario: Scenario, *, most: float = 1024.0) -> Grid:
    """Return the grid of a scenario, for batches up to `most` and factors from 1/4 to 4.

    Times are straight lines in all three inputs, but where an engine or a library switches: nodes are added there.
    """
    axes = Axes(
        batches=2.0 ** np.arange(np.log2(most) + 1),
        latencies=2.0 ** np.arange(-2, 2.01),
        byte_times=2.0 ** np.arange(-2, 2.01),
    )
    found = _grid(scenario, axes)
    for aim in _AIMS:
        if found.error > NEAR:
            found = _grid(scenario, _refined(scenario, found.axes, aim))
    return found


def _grid(scenario: Scenario, axes: Axes) -> Grid:
    """Return the grid on some axes, with its error."""
    nodes = np.meshgrid(*axes.nodes, indexing="ij")
    times = _times(scenario, *(node.ravel() for node in nodes)).reshape(axes.shape)
    drawn = _between(axes)
    off = float(np.max(np.abs(_lines(times, axes, *drawn) / _times(scenario, *drawn) - 1)))
    fits = points(scenario, {"workload.batch": axes.batches}).fit_codes != FITS.index("no")
    return Grid(scenario=scenario, axes=axes, times_s=times, fits=fits, error=off)


def _times(scenario: Scenario, batches: Array, latencies: Array, byte_times: Array) -> Array:
    """Return the time per token [s] at points, whose factors hold for the links of every tier."""
    changes: dict[str, Array] = {"workload.batch": batches}
    for tier in _TIERS:
        path = f"system.fabric.{tier}."
        changes[f"{path}latency_s"] = scenario.value(f"{path}latency_s") * latencies
        changes[f"{path}bandwidth_bytes_per_s"] = scenario.value(f"{path}bandwidth_bytes_per_s") / byte_times
    return points(scenario, changes).tpot_s


def _refined(scenario: Scenario, axes: Axes, aim: float) -> Axes:
    """Return axes with nodes added wherever a line of one axis alone is too far from the time."""
    for place in range(3):
        nodes = list(axes.nodes)
        others = [nodes[at][:: max(len(nodes[at]) // 6, 1)] for at in range(3)]
        own = nodes[place]
        while len(own) < _MOST:
            middle = (own[1:] + own[:-1]) / 2
            if place == 0:
                middle = np.floor(middle)
            others[place] = np.concatenate([own, middle])
            mesh = np.meshgrid(*others, indexing="ij")
            found = np.moveaxis(_times(scenario, *(one.ravel() for one in mesh)).reshape(mesh[0].shape), place, 0)
            at, between = found[: len(own)], found[len(own) :]
            part = ((middle - own[:-1]) / (own[1:] - own[:-1]))[:, None, None]
            far = np.max(np.abs((at[:-1] * (1 - part) + at[1:] * part) / between - 1), axis=(1, 2))
            more = np.union1d(own, middle[far > aim])
            if len(more) == len(own):
                break
            own = more
        nodes[place] = own
        axes = Axes(batches=nodes[0], latencies=nodes[1], byte_times=nodes[2])
    return axes


def _between(axes: Axes) -> tuple[Array, Array, Array]:
    """Return points between the nodes, drawn at random from every cell alike; batches are whole numbers."""
    source = np.random.default_rng(1)
    batches, latencies, byte_times = (
        2 ** source.uniform(np.log2(nodes[0]), np.log2(nodes[-1]), _DRAWN) for nodes in axes.nodes
    )
    return np.round(batches), latencies, byte_times


def _lines(known: Array, axes: Axes, *given: Array) -> Array:
    """Return what lines between the nodes say at points."""
    found = np.zeros(len(given[0]))
    places, parts = [], []
    for nodes, at in zip(axes.nodes, given, strict=True):
        place = np.clip(np.searchsorted(nodes, at, side="right") - 1, 0, len(nodes) - 2)
        places.append(place)
        parts.append((at - nodes[place]) / (nodes[place + 1] - nodes[place]))
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod([part if up else 1 - part for up, part in zip(corner, parts, strict=True)], axis=0)
        found += weight * known[tuple(place + up for up, place in zip(corner, places, strict=True))]
    return found

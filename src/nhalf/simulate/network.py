"""A network: links with a capacity, and for each pair of ranks the links that a message crosses.

Every builder gives directed links: a rank's port out and its port in are two of them, so both directions carry full
bandwidth at once. `latency_s` of a route is the latency of its link plus `hop_latency_s` [s] for each hop beyond the
first between two devices.

Tools differ in what a network does, more than in how they solve it. Here a message cuts through: its bytes are paid
once, on the narrowest link, not once per switch (ASTRA-sim's network core stores and forwards, which doubles a large
ring on a switch); a message has no envelope (SMPI adds 16 bytes to each); and shares of a link do not depend on
latency (see `sharing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nhalf.breakdown import Array
from nhalf.errors import InputError
from nhalf.simulate.program import MOST_AT_ONCE
from nhalf.simulate.round import Ints

if TYPE_CHECKING:
    from nhalf.link import Link

Route: TypeAlias = Callable[[Ints, Ints], tuple[Ints, Array]]
"""(sources, targets) -> (links, latency): the links each message crosses, padded with -1, and its latency [s]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Network:
    """Links between ranks.

    `capacity_bytes_per_s[l]` [bytes/s] of each link, `names[l]` what a report calls it, `route` the way from rank to
    rank. `private` says that no link is shared by messages of different ports, so that messages of which each rank
    sends one and receives one never meet; `first_port` and `last_port` give the port of each rank to slow down.
    """

    kind: str
    ranks: int
    capacity_bytes_per_s: Array
    route: Route
    name: Callable[[int], str]
    private: bool

    def slowed(self, factors: Array) -> Network:
        """Return the network in which every link that rank r sends or receives on first is `factors[r]` times slower.

        Only links that touch a rank are slowed: the first of its routes out and the last of its routes in.
        """
        if np.all(factors == 1):
            return self
        must_hold(f"a {self.kind} with slow ports", self.ranks, len(self.capacity_bytes_per_s))
        capacity = self.capacity_bytes_per_s.copy()
        slow = np.flatnonzero(factors != 1)
        touched: dict[int, float] = {}
        for rank in slow.tolist():
            others = np.delete(np.arange(self.ranks), rank)
            here = np.full(len(others), rank)
            out, _ = self.route(here, others)
            back, _ = self.route(others, here)
            last = (back >= 0).sum(axis=1) - 1
            ends = np.concatenate([out[:, 0], back[np.arange(len(back)), last]])
            for link in np.unique(ends).tolist():
                touched[link] = max(touched.get(link, 0.0), float(factors[rank]))
        for link, factor in touched.items():
            capacity[link] /= factor
        return replace(self, capacity_bytes_per_s=capacity)

    def stretched(self, factor: float) -> Network:
        """Return the network on which every message takes `factor` times as long."""

        def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
            links, latency = self.route(source, target)
            return links, latency * factor

        return replace(self, capacity_bytes_per_s=self.capacity_bytes_per_s / factor, route=route)


def switch(ranks: int, link: Link) -> Network:
    """Return ranks on one switch that blocks nothing: a port out and a port in for each."""
    alpha, beta = _numbers(link)

    def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
        return np.stack([source, target + ranks], axis=1), np.broadcast_to(np.float64(alpha), len(source))

    def name(index: int) -> str:
        return f"rank {index % ranks} {'in' if index >= ranks else 'out'}"

    return Network(
        kind="switch", ranks=ranks, capacity_bytes_per_s=np.full(2 * ranks, beta), route=route, name=name, private=True
    )


def multicast(ranks: int, link: Link) -> Network:
    """Return ranks on one switch that can add up and copy: it takes part itself, as rank `ranks`, half a latency away.

    Its own ports are no limit. So a message to it takes only its sender's port, and one from it its receiver's.
    """
    plain = switch(ranks, link)

    def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
        links, latency = plain.route(source, target)
        up, down = target == ranks, source == ranks
        links[:, 0] = np.where(down, links[:, 1], links[:, 0])
        links[:, 1] = np.where(up | down, -1, links[:, 1])
        return links, np.where(up | down, latency / 2, latency)

    return replace(plain, kind="multicast", route=route)


def mesh(ranks: int, link: Link) -> Network:
    """Return ranks with a link of their own to each other rank."""
    alpha, beta = _numbers(link)

    def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
        return (source * ranks + target)[:, None], np.broadcast_to(np.float64(alpha), len(source))

    def name(index: int) -> str:
        return f"link {index // ranks} to {index % ranks}"

    return Network(
        kind="mesh",
        ranks=ranks,
        capacity_bytes_per_s=np.broadcast_to(np.float64(beta), ranks * ranks),
        route=route,
        name=name,
        private=True,
    )


def tree(ranks: int, link: Link, *, leaf: int, oversubscription: float, hop_latency_s: float = 0.0) -> Network:
    """Return a fat tree of two levels: leaves of `leaf` ranks, whose uplink carries leaf x beta / oversubscription."""
    if leaf < 1 or ranks % leaf:
        raise InputError(
            f"{ranks} ranks do not fill leaves of {leaf}", where="--ranks-per-leaf", allowed=f"a divisor of {ranks}"
        )
    alpha, beta = _numbers(link)
    leaves = ranks // leaf
    uplink = leaf * beta / oversubscription

    def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
        away = source // leaf != target // leaf
        up = np.where(away, 2 * ranks + source // leaf, ranks + target)
        down = np.where(away, 2 * ranks + leaves + target // leaf, -1)
        links = np.stack([source, up, down, np.where(away, ranks + target, -1)], axis=1)
        return links, alpha + np.where(away, 2.0 * hop_latency_s, 0.0)

    def name(index: int) -> str:
        if index < 2 * ranks:
            return f"rank {index % ranks} {'in' if index >= ranks else 'out'}"
        return f"leaf {(index - 2 * ranks) % leaves} {'down' if index >= 2 * ranks + leaves else 'up'}"

    capacity = np.concatenate([np.full(2 * ranks, beta), np.full(2 * leaves, uplink)])
    return Network(kind="tree", ranks=ranks, capacity_bytes_per_s=capacity, route=route, name=name, private=False)


def nodes(ranks: int, intra: Link, inter: Link, *, per_node: int, nics: int) -> Network:
    """Return nodes of `per_node` ranks on a switch each, with `nics` NICs, each shared by neighbours.

    A device's port into the node and its way to a NIC are different links. Devices next to each other share a NIC, as
    they do a PCIe switch: NCCL sends through the nearest one.
    """
    if per_node < 1 or ranks % per_node:
        raise InputError(
            f"{ranks} ranks do not fill nodes of {per_node}", where="--ranks-per-node", allowed=f"a divisor of {ranks}"
        )
    if not 1 <= nics <= per_node:
        raise InputError(
            f"a node of {per_node} ranks with {nics} NICs is not simulated here",
            where="--nics",
            allowed=f"1 to {per_node}",
        )
    (alpha_i, beta_i), (alpha_x, beta_x) = _numbers(intra), _numbers(inter)
    count = ranks // per_node * nics

    def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
        away = source // per_node != target // per_node
        out = 2 * ranks + source * nics // per_node
        back = 2 * ranks + count + target * nics // per_node
        links = np.stack([np.where(away, out, source), np.where(away, back, target + ranks)], axis=1)
        return links, np.where(away, alpha_x, alpha_i)

    def name(index: int) -> str:
        if index < 2 * ranks:
            return f"rank {index % ranks} {'in' if index >= ranks else 'out'}"
        nic = (index - 2 * ranks) % count
        way = "in" if index >= 2 * ranks + count else "out"
        return f"node {nic // nics} NIC {nic % nics} {way}"

    capacity = np.concatenate([np.full(2 * ranks, beta_i), np.full(2 * count, beta_x)])
    return Network(
        kind="nodes", ranks=ranks, capacity_bytes_per_s=capacity, route=route, name=name, private=nics == per_node
    )


def ring(ranks: int, link: Link, *, hop_latency_s: float | None = None) -> Network:
    """Return ranks in a circle with links to both neighbours; messages take the shorter way, forward in a tie."""
    return torus(ranks, 1, link, hop_latency_s=hop_latency_s, kind="ring")


def torus(columns: int, rows: int, link: Link, *, hop_latency_s: float | None = None, kind: str = "torus") -> Network:
    """Return ranks on a torus of rows x columns; messages go along their row first, then along the column.

    A hop beyond the first adds the whole latency of a link unless `hop_latency_s` [s] says what a hop costs.
    """
    alpha, beta = _numbers(link)
    ranks = columns * rows
    per_hop = alpha if hop_latency_s is None else hop_latency_s

    def leg(start: Ints, steps: Ints, longest: int, *, along_row: bool) -> Ints:
        hops = np.arange(longest)[None, :]
        forward = np.where(steps > 0, 1, -1)[:, None]
        column, row = start % columns, start // columns
        if along_row:
            at = row[:, None] * columns + (column[:, None] + forward * hops) % columns
        else:
            at = (row[:, None] + forward * hops) % rows * columns + column[:, None]
        direction = np.where(forward > 0, 0, 1) + (0 if along_row else 2)
        return np.where(hops < np.abs(steps)[:, None], direction * ranks + at, -1)

    def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
        across = _shorter((target % columns - source % columns) % columns, columns)
        along = _shorter((target // columns - source // columns) % rows, rows)
        longest = [int(np.abs(steps).max(initial=0)) for steps in (across, along)]
        must_hold(f"a {kind}", ranks, len(source) * sum(longest))
        corner = source // columns * columns + target % columns
        links = np.concatenate(
            [leg(source, across, longest[0], along_row=True), leg(corner, along, longest[1], along_row=False)], axis=1
        )
        # Padding goes to the end, so that a path reads from left to right.
        order = np.argsort(links < 0, axis=1, kind="stable")
        hops = np.abs(across) + np.abs(along)
        return np.take_along_axis(links, order, axis=1), alpha + (hops - 1) * per_hop

    def name(index: int) -> str:
        way = ("next", "previous", "down", "up")[index // ranks]
        return (
            f"rank {index % ranks} to its {way} neighbour"
            if way in ("next", "previous")
            else (f"rank {index % ranks} {way}")
        )

    return Network(
        kind=kind, ranks=ranks, capacity_bytes_per_s=np.full(4 * ranks, beta), route=route, name=name, private=False
    )


def must_hold(what: str, ranks: int, links: int) -> None:
    """Refuse a network whose links, or the links of whose paths, memory does not hold.

    Raises
    ------
    InputError
        There are more.
    """
    if links > MOST_AT_ONCE:
        raise InputError(
            f"{what} of {ranks:,} ranks has {links:,} links to keep",
            where="--ranks",
            allowed=f"{MOST_AT_ONCE:,} links",
            do="simulate fewer ranks, or another topology",
        )


def _shorter(forward: Ints, length: int) -> Ints:
    """Return the signed number of steps of the shorter way round; forward in a tie."""
    return np.where(2 * forward <= length, forward, forward - length)


def _numbers(link: Link) -> tuple[float, float]:
    """Return a link's latency and bandwidth as floats."""
    return float(link.latency_s), float(link.bandwidth_bytes_per_s)

"""Rails: nodes whose n-th NICs share leaf switches of their own, below spines that join the rails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.simulate.network import Network

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.link import Link
    from nhalf.simulate.round import Ints


def rails(
    inside: Network, inter: Link, *, nics: int, pod: int, oversubscription: float, hop_latency_s: float
) -> Network:
    """Return nodes, as `network.nodes` makes them, whose NICs hang on a rail-optimised fat tree.

    The n-th NICs of `pod` neighbouring nodes share a leaf, whose uplink carries pod x beta / oversubscription. A
    message within a leaf costs what it does between nodes; one to another rail or pod goes up to a spine and down
    again, two hops more. Nothing is handed over inside the node first, as NCCL does with PXN.

    References
    ----------
    W. Wang et al., "Rail-only: a low-cost high-performance network for training LLMs with trillion parameters"
    (arXiv 2307.12169), on how rails and spines of a GPU cluster are joined.
    """
    count = (len(inside.capacity_bytes_per_s) - 2 * inside.ranks) // 2
    members = count // nics
    if pod < 1 or members % pod:
        raise InputError(
            f"{members} nodes do not fill leaves of {pod} nodes",
            where="--nodes-per-leaf",
            allowed=f"a divisor of {members}",
        )
    leaves, first = members // pod * nics, len(inside.capacity_bytes_per_s)

    def leaf(nic: Ints) -> Ints:
        return nic // nics // pod * nics + nic % nics

    def route(source: Ints, target: Ints) -> tuple[Ints, Array]:
        links, latency = inside.route(source, target)
        out, back = links[:, 0], links[:, 1]
        up, down = leaf(out - 2 * inside.ranks), leaf(back - 2 * inside.ranks - count)
        beyond = (out >= 2 * inside.ranks) & (up != down)
        found = np.stack(
            [
                out,
                np.where(beyond, first + up, back),
                np.where(beyond, first + leaves + down, -1),
                np.where(beyond, back, -1),
            ],
            axis=1,
        )
        return found, latency + np.where(beyond, 2.0 * hop_latency_s, 0.0)

    def name(index: int) -> str:
        if index < first:
            return inside.name(index)
        at, way = (index - first) % leaves, "down" if index >= first + leaves else "up"
        return f"leaf {at // nics} of rail {at % nics} {way}"

    uplink = pod * float(inter.bandwidth_bytes_per_s) / oversubscription
    capacity = np.append(inside.capacity_bytes_per_s, np.full(2 * leaves, uplink))
    return Network(
        kind="rails", ranks=inside.ranks, capacity_bytes_per_s=capacity, route=route, name=name, private=False
    )

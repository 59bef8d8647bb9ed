"""Routes: the links and the latency of each message of a program on a network, each pair of ranks once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError
from nhalf.simulate.graph import Pairs

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.simulate.graph import Graph, Indices
    from nhalf.simulate.network import Network
    from nhalf.simulate.round import Ints


def _distinct(source: Ints | Indices, target: Ints | Indices, ranks: int) -> tuple[Ints, Indices]:
    """Return the distinct pairs as source x ranks + target, in order, and the place of each message's among them."""
    keys = source.astype(np.int64)
    keys *= ranks
    keys += target
    if ranks > _LARGEST_TABLE:
        pairs, of = np.unique(keys, return_inverse=True)
        return pairs, of.astype(np.int32)
    seen = np.zeros(ranks * ranks, dtype=np.bool_)
    seen[keys] = True
    places = np.cumsum(seen, dtype=np.int32)
    places -= 1
    return np.flatnonzero(seen), places[keys]


_LARGEST_TABLE = 2048
"""Ranks up to which a table of all pairs is smaller than a sort of all messages."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """The routes of a program's messages, each pair of ranks once.

    Message m takes route `of[m]`: links `links[start[i]:start[i + 1]]`, latency `latency_s[i]` [s], and at best
    `rate_bytes_per_s[i]` [bytes/s], the capacity of its narrowest link.
    """

    of: Indices
    start: Indices
    links: Indices
    latency_s: Array
    rate_bytes_per_s: Array


def paths(network: Network, source: Ints | Indices, target: Ints | Indices) -> Paths:
    """Return the routes of messages from `source` to `target` ranks.

    Raises
    ------
    InputError
        A message from a rank to itself or to a rank that the network does not have.
    """
    pairs, of = _distinct(source, target, network.ranks)
    source, target = (side.astype(np.int32) for side in np.divmod(pairs, network.ranks))
    return _routes(network, Pairs(of=of, source=source, target=target))


def paths_of(network: Network, graph: Graph) -> Paths:
    """Return the routes of a graph's messages (errors as in `paths`)."""
    return paths(network, graph.source, graph.target) if graph.pairs is None else _routes(network, graph.pairs)


def _routes(network: Network, pairs: Pairs) -> Paths:
    """Return a route for each pair of ranks."""
    own = pairs.source[pairs.source == pairs.target]
    if len(own):
        raise InputError(f"rank {own[0]} sends a message to itself", where="schedule")
    links, latency = network.route(pairs.source.astype(np.int64), pairs.target.astype(np.int64))
    columns = np.asfortranarray(links)  # NumPy takes short rows one by one, and is several times slower at it
    start = np.zeros(len(links) + 1, dtype=np.int32)
    np.cumsum((columns >= 0).sum(axis=1), out=start[1:])
    return Paths(
        of=pairs.of,
        start=start,
        links=links[links >= 0].astype(np.int32),
        latency_s=latency,
        rate_bytes_per_s=narrowest(network.capacity_bytes_per_s, columns),
    )


def narrowest(capacity: Array, links: Ints) -> Array:
    """Return the capacity of the narrowest link of each route [bytes/s]; routes are padded with -1."""
    if len(capacity) and (capacity.strides == (0,) or np.all(capacity == capacity[0])):
        return np.broadcast_to(capacity[0], len(links))
    return np.asarray(np.append(capacity, np.inf)[links].min(axis=1, initial=np.inf))

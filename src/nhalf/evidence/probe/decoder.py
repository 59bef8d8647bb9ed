"""A small real decoder, split as servers split one: heads and feed-forward columns over ranks, layers over stages.

Its weights are drawn from a seed, so that every split of it is the same model and gives the same tokens: two sums over
the ranks of a stage in each layer, one hand-over between stages.

References
----------
M. Shoeybi et al., "Megatron-LM", arXiv:1909.08053: columns of the first matrix of a block, rows of the second.
"""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nhalf.evidence.probe.messages import Decode, Result
    from nhalf.evidence.probe.sockets import Sockets

    Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[Any]]
    Sum: TypeAlias = Callable[[Numbers], Numbers]

FLOAT_BYTES: Final = 4
_ROWS: Final = (3, 5)
"""The matrices of a layer whose rows are split: what gives the output of attention and of the feed-forward block."""
_FIRST_SEED: Final = 10
_now = time.perf_counter


class Decoder:
    """Some shards of some layers of the model that an order describes, with the cache of what they have seen."""

    def __init__(self, order: Decode, shards: Sequence[int], layers: Sequence[int]) -> None:
        """Draw the whole model, and keep the shards of each layer."""
        hidden, wide = order.hidden, 2 * order.hidden
        self._heads = order.heads // order.tp
        self._table, self._head, self._places = (
            _drawn(order.seed + part, (rows, hidden), 1.0)
            for part, rows in ((-1, order.vocabulary), (-2, order.vocabulary), (-3, order.tokens))
        )
        self._layers: list[list[list[Numbers]]] = []
        shapes = [(hidden, hidden)] * 4 + [(hidden, wide), (wide, hidden)]
        for layer in layers:
            whole = [_drawn(order.seed + len(shapes) * layer + part, shape, shape[0] ** -0.5)
                     for part, shape in enumerate(shapes)]  # fmt: skip
            self._layers.append([_shard(whole, shard, order.tp) for shard in shards])
        self._cache: dict[tuple[int, int], tuple[Numbers, Numbers]] = {}

    def through(self, x: Numbers, add_up: Sum, late_s: float = 0.0) -> Numbers:
        """Return what the layers make of a token of each sequence; `add_up` sums a block's output over all shards."""
        for place, shards in enumerate(self._layers):
            if late_s:
                time.sleep(late_s)
            seen = _normed(x)
            x = x + add_up(_sum(self._attended((place, index), seen, w) for index, w in enumerate(shards)))
            seen = _normed(x)
            x = x + add_up(_sum(np.maximum(seen @ w[4], np.float32(0)) @ w[5] for w in shards))
        return x

    def _attended(self, key: tuple[int, int], x: Numbers, weights: Sequence[Numbers]) -> Numbers:
        q, k, v = ((x @ each).reshape(len(x), 1, self._heads, -1) for each in weights[:3])
        if key in self._cache:
            k, v = (np.concatenate(pair, axis=1) for pair in zip(self._cache[key], (k, v), strict=True))
        self._cache[key] = k, v
        scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = np.einsum("bhqk,bkhd->bqhd", shares / shares.sum(axis=-1, keepdims=True), v)
        out: Numbers = mixed.reshape(len(x), -1) @ weights[3]
        return out

    def embedded(self, ids: Numbers, place: int) -> Numbers:
        """Return what stands for tokens at a place of their sequences."""
        found: Numbers = self._table[ids] + self._places[place]
        return found

    def chosen(self, x: Numbers) -> Numbers:
        """Return the most likely next token of each sequence."""
        found: Numbers = np.argmax(_normed(x) @ self._head.T, axis=1)
        return found


def _sum(parts: Iterable[Numbers]) -> Numbers:
    return functools.reduce(np.add, parts)


def _shard(whole: Sequence[Numbers], shard: int, of: int) -> list[Numbers]:
    """Return a shard of a layer: columns of what an input meets first, rows of what gives the output."""
    parts = [np.array_split(each, of, axis=0 if place in _ROWS else 1)[shard] for place, each in enumerate(whole)]
    return [np.ascontiguousarray(each) for each in parts]


def _drawn(seed: int, shape: tuple[int, int], scale: float) -> Numbers:
    return np.random.default_rng(_FIRST_SEED + seed).standard_normal(shape, dtype=np.float32) * np.float32(scale)


def _normed(x: Numbers) -> Numbers:
    found: Numbers = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(1e-6))
    return found


def _first(order: Decode) -> Numbers:
    """Return the token that each sequence begins with."""
    found: Numbers = np.arange(order.batch, dtype=np.int64) % order.vocabulary
    return found


def alone(order: Decode, *, shards: int = 0, clock: Callable[[], float] = _now) -> dict[str, Any]:
    """Return the tokens of the whole model in one process, or with some of its shards only what those take [s]."""
    decoder = Decoder(order, range(shards or order.tp), range(order.layers))
    ids, times, found = _first(order), [], []
    for place in range(order.tokens):
        begun = clock()
        ids = decoder.chosen(decoder.through(decoder.embedded(ids, place), lambda part: part))
        times.append(clock() - begun)
        found += [int(each) for each in ids]
    return {"ids": found, "times": times}


def play(order: Decode, backend: Sockets, rank: int) -> Result:
    """Decode tokens as one rank of tp x pp: return the tokens, and the time of each on this rank [s]."""
    if order.pp == order.tp == 1:
        return alone(order)
    stage, shard = divmod(rank, order.tp)
    each = order.layers // order.pp
    decoder = Decoder(order, [shard], range(stage * each, (stage + 1) * each))
    values = np.zeros((order.batch, order.hidden), dtype=np.float32)
    group = tuple(range(stage * order.tp, (stage + 1) * order.tp))
    summed = backend.group(group).all_reduce(values.reshape(-1)) if order.tp > 1 else None
    before, after = (((stage + way) % order.pp) * order.tp + shard for way in (-1, 1))
    size = order.batch * order.hidden * FLOAT_BYTES

    def add_up(part: Numbers) -> Numbers:
        values[:] = part
        if summed is not None:
            summed()
        return values

    ids, times, found = _first(order), [], []
    for place in range(order.tokens):
        begun = _now()
        x = decoder.embedded(ids, place)
        if stage:
            x = np.frombuffer(_received(backend, before, size), dtype=np.float32).reshape(x.shape)
        x = decoder.through(x, add_up, order.late_s)
        if stage < order.pp - 1:
            _send(backend, after, x.astype(np.float32).tobytes())
        else:
            ids = decoder.chosen(x)
        if order.pp > 1 and stage == order.pp - 1:
            _send(backend, after, ids.astype(np.int64).tobytes())
        elif order.pp > 1 and not stage:
            ids = np.frombuffer(_received(backend, before, 8 * order.batch), dtype=np.int64)
        times.append(_now() - begun)
        found += [int(each) for each in ids]
    return {"ids": found, "times": times}


def _send(backend: Sockets, to: int, data: bytes) -> None:
    messenger = backend.messenger("tcp", to, len(data))
    messenger.fill(data)
    messenger.send()


def _received(backend: Sockets, source: int, size_bytes: int) -> bytes:
    messenger = backend.messenger("tcp", source, size_bytes)
    messenger.receive()
    return messenger.received()

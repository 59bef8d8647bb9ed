"""Yardsticks: what a collective takes on systems like this one, how far healthy ones scatter, and the ceiling."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.collective import Mode, Op
from nhalf.curve.surface import sent_share
from nhalf.decide.choice import drawn
from nhalf.evidence.checks import ceiling
from nhalf.fabric import Topology
from nhalf.laws.across_nodes import Steps, across_nodes, place
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.citation import Datum
    from nhalf.curve import MeasuredCurve
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.fabric import Span
    from nhalf.laws.across_nodes import Place
    from nhalf.library import Library
    from nhalf.system import System
    from nhalf.transport import Transport

_SMALL_SD, _LARGE_SD, _LAW_SD = 0.25, 0.08, 0.35
"""Healthy nodes against the catalogue's curve: small messages differ by how many processes launch them (one drove all
GPUs there), large ones by the version; a law where nothing was measured knows less (log-standard deviations)."""
_SMALL_BYTES: Final = float(1 << 20)
"""From about this size the launch no longer matters [bytes]."""
_OCTAVES: Final = 3.0
"""What a law misses at one size it misses at sizes so many octaves away too."""
_REACHED: Final = 0.8
"""The part of a link that a ring reaches inside a node where nothing was measured: NCCL counts 20.6 of 25 GB/s."""
_STAGED_S, _COPIED_BYTES, _CAPPED = 6e-6, 4096.0, 4.0
"""What is staged through the host takes longer by so much [s], up to so many bytes; and how much LL is slowed."""
_IN_STEPS: Final = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """What is known of a system: itself with its curves, the origins of its numbers, and the library that ran.

    `sockets` is the transport through the kernel, for what a fall back to it costs.
    """

    system: System
    origins: Mapping[str, Datum]
    library: Library
    sockets: Transport | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Yardstick:
    """What some sizes [bytes] of a collective take on like systems: `times_s` [s], of it `fixed_s` [s] for no bytes.

    `covariance` is how the logarithms of healthy ones scatter; `like` says in words what they are, `kind` whether their
    times were measured, or follow from the law by constants of that machine, of its class, or of none. `switched`: the
    switches of the node add up. `moved` holds ln of what a fault multiplies the times with, where the law prices it, by
    the code of its cause (rails/4: a quarter of the NICs).
    """

    times_s: Array
    fixed_s: Array
    covariance: Array
    like: str
    kind: str
    switched: bool = False
    moved: Mapping[str, Array] = field(default_factory=dict)


def yardstick(curve: CurveFit, known: Known) -> Yardstick | None:
    """Return what the sizes of a curve take on like systems, or None where nothing is known of its operation there."""
    key = curve.series.key
    sizes, _ = curve.fitted_points
    if key.op is None or key.ranks is None or key.ranks < 2 or not len(sizes):  # noqa: PLR2004  one rank waits for nobody
        return None
    span, crosses = _span(curve, known.system), is_across(curve, known.system)
    # A curve of that many ranks is of one node where they fit into one, and a user's own of several where they do not.
    if not crosses or key.ranks > known.system.fabric.devices_per_node:
        measured = _measured(known, key.op, key.ranks)
        if measured is not None:
            return _inside(sizes, measured, known, key.ranks)
    if not crosses:
        return _by_law(key.op, sizes, span, known.system)
    where = place(key.op, span, known.system, known.library)
    if where is None:
        return None
    return across(key.op, sizes, where, replace(where, transport=drawn(where.transport, known.origins)), known)


def bus_ceiling(curve: CurveFit, system: System) -> float | None:
    """Return the bus bandwidth [bytes/s] that the links allow the ranks of a curve.

    Of an all-to-all only what leaves the node crosses the NICs, which all of its ranks share.
    """
    key = curve.series.key
    if key.op is None or not key.ranks:
        return None
    span = _span(curve, system)
    if key.op is not Op.ALL_TO_ALL or span.nodes == 1:
        return ceiling(curve, system)
    leaves = (span.nodes - 1.0) / span.nodes / ((key.ranks - 1.0) / key.ranks)
    nics = float(np.mean(span.rails * span.inter.bandwidth_bytes_per_s)) / span.ranks_per_node
    return min(nics / leaves, float(np.mean(span.intra.bandwidth_bytes_per_s)))


def is_across(curve: CurveFit, system: System) -> bool:
    """Tell whether the ranks of a curve lie on several nodes that NICs join."""
    span = _span(curve, system)
    return span.nodes > 1 and not (system.fabric.inter_rack is not None and span.racks == 1)


def _span(curve: CurveFit, system: System) -> Span:
    """Return the stretch of the fabric that the ranks took: as many nodes as the log says, else full ones.

    The hosts of a rack on one set of switches are its trays.
    """
    key, fabric = curve.series.key, system.fabric
    ranks = key.ranks or 1
    span = fabric.span(ranks)
    if key.nodes in (None, span.nodes) or ranks % (key.nodes or 1) or fabric.devices_per_tray is not None:
        return span
    one = fabric.span(ranks // (key.nodes or 1))
    rails = fabric.nics_per_node * (ranks / (key.nodes or 1) / fabric.devices_per_node)
    return replace(span, ranks=ranks, nodes=key.nodes or 1, intra=one.intra, rails=rails)


def _measured(known: Known, op: Op, ranks: int) -> MeasuredCurve | None:
    """Return the newest curve of NCCL (RCCL) on so many ranks: the user's own before one of a like node."""
    found = [
        curve
        for curve in known.system.curves
        if (curve.key.mode, curve.key.op) == (Mode.HOST, op)
        and curve.key.library in ("nccl", "rccl")
        and curve.covers(ranks)
        and not curve.flag
        and curve.key.dtype != "int8"
    ]
    return max(found, key=lambda curve: (not curve.lent_to, _version(curve.key.version)), default=None)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


def _inside(sizes: Array, curve: MeasuredCurve, known: Known, ranks: int) -> Yardstick:
    """Return the measured times inside a node."""
    at = curve.at(ranks)
    times = np.asarray(at(sizes), dtype=float)
    small = np.clip(1.0 - np.log2(np.maximum(sizes / _SMALL_BYTES, 1.0)) / 4.0, 0.0, 1.0)
    spread = _LARGE_SD + (_SMALL_SD - _LARGE_SD) * small
    lent = f", whose node is alike, of {curve.lent_to}" if curve.lent_to else ""
    return Yardstick(
        times_s=times,
        fixed_s=np.minimum(at.floor_s, times),
        covariance=_carried(sizes, spread),
        like=f"{ranks} ranks of {curve.key.system} with {curve.key.library.upper()} {curve.key.version}{lent}",
        kind="measured",
        switched=known.system.fabric.topology == Topology.SWITCH and known.library.tuner.has_nvls,
    )


def _by_law(op: Op, sizes: Array, span: Span, system: System) -> Yardstick | None:
    """Return what a ring takes inside a node where nothing was measured; None for what is no ring."""
    if op is Op.SEND_RECV:
        fixed, share = np.full(len(sizes), float(np.mean(span.intra.latency_s))), 1.0
    elif op in _IN_STEPS:
        steps = Steps(op, span.ranks, span.intra.latency_s)
        fixed = np.full(len(sizes), float(np.mean(steps(0.0))))
        share = float(sent_share(np.array(float(span.ranks)), doubled=op is Op.ALL_REDUCE))
    else:
        return None
    link = float(np.mean(span.intra.bandwidth_bytes_per_s)) * _REACHED
    return Yardstick(
        times_s=fixed + share * sizes / link,
        fixed_s=fixed,
        covariance=_carried(sizes, np.full(len(sizes), _LAW_SD)),
        like=f"a ring over the links of {system.name}: nothing was measured there",
        kind="wide",
    )


def across(op: Op, sizes: Array, where: Place, moving: Place, known: Known) -> Yardstick:
    """Return the price across nodes, how it scatters by draws of the transport in `moving`, and what faults do to it.

    What the law misses of a class (its doubt) is not one factor: it goes together over a few octaves.

    Without GPU-direct copies a hop of small messages takes 6 us more (the house's note: Slingshot with and without
    GDRCopy); small queues and thresholds carry a quarter of the rate of LL (same note).
    """
    library = known.library
    term = across_nodes(op, sizes, where, library)
    times = np.broadcast_to(np.asarray(term.value, dtype=float), sizes.shape)
    own = where.transport
    doubt = 0.0 if own.known == "machine" else float(np.std(np.log(np.asarray(moving.transport.doubt, dtype=float))))
    moving = replace(moving, transport=replace(moving.transport, doubt=1.0))
    draws = np.log(np.asarray(across_nodes(op, sizes[None, :], moving, library).value, dtype=float))
    draws = np.broadcast_to(draws, (max(len(draws), 2), len(sizes)))
    copied = sizes <= _COPIED_BYTES
    moved = {}
    for code, place_then in _faulty(where, known).items():
        then = np.asarray(across_nodes(op, sizes, place_then, library).value)
        moved[code] = np.log(then / times) * (copied if code == "no-gdr" else 1.0)
    of = "as measured" if own.known == "machine" else "as machines of its class were measured"
    return Yardstick(
        times_s=times,
        fixed_s=np.broadcast_to(np.asarray(columns(term).get("fixed", 0.0), dtype=float), sizes.shape),
        covariance=np.atleast_2d(np.cov(draws, rowvar=False)) + _carried(sizes, np.full(len(sizes), doubt)),
        like=f"{where.span.nodes} nodes on {own.name}, {of}",
        kind=own.known,
        switched="nvls" in where.has,
        moved=moved,
    )


def _faulty(where: Place, known: Known) -> dict[str, Place]:
    """Return the place under each fault that the law prices."""
    own, span = where.transport, where.span
    found = {
        "no-gdr": replace(where, transport=replace(own, hop_s=own.hop_s + _STAGED_S, peer_s=own.peer_s + _STAGED_S)),
        "protocol-capped": replace(
            where, transport=replace(own, ll_bandwidth_bytes_per_s=own.ll_bandwidth_bytes_per_s / _CAPPED)
        ),
        "half-speed-link": replace(
            where, span=replace(span, inter=Link(span.inter.latency_s, span.inter.bandwidth_bytes_per_s / 2.0))
        ),
    }
    if known.sockets is not None and not own.name.startswith("tcp"):
        found["tcp"] = replace(where, transport=known.sockets)
    if "nvls" in where.has:
        found["nvls-off"] = replace(where, has=where.has - {"nvls"})
    for part in (2.0, 4.0, 8.0):
        if float(np.mean(span.rails)) >= part:
            found[f"rails/{part:.0f}"] = replace(where, span=replace(span, rails=span.rails / part))
    return found


def _carried(sizes: Array, spread: Array) -> Array:
    """Return a covariance whose neighbours, in octaves of size, go together."""
    apart = np.abs(np.log2(sizes)[:, None] - np.log2(sizes)[None, :])
    found: Array = spread[:, None] * spread[None, :] * np.exp(-apart / _OCTAVES)
    return found

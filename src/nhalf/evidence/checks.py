"""Checks of a fit: what looks wrong, what flatters, and whether the numbers describe a link at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.collective import Op
from nhalf.curve.surface import sent_share
from nhalf.evidence.table import Note
from nhalf.evidence.waiting import SAID, is_mostly

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.series import Series
    from nhalf.link import Link
    from nhalf.system import System

_FASTEST: Final = 0.3e-6
"""No message between two devices is quicker [s]: one hop over NVLink or PCIe takes more than this."""
_SLOW_LINK: Final = 50.0
"""A slope this many times under the link is not the link."""
_SLOW_FLOOR: Final = 3.0
"""A floor this many times above any plausible one is not the link."""
_FLOOR, _FLOOR_STEP, _FLOOR_NODE = 30e-6, 1.5e-6, 20e-6
"""Above every floor measured with nccl-tests on GPUs [s]: 26 us on 8 B200, 25 us over PCIe, 46 us on 2 nodes."""
_APART: Final = 0.1
_WORST: Final = 0.2
_DEVICE_TOOLS: Final = ("nccl", "rccl", "nvshmem", "mscclpp")

_IN_RINGS: Final = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.BROADCAST, Op.REDUCE)
_SLOWEST: Final = 1.0
"""No network that ranks share takes longer [s] over a message of no bytes: a column of microseconds read as seconds."""

CHECKS: Final = (
    "the transport in the log (NCCL_DEBUG=INFO: NET/Socket or SHM where P2P, NVLS or NET/IB was meant), P2P "
    "(nvidia-smi topo -p2p r), ACS in the BIOS, GPU-direct RDMA (nvidia-peermem or dma-buf), and that the application "
    "runs in a CUDA graph"
)
"""What to look at when the numbers describe software or configuration."""


def checked(fit: CurveFit, system: System | None) -> tuple[tuple[Note, ...], bool]:
    """Return the notes on a fit, those of its reader first, and whether it describes something other than the link.

    `system` is what the user says the ranks ran on; without it a slope has nothing to be compared with.
    """
    given = fit.series.notes
    codes = {note.code for note in given}
    found = [note for note in _notes(fit) if note.code not in codes]
    not_the_link = list(_not_the_link(fit, system))
    if system is not None:
        found += _above_the_link(fit, system)
    return (*given, *not_the_link, *found), bool(not_the_link)


def expected_link(fit: CurveFit, system: System) -> Link:
    """Return the link of a system that the ranks of a fit had to cross."""
    key, fabric = fit.series.key, system.fabric
    across = (key.nodes or 1) > 1 or (key.nodes is None and (key.ranks or 1) > fabric.devices_per_node)
    return fabric.inter_node if across else fabric.intra_node


def ceiling(fit: CurveFit, system: System) -> float:
    """Return the bus bandwidth [bytes/s] that the links of a system allow the ranks of a fit.

    Rings across nodes run side by side over every NIC of a node, up to one for each of its ranks; a message between two
    ranks has one.
    """
    key, fabric = fit.series.key, system.fabric
    one = float(expected_link(fit, system).bandwidth_bytes_per_s)
    if key.op not in _IN_RINGS or key.ranks is None or one == float(fabric.intra_node.bandwidth_bytes_per_s):
        return one
    nodes = key.nodes or -(-key.ranks // fabric.devices_per_node)
    rails = min(float(np.mean(fabric.nics_per_node)), key.ranks / nodes)
    return min(max(rails, 1.0) * one, float(fabric.intra_node.bandwidth_bytes_per_s))


def _notes(fit: CurveFit) -> Iterator[Note]:
    series = fit.series
    if series.key.quantity is None:
        yield Note(code="quantity-unknown", text="how the times were taken is not in the file: isolated, back to back "
                   "or in a graph differ by up to ten times on small messages")  # fmt: skip
    if series.wrong_sizes_bytes:
        sizes = ", ".join(units.format_size(size) for size in series.wrong_sizes_bytes)
        yield Note(code="wrong-results", text=f"the tool found wrong results at {sizes}: these rows are left out")
    if series.spikes.any():
        yield Note(code="spike", text=_spikes(series))
    yield from _of_form(fit)
    if fit.latency is not None and fit.latency.value < _FASTEST and (series.key.ranks or 2) > 1 and series.tool:
        yield Note(code="too-fast", text=f"a latency of {units.format_time(fit.latency.value)} is quicker than any "
                   "link: an error of units, or several operations counted as one")  # fmt: skip


def _spikes(series: Series) -> str:
    """Return which points stand alone above their neighbours, and how many times."""
    known, odd = series.good, series.spikes
    logs = np.log(series.sizes_bytes)
    beside = np.exp(np.interp(logs[odd], logs[known], np.log(series.times_s[known])))
    factors = zip(series.sizes_bytes[odd].tolist(), (series.times_s[odd] / beside).tolist(), strict=True)
    named = [f"{units.format_size(size)} is {factor:.2g} times over its neighbours" for size, factor in factors]
    return f"{', '.join(named)}: left out of the fit, so repeat {'it' if len(named) == 1 else 'them'}"


def _of_form(fit: CurveFit) -> Iterator[Note]:
    """Yield notes on the shape of the curve: switches, gaps, in place against out of place."""
    series = fit.series
    if len(fit.segments) > 1:
        sizes = ", ".join(units.format_size(segment.from_bytes) for segment in fit.segments[1:])
        yield Note(code="switch", text=f"the line changes at {sizes}: another algorithm or protocol, or a ramp")
    between = fit.double_floor_between_bytes
    if between is not None and fit.double_floor_size_bytes is None:
        low, high = map(units.format_size, between)
        yield Note(code="gap", text=f"the time doubles its floor somewhere between {low} and {high}: no size between "
                   "the two was run, so nobody can say where")  # fmt: skip
    if fit.line is not None and fit.line.misfit_max > _WORST and len(fit.segments) > 1:
        yield Note(code="one-line", text=f"one line misses the points by {100 * fit.line.misfit_median:.2g} % in the "
                   f"median and {100 * fit.line.misfit_max:.2g} % at worst: the segments describe them")  # fmt: skip
    apart = np.abs(np.log(series.in_place_s / series.times_s))
    if np.isfinite(apart).any() and float(np.nanmedian(apart)) > _APART:
        yield Note(code="in-place", text=f"in place and out of place differ by {100 * float(np.nanmedian(apart)):.2g} "
                   "% in the median; out of place is fitted")  # fmt: skip


def _not_the_link(fit: CurveFit, system: System | None) -> Iterator[Note]:
    """Yield why the numbers describe configuration or software, or another unit."""
    key = fit.series.key
    if fit.floor_s is not None and fit.floor_s > _SLOWEST and not fit.latency_refusal and key.quantity != "predicted":
        yield Note(code="not-the-link", text=f"a floor of {units.format_time(fit.floor_s)} is above any network's: an "
                   "error of units (columns are seconds, time_us, time_ms), or software")  # fmt: skip
        return
    if system is not None and fit.bandwidth is not None:
        link = ceiling(fit, system)
        seen = _bus_bandwidth(fit)
        if seen is not None and seen < link / _SLOW_LINK:
            yield Note(code="not-the-link", text=f"the largest messages see {units.format_bandwidth(seen)} of bus "
                       f"bandwidth, {link / seen:.3g} times under the link ({units.format_bandwidth(link)}): "
                       f"configuration or software, not the link. Check {CHECKS}")  # fmt: skip
    device = system is not None or fit.series.tool.startswith(_DEVICE_TOOLS)
    if fit.floor_s is None or fit.latency_refusal or not device or key.ranks is None or key.quantity == "predicted":
        return
    steps, nodes = 2 * (key.ranks - 1), key.nodes or -(-key.ranks // 8)
    plausible = _FLOOR + steps * _FLOOR_STEP + 2 * (nodes - 1) * _FLOOR_NODE
    if fit.floor_s > _SLOW_FLOOR * plausible:
        waits = f": {SAID}" if is_mostly(plausible, fit.floor_s - plausible) else ""
        yield Note(code="not-the-link", text=f"a floor of {units.format_time(fit.floor_s)} is "
                   f"{fit.floor_s / plausible:.2g} times above any plausible one ({units.format_time(plausible)}): "
                   f"configuration or software, not the link{waits}. Check {CHECKS}")  # fmt: skip


def _bus_bandwidth(fit: CurveFit) -> float | None:
    """Return the bus bandwidth [bytes/s] of the fitted ceiling, as nccl-tests counts it."""
    key = fit.series.key
    if fit.bandwidth is None or key.op is None or key.ranks is None or key.ranks < 2:  # noqa: PLR2004
        return None
    if key.op in (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL):
        return fit.bandwidth.value * float(sent_share(np.array(float(key.ranks)), doubled=key.op is Op.ALL_REDUCE))
    return fit.bandwidth.value


def _above_the_link(fit: CurveFit, system: System) -> list[Note]:
    """Return a note where the bus bandwidth exceeds the link: an all-reduce was then added up in the network."""
    seen, link = _bus_bandwidth(fit), ceiling(fit, system)
    if seen is None or seen <= link:
        return []
    text = f"a bus bandwidth of {units.format_bandwidth(seen)} is above the link ({units.format_bandwidth(link)})"
    why = "in-network reduction (NVLS, SHARP), not an error" if fit.series.key.op is Op.ALL_REDUCE else "check the size"
    return [Note(code="above-the-link", text=f"{text}: {why}")]

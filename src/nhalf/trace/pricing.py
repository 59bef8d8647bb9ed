"""Pricing: what a link or a fitted line says that a collective of the trace should take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nhalf.breakdown import columns
from nhalf.collective import Algorithm, Op
from nhalf.errors import InputError
from nhalf.fabric import Span
from nhalf.laws.collective.table import LAWS
from nhalf.trace.fixed_time import Line

if TYPE_CHECKING:
    from nhalf.link import Link
    from nhalf.trace.fixed_time import Pricing
    from nhalf.trace.record import Kind

_PRICED = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL)
"""The operations whose times are laid beside a law; its first law is taken where the kernel's name does not say how."""
_ANY_BYTES = 1e6  # the laws are straight lines, so one size shows the bandwidth of all


def of_link(link: Link) -> Pricing:
    """Return prices by the laws: of the algorithm that ran, or the first of its operation where its name is silent.

    A law that no simulation checks gives no price.
    """

    def price(kind: Kind, algorithm: Algorithm | None) -> Line | None:
        known = LAWS[kind.op] if kind.op in _PRICED else {}
        law = known.get(algorithm or kind.algorithm or next(iter(known), Algorithm.RING))
        if law is None or law.unchecked or not kind.ranks or kind.ranks < 2:  # noqa: PLR2004  one rank moves nothing
            return None
        span = Span(ranks=kind.ranks, nodes=1, intra=link, inter=link, rails=1.0)
        time = law.filled_on(span)
        if time is None:
            return None
        parts = columns(time(_ANY_BYTES, span, 0.0))
        return Line(
            fixed_s=float(parts["fixed"]), bandwidth_bytes_per_s=_ANY_BYTES / float(parts["transfer"]), source="links"
        )

    return price


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    """One line of a fit."""

    op: Op
    ranks: int
    line: Line


def of_fits(document: Mapping[str, Any], where: str) -> Pricing:
    """Return prices by the lines of a fit (the document of `nhalf fit --json`), at the same op and number of ranks.

    Raises
    ------
    InputError
        The document holds no fitted lines.
    """
    fits = document.get("fits")
    found = [one for one in map(_fitted, fits if isinstance(fits, Sequence) else []) if one]
    if not found:
        raise InputError(
            "there is no fitted line in this file",
            where=where,
            allowed="the JSON of nhalf fit, with latency and bandwidth",
        )

    def price(kind: Kind, algorithm: Algorithm | None) -> Line | None:
        if algorithm is not None:
            return None
        return next((one.line for one in found if one.op is kind.op and one.ranks == kind.ranks), None)

    return price


def _fitted(entry: Mapping[str, Any]) -> _Fitted | None:
    """Return the line of one fit, None when it identifies none."""
    latency, bandwidth, ranks = (entry.get(key) for key in ("latency_s", "bandwidth_bytes_per_s", "ranks"))
    if not isinstance(latency, float) or not isinstance(bandwidth, (int, float)) or not isinstance(ranks, int):
        return None
    line = Line(fixed_s=latency, bandwidth_bytes_per_s=float(bandwidth), source="links")
    return _Fitted(op=Op.parse(str(entry.get("op")), where="op of a fit"), ranks=ranks, line=line)

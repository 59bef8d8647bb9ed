"""Point-to-point laws: what one message costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.breakdown import Quantity, Term, leaf, total

if TYPE_CHECKING:
    from nhalf.link import Link


def hockney(size_bytes: Quantity, link: Link) -> Term:
    """Return the time of one message of `size_bytes` [bytes]: t(n) = alpha + n / beta [s].

    References
    ----------
    R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20 (1994).
    """
    terms = {"n": size_bytes, "alpha": link.latency_s, "beta": link.bandwidth_bytes_per_s}
    return total(
        "message",
        leaf("latency", "alpha", terms, column="fixed"),
        leaf("transfer", "n / beta", terms, column="transfer"),
    )


def log_gp(size_bytes: Quantity, link: Link, *, overhead_s: Quantity = 0.0) -> Term:
    """Return the time [s] of one message by LogGP: L + 2 o + (n - 1) G, with `overhead_s` the o of each end.

    `link.latency_s` is the flight L and 1 / `link.bandwidth_bytes_per_s` the gap G of a byte; Hockney's alpha is
    L + 2 o - G.

    References
    ----------
    A. Alexandrov, M. Ionescu, K. Schauser and C. Scheiman, "LogGP: incorporating long messages into the LogP model",
    SPAA (1995).
    """
    terms = {"n": size_bytes, "L": link.latency_s, "o": overhead_s, "beta": link.bandwidth_bytes_per_s}
    return total(
        "message",
        leaf("flight", "L", terms, column="fixed"),
        leaf("ends", "2 * o", terms, column="fixed"),
        leaf("transfer", "maximum(n - 1, 0) / beta", terms, column="transfer"),
    )


def rendezvous(size_bytes: Quantity, link: Link) -> Term:
    """Return the time [s] of one message that first asks whether it may come: 3 alpha + n / beta.

    A request and a grant go before the bytes; libraries send so above their eager limit.

    References
    ----------
    T. Hoefler, T. Schneider and A. Lumsdaine, "LogGOPSim", LSAP (2010): parameter S, the eager limit.
    """
    terms = {"n": size_bytes, "alpha": link.latency_s, "beta": link.bandwidth_bytes_per_s}
    return total(
        "rendezvous",
        leaf("handshake", "2 * alpha", terms, column="fixed"),
        leaf("latency", "alpha", terms, column="fixed"),
        leaf("transfer", "n / beta", terms, column="transfer"),
    )

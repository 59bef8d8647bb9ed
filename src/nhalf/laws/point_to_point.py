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

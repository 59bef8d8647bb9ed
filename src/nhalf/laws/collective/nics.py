"""NICs that several ranks share: how many messages pass one in a round, and what latency hides behind their queue.

Ranks that share a NIC go through the rounds across nodes one behind the other. A round then takes the longer of a
rank's own message, alpha + x, and of all that pass its NIC, c x: the smaller of alpha and (c - 1) x is hidden. Only
once is it not, for the rank that is the last. So r such rounds take r (alpha + c x) - (r - 1) min(alpha, (c - 1) x):
in a message-level simulation exactly so for rings and powers of two, and no more than that otherwise.

References
----------
A. Alexandrov et al., "LogGP", SPAA (1995), for a port that bytes hold and latency does not; the rest follows from
serving messages in the order in which they are posted, as in a flow shop whose machine is one NIC.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Input, Quantity
    from nhalf.fabric import Span

_WHOLE = 1e-9
"""What a quotient may be above a whole number by rounding."""


def through_one(span: Span, ranks: float) -> Quantity:
    """Return how many messages pass the busiest NIC [1] where `ranks` ranks of a node send: whole ones.

    With more NICs than ranks in a node a rank has several, and less than its whole message passes each.
    """
    fewest = np.minimum(1.0, span.ranks_per_node / np.asanyarray(span.rails))
    found = np.where(fewest < 1, fewest, np.ceil(ranks / np.asanyarray(span.rails) - _WHOLE))
    return found if found.ndim else float(found)


def hidden(steps: str) -> str:
    """Return the latency [s] that queues hide in the steps of a ring across nodes, of chunks of n / (k m)."""
    return f"minimum(m - 1, 1) * ({steps} - 1) * minimum(maximum(c - 1, 0) / (k * m) * n / beta_x, alpha_x)"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rounds:
    """Rounds across nodes that differ: what they cost beside their latency, as parts of a law's formulas.

    `transfer` is a number of vectors [1] through a NIC; `hidden` is the latency [s] that queues hide, and may be
    empty; `terms` are the inputs of both.
    """

    transfer: str
    hidden: str
    terms: dict[str, Input]

    @classmethod
    def of(cls, span: Span, loads: Sequence[float], halvings: Sequence[int], *, times: int) -> Rounds:
        """Return rounds, each played `times` times, in which `loads` ranks of the busiest node send 2^-halvings."""
        first: dict[tuple[float, int], str] = {}
        for place, key in enumerate(zip(loads, halvings, strict=True)):
            first.setdefault(key, f"c{place}")
        alike = list(zip(loads, halvings, strict=True))
        parts, queues = [], []
        for key, name in first.items():
            rounds, share = times * alike.count(key), "" if key[1] == 0 else f" / {2 ** key[1]}"
            parts.append(f"{rounds} * {name}{share}")
            queues.append((rounds, f"maximum({name} - 1, 0){share} * n / beta_x"))
        terms: dict[str, Input] = {name: through_one(span, load) for (load, _), name in first.items()}
        shares_none = all(np.all(np.asanyarray(count) <= 1) for count in terms.values())
        return cls(
            transfer=" + ".join(parts) or "0",
            hidden="" if shares_none else _latencies([queue for _, queue in queues], [rounds for rounds, _ in queues]),
            terms=terms,
        )


def _latencies(queues: Sequence[str], rounds: Sequence[int]) -> str:
    """Return what queues [s] hide of the latency in so many rounds each, but for the longest of them once."""
    longest = reduce(lambda most, queue: f"maximum({most}, {queue})", queues)
    every = " - ".join(f"{count} * minimum({queue}, alpha_x)" for count, queue in zip(rounds, queues, strict=True))
    return f" - {every} + minimum({longest}, alpha_x)"

"""Overlap and fusion: what is left of communication that runs under other work, and what fewer messages save.

References
----------
R. W. Hockney, Parallel Computing 20 (1994): the fixed time alpha that each message pays, whatever its size.
"""

from __future__ import annotations

from nhalf.breakdown import Quantity, Term, leaf


def exposed_share(communication: Term, cover: Term, share: Quantity) -> Term:
    """Return which part [1] of the time of `communication` [s] shows when a share of it may run under `cover` [s].

    What hides is at most the share, and at most what there is to hide under: minimum(f comm, cover).

    References
    ----------
    S. Wang et al., "Overlap communication with dependent computation via decomposition", ASPLOS (2023).
    """
    inputs = {"f": share, "comm": communication, "cover": cover}
    return leaf("exposed share", "1 - minimum(f * comm, cover) / maximum(comm, 1e-30)", inputs, unit="1")


def alternating_share(communication: Term, work: Term, exchanges: Quantity | Term, parts: Quantity | Term) -> Term:
    """Return which part [1] of communication shows when two parts of a batch alternate between work and communication.

    Each part works for `work` [s] and communicates for `communication` [s], in turns, `exchanges` of them; one device
    and one network serve both parts. The last of 2 n turns has nothing to run beside, so that of 2 comm the time
    minimum(comm, work) (2 - 1 / n) hides. With one part (`parts` = 1) nothing does.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V3 technical report", arXiv:2412.19437, 3.4.1 (two micro-batches); S. M. Johnson, "Optimal
    two- and three-stage production schedules with setup times included", Naval Research Logistics Quarterly 1 (1954).
    """
    inputs = {"comm": communication, "work": work, "n": exchanges, "h": parts}
    formula = "1 - (h - 1) * minimum(comm, work) * (1 - 1 / (2 * maximum(n, 1))) / maximum(comm, 1e-30)"
    return leaf("exposed share", formula, inputs, unit="1")


def fused_fixed_time(fixed_s: Quantity | Term, messages: Quantity) -> Term:
    """Return what is saved [s] of the fixed time of many messages when each `messages` of them become one of all bytes.

    m messages of n bytes take m (alpha + n / beta), one of m n bytes alpha + m n / beta: (m - 1) alpha are saved.
    """
    return leaf("fused", "fixed * (1 - 1 / m)", {"fixed": fixed_s, "m": messages})

"""Speculative decoding: how many tokens a step keeps when a draft is checked at once."""

from __future__ import annotations

from nhalf.breakdown import Quantity, Term, leaf


def accepted_tokens(draft_tokens: int, acceptance: Quantity) -> Term:
    """Return the tokens that a step is expected to keep of N drafted ones, each kept with chance A, and its own one.

    (1 - A^(N + 1)) / (1 - A), which is written as the sum 1 + A + ... + A^N so that A = 1 gives N + 1.

    References
    ----------
    Y. Leviathan, M. Kalman and Y. Matias, "Fast inference from transformers via speculative decoding",
    arXiv:2211.17192, equation 1.
    """
    formula = " + ".join(["1", *(f"A ** {power}" for power in range(1, draft_tokens + 1))])
    return leaf("accepted tokens", formula, {"A": acceptance}, unit="tokens")

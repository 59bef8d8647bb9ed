"""Numbers of benchmark results as cells of a case table."""

from __future__ import annotations

import math
from typing import Any, Final

from nhalf.evidence.readers.json_text import number, objects
from nhalf.evidence.readers.protocol import Line

CONCURRENCY_BY: Final = "concurrency_by"
"""The column that says how the concurrency of a run was found, where its file does not state one."""
_SAME: Final = 0.05  # relative
UNSAID: Final = "unsaid"
"""What a file does not say of a run's layout, which is left out unless the user does."""
LITTLE: Final = "Little's law"


def documents(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text: one, a list, one a line, what stands between other words, or begins a cut."""
    return objects([Line(0, text)])[0]


def cell(value: object, scale: float = 1.0) -> str:
    """Return a number, times a scale, as the text of a cell; empty where there is none."""
    found = None if isinstance(value, str) else number(value)
    return "" if found is None or math.isnan(found) else f"{found * scale:.9g}"


def per_request(total: object, requests: object) -> str:
    """Return the mean of a total over requests as the text of a cell."""
    both = isinstance(total, int | float) and isinstance(requests, int | float)
    return f"{total / requests:.9g}" if both and requests else ""  # type: ignore[operator]


def drafted(kept: object, drafts: object, tokens: object) -> dict[str, str]:
    """Return the cells of a run that drafts: the tokens that a step keeps, and those that it is fed; none for others.

    A step is fed the draft's tokens and one more; where a file does not count them, those that are kept are the least.
    """
    mean, steps, fed = number(kept), number(drafts), number(tokens)
    if mean is None or not mean > 1.0:
        return {}
    return {
        "accepted_tokens": cell(mean),
        "tokens_per_step": cell(max(1.0 + fed / steps, mean) if steps and fed else mean),
    }


def per_token(whole: float | None, first: float | None, tokens: str, between: float | None) -> float | None:
    """Return the time of a token where no TPOT is told, in the unit of the times: (whole - first) / (tokens - 1).

    Times `between` chunks are as good while a chunk holds one token, so they count where the two agree.
    """
    if whole is None or first is None or not tokens or float(tokens) <= 1.0 or whole <= first:
        return between
    found = (whole - first) / (float(tokens) - 1.0)
    return between if between is not None and abs(between - found) <= _SAME * found else found


def in_flight(row: dict[str, str], requests_per_s: object) -> dict[str, str]:
    """Return the concurrency of a run that states none, and how it is known; no cells where it is not.

    It is how many requests were in flight, by Little's law: rate x (first token + the others).

    References
    ----------
    J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961).
    """
    if not isinstance(requests_per_s, int | float) or not (row["ttft_s"] and row["tpot_s"] and row["osl"]):
        return {}
    seconds = float(row["ttft_s"]) + float(row["tpot_s"]) * max(float(row["osl"]) - 1, 0)
    return {"concurrency": f"{max(requests_per_s * seconds, 1.0):.4g}", CONCURRENCY_BY: LITTLE}

"""Numbers of benchmark results as cells of a case table."""

from __future__ import annotations

from typing import Any, Final

from nhalf.errors import InputError
from nhalf.files.reading import parse_json

CONCURRENCY_BY: Final = "concurrency_by"
"""The column that says how the concurrency of a run was found, where its file does not state one."""
LITTLE: Final = "Little's law"


def parsed(text: str) -> Any:  # noqa: ANN401  JSON is whatever it is
    """Return the JSON in a text; None where it is none."""
    try:
        return parse_json(text, where="")
    except InputError:
        return None


def cell(value: object, scale: float = 1.0) -> str:
    """Return a number, times a scale, as the text of a cell; empty where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124  NaN
        return ""
    return f"{value * scale:.9g}"


def per_request(total: object, requests: object) -> str:
    """Return the mean of a total over requests as the text of a cell."""
    both = isinstance(total, int | float) and isinstance(requests, int | float)
    return f"{total / requests:.9g}" if both and requests else ""  # type: ignore[operator]


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

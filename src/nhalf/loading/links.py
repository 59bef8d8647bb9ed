"""Links: two quantities with units, or a name of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Sequence


def link(texts: Sequence[str]) -> tuple[Link, dict[str, Datum]]:
    """Return the link that `nhalf link` names: LATENCY BANDWIDTH, or one name of the catalogue.

    Raises
    ------
    InputError
        Neither one name nor two quantities with units.
    """
    if len(texts) == 1:
        return store.link(texts[0])
    latency, bandwidth = texts
    found = Link(latency, bandwidth)
    given = {"latency_s": (latency, "s"), "bandwidth_bytes_per_s": (bandwidth, "bytes/s")}
    return found, {
        name: Datum(
            value=float(getattr(found, name)), unit=unit, source="command line", locator=text, kind="given", date=""
        )
        for name, (text, unit) in given.items()
    }

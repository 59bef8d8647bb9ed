"""Traffic: what network interfaces counted while known bytes were sent, which tells what carried them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLE: Final = Path("/proc/net/dev")
_FABRICS: Final = Path("/sys/class/infiniband")
_SENT: Final = 8  # column of the bytes sent
_WORD: Final = 4  # [bytes] an InfiniBand port counts in words of 32 bits (IBTA 1.3, PortXmitData)
_ENOUGH: Final = 0.8
"""An interface that counted this share of what was sent carried it."""


def counters() -> dict[str, int]:
    """Return the bytes that each interface of this process's network has sent; empty where the system keeps none."""
    found: dict[str, int] = {}
    try:
        lines = _TABLE.read_text(encoding="utf-8").splitlines()[2:]
    except OSError:
        lines = []
    for line in lines:
        name, _, columns = line.partition(":")
        found[name.strip()] = int(columns.split()[_SENT])
    for path in _FABRICS.glob("*/ports/*/counters/port_xmit_data"):
        try:
            found[path.parts[4]] = found.get(path.parts[4], 0) + _WORD * int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return found


def carriers(before: Mapping[str, int], after: Mapping[str, int], sent_bytes: int) -> tuple[str, ...]:
    """Return the interfaces that counted about the bytes that were sent between two looks, the busiest first."""
    grown = {name: after[name] - before.get(name, 0) for name in after}
    found = [name for name in grown if grown[name] >= _ENOUGH * sent_bytes]
    return tuple(sorted(found, key=lambda name: -grown[name]))

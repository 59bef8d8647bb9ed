"""The devices that a log names: which system of the catalogue has them."""

from __future__ import annotations

import re
from typing import Final

from nhalf.catalog import store

_BOARDS: Final = ("pcie", "nvl")
"""Forms of a device that have links of their own."""


def system_of_device(device: str) -> str:
    """Return the system of the catalogue whose devices have a name such as `NVIDIA B200`, empty where none has.

    Of several it is the plainest: the name with most words of the device's, then the shortest.
    """
    words = re.findall(r"[a-z0-9]+", device.lower())
    best, most = "", 0
    for name in sorted(store.names("system"), key=lambda name: (len(name), name)):
        parts = name.split("-")
        model = next((part for part in parts if part[-1:].isdigit() or part[:2] == "mi" or part == "l40s"), "")
        shared = sum(any(word.startswith(part) for word in words) for part in parts if len(part) > 1)
        if model in words and shared > most and all(word in parts for word in words if word in _BOARDS):
            best, most = name, shared
    return best

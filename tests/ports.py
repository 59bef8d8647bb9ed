"""Ports for tests: below those that the system hands to connections, so that none is taken before it is used."""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 20_000, 32_000


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    while True:
        port = random.SystemRandom().randint(_FIRST, _LAST)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue

"""A rank that nhalf started: `python -m nhalf.evidence.probe.worker`, which nobody types."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING

from nhalf.errors import NhalfError
from nhalf.evidence.probe import placement
from nhalf.evidence.probe.conductor import TOKEN
from nhalf.evidence.probe.player import Player
from nhalf.evidence.probe.sockets import Listener, Sockets
from nhalf.evidence.probe.streams import PeerGoneError
from nhalf.evidence.probe.wire import connected

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONNECT_S = 20.0


def main(arguments: Sequence[str]) -> int:
    """Play one rank, and return its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=("sockets", "mpi"), required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--processor", type=int)
    given = parser.parse_args(arguments)
    placement.place(given.processor)
    # A Ctrl-C is the conductor's to handle: this rank ends when its wire closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _play(given)
    except (NhalfError, PeerGoneError) as error:
        sys.stderr.write(f"nhalf: rank: {error}\n")
        return 4
    return 0


def _play(given: argparse.Namespace) -> None:
    token = os.environ.get(TOKEN, "")
    if given.backend == "mpi":
        from nhalf.evidence.probe.mpi import Mpi

        backend = Mpi()
        wire = connected(given.host, given.port, wait_s=_CONNECT_S, where=f"rank {backend.rank}")
        Player(wire, backend.rank, backend).play(token)
        return
    wire = connected(given.host, given.port, wait_s=_CONNECT_S, where=f"rank {given.rank}")
    listener = Listener(given.host)
    Player(wire, given.rank, Sockets(given.rank, listener)).play(token, address=listener.address())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

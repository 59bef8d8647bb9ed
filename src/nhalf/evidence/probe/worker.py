"""A rank that nhalf started: `python -m nhalf.evidence.probe.worker`, which nobody types."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from nhalf.errors import NhalfError
from nhalf.evidence.probe import placement
from nhalf.evidence.probe.conductor import KEY
from nhalf.evidence.probe.joining import play
from nhalf.evidence.probe.player import Player
from nhalf.evidence.probe.sockets import Sockets
from nhalf.evidence.probe.streams import PeerGoneError
from nhalf.evidence.probe.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Play one rank, and return its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=("sockets", "mpi"), required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--wire", type=int)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--processor", type=int)
    parser.add_argument("--placement", choices=placement.PLACEMENTS, default="free")
    given = parser.parse_args(arguments)
    placement.place(given.processor)
    # A Ctrl-C is the conductor's to handle: this rank ends when its wire closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _play(given, bytes.fromhex(os.environ.get(KEY, "")))
    except (NhalfError, PeerGoneError) as error:
        sys.stderr.write(f"nhalf: rank: {error}\n")
        return 4
    return 0


def _play(given: argparse.Namespace, key: bytes) -> None:
    if given.wire is not None:  # an end of a pair of sockets that this process was born with
        sockets = Sockets(given.rank, key)
        Player(Wire(socket.socket(fileno=given.wire)), given.rank, sockets).play(sockets.address(given.host))
        return
    if given.backend == "sockets":
        play(Sockets(given.rank, key), given.rank, (given.host, given.port, key))
        return
    from nhalf.evidence.probe.mpi import Mpi

    backend = Mpi()
    own = placement.processors(backend.size, given.placement)
    placement.place(own[backend.rank] if own else None)
    play(backend, backend.rank, (given.host, given.port, key))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Be the other host of a measurement: one guest that knows the word, for a limited time, and nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.evidence.probe.conductor import RankLostError
from nhalf.evidence.probe.door import Door
from nhalf.evidence.probe.handshake import key_of, new_word
from nhalf.evidence.probe.plan import LOOPBACK, PORT
from nhalf.evidence.probe.player import Patience, Player
from nhalf.evidence.probe.sockets import Sockets
from nhalf.evidence.probe.streams import PeerGoneError
from nhalf.evidence.probe.wire import listening

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.plan import Request

_LOOPBACKS: Final = (LOOPBACK, "localhost", "::1")


def listen(request: Request, told: Callable[[str], None]) -> str:
    """Wait for a guest, measure with it as rank 1, and return where it came from; `told` is given each line to print.

    Nothing is said of this host, and nothing opened, before the guest has proved to know the word; connections are
    only ever taken. Raises RankLostError when nobody comes in time, or who came goes away or takes too long.
    """
    host, port = request.bind or LOOPBACK, request.port or PORT
    server = listening(host, port, where="--listen")
    word = request.word or new_word()
    door = Door([server], key_of(word), ranks=1, once=True)
    try:
        only = ", this machine only (--listen ADDRESS is for others)" if host in _LOOPBACKS else ""
        told(f"nhalf: listening on {host}:{port}{only}, for one guest, for {request.wait_s:.0f} s")
        if not request.word:
            told(f"nhalf: on the other host: NHALF_WORD={word} nhalf measure --connect {_named(host, port)}")
        guest = door.next(request.wait_s)
        if guest is None:
            others = f"; {door.sent_away} who came did not prove to know the word" if door.sent_away else ""
            raise RankLostError(0, f"nobody connected within {request.wait_s:.0f} s{others}",
                                do="nhalf measure --connect HOST on the other host")  # fmt: skip
        patience = Patience(order_s=request.deadline_s, session_s=request.budget_s)
        came_from = guest.wire.remote_host()
        try:
            Player(guest.wire, 1, Sockets(1, guest.key, door), patience).play()
        except PeerGoneError as error:
            raise RankLostError(0, f"the other host went away before the end: {error}",
                                do="look at what the other host printed, then start both again") from error  # fmt: skip
        finally:
            guest.wire.close()
        return came_from
    finally:
        door.close()


def _named(host: str, port: int) -> str:
    """Return how the guest names this host; the port where it is not the usual one."""
    return host if port == PORT else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

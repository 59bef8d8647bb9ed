"""A door: takes the connections of those who prove that they know a key, many at once, and sends others away.

No connection can hold up another: each has a few seconds for its handshake, and when too many stand there, the one
that has stood longest is closed.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.evidence.probe import handshake
from nhalf.evidence.probe.messages import MOST_RANKS, PROTOCOL, Challenge, Hello, Proof, Refused
from nhalf.evidence.probe.wire import Wire, WireClosedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.probe.messages import Message, Why

_AT_ONCE: Final = 64
_PAUSE_S: Final = 0.05
_INSIDE: Final = 4 * MOST_RANKS  # proved connections that nobody has fetched yet


@dataclass(frozen=True, slots=True)
class Guest:
    """Who proved to know the key: its wire, what it said it is, and the key of this session."""

    wire: Wire
    hello: Hello
    key: bytes


@dataclass(slots=True, eq=False)
class _Standing:
    """A connection whose handshake is under way."""

    wire: Wire
    until: float
    hello: Hello | None = None
    challenge: Challenge | None = None


class Door:
    """Listening sockets and a thread beside the measurement that sleeps while nobody comes.

    `channels` are what may be asked for ("" is the wire of orders) and `ranks` how many there are. With `once`, the
    first guest's session takes the door: others are told that it is busy, and only its own further channels come in.
    """

    def __init__(
        self, servers: Sequence[socket.socket], key: bytes, *, channels: tuple[str, ...] = ("",),
        ranks: int = MOST_RANKS, once: bool = False,
    ) -> None:  # fmt: skip
        """Open it."""
        self._servers = list(servers)
        self._key = key
        self._channels, self._ranks, self._once = channels, ranks, once
        self._busy = False
        self._standing: list[_Standing] = []
        self._inside: queue.Queue[Guest] = queue.Queue(_INSIDE)
        self._wake, self._waker = socket.socketpair()
        self.sent_away = 0
        """Connections that did not prove to know the key."""
        for server in self._servers:
            server.setblocking(False)  # noqa: FBT003  its only parameter
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def next(self, wait_s: float) -> Guest | None:
        """Return the next guest, None when none comes within `wait_s` [s]."""
        try:
            return self._inside.get(timeout=max(wait_s, 0.001))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Shut it, and close who stands there or was never fetched."""
        with contextlib.suppress(OSError):
            self._waker.close()
        self._thread.join(1.0)

    def _run(self) -> None:
        try:
            while True:
                now = time.monotonic()
                for late in [each for each in self._standing if each.until <= now]:
                    self._send_away(late)
                left = min((each.until - now for each in self._standing), default=None)
                waiting = {each.wire: each for each in self._standing}
                ends: list[socket.socket | Wire] = [self._wake, *self._servers, *waiting]
                ready = select.select(ends, [], [], left)[0]
                if self._wake in ready:
                    return
                for each in ready:
                    if isinstance(each, Wire):
                        self._hear(waiting[each])
                    else:
                        self._accept(each)
        finally:
            self._clear()

    def _clear(self) -> None:
        for each in self._standing:
            each.wire.close()
        while not self._inside.empty():
            self._inside.get_nowait().wire.close()
        for server in (self._wake, *self._servers):
            server.close()

    def _accept(self, server: socket.socket) -> None:
        try:
            connection, _ = server.accept()
        except BlockingIOError:
            return
        except OSError:
            time.sleep(_PAUSE_S)  # no more files can be opened: not a reason to spin
            return
        if len(self._standing) >= _AT_ONCE:
            self._send_away(self._standing[0])
        try:
            self._standing.append(_Standing(Wire(connection), time.monotonic() + handshake.HELLO_S))
        except OSError:
            connection.close()

    def _hear(self, standing: _Standing) -> None:
        if standing not in self._standing:
            return  # it was closed a moment ago, to make room
        try:
            found = standing.wire.pump()
            if len(found) > 1:
                self._send_away(standing)
            elif found:
                self._answer(standing, found[0])
        except WireClosedError:
            self._send_away(standing)

    def _answer(self, standing: _Standing, message: Message) -> None:
        """Go a step on in a handshake."""
        if standing.hello is None and isinstance(message, Hello):
            why = self._objection(message)
            if why is not None:
                self._send_away(standing, why)
                return
            standing.hello, standing.challenge = message, Challenge(nonce=handshake.nonce())
            standing.wire.send(standing.challenge)
            return
        hello, challenge = standing.hello, standing.challenge
        if hello is None or challenge is None or not isinstance(message, Proof):
            self._send_away(standing)
        elif (why := self._objection(hello)) is not None:  # another guest may have come in since
            self._send_away(standing, why)
        elif not handshake.proves(self._key, message, hello, challenge):
            self._send_away(standing, "word")
        else:
            self._admit(standing, hello, challenge)

    def _objection(self, hello: Hello) -> Why | None:
        if hello.protocol != PROTOCOL:
            return "version"
        if self._busy and not hello.channel:
            return "busy"
        return None if hello.channel in self._channels and hello.rank < self._ranks else "rank"

    def _admit(self, standing: _Standing, hello: Hello, challenge: Challenge) -> None:
        standing.wire.send(handshake.welcome(self._key, hello, challenge))
        self._standing.remove(standing)
        key = handshake.session_key(self._key, hello, challenge)
        if self._once and not self._busy:
            self._busy, self._key, self._channels, self._ranks = True, key, ("tcp",), 1
        try:
            self._inside.put_nowait(Guest(standing.wire, hello, key))
        except queue.Full:
            standing.wire.close()

    def _send_away(self, standing: _Standing, why: Why | None = None) -> None:
        self._standing.remove(standing)
        self.sent_away += 1
        if why is not None:
            with contextlib.suppress(WireClosedError):
                standing.wire.send(Refused(why=why))
        standing.wire.close()

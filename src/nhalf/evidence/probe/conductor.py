"""The conductor: it asks ranks to do things, waits with a deadline, and names the rank that is lost."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from nhalf.errors import InputError, NhalfError, WeakEvidenceError
from nhalf.evidence.probe.door import Door
from nhalf.evidence.probe.handshake import new_key
from nhalf.evidence.probe.messages import REPLIES, Done, Facts, Failed, Ping, Pong, Stop
from nhalf.evidence.probe.wire import NoMessageError, WireClosedError, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nhalf.evidence.probe.messages import Order
    from nhalf.evidence.probe.wire import Wire

_LOOK_S: Final = 0.2
_END_S: Final = 1.0
_PONG_S: Final = 3.0
_HELLO_S: Final = 5.0
_STOP_S: Final = 5.0
KEY: Final = "NHALF_KEY"
"""The variable that hands the key of a measurement to the ranks that nhalf starts."""


class RankLostError(WeakEvidenceError):
    """A rank died, hung or failed during a measurement; what was measured until then is kept."""

    def __init__(self, rank: int, why: str, *, do: str = "") -> None:
        """Name the rank."""
        super().__init__(why, where=f"rank {rank}", do=do or "look at what that rank printed, then measure again")
        self.rank = rank


class StoppedError(NhalfError):
    """The user, or a launcher, asked for the end."""

    exit_code = 130


class Conductor:
    """The centre of a star of wires, one to each rank."""

    def __init__(self, size: int, *, host: str = "127.0.0.1", port: int = 0, key: bytes = b"") -> None:
        """Listen for `size` ranks that prove to know a key. Raises InputError when the port is taken."""
        self.size = size
        self.key = key or new_key()
        self.info: dict[int, dict[str, Any]] = {}
        self.interrupted: Callable[[], bool] = lambda: False
        """Says whether to stop; looked at a few times a second."""
        self.health: Callable[[], tuple[int | None, str] | None] = lambda: None
        """Says which rank's process ended, and how, where nhalf started them."""
        self._wires: dict[int, Wire] = {}
        server = listening(host, port, where="--port")
        self.host, self.port = host, int(server.getsockname()[1])
        self._door = Door([server], self.key, ranks=size)

    def add(self, wire: Wire, rank: int, wait_s: float = _HELLO_S) -> None:
        """Take the rank at the other end of a wire, which proved who it is.

        Raises RankLostError when it does not say what it runs on within `wait_s` [s].
        """
        if rank in self._wires:
            raise InputError(f"two processes say that they are rank {rank}", where="ranks",
                             do="start all ranks with one launcher")  # fmt: skip
        self._wires[rank] = wire
        wire.speech = REPLIES
        try:
            facts = wire.receive(wait_s)
        except (TimeoutError, WireClosedError) as error:
            raise RankLostError(rank, "it came, and did not say what it runs on") from error
        if not isinstance(facts, Facts):
            raise RankLostError(rank, "it came, and did not say what it runs on")
        self.info[rank] = {**msgspec.to_builtins(facts), "address": facts.address}

    def assemble(self, wait_s: float) -> None:
        """Return when every rank has come.

        Raises RankLostError when one did not within `wait_s` [s], or its process ended.
        """
        until = time.monotonic() + wait_s
        while len(self._wires) < self.size:
            self._checks()
            guest = self._door.next(_LOOK_S)
            if guest is not None:
                self.add(guest.wire, guest.hello.rank)
            elif time.monotonic() > until:
                missing = [rank for rank in range(self.size) if rank not in self._wires]
                raise RankLostError(
                    missing[0],
                    f"it did not come within {wait_s:.0f} s (missing: {', '.join(map(str, missing))} of {self.size})",
                    do=f"check that it can reach {self.host}:{self.port}, or give it longer: --wait 5min",
                )

    def ask(self, orders: Mapping[int, Order], deadline_s: float) -> dict[int, Any]:
        """Send each rank its order, and return what each answers.

        Raises RankLostError when a rank is gone, fails, or does not answer within `deadline_s` [s].
        """
        for rank, order in orders.items():
            try:
                self._wires[rank].send(order)
            except WireClosedError as error:
                raise RankLostError(rank, "its process ended") from error
        answers: dict[int, Any] = {}
        failures: dict[int, Failed] = {}
        until = time.monotonic() + deadline_s
        while len(answers) + len(failures) < len(orders):
            waiting = [rank for rank in orders if rank not in answers and rank not in failures]
            self._collect(waiting, answers, failures)
            self._checks()
            if time.monotonic() > until:
                raise self._late([rank for rank in waiting if rank not in answers], deadline_s)
            if failures and (cause := _cause(failures)) is not None:
                raise self._failed(cause, failures[cause].why)
        if failures:
            raise self._failed(min(failures), failures[min(failures)].why)
        return answers

    def ask_all(self, order: Order, deadline_s: float) -> dict[int, Any]:
        """Send every rank one order, and return what each answers."""
        return self.ask(dict.fromkeys(range(self.size), order), deadline_s)

    def _collect(self, waiting: Iterable[int], answers: dict[int, Any], failures: dict[int, Failed]) -> None:
        """Read once what has come."""
        wires = {self._wires[rank]: rank for rank in waiting}
        # A rank that nobody waits for may die as well.
        others = {self._wires[rank]: rank for rank in self._wires if self._wires[rank] not in wires}
        for wire in select.select([*wires, *others], [], [], _LOOK_S)[0]:
            rank = wires.get(wire, others.get(wire, -1))
            try:
                found = wire.pump()
            except NoMessageError as error:
                raise RankLostError(rank, str(error)) from error
            except WireClosedError as error:
                raise RankLostError(rank, self._ended(rank)) from error
            for message in found:
                if isinstance(message, Failed):
                    failures[rank] = message
                elif isinstance(message, Done):
                    answers[rank] = message.result

    def _failed(self, rank: int, why: str) -> RankLostError:
        """Return the error of a rank that failed, or of the one whose end, seen a moment later, made it fail."""
        until = time.monotonic() + _END_S
        while time.monotonic() < until:
            dead = self._dead()
            if dead is not None and dead != rank:
                return RankLostError(dead, self._ended(dead))
            time.sleep(0.02)
        return RankLostError(rank, why)

    def _ended(self, rank: int) -> str:
        """Return how a rank ended, as far as its process tells; its end may be seen a moment after its silence."""
        info = self.info.get(rank, {})
        where = f"pid {info.get('pid', '?')} on {info.get('host', '?')}"
        until = time.monotonic() + _END_S
        while time.monotonic() < until:
            found = self.health()
            if found is not None and found[0] == rank:
                return found[1]
            if found is not None and found[0] is None:
                return f"its process ended ({where}); {found[1]}"
            time.sleep(0.02)
        return f"its process ended ({where})"

    def _checks(self) -> None:
        if self.interrupted():
            dead = self._dead()
            if dead is not None:
                raise RankLostError(dead, self._ended(dead))
            raise StoppedError("interrupted")
        found = self.health()
        if found is not None:
            rank, how = found
            if rank is None:
                raise WeakEvidenceError(how, where="the launcher", do="look at what it printed")
            raise RankLostError(rank, how)

    def _dead(self) -> int | None:
        """Return a rank whose wire is closed, None where there is none.

        Launchers interrupt the others when one dies; no rank ends by a signal that it may ignore.
        """
        for wire in select.select(list(self._wires.values()), [], [], 0)[0]:
            try:
                wire.pump()
            except WireClosedError:
                return next(rank for rank, each in self._wires.items() if each is wire)
        return None

    def _late(self, ranks: list[int], deadline_s: float) -> RankLostError:
        """Return the error of ranks that do not answer; a rank whose process does not even say that it lives is named.

        A rank that waits for another in a library still says so, from beside the measurement.
        """
        for rank in ranks:
            try:
                self._wires[rank].send(Ping())
            except WireClosedError:
                return RankLostError(rank, "its process ended")
        alive: set[int] = set()
        until = time.monotonic() + _PONG_S
        while time.monotonic() < until and len(alive) < len(ranks):
            for wire in select.select([self._wires[rank] for rank in ranks], [], [], _LOOK_S)[0]:
                rank = next(rank for rank in ranks if self._wires[rank] is wire)
                try:
                    if any(isinstance(message, Pong) for message in wire.pump()):
                        alive.add(rank)
                except WireClosedError:
                    return RankLostError(rank, "its process ended")
        silent = [rank for rank in ranks if rank not in alive]
        where = {rank: f"{self.info[rank]['host']}, pid {self.info[rank]['pid']}" for rank in ranks}
        if silent:
            more = f"; so do {', '.join(map(str, silent[1:]))}" if silent[1:] else ""
            return RankLostError(silent[0], f"no answer for {deadline_s:.0f} s, nor a sign of life "
                                 f"({where[silent[0]]}){more}: it is stopped, or its host is")  # fmt: skip
        return RankLostError(ranks[0], f"no answer for {deadline_s:.0f} s though its process lives "
                             f"({where[ranks[0]]}): a message of rank {', '.join(map(str, ranks))} never arrived",
                             do="try --deadline 5min, or look for a firewall between the ranks")  # fmt: skip

    def stop(self) -> None:
        """Tell every rank to end, and close the wires; a rank that does not answer is left to its launcher."""
        for wire in self._wires.values():
            try:
                wire.send(Stop())
            except WireClosedError:
                continue
        until = time.monotonic() + _STOP_S
        for wire in self._wires.values():
            try:
                wire.receive(max(until - time.monotonic(), 0.0))
            except (TimeoutError, WireClosedError, ValueError, OSError):
                continue
        self.close()

    def close(self) -> None:
        """Close every wire: ranks end by themselves when theirs closes."""
        for wire in self._wires.values():
            wire.close()
        self._door.close()


def _cause(failures: Mapping[int, Failed]) -> int | None:
    """Return a rank that failed for a reason of its own, rather than because another one was gone."""
    return next((rank for rank, message in failures.items() if not message.gone), None)

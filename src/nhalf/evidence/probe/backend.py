"""The protocol of a backend: how one rank passes messages and does collectives, whatever carries them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.evidence.probe.cell import Cell


class Messenger(Protocol):
    """Messages of one size to and from one other rank."""

    def send(self) -> None:
        """Send one; it may return before the message has arrived."""
        ...

    def receive(self) -> None:
        """Return when one has come."""
        ...

    def fill(self, pattern: bytes) -> None:
        """Write a pattern, as long as a message, into what goes out."""
        ...

    def echo(self) -> None:
        """Let what came in go out next."""
        ...

    def received(self) -> bytes:
        """Return what came in."""
        ...


class Action(Protocol):
    """One collective with its buffers."""

    def run(self) -> None:
        """Do it, and return when this rank may use the result."""
        ...

    def post(self) -> None:
        """Begin it and return at once, where the backend can."""
        ...

    def finish(self) -> None:
        """Wait for what `post` began."""
        ...

    def check(self) -> bool:
        """Do it once with known numbers and return whether the result is right."""
        ...


class Backend(Protocol):
    """What carries messages between this rank and the others.

    Raises InputError, from each method that is asked for something that it does not have.
    """

    def messenger(self, channel: str, peer: int, size_bytes: int) -> Messenger:
        """Return messages of a size [bytes] to another rank."""
        ...

    def action(self, cell: Cell) -> Action:
        """Return a collective among the ranks of a cell."""
        ...

    def barrier(self, ranks: tuple[int, ...]) -> None:
        """Return when these ranks have come here."""
        ...

    def graphed(self, run: Callable[[], None], count: int) -> Callable[[], None]:
        """Return a call that replays `count` runs from a captured graph, and waits for their end."""
        ...

    def product(self, rows: int, inner: int, columns: int) -> Callable[[], None]:
        """Return a product of matrices, on the device that the messages come from."""
        ...

    def stamp(self) -> Any:  # noqa: ANN401  a time, or an event of a device
        """Return a mark of now, in the order of what was begun."""
        ...

    def read(self, stamps: Sequence[Any]) -> Sequence[int]:
        """Return the times of marks [ns], on the clock of this rank or, where `device_clock`, on a device's own."""
        ...

    @property
    def device_clock(self) -> bool:
        """Return whether marks are of a device's clock, which says nothing of other ranks."""
        ...

    def computation(self) -> Callable[[], None]:
        """Return a small computation, on the device that the messages come from, for others to hide under."""
        ...

    def settle(self) -> None:
        """Wait until the device is idle."""
        ...

    def facts(self) -> Mapping[str, str]:
        """Return what it is: versions, provider, device."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...

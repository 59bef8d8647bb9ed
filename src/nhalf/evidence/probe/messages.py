"""The messages of a measurement: what each may say, how long it may be, and nothing beside.

Strangers may say the greetings, in a thousand bytes; orders and replies are read only from who proved to know the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from nhalf.evidence.probe.cell import Cell

PROTOCOL: Final = 2
"""Both ends must speak the same."""
MOST_RANKS: Final = 1024
LARGEST_BYTES: Final = 2**33
"""Of one message of a measurement [bytes]: twice the largest size that can be asked for."""

Hex: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Rank: TypeAlias = Annotated[int, Meta(ge=0, lt=MOST_RANKS)]
Channel: TypeAlias = Literal["tcp", "unix", "shm"]
Name: TypeAlias = Annotated[str, Meta(pattern=r"^nhalf-[A-Za-z0-9_]{1,30}\Z")]
"""Of a file or folder that nhalf made: a name has no path in it, so nobody can be sent to another's file."""
Line: TypeAlias = Annotated[str, Meta(max_length=2000)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=1e5)]
Value: TypeAlias = bool | int | float | Sequence[int | float]
Result: TypeAlias = dict[Line, Value]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10_000_000)]
Few: TypeAlias = Annotated[int, Meta(ge=1, le=4096)]
Why: TypeAlias = Literal["busy", "word", "version", "rank"]


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """What goes over a wire; a field that it does not have makes it no message."""


# ---------------------------------------------------------------------------------------------------------- greetings


class Hello(Message, frozen=True, tag="hello"):
    """The first word of who connects: the rank that it is, and the channel this connection is to be ("": orders)."""

    protocol: int
    rank: Rank
    channel: Channel | Literal[""]
    nonce: Hex


class Challenge(Message, frozen=True, tag="challenge"):
    """The answer to a hello: prove that you know the word."""

    nonce: Hex


class Proof(Message, frozen=True, tag="proof"):
    """An HMAC over both nonces, keyed with the word, of who connected."""

    proof: Hex


class Welcome(Message, frozen=True, tag="welcome"):
    """The same of the end that was connected to: it too knows the word."""

    proof: Hex


class Refused(Message, frozen=True, tag="refused"):
    """Why who connected is sent away."""

    why: Why


class Shared(Message, frozen=True, tag="shared"):
    """The name of the memory that both ends of a proved connection share."""

    name: Name


class Mapped(Message, frozen=True, tag="mapped"):
    """The other end has mapped it."""


# ------------------------------------------------------------------------------------------------------------- orders


class Address(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a rank is reached: a host and port, and the folder of its Unix socket ("": none)."""

    host: Line
    port: Annotated[int, Meta(ge=1, le=65_535)]
    folder: Annotated[str, Meta(pattern=r"^(nhalf-[A-Za-z0-9_]{1,30})?\Z")] = ""


class Peer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rank to be joined with: at an address, or, without one, when it connects."""

    rank: Rank
    address: Address | None = None


class Open(Message, frozen=True, tag="open"):
    """Connect to some ranks and take the connections of others, with buffers for the largest message [bytes]."""

    channels: Annotated[tuple[Channel, ...], Meta(max_length=3)]
    peers: Annotated[tuple[Peer, ...], Meta(max_length=MOST_RANKS)]
    largest_bytes: Annotated[int, Meta(ge=1, le=LARGEST_BYTES)]
    deadline_s: Seconds


class Prepare(Message, frozen=True, tag="prepare"):
    """Make a cell, check its result, and warm it up."""

    id: Count
    cell: Cell


class Visit(Message, frozen=True, tag="visit"):
    """Time a cell: `repetitions` of `burst` operations; with `start_ns`, each begins when this rank's clock says so."""

    id: Count
    repetitions: Count
    burst: Count = 1
    works: Count = 0
    start_ns: int | None = None
    window_ns: int = 0


class Clock(Message, frozen=True, tag="clock"):
    """Compare clocks with a peer."""

    channel: Line
    peer: Rank
    leads: bool


class Decode(Message, frozen=True, tag="decode"):
    """Decode tokens of a small model of this seed, split over `tp` x `pp` ranks; a layer begins `late_s` [s] late."""

    layers: Few
    hidden: Few
    heads: Few
    vocabulary: Few
    batch: Few
    tokens: Few
    tp: Few = 1
    pp: Few = 1
    seed: Count = 1
    late_s: Annotated[float, Meta(ge=0, le=1)] = 0.0


class Traffic(Message, frozen=True, tag="traffic"):
    """Say what the interfaces counted."""


class Ran(Message, frozen=True, tag="ran"):
    """Say on which processors this rank was seen."""


class Ping(Message, frozen=True, tag="ping"):
    """Say that you live."""


class Stop(Message, frozen=True, tag="stop"):
    """The measurement is over."""


# ------------------------------------------------------------------------------------------------------------ replies


class Facts(Message, frozen=True, tag="facts"):
    """What a rank says of itself, to who proved to know the word."""

    host: Line
    pid: int
    boot: Line = ""
    network: Line = ""
    cpus: Annotated[list[int], Meta(max_length=65_536)] = []
    environment: Annotated[dict[Line, Annotated[str, Meta(max_length=20_000)]], Meta(max_length=2000)] = {}
    address: Address | None = None


class Done(Message, frozen=True, tag="done"):
    """An order was carried out."""

    result: Result = {}


class Failed(Message, frozen=True, tag="failed"):
    """An order failed; `gone` says that it was because another rank is gone."""

    why: Line
    gone: bool = False


class Pong(Message, frozen=True, tag="pong"):
    """The answer to a ping."""


Order: TypeAlias = Open | Prepare | Visit | Decode | Clock | Traffic | Ran | Ping | Stop


@dataclass(frozen=True, slots=True)
class Speech:
    """What an end may say at a time: the decoder of its messages, and the most [bytes] that one may have."""

    decoder: msgspec.json.Decoder[Any]
    limit_bytes: int


GREETINGS: Final = Speech(
    msgspec.json.Decoder(Hello | Challenge | Proof | Welcome | Refused | Shared | Mapped), 1 << 10
)
ORDERS: Final = Speech(msgspec.json.Decoder(Order), 1 << 20)
REPLIES: Final = Speech(msgspec.json.Decoder(Facts | Done | Failed | Pong), 1 << 20)

"""The handshake of two ends that share a word: each proves that it knows the word, and neither says it.

Who connects proves first, so a stranger who listens at the door learns nothing to try words on. Nonces of both ends
are in each proof: one that was recorded proves nothing a second time. The proofs tell who is there; what is said
afterwards is neither hidden nor signed.

References
----------
H. Krawczyk, M. Bellare and R. Canetti, "HMAC: keyed-hashing for message authentication", RFC 2104 (1997). The key of a
word is PBKDF2 of it: B. Kaliski, RFC 2898 (2000).
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.evidence.probe.messages import PROTOCOL, Challenge, Hello, Proof, Refused, Welcome
from nhalf.evidence.probe.wire import NoMessageError, WireClosedError

if TYPE_CHECKING:
    from nhalf.evidence.probe.messages import Channel, Why
    from nhalf.evidence.probe.wire import Wire

_ROUNDS: Final = 100_000  # of PBKDF2: about 50 ms for each word that is tried
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"  # none of them is taken for another
_GROUPS, _GROUP = 3, 4
SHORTEST_WORD, LONGEST_WORD = 8, 128
"""Characters of a word that a user chooses."""
HELLO_S: Final = 5.0
"""The longest that a handshake may take [s]."""
_REFUSED: Final[dict[Why, tuple[str, str]]] = {
    "busy": ("it is busy with another measurement", "wait until that one has ended, then start both ends again"),
    "word": ("the word is not the one that it printed", "NHALF_WORD=... nhalf measure --connect HOST"),
    "version": ("it speaks another version of nhalf measure", "install the same nhalf on both hosts"),
    "rank": ("it does not take this rank", "start all ranks with one launcher, and one word"),
}


class RefusedError(InputError):
    """The other end sent this one away; `reason` is one of a few words, or empty where it said none."""

    def __init__(self, where: str, reason: Why | None) -> None:
        """Say why, and what to do."""
        stranger = ("what answers there is no nhalf measure that listens", "look at what the other host printed")
        what, do = _REFUSED[reason] if reason else stranger
        super().__init__(what, where=where, do=do)
        self.reason = reason


def new_word() -> str:
    """Return a word for one measurement: 59 bits, in letters that can be read aloud."""
    groups = ["".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS)]
    return "-".join(groups)


def new_key() -> bytes:
    """Return a key for ranks that are told it without a network."""
    return secrets.token_bytes(32)


@functools.cache
def key_of(word: str) -> bytes:
    """Return the key of a word."""
    return hashlib.pbkdf2_hmac("sha256", word.encode(), b"nhalf measure", _ROUNDS)


def _digest(key: bytes, what: str, hello: Hello, challenge: Challenge) -> bytes:
    said = "|".join((what, str(hello.protocol), str(hello.rank), hello.channel, hello.nonce, challenge.nonce))
    return hmac.digest(key, said.encode(), "sha256")


def proves(key: bytes, proof: Proof | Welcome, hello: Hello, challenge: Challenge) -> bool:
    """Return whether a proof shows that the other end knows the key."""
    mine = _digest(key, "guest" if isinstance(proof, Proof) else "host", hello, challenge).hex()
    return hmac.compare_digest(mine, proof.proof)


def welcome(key: bytes, hello: Hello, challenge: Challenge) -> Welcome:
    """Return the proof of the end that was connected to."""
    return Welcome(proof=_digest(key, "host", hello, challenge).hex())


def session_key(key: bytes, hello: Hello, challenge: Challenge) -> bytes:
    """Return a key that only these two ends know, for what else they connect."""
    return _digest(key, "session", hello, challenge)


def nonce() -> str:
    """Return a number that is used once."""
    return secrets.token_hex(32)


def enter(wire: Wire, key: bytes, *, rank: int, where: str, channel: Channel | None = None) -> bytes:
    """Prove to the end that this one connected to who this is, make it prove itself, and return the session's key.

    Raises RefusedError when it sends this end away, or does not know the key.
    """
    hello = Hello(protocol=PROTOCOL, rank=rank, channel=channel or "", nonce=nonce())
    try:
        wire.send(hello)
        challenge = wire.receive(HELLO_S)
        if isinstance(challenge, Challenge):
            wire.send(Proof(proof=_digest(key, "guest", hello, challenge).hex()))
            answer = wire.receive(HELLO_S)
            if isinstance(answer, Welcome) and proves(key, answer, hello, challenge):
                return session_key(key, hello, challenge)
        else:
            answer = challenge
    except TimeoutError as error:
        wire.close()
        raise InputError(f"what listens there did not answer for {HELLO_S:.0f} s", where=where,
                         do="look at what the other host printed") from error  # fmt: skip
    except (NoMessageError, WireClosedError) as error:
        wire.close()
        raise RefusedError(where, None) from error
    wire.close()
    raise RefusedError(where, answer.why if isinstance(answer, Refused) else None)

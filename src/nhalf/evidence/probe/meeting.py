"""Where two hosts meet, by which word, and on which processors their ranks run: what --listen and its like mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.errors import InputError, did_you_mean
from nhalf.evidence.probe.handshake import LONGEST_WORD, SHORTEST_WORD
from nhalf.evidence.probe.placement import PLACEMENTS
from nhalf.evidence.probe.plan import SOCKETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.evidence.probe.asked import Asked
    from nhalf.evidence.probe.placement import Placement
    from nhalf.evidence.probe.ranks import Place

WORD: Final = "NHALF_WORD"
"""The variable that holds the word, so that it need not stand in a list of processes."""
_PORTS: Final = 65_535


def place(asked: Asked) -> tuple[str, int]:
    """Return the host and port of --listen, --connect or --bind; 0: the usual port."""
    flag = "--connect" if asked.connect else "--listen"
    given = asked.connect or asked.listen or ""
    host, port = given.strip(), asked.port
    if (found := re.fullmatch(r"(?:\[([^\]]+)\]|([^:]*))(?::(\d+))?", host)) is not None:
        host = found[1] or found[2]
        if found[3] is not None:
            if port is not None:
                raise InputError("the port is given twice", where=f"{flag} {given}", do="leave --port out")
            flag, port = f"{flag} {given}", found[3]
        else:
            flag = "--port"
    if asked.bind and host:
        raise InputError("the address is given twice", where=f"--listen {given}", do="leave --bind out")
    if port is None:
        return host or asked.bind or "", 0
    number = units.parse_count(port, where=flag)
    if number > _PORTS:
        raise InputError(f"{number} is no port", where=flag, allowed=f"1 to {_PORTS}")
    return host or asked.bind or "", number


def word(asked: Asked, here: Place | None, environment: Mapping[str, str]) -> str:
    """Return what both ends must know, empty where nhalf makes one up."""
    if asked.word and not asked.apart and here is None:
        raise InputError("ranks that nhalf starts here need no word", where="--word",
                         do="add --listen or --connect HOST, or leave --word out")  # fmt: skip
    found = asked.word or (environment.get(WORD, "") if asked.apart or here is not None else "")
    if asked.connect and not found:
        raise InputError("the host that listens printed a word, and this one does not know it", where=WORD,
                         do=f"{WORD}=... nhalf measure --connect {asked.connect}")  # fmt: skip
    if found and not SHORTEST_WORD <= len(found) <= LONGEST_WORD:
        much = "short" if len(found) < SHORTEST_WORD else "long"
        raise InputError(f"a word of {len(found)} characters is too {much}",
                         where="--word" if asked.word else WORD,
                         allowed=f"{SHORTEST_WORD} to {LONGEST_WORD} characters",
                         do="leave it out with --listen, which then makes one up")  # fmt: skip
    return found


def placement(asked: Asked, here: Place | None, backend: str) -> Placement:
    """Return where the ranks run that nhalf starts; those of a launcher, and of --listen, run where they are."""
    if asked.placement is None:
        if here is not None:
            return "launcher"
        return "spread" if backend == SOCKETS and asked.listen is None else "free"
    if here is not None or asked.listen is not None:
        who = here.launcher if here is not None else "your shell"
        raise InputError(f"{who} says on which processors these ranks run, not nhalf", where="--placement",
                         do="leave it out")  # fmt: skip
    for name in PLACEMENTS:
        if asked.placement.strip().casefold() == name:
            return name
    raise InputError(f"{asked.placement!r} is no placement", where="--placement", allowed=", ".join(PLACEMENTS),
                     do=did_you_mean(asked.placement, PLACEMENTS))  # fmt: skip

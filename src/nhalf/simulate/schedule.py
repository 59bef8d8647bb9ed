"""A user's own schedule: a list of messages with what each waits for, as JSON.

``{"ranks": 4, "op": "all-reduce", "messages": [{"from": 0, "to": 1, "bytes": "16KiB", "after": ["a"], "id": "b",
"block": 0, "reduces": true}, ...]}``: `op` (optional) makes nhalf check that the data ends up right; `blocks` is into
how many pieces the vector is cut (1); `after` names messages that the sender must have sent or received first, and
`id` is the place in the list where it is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.errors import InputError, did_you_mean
from nhalf.simulate.building import Builder
from nhalf.simulate.program import Goal, Program
from nhalf.simulate.programs.shape import copied, exchanged, reduced_at, reduced_everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MESSAGE: Final = ("id", "from", "to", "bytes", "after", "block", "reduces")
_DOCUMENT: Final = ("ranks", "op", "blocks", "messages", "name")
_GOALS: Final[dict[str, Callable[[int, int], Goal]]] = {
    "all-reduce": reduced_everywhere,
    "all-gather": lambda ranks, _: copied(ranks, np.arange(ranks)),
    "reduce-scatter": lambda ranks, _: reduced_at(ranks, np.arange(ranks)),
    "broadcast": lambda ranks, blocks: copied(ranks, np.zeros(blocks, dtype=np.int64)),
    "reduce": lambda ranks, blocks: reduced_at(ranks, np.zeros(blocks, dtype=np.int64)),
    "all-to-all": lambda ranks, _: exchanged(ranks),
}


def read(document: Mapping[str, Any], *, where: str) -> Program:
    """Return the program of a schedule.

    Raises
    ------
    InputError
        A missing or unknown key, a rank that does not exist, a message that waits for an unknown one, for one of
        other ranks, or for itself by a circle.
    """
    _keys(document, _DOCUMENT, where)
    ranks = _count(document, "ranks", where)
    if ranks < 2:  # noqa: PLR2004  one rank has nobody to talk to
        raise InputError("1 rank has nobody to talk to", where=f"{where}: ranks", allowed="2 or more")
    entries = document.get("messages")
    if not isinstance(entries, list) or not entries:
        raise InputError("the schedule has no messages", where=f"{where}: messages", allowed="a list of one or more")
    names = _names(entries, where)
    op = document.get("op")
    blocks = _count(document, "blocks", where) if "blocks" in document else _default_blocks(op, ranks)
    builder = Builder(ranks)
    messages = [_Message(entry, number, ranks, blocks, where) for number, entry in enumerate(entries)]
    _add(builder, messages, names, where)
    _no_circle(messages, names, where)
    if op is not None and op not in _GOALS:
        raise InputError(
            f"op {op!r} has no known result",
            where=f"{where}: op",
            allowed=", ".join(_GOALS),
            do=did_you_mean(str(op), _GOALS),
        )
    return Program(
        op=str(op or "schedule"),
        algorithm=str(document.get("name", "schedule")),
        ranks=ranks,
        size_bytes=float(sum(message.size_bytes for message in messages)),
        steps=builder.graph(),
        goal=(lambda: _GOALS[op](ranks, blocks)) if op is not None else None,
    )


class _Message:
    """One entry of a schedule, checked."""

    def __init__(self, entry: Any, number: int, ranks: int, blocks: int, where: str) -> None:  # noqa: ANN401
        self.where = f"{where}: message {number}"
        if not isinstance(entry, dict):
            raise InputError("a message is an object", where=self.where, allowed='{"from": 0, "to": 1, "bytes": 4096}')
        _keys(entry, _MESSAGE, self.where)
        self.name = str(entry.get("id", number))
        self.source, self.target = (self._rank(entry, key, ranks) for key in ("from", "to"))
        if self.source == self.target:
            raise InputError(f"rank {self.source} sends a message to itself", where=self.where, allowed="two ranks")
        self.size_bytes = self._size(entry)
        after = entry.get("after", [])
        self.after = [str(name) for name in (after if isinstance(after, list) else [after])]
        self.block = self._block(entry, blocks)
        self.reduces = bool(entry.get("reduces", False))

    def _rank(self, entry: Mapping[str, Any], key: str, ranks: int) -> int:
        rank = entry.get(key)
        if not isinstance(rank, int) or isinstance(rank, bool) or not 0 <= rank < ranks:
            what = f"there is no rank {rank!r}" if key in entry else f"the key {key!r} is missing"
            raise InputError(what, where=f"{self.where}, {key}", allowed=f"a rank from 0 to {ranks - 1}")
        return rank

    def _size(self, entry: Mapping[str, Any]) -> float:
        size = entry.get("bytes")
        if isinstance(size, str):
            return units.parse(size, "size", where=f"{self.where}, bytes")
        if not isinstance(size, int | float) or isinstance(size, bool) or not 0 <= size < float("inf"):
            raise InputError(f"{size!r} is no size", where=f"{self.where}, bytes", allowed="0 or more, or '16KiB'")
        return float(size)

    def _block(self, entry: Mapping[str, Any], blocks: int) -> int:
        block = entry.get("block", 0)
        if not isinstance(block, int) or not 0 <= block < blocks:
            raise InputError(f"there is no block {block!r}", where=f"{self.where}, block", allowed=f"0 to {blocks - 1}")
        return block


def _keys(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Refuse a key that means nothing, which is most often a slip."""
    for key in given:
        if key not in known:
            raise InputError(
                f"the key {key!r} is not known", where=where, allowed=", ".join(known), do=did_you_mean(key, known)
            )


def _count(given: Mapping[str, Any], key: str, where: str) -> int:
    value = given.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        what = f"{value!r} is no count" if key in given else f"the key {key!r} is missing"
        raise InputError(what, where=f"{where}: {key}", allowed="a whole number of 1 or more")
    return value


def _default_blocks(op: object, ranks: int) -> int:
    return {"all-gather": ranks, "reduce-scatter": ranks, "all-to-all": ranks * ranks}.get(str(op), 1)


def _names(entries: list[Any], where: str) -> dict[str, int]:
    """Return the place of each message by its name."""
    names: dict[str, int] = {}
    for number, entry in enumerate(entries):
        name = str(entry.get("id", number)) if isinstance(entry, dict) else str(number)
        if name in names:
            raise InputError(
                f"two messages are called {name!r}", where=f"{where}: message {number}, id", do="give each its own id"
            )
        names[name] = number
    return names


def _add(builder: Builder, messages: Sequence[_Message], names: Mapping[str, int], where: str) -> None:
    """Add a step at the sender and one at the receiver for each message, and what the sender's waits for."""
    steps = [(builder.step(message.source), builder.step(message.target)) for message in messages]
    for message, (send, receive) in zip(messages, steps, strict=True):
        builder.message(send, receive, message.size_bytes, block=message.block, reduces=message.reduces)
        for name in message.after:
            if name not in names:
                raise InputError(
                    f"there is no message {name!r} to wait for",
                    where=f"{message.where}, after",
                    do=did_you_mean(name, names),
                )
            earlier = messages[names[name]]
            if message.source not in (earlier.source, earlier.target):
                raise InputError(
                    f"rank {message.source} cannot know when message {name!r} (rank {earlier.source} to rank "
                    f"{earlier.target}) is done",
                    where=f"{message.where}, after",
                    allowed=f"messages that rank {message.source} sends or receives",
                )
            builder.wait(send, steps[names[name]][0 if message.source == earlier.source else 1])
    del where


def _no_circle(messages: Sequence[_Message], names: Mapping[str, int], where: str) -> None:
    """Refuse messages that wait for each other in a circle."""
    done: set[int] = set()
    for start in range(len(messages)):
        trail: list[int] = []
        stack = [(start, 0)]
        while stack:
            number, place = stack.pop()
            if place == 0:
                if number in done:
                    continue
                if number in trail:
                    circle = [messages[one] for one in [*trail[trail.index(number) :], number]]
                    shown = " -> ".join(message.name for message in circle[::-1])
                    raise InputError(
                        f"messages wait for each other in a circle ({shown}): rank {circle[0].source} never sends "
                        f"message {circle[0].name!r}",
                        where=f"{where}: message {circle[0].name}, after",
                        do="take one of them out of `after`",
                    )
                trail.append(number)
            after = messages[number].after
            if place < len(after):
                stack += [(number, place + 1), (names[after[place]], 0)]
            else:
                trail.pop()
                done.add(number)

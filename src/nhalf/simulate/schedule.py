"""A user's own schedule: a list of messages with what each waits for, as JSON.

``{"ranks": 4, "op": "all-reduce", "messages": [{"from": 0, "to": 1, "bytes": "16KiB", "after": ["a"], "id": "b",
"block": 0, "reduces": true}, ...]}``: `op` (optional) makes nhalf check that the data ends up right, and that messages
wait for what they carry; `blocks` is into how many pieces the vector is cut (1); `after` names messages that the sender
must have sent or received first, and `id` is the place in the list where it is left out.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf import units
from nhalf.errors import InputError, did_you_mean
from nhalf.simulate.building import MOST_ORDERED, Builder, in_order, race
from nhalf.simulate.program import Goal, Program
from nhalf.simulate.programs.shape import copied, exchanged, reduced_at, reduced_everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.simulate.graph import Graph

_MESSAGE: Final = ("id", "from", "to", "bytes", "after", "block", "reduces")
_DOCUMENT: Final = ("ranks", "op", "blocks", "messages", "name")
_MOST_CELLS: Final = 20_000_000
"""Ranks times blocks whose data is followed: a second's work, and half a gigabyte."""
_SHOWN: Final = 4
"""Messages of a circle that are spelled out at either end of it."""
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
    op, blocks = _goal(document, ranks, where)
    messages = [_Message(entry, number, ranks, blocks, where) for number, entry in enumerate(entries)]
    after = [_awaited(message, messages, names) for message in messages]
    _, circle = in_order(after)
    if circle:
        raise _circle([messages[number] for number in circle])
    notes = _check_races(messages, after) if op else ()
    return Program(
        op=op or "schedule",
        algorithm=_name(document, where),
        ranks=ranks,
        size_bytes=float(sum(message.size_bytes for message in messages)),
        steps=_graph(ranks, messages, after),
        goal=(lambda: _GOALS[op](ranks, blocks)) if op else None,
        notes=notes,
    )


def _goal(document: Mapping[str, Any], ranks: int, where: str) -> tuple[str, int]:
    """Return the operation whose result is promised, empty where none is, and into how many blocks its data is cut."""
    op = document.get("op")
    if op is None:
        return "", _count(document, "blocks", where) if "blocks" in document else 1
    if not isinstance(op, str) or op not in _GOALS:
        raise InputError(
            f"op {op!r} has no known result",
            where=f"{where}: op",
            allowed=", ".join(_GOALS),
            do=did_you_mean(str(op), _GOALS),
        )
    fixed = {"all-gather": ranks, "reduce-scatter": ranks, "all-to-all": ranks * ranks}.get(op, 0)
    blocks = _count(document, "blocks", where) if "blocks" in document else fixed or 1
    if fixed and blocks != fixed:
        raise InputError(
            f"the {op} of {ranks} ranks has {fixed} blocks, not {blocks}",
            where=f"{where}: blocks",
            do="leave it out",
        )
    if ranks * blocks > _MOST_CELLS:
        raise InputError(
            f"{blocks:,} blocks on each of {ranks:,} ranks are too many for their data to be followed",
            where=f"{where}: blocks" if "blocks" in document else f"{where}: ranks",
            allowed=f"ranks times blocks up to {_MOST_CELLS:,}",
            do="leave out op, so that no data is promised",
        )
    return op, blocks


def _name(document: Mapping[str, Any], where: str) -> str:
    """Return what a schedule is called."""
    name = document.get("name", "schedule")
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{name!r} is no name", where=f"{where}: name", allowed="a text")
    return name


class _Message:
    """One entry of a schedule, checked."""

    def __init__(self, entry: Any, number: int, ranks: int, blocks: int, where: str) -> None:  # noqa: ANN401
        self.where = f"{where}: message {number}"
        if not isinstance(entry, dict):
            raise InputError("a message is an object", where=self.where, allowed='{"from": 0, "to": 1, "bytes": 4096}')
        _keys(entry, _MESSAGE, self.where)
        self.name = _id(entry.get("id", number), f"{self.where}, id")
        self.source, self.target = (self._rank(entry, key, ranks) for key in ("from", "to"))
        if self.source == self.target:
            raise InputError(f"rank {self.source} sends a message to itself", where=self.where, allowed="two ranks")
        self.size_bytes = self._size(entry)
        after = entry.get("after", [])
        named = after if isinstance(after, list) else [after]
        self.after = list(dict.fromkeys(_id(name, f"{self.where}, after") for name in named))
        self.block = self._block(entry, blocks)
        self.reduces = entry.get("reduces", False)
        if not isinstance(self.reduces, bool):
            raise InputError(f"{self.reduces!r} is no choice", where=f"{self.where}, reduces", allowed="true or false")

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
        if not isinstance(size, int | float) or isinstance(size, bool) or not 0 <= size <= sys.float_info.max:
            raise InputError(f"{size!r} is no size", where=f"{self.where}, bytes", allowed="0 or more, or '16KiB'")
        return float(size)

    def _block(self, entry: Mapping[str, Any], blocks: int) -> int:
        block = entry.get("block", 0)
        if not isinstance(block, int) or isinstance(block, bool) or not 0 <= block < blocks:
            raise InputError(f"there is no block {block!r}", where=f"{self.where}, block", allowed=f"0 to {blocks - 1}")
        return block


def _id(name: object, where: str) -> str:
    """Return what a message is called, or called by another."""
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise InputError(f"{name!r} names no message", where=where, allowed="a text, or a place in the list from 0 on")
    return str(name)


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


def _names(entries: list[Any], where: str) -> dict[str, int]:
    """Return the place of each message by its name."""
    names: dict[str, int] = {}
    for number, entry in enumerate(entries):
        given = entry.get("id", number) if isinstance(entry, dict) else number
        name = _id(given, f"{where}: message {number}, id")
        if name in names:
            raise InputError(
                f"two messages are called {name!r}", where=f"{where}: message {number}, id", do="give each its own id"
            )
        names[name] = number
    return names


def _awaited(message: _Message, messages: Sequence[_Message], names: Mapping[str, int]) -> list[int]:
    """Return the places of the messages that one waits for."""
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
    return [names[name] for name in message.after]


def _graph(ranks: int, messages: Sequence[_Message], after: Sequence[Sequence[int]]) -> Graph:
    """Return a step at the sender and one at the receiver for each message, and what the sender's waits for."""
    builder = Builder(ranks)
    steps = [(builder.step(message.source), builder.step(message.target)) for message in messages]
    for message, (send, receive), awaited in zip(messages, steps, after, strict=True):
        builder.message(send, receive, message.size_bytes, block=message.block, reduces=message.reduces)
        for number in awaited:
            builder.wait(send, steps[number][0 if message.source == messages[number].source else 1])
    return builder.graph()


def _circle(circle: Sequence[_Message]) -> InputError:
    """Return the error of messages that wait for each other, the first of them also the last."""
    names = [message.name for message in circle[::-1]]
    if len(names) > 2 * _SHOWN:
        names = [*names[:_SHOWN], f"... ({len(names) - 2 * _SHOWN} more)", *names[-_SHOWN:]]
    return InputError(
        f"messages wait for each other in a circle ({' -> '.join(names)}): rank {circle[0].source} never sends "
        f"message {circle[0].name!r}",
        where=f"{circle[0].where}, after",
        do="take one of them out of `after`",
    )


def _check_races(messages: Sequence[_Message], after: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Refuse a message that does not wait for a part of what it carries, and say where nobody looked for one."""
    if len(messages) > MOST_ORDERED:
        return (f"too long (over {MOST_ORDERED:,} messages) to tell whether each waits for what it carries",)
    ends = [(message.source, message.target) for message in messages]
    found = race(ends, [message.block for message in messages], after)
    if found is None:
        return ()
    late, early = (messages[number] for number in found[::-1])
    raise InputError(
        f"rank {early.source} sends block {early.block} without waiting for message {late.name!r}, which brings a part "
        "of it",
        where=f"{early.where}, after",
        do=f"add {late.name!r}, or give what is sent apart from it a block of its own",
    )

"""Events of a Chrome trace: decoded block by block, so that a file of any size needs the memory of one block."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from nhalf.errors import InputError
from nhalf.trace.skim import skim
from nhalf.trace.sources import CutShortError, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_NEXT = re.compile(r"\}\s*,\s*\{")
_AFTER = re.compile(r"\s*,\s*\{")
_TRIES = 8  # how many "},{" from the end of a block may lie inside an event's arguments before more is read
_LONGEST_HEADER = 64 << 20
_LONG_EVENT = 1 << 16  # characters; so near to the end of what is read, an event that makes no sense may be unfinished
_LONGEST_EVENT = 8 << 20
_TWICE = 4  # how often, at most, damaged text is looked at again: the reader stays linear
_BEYOND = 2**62
_VALUES = (
    "device", "correlation", "external", "node", "collective", "in_elements", "out_elements", "dtype", "group_size",
    "group_name", "group_ranks", "seq", "source", "destination", "size",
)  # fmt: skip
"""Arguments that are one number or word, where they are what they should be."""
_values = attrgetter(*_VALUES)
_NOTHING = msgspec.Raw()
_PATIENT = json.JSONDecoder(strict=False)


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that nhalf reads; every one may be missing, and other types are let through."""

    device: Any = None
    correlation: Any = None
    external: Any = msgspec.field(default=None, name="External id")
    node: Any = msgspec.field(default=None, name="graph node id")
    collective: Any = msgspec.field(default=None, name="Collective name")
    in_elements: Any = msgspec.field(default=None, name="In msg nelems")
    out_elements: Any = msgspec.field(default=None, name="Out msg nelems")
    dtype: Any = None
    group_size: Any = msgspec.field(default=None, name="Group size")
    group_name: Any = msgspec.field(default=None, name="Process Group Name")
    group_ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    seq: Any = msgspec.field(default=None, name="Seq")
    source: Any = msgspec.field(default=None, name="Src Rank")
    destination: Any = msgspec.field(default=None, name="Dst Rank")
    dims: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_NOTHING, name="Input type")
    size: Any = msgspec.field(default=None, name="bytes")


def kept(args: Args | None) -> Args | None:
    """Return arguments that may outlive their block: undecoded parts are views that would hold all of it.

    A number that no counter reaches is left out, and so is a list or an object where one value belongs.
    """
    if args is not None:
        for name, value in zip(_VALUES, _values(args), strict=True):
            kind = type(value)
            if kind is list or kind is dict or (kind is int and not -_BEYOND < value < _BEYOND):
                setattr(args, name, None)
        if args.dims is not _NOTHING:
            args.dims = msgspec.Raw(bytes(args.dims))
        if args.types is not _NOTHING:
            args.types = msgspec.Raw(bytes(args.types))
    return args


class Event(msgspec.Struct, gc=False):
    """One event: phase, category, name, start and duration [us], thread, arguments."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float | None = None
    tid: Any = None
    args: Args | None = None


@dataclass(slots=True)
class Beside:
    """What stands beside the events of a file: its header, what was wrong with it, how many events damage took.

    `skipped` events were not decoded, because nobody reads their like; `python`: there are Python frames among them.
    `cut`: its compression breaks off.
    """

    header: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    lost: int = 0
    skipped: int = 0
    python: bool = False
    cut: bool = False


_Kind = TypeVar("_Kind")
_EVENTS = msgspec.json.Decoder(list[Event], strict=False)


def read(path: Path, beside: Beside) -> Iterator[list[Event]]:
    """Yield the events of a file in lists; `beside` receives all else.

    Raises
    ------
    InputError
        The file is no JSON, or no trace.
    """
    buffer, started = b"", False
    for block in _unbroken(path, beside):
        buffer += block
        if not started:
            start = _start(buffer, beside.header)
            if start is None:
                if len(buffer) > _LONGEST_HEADER:
                    raise _no_events(path)
                continue
            buffer, started = buffer[start:], True
        events, buffer = _complete(buffer, beside)
        if events:
            yield events
    if not started:
        start = _start(buffer, beside.header)
        if start is None:
            raise _no_events(path)
        buffer = buffer[start:]
    yield _last(path, buffer, beside)
    if beside.lost:
        beside.notes.append(f"{path.name} is damaged: {beside.lost} of its events could not be read")


def _unbroken(path: Path, beside: Beside) -> Iterator[bytes]:
    """Yield the blocks of a file as far as its compression is whole."""
    try:
        yield from blocks(path)
    except CutShortError:
        beside.cut = True


def _no_events(path: Path) -> InputError:
    return InputError(
        "this JSON has no list of trace events",
        where=str(path),
        allowed='{"traceEvents": [...]} or a bare list of events',
        do="export it with torch.profiler's export_chrome_trace()",
    )


def _start(buffer: bytes, header: dict[str, Any]) -> int | None:
    """Return where the first event begins, having read what comes before; None when more is needed."""
    text = buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] == b"[":
        return len(buffer) - len(text) + 1
    found = _ARRAY.search(buffer)
    if not found:
        return None
    before = buffer[: found.start()].lstrip(b"\xef\xbb\xbf") + b'"traceEvents":[]}'
    try:
        header.update(json.loads(before, strict=False))
    except ValueError:
        header["unread"] = True
    return found.end()


def _complete(buffer: bytes, beside: Beside) -> tuple[list[Event], bytes]:
    """Return the events that end in the buffer, and what is left."""
    end = len(buffer)
    for _ in range(_TRIES):
        end = buffer.rfind(b"}", 0, end)
        while end > 0 and not _BETWEEN.match(buffer, end):
            end = buffer.rfind(b"}", 0, end)
        if end <= 0:
            break
        skimmed = skim(buffer, end + 1)
        try:
            events, lost = decoded(skimmed.text)
        except (ValueError, RecursionError):
            continue
        beside.lost += lost
        beside.skipped += skimmed.skipped
        beside.python |= skimmed.python
        return events, buffer[buffer.index(b"{", end) :]
    return _one_by_one(buffer, beside, final=False)


def decoded(text: bytes) -> tuple[list[Event], int]:
    """Return the events of a piece of the list, and how many more make no sense.

    Raises
    ------
    ValueError
        The piece is no JSON list of objects.
    RecursionError
        It is nested beyond reason.
    """
    whole = b"[" + text.strip(b" \t\r\n,") + b"]"
    try:
        return _EVENTS.decode(whole), 0
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Kineto has written control characters, NaN and half characters into names; such a piece is read again
        # more patiently, and an event that still makes no sense is left out alone.
        found = json.loads(whole.decode("utf-8", "replace"), strict=False)
    events = [event for event in map(_patient, found) if event]
    return events, len(found) - len(events)


def _one_by_one(buffer: bytes, beside: Beside, *, final: bool) -> tuple[list[Event], bytes]:
    """Return the events of damaged text, each read alone, and what is left: after damage it goes on at the next event.

    `final`: nothing follows, so what makes no sense is not unfinished, but lost.
    """
    buffer = buffer.lstrip(b" \t\r\n,\0")
    if buffer.startswith(b"]"):  # the list has ended: what follows is the rest of the header
        return [], buffer
    text = buffer.decode("utf-8", "replace")
    events: list[Event] = []
    at, end, seen = text.find("{"), 0, 0
    if at < 0 and len(text) > _LONGEST_EVENT:
        beside.lost, end = beside.lost + 1, len(text)
    patience = _TWICE * len(text)
    while at >= 0:
        if at > _LONG_EVENT:  # an error counts the lines before it
            text, at = text[at:], 0
        try:
            found, end = _PATIENT.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            following = _NEXT.search(text, at)
            if not final and len(text) - at < (_LONG_EVENT if following else _LONGEST_EVENT):
                end = at
                break
            reached = max(at + 1, getattr(error, "pos", at))
            seen += reached - at
            if seen > patience:
                following = _NEXT.search(text, reached)
            stop = following.end() - 1 if following else len(text)
            beside.lost += max(1, len(_NEXT.findall(text, at, stop)))
            at, end = (stop, stop) if following else (-1, len(text))
            continue
        event = _patient(found) if "ph" in found else None
        if event:
            events.append(event)
        elif found.keys() & {"ph", "ts", "name"}:
            beside.lost += 1
        at = _onwards(text, end, whole=event is not None)
    return events, text[end:].encode("utf-8", "replace")


def _onwards(text: str, end: int, *, whole: bool) -> int:
    """Return where the event after one that ends there begins; -1 for none. `whole`: that was an event."""
    step = _AFTER.match(text, end)
    if step is None and not (whole and text[end : end + _LONG_EVENT].lstrip().startswith("]")):
        step = _NEXT.search(text, end)  # not between events: inside the arguments of a damaged one
    return step.end() - 1 if step else -1


def _patient(found: object) -> Event | None:
    """Return one event from a decoded object, None when it has no usable time."""
    if not isinstance(found, dict):
        return None
    try:
        return _again(found, Event)  # not converted: what stays undecoded is text
    except (ValueError, OverflowError, RecursionError):  # msgspec's own is a ValueError, and so is half a character
        pass
    try:
        start, length = float(found.get("ts", 0.0)), found.get("dur")
        args = found.get("args")
        return Event(
            ph=str(found.get("ph", "")),
            cat=str(found.get("cat", "")),
            name=str(found.get("name", "")),
            ts=start,
            dur=None if length is None else float(length),
            tid=found.get("tid"),
            args=_again(args, Args) if isinstance(args, dict) else None,
        )
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _again(found: dict[str, Any], kind: type[_Kind]) -> _Kind:
    """Return decoded JSON as a struct."""
    return msgspec.json.decode(msgspec.json.encode(found), type=kind, strict=False)


def _last(path: Path, buffer: bytes, beside: Beside) -> list[Event]:
    """Return the events of the end of a file, with what follows them; of a file that breaks off, the whole ones."""
    rest = buffer.strip(b" \t\r\n,\0")
    try:
        parts = msgspec.json.decode(b'{"traceEvents":[' + rest, type=dict[str, msgspec.Raw])
        events = _EVENTS.decode(parts.pop("traceEvents"))
        beside.header.update({key: json.loads(bytes(value)) for key, value in parts.items()})
    except (ValueError, UnicodeDecodeError, RecursionError):
        pass
    else:
        return events
    for head in ('{"traceEvents":[', "["):
        try:
            found = json.loads(head + rest.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            continue
        listed = found if isinstance(found, list) else found.pop("traceEvents", [])
        beside.header.update(found if isinstance(found, dict) else {})
        events = [event for event in map(_patient, listed) if event]
        beside.lost += len(listed) - len(events)
        return events
    before = beside.lost
    events, left = _one_by_one(rest, beside, final=True)
    tail = left.strip()
    if tail.startswith(b"]"):
        try:
            beside.header.update(json.loads(b'{"traceEvents":[' + tail, strict=False))
        except (ValueError, RecursionError):
            beside.lost += tail.count(b'"ph"')
        return events
    if not (beside.cut or events or beside.lost or tail.strip(b"[]} \t\r\n")):
        raise _no_events(path)
    beside.lost = max(before, beside.lost - 1)  # the one that the cut goes through
    beside.notes.append(f"{path.name} is cut short: it was read up to the cut")
    return events

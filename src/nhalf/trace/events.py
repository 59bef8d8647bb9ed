"""Events of a Chrome trace: decoded block by block, so that a file of any size needs the memory of one block."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from nhalf.errors import InputError
from nhalf.trace.sources import CutShortError, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\}\s*,\s*\{")
_TRIES = 8  # how many "},{" from the end of a block may lie inside an event's arguments before more is read
_LONGEST_HEADER = 64 << 20


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that nhalf reads; every one may be missing, and other types are let through."""

    stream: Any = None
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
    dims: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Input type")
    size: Any = msgspec.field(default=None, name="bytes")


def kept(args: Args | None) -> Args | None:
    """Return arguments that may outlive their block: undecoded parts are views that would hold all of it."""
    if args is not None:
        args.dims, args.types = msgspec.Raw(bytes(args.dims)), msgspec.Raw(bytes(args.types))
    return args


class Event(msgspec.Struct, gc=False):
    """One event: phase, category, name, start and duration [us], process, thread, arguments."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float | None = None
    pid: Any = None
    tid: Any = None
    args: Args | None = None


_EVENTS = msgspec.json.Decoder(list[Event], strict=False)


def read(path: Path, header: dict[str, Any], notes: list[str]) -> Iterator[list[Event]]:
    """Yield the events of a file in lists; `header` receives everything beside them, `notes` what was wrong.

    Raises
    ------
    InputError
        The file is no JSON, or no trace.
    """
    buffer = b""
    started = cut = False
    stream = blocks(path)
    while True:
        try:
            block = next(stream)
        except StopIteration:
            break
        except CutShortError:
            cut = True
            break
        buffer += block
        if not started:
            start = _start(buffer, header)
            if start is None:
                if len(buffer) > _LONGEST_HEADER:
                    raise _no_events(path)
                continue
            buffer, started = buffer[start:], True
        events, buffer = _complete(buffer)
        if events:
            yield events
    if not started:
        start = _start(buffer, header)
        if start is None:
            raise _no_events(path)
        buffer = buffer[start:]
    yield _last(path, buffer, header, notes, cut=cut)


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


def _complete(buffer: bytes) -> tuple[list[Event], bytes]:
    """Return the events that end in the buffer, and what is left; nothing when no cut between events is found."""
    end = len(buffer)
    for _ in range(_TRIES):
        end = buffer.rfind(b"}", 0, end)
        while end > 0 and not _BETWEEN.match(buffer, end):
            end = buffer.rfind(b"}", 0, end)
        if end <= 0:
            break
        try:
            return decoded(buffer[: end + 1]), buffer[buffer.index(b"{", end) :]
        except ValueError:
            continue
    return [], buffer


def decoded(text: bytes) -> list[Event]:
    """Return the events of a piece of the list.

    Raises
    ------
    ValueError
        The piece is no JSON list of objects.
    """
    whole = b"[" + text.strip(b" \t\r\n,") + b"]"
    try:
        return _EVENTS.decode(whole)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Kineto has written control characters, NaN and half characters into names; such a piece is read again
        # more patiently, and an event that still makes no sense is left out alone.
        found = json.loads(whole.decode("utf-8", "replace"), strict=False)
    return [event for event in map(_patient, found) if event]


def _patient(found: object) -> Event | None:
    """Return one event from a decoded object, None when it has no usable time."""
    if not isinstance(found, dict):
        return None
    try:
        return msgspec.convert(found, Event, strict=False)
    except msgspec.ValidationError:
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
            pid=found.get("pid"),
            tid=found.get("tid"),
            args=msgspec.convert(args, Args, strict=False) if isinstance(args, dict) else None,
        )
    except (TypeError, ValueError, msgspec.ValidationError):
        return None


def _last(path: Path, buffer: bytes, header: dict[str, Any], notes: list[str], *, cut: bool) -> list[Event]:
    """Return the events of the end of a file, with what follows them; of a file that breaks off, the whole ones."""
    rest = buffer.strip(b" \t\r\n,\0")
    try:
        parts = msgspec.json.decode(b'{"traceEvents":[' + rest, type=dict[str, msgspec.Raw])
        events = _EVENTS.decode(parts.pop("traceEvents"))
        header.update({key: json.loads(bytes(value)) for key, value in parts.items()})
    except (ValueError, UnicodeDecodeError):
        events = []
    else:
        return events
    for head in ('{"traceEvents":[', "["):
        try:
            found = json.loads(head + rest.decode("utf-8", "replace"), strict=False)
        except ValueError:
            continue
        listed = found if isinstance(found, list) else found.pop("traceEvents", [])
        header.update(found if isinstance(found, dict) else {})
        return [event for event in map(_patient, listed) if event]
    events, left = _complete(buffer)
    if not events:
        events = _whole(rest)
    if not (cut or events or left.strip(b"[]} \t\r\n")):
        raise _no_events(path)
    notes.append(f"{path.name} is cut short: it was read up to the cut")
    return events


def _whole(rest: bytes) -> list[Event]:
    """Return the one event that a broken end may still hold."""
    end = rest.rfind(b"}")
    while end > 0:
        try:
            return decoded(rest[: end + 1])
        except ValueError:
            end = rest.rfind(b"}", 0, end)
    return []

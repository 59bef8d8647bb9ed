"""Parquet files joined without reading their data: the bytes of each follow the last, and one footer names them all.

The format is that of https://github.com/apache/parquet-format: data, then `FileMetaData` in Thrift's compact protocol,
its length, and a mark. A part's places in the file move by as much as its data does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK: Final = b"PAR1"
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_WHOLE: Final = (4, 5, 6)
"""Types of whole numbers: 16, 32 and 64 bits."""
_ROWS, _GROUPS = 3, 4  # fields of FileMetaData
_COLUMNS, _GROUP_AT, _ORDINAL = 1, 5, 7  # fields of RowGroup
_ABOUT: Final = 3  # field of ColumnChunk, which has places of its own beside it
_CHUNK_PLACES, _COLUMN_PLACES = (2, 4, 6), (9, 10, 11, 14)
_SHORT_LIST: Final = 15
Fields: TypeAlias = "dict[int, tuple[int, Any]]"
"""A Thrift struct: type and value by the number of the field."""


@dataclass(slots=True, eq=False)
class Joined:
    """Parts on their way into one file; `write` takes its bytes."""

    write: Callable[[bytes | memoryview], object]
    _at: int = 0
    _rows: int = 0
    _groups: list[Fields] = field(default_factory=list)
    _about: Fields = field(default_factory=dict)

    def append(self, part: bytes | memoryview) -> None:
        """Add the rows of a whole Parquet file, whose columns are those of the others."""
        footer = len(part) - len(_MARK) - 4 - struct.unpack_from("<I", part, len(part) - 8)[0]
        about, _ = _read(part, footer, _STRUCT)
        if not self._about:
            self._about = about
            self._put(_MARK)
        elif self._about[2] != about[2]:
            raise ValueError("parts of a Parquet file have different columns")
        moved = self._at - len(_MARK)
        self._rows += about[_ROWS][1]
        self._groups += [_moved(group, moved) for group in about[_GROUPS][1][1]]
        self._put(part[len(_MARK) : footer])

    def footer(self) -> bytes:
        """Return what stands behind the last part."""
        self._about |= {_ROWS: (6, self._rows), _GROUPS: (_LIST, (_STRUCT, self._groups))}
        footer = _written(_STRUCT, self._about)
        return footer + struct.pack("<I", len(footer)) + _MARK

    def _put(self, text: bytes | memoryview) -> None:
        self.write(text)
        self._at += len(text)


def _moved(group: Fields, by: int) -> Fields:
    """Return a row group whose data stands so many bytes further; its number in its own file is left out."""
    for chunk in group[_COLUMNS][1][1]:
        _move(chunk, _CHUNK_PLACES, by)
        _move(chunk[_ABOUT][1], _COLUMN_PLACES, by)
    _move(group, (_GROUP_AT,), by)
    group.pop(_ORDINAL, None)
    return group


def _move(fields: Fields, places: tuple[int, ...], by: int) -> None:
    for place in places:
        kind, at = fields.get(place, (0, 0))
        if at:
            fields[place] = (kind, at + by)


def _read(data: bytes | memoryview, at: int, kind: int) -> tuple[Any, int]:
    """Return the value of a type that stands there, and where the next begins."""
    if kind in _WHOLE:
        number, at = _varint(data, at)
        return number >> 1 ^ -(number & 1), at
    if kind in (_LIST, _SET):
        return _read_list(data, at)
    if kind == _STRUCT:
        return _read_struct(data, at)
    length = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}.get(kind)
    if length is None:  # a text: no other type occurs in the format
        length, at = _varint(data, at)
    return bytes(data[at : at + length]), at + length


def _read_list(data: bytes | memoryview, at: int) -> tuple[Any, int]:
    count, kind = data[at] >> 4, data[at] & 15
    count, at = _varint(data, at + 1) if count == _SHORT_LIST else (count, at + 1)
    values = []
    for _ in range(count):
        value, at = _read(data, at, _BYTE if kind in (_TRUE, _FALSE) else kind)
        values.append(value)
    return (kind, values), at


def _read_struct(data: bytes | memoryview, at: int) -> tuple[Fields, int]:
    fields: Fields = {}
    number = 0
    while head := data[at]:
        number, at = number + (head >> 4), at + 1
        if not head >> 4:
            number, at = _read(data, at, _WHOLE[0])
        value, at = _read(data, at, head & 15)
        fields[number] = (head & 15, value)
    return fields, at + 1


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:  # noqa: PLR2004  the last byte has no top bit
            return number, at


def _written(kind: int, value: Any) -> bytes:  # noqa: ANN401  of that type
    """Return a value in the compact protocol."""
    if kind in _WHOLE:
        return _digits(value << 1 if value >= 0 else -value * 2 - 1)
    if kind == _BINARY:
        return _digits(len(value)) + bytes(value)
    if kind in (_LIST, _SET):
        inner, values = value
        head = bytes([min(len(values), _SHORT_LIST) << 4 | inner])
        head += _digits(len(values)) if len(values) >= _SHORT_LIST else b""
        return head + b"".join(_written(inner, each) for each in values)
    if kind != _STRUCT:
        return bytes(value)
    parts, last = [], 0
    for number, (inner, each) in sorted(value.items()):
        step = number - last
        parts.append(bytes([step << 4 | inner]) if step < 16 else bytes([inner]) + _digits(number << 1))  # noqa: PLR2004
        parts.append(_written(inner, each))
        last = number
    return b"".join(parts) + b"\0"


def _digits(number: int) -> bytes:
    found = bytearray()
    while number > 127:  # noqa: PLR2004  seven bits a byte
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)

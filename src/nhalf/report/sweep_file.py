"""Files of sweeps: columns appended task by task to CSV, JSON or Parquet, whole only once the sweep is.

A file grows under its name with `.part` at the end, and takes its own name when it is complete.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from nhalf.breakdown import Array

SUFFIXES: Final = (".csv", ".json", ".parquet")
_PART_ROWS: Final = 1_000_000
"""Rows of one part of a Parquet file while it grows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coded:
    """A column of few different words: the words, and the index of one for each row; `whole` where they are numbers."""

    words: tuple[str | int | None, ...]
    codes: NDArray[np.int64]
    whole: bool = False

    def tolist(self) -> list[str | int | None]:
        """Return the words, row by row."""
        return [self.words[code] for code in self.codes.tolist()]


class Writer(Protocol):
    """What a sweep is written to."""

    def write(self, columns: Mapping[str, Array | Coded]) -> None:
        """Append rows."""

    def close(self) -> None:
        """Make the file whole."""

    def abandon(self) -> None:
        """Stop before it is whole."""


def writer(path: Path) -> Writer:
    """Return the writer of a file, by its ending.

    Raises
    ------
    InputError
        The ending is not known, the folder is not there, or Parquet is asked for without polars.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path.name!r} ends with no known format", where="-o", allowed=", ".join(SUFFIXES))
    try:
        if suffix == ".parquet":
            return _Parquet(path)
        return (_Csv if suffix == ".csv" else _Json)(path)
    except OSError as error:
        what = f"the file cannot be written: {error.strerror or error}"
        raise InputError(what, where=str(path), do="check the folder") from error


def _polars() -> Any | None:  # noqa: ANN401  a module
    """Return polars, or None where it is not installed."""
    try:
        import polars as pl
    except ImportError:
        return None
    return pl


def _frame(polars: Any, columns: Mapping[str, Array | Coded]) -> Any:  # noqa: ANN401  polars is optional
    """Return columns as a data frame; not a number is null, because it stands for: unknown."""
    series = {}
    for name, column in columns.items():
        if isinstance(column, Coded):
            whole = column.whole or isinstance(column.words[0], int)
            dtype = polars.Int64 if whole else polars.String
            series[name] = polars.Series(name, list(column.words), dtype=dtype).gather(column.codes)
        else:
            series[name] = polars.Series(name, column, nan_to_null=True)
    return polars.DataFrame(series)


class _Text:
    """A text file that grows under another name; "-" is the standard output."""

    def __init__(self, path: Path) -> None:
        """Open the file for writing."""
        self.path = path
        self.part = path.with_name(f"{path.name}.part")
        self.file: IO[bytes] = self.part.open("wb")
        self.rows = 0

    def close(self) -> None:
        """Close the file, and give it its name."""
        self.file.close()
        self.part.replace(self.path)

    def abandon(self) -> None:
        """Close what there is, under the name of a part."""
        self.file.close()


class _Csv(_Text):
    """CSV with a header; unknown is empty. By polars where it is installed, because that is ten times as fast."""

    def write(self, columns: Mapping[str, Array | Coded]) -> None:
        """Append rows."""
        polars = _polars()
        if polars is not None:
            _frame(polars, columns).write_csv(self.file, include_header=not self.rows)
        else:
            head = f"{','.join(columns)}\n" if not self.rows else ""
            self.file.write((head + plain_csv(columns)).encode())
        self.rows += 1


def plain_csv(columns: Mapping[str, Array | Coded]) -> str:
    """Return rows of CSV without a header."""
    cells = [_cells(column) for column in columns.values()]
    return "".join(f"{','.join(row)}\n" for row in zip(*cells, strict=True))


def _cells(column: Array | Coded) -> list[str]:
    """Return the cells of a column: shortest digits that read back as the same number."""
    if isinstance(column, Coded):
        words = [_quoted(word) for word in column.words]
        return [words[code] for code in column.codes.tolist()]
    return ["" if value != value else repr(value) for value in column.tolist()]  # noqa: PLR0124  not a number


def _quoted(word: str | int | None) -> str:
    """Return a word as a cell of CSV."""
    text = "" if word is None else str(word)
    if not any(mark in text for mark in ',"\n'):
        return text
    escaped = text.replace('"', '""')
    return f'"{escaped}"'


class _Json(_Text):
    """A JSON array of objects, one a line; unknown is null."""

    def write(self, columns: Mapping[str, Array | Coded]) -> None:
        """Append rows."""
        lists = [column.tolist() for column in columns.values()]
        lines = []
        for row in zip(*lists, strict=True):
            values = (None if isinstance(value, float) and value != value else value for value in row)  # noqa: PLR0124
            lines.append(json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False))
        self.file.write((("[\n" if not self.rows else ",\n") + ",\n".join(lines)).encode())
        self.rows += 1

    def close(self) -> None:
        """Close the array and the file."""
        self.file.write(b"\n]\n" if self.rows else b"[]\n")
        super().close()


class _Parquet:
    """Parquet: parts of a million rows, joined at the end without holding them all."""

    def __init__(self, path: Path) -> None:
        """Make a folder for the parts, beside the file."""
        polars = _polars()
        if polars is None:
            raise InputError("Parquet needs polars, which is not installed", where="-o",
                             do="pip install 'nhalf[frames]', or write .csv")  # fmt: skip
        self.polars = polars
        self.path = path
        self.folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
        self.frames: list[Any] = []
        self.parts: list[Path] = []

    def write(self, columns: Mapping[str, Array | Coded]) -> None:
        """Append rows."""
        self.frames.append(_frame(self.polars, columns))
        if sum(len(frame) for frame in self.frames) >= _PART_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Write what is held as one more part."""
        if self.frames:
            part = self.folder / f"{len(self.parts):06d}.parquet"
            self.polars.concat(self.frames).write_parquet(part, compression="zstd", compression_level=1)
            self.parts.append(part)
            self.frames = []

    def close(self) -> None:
        """Join the parts in order."""
        self._flush()
        if len(self.parts) == 1:
            self.parts[0].replace(self.path)
        else:
            self.polars.scan_parquet(self.parts, glob=False).sink_parquet(self.path, compression_level=1)
        self.abandon()

    def abandon(self) -> None:
        """Remove the parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

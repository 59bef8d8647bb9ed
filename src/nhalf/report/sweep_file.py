"""Files of sweeps: rows made into CSV, JSON or Parquet by whoever evaluates them, joined to a file in their order."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import numpy as np

from nhalf.errors import InputError
from nhalf.files.writing import Draft
from nhalf.report.parquet_parts import Joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nhalf.breakdown import Array


_PIECE: Final = 4096
"""Rows of text that are made at once: their cells lie in a core's second cache."""
_HEADER: Final = 1 << 20
"""Bytes of the longest header, and more."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coded:
    """A column of few different words: the words, and the index of one for each row; `whole` where they are numbers."""

    words: tuple[str | int | None, ...]
    codes: NDArray[np.int64]
    whole: bool = False

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self.codes)

    def __getitem__(self, rows: slice) -> Coded:
        """Return some of its rows."""
        return Coded(words=self.words, codes=self.codes[rows], whole=self.whole)

    def tolist(self) -> list[str | int | None]:
        """Return the words, row by row."""
        if len(self.words) == 1:  # nearly always
            return [*self.words] * len(self.codes)
        return [self.words[code] for code in self.codes.tolist()]


Columns: TypeAlias = "Mapping[str, Array | Coded]"


def frame(columns: Columns) -> Any:  # noqa: ANN401  a polars.DataFrame, an optional dependency
    """Return columns as a polars frame.

    Raises
    ------
    InputError
        Polars is not installed.
    """
    return _frame(polars(), columns)


def polars() -> Any:  # noqa: ANN401  a module
    """Return polars.

    Raises
    ------
    InputError
        It is not installed.
    """
    found = _polars()
    if found is None:
        raise InputError("polars is not installed", where="frame()", do="in the checkout: pip install '.[frames]'")
    return found


def encoded(columns: Columns, suffix: str) -> list[bytes]:
    """Return rows in pieces, as the file with an ending takes them, or, without one, the standard output."""
    encode = {".csv": csv_text, ".json": json_lines, ".parquet": parquet, "": plain_csv}[suffix]
    step = rows_of(columns) if encode is parquet else _PIECE
    starts = range(0, rows_of(columns), step)
    return [encode({name: column[at : at + step] for name, column in columns.items()}) for at in starts]


def _polars() -> Any | None:  # noqa: ANN401  a module
    try:
        import polars as pl
    except ImportError:
        return None
    return pl


def _frame(polars: Any, columns: Columns) -> Any:  # noqa: ANN401  polars is optional
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


def csv_text(columns: Columns) -> bytes:
    """Return rows of CSV after a header; unknown is empty. By polars where there is one: that is ten times as fast."""
    polars = _polars()
    return plain_csv(columns) if polars is None else _frame(polars, columns).write_csv().encode()


def plain_csv(columns: Columns) -> bytes:
    """Return rows of CSV after a header, made without polars: shortest digits that read back as the same number."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(zip(*([None if v != v else v for v in each.tolist()] for each in columns.values()), strict=True))  # noqa: PLR0124  not a number
    return text.getvalue().encode()


def json_lines(columns: Columns) -> bytes:
    """Return rows as JSON objects, one a line with a comma between; unknown is null."""
    row = _row(tuple(columns))
    lines = msgspec.json.Encoder().encode_lines([*map(row, *(column.tolist() for column in columns.values()))])
    return lines[:-1].replace(b"\n", b",\n")


@cache
def _row(names: tuple[str, ...]) -> type[msgspec.Struct]:
    """Return what holds the values of a row until it is written under these names."""
    places = [f"column_{place}" for place in range(len(names))]
    renamed = dict(zip(places, names, strict=True))
    return msgspec.defstruct("Row", [(place, Any) for place in places], rename=renamed, gc=False)


def parquet(columns: Columns) -> bytes:
    """Return rows as a Parquet file."""
    file = io.BytesIO()
    _frame(_polars(), columns).write_parquet(file, compression="zstd", compression_level=1)
    return file.getvalue()


class Table:
    """A file of rows that grows by portions, each made by the encoder of its kind; CSV, unless it is another."""

    def __init__(self, path: Path) -> None:
        """Open the file under another name."""
        self.draft = Draft(path)
        self.before = 0

    def append(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Add rows. Raises InputError when they cannot be written."""
        try:
            for text in pieces:
                self.put(text)
        except OSError as error:
            raise self.draft.failed(error) from error
        self.draft.mark()

    def put(self, text: bytes | memoryview) -> None:
        """Write rows behind those that are there: the header only once."""
        self.draft.file.write(text[self.before :])
        self.before = self.before or bytes(text[:_HEADER]).index(b"\n") + 1

    def close(self) -> None:
        """Give the file its name."""
        self.draft.keep()

    def abandon(self) -> str:
        """Stop before it is whole; return the name of the file that holds the rows until then, if any."""
        return self.draft.set_aside()


class _Json(Table):
    """A JSON array of objects."""

    def put(self, text: bytes | memoryview) -> None:
        """Write rows behind those that are there."""
        self.draft.file.write(b",\n" if self.before else b"[\n")
        self.draft.file.write(text)
        self.before = 1

    def close(self) -> None:
        """End the array."""
        self.draft.keep(b"\n]\n" if self.before else b"[]\n")


class _Parquet(Table):
    """Parquet, joined of files."""

    def __init__(self, path: Path) -> None:
        """Open the file under another name."""
        if find_spec("polars") is None:
            raise InputError("Parquet needs polars, which is not installed", where="-o",
                             do="in the checkout: pip install '.[frames]', or write .csv")  # fmt: skip
        super().__init__(path)
        self.joined = Joined(self.draft.file.write)

    def put(self, text: bytes | memoryview) -> None:
        """Write rows behind those that are there."""
        self.joined.append(text)

    def close(self) -> None:
        """End the file."""
        self.draft.keep(self.joined.footer())

    def abandon(self) -> str:
        """Remove what there is: Parquet without its end cannot be read."""
        self.draft.drop()
        return ""


def table(path: Path) -> Table:
    """Return the file of a table, by its ending.

    Raises
    ------
    InputError
        The ending is not known, the folder is not there, or Parquet is asked for without polars.
    """
    kinds = {".csv": Table, ".json": _Json, ".parquet": _Parquet}
    if path.suffix.lower() not in kinds:
        raise InputError(f"{path.name!r} ends with no known format", where="-o", allowed=", ".join(kinds))
    return kinds[path.suffix.lower()](path)


def rows_of(columns: Columns) -> int:
    """Return how many rows columns have."""
    return len(next(iter(columns.values())))


def stacked(pieces: Sequence[Columns]) -> Columns:
    """Return the rows of several pieces with the same columns, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: _column([piece[name] for piece in pieces]) for name in pieces[0]}


def _column(parts: Sequence[Array | Coded]) -> Array | Coded:
    """Return one column of several pieces; words that occur in several are kept once."""
    if not any(isinstance(part, Coded) for part in parts):
        return np.concatenate(parts)  # type: ignore[arg-type]
    words: dict[str | int | None, int] = {}
    codes, whole = [], False
    for part in parts:
        if not isinstance(part, Coded):
            raise TypeError("a column is of words in all pieces or in none")
        places = np.array([words.setdefault(word, len(words)) for word in part.words], dtype=np.int64)
        codes.append(places[part.codes])
        whole = whole or part.whole or isinstance(part.words[0], int)
    return Coded(words=tuple(words), codes=np.concatenate(codes), whole=whole)

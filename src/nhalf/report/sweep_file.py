"""Files of sweeps: columns appended task by task to CSV, JSON or Parquet, whole only once the sweep is."""

from __future__ import annotations

import contextlib
import queue
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np

from nhalf.errors import InputError
from nhalf.files.writing import Draft

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nhalf.breakdown import Array


SUFFIXES: Final = (".csv", ".json", ".parquet")
_AHEAD: Final = 2
"""Tasks whose rows wait to be encoded, at most."""
_PIECE: Final = 4096
"""Rows of text that are made at once: their cells lie in a core's second cache."""
_LOOK_S: Final = 0.2
"""How often a full queue is looked at for a thread that has ended [s]."""


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
        return [self.words[code] for code in self.codes.tolist()]


class Writer(Protocol):
    """What a sweep is written to."""

    def write(self, columns: Columns) -> None:
        """Append rows."""

    def close(self) -> None:
        """Make the file whole."""

    def abandon(self) -> str:
        """Stop before it is whole; return the name of the file that holds the rows until then, if any."""


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
    if suffix == ".parquet":
        return _Parquet(path)
    return (_Csv if suffix == ".csv" else _Json)(path)


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


class _Text:
    """A text file that grows, piece by piece: the text of a task is never held as a whole."""

    def __init__(self, path: Path) -> None:
        """Open the file for writing."""
        self.draft = Draft(path)
        self.rows = 0

    def write(self, columns: Columns) -> None:
        """Append rows. Raises InputError when they cannot be written."""
        count = rows_of(columns)
        for start in range(0, count, _PIECE):
            text = self.text({name: column[start : start + _PIECE] for name, column in columns.items()})
            try:
                self.draft.file.write(text)
            except OSError as error:
                raise self.draft.failed(error) from error
            self.rows += min(_PIECE, count - start)
            self.draft.mark()

    def text(self, columns: Columns) -> bytes:
        """Return rows as they stand in the file, with what stands before the first."""
        raise NotImplementedError

    def ending(self) -> bytes:
        """Return what stands behind the last row."""
        return b""

    def close(self) -> None:
        """Give the file its name."""
        self.draft.keep(self.ending())

    def abandon(self) -> str:
        """Keep the rows there are under the name of a part; nothing is left of no rows."""
        return self.draft.set_aside()


class _Csv(_Text):
    """CSV with a header; unknown is empty. By polars where it is installed, because that is ten times as fast."""

    def text(self, columns: Columns) -> bytes:
        """Return rows of CSV, the first after the header."""
        polars = _polars()
        if polars is not None:
            return _frame(polars, columns).write_csv(include_header=not self.rows).encode()  # type: ignore[no-any-return]
        return ((f"{','.join(columns)}\n" if not self.rows else "") + plain_csv(columns)).encode()


def plain_csv(columns: Columns) -> str:
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

    def text(self, columns: Columns) -> bytes:
        """Return rows as objects, the first after the bracket."""
        places = [f"column_{place}" for place in range(len(columns))]
        row = msgspec.defstruct("Row", [(place, Any) for place in places],
                                rename=dict(zip(places, columns, strict=True)), gc=False)  # fmt: skip
        lines = msgspec.json.Encoder().encode_lines([*map(row, *(column.tolist() for column in columns.values()))])
        return (b",\n" if self.rows else b"[\n") + lines[:-1].replace(b"\n", b",\n")

    def ending(self) -> bytes:
        """Return the end of the array."""
        return b"\n]\n" if self.rows else b"[]\n"


class _Parquet:
    """Parquet, encoded by polars in a thread of its own while the next rows are predicted; few rows are ever held."""

    def __init__(self, path: Path) -> None:
        """Open the file under another name."""
        polars = _polars()
        if polars is None:
            raise InputError("Parquet needs polars, which is not installed", where="-o",
                             do="in the checkout: pip install '.[frames]', or write .csv")  # fmt: skip
        self.polars = polars
        self.draft = Draft(path)
        self.frames: queue.Queue[Any | None] = queue.Queue(maxsize=_AHEAD)
        self.thread: threading.Thread | None = None
        self.failure: Exception | None = None

    def write(self, columns: Columns) -> None:
        """Append rows."""
        frame = _frame(self.polars, columns)
        if self.thread is None:
            self.thread = threading.Thread(target=self._encode, args=(frame.schema,), daemon=True)
            self.thread.start()
        self._put(frame)

    def _put(self, frame: Any | None) -> None:  # noqa: ANN401  polars is optional
        """Hand rows (None: there are no more) to the thread, unless it has ended."""
        while self.thread is not None and self.thread.is_alive():
            try:
                self.frames.put(frame, timeout=_LOOK_S)
            except queue.Full:
                continue
            return
        self._raise()

    def _encode(self, schema: Any) -> None:  # noqa: ANN401  polars is optional
        """Write what is handed over, in order, until there is no more."""
        from polars.io.plugins import register_io_source

        def handed(*_: object) -> Iterator[Any]:
            while (frame := self.frames.get()) is not None:
                yield frame

        source: Any = register_io_source(handed, schema=schema)
        try:
            source.sink_parquet(self.draft.path, compression="zstd", compression_level=1)
        except Exception as error:  # noqa: BLE001  whatever it is belongs to the thread that writes rows
            self.failure = error

    def _raise(self) -> None:
        """Raise what ended the thread."""
        if self.failure is not None:
            raise self.draft.failed(self.failure) from self.failure

    def close(self) -> None:
        """Wait until all rows are written, and give the file its name."""
        try:
            self._put(None)
            if self.thread is not None:
                self.thread.join()
            self._raise()
        except BaseException:
            self.abandon()
            raise
        self.draft.keep()

    def abandon(self) -> str:
        """Stop, and remove what there is: half a Parquet file cannot be read."""
        if self.thread is not None and self.thread.is_alive():
            with contextlib.suppress(InputError):
                self._put(None)
            self.thread.join()
        self.draft.drop()
        return ""


ENOUGH: Final = 8192
"""Rows that are written at once, at least, until the last."""


Columns: TypeAlias = "Mapping[str, Array | Coded]"


class Rows:
    """A writer that passes on what it is given in pieces of at least `ENOUGH` rows."""

    def __init__(self, writer: Writer) -> None:
        """Gather rows for a writer."""
        self.writer = writer
        self.waiting: list[Columns] = []
        self.count = 0

    def write(self, columns: Columns) -> None:
        """Take rows, and write when there are enough."""
        self.waiting.append(columns)
        self.count += rows_of(columns)
        if self.count >= ENOUGH:
            self._flush()

    def close(self) -> None:
        """Write what waits, and make the file whole."""
        self._flush()
        self.writer.close()

    def abandon(self) -> str:
        """Write what waits, and stop; return the name of the file that holds the rows, if any."""
        self._flush()
        return self.writer.abandon()

    def _flush(self) -> None:
        if self.waiting:
            self.writer.write(joined(self.waiting))
        self.waiting, self.count = [], 0


def rows_of(columns: Columns) -> int:
    """Return how many rows columns have."""
    return len(next(iter(columns.values())))


def joined(pieces: Sequence[Columns]) -> Columns:
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

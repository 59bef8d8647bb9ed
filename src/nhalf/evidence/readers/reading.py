"""Read logs: files, folders, gzip or standard input in, tables out, and nothing lost on the way without a word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.evidence.readers import formats, parquet
from nhalf.evidence.readers.detection import cleaned, detect, named, sections
from nhalf.evidence.readers.source import Source, sources
from nhalf.evidence.table import Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Reader


_LARGEST_BYTES: Final = 1e15
_SHORTEST_S: Final = 1e-12
_LONGEST_S: Final = 1e8


def read(source: str | Path | Iterable[str | Path], format: str | None = None) -> list[Table]:  # noqa: A002 - the flag's name
    """Return the tables of logs.

    `source` is a file, a folder, `-` for standard input, or several of them; `format` names a reader where the content
    does not tell. A file of a folder that no reader knows becomes a table without rows that says so in `skipped`.

    Raises InputError when a file cannot be read, or a file that was named is in no known format.
    """
    tables, refused = read_each(source, format)
    if refused:
        raise refused[0]
    return tables


def read_each(
    source: str | Path | Iterable[str | Path],
    format: str | None = None,  # noqa: A002 - the flag's name
) -> tuple[list[Table], list[InputError]]:
    """Return the tables of logs, and an error for each file that cannot be read.

    The tables hold one without rows for each such file, which says why in `skipped`.

    Raises InputError when there is no format of that name, or nothing is given.
    """
    chosen = named(format) if format else None
    tables: list[Table] = []
    refused: list[InputError] = []
    several = [source] if isinstance(source, str | Path) else list(source)
    if not several:
        raise InputError("no log is given", allowed="files, folders, or - for standard input")
    for given in several:
        try:
            files = sources(given)
        except InputError as error:
            tables.append(_without_rows(str(given), error))
            refused.append(error)
            continue
        for one, in_folder in files:
            try:
                tables.extend(_read_one(one, chosen, in_folder=in_folder))
            except InputError as error:
                tables.append(_without_rows(one.name, error))
                refused.append(error)
    return tables, refused


def read_source(source: Source, *, in_folder: bool = False) -> list[Table]:
    """Return the tables of one file, by its content.

    Raises InputError when it cannot be read, or was named and is in no known format.
    """
    return _read_one(source, None, in_folder=in_folder)


def _without_rows(name: str, error: InputError) -> Table:
    """Return the table of a file that cannot be read, with the line where that shows, as far as the error has one."""
    line = error.where.removeprefix(f"{name}:")
    skipped = Skipped(file=name, line=int(line) if line.isdecimal() else 0, why=error.what)
    return Table(file=name, tool="", skipped=(skipped,))


def _read_one(source: Source, chosen: Reader | None, *, in_folder: bool) -> list[Table]:
    if source.is_parquet():
        return parquet.read(source.binary(), source.name)
    reader = chosen or detect(source)
    if reader is None:
        if in_folder:
            why = "no reader knows this file"
            return [Table(file=source.name, tool="", skipped=(Skipped(file=source.name, line=0, why=why),))]
        if next(cleaned(source), None) is None:
            raise InputError("the file is empty", where=source.name, do="check how it was written")
        raise InputError(
            "this is not a benchmark log that nhalf knows",
            where=source.name,
            allowed=", ".join(sorted(each.name for each in formats.ALL)),
            do="name the format with --format, or make a CSV with the columns op, ranks, size_bytes, time_us",
        )
    lines = cleaned(source)
    parts = [(reader, lines)] if chosen else sections(lines, reader)
    try:
        tables = [_possible(table) for each, part in parts for table in each.read(part, source.name)]
    except OverflowError as error:  # of two numbers that each could be measured, the product could not
        raise InputError("its numbers are too large to be measured", where=source.name, do="check the file") from error
    if not tables:
        why = f"this looks like {reader.name}, but it holds no row that can be read"
        return [Table(file=source.name, tool=reader.name, skipped=(Skipped(file=source.name, line=0, why=why),))]
    return _told_apart(tables)


def _possible(table: Table) -> Table:
    """Return a table without the points whose size or time no message has: a digit too many, an exponent too large."""
    odd = [
        point for point in table.points
        if not (point.size_bytes <= _LARGEST_BYTES and _SHORTEST_S <= point.seconds <= _LONGEST_S)
    ]  # fmt: skip
    if not odd:
        return table
    why = f"no message is of {_LARGEST_BYTES:g} bytes, and none takes under {_SHORTEST_S:g} s or over {_LONGEST_S:g} s"
    skipped = tuple(Skipped(file=table.file, line=point.line, why=why) for point in odd)
    kept = tuple(point for point in table.points if point not in odd)
    return replace(table, points=kept, skipped=(*table.skipped, *skipped))


def _told_apart(tables: list[Table]) -> list[Table]:
    """Return the tables with labels: those that differ in nothing but the run become `run 1`, `run 2`."""
    alike: dict[object, list[int]] = {}
    for index, table in enumerate(tables):
        if table.rows:
            key = (table.tool, table.op, table.test, table.ranks, table.nodes, table.quantity, table.dtype, table.label)
            alike.setdefault(key, []).append(index)
    for indexes in alike.values():
        if len(indexes) > 1:
            for run, index in enumerate(indexes, start=1):
                label = f"{tables[index].label}, run {run}".removeprefix(", ")
                tables[index] = replace(tables[index], label=label)
    return tables

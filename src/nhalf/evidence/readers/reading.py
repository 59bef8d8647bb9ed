"""Read logs: files, folders, gzip or standard input in, tables out, and nothing lost on the way without a word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.evidence.readers import formats, parquet
from nhalf.evidence.readers.consistency import checked
from nhalf.evidence.readers.detection import cleaned, detect, named, rewritings, sections
from nhalf.evidence.readers.source import Source, sources
from nhalf.evidence.table import Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nhalf.evidence.readers.protocol import Reader


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
        return [checked(table) for table in parquet.read(source.binary(), source.name)]
    tables, rows, error = _tables(source, chosen)
    if _is_poor(tables):
        for other in rewritings(source):
            again, more, _ = _tables(other, chosen)
            if more > rows:
                tables, rows = again, more
    if error and not rows:
        raise error
    if tables:
        return _told_apart(tables)
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


def _is_poor(tables: Sequence[Table]) -> bool:
    """Return whether so little of a file was read that it may have been rewritten: it is cut, or half of its rows."""
    skipped = [skip for table in tables for skip in table.skipped]
    return any(skip.line == 0 for skip in skipped) or 2 * len(skipped) >= sum(table.rows for table in tables)


def _tables(source: Source, chosen: Reader | None) -> tuple[list[Table], int, InputError | None]:
    """Return what the surest reader that finds a row reads in a file, how many rows, and why the surest finds none.

    Where none finds a row, the tables are those of the surest: what it skips.
    """
    tried: list[Reader] = []
    first: list[Table] = []
    problem: InputError | None = None
    while reader := chosen or detect(source, without=tried):
        lines = cleaned(source)
        parts = [(reader, lines)] if chosen else sections(lines, reader)
        tables: list[Table] = []
        try:
            tables = [checked(table) for each, part in parts for table in each.read(part, source.name)]
        except OverflowError:  # of two numbers that each could be measured, the product could not
            why = "its numbers are too large to be measured"
            problem = problem or InputError(why, where=source.name, do="check the file")
        except InputError as error:
            problem = problem or error
        rows = sum(table.rows for table in tables)
        if rows:
            return tables, rows, None
        if not tables:
            why = f"this looks like {reader.name}, but it holds no row that can be read"
            tables = [Table(file=source.name, tool=reader.name, skipped=(Skipped(file=source.name, line=0, why=why),))]
        first = first or tables
        tried.append(reader)
        if chosen:
            break
    return first, 0, problem


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

"""Where the rows of a sweep go, and whether there is room for them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from nhalf import units
from nhalf.cli import output, output_formats, page_file
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ROW_BYTES = {False: 200, True: 50}  # of a row of text and of Parquet, at least


def files_of(files: tuple[str, ...]) -> tuple[list[str], str]:
    """Return the pages that are asked for, and the file of the table, empty where none is.

    With --csv and no file the table goes to the output, as with `-o -`.

    Raises
    ------
    InputError
        There is more than one table.
    """
    pages = [file for file in files if page_file.is_page(file)]
    tables = [file for file in files if file not in pages]
    if len(tables) > 1:
        raise InputError("a sweep is written to one table", where="-o", allowed="one table, and pages beside it")
    page_file.check(pages)
    alone = "-" if not files and output_formats.asked() == "csv" else ""
    return pages, tables[0] if tables else alone


def check_room(path: Path, points: int) -> None:
    """Refuse a table that the disk cannot hold.

    Raises
    ------
    InputError
        Its rows take more than is free.
    """
    folder = path.parent
    if not folder.is_dir():
        return  # the writer says so
    needed, free = points * _ROW_BYTES[path.suffix.lower() == ".parquet"], shutil.disk_usage(folder).free
    if needed > free:
        least, left = (units.format_size(float(each), binary=False) for each in (needed, free))
        raise InputError(
            f"{points:.3g} rows take about {least}, and {left} are free",
            where=str(path), do="shorten an axis, or write .parquet",
        )  # fmt: skip


class Standard:
    """CSV on the standard output; nothing of what is empty, where only a page or the whole was asked for."""

    def __init__(self) -> None:
        self.header = 0

    def append(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Write rows, after the header the first time."""
        for text in pieces:
            output.write(bytes(text[self.header :]).decode())
            self.header = self.header or bytes(text).index(b"\n") + 1

    def close(self) -> None:
        """Leave the standard output open."""

    def abandon(self) -> str:
        """Leave what was written."""
        return ""

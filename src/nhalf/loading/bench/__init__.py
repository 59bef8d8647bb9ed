"""Benchmarks of serving engines: their result files as rows of a case table.

Read are the result block, JSON and JSON lines of `vllm bench serve` and `sglang.bench_serving`, and the JSON and CSV
exports of genai-perf and aiperf. They know the load and the times; system, layout and dtypes come from flags, or from
the end of a file's name on the command line: `run.json@tp=8,kv_dtype=fp8`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.files.reading import read_text
from nhalf.loading.bench import block, perf, serving
from nhalf.loading.bench.numbers import CONCURRENCY_BY
from nhalf.loading.case_columns import DEGREES, NAMES, NUMBERS
from nhalf.loading.case_defaults import check
from nhalf.loading.case_table import Table, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read"]

_SETTABLE = (*NAMES, *DEGREES, *NUMBERS)
_COLUMNS = (*NAMES, *DEGREES, *NUMBERS, CONCURRENCY_BY, "ttft_s", "tpot_s", "quality_flag", "file")


def read(names: Sequence[str]) -> Table:
    """Return the runs in some files as one table; a file that is a case table already keeps all of its columns.

    Raises
    ------
    InputError
        A file cannot be read, or is none of the formats.
    """
    if len(names) == 1 and not _split(names[0])[1] and _is_table(Path(names[0])):
        return read_table(Path(names[0]))
    rows: list[Mapping[str, str]] = []
    lines: list[int] = []
    files: list[str] = []
    for name in names:
        path, said = _split(name)
        found, at = _rows(path)
        if {"concurrency", "batch"} & set(said):
            said[CONCURRENCY_BY] = ""
        rows += [{**row, **said, "file": path.name} for row in found]
        lines += at
        files += [str(path)] * len(found)
    header = tuple(dict.fromkeys((*_COLUMNS, *(key for row in rows for key in row))))
    cells = [[row.get(key, "") for key in header] for row in rows]
    return Table(path=", ".join(names), header=header, rows=cells, lines=lines, files=files)


def _split(name: str) -> tuple[Path, dict[str, str]]:
    """Return the path in a name, and what `@tp=8,...` behind it says.

    Raises
    ------
    InputError
        It says nothing, or what no run can mean.
    """
    if Path(name).is_file():
        return Path(name), {}
    path, _, texts = name.partition("@")
    if not path:
        raise InputError("there is no name of a file", where=repr(name), allowed="such as run.json@tp=8")
    said: dict[str, str] = {}
    for text in filter(None, texts.split(",")):
        key, equals, value = text.partition("=")
        if not (equals and value) or key not in _SETTABLE:
            raise InputError(f"{text!r} says nothing", where=name, allowed=f"key=value, key of {', '.join(_SETTABLE)}")
        if key in said:
            raise InputError(f"{key} is there twice", where=name, do="state it once")
        said[key] = value
    check(said, where=name)
    return Path(path), said


def _is_table(path: Path) -> bool:
    """Tell whether a file is a case table: a CSV file whose header names a model or a time per token."""
    if path.suffix.lower() != ".csv":
        return False
    header = [name.strip(' "') for name in read_text(path).partition("\n")[0].split(",")]
    return bool({"tpot_s", "model"} & set(header))


def _rows(path: Path) -> tuple[list[dict[str, str]], Sequence[int]]:
    """Return the runs in one file, and the line of each; results of benchmarks are counted.

    Raises
    ------
    InputError
        It is none of the formats.
    """
    if _is_table(path):
        table = read_table(path)
        return [dict(zip(table.header, row, strict=True)) for row in table.rows], table.lines
    text = read_text(path)
    for reader in (serving.rows, perf.rows, block.rows):
        try:
            found = reader(text)
        except InputError as error:
            raise InputError(error.what, where=str(path), allowed=error.allowed, do=error.do) from error
        if found:
            return found, range(1, len(found) + 1)
    raise InputError(
        "there is no result of a serving benchmark in it",
        where=str(path),
        allowed="output of vllm bench serve, sglang.bench_serving, genai-perf, aiperf, or a CSV case table",
    )

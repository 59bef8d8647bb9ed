"""Benchmarks of serving engines: their result files as rows of a case table.

Read are the result block, JSON and JSON lines of `vllm bench serve` and `sglang.bench_serving`, the JSON and CSV
exports of genai-perf and aiperf, and what llama-bench writes, all through the door of the logs. They know the load and
the times; system, layout and dtypes come from flags, or from the end of a file's name on the command line:
`run.json@tp=8,kv_dtype=fp8`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nhalf.errors import InputError
from nhalf.evidence.readers.detection import texts
from nhalf.evidence.readers.source import sources
from nhalf.files.reading import STDIN
from nhalf.loading.bench import block, llama, perf, serving
from nhalf.loading.bench.numbers import CONCURRENCY_BY, UNSAID
from nhalf.loading.case_columns import DEGREES, NAMES, NUMBERS
from nhalf.loading.case_defaults import check
from nhalf.loading.case_table import Table, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.evidence.readers.source import Source

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
    rows: list[Mapping[str, str]] = []
    lines: list[int] = []
    files: list[str] = []
    for name in names:
        path, said = _split(name)
        source = sources(path)[0][0]
        text = "".join(line.text for line in source.lines()).replace("\r\n", "\n")
        if _is_table(path, text):
            table = table_of(text, path)
            if len(names) == 1 and not said:
                return table
            found, at = [dict(zip(table.header, row, strict=True)) for row in table.rows], table.lines
        else:
            found = _rows(source, path)
            at = range(1, len(found) + 1)
        for row in found:
            if (why := row.pop(UNSAID, "")) and not set(DEGREES) & set(said):
                row["quality_flag"] = why
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


def _is_table(path: Path, text: str) -> bool:
    """Tell whether a text is a case table: CSV whose header names a model or a time per token."""
    if path.suffix.lower() != ".csv" and str(path) != STDIN:
        return False
    header = [name.strip(' "') for name in text.partition("\n")[0].split(",")]
    return bool({"tpot_s", "model"} & set(header))


def _rows(source: Source, path: Path) -> list[dict[str, str]]:
    """Return the runs in one file of a benchmark.

    Raises
    ------
    InputError
        It is none of the formats.
    """
    for text in texts(source):
        for reader in (serving.rows, perf.rows, block.rows, llama.rows):
            try:
                found = reader(text)
            except InputError as error:
                raise InputError(error.what, where=str(path), allowed=error.allowed, do=error.do) from error
            if found:
                return found
    raise InputError(
        "there is no result of a serving benchmark in it",
        where=str(path),
        allowed="output of vllm bench serve, sglang.bench_serving, genai-perf, aiperf or llama-bench, or a case table",
    )

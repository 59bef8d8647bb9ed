"""Read what rccl-tests writes with `-Z json` and `-Z csv`: a record for each size, once out of place and once in place.

Source, by description: ROCm/rccl-tests, src/common.cu (Reporter). Times are microseconds. Older versions print one name
fewer than values: the number of nodes had none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from nhalf.evidence.readers.columns import skip
from nhalf.evidence.readers.delimited import split
from nhalf.evidence.readers.inference import bounds_of, fits
from nhalf.evidence.readers.json_text import dictionary, number, objects
from nhalf.evidence.readers.nccl_operation import NAMES
from nhalf.evidence.readers.nccl_rows import TYPES, Row, Side
from nhalf.evidence.readers.nccl_run import Run, agrees
from nhalf.evidence.readers.numerals import integer
from nhalf.evidence.readers.protocol import Format, Line
from nhalf.evidence.table import Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_TESTS: Final = {name.replace("_", ""): name for name in NAMES}
_HEADER = re.compile(r"\bsize,type,redop,in_?place,time,algbw,busbw", re.IGNORECASE)
_LAST: Final = 40


def _json(lines: Iterable[Line], source: str) -> list[Table]:
    found, problem = objects(lines)
    records = [
        (0, {_key(name): str(value) for name, value in one.items()}) for one in map(dictionary, found) if "busBw" in one
    ]
    return _tables(records, source, [Skipped(file=source, line=0, why=problem)] if problem else [])


def _csv(lines: Iterable[Line], source: str) -> list[Table]:
    names: list[str] = []
    records: list[tuple[int, dict[str, str]]] = []
    skipped: list[Skipped] = []
    for line in lines:
        cells = split(line.text, ",")
        if _HEADER.search(line.text):
            names = [_key(cell) for cell in cells]
        elif names and len(cells) > 1:
            record = _aligned(names, cells)
            if record is None:
                skipped.append(skip(line, source, f"the row has {len(cells)} values for {len(names)} columns"))
            else:
                records.append((line.number, record))
    return _tables(records, source, skipped)


def _key(name: str) -> str:
    """Return a column's name as both forms and all versions share it."""
    key = name.strip().strip('"#').casefold()
    return {"collective": "name", "numcycle": "cycle"}.get(key, key)


def _aligned(names: Sequence[str], cells: Sequence[str]) -> dict[str, str] | None:
    """Return a row by its names; where one value has none, it is the one without which all the others make sense."""
    if len(cells) == len(names):
        return dict(zip(names, cells, strict=True))
    if len(cells) != len(names) + 1:
        return None
    for at in range(len(cells)):
        record = dict(zip(names, [*cells[:at], *cells[at + 1 :]], strict=True))
        row = _row(record)
        ratio = bounds_of(record.get("algbw", ""), record.get("busbw", ""))
        op, ranks = NAMES.get(_test(record)), _product(record)
        if row is not None and row.type in TYPES and agrees(row) and ranks and (not ratio or fits(op, ratio, ranks)):
            return record
    return None


def _test(record: Mapping[str, str]) -> str:
    return _TESTS.get(re.sub(r"[^a-z]", "", record.get("name", "").casefold()), "")


def _product(record: Mapping[str, str]) -> int:
    """Return the ranks of a record: processes times the GPUs of each."""
    each = integer(record.get("gpusperrank", "")) or integer(record.get("gpus", "")) or 1
    return (integer(record.get("ranks", "1")) or 0) * each


def _row(record: Mapping[str, str]) -> Row | None:
    """Return the one-sided row of a record, or None where it has no size."""
    size = integer(record.get("size", ""))
    if size is None:
        return None
    side = Side(
        record.get("time", ""), record.get("algbw", ""), record.get("busbw", ""), record.get("wrong", ""), "", "", ""
    )
    return Row(size, None, record.get("type", "").strip(), record.get("redop", "").strip(), "", (side,))


def _tables(records: Sequence[tuple[int, dict[str, str]]], source: str, skipped: list[Skipped]) -> list[Table]:
    runs: dict[tuple[str, int, str], Run] = {}
    for line, record, row in _paired(records, source, skipped):
        key = (_test(record), _product(record), record.get("nodes", ""))
        run = runs.get(key)
        if run is None:
            run = runs[key] = Run(source=source, tool="rccl-tests", header_seen=True, named=key[0])
            run.nodes = integer(key[2]) or (1 if "ranks" not in record else None)
            run.settings = {"ranks": str(key[1])}
        run.add(line, row, new_header=False)
    tables = [table for run in runs.values() for table in run.tables()]
    return [*tables, *([Table(file=source, tool="rccl-tests", skipped=tuple(skipped))] if skipped else [])]


def _paired(
    records: Sequence[tuple[int, dict[str, str]]], source: str, skipped: list[Skipped]
) -> Iterator[tuple[int, dict[str, str], Row]]:
    """Yield each record with its row, which has the time in place as its second side where that follows."""
    held: tuple[int, dict[str, str], Row] | None = None
    for line, record in records:
        row = _row(record)
        if row is None:
            why = f"{record.get('size', '')[:_LAST]!r} is not a size"
            skipped.append(Skipped(file=source, line=line, why=why))
            continue
        inside = number(record.get("inplace")) == 1.0
        if held and inside and replace(held[2], sides=row.sides) == row:
            yield held[0], held[1], replace(row, sides=(*held[2].sides, *row.sides))
            held = None
            continue
        if held:
            yield held
        held = (line, record, row)
    if held:
        yield held


def _format(name: str, sign: str, parse: Any) -> Format:  # noqa: ANN401 - a reader
    return Format(name=name, words=("busBw", "busbw"), signs=((re.compile(sign, re.IGNORECASE), 1.0),), parse=parse,
                  whole=True)  # fmt: skip


JSON_READER = _format("rccl-tests-json", r'"busBw"\s*:', _json)
READER = _format("rccl-tests-csv", _HEADER.pattern, _csv)

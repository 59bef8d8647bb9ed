"""Read the file that `nhalf measure -o` saves (schema `nhalf.run/1`): one table for each curve of the run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from nhalf.collective import Mode, Op
from nhalf.errors import InputError
from nhalf.evidence.readers.json_text import array, dictionary, number, objects
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Figure, Note, Point, Skipped, Table
from nhalf.sample import TIMINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nhalf.evidence.readers.protocol import Line

TOOL: Final = "nhalf measure"
SCHEMA: Final = "nhalf.run/1"
_NANO: Final = 1e-9


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    found, problem = objects(lines)
    tables = [table for one in found for table in tables_of(one, source)]
    if problem:
        tables.append(Table(file=source, tool=TOOL, skipped=(Skipped(file=source, line=0, why=problem),)))
    return tables


def tables_of(document: Mapping[str, Any], source: str) -> list[Table]:
    """Return the tables of a run; each round of a point is one repeat, its seconds the median of the round.

    Where ranks were started anew, a launch is one repeat, as launches differ more than the rounds of one do.

    Raises InputError when the file is of another version.
    """
    schema = document.get("schema")
    if schema != SCHEMA:
        raise InputError(f"schema {schema!r} is not known", where=source, allowed=SCHEMA,
                         do="read it with the version of nhalf that wrote it")  # fmt: skip
    notes = [_note(dictionary(each)) for each in array(document.get("doubts"))]
    if not document.get("complete"):
        text = f"the run ended early, and these are the samples until then: {document.get('lost') or 'no reason kept'}"
        notes.insert(0, Note(code="partial", text=text))
    environment = {name: str(text) for name, text in dictionary(document.get("environment")).items()}
    environment["clock"] = str(document.get("clock") or "")
    return [_table(dictionary(curve), source, environment, tuple(notes)) for curve in array(document.get("curves"))]


def _note(doubt: Mapping[str, Any]) -> Note:
    return Note(code=str(doubt.get("code", "doubt")), text=str(doubt.get("text", "")))


def _table(curve: Mapping[str, Any], source: str, environment: Mapping[str, str], notes: tuple[Note, ...]) -> Table:
    op = Op.parse(str(curve.get("op", "")), where=source)
    mode = curve.get("mode")
    quantity = curve.get("quantity")
    points = [point for given in array(curve.get("points")) for point in _points(dictionary(given))]
    label = ", ".join(filter(None, (str(curve.get("label") or ""), _counted(curve))))
    channel = str(curve.get("channel") or "")
    barrier = op is Op.BARRIER
    return Table(
        file=source,
        tool=TOOL,
        op=op,
        test=str(curve.get("test") or ""),
        ranks=_whole(curve.get("ranks")),
        nodes=_whole(curve.get("nodes")),
        mode=Mode.parse(str(mode), where=source) if mode else None,
        quantity=quantity if quantity in TIMINGS else None,
        size_is="none" if barrier else curve.get("size_is") or "",
        label=label if label.startswith(channel) else ", ".join(filter(None, (channel, label))),
        streamed=bool(curve.get("streamed")),
        points=() if barrier else tuple(points),
        figures=tuple(Figure(of="time", value=point.seconds) for point in points) if barrier else (),
        environment=environment,
        notes=notes,
    )


def _counted(curve: Mapping[str, Any]) -> str:
    count = _whole(curve.get("count")) or 1
    return f"{count} in a row" if count > 1 else ""


def _points(given: Mapping[str, Any]) -> Iterable[Point]:
    size = number(given.get("size_bytes"))
    rounds = [sorted(time for each in array(times) if (time := number(each)) is not None and time > 0)
              for times in array(given.get("rounds_ns"))]  # fmt: skip
    of: dict[object, list[list[float]]] = {}
    launches = array(given.get("launches")) or list(range(len(rounds)))
    for launch, values in zip(launches, rounds, strict=False):
        if values:
            of.setdefault(launch, []).append(values)
    for repeat, group in enumerate(of.values()):
        if size is None:
            return
        yield Point(
            size_bytes=size,
            seconds=_middle(sorted(map(_middle, group))) * _NANO,
            repeat=repeat,
            min_s=min(values[0] for values in group) * _NANO,
            max_s=max(values[-1] for values in group) * _NANO,
            wrong=given.get("right") is False,
        )


def _middle(ordered: Sequence[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2.0


def _whole(value: object) -> int | None:
    found = number(value)
    return int(found) if found is not None and found >= 1 else None


READER = Format(
    name="nhalf-run",
    words=("nhalf.run/",),
    signs=((re.compile(r'"schema"\s*:\s*"nhalf\.run/\d+"'), 1.0),),
    parse=_parse,
    whole=True,
)

"""Samples from logs, and what the user adds to tables that do not say everything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nhalf.collective import Mode, Op
from nhalf.errors import InputError
from nhalf.evidence.table import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from nhalf.evidence.table import Table
    from nhalf.sample import Sample


def read(
    source: str | Path | Iterable[str | Path],
    *,
    op: str | None = None,
    ranks: int | None = None,
    nodes: int | None = None,
    mode: str | None = None,
    format: str | None = None,  # noqa: A002  the name of the flag
) -> list[Sample]:
    """Return every measured point of logs: a file, a folder, `-` for standard input, or several of them.

    `op`, `ranks`, `nodes` and `mode` are taken where a log does not say; `format` names a reader where the content
    does not tell. Numbers without a size (a matrix of bandwidths, a barrier) are no samples; `nhalf.fit` of the path
    keeps them.

    Raises InputError when a file cannot be read, holds no points, or leaves the operation or the ranks open.
    """
    from nhalf.evidence.readers import read as read_tables

    tables = completed(read_tables(source, format), op=op, ranks=ranks, nodes=nodes, mode=mode)
    samples = [sample for table in tables if table.points for sample in table.samples()]
    if not samples:
        why = [skip.why for table in tables for skip in table.skipped]
        raise InputError("there are no points in it", where=str(source), allowed="a log with sizes and times",
                         do=why[0] if why else "check the log")  # fmt: skip
    return samples


def completed(
    tables: Sequence[Table],
    *,
    op: str | None = None,
    ranks: int | None = None,
    nodes: int | None = None,
    mode: str | None = None,
) -> list[Table]:
    """Return tables with what the user says filled in where the log is silent, each with a note that says so.

    Raises InputError when the op or the mode is unknown, or the ranks or nodes cannot be.
    """
    given: dict[str, Op | Mode | int] = {}
    if op is not None:
        given["op"] = Op.parse(op, where="--op")
    if mode is not None:
        given["mode"] = Mode.parse(mode, where="--mode")
    for name, count in (("ranks", ranks), ("nodes", nodes)):
        if count is not None:
            if count < 1:
                raise InputError(f"{count} {name} cannot be", where=f"--{name}", allowed="1 or more")
            given[name] = count
    return [_completed(table, given) for table in tables]


def _completed(table: Table, given: dict[str, Op | Mode | int]) -> Table:
    missing = {name: value for name, value in given.items() if getattr(table, name) is None}
    unlike = {name: getattr(table, name) for name, value in given.items() if name not in missing}
    unlike = {name: said for name, said in unlike.items() if said != given[name]}
    if unlike and table.rows:
        text = ", ".join(f"{name} {given[name]} (the log says {said})" for name, said in unlike.items())
        table = replace(table, notes=(*table.notes, Note(code="not-taken", text=f"not taken as given: {text}")))
    if not missing:
        return table
    told = {name: missing.get(name, getattr(table, name)) for name in ("ranks", "nodes")}
    if told["ranks"] and told["nodes"] and told["nodes"] > told["ranks"]:
        what = f"{told['nodes']:,} nodes are more than {told['ranks']:,} ranks"
        raise InputError(what, where="--nodes" if "nodes" in missing else "--ranks", allowed=f"1 to {told['ranks']:,}")
    text = f"the log does not say it; taken as given: {', '.join(f'{name} {value}' for name, value in missing.items())}"
    return replace(table, notes=(*table.notes, Note(code="given", text=text)), **missing)  # type: ignore[arg-type]

"""The reader of Nsight Systems exports (sqlite), written from the published schema and not tried on every version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.errors import InputError
from nhalf.trace.calls import Found, calls_of
from nhalf.trace.events import Args
from nhalf.trace.kineto import rank_in_name
from nhalf.trace.recognition import Recogniser, sounds_like_communication
from nhalf.trace.record import Header, RankTrace, Work, merged
from nhalf.trace.steps import Mark, detect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nhalf.trace.recognition import Pattern

_KERNELS, _GRAPHS, _COPIES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
)
_PEER_TO_PEER = 10
"""copyKind of a copy between two devices (CUPTI, CUpti_ActivityMemcpyKind)."""
_PUSH_POP = 59
_NS, _US = 1e-9, 1e-3


class _Context:
    """The context of an export, which is empty: Nsight records no operators."""

    def __init__(self) -> None:
        self.parameters: dict[int, Any] = {}
        self.enqueued: list[tuple[float, str]] = []
        self.launches: dict[int, float] = {}


def read(path: Path, patterns: tuple[Pattern, ...], *, step: str | None = None) -> list[RankTrace]:
    """Return a trace for each device of an export, in the order of process and device.

    Raises
    ------
    InputError
        The file is no readable sqlite database, or holds no kernels.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            return _Export(database, path, patterns, step).traces()
    except sqlite3.Error as error:
        raise InputError(
            f"this sqlite file cannot be read: {error}",
            where=str(path),
            allowed="the output of nsys export --type=sqlite",
        ) from error


class _Export:
    """An open export."""

    def __init__(
        self, database: sqlite3.Connection, path: Path, patterns: tuple[Pattern, ...], step: str | None
    ) -> None:
        self.database, self.path, self.step = database, path, step
        self.recogniser = Recogniser(patterns)
        self.tables = {
            row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        }

    def traces(self) -> list[RankTrace]:
        """Return one trace for each device of the export."""
        if _KERNELS not in self.tables:
            do = "record with nsys profile --trace=cuda,nvtx"
            if _GRAPHS in self.tables:
                do = "record again with --cuda-graph-trace=node: whole graphs hide their kernels"
            raise InputError("the export holds no kernels", where=str(self.path), allowed=f"a table {_KERNELS}", do=do)
        strings = self._strings()
        marks, launches = self._marks(strings), self._launches()
        rows: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
        for row in self._kernels():
            process = int(row[0] or 0) // 0x1000000 % 0x1000000
            rows.setdefault((process, int(row[1] or 0)), []).append(row)
        own_rank = rank_in_name(self.path.name)
        found = []
        for number, key in enumerate(sorted(rows)):
            rank = own_rank if own_rank is not None and len(rows) == 1 else (number if len(rows) > 1 else -1)
            found.append(self._trace(rank, rows[key], strings, marks.get(key[0]) or marks.get(-1, []), launches))
        return found

    def _columns(self, table: str) -> set[str]:
        return {row[1] for row in self.database.execute(f"PRAGMA table_info({table})")}

    def _strings(self) -> dict[int, str]:
        if "StringIds" not in self.tables:
            return {}
        return dict(self.database.execute("SELECT id, value FROM StringIds"))

    def _kernels(self) -> Iterator[tuple[Any, ...]]:
        """Yield process, device, stream, start, end, name, correlation, graph node of every kernel and peer copy."""
        columns = self._columns(_KERNELS)
        names = [name for name in ("demangledName", "shortName", "name") if name in columns]
        if not names or not {"start", "end"} <= columns:
            raise InputError(
                "the kernels have no name or no times", where=str(self.path), allowed="start, end, demangledName"
            )
        chosen = ", ".join(
            name if name in columns else "NULL"
            for name in ("globalPid", "deviceId", "streamId", "start", "end", names[0], "correlationId", "graphNodeId")
        )
        sql = f"SELECT {chosen} FROM {_KERNELS} WHERE start >= 0 AND end > start ORDER BY start"  # noqa: S608  columns of the schema
        yield from self.database.execute(sql)
        if _COPIES in self.tables and {"copyKind", "start", "end", "bytes"} <= (columns := self._columns(_COPIES)):
            chosen = ", ".join(
                n if n in columns else "NULL" for n in ("globalPid", "deviceId", "streamId", "start", "end")
            )
            sql = f"SELECT {chosen}, 'Memcpy PtoP', NULL, NULL, bytes FROM {_COPIES} WHERE copyKind = ? ORDER BY start"  # noqa: S608  as above
            yield from self.database.execute(sql, (_PEER_TO_PEER,))

    def _launches(self) -> dict[int, float]:
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        if table not in self.tables or not {"start", "correlationId"} <= self._columns(table):
            return {}
        return {int(c): s * _US for c, s in self.database.execute(f"SELECT correlationId, start FROM {table}") if c}  # noqa: S608

    def _marks(self, strings: dict[int, str]) -> dict[int, list[Mark]]:
        """Return the ranges of the program by process; NCCL's own are the host's time and are left out."""
        if "NVTX_EVENTS" not in self.tables:
            return {}
        columns = self._columns("NVTX_EVENTS")
        if not {"start", "end"} <= columns or not {"text", "textId"} & columns:
            return {}
        chosen = ", ".join(
            n if n in columns else "NULL" for n in ("start", "end", "text", "textId", "globalTid", "eventType")
        )
        found: dict[int, list[Mark]] = {}
        for start, end, text, text_id, thread, kind in self.database.execute(f"SELECT {chosen} FROM NVTX_EVENTS"):  # noqa: S608
            name = text if isinstance(text, str) else strings.get(text_id, "")
            if start is None or end is None or not name or name.startswith("nccl") or kind not in (None, _PUSH_POP, 60):
                continue
            process = int(thread) // 0x1000000 % 0x1000000 if thread is not None else -1
            found.setdefault(process, []).append(Mark(name=name, start_s=start * _NS, end_s=end * _NS, on_device=False))
        return found

    def _trace(
        self,
        rank: int,
        rows: list[tuple[Any, ...]],
        strings: dict[int, str],
        marks: list[Mark],
        launches: dict[int, float],
    ) -> RankTrace:
        found: list[Found] = []
        works: dict[str, list[float]] = {}
        busy: list[tuple[int, int]] = []
        for row in rows:
            name = row[5] if isinstance(row[5], str) else strings.get(row[5], str(row[5]))
            start, end = row[3], row[4]
            seen = self.recogniser.see(name)
            if seen is None and name != "Memcpy PtoP":
                busy.append((start, end))
                works.setdefault(name, []).append((end - start) * _NS)
                continue
            args = Args(correlation=row[6], node=row[7], size=row[8] if len(row) > 8 else None)  # noqa: PLR2004
            found.append(Found(start=start * _US, length=(end - start) * _US, name=name, seen=seen, args=args))
        context = _Context()
        context.launches = launches
        calls, kinds, replays = calls_of(found, context, Header(), rank)
        spans = np.array(busy, dtype=np.float64).reshape(-1, 2) * _NS
        ends = [row[4] for row in rows]
        window = (min(row[3] for row in rows) * _NS, max(ends) * _NS)
        notes = ["read from an Nsight Systems export by its published schema"]
        if _GRAPHS in self.tables:
            notes.append("whole CUDA graphs hide their kernels: record with --cuda-graph-trace=node")
        sums = {name: Work(count=len(times), total_s=float(sum(times))) for name, times in works.items()}
        return RankTrace(
            rank=rank, file=str(self.path), origin_ns=0, device="gpu", header=Header(), kinds=kinds, calls=calls,
            steps=detect(marks, calls.start_s, replays, self.step, window[1]), busy_s=merged(spans[:, 0], spans[:, 1]),
            works=sums, suspects={n: w.total_s for n, w in sums.items() if sounds_like_communication(n)},
            window_s=window, events=len(rows), notes=tuple(notes),
        )  # fmt: skip

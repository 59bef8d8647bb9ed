"""Read PyTorch's Flight Recorder as JSON, where its calls were timed: one time for each size of a live job.

Source, by description: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorder.hpp. `duration_ms` is there with
TORCH_NCCL_ENABLE_TIMING=1 only: the time between two events on the GPU, the wait for the last rank included.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from nhalf.collective import Op
from nhalf.evidence.readers.columns import note
from nhalf.evidence.readers.json_text import array, dictionary, number, objects
from nhalf.evidence.readers.numerals import MILLISECOND
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Point, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_OPS: Final = {
    "allreduce": Op.ALL_REDUCE,
    **dict.fromkeys(("allgather", "allgatherbase", "allgatherintotensor"), Op.ALL_GATHER),
    **dict.fromkeys(("reducescatter", "reducescatterbase", "reducescattertensor"), Op.REDUCE_SCATTER),
    **dict.fromkeys(("alltoall", "alltoallbase", "alltoallv"), Op.ALL_TO_ALL),
    "broadcast": Op.BROADCAST,
}
_BYTES: Final = {"byte": 1, "char": 1, "bool": 1, "half": 2, "bfloat16": 2, "short": 2, "float": 4, "int": 4,
                 "double": 8, "long": 8}  # fmt: skip


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    found, problem = objects(lines)
    skipped = [problem] if problem else []
    points: dict[tuple[Op, int | None], list[Point]] = {}
    for dump in found:
        groups = dictionary(dump.get("pg_config"))
        for entry in map(dictionary, array(dump.get("entries"))):
            _take(points, entry, groups, skipped)
    tables = [_table(op, ranks, some, source) for (op, ranks), some in points.items()]
    if skipped:
        told = tuple(Skipped(file=source, line=0, why=f"{why} (calls: {skipped.count(why)})") for why in set(skipped))
        tables.append(Table(file=source, tool="Flight Recorder", skipped=told))
    return tables


def _take(
    points: dict[tuple[Op, int | None], list[Point]], entry: dict[str, Any], groups: dict[str, Any], skipped: list[str]
) -> None:
    """Take one call; add why it is not taken to `skipped`."""
    op = _OPS.get(re.sub(r"[^a-z]", "", str(entry.get("profiling_name", "")).rpartition(":")[2].casefold()))
    if op is None:
        return
    time = number(entry.get("duration_ms"))
    side = "output" if op is Op.ALL_GATHER else "input"
    size = _bytes(array(entry.get(f"{side}_sizes")), array(entry.get(f"{side}_dtypes")))
    if not time or time < 0.0 or not size:
        skipped.append(
            "the call has no size" if time else "the call has no duration_ms: set TORCH_NCCL_ENABLE_TIMING=1"
        )
        return
    group = dictionary(groups.get(str(next(iter(array(entry.get("process_group"))), ""))))
    members = len(re.findall(r"\d+", str(group.get("ranks", "")))) or None
    some = points.setdefault((op, members), [])
    repeat = sum(point.size_bytes == size for point in some)
    some.append(Point(size_bytes=size, seconds=time * MILLISECOND, repeat=repeat))


def _bytes(shapes: list[Any], dtypes: list[Any]) -> float:
    """Return the bytes of some tensors, 0 where a type is not known."""
    total = 0.0
    for shape, dtype in zip(shapes, dtypes, strict=False):
        width = _BYTES.get(str(dtype).casefold().rpartition("::")[2])
        counts = [number(each) or 0.0 for each in array(shape)]
        if width is None:
            return 0.0
        total += width * math.prod(counts)
    return total


def _table(op: Op, ranks: int | None, points: list[Point], source: str) -> Table:
    return Table(
        file=source,
        tool="Flight Recorder",
        op=op,
        ranks=ranks,
        quantity="isolated",
        size_is="message" if op in {Op.ALL_REDUCE, Op.BROADCAST} else "total",
        points=tuple(points),
        notes=(note("live-job", "a live job: kernel time, queueing and stragglers included"),),
    )


READER = Format(
    name="flight-recorder",
    words=('"collective_seq_id"', '"profiling_name"'),
    signs=((re.compile(r'"(?:collective_seq_id|profiling_name)"\s*:'), 0.9),),
    parse=_parse,
    whole=True,
)

"""Read the JSON form of nccl-tests (`-J`, from version 2.17).

Source, by description: NVIDIA/nccl-tests, src/util.cu. The file carries the whole environment of the run; nothing of it
is kept. Only the keys named here are looked at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from nhalf.evidence.readers.json_text import array, dictionary, number, objects
from nhalf.evidence.readers.nccl_operation import named_in
from nhalf.evidence.readers.nccl_rows import Row, Side
from nhalf.evidence.readers.nccl_run import Device, Run
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_CONFIG: Final = {
    "graph": "graph",
    "aggregated_iterations": "agg_iters",
    "iterations": "iterations",
    "warmup_iters": "warmup",
    "nthreads": "threads",
    "ngpus": "gpus_per_process",
}
_FALSE: Final = frozenset({"", "0", "false", "none"})


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    found, problem = objects(lines)
    loose = [one for one in found if "out_of_place" in one or "in_place" in one]
    if loose:  # the beginning is cut: what is left are results
        found = [*(one for one in found if one not in loose), {"results": loose}]
    tables = [table for one in found for table in _run(one, source).tables()]
    if problem:
        tables.append(Table(file=source, tool="nccl-tests", skipped=(Skipped(file=source, line=0, why=problem),)))
    return tables


def _run(document: dict[str, Any], source: str) -> Run:
    config = dictionary(document.get("config"))
    run = Run(source=source, header_seen=True, copies=1)
    for key, name in _CONFIG.items():
        value = number(config.get(key))
        if value is not None:
            run.settings[name] = f"{value:.0f}"
    if (library := number(document.get("nccl_version"))) is not None:
        run.settings["library"] = f"nccl {library:.0f}"
    blocking = str(config.get("blocking_collectives", "")).strip().casefold()
    run.timing = "" if blocking in _FALSE else "blocking collectives"
    run.devices = [_device(dictionary(device)) for device in array(config.get("devices"))]
    results = [dictionary(result) for result in array(document.get("results"))]
    words = [*(str(one.get("experiment_name", "")) for one in results[:1]), *map(str, array(document.get("args"))[:1])]
    run.named = next(filter(None, map(named_in, words)), "")
    for index, result in enumerate(results, start=1):
        _take(run, result, index)
    return run


def _device(device: dict[str, Any]) -> Device:
    rank, group = number(device.get("rank")), number(device.get("group"))
    host, name = device.get("hostname", ""), device.get("device_info", "")
    return Device(int(rank or 0), int(group or 0), str(host), str(name), str(device.get("pid", "")))


def _take(run: Run, result: dict[str, Any], index: int) -> None:
    size, count = number(result.get("size")), number(result.get("count"))
    sides = tuple(
        _side(dictionary(result.get(name)), dictionary(result.get(f"{name}_per_iter")))
        for name in ("out_of_place", "in_place")
        if result.get(name)
    )
    if size is None or not sides:
        why = f"result {index} has no size, or no time"
        run.skipped.append(Skipped(file=run.source, line=0, why=why))
        return
    row = Row(
        int(size),
        int(count) if count is not None else None,
        str(result.get("type", "")).strip(),
        str(result.get("redop", "")).strip(),
        str(result.get("root", "")).strip(),
        sides,
    )
    run.add(0, row, new_header=False)


def _side(side: dict[str, Any], iterations: dict[str, Any]) -> Side:
    time = side.get("time", side.get("cpu_time"))
    wrong = side.get("nwrong")
    return Side(
        _text(time),
        _text(side.get("alg_bw")),
        _text(side.get("bus_bw")),
        "N/A" if wrong is None else _text(wrong),
        "",
        _text(iterations.get("min_us")),
        _text(iterations.get("max_us")),
    )


def _text(value: object) -> str:
    found = number(value)
    return "" if found is None else repr(found)


READER = Format(
    name="nccl-tests-json",
    words=("out_of_place", "alg_bw", "average_bus_bandwidth", "nccl_version"),
    signs=(
        (re.compile(r'"(?:out_of_place|alg_bw|average_bus_bandwidth)"\s*:'), 1.0),
        (re.compile(r'"nccl_version"\s*:.*"config"\s*:', re.DOTALL), 0.8),
    ),
    parse=_parse,
    whole=True,
)

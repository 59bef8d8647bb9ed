"""Results of llama.cpp's `llama-bench`: Markdown, CSV, JSON and JSON lines; generation (tg), one sequence at a time.

Source, by description: ggml-org/llama.cpp, tools/llama-bench (README.md and llama-bench.cpp).
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any, Final

from nhalf.evidence.readers.json_text import number
from nhalf.evidence.readers.markdown import pipe_tables
from nhalf.evidence.readers.numerals import real
from nhalf.evidence.readers.protocol import Line
from nhalf.loading.bench.numbers import UNSAID, cell, documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENGINE: Final = "llama-cpp"
_TEST = re.compile(r"tg ?(\d+)(?: @ d(\d+))?")
_BITS = re.compile(r"\b(?:(?P<int4>(?:I?Q|MXFP)[1-4])|(?P<int8>I?Q[5-8])|(?P<bf16>B?F16))")
"""The name of a quantisation begins with its bits; the nearest dtype that is known stands for it."""
_NODE: Final = "node"
"""All devices of a node: the layout of a run that names none of them."""


def rows(text: str) -> list[dict[str, str]]:
    """Return the runs of generation in a text; none where it is of another format."""
    if "avg_ts" in text:
        found = documents(text) if '"avg_ts"' in text and "{" in text else _of_csv(text)
        return [row for each in found if "avg_ts" in each and (row := _of_fields(each))]
    if "t/s" not in text:
        return []
    return [row for each in _of_markdown(text) if (row := _of_cells(each))]


def _of_csv(text: str) -> list[dict[str, Any]]:
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if "avg_ts" in line), 0)
    try:
        return [dict(row) for row in csv.DictReader(io.StringIO("\n".join(lines[first:])))]
    except csv.Error:  # a cell without an end: no table of this tool
        return []


def _of_markdown(text: str) -> Iterator[dict[str, str]]:
    for table in pipe_tables(Line(at, line) for at, line in enumerate(text.splitlines(), 1)):
        if {"test", "t/s"} <= set(table.header):
            yield from (dict(zip(table.header, cells, strict=True)) for _, cells in table.rows)


def _of_cells(cells: Mapping[str, str]) -> dict[str, str] | None:
    """Return the run of a row of a Markdown table, None for one that generates nothing."""
    test = _TEST.fullmatch(cells["test"])
    rate = real(cells["t/s"].split()[0]) if cells["t/s"] else None
    if test is None or not rate:
        return None
    split, backend = cells.get("sm", "layer"), cells.get("backend", "")
    return _row(cells.get("model", ""), rate, (test[1], test[2] or "0"), split, rpc="RPC" in backend, devices=None)


def _of_fields(fields: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the run of a CSV row or a JSON object, None for one that generates nothing, or has a prompt as well."""
    rate, tokens = number(fields.get("avg_ts")), number(fields.get("n_gen"))
    if not rate or not tokens or number(fields.get("n_prompt")):
        return None
    gpus = [name for name in str(fields.get("gpu_info", "")).split(",") if name.strip()]
    split = str(fields.get("split_mode", "layer"))
    shape = (cell(tokens), cell(number(fields.get("n_depth")) or 0.0))
    rpc = "RPC" in str(fields.get("backends", ""))
    return _row(str(fields.get("model_type", "")), rate, shape, split, rpc=rpc, devices=len(gpus) or None)


def _row(
    model: str, rate: float, shape: tuple[str, str], split: str, *, rpc: bool, devices: int | None
) -> dict[str, str]:
    """Return a run: stages by layers, tensor parallelism by rows or tensors, over as many devices as there are."""
    bits = _BITS.search(model)
    count = _NODE if devices is None else str(devices)
    found = {
        "engine": _ENGINE,
        "isl": shape[1],
        "osl": shape[0],
        "concurrency": "1",
        "tpot_s": cell(1.0 / rate),
        "weight_dtype": (bits.lastgroup or "") if bits else "",
        **{"layer": {"tp": "1", "pp": count}, "none": {"tp": "1"}}.get(split, {"tp": count}),
    }
    if rpc:
        found[UNSAID] = "over RPC: how many machines is not in the file, so say @pp=N or @tp=N"
    return found

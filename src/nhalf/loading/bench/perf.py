"""Exports of genai-perf (`profile_export_genai_perf`) and aiperf (`profile_export_aiperf`), JSON and CSV."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from nhalf.errors import InputError
from nhalf.loading.bench.numbers import cell, documents, in_flight

_SCALES = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "us": 1e-6, "ns": 1e-9}
_NAMES = {
    "tpot_s": "inter_token_latency",
    "ttft_s": "time_to_first_token",
    "isl": "input_sequence_length",
    "osl": "output_sequence_length",
    "rate": "request_throughput",
}
_LABEL = re.compile(r"(?P<name>[A-Za-z ]+?)\s*(?:\((?P<unit>[^)]*)\))?")

_LONGEST = 1000
"""Characters of a line that are looked at: a line of an export is shorter."""


def rows(text: str) -> list[dict[str, str]]:
    """Return the run in a text; none where it is of another format.

    Raises
    ------
    InputError
        A time has no unit, or one that is not known.
    """
    metrics, config = _of_json(text) if f'"{_NAMES["tpot_s"]}"' in text else (_of_csv(text), {})
    if "tpot_s" not in metrics:
        return []
    rate = metrics.pop("rate", None)
    row = {name: cell(value) for name, value in metrics.items()}
    row = {"ttft_s": "", "isl": "", "osl": "", **row}
    row["model"] = str(_first(config, ("model_names", "model", "models")) or "")
    row["concurrency"] = cell(_first(config, ("concurrency",)))
    return [row if row["concurrency"] else {**row, **in_flight(row, rate)}]


def _of_json(text: str) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the metrics of an export in SI units, and the configuration of the run."""
    export = next((each for each in documents(text) if _NAMES["tpot_s"] in each), {})
    found = {}
    for column, name in _NAMES.items():
        metric = export.get(name)
        if not isinstance(metric, dict):
            continue
        value = metric.get("p50", metric.get("avg")) if column.endswith("_s") else metric.get("avg")
        if isinstance(value, int | float):
            found[column] = float(value) * _scale(column, str(metric.get("unit") or ""))
    config = export.get("input_config")
    return found, config if isinstance(config, dict) else {}


def _of_csv(text: str) -> dict[str, float]:
    """Return the metrics of an export in SI units: `Metric,avg,...` tables, one below the other."""
    found: dict[str, float] = {}
    header: list[str] = []
    for cells in csv.reader(line[:_LONGEST] for line in io.StringIO(text)):
        if cells and cells[0].strip() == "Metric":
            header = [name.strip().lower() for name in cells]
            continue
        label = _LABEL.fullmatch(cells[0].strip()) if header and cells else None
        name = label["name"].strip().lower().replace(" ", "_") if label else ""
        column = next((each for each, key in _NAMES.items() if key == name), "")
        if not column or label is None:
            continue
        told = dict(zip(header, cells, strict=False))
        text_of = (told.get("p50") if column.endswith("_s") else "") or told.get("avg") or told.get("value") or ""
        try:
            found[column] = float(text_of.replace(",", "")) * _scale(column, label["unit"] or "")
        except ValueError:
            continue
    return found


def _scale(column: str, unit: str) -> float:
    """Return what a time in a unit is multiplied with for seconds; 1 for counts and rates.

    Raises
    ------
    InputError
        It has no unit, or one that is not known.
    """
    if not column.endswith("_s"):
        return 1.0
    scale = _SCALES.get(unit.strip().lower())
    if scale is None:
        what = f"has the unit {unit!r}, which is not known" if unit else "has no unit"
        raise InputError(f"{_NAMES[column]} {what}", allowed=", ".join(_SCALES))
    return scale


def _first(config: object, keys: tuple[str, ...]) -> object:
    """Return the first value below a configuration under one of the keys, a list's first item; None without one."""
    if isinstance(config, dict):
        for key in keys:
            value = config.get(key)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, int | float | str) and value:
                return value
        config = list(config.values())
    for inner in config if isinstance(config, list) else ():
        found = _first(inner, keys)
        if found is not None:
            return found
    return None

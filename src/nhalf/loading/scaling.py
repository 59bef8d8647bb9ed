"""Scaling curves: tables of devices, batch and what was measured, under the names in use, and what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.decide.regime import crossover
from nhalf.decide.scaling_curve import LABELS, Known, Point
from nhalf.errors import InputError, did_you_mean
from nhalf.loading.case_table import Table, read_table
from nhalf.loading.choices import Request
from nhalf.loading.degrees import Degrees
from nhalf.loading.request import scenarios
from nhalf.predict.communication import COLLECTIVES
from nhalf.predict.memory import held_weights
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from nhalf.scenario import Scenario

_NAMES: Final = {
    "devices": ("devices", "gpus", "num_gpus", "n_devices", "ranks", "world_size", "tp"),
    "batch": ("batch", "batch_size", "concurrency", "max_concurrency", "bs"),
    "step_s": ("step_s", "tpot_s", "itl_s", "time_per_token_s"),
    "step_ms": ("step_ms", "tpot_ms", "itl_ms", "mean_tpot_ms", "median_tpot_ms", "mean_itl_ms", "median_itl_ms"),
    "tokens_per_s": ("tokens_per_s", "tok_s", "tokens_per_second", "output_throughput", "throughput"),
    "mode": ("mode", "launch_mode"),
    "engine": ("engine", "framework", "backend"),
    "weights": ("weights", "weight_dtype", "dtype", "precision"),
    "kv": ("kv", "kv_dtype"),
}  # fmt: skip
"""The names under which a column may stand, the first that the table has."""
_CALL: Final = ("call_us", "pure_us", "skew_us")
_NUMBERS: Final = ("devices", "batch", "step_s", "step_ms", "tokens_per_s", "calls", *_CALL)


def read(path: Path) -> list[Point]:
    """Return the points of a table of scaling curves.

    Raises
    ------
    InputError
        The file cannot be read, has no devices, or holds a number that is none.
    """
    table = read_table(path)
    cells = {name: table.column(head) for name in (*_NUMBERS, *LABELS) if (head := _column(table, name)) is not None}
    if "devices" not in cells:
        raise InputError(
            "there is no column of devices", where=str(path), allowed=", ".join(_NAMES["devices"]),
            do=did_you_mean("devices", table.header),
        )  # fmt: skip
    numbers: dict[str, list[float | None]] = {
        name: _numbers(table, name, cells[name]) for name in _NUMBERS if name in cells
    }
    return [_point(table, row, cells, numbers) for row in range(len(table.rows))]


def _column(table: Table, name: str) -> str | None:
    """Return the name that a column has in a table, or None."""
    lowered = {head.lower(): head for head in table.header}
    return next((lowered[alias] for alias in _NAMES.get(name, (name,)) if alias in lowered), None)


def _numbers(table: Table, name: str, texts: Sequence[str]) -> list[float | None]:
    """Return a column as positive numbers, None where a cell is empty.

    Raises
    ------
    InputError
        A cell is no number, or not positive.
    """
    found: list[float | None] = []
    for row, text in enumerate(texts):
        if not text.strip():
            found.append(None)
            continue
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not 0 < value < float("inf"):
            where = table.place(row)
            raise InputError(f"{_column(table, name)} {text.strip()!r} is no number above 0", where=where,
                             allowed="such as 8")  # fmt: skip
        found.append(value)
    return found


def _point(
    table: Table, row: int, cells: Mapping[str, Sequence[str]], numbers: Mapping[str, Sequence[float | None]]
) -> Point:
    """Return one row."""
    at = {name: column[row] for name, column in numbers.items()}
    devices = at["devices"]
    if devices is None or not devices.is_integer():
        where = table.place(row)
        raise InputError("the number of devices is missing or not whole", where=where, allowed="such as 8")
    step, in_ms = at.get("step_s"), at.get("step_ms")
    return Point(
        row=table.line(row),
        devices=int(devices),
        batch=at.get("batch"),
        step_s=step if step is not None or in_ms is None else in_ms / 1e3,
        tokens_per_s=at.get("tokens_per_s"),
        calls=at.get("calls"),
        **{f"{name.removesuffix('_us')}_s": at[name] * 1e-6 for name in _CALL if at.get(name)},  # type: ignore[operator]
        labels={name: text for name in LABELS if name in cells and (text := cells[name][row].strip())},
    )


def known(points: Iterable[Point]) -> Mapping[tuple[str, str], Known]:
    """Return what the catalogue knows of the models and systems of some points; nothing of those that it does not."""
    found: dict[tuple[str, str], Known] = {}
    for point in points:
        key = (point.labels.get("model", ""), point.labels.get("system", ""))
        if all(key) and key not in found:
            about = _known(point, *key)
            if about is not None:
                found[key] = about
    return found


def _known(point: Point, model: str, system: str) -> Known | None:
    """Return what is known of a model on a system, or None."""
    named = {name: point.labels.get(name) for name in ("weights", "engine", "mode")}
    try:
        base = scenarios(Request(model=model, systems=(system,), **named)).scenarios[0]  # type: ignore[arg-type]
    except InputError:
        return None
    device = base.system.device
    weights = float(np.mean(held_weights(base).value))
    turning, call = _of_a_node(base, model, system)
    return Known(
        devices_per_node=base.system.fabric.devices_per_node,
        turning_batch=turning,
        call_s=call,
        floor_s=weights / float(np.mean(device.memory_bandwidth_bytes_per_s)),
    )


def _of_a_node(base: Scenario, model: str, system: str) -> tuple[float | None, float | None]:
    """Return the batch at which the all-reduce of a whole node doubles its floor, and what one takes [s], or None."""
    degrees = Degrees(tp=(base.system.fabric.devices_per_node,))
    try:
        whole = scenarios(Request(model=model, systems=(system,), degrees=degrees)).scenarios[0]
    except InputError:
        return None, None
    if whole.layout.tensor_parallel == 1:
        return None, None
    parts = columns(decode(whole))
    between = sum(float(np.mean(parts[name])) for name in COLLECTIVES if name in parts)
    return crossover(whole).batch_at_double_floor, between / whole.transformer.block_count

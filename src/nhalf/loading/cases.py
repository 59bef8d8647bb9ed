"""Case tables: rows of serving runs, one model, system, engine, layout and load each, gathered into array scenarios.

Columns are named as in the data that the calibration reads: `model`, `system`, `engine`, `weight_dtype`, `moe_dtype`,
`kv_dtype`, `isl`, `osl` (or `context`), `concurrency` (per server; or `batch`), `tp`, `pp`, `attention_dp`, `moe_tp`,
`moe_ep`, and where they matter `mode`, `library`, `tokens_per_step`, `accepted_tokens`. Others pass through; what was
measured is never looked at here.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.catalog import store
from nhalf.catalog.curves import find
from nhalf.catalog.measured_stacks import of_its_own
from nhalf.citation import Datum
from nhalf.collective import Mode, Op
from nhalf.errors import InputError, did_you_mean
from nhalf.layout import Layout, check
from nhalf.loading.case_model import DTYPES, model_of
from nhalf.loading.kv_rule import assumed_kv, other_kv_bytes
from nhalf.predict.memory import held_weights
from nhalf.scenario import Scenario
from nhalf.transformer import BITS, KV_BYTES
from nhalf.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.loading.case_table import Table
    from nhalf.predict.response import Indices
    from nhalf.stack import Stack
    from nhalf.system import System
    from nhalf.transformer import Transformer

NAMES = ("model", "system", "engine", "weight_dtype", "moe_dtype", "kv_dtype", "mode", "library")
DEGREES = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep")
NUMBERS = ("concurrency", "batch", "isl", "osl", "context", "tokens_per_step", "accepted_tokens")
LARGEST = 1e9
"""No run has more sequences or tokens: a larger number is in another unit, or a slip."""
MEASURED = ("tpot_s", "ttft_s")
"""Columns that hold measurements: `predict` passes them through and never reads them."""
_NEEDED = (("model",), ("system",), ("concurrency", "batch"))
_LONGEST_LIST = 120
"""A list of allowed names that has more letters is no help in a cell."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Rows that differ only in their load: one scenario whose workload holds an array over them.

    `rows` are their indices in the table; `other_kv_bytes` what an element of the cache weighs if its dtype was assumed
    wrongly [bytes]; the names are ids of the catalogue. `weight_dtype` is what the scenario takes.
    """

    rows: Indices
    scenario: Scenario
    other_kv_bytes: float
    model: str
    system: str
    engine: str
    weight_dtype: str

    @property
    def stack_and_model(self) -> str:
        """Return what rows share that were measured on one stack with one model: they are a cluster."""
        return f"{self.model} {self.weight_dtype} on {self.system}, {self.engine}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cases:
    """The rows of a table as scenarios; `refused` says for each row why it has none, and is empty where it has.

    `defaults` is what was told for the rows that do not say otherwise, by column.
    """

    table: Table
    groups: tuple[Group, ...]
    refused: list[str]
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What holds for every row that does not say otherwise, and constants to take instead of the catalogue's."""

    defaults: Mapping[str, str] = field(default_factory=dict)
    calibrated: bool = True
    constants: Mapping[str, Datum] = field(default_factory=dict)


def cases(table: Table, options: Options | None = None) -> Cases:
    """Return the rows of a table as groups of scenarios, and why some have none.

    Raises
    ------
    InputError
        A column that every row needs is missing.
    """
    chosen = options or Options()
    for names in _NEEDED:
        if not any(name in table.header or name in chosen.defaults for name in names):
            near = did_you_mean(names[0], table.header)
            raise InputError(f"no column {' or '.join(names)}", where=table.path, do=near or "add the column")
    refused = [""] * len(table.rows)
    loads = _loads(table, chosen, refused)
    keys: dict[tuple[str, ...], list[int]] = {}
    told = [_told(table, name, chosen) for name in (*NAMES, *DEGREES)]
    for row, key in enumerate(zip(*told, strict=True)):
        if not refused[row]:
            keys.setdefault(key, []).append(row)
    groups = []
    for key, rows in keys.items():
        try:
            groups.append(_group(dict(zip((*NAMES, *DEGREES), key, strict=True)), np.array(rows), loads, chosen))
        except InputError as error:
            for row in rows:
                refused[row] = _in_a_cell(error)
    return Cases(table=table, groups=tuple(groups), refused=refused, defaults=chosen.defaults)


def _in_a_cell(error: InputError) -> str:
    """Return an error as short as a cell wants it: a long list of what is allowed is left to the catalogue."""
    where = "model" if error.where == "MODEL" else error.where
    if len(error.allowed) <= _LONGEST_LIST:
        return str(InputError(error.what, where=where, allowed=error.allowed, do=error.do))
    kinds = " Write generic-graph, -stream, -python or -cpu for one of that kind." if where == "engine" else ""
    return str(InputError(f"{error.what}.{kinds}", where=where, do=error.do or f"see nhalf catalog {where}"))


def _told(table: Table, name: str, options: Options) -> list[str]:
    """Return the texts of a column, with the default where a cell is empty."""
    default = options.defaults.get(name, "")
    found = table.column(name)
    return [cell or default for cell in found] if default else found


def _loads(table: Table, options: Options, refused: list[str]) -> dict[str, Array]:
    """Return the numbers of every row, NaN where a cell is empty; rows whose cells are no numbers are refused."""
    loads = {}
    for name in NUMBERS:
        texts = _told(table, name, options)
        loads[name] = _numbers(texts, name, refused)
        _within(texts, loads[name], name, refused)
    batch = np.where(np.isnan(loads["batch"]), loads["concurrency"], loads["batch"])
    told = ~np.isnan(loads["context"]) | ~(np.isnan(loads["isl"]) | np.isnan(loads["osl"]))
    for row in np.flatnonzero(~(batch >= 1)):
        refused[row] = refused[row] or "concurrency (or batch) is missing or below 1"
    for row in np.flatnonzero(~told):
        refused[row] = refused[row] or "neither isl and osl nor context is given"
    return {**loads, "batch": batch}


def _numbers(texts: Sequence[str], name: str, refused: list[str]) -> Array:
    """Return a column as numbers; a cell that is none refuses its row."""
    try:
        found = np.array([text or "nan" for text in texts], dtype=np.float64)
    except ValueError:
        found = np.full(len(texts), np.nan)
        for row, text in enumerate(texts):
            with contextlib.suppress(ValueError):
                found[row] = float(text or "nan")
    for row in np.flatnonzero(np.isnan(found)).tolist():
        if texts[row]:  # a cell that says "nan" is not an empty one
            refused[row] = refused[row] or f"{name} {texts[row]!r} is not a number"
    return found


def _within(texts: Sequence[str], found: Array, name: str, refused: list[str]) -> None:
    """Refuse the rows whose number no run can have; an empty cell, which is NaN, is none."""
    least = 0.0 if name in ("isl", "context") else 1.0
    wrong = (found < least) | (found > LARGEST)
    for row in np.flatnonzero(wrong).tolist():
        refused[row] = refused[row] or f"{name} {texts[row]} lies outside {least:g} to {LARGEST:,.0f}"


def _group(key: Mapping[str, str], rows: Indices, loads: Mapping[str, Array], options: Options) -> Group:
    """Return the rows that share names and degrees as one scenario.

    Raises
    ------
    InputError
        A name is not known, or the layout is not possible.
    """
    transformer, stored = model_of(key["model"])
    system, origins = store.system(key["system"], curves=True, where="system")
    stack, of_stack = _stack(key, system, options)
    system = curves_of(system, stack.library.name, stack.mode)
    dtype = _weights(key, transformer, stored)
    kv, origin = _cache(key, dtype, system, stack)
    layout = _layout(key, transformer, system)
    at = {name: values[rows] for name, values in loads.items()}
    batch = at["batch"] / (float(key["attention_dp"] or 1) if transformer.mixture is None else 1.0)
    workload = _workload({**at, "batch": np.maximum(batch, 1.0)}, dtype, kv)
    origins = {**origins, **of_stack, "workload.kv_bytes": origin}
    scenario = Scenario(
        transformer=transformer, system=system, layout=layout, workload=workload, stack=stack, origins=origins
    )
    if options.calibrated and not options.constants:
        scenario = of_its_own(scenario)
    _must_fit(scenario, told_tp=bool(key["tp"]))
    assumed = origin.kind == "assumed"
    return Group(
        rows=rows,
        scenario=scenario,
        other_kv_bytes=other_kv_bytes(kv) if assumed else KV_BYTES[kv],
        model=transformer.name,
        system=system.name,
        engine=stack.engine,
        weight_dtype=dtype,
    )


def _stack(key: Mapping[str, str], system: System, options: Options) -> tuple[Stack, dict[str, Datum]]:
    """Return the stack of a group with its origins; constants that the options give take their places."""
    stack, origins = store.stack(
        key["engine"] or "vllm",
        library=key["library"] or None,
        mode=key["mode"] or None,
        architecture=system.device.architecture,
        calibrated=options.calibrated,
    )
    values = {name: datum.value for name, datum in options.constants.items()}
    given = {f"stack.{name}": datum for name, datum in options.constants.items()}
    return replace(stack, **values), {**origins, **given}  # type: ignore[arg-type]


def curves_of(system: System, library: str, mode: Mode) -> System:
    """Return the system with the curves of one library: in its mode, and as its host would launch it without graphs."""
    modes = (mode, Mode.EAGER) if mode == Mode.GRAPH else (mode,)
    found = (find(system.curves, library, mode=each, op=Op.ALL_REDUCE) for each in modes)
    return replace(system, curves=tuple(curve for curve in found if curve is not None))


def _weights(key: Mapping[str, str], transformer: Transformer, stored: str) -> str:
    """Return the dtype of the weights: the narrower of the two that a row names, or the checkpoint's own if narrower.

    Raises
    ------
    InputError
        A dtype that is not known.
    """
    named = []
    for column in ("weight_dtype", "moe_dtype"):
        text = key[column].strip().lower()
        if text and text not in DTYPES:
            raise InputError(f"dtype {text!r} is not known", where=column, do=did_you_mean(text, DTYPES))
        named += [DTYPES[text]] if text else []
    wanted = min(named, key=lambda dtype: BITS[dtype], default=stored or transformer.weight_dtype)
    return transformer.weight_dtype if BITS[wanted] >= BITS[transformer.weight_dtype] else wanted


def _cache(key: Mapping[str, str], weights: str, system: System, stack: Stack) -> tuple[str, Datum]:
    """Return the dtype of the cache and the origin of its bytes: what the row says, or what is likely."""
    text = key["kv_dtype"].strip().lower()
    if not text:
        return assumed_kv(weights=weights, engine=stack.engine, architecture=system.device.architecture)
    dtype = DTYPES.get(text, "")
    if dtype not in KV_BYTES:
        raise InputError(f"cache dtype {text!r} is not known", where="kv_dtype", allowed=", ".join(KV_BYTES))
    given = Datum(value=KV_BYTES[dtype], unit="bytes", source="cases", locator="kv_dtype", kind="given", date="")
    return dtype, given


def _layout(key: Mapping[str, str], transformer: Transformer, system: System) -> Layout:
    """Return the layout of a group.

    Raises
    ------
    InputError
        A degree is no whole number, the degrees of experts do not multiply out, or the model does not allow them.
    """
    degrees = {name: degree(key[name], name) for name in DEGREES}
    dense = transformer.mixture is None
    layout = Layout(
        tensor_parallel=degrees["tp"],
        pipeline_parallel=degrees["pp"],
        attention_dp=1 if dense else degrees["attention_dp"],
        expert_parallel=1 if dense else degrees["moe_ep"],
    )
    stated = (key["moe_tp"], key["moe_ep"])
    if not dense and all(stated) and degrees["moe_tp"] * degrees["moe_ep"] != layout.expert_devices:
        raise InputError(
            f"moe_tp x moe_ep = {degrees['moe_tp'] * degrees['moe_ep']} is not tp x attention_dp = "
            f"{layout.expert_devices}",
            where="layout",
            do="state the degrees as the engine counts them",
        )
    check(layout, transformer, system.fabric)
    return layout


def degree(text: str, name: str, *, where: str = "") -> int:
    """Return a degree of parallelism; 1 where the cell is empty. `where` is the place that a message names.

    Raises
    ------
    InputError
        It is no whole number of 1 or more.
    """
    try:
        number = float(text or 1)
    except ValueError:
        number = math.nan
    if not (number >= 1 and number.is_integer()):
        raise InputError(f"{name} {text!r} is not a whole number", where=where or name, allowed="1 or more")
    return int(number)


def _workload(at: Mapping[str, Array], weights: str, kv: str) -> Workload:
    """Return the workload of a group's rows: with prompts where they say isl and osl, else at a fixed context."""
    prompts = ~(np.isnan(at["isl"]) | np.isnan(at["osl"]))
    prompt, output = np.where(prompts, at["isl"], 0.0), np.where(prompts, at["osl"], 0.0)
    context = np.where(np.isnan(at["context"]), prompt + output / 2, at["context"])
    fed = np.where(np.isnan(at["tokens_per_step"]), 1.0, at["tokens_per_step"])
    kept = np.where(np.isnan(at["accepted_tokens"]), 1.0, at["accepted_tokens"])
    return Workload(
        batch=at["batch"],
        context_tokens=context,
        weight_dtype=weights,
        kv_dtype=kv,
        kv_bytes=KV_BYTES[kv],
        tokens_per_step=fed,
        accepted_tokens=kept,
        prompt_tokens=prompt,
        output_tokens=output,
    )


def _must_fit(scenario: Scenario, *, told_tp: bool) -> None:
    """Refuse a layout whose weights alone exceed the memory of a device; without tp, one device was taken.

    Raises
    ------
    InputError
        They do.
    """
    weights = float(np.max(held_weights(scenario).value))
    memory = float(np.mean(scenario.system.device.memory_bytes))
    if weights > memory:
        raise InputError(
            f"the weights need {weights / 1e9:.0f} GB of the {memory / 1e9:.0f} GB on each device",
            where="memory",
            do="raise tp, or quantise" if told_tp else "state tp: nothing does, so one device was taken",
        )

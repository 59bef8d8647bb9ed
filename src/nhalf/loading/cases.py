"""Case tables: rows of serving runs, one model, system, engine, layout and load each, gathered into array scenarios.

Columns are named as in the data that the calibration reads: `model`, `system`, `engine`, `weight_dtype`, `moe_dtype`,
`kv_dtype`, `isl`, `osl` (or `context`), `concurrency` (per server; or `batch`), `tp`, `pp`, `cp`, `attention_dp`,
`moe_tp`, `moe_ep`, and where they matter `mode`, `library`, `tokens_per_step`, `accepted_tokens`. Others pass through;
what was measured is never looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nhalf.errors import InputError, did_you_mean
from nhalf.loading.case_columns import DEGREES, NAMES, numbers_of, texts_of
from nhalf.loading.case_request import request_of
from nhalf.loading.inputs import INPUTS
from nhalf.loading.kv_rule import other_kv_bytes
from nhalf.loading.request import scenarios
from nhalf.loading.stack_file import PRIORS, StackFile
from nhalf.predict.memory import held_weights, one_sequence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.citation import Datum
    from nhalf.loading.case_table import Table
    from nhalf.predict.residual import Bands
    from nhalf.predict.response import Indices
    from nhalf.scenario import Scenario

_NAMED = ("model", "system")
"""The names that have no default, in the order of the columns."""
_NEEDED = (("model",), ("system",), ("concurrency", "batch"))
_COLUMN_OF = {"MODEL": "model"} | {row.on_command_line: row.column for row in INPUTS if row.column}
"""The column that says what a flag says elsewhere."""
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
    """What holds for every row that does not say otherwise, and constants to take instead of the catalogue's.

    `half_widths` are those of the band that was measured with the constants; `bands` the bands around predictions,
    where they are not those of the calibration that ships.
    """

    defaults: Mapping[str, str] = field(default_factory=dict)
    calibrated: bool = True
    constants: Mapping[str, Datum] = field(default_factory=dict)
    half_widths: tuple[float, float] | None = None
    bands: Bands | None = None

    @property
    def stack(self) -> StackFile | None:
        """Return the constants as a file of a stack holds them; None for those of the catalogue."""
        if self.calibrated and not self.constants:
            return None
        name = "constants" if self.calibrated else PRIORS
        return StackFile(name=name, constants=self.constants, half_widths=self.half_widths)


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
    columns = numbers_of(table, chosen.defaults, refused)
    groups = []
    for cells, rows in _alike(table, chosen.defaults, refused):
        try:
            group = _group(cells, rows, columns, chosen)
            _refuse_too_long(group, refused)
            held = np.array([row for row in rows.tolist() if not refused[row]], dtype=np.intp)
            if len(held):
                groups.append(group if len(held) == len(rows) else _group(cells, held, columns, chosen))
        except InputError as error:
            for row in rows.tolist():
                refused[row] = _in_a_cell(error)
    return Cases(table=table, groups=tuple(groups), refused=refused, defaults=chosen.defaults)


def _alike(table: Table, defaults: Mapping[str, str], refused: list[str]) -> list[tuple[dict[str, str], Indices]]:
    """Return the cells of names and degrees that rows share, and the rows that are not refused."""
    texts = [texts_of(table, name, defaults) for name in (*NAMES, *DEGREES)]
    kinds: dict[tuple[str, ...], int] = {}
    kind = np.array([kinds.setdefault(key, len(kinds)) for key in zip(*texts, strict=True)], dtype=np.intp)
    for key, number in kinds.items():
        missing = next((name for name, text in zip(_NAMED, key, strict=False) if not text), "")
        for row in np.flatnonzero(kind == number).tolist() if missing else ():
            refused[row] = refused[row] or f"{missing}: the cell is empty"
    kind[[row for row, why in enumerate(refused) if why]] = len(kinds)
    order = np.argsort(kind, kind="stable")
    parts = np.split(order, np.searchsorted(kind[order], np.arange(1, len(kinds) + 1)))
    named = (dict(zip((*NAMES, *DEGREES), key, strict=True)) for key in kinds)
    return [(cells, rows) for cells, rows in zip(named, parts, strict=False) if len(rows)]


def _refuse_too_long(group: Group, refused: list[str]) -> None:
    """Refuse the rows whose cache of a single sequence, in the narrower dtype it may have, no device can hold."""
    scenario = group.scenario
    narrow = min(group.other_kv_bytes, float(np.mean(scenario.workload.kv_bytes)))
    one = np.asarray(one_sequence(scenario.having({"workload.kv_bytes": narrow})).value)
    memory = float(np.mean(scenario.system.device.memory_bytes))
    free = memory - np.asarray(held_weights(scenario).value)
    for index in np.flatnonzero(np.broadcast_to(one > free, len(group.rows))).tolist():
        need = float(np.broadcast_to(one, len(group.rows))[index])
        refused[int(group.rows[index])] = str(
            InputError(
                f"the cache of one sequence needs {need / 1e9:.0f} GB beside the weights on each device of "
                f"{memory / 1e9:.0f} GB",
                where="memory", do="check isl, osl and context, or raise tp",
            )
        )  # fmt: skip


def _in_a_cell(error: InputError) -> str:
    """Return an error as short as a cell wants it: a long list of what is allowed is left to the catalogue."""
    where = _COLUMN_OF.get(error.where, error.where)
    if len(error.allowed) <= _LONGEST_LIST:
        return str(InputError(error.what, where=where, allowed=error.allowed, do=error.do))
    kinds = " Write generic-graph, -stream, -python or -cpu for one of that kind." if where == "engine" else ""
    return str(InputError(f"{error.what}.{kinds}", where=where, do=error.do or f"see nhalf catalog {where}"))


def _group(cells: Mapping[str, str], rows: Indices, columns: Mapping[str, Array], options: Options) -> Group:
    """Return the rows that share names and degrees as one scenario.

    Raises
    ------
    InputError
        A name is not known, or the layout is not possible.
    """
    asked = request_of(cells, {name: values[rows] for name, values in columns.items()}, options.stack)
    scenario = scenarios(asked, options.bands).scenarios[0]
    _must_fit(scenario, told_tp=bool(cells["tp"]))
    workload = scenario.workload
    assumed = scenario.origins.get("workload.kv_bytes")
    return Group(
        rows=rows,
        scenario=scenario,
        other_kv_bytes=float(np.mean(workload.kv_bytes)) if assumed is None else other_kv_bytes(assumed),
        model=scenario.transformer.name,
        system=scenario.system.name,
        engine=scenario.stack.engine,
        weight_dtype=workload.weight_dtype,
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

"""What a table of runs does not say and what is taken instead, by column: an assumption that a page can name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.loading.bench.numbers import CONCURRENCY_BY

if TYPE_CHECKING:
    from nhalf.loading.cases import Cases, Group

_WHY: Final = {
    "tp": "one device",
    "engine": "the most used",
    "weight_dtype": "as the checkpoint is stored",
    "concurrency": "request rate times the time of a request",
    "library": "whose all-reduces the cluster file holds, else the engine's own",
    "kv_dtype": "what such servers mostly run, as every command takes it; bands hold fp8 and bf16",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """A value that was taken for some rows because their cell is empty, or the column is not there."""

    column: str
    value: str
    rows: int

    @property
    def reason(self) -> str:
        """Return why this value."""
        return _WHY[self.column]

    @property
    def unusual(self) -> bool:
        """Tell whether most tables say it, so that its lack may be a slip."""
        return self.column in ("tp", "engine", "concurrency")

    @property
    def text(self) -> str:
        """Return it as a sentence."""
        rows = "1 row has" if self.rows == 1 else f"{self.rows} rows have"
        return f"{rows} no {self.column}: {self.value} is taken, {self.reason}"


def assumptions(cases: Cases) -> list[Assumption]:
    """Return what was assumed of the rows that have a scenario, by column and value."""
    found: dict[tuple[str, str], int] = {}
    cells = {name: cases.table.column(name) for name in (*_WHY, "moe_dtype") if name in cases.table.header}
    for group in cases.groups:
        row = int(group.rows[0])  # all rows of a group have the same cells here
        told = {name: texts[row].strip() for name, texts in cells.items()}
        for column, value in _taken(group).items():
            said = told.get(column) or cases.defaults.get(column, "")
            if not said and not (column == "weight_dtype" and told.get("moe_dtype")):
                found[column, value] = found.get((column, value), 0) + len(group.rows)
    if CONCURRENCY_BY in cases.table.header:
        by = cases.table.column(CONCURRENCY_BY)
        for way, rows in Counter(by[row] for group in cases.groups for row in group.rows.tolist()).items():
            if way:
                found["concurrency", way] = rows
    return [Assumption(column=column, value=value, rows=rows) for (column, value), rows in sorted(found.items())]


def _taken(group: Group) -> dict[str, str]:
    """Return what a group's rows were taken for, by column."""
    workload, library = group.scenario.workload, group.scenario.stack.library.name
    return {
        **({"library": library} if group.scenario.system.like else {}),
        "tp": str(group.scenario.layout.tensor_parallel),
        "engine": group.engine,
        "weight_dtype": group.weight_dtype,
        "kv_dtype": workload.kv_dtype,
    }

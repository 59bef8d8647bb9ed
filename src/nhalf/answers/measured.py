"""Samples and fits that print in a few lines, and show a table in a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.answers.answer import html_table
from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.evidence import fit as fits
from nhalf.evidence import reading
from nhalf.evidence.fit import Fit
from nhalf.evidence.verdict import of_curve
from nhalf.sample import Sample

if TYPE_CHECKING:
    from nhalf.system import System

_SHOWN: Final = 20
_NUMBERS: Final = {
    "points": ("points", ""), "latency": ("latency_s", "s"), "bandwidth": ("bandwidth_bytes_per_s", "bytes/s"),
    "n_1/2": ("half_size_bytes", "bytes"), "floor": ("floor_s", "s"),
    "twice the floor at": ("double_floor_size_bytes", "bytes"),
}  # fmt: skip


class Samples(list[Sample]):
    """Measured points: a list of samples."""

    def table(self) -> list[dict[str, Any]]:
        """Return the points as rows, without what their source said about the machine."""
        names = [each.name for each in fields(Sample) if each.name != "environment"]
        return [{name: _plain(getattr(each, name)) for name in names} for each in self]

    def frame(self) -> Any:  # noqa: ANN401  a polars.DataFrame, an optional dependency
        """Return the points as a polars frame.

        Raises
        ------
        InputError
            Polars is not installed.
        """
        return _frame(self.table())

    def __repr__(self) -> str:
        """Return how many there are, and of what."""
        return f"<{type(self).__name__}: {self._said()}>"

    def _said(self) -> str:
        of = ", ".join(dict.fromkeys(f"{each.op} on {each.ranks} ranks" for each in self))
        sizes = [each.size_bytes for each in self] or [0.0]
        ends = " to ".join(units.format_size(size, binary=True) for size in (min(sizes), max(sizes)))
        return f"{len(self)} points of {of or 'nothing'}, {ends}"

    def _repr_html_(self) -> str:
        """Return the first points as a table."""
        rows = [
            [escape(each.op), units.format_size(each.size_bytes, binary=True), f"{each.ranks}",
             units.format_time(each.seconds), each.quantity]
            for each in self[:_SHOWN]
        ]  # fmt: skip
        table = html_table(["<operation", "size", "ranks", "time", "<timed"], rows)
        more = f"{len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return f"<div><b>{escape(self._said())}</b>{table}{more}</div>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Fitted(Fit):
    """The fitted curves of some logs, which print as what `nhalf fit` says of them."""

    @property
    def verdict(self) -> str:
        """Return what each curve says, in a sentence each."""
        return " ".join(of_curve(curve) for curve in self.curves)

    def table(self) -> list[dict[str, Any]]:
        """Return a row for each curve, by the keys of the contract."""
        return [
            {name: value for name, value in row.items() if not isinstance(value, dict | list)}
            for row in self.to_dict()["fits"]
        ]

    def frame(self) -> Any:  # noqa: ANN401  a polars.DataFrame, an optional dependency
        """Return a row for each curve as a polars frame.

        Raises
        ------
        InputError
            Polars is not installed.
        """
        return _frame(self.table())

    def __repr__(self) -> str:
        """Return the verdicts."""
        return f"<Fit: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Return the verdicts, and the numbers of each curve as a table."""
        rows = [
            [escape(str(curve.series.key)), *(_cell(row[key], unit) for key, unit in _NUMBERS.values())]
            for curve, row in zip(self.curves, self.table(), strict=True)
        ]
        said = "<br>".join(escape(of_curve(curve)) for curve in self.curves)
        return f"<div><p>{said}</p>{html_table(['<curve', *_NUMBERS], rows)}</div>"


def read(source: str | Path | Iterable[str | Path], **choices: Any) -> Samples:  # noqa: ANN401  those of `reading.read`
    """Return every measured point of logs: a file, a folder, `-` for standard input, or several of them.

    `op`, `ranks`, `nodes` and `mode` are taken where a log does not say; `format` names a reader where the content
    does not tell. Numbers without a size (a matrix of bandwidths, a barrier) are no samples; `nhalf.fit` of the path
    keeps them.

    Raises
    ------
    InputError
        A file cannot be read, holds no points, or leaves the operation or the ranks open.
    """
    several = [source] if isinstance(source, str | Path) else list(source) if isinstance(source, Iterable) else []
    if not several or not all(isinstance(each, str | Path) for each in several):
        raise InputError("no log is named", where="nhalf.read", allowed="a path, or several")
    return Samples(reading.read(source if isinstance(source, str | Path) else several, **choices))


def fit(samples: Any, *, system: System | str | None = None) -> Fitted:  # noqa: ANN401  samples come in many shapes
    """Return the fit of samples: a list of them, tables of logs, a dataframe or mapping of columns, or a path.

    Columns are `op`, `size_bytes` [bytes], `ranks` and `seconds` [s], and may be `nodes`, `mode`, `repeat`. `system`
    says what the ranks ran on, by its name or as one; it lets a sweep that stops early be continued to the link's
    ceiling, and a slope be compared with the link.

    >>> columns = {"op": "all-reduce", "ranks": 2, "size_bytes": [8, 1024, 1 << 20], "seconds": [5e-6, 5e-6, 1e-5]}
    >>> fit(columns).table()[0]["points"]
    3

    Raises
    ------
    InputError
        The samples cannot be read, or there are none.
    """
    known = store.system(system, where="system")[0] if isinstance(system, str) else system
    found = fits.fit(samples, system=known)
    return Fitted(**{each.name: getattr(found, each.name) for each in fields(Fit)})


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


def _frame(rows: list[dict[str, Any]]) -> Any:  # noqa: ANN401  a polars.DataFrame
    from nhalf.report.sweep_file import polars

    return polars().DataFrame(rows, infer_schema_length=None)


def _cell(value: Any, unit: str) -> str:  # noqa: ANN401  a number or none
    if value is None:
        return ""
    return units.format_value(float(value), unit) if unit else str(value)

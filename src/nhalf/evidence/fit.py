"""Fit measured times: one curve for each operation and set of ranks, and predictions with their bands from them all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.collective import Mode, Op
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.evidence.checks import checked, expected_link
from nhalf.evidence.columns import samples_of_columns
from nhalf.evidence.curvefit import CurveFit, fit_series
from nhalf.evidence.pooling import pooled
from nhalf.evidence.prediction import Curve, Family, band
from nhalf.evidence.series import Series, of_samples, of_table
from nhalf.evidence.table import Table
from nhalf.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from nhalf.breakdown import Array
    from nhalf.evidence.table import Skipped
    from nhalf.system import System

_LEAST: Final = 3
"""Sizes without which a curve predicts nothing."""
_IN_A_NODE: Final = 8
"""Ranks that one node holds when nobody says otherwise: HGX and DGX boards."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """The fitted curves of some logs. `system` is what the ranks ran on, where the user said so.

    `skipped` lists the lines that looked like results and were not read.
    """

    curves: tuple[CurveFit, ...]
    system: System | None = None
    skipped: tuple[Skipped, ...] = field(default=())

    def predict(
        self, size_bytes: ArrayLike, ranks: int, op: str | None = None, mode: str | None = None
    ) -> tuple[Array, Array, Array]:
        """Return the time [s] of messages of `size_bytes` [bytes] on `ranks` ranks, and its 80 % band, as arrays.

        Sizes follow the size column that was read; the three arrays have their shape. `op` and `mode` are needed
        only where the fit holds several. A rank count that was not measured is predicted from two others inside one
        node, never across a node boundary, where a library runs other kernels.

        Raises InputError when a size is not positive or the curve is ambiguous (the message lists the keys), and
        WeakEvidenceError when no measured curve can answer.
        """
        asked = np.asarray(size_bytes, dtype=np.float64)
        if not (np.isfinite(asked).all() and (asked > 0).all()):
            raise InputError("a size is not positive", where="size_bytes", allowed="sizes above 0 bytes")
        if ranks < 1:
            raise InputError(f"{ranks} ranks cannot be", where="ranks", allowed="1 or more")
        if ranks == 1:
            return np.zeros_like(asked), np.zeros_like(asked), np.zeros_like(asked)
        flat = asked.reshape(-1)
        family = self._family(op, mode)
        exact = [curve for curve in family if curve.series.key.ranks == ranks]
        if len(exact) > 1:
            raise self._ambiguous(exact)
        if exact:
            found = self._curve(exact[0]).answer(flat)
        else:
            curves = [self._curve(curve) for curve in self._domain(family, ranks)]
            found = Family(curves=curves).answer(flat, ranks)
        time, low, high = (values.reshape(asked.shape) for values in band(found))
        return time, low, high

    def select(self, **wanted: object) -> Fit:
        """Return the fit of only those curves whose key has the given values: `fit.select(nodes=2, label="run 1")`.

        Raises InputError when a key has no such field, or no curve is left.
        """
        fields = ("op", "test", "ranks", "nodes", "mode", "quantity", "dtype", "label", "file")
        for name in wanted:
            if name not in fields:
                raise InputError(f"a curve has no {name!r}", where="select", allowed=", ".join(fields))
        readers = {"op": Op.parse, "mode": Mode.parse}
        values = {
            name: readers[name](value, where=name) if name in readers and isinstance(value, str) else value
            for name, value in wanted.items()
        }
        kept = [c for c in self.curves if all(getattr(c.series.key, name) == value for name, value in values.items())]
        if not kept:
            raise self._no_curve(f"no curve has {', '.join(f'{name}={value}' for name, value in wanted.items())}")
        return replace(self, curves=tuple(kept))

    def only(self, curve: CurveFit) -> Fit:
        """Return the fit of one of its curves alone."""
        return replace(self, curves=(curve,))

    def to_dict(self) -> dict[str, Any]:
        """Return `fits`, `notes` and `skipped` with the keys of the contract."""
        from nhalf.evidence.verdict import of_curve

        return {
            "fits": [{**curve.to_dict(), "verdict": of_curve(curve)} for curve in self.curves],
            "notes": [
                {"code": note.code, "text": note.text, "curve": str(curve.series.key)}
                for curve in self.curves
                for note in curve.notes
            ],
            "skipped": [{"file": s.file, "line": s.line, "why": s.why} for s in self.skipped],
        }

    def plot(self) -> Any:  # noqa: ANN401  an altair chart, which is imported only here
        """Return a chart of every curve: points, segments, floor, ceiling, n_1/2 and the residuals of the line.

        Raises InputError when altair is not installed.
        """
        from nhalf.evidence.chart import chart

        return chart(self.curves)

    @property
    def answered(self) -> bool:
        """Return whether any curve gives a latency or a bandwidth."""
        return any(curve.latency is not None or curve.bandwidth is not None for curve in self.curves)

    def _curve(self, fit: CurveFit) -> Curve:
        if int(fit.series.good.sum()) < _LEAST:
            raise WeakEvidenceError(
                f"{fit.series.key} has {len(fit.series.sizes_bytes)} sizes", where="predict",
                allowed=f"a curve of {_LEAST} sizes or more", do="measure more sizes: -b 8 -e 1G -f 2",
            )  # fmt: skip
        link = expected_link(fit, self.system) if self.system is not None else None
        return Curve(fit=fit, link_bandwidth_bytes_per_s=float(link.bandwidth_bytes_per_s) if link else None)

    def _family(self, op: str | None, mode: str | None) -> list[CurveFit]:
        """Return the curves of one operation measured in one way."""
        want_op = Op.parse(op, where="op") if op is not None else None
        want_mode = Mode.parse(mode, where="mode") if mode is not None else None
        found = [
            curve
            for curve in self.curves
            if (want_op is None or curve.series.key.op == want_op)
            and (want_mode is None or curve.series.key.mode == want_mode)
            and len(curve.series.sizes_bytes)
        ]
        if not found:
            named = " and ".join(filter(None, (op and f"op {op}", mode and f"mode {mode}")))
            raise self._no_curve(f"there is no curve with {named or 'sizes'}")
        kinds = {replace(curve.series.key, ranks=None, nodes=None, file="") for curve in found}
        if len(kinds) > 1:
            raise self._ambiguous(found)
        return found

    def _domain(self, family: list[CurveFit], ranks: int) -> list[CurveFit]:
        """Return the curves inside one node from which other ranks can be predicted."""
        measured = sorted({curve.series.key.ranks or 0 for curve in family})
        where = f"predict on {ranks} ranks"
        here = f"measured: {', '.join(map(str, measured))} ranks"
        local = [c for c in family if (c.series.key.nodes or 1) == 1 and int(c.series.good.sum()) >= _LEAST]
        counts = sorted({curve.series.key.ranks or 0 for curve in local} - {0, 1})
        most = self.system.fabric.devices_per_node if self.system is not None else _IN_A_NODE
        if ranks > max([most, *counts]):
            raise WeakEvidenceError(
                f"that many ranks cross a node boundary, and other kernels run there; {here}", where=where,
                allowed=f"up to {max([most, *counts])} ranks", do=f"measure on {ranks} ranks",
            )  # fmt: skip
        if len(counts) < 2:  # noqa: PLR2004  one rank count says nothing of another
            raise WeakEvidenceError(
                f"one other rank count inside a node says nothing of this one; {here}", where=where,
                allowed="a measured rank count, or one predicted from two others of one node",
                do=f"measure on {ranks} ranks",
            )  # fmt: skip
        if len(local) > len(counts):
            raise self._ambiguous(local)
        return local

    def _ambiguous(self, curves: Sequence[CurveFit]) -> InputError:
        return InputError(
            f"{len(curves)} curves answer to this", where="predict", allowed="; ".join(_keys(curves)),
            do="say op=... or mode=..., or take one with fit.select(label=..., nodes=..., file=...)",
        )  # fmt: skip

    def _no_curve(self, what: str) -> InputError:
        return InputError(what, where="fit", allowed="; ".join(_keys(self.curves)) or "nothing: the fit is empty")


def _keys(curves: Sequence[CurveFit]) -> list[str]:
    keys = [curve.series.key for curve in curves]
    several = len({key.file for key in keys}) > 1
    return [f"{key} ({key.file})" if several and key.file else str(key) for key in keys]


def fit(samples: Any, *, system: System | None = None) -> Fit:  # noqa: ANN401  samples come in many shapes
    """Return the fit of samples: a list of them, tables of logs, a dataframe or mapping of columns, or a path.

    Columns are `op`, `size_bytes` [bytes], `ranks` and `seconds` [s], and may be `nodes`, `mode`, `repeat`. `system`
    says what the ranks ran on; it lets a sweep that stops early be continued to the link's ceiling, and a slope be
    compared with the link.

    Raises InputError when the samples cannot be read or there are none.
    """
    tables: Sequence[Table] = ()
    if isinstance(samples, (str, Path)):
        from nhalf.evidence.readers import read

        tables = read(samples)
    elif isinstance(samples, (list, tuple)) and samples and all(isinstance(item, Table) for item in samples):
        tables = samples
    skipped = tuple(skip for table in tables for skip in table.skipped)
    of_tables = [of_table(table) for table in pooled(tables) if table.rows]
    series = of_tables if tables else of_samples(_samples(samples))
    if not series:
        raise _nothing(skipped)
    return Fit(curves=tuple(_checked(each, system) for each in series), system=system, skipped=skipped)


def _nothing(skipped: Sequence[Skipped]) -> InputError:
    """Return the error of logs or columns without a row, with the first reason why a row was not read."""
    what, allowed = "there is nothing to fit: no row was read", "samples, tables or columns with rows"
    if not skipped:
        return InputError(what, where="fit", allowed=allowed, do="check the log")
    first = skipped[0]
    where = f"{first.file}:{first.line}" if first.line else first.file
    return InputError(f"{what}; {first.why}", where=where, allowed=allowed, do="check the log, or name its --format")


def _samples(given: Any) -> list[Sample]:  # noqa: ANN401
    if isinstance(given, (str, Path)):
        return []
    if isinstance(given, (list, tuple)) and all(isinstance(item, Sample) for item in given):
        return list(given)
    return samples_of_columns(given)


def _checked(series: Series, system: System | None) -> CurveFit:
    found = fit_series(series)
    notes, misconfigured = checked(found, system)
    return replace(found, notes=notes, misconfigured=misconfigured)

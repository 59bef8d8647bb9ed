"""A chart of fitted curves: points, segments, the two asymptotes and n_1/2 in log-log, and the residuals below."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.curvefit import CurveFit

_BETWEEN = 24  # points of a line that is straight in t and n, and so is curved in log-log


def chart(fits: Sequence[CurveFit]) -> Any:  # noqa: ANN401  an altair chart
    """Return an altair chart of the curves, one colour each.

    Raises InputError when altair is not installed.
    """
    try:
        alt: Any = import_module("altair")
    except ImportError as error:
        raise InputError(
            "altair is not installed",
            where="plot",
            allowed="the extra [report]",
            do="in the checkout: pip install '.[report]'",
        ) from error
    points = [row for fit in fits for row in _points(fit)]
    lines = [row for fit in fits for row in _lines(fit)]
    size = alt.X("size_bytes:Q", scale=alt.Scale(type="log"), title="size [bytes]")
    time = alt.Y("time_s:Q", scale=alt.Scale(type="log"), title="time [s]")
    measured = alt.Chart(alt.Data(values=points)).mark_point().encode(x=size, y=time, color="curve:N")
    drawn = (
        alt.Chart(alt.Data(values=lines))
        .mark_line()
        .encode(x=size, y=time, color="curve:N", detail="part:N", strokeDash="kind:N")
    )
    marks = [row for fit in fits for row in _marks(fit)]
    half = alt.Chart(alt.Data(values=marks)).mark_rule().encode(x=size, color="curve:N", strokeDash="kind:N")
    residual = (
        alt.Chart(alt.Data(values=points))
        .mark_bar()
        .encode(x=size, y=alt.Y("residual:Q", title="against one line"), color="curve:N")
    )
    return alt.vconcat((measured + drawn + half).properties(height=320), residual.properties(height=80))


def _points(fit: CurveFit) -> list[dict[str, Any]]:
    sizes, times = fit.fitted_points
    line = fit.line
    model = times if line is None else line.latency_s + sizes / line.bandwidth_bytes_per_s
    return [
        {"curve": str(fit.series.key), "size_bytes": n, "time_s": t, "residual": t / m - 1.0}
        for n, t, m in zip(sizes.tolist(), times.tolist(), model.tolist(), strict=True)
    ]


def _lines(fit: CurveFit) -> list[dict[str, Any]]:
    rows = []
    for number, segment in enumerate(fit.segments):
        sizes = np.geomspace(segment.from_bytes, segment.to_bytes, _BETWEEN)
        rows += _drawn(fit, "segment", f"segment {number}", sizes.tolist(), segment.times_s(sizes).tolist())
    if fit.segments and fit.floor_s is not None:
        ends = [fit.segments[0].from_bytes, fit.segments[-1].to_bytes]
        rows += _drawn(fit, "floor", "floor", ends, [fit.floor_s, fit.floor_s])
        if fit.bandwidth is not None:
            sizes = np.geomspace(max(ends[0], fit.floor_s * fit.bandwidth.value), ends[1], 2)
            rows += _drawn(fit, "ceiling", "ceiling", sizes.tolist(), (sizes / fit.bandwidth.value).tolist())
    return rows


def _drawn(fit: CurveFit, kind: str, part: str, sizes: list[float], times: list[float]) -> list[dict[str, Any]]:
    name = str(fit.series.key)
    return [
        {"curve": name, "kind": kind, "part": f"{name} {part}", "size_bytes": n, "time_s": t}
        for n, t in zip(sizes, times, strict=True)
    ]


def _marks(fit: CurveFit) -> list[dict[str, Any]]:
    marks = {"n_1/2": fit.half_size_bytes, "twice the floor": fit.double_floor_size_bytes}
    return [
        {"curve": str(fit.series.key), "kind": kind, "size_bytes": size}
        for kind, size in marks.items()
        if size is not None
    ]

"""What every figure shares: the noun, the palette, the axes of sizes and of times, and the way to altair.

Okabe and Ito's colours stay apart for readers who do not tell red from green; text takes the colour of the page, so
that one drawing serves light and dark.

References
----------
M. Okabe and K. Ito, "Color Universal Design" (2008), for the palette; WCAG 2.1, success criterion 1.4.3, for contrast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BLUE, SKY, GREEN, SAND = "#0072B2", "#56B4E9", "#009E73", "#DDCC77"
VERMILION, ORANGE, PURPLE, GREY, WINE = "#D55E00", "#E69F00", "#CC79A7", "#8C8C8C", "#AA4499"
PALETTE: Final = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, SAND, WINE, GREY)
COLUMNS: Final = {
    "weights": ("weights", BLUE), "experts": ("experts", SKY), "kv": ("KV cache", GREEN),
    "compute": ("arithmetic", SAND),
    "launch": ("per-layer overhead", GREY), "collective_fixed": ("collective latency", VERMILION),
    "collective_transfer": ("collective bytes", ORANGE), "hand_over": ("pipeline transfer", PURPLE),
    "prefill": ("prefill", WINE),
}  # fmt: skip
"""The words and the colour of each column of a step, in the order in which they are stacked."""
INK: Final = "currentColor"
WIDE: Final = 560
"""The width of a figure that stands alone [pixels]; on a page it takes the room that there is."""
_NARROW: Final = 2.3
"""Powers of ten on an axis up to which it has labels between them."""
_ROOMY: Final = 28
"""Pixels of a column that hold three digits and a point of ordinary size, with room on both sides."""
_DARK: Final = 0.179
"""The luminance below which white stands out more than black (equal contrast by WCAG's definition)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Figure:
    """One chart: an altair `chart` without a title, the `rows` that it shows (SI units in the keys), and words for it.

    `key` is unique on its page and names the files that are saved from it; `text` says what is to be seen, for readers
    who do not see it, and `note` how to read it.
    """

    key: str
    title: str
    text: str
    chart: Any
    rows: Sequence[Mapping[str, object]]
    note: str = ""


def altair() -> Any:  # noqa: ANN401  a module that is an extra
    """Return altair.

    Raises
    ------
    InputError
        It is not installed.
    """
    return needed("altair", "altair")


def needed(module: str, package: str) -> Any:  # noqa: ANN401  a module that is an extra
    """Return a module of the extra [report].

    Raises
    ------
    InputError
        It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"{package} is not installed",
            where="-o",
            allowed="the extra [report]",
            do="in the checkout: pip install '.[report]'",
        ) from error


def data(rows: Sequence[Mapping[str, object]]) -> Any:  # noqa: ANN401  altair data
    """Return rows as the data of a chart."""
    return altair().Data(values=list(rows))


def tips(*names: str) -> list[Any]:
    """Return what to show when a mark is pointed at: fields of text, in this order."""
    alt = altair()
    return [alt.Tooltip(f"{name}:N") for name in names]


def size_axis(field: str, *, low: float, high: float) -> Any:  # noqa: ANN401  an altair channel
    """Return the x axis of message sizes [bytes] in doublings, with binary units, a label every 16 times."""
    alt = altair()
    ticks = [float(2**power) for power in range(0, 44, 4) if low <= 2**power <= high]
    steps = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    label = "".join(
        f"datum.value >= {step} ? format(datum.value / {step}, '~g') + ' {unit}' : " for step, unit in steps
    )
    return alt.X(
        f"{field}:Q",
        title="message size",
        scale=alt.Scale(type="log", base=2, domain=[low, high], nice=False, clamp=True),
        axis=alt.Axis(values=ticks, labelExpr=f"{label}datum.value + ' B'", grid=True),
    )


def time_axis(field: str, *, low: float, high: float, title: str = "time") -> Any:  # noqa: ANN401  an altair channel
    """Return the y axis of times [s] in powers of ten, with their prefix."""
    alt = altair()
    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[low, high], nice=False, clamp=True),
        axis=alt.Axis(labelExpr=seconds("datum.value"), values=decades(low, high), grid=True),
    )


def decades(low: float, high: float) -> list[float]:
    """Return where a logarithmic axis has labels: 1, 2 and 5 of each power of ten, or 1 alone where those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if math.log10(high / low) <= _NARROW else (1,)
    # The nearest number to the text: 1e-06 and not 10 ** -6, which is a hair off and would be labelled so.
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


def seconds(value: str) -> str:
    """Return the Vega expression that writes a value [s] with its prefix."""
    steps = ((1, 1, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "us"))
    # A power of ten may come out a hair below itself.
    parts = "".join(
        f"{value} >= {0.9999999 * at:g} ? format({value} * {by:g}, '.3~g') + ' {to}' : " for at, by, to in steps
    )
    return f"{value} == 0 ? '0' : {parts}format({value} * 1e9, '.3~g') + ' ns'"


def log_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis that holds all values, with a little room."""
    return min(values) / 1.3, max(values) * 1.6


def on(colour: str) -> str:
    """Return black or white, whichever is read better on a colour."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]  # noqa: PLR2004  of sRGB
    luminance = sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "#FFFFFF" if luminance < _DARK else "#000000"


def numbers(columns: int) -> Any:  # noqa: ANN401  an altair expression
    """Return the size of the numbers in the cells of a map of so many columns: smaller where these are narrow."""
    return altair().expr(f"width < {_ROOMY * columns} ? 9.5 : 10.5")


def size(size_bytes: float) -> str:
    """Return a message size in binary units."""
    return units.format_size(size_bytes, binary=True)


def config(*, ink: str = INK, background: str | None = None) -> dict[str, Any]:
    """Return how charts look: no frame, quiet grid, and the colour of the page (or `ink`) for everything written."""
    font = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif"
    axis = {
        "labelColor": ink, "titleColor": ink, "domainColor": ink, "tickColor": ink, "gridColor": ink,
        "gridOpacity": 0.12, "domainOpacity": 0.5, "tickOpacity": 0.5, "labelFontSize": 11, "titleFontSize": 11,
        "titleFontWeight": "normal", "titlePadding": 8, "labelOverlap": "greedy",
    }  # fmt: skip
    return {
        "background": background,
        "font": font,
        "view": {"stroke": None},
        "axis": axis,
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
        "legend": {
            "labelColor": ink, "titleColor": ink, "orient": "top", "title": None, "labelFontSize": 11, "columns": 2,
            "symbolType": "square", "symbolStrokeWidth": 0, "labelLimit": 150, "columnPadding": 12, "offset": 6,
        },
        "title": {"color": ink, "fontSize": 13, "anchor": "start", "subtitleColor": ink, "fontWeight": 600},
        "range": {"category": list(PALETTE)},
    }  # fmt: skip

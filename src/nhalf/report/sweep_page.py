"""The answer of `nhalf sweep` as a page: slices through the fastest point, along each axis and over two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.decide.grid_slices import centre, cut, idle, names, scenario, values
from nhalf.decide.levers import elasticities
from nhalf.loading.changes import unit_of
from nhalf.report.fields import count
from nhalf.report.figures.figure import COLUMNS
from nhalf.report.figures.lines import Dot, lines
from nhalf.report.figures.regime import WORDS
from nhalf.report.figures.stacks import Stack, stacks
from nhalf.report.figures.tiles import Tile, tiles
from nhalf.report.page import Card, Page, Section, Table, constants, notes
from nhalf.report.sweep import shown
from nhalf.report.sweep import verdict as of_tally
from nhalf.report.view import percent
from nhalf.report.words import joined, mostly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.decide.grid import Grid, Spot, Tally
    from nhalf.decide.grid_slices import Value
    from nhalf.loading import Default
    from nhalf.report.figures.figure import Figure

_LINES: Final = 8
_ACROSS, _DOWN = 12, 16
"""The most columns and rows of a map."""
_BARS: Final = 16


def page(grid: Grid, tally: Tally, defaults: Sequence[Default], *, warnings: Sequence[str] = ()) -> Page:
    """Return the page of a sweep."""
    at = centre(grid, tally)
    varied = [name for name in names(grid) if len(values(grid, name)) > 1]
    numbers = [name for name in varied if name not in grid.outer]
    words = [name for name in varied if name in grid.outer]
    sections = [
        Section(
            key="axes",
            title="The step along each axis",
            lead=_through(tally, at),
            figures=[figure for name in numbers if (figure := _lines(grid, at, name, varied)) is not None],
        ),
        Section(
            key="bars",
            title="What the step is made of, by choice",
            lead=_through(tally, at),
            figures=[figure for name in words if (figure := _bars(grid, at, name)) is not None],
        ),
        Section(
            key="map",
            title="What takes most time, over two axes",
            lead=_through(tally, at),
            figures=_maps(grid, at, varied),
        ),
        Section(
            key="reasons",
            title="Points that are not legal",
            table=Table(
                heads=("points", "<why"),
                rows=[(f"{count}", why) for why, count in sorted(tally.reasons.items(), key=lambda item: -item[1])],
            )
            if tally.reasons
            else None,
        ),
    ]
    base = scenario(grid, at)

    over = joined([short(name) for name in varied or names(grid)])
    return Page(
        title=f"A sweep of {base.transformer.name if base is not None else 'nothing'} over {over}",
        verdict=[of_tally(grid, tally)],
        cards=_cards(grid, tally),
        sections=[section for section in sections if section.figures or section.table],
        constants=constants(base, elasticities(base)) if base is not None else [],
        notes=notes(warnings, defaults),
    )  # fmt: skip


def short(name: str) -> str:
    """Return the name of an axis without the noun that it belongs to: `inter_node latency` for a latency in seconds."""
    parts = name.split(".")
    if len(parts) == 1:
        return name.replace("_", " ")
    unit = unit_of(name)
    end = {"s": "_s", "bytes/s": "_bytes_per_s", "bytes": "_bytes"}.get(unit, "")
    return f"{parts[-2]} {parts[-1].removesuffix(end).replace('_', ' ')}"


def _value(name: str, value: Value) -> str:
    """Return a value of an axis with its unit."""
    return f"{value:g}" if isinstance(value, float) and unit_of(name) == "1" else shown(name, value)


def _through(tally: Tally, at: Mapping[str, Value]) -> str:
    """Return which point the slices go through."""
    what = "fastest point that fits" if tally.best is not None else "first legal point, because none fits in memory"
    point = ", ".join(f"{short(name)} {_value(name, value)}" for name, value in at.items())
    return f"Through the {what}: {point}."


def _cards(grid: Grid, tally: Tally) -> list[Card]:
    """Return the number of the sweep, if there is one, by the axes that make it."""
    if tally.best is None:
        return []
    still = idle(grid, tally.best.axes)
    moving = {name: value for name, value in tally.best.axes.items() if name not in still}
    return [
        Card(
            label=", ".join(f"{short(name)} {_value(name, value)}" for name, value in moving.items()) or "Step",
            number=f"{units.format_time(tally.best.numbers['step_s'])} per step",
            beside=(f"the fastest of {tally.fitting} points that fit, {mostly(tally.best.binding)}",),
        )
    ]


def _tips(spot: Spot) -> tuple[tuple[str, str], ...]:
    """Return what to show of a point: what binds, its rates, and the breakdown of its step."""
    if not spot.numbers:
        return (("why", spot.reason),)
    step = spot.step_s
    parts = tuple(
        (COLUMNS[name][0], f"{units.format_time(value)} ({percent(value / step)})")
        for name, value in spot.columns.items()
        if value > 0
    )
    return (
        ("binds", WORDS.get(spot.binding, "")), ("per user", f"{count(spot.tokens_per_s_per_user)} tokens/s"),
        ("per GPU", f"{count(spot.tokens_per_s_per_gpu)} tokens/s"), ("fits", spot.fits_memory), *parts,
    )  # fmt: skip


def _series(grid: Grid, name: str, varied: Sequence[str]) -> str | None:
    """Return the axis whose values are the lines of a chart along another: the first with few of them."""
    few = [each for each in varied if each != name and len(values(grid, each)) <= _LINES]
    return next(iter([each for each in few if each in grid.outer] or few), None)


def _lines(grid: Grid, at: Mapping[str, Value], name: str, varied: Sequence[str]) -> Figure | None:
    """Return the step along one axis of numbers, a line for each value of another; None where nothing is legal."""
    series = _series(grid, name, varied)
    spots = [spot for spot in cut(grid, at, [name, *([series] if series else [])]) if spot.numbers]
    if not spots:
        return None
    dots = [
        Dot(
            line="" if series is None else f"{short(series)} {_value(series, spot.axes[series])}",
            at=float(spot.axes[name]), step_s=spot.step_s, fits=spot.fits_memory != "no", tips=_tips(spot),
        )
        for spot in spots
    ]  # fmt: skip
    unit = unit_of(name)
    title = f"Along {short(name)}" + (f", by {short(series)}" if series else "")
    note = "Pale points do not fit in memory." if any(not dot.fits for dot in dots) else ""
    axis = (short(name), "" if unit == "1" else unit)
    return lines(dots, key=f"along-{_key(name)}", title=title, axis=axis, note=note)


def _key(name: str) -> str:
    """Return the name of an axis as a part of the name of a file."""
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def _bars(grid: Grid, at: Mapping[str, Value], name: str) -> Figure | None:
    """Return the steps of the values of an axis of choices, stacked by column; None where nothing is legal."""
    spots = [spot for spot in cut(grid, at, [name]) if spot.numbers][:_BARS]
    if not spots:
        return None
    least = min(spot.step_s for spot in spots if spot.fits_memory != "no" or all(s.fits_memory == "no" for s in spots))
    return stacks(
        [
            Stack(
                name=f"{short(name)} {_value(name, spot.axes[name])}",
                columns=spot.columns,
                label=units.format_time(spot.step_s) + ("" if spot.fits_memory != "no" else ", no fit"),
                bold=spot.step_s == least,
                faint=spot.fits_memory == "no",
                tips=_tips(spot)[:4],
            )
            for spot in spots
        ],
        key=f"by-{_key(name)}",
        title=f"By {short(name)}",
        axis="time of a step",
        note="Bold: the fastest that fits. Pale: does not fit in memory.",
    )


def _maps(grid: Grid, at: Mapping[str, Value], varied: Sequence[str]) -> list[Figure]:
    """Return the maps over the longest axis of numbers and the first of choices, and over the two longest axes."""
    longest = sorted(varied, key=lambda name: -len(values(grid, name)))
    words, numbers = ([name for name in longest if (name in grid.outer) == outer] for outer in (True, False))
    batch = [name for name in numbers if name == "batch"]
    pairs = [(batch or numbers)[:1] + sorted(words, key=varied.index)[:1], longest[:2]]
    wanted = {frozenset(pair): pair for pair in pairs if len(pair) == 2}  # noqa: PLR2004  a pair
    return [_map(grid, at, across, down, f"map-{place}") for place, (across, down) in enumerate(wanted.values())]


def _map(grid: Grid, at: Mapping[str, Value], across: str, down: str, key: str) -> Figure:
    """Return the map over two axes; of more values than there is room for, some are picked."""
    spots = cut(grid, at, [across, down], most=_ACROSS)
    columns, rows = (list(dict.fromkeys(spot.axes[name] for spot in spots)) for name in (across, down))
    kept = {across: set(columns[:: -(-len(columns) // _ACROSS)]), down: set(rows[:: -(-len(rows) // _DOWN)])}
    found = [
        Tile(
            across=_value(across, spot.axes[across]), down=_value(down, spot.axes[down]),
            binds=WORDS.get(spot.binding, ""),
            per_user=spot.tokens_per_s_per_user if spot.numbers else 0.0, fits=spot.fits_memory != "no",
            tips=tuple(tip for tip in _tips(spot) if tip[0] not in ("binds", "per user")),
        )
        for spot in sorted(spots, key=lambda spot: (rows.index(spot.axes[down]), columns.index(spot.axes[across])))
        if all(spot.axes[name] in held for name, held in kept.items())
    ]  # fmt: skip
    title = f"{short(across)} across, {short(down)} down"
    return tiles(found, key=key, title=title, axes=(short(across), short(down)))

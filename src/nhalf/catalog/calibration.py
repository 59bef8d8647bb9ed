"""The calibration that ships: constants fitted on measured runs, what those runs were of, and bands around them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from nhalf.catalog import files
from nhalf.catalog.naming import base_of
from nhalf.catalog.overlay import remembered
from nhalf.catalog.reading import convert
from nhalf.catalog.values import Ratio, Table
from nhalf.predict.residual import Bands

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.citation import Datum

GLOBAL: Final = "calibration/global.toml"
"""The file of the constants that hold for every stack."""
CLASSES: Final = "calibration/classes.toml"
"""The file of the bands of engines that no calibration has seen."""


class HalfWidths(Table, frozen=True, kw_only=True):
    """How far below and above a prediction 80 % of measured times lie, as factors of it."""

    low: Ratio
    high: Ratio


class Seen(Table, frozen=True, kw_only=True):
    """What the constants were fitted on: models, by family, systems and engines."""

    families: dict[str, tuple[str, ...]]
    systems: tuple[str, ...]
    engines: tuple[str, ...]
    versions: dict[str, tuple[str, ...]]


class Runs(Table, frozen=True, kw_only=True):
    """The measured runs: how many, of how many stacks and models, and the errors in the median and at the 90th."""

    rows: int
    clusters: int
    median_error: float
    p90_error: float


class CalibrationFile(Table, frozen=True, kw_only=True):
    """The whole file; bands are by kind of model, then by what is new."""

    runs: Runs
    seen: Seen
    bands: dict[str, dict[str, HalfWidths]]
    identified: tuple[str, ...]
    constants: dict[str, dict[str, Any]]
    routing: dict[str, Ratio]


class ClassesFile(Table, frozen=True, kw_only=True):
    """The whole file of the classes."""

    bands: dict[str, HalfWidths]


def tables() -> Mapping[str, Any]:
    """Return the tables of the calibrated constants by name; none where there is no calibration."""
    found: Mapping[str, Any] = files.own_tables(GLOBAL).get("constants", {})
    return found


@remembered
def calibration() -> CalibrationFile:
    """Return the calibration that ships.

    Raises InputError when its file departs from its form.
    """
    return convert(files.own_tables(GLOBAL), CalibrationFile, where=files.place(GLOBAL))


@remembered
def bands() -> Bands:
    """Return the bands around predictions by the constants that ship."""
    file = calibration()
    classes = convert(files.own_tables(CLASSES), ClassesFile, where=files.place(CLASSES))
    return Bands(
        widths={
            kind: {name: _half_widths(name, each) for name, each in (widths | classes.bands).items()}
            for kind, widths in file.bands.items()
        },
        models=frozenset(model for models in file.seen.families.values() for model in models),
        systems=frozenset(file.seen.systems),
        engines=frozenset(file.seen.engines),
        versions=file.seen.versions,
    )


def _half_widths(name: str, entry: HalfWidths) -> tuple[float, float]:
    """Return the half-widths of a band as logarithms."""
    where = f"{files.place(GLOBAL)} [bands.{name}]"
    low, high = entry.low.datum(where).value, entry.high.datum(where).value
    return -math.log(low), math.log(high)


@remembered
def concentration(model: str) -> Datum | None:
    """Return the routing concentration of a model's family, None where its runs could not tell one."""
    family = families().get(base_of(model)) or families().get(model, "")
    entry = calibration().routing.get(family)
    return None if entry is None else entry.datum(f"{files.place(GLOBAL)} [routing.{family}]")


def families() -> dict[str, str]:
    """Return the family of each model that the constants were fitted on."""
    return {model: family for family, models in calibration().seen.families.items() for model in models}

"""Stack files: the constants of one stack, as `nhalf calibrate` writes them and `--stack` reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nhalf.catalog import store
from nhalf.catalog.reading import convert, parse
from nhalf.catalog.schema import Constants, SomeConstants, data
from nhalf.errors import InputError
from nhalf.files.reading import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.citation import Datum
    from nhalf.scenario import Scenario

PRIORS = "priors"
"""The name that stands for the constants assumed before any calibration, instead of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFile:
    """The constants of a stack by the name of their field (`layer_time_s`), and the half-widths of its band or None."""

    name: str
    constants: Mapping[str, Datum]
    half_widths: tuple[float, float] | None = None

    def applied(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the constants of the stack, and their origins."""
        constants = self.constants
        if self.name == PRIORS:
            constants = store.constant_data(calibrated=False, engine=scenario.stack.engine)
        values = {name: datum.value for name, datum in constants.items()}
        origins = {f"stack.{name}": datum for name, datum in constants.items()}
        return replace(scenario, stack=replace(scenario.stack, **values), origins={**scenario.origins, **origins})  # type: ignore[arg-type]


def read_stack(text: str) -> StackFile:
    """Return the stack that `--stack` names: a file, or `priors`.

    Raises
    ------
    InputError
        The file cannot be read, or a constant in it is unknown, has no unit, or is impossible.
    """
    if text == PRIORS:
        return StackFile(name=PRIORS, constants=store.constant_data(calibrated=False))
    path = Path(text)
    if not path.is_file() and path.suffix != ".toml":
        raise InputError(f"there is no file {text!r}", where="--stack", allowed=f"a stack.toml, or {PRIORS}")
    tables = parse(
        read_text(path),
        where=str(path),
        dates={},
        defaults={"source": path.name, "locator": "constants", "kind": "given"},
        shorthand=frozenset(Constants.__struct_fields__),
    )
    return of_tables(tables, text)


def of_tables(tables: Mapping[str, Any], name: str) -> StackFile:
    """Return the stack that the tables of a file hold: `constants`, and a `band` or None.

    Raises
    ------
    InputError
        There are no constants, or one is unknown or impossible.
    """
    given = tables.get("constants")
    if not isinstance(given, dict) or not given:
        raise InputError("no table of constants", where=name, allowed='[constants] with layer_time = "30 us", ...')
    return StackFile(name=name, constants=_constants(given, name), half_widths=_band(tables, name))


def _constants(given: dict[str, Any], where: str) -> dict[str, Datum]:
    """Return the constants that a file states; the others stay what they are."""
    return dict(data(convert(given, SomeConstants, where=f"{where} [constants]"), where=where))


def _band(tables: Mapping[str, Any], where: str) -> tuple[float, float] | None:
    """Return the half-widths [1] of the band that a file states, as logarithms."""
    band = tables.get("band")
    if band is None:
        return None
    low, high = (band.get(name) if isinstance(band, dict) else None for name in ("low", "high"))
    if not isinstance(low, float) or not isinstance(high, float) or not 0 < low <= 1 <= high:
        raise InputError(f"band {band!r} is no band", where=where, allowed="low = 0.9 and high = 1.1")
    return -math.log(low), math.log(high)

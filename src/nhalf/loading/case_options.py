"""Options of a table of runs: defaults for what it does not say, and whose constants predict it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.catalog import calibration
from nhalf.loading.case_defaults import check
from nhalf.loading.cases import Options
from nhalf.loading.stack_file import PRIORS, read_stack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.predict.residual import Bands


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What flags make: the options of the cases, and the bands around their predictions."""

    options: Options
    bands: Bands


def options(stack: str | None, defaults: Mapping[str, str | None]) -> Chosen:
    """Return the options that flags make; `stack` is a file, `priors`, or None for the calibration that ships.

    Raises
    ------
    InputError
        The file of the stack cannot be read, or a flag says what no row can mean.
    """
    given = {name: text for name, text in defaults.items() if text}
    check(given)
    bands = calibration.bands()
    if stack is None:
        return Chosen(options=Options(defaults=given), bands=bands)
    if stack == PRIORS:
        return Chosen(options=Options(defaults=given, calibrated=False), bands=bands)
    file = read_stack(stack)
    if file.half_widths:
        bands = bands.measured(file.half_widths)
    return Chosen(options=Options(defaults=given, constants=file.constants), bands=bands)

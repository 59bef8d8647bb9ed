"""Options of a table of runs: defaults for what it does not say, and whose constants predict it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.loading.case_defaults import check
from nhalf.loading.cases import Options
from nhalf.loading.inputs import BY_NAME
from nhalf.loading.readers import not_empty
from nhalf.loading.stack_file import PRIORS, read_stack

if TYPE_CHECKING:
    from collections.abc import Mapping


def options(stack: str | None, defaults: Mapping[str, str | None]) -> Options:
    """Return the options that flags make; `stack` is a file, `priors`, or None for the calibration that ships.

    Raises
    ------
    InputError
        The file of the stack cannot be read, or a flag says what no row can mean.
    """
    not_empty({BY_NAME[name].on_command_line: text for name, text in defaults.items()} | {"--stack": stack})
    given = {BY_NAME[name].column: text for name, text in defaults.items() if text}
    check(given)
    if stack is None:
        return Options(defaults=given)
    if stack == PRIORS:
        return Options(defaults=given, calibrated=False)
    file = read_stack(stack)
    return Options(defaults=given, constants=file.constants, half_widths=file.half_widths)

"""What is said for every row of a table at once, by flags or behind a file's name: checked before any row is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.catalog import store
from nhalf.errors import InputError, did_you_mean
from nhalf.loading.case_columns import DEGREES, LARGEST, NUMBERS, degree, number_of
from nhalf.loading.dtypes import DTYPES
from nhalf.loading.inputs import INPUTS, TABLES
from nhalf.loading.model import model_of

if TYPE_CHECKING:
    from collections.abc import Mapping

FLAGS: Final = {row.column: row.on_command_line
                for row in INPUTS if set(TABLES) & set(row.commands) and row.column}  # fmt: skip
"""The flag that states a column, in the order of a command line."""


def check(said: Mapping[str, str], *, where: str = "") -> None:
    """Refuse what no row could mean; `where` names the place, or each column its flag.

    Raises
    ------
    InputError
        A name that the catalogue does not have, a dtype or degree that is none, or a number outside its range.
    """
    for name, text in said.items():
        place = where or FLAGS.get(name, name)
        if name in ("system", "engine"):
            store.find(name, text, where=place)
        elif name == "model":
            _model(text, place)
        elif name in ("weight_dtype", "moe_dtype", "kv_dtype"):
            if text.strip().lower() not in DTYPES:
                raise InputError(f"dtype {text!r} is not known", where=place, do=did_you_mean(text, DTYPES))
        elif name in DEGREES:
            degree(text, name, where=place)
        elif name in NUMBERS and not 0 <= number_of(text) <= LARGEST:
            raise InputError(f"{name} {text!r} is not a number", where=place, allowed=f"0 to {LARGEST:,.0f}")


def _model(text: str, where: str) -> None:
    """Refuse a name of no model.

    Raises
    ------
    InputError
        It is none.
    """
    try:
        model_of(text)
    except InputError as error:
        raise InputError(error.what, where=where, allowed=error.allowed, do=error.do) from error

"""Where a number comes from: a `Source` is a document or a machine, a `Datum` is one value taken from it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from nhalf.errors import InputError, did_you_mean

Kind = Literal["datasheet", "measured", "fitted", "derived", "assumed", "given"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)

_DATE = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A document, a data set or a machine that values are taken from.

    `url` is where it can be read, or empty; `date` is when it was published or read (ISO, may be only a year or a
    month); `licence` is the licence of its data, or empty when single facts are cited from it.

    Raises InputError when the key or the title is blank or the date is not an ISO date.
    """

    key: str
    title: str
    url: str = ""
    date: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        """Refuse a source that a reader could not find again."""
        where = f"source {self.key!r}"
        _refuse_blank(where, key=self.key, title=self.title)
        _refuse_date(where, self.date)


@dataclass(frozen=True, slots=True, kw_only=True)
class Datum:
    """One value with its unit, and everything needed to find it again or to doubt it.

    `value`, `low` and `high` are in `unit` ("s", "bytes", "bytes/s", "FLOP/s", "1", "$"); `source` is the key of a
    Source, or the flag or file that gave the value; `locator` is the place inside it (page, table, row, field).
    `low` and `high` bound the value; either may be unknown (None).

    Raises InputError when source, unit or locator is blank, the kind is unknown, the date is not an ISO date, a number
    is not finite, or the value lies outside [low, high].
    """

    value: float
    unit: str
    source: str
    locator: str
    kind: Kind
    date: str
    low: float | None = None
    high: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse a value that cannot be traced or that contradicts its own bounds."""
        where = f"value from {self.source!r}, {self.locator!r}"
        _refuse_blank(where, source=self.source, unit=self.unit, locator=self.locator)
        if self.kind not in KINDS:
            raise InputError(
                f"kind {self.kind!r} is unknown",
                where=where,
                allowed=", ".join(KINDS),
                do=did_you_mean(str(self.kind), KINDS),
            )
        _refuse_date(where, self.date)
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None or name == "value":
                # A frozen instance is set this once, so that an int or a NumPy scalar becomes a plain float.
                object.__setattr__(self, name, _finite(where, name, number))
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        if not low <= self.value <= high:
            raise InputError(
                f"value {self.value!r} is outside low {self.low!r} and high {self.high!r} [{self.unit}]",
                where=where,
                allowed="low <= value <= high",
                do="swap the bounds or correct the value",
            )


def _refuse_blank(where: str, **fields: str) -> None:
    for name, text in fields.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{name} is blank", where=where, allowed="any text", do=f"say the {name}")


def _refuse_date(where: str, date: str) -> None:
    if not isinstance(date, str) or (date and not _DATE.fullmatch(date)):
        raise InputError(
            f"date {date!r} is not an ISO date",
            where=where,
            allowed="2026, 2026-02, 2026-02-28, or empty when unknown",
        )


def _finite(where: str, name: str, number: object) -> float:
    try:
        # bool is an int to Python, but never a quantity; text is for nhalf.units to read.
        converted = math.nan if isinstance(number, (bool, str)) else float(number)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        converted = math.nan
    if not math.isfinite(converted):
        raise InputError(
            f"{name} {number!r} is not a finite number", where=where, allowed="a finite number in its unit"
        )
    return converted

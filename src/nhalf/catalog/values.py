"""Values as the files of the catalogue write them: a text with its unit and origin, read into a Datum in SI units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec

from nhalf import units
from nhalf.citation import Datum, Kind
from nhalf.errors import InputError
from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from collections.abc import Iterator

_Positive = Annotated[int, msgspec.Meta(ge=1)]

"""Standard deviations from the median to the ends of a 95 % interval of a normal distribution."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a file, in which an unknown key is an error."""


class Value(Table, frozen=True, kw_only=True):
    """One value as text with its unit, and its origin.

    `low` and `high` are texts like `value`: what other sources say, or the 95 % interval of a fitted or assumed
    parameter. `log_sd`, the standard deviation of its logarithm, gives that interval instead; `low` and `high` then
    are what it cannot pass: no efficiency is above 1.
    """

    unit: ClassVar[str]
    suffix: ClassVar[str]

    value: str
    source: str
    locator: str
    kind: Kind
    date: str = ""
    low: str | None = None
    high: str | None = None
    log_sd: float | None = None
    note: str = ""

    def datum(self, where: str) -> Datum:
        """Return the value in SI units, with its origin.

        Raises InputError when the text has no unit or another dimension's, or the bounds contradict it.
        """
        value = self._si(self.value, where)
        low, high = (None if text is None else self._si(text, where) for text in (self.low, self.high))
        if self.log_sd is not None:
            spread = math.exp(Z95 * self.log_sd)
            low, high = max(value / spread, low or 0.0), min(value * spread, high or math.inf)
        try:
            return Datum(
                value=value,
                unit=self.unit,
                source=self.source,
                locator=self.locator,
                kind=self.kind,
                date=self.date,
                low=low,
                high=high,
                note=self.note,
            )
        except InputError as error:  # it knows what is wrong, and not where the text stands
            raise InputError(error.what, where=where, allowed=error.allowed, do=error.do) from error

    def _si(self, text: str, where: str) -> float:
        return units.parse_for_unit(text, self.unit, where=where)


class Time(Value, frozen=True, kw_only=True):
    """A time [s]."""

    unit: ClassVar[str] = "s"
    suffix: ClassVar[str] = "_s"


class Size(Value, frozen=True, kw_only=True):
    """A size [bytes]."""

    unit: ClassVar[str] = "bytes"
    suffix: ClassVar[str] = "_bytes"


class Rate(Value, frozen=True, kw_only=True):
    """A rate of bytes [bytes/s] that has no direction, such as that of a memory."""

    unit: ClassVar[str] = "bytes/s"
    suffix: ClassVar[str] = "_bytes_per_s"


class FlopRate(Value, frozen=True, kw_only=True):
    """A rate of operations [FLOP/s]."""

    unit: ClassVar[str] = "FLOP/s"
    suffix: ClassVar[str] = "_flop_per_s"


class Ratio(Value, frozen=True, kw_only=True):
    """A plain number [1]."""

    unit: ClassVar[str] = "1"
    suffix: ClassVar[str] = ""


class Count(Ratio, frozen=True, kw_only=True):
    """A whole number of 1 or more [1]."""

    def _si(self, text: str, where: str) -> float:
        return float(units.parse_count(text, where=where))


class Bandwidth(Rate, frozen=True, kw_only=True):
    """A bandwidth of a link [bytes/s], as its source states it; it is converted to one direction of one device.

    `per = "node"` is shared by `devices`; `per = "link"` counts `links` links side by side; `direction = "both"` adds
    the two directions up.
    """

    per: Literal["device", "node", "link"]
    direction: Literal["one_way", "both"]
    devices: _Positive | None = None
    links: _Positive | None = None

    def _si(self, text: str, where: str) -> float:
        total = units.parse_for_unit(text, self.unit, where=where) * (self.links or 1) / (self.devices or 1)
        return total / 2.0 if self.direction == "both" else total

    def datum(self, where: str) -> Datum:
        """Return the bandwidth of one device in one direction, with its origin.

        Raises InputError as `Value.datum` does, and when the counts do not go with `per`.
        """
        wanted = {"device": (False, False), "node": (True, False), "link": (False, True)}[self.per]
        if (self.devices is not None, self.links is not None) != wanted:
            raise InputError(
                f'per = "{self.per}" does not go with devices = {self.devices} and links = {self.links}',
                where=where,
                allowed='per = "device" alone, "node" with devices, "link" with links',
            )
        return super().datum(where)


def data(entry: msgspec.Struct, *, where: str) -> Iterator[tuple[str, Datum]]:
    """Yield every value below an entry: its path with the suffix of the unit (`device.memory_bytes`), and its Datum.

    Raises InputError when a value cannot be read; the message names the field as the file does.
    """
    for name, value in _values(entry, ""):
        yield f"{name}{value.suffix}", value.datum(f"{where}, {name}")


def _values(entry: msgspec.Struct, path: str) -> Iterator[tuple[str, Value]]:
    for name in entry.__struct_fields__:
        field = getattr(entry, name)
        if isinstance(field, Value):
            yield f"{path}{name}", field
        elif isinstance(field, msgspec.Struct):
            yield from _values(field, f"{path}{name}.")

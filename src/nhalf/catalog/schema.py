"""The shapes of the catalogue's files: a value with its unit and origin, and the entries made of values.

A field is named like the field of the noun it fills, without the unit: `latency = { value = "5 us", ... }` fills
`latency_s`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import msgspec

from nhalf import units
from nhalf.citation import Datum, Kind
from nhalf.collective import Algorithm, Mode
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_Positive = Annotated[int, msgspec.Meta(ge=1)]

_Z95: Final = 1.96
"""Standard deviations from the median to the ends of a 95 % interval of a normal distribution."""


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a file, in which an unknown key is an error."""


class Value(_Table, frozen=True, kw_only=True):
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
            spread = math.exp(_Z95 * self.log_sd)
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


class LinkEntry(_Table, frozen=True, kw_only=True):
    """The two numbers of a link."""

    latency: Time
    bandwidth: Bandwidth


class NamedLink(LinkEntry, frozen=True, kw_only=True):
    """A link of the catalogue of links."""

    title: str


class LinksFile(_Table, frozen=True, kw_only=True):
    """A file of links by name."""

    links: dict[str, dict[str, Any]]


class DeviceEntry(_Table, frozen=True, kw_only=True):
    """An accelerator."""

    name: str
    architecture: str
    memory: Size
    memory_bandwidth: Rate
    bf16: FlopRate
    fp8: FlopRate
    fp4: FlopRate


class FabricEntry(_Table, frozen=True, kw_only=True):
    """The tiers of a cluster."""

    devices_per_node: Count
    nics_per_node: Count
    intra_node: LinkEntry
    inter_node: LinkEntry


class SystemEntry(_Table, frozen=True, kw_only=True):
    """A system: one file each."""

    title: str
    device: DeviceEntry
    fabric: FabricEntry
    curve_factor: Ratio


class Constants(_Table, frozen=True, kw_only=True):
    """The constants of a decode step."""

    memory_efficiency: Ratio
    kv_efficiency: Ratio
    flop_efficiency: Ratio
    prefill_efficiency: Ratio
    fp8_exponent: Ratio
    layer_time: Time
    step_time: Time
    sequence_time: Time
    collective_excess: Time
    host_launch: Time
    kernels_per_layer: Ratio
    software_factor: Ratio


class EngineEntry(_Table, frozen=True, kw_only=True):
    """A serving engine, the library it brings and the mode it runs in unless told otherwise."""

    title: str
    library: str
    mode: Mode


class LibraryEntry(_Table, frozen=True, kw_only=True):
    """A communication library: what it can run where, and whose tuner plans for it across nodes."""

    title: str
    in_node: tuple[Algorithm, ...]
    across_nodes: tuple[Algorithm, ...]
    tuner: str


class PathEntry(_Table, frozen=True, kw_only=True):
    """One algorithm and protocol of a tuner, as far as the hardware does not matter."""

    algorithm: Algorithm
    protocol: str
    base: Time
    intra_step: Time
    inter_step: Time
    bandwidth_share: Ratio


class PathsEntry(_Table, frozen=True, kw_only=True):
    """The paths of a tuner."""

    tree_ll: PathEntry
    tree_ll128: PathEntry
    tree_simple: PathEntry
    ring_ll: PathEntry
    ring_ll128: PathEntry
    ring_simple: PathEntry


class LimitsEntry(_Table, frozen=True, kw_only=True):
    """What each path of a tuner cannot exceed on one architecture."""

    tree_ll: Rate
    tree_ll128: Rate
    tree_simple: Rate
    ring_ll: Rate
    ring_ll128: Rate
    ring_simple: Rate


class SourceEntry(_Table, frozen=True, kw_only=True):
    """A source."""

    title: str
    date: str
    url: str = ""
    licence: str = ""


class ModelOrigin(_Table, frozen=True, kw_only=True):
    """Where a model's config.json comes from; the key `nhalf` of a model file."""

    source: str
    locator: str
    date: str


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

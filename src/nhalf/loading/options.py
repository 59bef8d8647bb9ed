"""Options: what `nhalf decode` asks for beyond model, system, layout and batch, read from flags, files and keywords."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_DRAFT_TOKENS: Final = 64
"""More drafted tokens than this are a mistake: nobody accepts so many in a row."""
MOST_SKEW: Final = 64.0
MOST_REPLICAS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options by the names of their flags; None or False where they were not given.

    `phase` is what to predict, `chunk` [tokens] the chunk of a prefill, `kv_transfer` a link (a name, or latency and
    bandwidth), `cp_exchange` how context parallelism shares keys and values. `draft_tokens` are guessed each step and
    each accepted with chance `acceptance`. `exchange` and `skew` are of tokens on their way to experts. The rest are
    remedies against the cost of communication (`stack.Remedies`), but for `p2p`, which takes peer access away.
    """

    phase: str | None = None
    chunk: int | None = None
    kv_transfer: str | None = None
    cp_exchange: str | None = None
    draft_tokens: int | None = None
    acceptance: float | None = None
    exchange: str | None = None
    skew: float | None = None
    replicas: int | None = None
    fuse_norm: bool = False
    fuse: int | None = None
    overlap: float | None = None
    two_batch_overlap: bool = False
    quantised_all_reduce: str | None = None
    kernel_bypass: str | None = None
    p2p: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Return the options that were given, by name."""
        return {name: value for name in NAMES if (value := getattr(self, name)) not in (None, False)}

    def updated(self, values: Mapping[str, Any]) -> Options:
        """Return the options with some values of flags or keys, texts or plain values, read and put in; None is none.

        Raises
        ------
        InputError
            A value that is not possible.
        """
        return replace(
            self, **{name: _READERS[name](value, _flag(name)) for name, value in values.items() if value is not None}
        )


NAMES: Final = tuple(item.name for item in fields(Options))
"""The names of the options: flags of `nhalf decode`, keys of a scenario file, choices of `nhalf.load`."""


SWITCHES: Final = tuple(item.name for item in fields(Options) if item.default is False)
"""Those that are on or off without a value."""


def _flag(name: str) -> str:
    """Return the flag of an option."""
    return f"--{name.replace('_', '-')}"


def _count(value: object, where: str) -> int:
    """Return a whole number of 1 or more."""
    return units.parse_count(str(value), where=where)


def _few(most: int) -> Callable[[object, str], int]:
    """Return a reader of whole numbers from 1 to a most."""

    def read(value: object, where: str) -> int:
        count = _count(value, where)
        if count > most:
            raise InputError(f"{count} is more than anybody uses", where=where, allowed=f"1 to {most:,}")
        return count

    return read


def _share(value: object, where: str) -> float:
    """Return a share of more than 0 and at most 1; a percentage will do."""
    share = units.parse(str(value), "ratio", where=where)
    if not 0 < share <= 1:
        raise InputError(f"{value} is no share", where=where, allowed="more than 0, at most 1 (or 100 %)")
    return share


def _skew(value: object, where: str) -> float:
    """Return what the busiest rank gets over the mean."""
    skew = units.parse(str(value), "ratio", where=where)
    if not 1 <= skew <= MOST_SKEW:
        what = f"{value} is no ratio of the busiest rank to the mean"
        raise InputError(what, where=where, allowed=f"1 (even) to {MOST_SKEW:g}")
    return skew


def _one_of(*names: str) -> Callable[[object, str], str]:
    """Return a reader of one of some names."""

    def read(value: object, where: str) -> str:
        name = str(value).lower()
        if name not in names:
            raise InputError(
                f"{value!r} is not one of the choices",
                where=where,
                allowed=", ".join(names),
                do=did_you_mean(name, names),
            )
        return name

    return read


def _switch(value: object, where: str) -> bool:
    """Return whether a switch is on."""
    if not isinstance(value, bool):
        raise InputError(f"{value!r} is neither true nor false", where=where, allowed="true, false")
    return value


def _text(value: object, where: str) -> str:
    """Return a text."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{value!r} is no link", where=where, allowed="LATENCY,BANDWIDTH (5us,50GB/s), or a name")
    return value


_READERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "phase": _one_of("decode", "prefill"),
    "chunk": _count,
    "kv_transfer": _text,
    "cp_exchange": _one_of("all-gather", "ring"),
    "draft_tokens": _few(MOST_DRAFT_TOKENS),
    "acceptance": _share,
    "exchange": _one_of("all-gather", "all-to-all"),
    "skew": _skew,
    "replicas": _few(MOST_REPLICAS),
    "fuse_norm": _switch,
    "fuse": _count,
    "overlap": _share,
    "two_batch_overlap": _switch,
    "quantised_all_reduce": _one_of("fp8"),
    "kernel_bypass": _one_of("on", "off"),
    "p2p": _one_of("on", "off"),
}

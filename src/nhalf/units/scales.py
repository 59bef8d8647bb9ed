"""The units of each kind of quantity: every prefix, 1024, and the factor of eight between bits and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Scale(NamedTuple):
    """A multiplier: a power of ten, which text can carry exactly (`5us` is float("5e-6")), times a factor."""

    power: int = 0
    factor: float = 1.0


# The prefix table, and the only one. Decimal: BIPM, "The International System of Units", 9th ed. (2019), table 7, those
# in use here; `K` is an everyday spelling of `k`, `u` of micro, and the micro sign has two code points. Binary: IEC
# 80000-13.
NONE: Final = {"": Scale()}
SMALL: Final = {"n": Scale(-9), "u": Scale(-6), "\u00b5": Scale(-6), "\u03bc": Scale(-6), "m": Scale(-3)}
LARGE: Final = {"k": Scale(3), "K": Scale(3)} | {p: Scale(3 * n) for n, p in enumerate("MGTPE", start=2)}
BINARY: Final = {p + "i": Scale(0, 1024.0**n) for n, p in enumerate("KMGTPE", start=1)}
_BIT: Final = 1.0 / 8.0  # [bytes]
_MINUTE: Final = 60.0  # [s]


def _spell(prefixes: Mapping[str, Scale], *names: str, factor: float = 1.0) -> dict[str, Scale]:
    """Return every prefix with every name, one multiplier each."""
    return {p + name: Scale(s.power, s.factor * factor) for p, s in prefixes.items() for name in names}


_SIZES: Final = {
    **_spell(NONE | LARGE | BINARY, "B"),
    **_spell(NONE, "byte", "bytes"),
    **_spell(NONE | LARGE, "bit", factor=_BIT),
    **_spell(NONE, "bits", factor=_BIT),
    **_spell(LARGE, "b", factor=_BIT),  # not a lone `b`: in a size it is a slip for `B`, or it means a billion
}
_BANDWIDTHS: Final = {
    **{f"{name}/s": scale for name, scale in _SIZES.items()},
    **_spell(NONE | LARGE | BINARY, "Bps"),
    **_spell(NONE | LARGE, "b/s", "bps", factor=_BIT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """What one kind of quantity accepts; `endings` are those tried on a text that stops short of a unit."""

    noun: str
    unit: str
    units: Mapping[str, Scale]
    allowed: str
    example: str
    endings: tuple[str, ...] = ()
    zero: bool = True


DIMENSIONS: Final = {
    "time": Dimension(
        noun="a time",
        unit="s",
        units={**_spell(NONE | SMALL, "s"), "min": Scale(0, _MINUTE)},
        allowed="a time of 0 or more in ns, us, ms, s or min, such as 5us or 1.2 ms",
        example="{}us",
        endings=("s", "in"),
    ),
    "size": Dimension(
        noun="a size",
        unit="bytes",
        units=_SIZES,
        allowed="a size of 0 or more in B, kB, MB, GB (of 1000), in KiB, MiB, GiB (of 1024), or in bits (Mb, Mbit), "
        "such as 16KiB or 2 MB",
        example="{}B",
        endings=("B", "iB"),
    ),
    "bandwidth": Dimension(
        noun="a rate",
        unit="bytes/s",
        units=_BANDWIDTHS,
        allowed="a rate above 0 in bytes (GB/s, GBps, GiB/s, TB/s) or in bits (Gb/s, Gbps, Gbit/s), such as 400GB/s, "
        "or 400Gb/s for 50 GB/s",
        example="{0}GB/s or {0}Gb/s",
        endings=("b/s", "B/s", "/s"),
        zero=False,
    ),
    "flop_rate": Dimension(
        noun="a FLOP rate",
        unit="FLOP/s",
        units=_spell(NONE | LARGE, "FLOP/s", "FLOPS", "FLOPs"),
        allowed="a rate above 0 in GFLOP/s, TFLOP/s (or TFLOPS) or PFLOP/s, such as 989TFLOP/s",
        example="{}TFLOP/s",
        endings=("FLOP/s", "/s"),
        zero=False,
    ),
    "ratio": Dimension(
        noun="a plain number",
        unit="1",
        units={**NONE, "%": Scale(-2)},
        allowed="a number of 0 or more, or a percentage, such as 0.72 or 72%",
        example="{}",
    ),
    "money": Dimension(
        noun="an amount of money",
        unit="$",
        units={"$": Scale(), "k$": Scale(3), "K$": Scale(3), "M$": Scale(6)},
        allowed="an amount of 0 or more in dollars, such as $3, 1200$ or $1.2k",
        example="${}",
        endings=("$",),
    ),
}


def scaled(mantissa: str, exponent: str, scale: Scale) -> float:
    """Return a decimal number times a multiplier, as the float nearest to what is written."""
    # Powers of ten go through text, because 5 * 1e-6 is not the float nearest to 5e-6.
    return float(f"{mantissa}e{int(exponent) + scale.power}") * scale.factor

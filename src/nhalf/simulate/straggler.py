"""Stragglers: ranks that start late, compute slowly or talk slowly, and random draws of how late everyone is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from nhalf import units
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array

What: TypeAlias = Literal["late", "slow", "link", "jitter"]
_ALLOWED = (
    "'rank 3: 20us' (starts late), 'rank 3: 1.15x' or '15%' (computes slower), 'rank 3: link 2x' (sends slower); in a "
    "decode loop also 'rank 3: jitter 5us', and a chance behind any of them: 'rank 3: link 8x 5%'"
)
_SPELLING = re.compile(
    r"\s*(?:rank\s*)?(\d+)\s*:\s*(?:(link|jitter)\s+)?(\S.*?)(?:\s+([0-9.]+\s*%))?\s*", re.IGNORECASE
)
_DEVIATIONS = 6.0
"""A normal draw is earlier than this many deviations once in a thousand million."""
_FACTOR = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*[x×]")
_MORE = re.compile(r"\+?\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*%")
"""So many per cent slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """One rank that is behind: `late` by `amount` [s], or `slow` or on a slow `link` by a factor `amount`.

    `jitter` makes each of its stretches of work longer at random, by `amount` [s] on average. It is behind in a share
    `chance` of the steps of a loop: a link that flaps.
    """

    rank: int
    what: What
    amount: float
    text: str
    chance: float = 1.0


def parse(text: str, ranks: int, *, where: str = "--straggler") -> Straggler:
    """Return the straggler that a text describes.

    Raises
    ------
    InputError
        The text is not understood, or there is no such rank.
    """
    found = _SPELLING.fullmatch(text)
    if not found:
        raise InputError(f"{text!r} is not understood", where=where, allowed=_ALLOWED)
    rank, word, rest = int(found[1]), (found[2] or "").casefold(), found[3]
    if rank >= ranks:
        raise InputError(f"there is no rank {rank}", where=where, allowed=f"rank 0 to {ranks - 1}")
    chance = units.parse(found[4], "ratio", where=where) if found[4] else 1.0
    if not 0 < chance <= 1:
        raise InputError(f"{found[4]} is no chance", where=where, allowed="more than 0%, at most 100%")
    factor = _factor(rest)
    if factor is None and word != "link":
        amount = units.parse(rest, "time", where=where)
        return Straggler(rank=rank, what="jitter" if word else "late", amount=amount, text=text.strip(), chance=chance)
    if factor is None or word == "jitter":
        raise InputError(f"{text!r} is not understood", where=where, allowed=_ALLOWED)
    if factor <= 0:
        raise InputError(f"{text!r} makes a rank infinitely fast", where=where, allowed="a factor above 0")
    return Straggler(rank=rank, what="link" if word else "slow", amount=factor, text=text.strip(), chance=chance)


def _factor(text: str) -> float | None:
    """Return the factor that `1.15x` means, or `15%`: so many times, or so much, slower; None for another text."""
    times, more = _FACTOR.fullmatch(text), _MORE.fullmatch(text)
    if times:
        return float(times[1])
    return 1 + float(more[1]) / 100 if more else None


def starts(stragglers: Sequence[Straggler], ranks: int) -> Array:
    """Return when each rank starts [s]."""
    found = np.zeros(ranks)
    for one in stragglers:
        if one.what == "late":
            found[one.rank] += one.amount
    return found


def factors(stragglers: Sequence[Straggler], ranks: int, what: What) -> Array:
    """Return by how much each rank is slower, in what it computes (`slow`) or sends and receives (`link`)."""
    found = np.ones(ranks)
    for one in stragglers:
        if one.what == what:
            found[one.rank] *= one.amount
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Skew:
    """How late ranks are, at random and each for itself.

    `kind` is `exponential` (mean `scale_s`), `normal` (deviation `scale_s`, around a common mean), `hiccup` (with
    probability `shape` a delay of `scale_s`), `pareto` (tail exponent `shape`, mean `scale_s`) or `samples`.
    """

    kind: str
    scale_s: float = 0.0
    shape: float = 0.0
    samples_s: Array | None = None
    text: str = ""

    @property
    def offset_s(self) -> float:
        """Return the time [s] that means "on time": 0, or far enough from 0 for a normal draw to stay above it."""
        return _DEVIATIONS * self.scale_s if self.kind == "normal" else 0.0

    def draw(self, ranks: int, draws: int, seed: int) -> Array:
        """Return draws of how late each rank is [s], shape (ranks, draws), drawn rank by rank."""
        source = np.random.default_rng(seed)
        size = (ranks, draws)
        if self.kind == "exponential":
            return source.exponential(self.scale_s, size)
        if self.kind == "normal":
            return np.asarray(np.maximum(0.0, source.normal(self.offset_s, self.scale_s, size)), dtype=np.float64)
        if self.kind == "hiccup":
            return np.where(source.random(size) < self.shape, self.scale_s, 0.0)
        if self.kind == "pareto":
            return np.multiply(source.pareto(self.shape, size), self.scale_s * (self.shape - 1))
        return np.asarray(source.choice(np.asarray(self.samples_s), size), dtype=np.float64)


def parse_skew(text: str, *, where: str = "--skew") -> Skew:
    """Return the skew that a text describes, such as `exponential:10us`, `hiccup:1%:1ms` or `pareto:2.5:10us`.

    Raises
    ------
    InputError
        An unknown kind, a missing part, or a Pareto tail too heavy to have a mean.
    """
    allowed = "exponential:10us, normal:10us, hiccup:1%:1ms, pareto:2.5:10us, or the path of a file of times"
    kind, *parts = (part.strip() for part in text.split(":"))
    kind = kind.casefold()
    if kind in ("exponential", "normal") and len(parts) == 1:
        return Skew(kind=kind, scale_s=units.parse(parts[0], "time", where=where), text=text)
    if kind in ("hiccup", "pareto") and len(parts) == 2:  # noqa: PLR2004  the shape and the scale
        shape = units.parse(parts[0], "ratio", where=where)
        scale = units.parse(parts[1], "time", where=where)
        if kind == "hiccup" and shape > 1:
            raise InputError(f"{parts[0]} is no probability", where=where, allowed="0 to 1, or 0% to 100%")
        if kind == "pareto" and shape <= 1:
            raise InputError(f"a Pareto tail of exponent {parts[0]} has no mean", where=where, allowed="more than 1")
        return Skew(kind=kind, scale_s=scale, shape=shape, text=text)
    raise InputError(f"{text!r} is not a skew, nor a file", where=where, allowed=allowed)


def samples(text: str, *, where: str) -> Skew:
    """Return a skew drawn from the times in a text, one a line, with a unit or in seconds.

    Raises
    ------
    InputError
        A line that is no time, or no line at all.
    """
    found: list[float] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.strip()
        if word and not word.startswith("#"):
            plain = re.fullmatch(r"[0-9.]+(?:[eE][+-]?[0-9]+)?", word)
            found.append(units.parse(f"{word}s" if plain else word, "time", where=f"{where}:{number}"))
    if not found:
        raise InputError("the file holds no time", where=where, allowed="one time a line, such as 12us or 0.000012")
    return Skew(kind="samples", samples_s=np.array(found), text=where)

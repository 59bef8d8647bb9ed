"""The article's eight claims: each is predicted from links measured a moment before, and then seen.

A prediction is written down with the time at which it was made, before the run that it is of begins. It is made of
what one message and one all-reduce were measured to take on the bench, and of what a rank computes by itself.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nhalf.collective import Algorithm
from nhalf.lab.bench import MODEL, SUMS, Tokens, Wire, order, size_of
from nhalf.laws.collective.all_reduce import recursive_doubling_all_reduce, ring_all_reduce
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nhalf.lab.hosts import Hosts
    from nhalf.lab.simulated import Simulated

BASE: Final = Wire(latency_s=1e-3, bandwidth_bytes_per_s=2e6)
"""A link on which a token of the lab's decoder turns from latency to bytes at a few sequences."""
SMALL, LARGE = 1, 64
LATE_S: Final = 2e-3
_LONG: Final = 65_536  # [bytes] of an all-reduce on which a ring pays
_FOUND: Final = 0.25
"""A latency, a bandwidth or their product is found back when it is as near as this to what is imposed."""
_LEAST: Final = 8  # [bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim: what was predicted and what was seen, each by name; `headline` is the one of them that it is about.

    Values are times [s], but for those whose name says bytes or batch. `low` and `high` are the ends of what was seen.
    """

    name: str
    headline: str
    expected: Mapping[str, float]
    seen: Mapping[str, float]
    low: float | None
    high: float | None
    holds: bool
    predicted_at: str
    measured_at: str

    @property
    def ratio(self) -> float:
        """Return measured over predicted."""
        return self.seen[self.headline] / self.expected[self.headline]

    def to_dict(self) -> dict[str, Any]:
        """Return the claim as the document holds it."""
        return {**asdict(self), "predicted": self.expected[self.headline], "measured": self.seen[self.headline],
                "ratio": self.ratio}  # fmt: skip


@dataclass(slots=True)
class Lab:
    """A bench on which claims are tried, with what is known of it so far."""

    bench: Hosts | Simulated
    count: int
    """How many tokens are timed at a time."""
    ids: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    """The first tokens of each split, by (tp, pp)."""
    _line: tuple[float, float] = (0.0, 1.0)
    _work: dict[int, float] = field(default_factory=dict)

    @property
    def tokens_equal(self) -> bool:
        """Tell whether every split gave the same tokens."""
        return len(set(self.ids.values())) == 1

    def claims(self) -> Iterator[Claim]:
        """Yield each claim once it was tried."""
        yield self._half_size()
        first, second = (self.bench.all_reduce_s(2, size_of(batch)) for batch in (SMALL, LARGE))
        per_byte = (second - first) / (size_of(LARGE) - size_of(SMALL))
        self._line = first - per_byte * size_of(SMALL), per_byte
        self._work = {batch: self._tokens(batch).time_s for batch in (SMALL, LARGE)}
        for each in (self._rises, self._latency, self._bandwidth, self._crossover, self._algorithms, self._stages,
                     self._slow):  # fmt: skip
            yield each()

    # --- what is known ------------------------------------------------------------------------------------------------

    def _tokens(self, batch: int, *, tp: int = 1, pp: int = 1, late_s: float = 0.0) -> Tokens:
        found = self.bench.tokens(order(batch, self.count, tp=tp, pp=pp), late_s)
        if batch == SMALL:
            self.ids[tp, pp] = found.ids
        return found

    def _computes(self, batch: int, ranks: int) -> float:
        """Return what a rank computes for a token [s]: of what grows with the batch it has its share."""
        small = self._work[SMALL]
        each = (self._work[LARGE] - small) / (LARGE - SMALL)
        return small + max(each, 0.0) * (batch - SMALL) / ranks

    def _predicted(self, batch: int, *, latency_s: float = 0.0, bandwidth: float = 1.0) -> float:
        """Return a token of two ranks [s] on links of a longer latency and so many times the bandwidth."""
        fixed, per_byte = self._line
        return self._computes(batch, 2) + SUMS * (fixed + latency_s + per_byte * size_of(batch) / bandwidth)

    def _claim(
        self, name: str, expected: Mapping[str, float], see: Callable[[], Mapping[str, Tokens | float]],
        holds: Callable[[Mapping[str, float]], bool],
    ) -> Claim:  # fmt: skip
        """Return a claim, tried after what is expected was written down; the first of it is the headline."""
        predicted_at = _now()
        found = see()
        seen = {key: each.time_s if isinstance(each, Tokens) else each for key, each in found.items()}
        headline = next(iter(expected))
        ends = each.ends_s if isinstance(each := found[headline], Tokens) else (None, None)
        return Claim(name=name, headline=headline, expected=expected, seen=seen, low=ends[0], high=ends[1],
                     holds=holds(seen), predicted_at=predicted_at, measured_at=_now())  # fmt: skip

    # --- the claims ---------------------------------------------------------------------------------------------------

    def _half_size(self) -> Claim:
        self.bench.impose(BASE.having(latency=0.0))
        software = self.bench.message_s(_LEAST)
        latency, bandwidth = BASE.latency_s + software, BASE.bandwidth_bytes_per_s
        expected = {"n_1/2, bytes": latency * bandwidth, "alpha": latency, "1 MB": 1e6 / bandwidth}
        self.bench.impose(BASE)

        def see() -> Mapping[str, float]:
            short, long = self.bench.message_s(_LEAST), self.bench.message_s(size_of(LARGE))
            beta = (size_of(LARGE) - _LEAST) / (long - short)
            alpha = short - _LEAST / beta
            return {"n_1/2, bytes": alpha * beta, "alpha": alpha, "1 MB": 1e6 / beta}

        return self._claim(
            "n_1/2 of t = alpha + n/beta is found back", expected, see,
            lambda seen: all(abs(seen[key] / expected[key] - 1.0) <= _FOUND for key in seen),
        )  # fmt: skip

    def _rises(self) -> Claim:
        four = self.bench.all_reduce_s(4, size_of(SMALL))
        expected = {"2 ranks": self._predicted(SMALL), "4 ranks": self._computes(SMALL, 4) + SUMS * four,
                    "1 rank": self._work[SMALL]}  # fmt: skip
        return self._claim(
            "a token takes longer with every rank", expected,
            lambda: {f"{k} rank{'s' * (k > 1)}": self._tokens(SMALL, tp=k) for k in (1, 2, 4)},
            lambda seen: seen["1 rank"] < seen["2 ranks"] < seen["4 ranks"],
        )  # fmt: skip

    def _levers(self, batch: int) -> Callable[[], Mapping[str, Tokens | float]]:
        def see() -> Mapping[str, Tokens | float]:
            found: dict[str, Tokens | float] = {}
            for key, wire in (("as it is", BASE), ("twice the bandwidth", BASE.having(bandwidth=2.0)),
                              ("half the latency", BASE.having(latency=0.5))):  # fmt: skip
                self.bench.impose(wire)
                found[key] = self._tokens(batch, tp=2)
            self.bench.impose(BASE)
            return found

        return see

    def _pulled(self, batch: int, first: str) -> dict[str, float]:
        found = {"as it is": self._predicted(batch), "twice the bandwidth": self._predicted(batch, bandwidth=2.0),
                 "half the latency": self._predicted(batch, latency_s=-BASE.latency_s / 2)}  # fmt: skip
        return {first: found[first], **found}

    def _latency(self) -> Claim:
        return self._claim(
            f"batch {SMALL}: latency pays, bandwidth does not", self._pulled(SMALL, "half the latency"),
            self._levers(SMALL),
            lambda seen: _saved(seen, "half the latency") > max(2 * _saved(seen, "twice the bandwidth"), 0.1),
        )  # fmt: skip

    def _bandwidth(self) -> Claim:
        return self._claim(
            f"batch {LARGE}: bandwidth pays, latency does not", self._pulled(LARGE, "twice the bandwidth"),
            self._levers(LARGE),
            lambda seen: _saved(seen, "twice the bandwidth") > max(2 * _saved(seen, "half the latency"), 0.1),
        )  # fmt: skip

    def _crossover(self) -> Claim:
        fixed, per_byte = self._line
        expected = {"batch": fixed / (per_byte * size_of(1))}
        above = max(round(4 * expected["batch"]), 2)

        def see() -> Mapping[str, float]:
            low, high = (self._tokens(each, tp=2).time_s - self._computes(each, 2) for each in (SMALL, above))
            slope = (high - low) / (above - SMALL)
            return {"batch": (low - slope * SMALL) / slope}

        return self._claim("bytes double the floor at this batch", expected, see,
                           lambda seen: expected["batch"] < 2 * seen["batch"] < 4 * expected["batch"])  # fmt: skip

    def _algorithms(self) -> Claim:
        fixed, per_byte = self._line
        link = Link(fixed, 1.0 / per_byte)
        laws = (("ring", Algorithm.RING, ring_all_reduce),
                ("doubling", Algorithm.RECURSIVE_DOUBLING, recursive_doubling_all_reduce))  # fmt: skip
        sizes = (("long", _LONG), ("short", size_of(SMALL)))
        expected = {f"{name}, {which}": float(law(size, 4, link).value)
                    for which, size in sizes for name, _, law in laws}  # fmt: skip
        return self._claim(
            "short messages double, long ones go around", expected,
            lambda: {f"{name}, {which}": self.bench.all_reduce_s(4, size, algorithm)
                     for which, size in sizes for name, algorithm, _ in laws},
            lambda seen: seen["doubling, short"] < seen["ring, short"] and seen["ring, long"] < seen["doubling, long"],
        )  # fmt: skip

    def _stages(self) -> Claim:
        over = self.bench.message_s(size_of(SMALL)) + self.bench.message_s(_LEAST)
        expected = {"2 stages": self._work[SMALL] + over, "2 tensor ranks": self._predicted(SMALL)}
        return self._claim(
            "on a slow link stages beat tensor ranks", expected,
            lambda: {"2 stages": self._tokens(SMALL, pp=2), "2 tensor ranks": self._tokens(SMALL, tp=2)},
            lambda seen: seen["2 stages"] < seen["2 tensor ranks"],
        )  # fmt: skip

    def _slow(self) -> Claim:
        plain, late = self._predicted(SMALL), MODEL.layers * LATE_S
        expected = {"one rank late": plain + late, "none late": plain}
        return self._claim(
            "one slow rank sets the pace", expected,
            lambda: {"one rank late": self._tokens(SMALL, tp=2, late_s=LATE_S), "none late": self._tokens(SMALL, tp=2)},
            lambda seen: seen["one rank late"] - seen["none late"] > late / 2,
        )  # fmt: skip


def _saved(seen: Mapping[str, float], by: str) -> float:
    return 1.0 - seen[by] / seen["as it is"]


def _now() -> str:
    return dt.datetime.now(tz=dt.UTC).isoformat(timespec="milliseconds")

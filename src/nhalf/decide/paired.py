"""Pairs: two deployments at one load, by how much one is faster, how sure that is, and the load at which it flips.

Both are drawn together. An input that both have is drawn once, so that what is uncertain about it cancels in their
ratio. What runs were off by (`Scenario.residual`) is shared in part, since both serve one model; the doubt about
modelled communication is of each deployment alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.points import Point, at_batches, points
from nhalf.predict.band import LEVEL, SEED, draws, is_unseen, sided
from nhalf.quantiles import Z80

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.citation import Datum
    from nhalf.scenario import Scenario

DRAWS: Final = 1 << 15
"""Draws of a pair: odds of a half are then known to 0.3 of a hundred."""
SHARED: Final = 0.65
"""The part of the residual's variance that two deployments of one model share, whatever else is different.

By the 3,337 pairs of one model and load among the runs that ship, on which the constants were fitted, and which differ
in layout, system, engine or dtype: odds with this share come true within 10 points in each of five bins; without any
they are up to 15 points too even. Pairs of two layouts on one system and engine alone say 0.5 to 0.75.
"""
LARGEST: Final = 1024
"""Loads up to this one, or twice the one that is asked about, are looked at for a flip."""
_MOST: Final = 8192
_FACTOR: Final = "stack.library.tuner_factor"
_CACHE: Final = "workload.kv_bytes"
_SHARED_STREAM, _OWN_STREAM, _LINK_STREAM = 11, 12, 13


@dataclass(frozen=True, kw_only=True, eq=False)
class Side(Point):
    """One deployment at a load, by a name that tells it from the others; `index` is its place among them."""

    name: str
    index: int

    @property
    def users(self) -> int:
        """Return the sequences in flight over all replicas."""
        return int(self.batch) * self.layout.replicas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """Two deployments: `ratio` is the time per token of `a` over that of `b`, with the ends of its 80 % interval.

    `odds_a_faster` is the probability that `a` is faster. `flips_at_users` is the load nearest to the one asked about
    at which the other one is faster; None where there is none that both have room for.
    """

    a: Side
    b: Side
    ratio: float
    ratio_low: float
    ratio_high: float
    odds_a_faster: float
    flips_at_users: int | None


def sides(scenarios: Sequence[Scenario], names: Sequence[str]) -> tuple[Side, ...]:
    """Return the deployments of some scenarios, by their names."""
    named = enumerate(zip(scenarios, names, strict=True))
    return tuple(Side(points=points(scenario), name=name, index=index) for index, (scenario, name) in named)


def pairs(all_sides: Sequence[Side], users: int | None = None) -> tuple[Pair, ...]:
    """Return every pair of some deployments that fit in memory, in the order given; `users` is the load of all."""
    fitting = [side for side in all_sides if side.fits_memory != "no"]
    return tuple(pair(a, b, users) for a, b in combinations(fitting, 2))


def pair(a: Side, b: Side, users: int | None = None) -> Pair:
    """Return two deployments against each other."""
    first, second = paired_draws(a, b)
    low, high = np.exp(np.quantile(first - second, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])).tolist()
    ratio = a.tpot_s / b.tpot_s
    return Pair(
        a=a,
        b=b,
        ratio=ratio,
        ratio_low=min(low, ratio),
        ratio_high=max(high, ratio),
        odds_a_faster=float(np.mean(first < second) + np.mean(first == second) / 2),
        flips_at_users=_flip(a, b, users or max(a.users, b.users)),
    )


def paired_draws(a: Side, b: Side) -> tuple[Array, Array]:
    """Return draws of the logarithms of the times per token of two deployments, together."""
    one = _kind(a) == _kind(b)
    first, second = (_drawn(side, min(a.index, b.index) if one else side.index) for side in (a, b))
    return first, second


def _kind(side: Side) -> tuple[object, ...]:
    """Return what a deployment is: one of which a number or the load is changed is off by as much as before."""
    stack, layout = side.scenario.stack, replace(side.layout, replicas=1)
    runs = stack.engine, stack.library.name, stack.mode, side.scenario.workload.weight_dtype
    return side.system, *runs, layout.name, layout.routed_exchange


def _drawn(side: Side, stream: int) -> Array:
    """Return draws of the logarithm of the time per token; `stream` is that of what is of the deployment alone."""
    inputs = draws(side.scenario, DRAWS, among=lambda path, origin: _is_drawn(side.scenario, path, origin))
    found = np.log(np.broadcast_to(points(side.scenario, inputs).tpot_s, DRAWS))
    common = math.sqrt(SHARED) * _normal(_SHARED_STREAM)
    own = math.sqrt(1 - SHARED) * _normal(_OWN_STREAM, stream)
    off: Array = found + _off(common + own, *_residual(side.scenario))
    return off + _off(_normal(_LINK_STREAM, stream), *links_doubt(side.scenario))


def _is_drawn(scenario: Scenario, path: str, origin: Datum) -> bool:
    """Tell whether an input is drawn: all where no run was compared, else those that the compared runs did not have.

    The factor of modelled communication is none of them: each deployment has a doubt of its own about that. The
    constants of a fabric are: both deployments run over the same.
    """
    if path == _FACTOR:
        return False
    if scenario.workload.phase == "prefill" or not any(scenario.residual):
        return True
    return is_unseen(scenario, path, origin) or (path == _CACHE and origin.kind == "assumed")


def _normal(*stream: int) -> Array:
    """Return draws of a standard normal, those of one stream always the same."""
    found: Array = np.random.default_rng([SEED, *stream]).standard_normal(DRAWS)
    return found


def _off(normal: Array, below: float, above: float) -> Array:
    """Return draws [logarithm] with the half-widths of an 80 % band."""
    return sided(normal / Z80, below, above)


def _residual(scenario: Scenario) -> tuple[float, float]:
    below, above = scenario.residual
    return float(below), float(above)


def links_doubt(scenario: Scenario) -> tuple[float, float]:
    """Return the half-widths [logarithm] that communication which nothing measured backs adds to the band."""
    kept = {path: origin for path, origin in scenario.origins.items() if path == _FACTOR}
    alone = points(replace(scenario, origins=kept))
    time, low, high = float(alone.step_s[0]), float(alone.low_s[0]), float(alone.high_s[0])
    below, above = _residual(scenario)
    return _beyond(math.log(time / low), below), _beyond(math.log(high / time), above)


def _beyond(width: float, known: float) -> float:
    """Return what widens a half-width beyond a known one; the digits that rounding loses are nothing."""
    more = width**2 - known**2
    return math.sqrt(more) if more > 1e-12 else 0.0  # noqa: PLR2004  rounding of squares


def _flip(a: Side, b: Side, users: int) -> int | None:
    """Return the load nearest to the one asked about at which the slower one is faster, None where there is none."""
    loads = np.arange(1.0, max(LARGEST, min(2 * users, _MOST)) + 1)
    (first, first_fits), (second, second_fits) = (_times(side, loads) for side in (a, b))
    now = np.sign(a.tpot_s - b.tpot_s)
    other = np.flatnonzero((np.sign(first - second) == -now) & first_fits & second_fits) if now else np.array([])
    if not len(other):
        return None
    found = loads[other]
    return int(found[np.argmin(np.abs(np.log(found / users)))])


def _times(side: Side, loads: Array) -> tuple[Array, Array]:
    """Return the times per token at loads over all replicas, and whether there is room for each."""
    found = at_batches(side.scenario, np.ceil(loads / side.layout.replicas))
    return found.tpot_s, (found.fit_codes > 0) & (found.running == found.batch)

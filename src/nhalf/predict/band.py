"""Bands: how far a prediction may be off.

There is one 80 % band of a step. Its half-widths are what measured runs were off by (`Scenario.residual`, by runs that
the constants had not seen); the dtype of the cache, where it is assumed, communication that no measurement backs, and
inputs that were changed or never compared with a run widen it. Where no run was compared, as for prefills, every
uncertain input is drawn instead.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from nhalf.breakdown import columns
from nhalf.laws.across_nodes import place
from nhalf.predict import incast
from nhalf.predict.communication import is_measured, measured_curve
from nhalf.predict.exchange import exchanges
from nhalf.predict.layer import tokens
from nhalf.predict.prefill import predicted
from nhalf.quantiles import Z80, Z95

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Array, Term
    from nhalf.citation import Datum
    from nhalf.predict.exchange import Exchange
    from nhalf.scenario import Scenario

LEVEL = 0.8
"""Nominal coverage of the band of a prediction."""
DRAWS = 512
SEED = 20261129
PLAN: Final = (0.5, 2.0)
"""The factors that communication may be off by which nothing measured backs, where its library states none."""
_LINKS = "system.fabric."
_CACHE: Final = "workload.kv_bytes"
_CURVES: Final = "system.curve_factor"
PROMPTS: Final = 2.3
"""How many times as long as predicted prompts may take among decoding sequences: of GLM-5 on 8 H200, prompts of 1 to 16
Ki tokens and outputs of 128, nine runs in ten of 52 (median 2; InferenceX 843c6254). A chunk's arithmetic is in the
term; what else the steps of a queue wait for is not."""
LINEAR_PROMPTS: Final = 10.0
"""The same where layers keep a state: Qwen3.5-397B in the same sweep, 45 runs (median 6)."""
OTHER_VERSION: Final = "measured with another version than the one that is asked for"
"""What the origin of a curve's factor says where its interval holds how far versions differ."""
_FACTOR: Final = "stack.library.tuner_factor"
_REMEDIES: Final = "stack.remedies."
TRANSPORT: Final = "system.transport."
"""Where the constants of a transport between nodes stand among the inputs of a scenario."""
_BETWEEN: Final = ("collective_fixed", "collective_transfer", "hand_over")
_AT_ONCE: Final = 128
"""Steps whose draws are evaluated at once: 65,536 numbers, which stay in the cache."""
_LEAST: Final = -0.95
"""No doubt about a part takes more than this share off the whole."""


def draws(
    scenario: Scenario, count: int = DRAWS, seed: int = SEED, among: Callable[[str, Datum], bool] | None = None
) -> dict[str, Array]:
    """Return `count` draws of every input whose origin has an interval, by path; of those `among` says yes to.

    Link values are not drawn: what they do not explain of a collective's time is software, and the sum was measured.
    An input is log-normal around its value, with the spread of its lower and of its upper interval on each side.
    """
    found: dict[str, Array] = {}
    for path, value in scenario.inputs():
        origin = scenario.origins.get(path)
        if (
            path.startswith(_LINKS)
            or origin is None
            or origin.low is None
            or origin.high is None
            or float(np.mean(value)) <= 0
            or (among is not None and not among(path, origin))
        ):
            continue
        drawn = float(np.mean(value)) * drawn_factor(path, origin, count, seed)
        found[path] = np.minimum(drawn, 1.0) if path.endswith("_efficiency") else drawn
    return found


def drawn_factor(path: str, origin: Datum, count: int = DRAWS, seed: int = SEED) -> Array:
    """Return `count` draws of an input over its value, log-normal by its interval.

    Each input has a stream of its own: one more input leaves the draws of the others as they were.
    """
    normal = np.random.default_rng([seed, zlib.crc32(path.encode())]).standard_normal(count)
    found: Array = np.exp(sided(normal, *_spreads(origin)))
    return found


def sided(normal: Array, below: float, above: float) -> Array:
    """Return draws of a standard normal with another width on each side of 0."""
    found: Array = normal * np.where(normal < 0, below, above)
    return found


def _spreads(origin: Datum) -> tuple[float, float]:
    """Return the log-standard deviations below and above the value of a datum with an interval."""
    low, high = cast("float", origin.low), cast("float", origin.high)
    below = math.log(origin.value / low) / Z95 if low > 0 else 1.0
    return below, math.log(high / origin.value) / Z95


def band(scenario: Scenario, step: Term, count: int = 1) -> tuple[Array, Array]:
    """Return the low and high ends [s] of the 80 % band of `count` steps, of shape (count,).

    `step` is the scenario's own, whose values are floats or arrays over the steps.
    """
    time = np.broadcast_to(np.asarray(step.value, dtype=np.float64), (count,))
    if scenario.workload.phase == "prefill" or not any(scenario.residual):
        return _drawn(scenario, count, draws(scenario), _unexplained(scenario))
    below, above = (np.full(count, side**2) for side in scenario.residual)
    doubts = _cache(scenario, time), _communication(scenario, step, time), _changed(scenario, time)
    for less, more in (*doubts, _prompts(scenario, step, time)):
        below, above = below + less**2, above + more**2
    low_s: Array = time * np.exp(-np.sqrt(below))
    high_s: Array = time * np.exp(np.sqrt(above))
    return low_s, high_s


def _cache(scenario: Scenario, time: Array) -> tuple[Array, Array]:
    """Return how much shorter and longer [logarithm] steps are if the assumed dtype of the cache is the wrong one."""
    nothing = np.zeros(len(time))
    origin = scenario.origins.get(_CACHE)
    if origin is None or origin.kind != "assumed" or np.any(scenario.workload.kv_bytes != origin.value):
        return nothing, nothing
    other = origin.high if origin.value == origin.low else origin.low
    if other is None or other == origin.value:
        return nothing, nothing
    ratio = np.log(np.broadcast_to(predicted(scenario.moved({_CACHE: other})).value, time.shape) / time)
    return np.minimum(ratio, 0.0), np.maximum(ratio, 0.0)


def _prompts(scenario: Scenario, step: Term, time: Array) -> tuple[Array, Array]:
    """Return the doubt [logarithm], upwards alone, about prompts of models with experts among decoding sequences."""
    nothing = np.zeros(len(time))
    if scenario.transformer.mixture is None:
        return nothing, nothing
    most = LINEAR_PROMPTS if scenario.transformer.linear_layer_count else PROMPTS
    share = np.broadcast_to(columns(step).get("prefill", 0.0), time.shape) / time
    return nothing, np.log1p(share * (most - 1.0))


def _communication(scenario: Scenario, step: Term, time: Array) -> tuple[Array, Array]:
    """Return the doubt [logarithm] about what no measurement backs, and upwards about what incast may multiply."""
    owed = columns(step)
    plan = _plan(scenario)
    ends = _doubts(scenario, len(time))
    low, high = plan if ends is None else ends
    between = sum(owed.get(name, 0.0) for name in _BETWEEN) if ends is not None else 0.0
    modelled, untried = between / time, _untried(scenario) / time
    exposed = np.broadcast_to(incast.exposed_s(scenario, step), time.shape) / time
    more = modelled * (high - 1.0) + untried * (plan[1] - 1.0) + exposed * np.maximum(incast.COLLAPSE - high, 0.0)
    less = np.maximum(modelled * (low - 1.0) + untried * (plan[0] - 1.0), _LEAST)
    return np.log1p(less), np.log1p(more)


def _plan(scenario: Scenario) -> tuple[float, float]:
    """Return the factors that communication may be off by which nothing measured backs."""
    origin = scenario.origins.get(_FACTOR)
    if origin is None or not origin.low or not origin.high:
        return PLAN
    return origin.low / origin.value, origin.high / origin.value


def _doubts(scenario: Scenario, count: int) -> tuple[Array, Array] | None:
    """Return the factors by which collectives of `count` steps may be off; None where all rest on measurements.

    A curve missing for the logits hardly matters. A curve of the user's own has its own band; what the constants of a
    fabric price carries the doubt about them (`_changed`).
    """
    below, above, doubted = np.zeros(count), np.zeros(count), False
    for exchange in exchanges(scenario, tokens(scenario)):
        curve = measured_curve(scenario, exchange.op, exchange.group)
        measured = is_measured(scenario, exchange.op, exchange.group)
        if curve is not None and curve.own and (curve.one_process or not measured):
            sizes = np.broadcast_to(np.asarray(exchange.size.value, dtype=np.float64), (count,))
            less, more = curve.half_widths(sizes, exchange.group.ranks)
        elif measured or _is_priced(scenario, exchange):
            continue
        else:
            low, high = _plan(scenario)
            less, more = np.full(count, -math.log(low)), np.full(count, math.log(high))
        below, above, doubted = np.maximum(below, less), np.maximum(above, more), True
    return (np.exp(-below), np.exp(above)) if doubted else None


def _is_priced(scenario: Scenario, exchange: Exchange) -> bool:
    """Tell whether fitted constants of a fabric price an exchange."""
    span = exchange.group.span(scenario.system.fabric)
    return place(exchange.op, span, scenario.system, scenario.stack.library) is not None


def _untried(scenario: Scenario) -> float:
    """Return the fixed time [s] of kinds of layers that no run was measured with: linear and sparse attention."""
    transformer, stack = scenario.transformer, scenario.stack
    layers = stack.linear_layer_factor * transformer.linear_layer_count
    layers = layers + stack.sparse_layer_factor * transformer.sparse_layer_count
    return float(np.mean(stack.layer_time_s * layers))


def _changed(scenario: Scenario, time: Array) -> tuple[Array, Array]:
    """Return how far [logarithm] inputs with an interval that no run was compared with move the steps."""
    nothing = np.zeros(len(time))
    drawn = draws(scenario, among=lambda path, origin: is_unseen(scenario, path, origin))
    if not drawn:
        return nothing, nothing
    low, high = _drawn(scenario, len(time), drawn, np.ones(DRAWS))
    return np.log(low / time), np.log(high / time)


def is_unseen(scenario: Scenario, path: str, origin: Datum) -> bool:
    """Tell whether an input is one that the compared runs did not have.

    That is what the user gave, a remedy, curves of another version, and the constants of a fabric where the layout
    leaves its node.
    """
    if path.startswith(TRANSPORT):
        return bool(scenario.layout.devices > scenario.system.fabric.devices_per_node)
    if path == _CURVES and origin.note == OTHER_VERSION:
        return True
    return path != _CACHE and (origin.kind == "given" or path.startswith(_REMEDIES))


def _unexplained(scenario: Scenario) -> Array:
    """Return draws of measured over predicted: log-normal on each side, with the half-widths of 80 %."""
    normal = np.random.default_rng([SEED, 1]).standard_normal(DRAWS) / Z80
    return np.exp(sided(normal, *scenario.residual))


def _drawn(scenario: Scenario, count: int, drawn: dict[str, Array], off: Array) -> tuple[Array, Array]:
    """Return the ends [s] of the bands of steps by draws of some inputs, each of shape (draws,)."""
    arrays = {path: value for path, value in scenario.inputs() if isinstance(value, np.ndarray)}
    low, high = np.empty(count), np.empty(count)
    for start in range(0, count, _AT_ONCE):
        some = slice(start, min(start + _AT_ONCE, count))
        here = {path: value[some, None] for path, value in arrays.items()}
        spread = scenario.moved({**here, **drawn})
        step = predicted(spread)
        times = np.broadcast_to(step.value, (some.stop - start, DRAWS))
        low[some] = np.quantile(times * off, (1 - LEVEL) / 2, axis=-1)
        more = incast.drawn_s(spread, step, DRAWS)
        high[some] = np.quantile((times + more) * off, (1 + LEVEL) / 2, axis=-1)
    return low, high

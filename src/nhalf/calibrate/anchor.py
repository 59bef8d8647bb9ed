"""Anchors: one or a few measured steps of the curve that is asked for, which pull the constants of its stack along."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.calibrate.fit import NOISE, Fitted, Task, fit
from nhalf.calibrate.prior import Prior, prior
from nhalf.citation import Datum
from nhalf.errors import InputError, did_you_mean
from nhalf.layout import check
from nhalf.predict.band import band
from nhalf.predict.response import CONSTANTS, joined, response

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.layout import Layout
    from nhalf.predict.response import Response
    from nhalf.scenario import Scenario

_DEGREES: Final = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "ep": "expert_parallel",
    "attention_dp": "attention_dp",
    "cp": "context_parallel",
}
_KEYS: Final = (*_DEGREES, "batch", "context", "system")
_EXAMPLE: Final = "such as 'tp=8,batch=16: 9.8ms'"
_BARE: Final = re.compile(r"[0-9]*\.?[0-9]+")
_Z95: Final = 1.96
_FAR: Final = 5.0
"""Of 855 measured steps that ship none is further than 2.7 times from its prediction: beyond it, the input is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One measured step: what it ran at, where that differs from what is asked for, and its time [s]."""

    text: str
    degrees: Mapping[str, int]
    batch: int | None
    context: int | None
    system: str | None
    step_s: float


def parse_anchor(text: str) -> Anchor:
    """Return the anchor that a text means: `tp=8,batch=16: 9.8ms`.

    Raises
    ------
    InputError
        A key is not known, or a number or the time cannot be read.
    """
    at, colon, time = text.rpartition(":")
    if not colon:
        raise InputError(f"{text!r} has no time behind a colon", where="--anchor", allowed=_EXAMPLE)
    said: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in at.split(","))):
        key, equals, value = each.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or key not in _KEYS:
            do = did_you_mean(key, _KEYS)
            raise InputError(
                f"{each!r} says nothing", where="--anchor", allowed=f"{', '.join(_KEYS)}; {_EXAMPLE}", do=do
            )
        said[key] = value.strip()
    counts = {key: units.parse_count(value, where=f"--anchor {key}") for key, value in said.items() if key != "system"}
    time = time.strip()
    if _BARE.fullmatch(time):
        raise InputError(
            f"{time!r} has no unit", where="--anchor", allowed=_EXAMPLE, do=f"write {time}ms, if that is what is meant"
        )
    step_s = units.parse(time, "time", where="--anchor")
    if not step_s > 0:
        raise InputError(f"{time!r} is no time of a step", where="--anchor", allowed="more than 0 s")
    return Anchor(
        text=text,
        degrees={name: counts[key] for key, name in _DEGREES.items() if key in counts},
        batch=counts.get("batch"),
        context=counts.get("context"),
        system=said.get("system"),
        step_s=step_s,
    )


def anchored(scenarios: Sequence[Scenario], anchors: Sequence[Anchor]) -> tuple[Scenario, ...]:
    """Return the scenarios with the constants of their stacks pulled to the anchors of their system.

    The constants move as the posterior of all stacks' constants lets them, so a step with another batch or device
    count moves as far as it shares what moved.

    Raises
    ------
    InputError
        An anchor names no system among several, or one that is not asked for, or a layout that is not possible; or its
        time is impossible, or so far from the prediction that no constant would carry it.
    """
    systems = list(dict.fromkeys(scenario.system.name for scenario in scenarios))
    found: dict[str, dict[str, Datum]] = {}
    for name in systems:
        own = [anchor for anchor in anchors if _system(anchor, systems) == name]
        if own:
            base = next(scenario for scenario in scenarios if scenario.system.name == name)
            found[name] = _constants([_at(base, anchor) for anchor in own], own)
    return tuple(_having(scenario, found.get(scenario.system.name, {})) for scenario in scenarios)


def _system(anchor: Anchor, systems: Sequence[str]) -> str:
    """Return the system that an anchor was measured on."""
    if anchor.system is None:
        if len(systems) > 1:
            allowed = f"system={systems[0]},... in the anchor"
            raise InputError(f"{anchor.text!r} does not say where it was measured", where="--anchor", allowed=allowed)
        return systems[0]
    if anchor.system not in systems:
        raise InputError(f"nothing is asked about {anchor.system!r}", where="--anchor", allowed=", ".join(systems))
    return anchor.system


def _at(base: Scenario, anchor: Anchor) -> Scenario:
    """Return the scenario that an anchor measured."""
    layout: Layout = replace(base.layout, **dict(anchor.degrees))  # type: ignore[arg-type]
    check(layout, base.transformer, base.system.fabric)
    changes = {"batch": anchor.batch, "context_tokens": anchor.context}
    given = {name: float(value) for name, value in changes.items() if value is not None}
    return replace(base, layout=layout, workload=replace(base.workload, **given))  # type: ignore[arg-type]


def _constants(measured: Sequence[Scenario], anchors: Sequence[Anchor]) -> dict[str, Datum]:
    """Return the constants that the anchors move, with their origin."""
    centre = {name: float(np.mean(getattr(measured[0].stack, name))) for name in CONSTANTS}
    spread: Prior = prior(calibrated=True).around(centre)
    steps = [response(scenario, 1) for scenario in measured]
    for step, scenario, anchor in zip(steps, measured, anchors, strict=True):
        _believable(step, scenario, anchor, float(step.step_s(centre)[0]))
    fitted: Fitted = fit(
        Task(
            response=joined(steps),
            log_times=np.log([anchor.step_s for anchor in anchors]),
            weights=np.ones(len(anchors)),
            prior=spread,
            noise=NOISE,
        )
    )
    return {
        name: _datum(name, fitted, anchors)
        for name in spread.free
        if abs(math.log(fitted.constants[name] / centre[name])) > 1e-6  # noqa: PLR2004  not moved
    }


def _believable(step: Response, scenario: Scenario, anchor: Anchor, predicted_s: float) -> None:
    """Refuse an anchor that cannot be, or that a fit would only ignore.

    Raises
    ------
    InputError
        It is faster than weights and cache are read at the datasheet rate, or `_FAR` times from the prediction and
        outside its band.
    """
    # Routed experts are left out: what they read is an expectation, and a batch may meet fewer of them.
    bound_s = float(step.weights_s[0] + step.kv_s[0])
    told = f"{anchor.text!r}: {units.format_time(anchor.step_s)}"
    if anchor.step_s < bound_s:
        raise InputError(
            f"{told} is impossible: reading weights and cache takes {units.format_time(bound_s)} at the datasheet rate",
            where="--anchor", allowed=f"at least {units.format_time(bound_s)}; {units.format_time(predicted_s)} is "
            "predicted without it", do="check its unit, its batch and degrees, and --weights",
        )  # fmt: skip
    ratio = anchor.step_s / predicted_s
    if 1 / _FAR <= ratio <= _FAR:
        return
    low, high = band(scenario)
    if not low <= anchor.step_s <= high:
        factor = f"{max(ratio, 1 / ratio):.3g} times {'longer' if ratio > 1 else 'shorter'} than"
        raise InputError(
            f"{told} is {factor} the {units.format_time(predicted_s)} predicted without it (80 % band "
            f"{units.format_time(low)} to {units.format_time(high)}), so no constant can be fitted to it",
            where="--anchor", allowed=f"a step within {_FAR:g} times of the prediction",
            do="check its unit (98ms, not 98s), its batch and degrees; a step without waiting or prefills is meant",
        )  # fmt: skip


def _datum(name: str, fitted: Fitted, anchors: Sequence[Anchor]) -> Datum:
    """Return one constant with its interval."""
    value, width = fitted.constants[name], math.exp(_Z95 * fitted.log_sd[name])
    high = value * width
    return Datum(
        value=value,
        unit="s" if name.endswith("_s") else "1",
        source="--anchor",
        locator="; ".join(anchor.text for anchor in anchors),
        kind="fitted",
        date="",
        low=value / width,
        high=min(high, 1.0) if name.endswith("_efficiency") else high,
    )


def _having(scenario: Scenario, constants: Mapping[str, Datum]) -> Scenario:
    """Return a scenario with other constants of its stack, and their origins."""
    values = {name: datum.value for name, datum in constants.items()}
    origins = {f"stack.{name}": datum for name, datum in constants.items()}
    return replace(
        scenario,
        stack=replace(scenario.stack, **values),  # type: ignore[arg-type]
        origins={**scenario.origins, **origins},
    )

"""Anchors: one or a few measured steps of the curve that is asked for, which pull the constants of its stack along."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.calibrate.anchor_band import residual, told
from nhalf.calibrate.fit import NOISE, Fitted, Task, fit
from nhalf.calibrate.prior import Prior, prior
from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.errors import InputError, did_you_mean
from nhalf.evidence.waiting import SAID, is_mostly
from nhalf.layout import check
from nhalf.points import points
from nhalf.predict.response import CONSTANTS, joined, response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.layout import Layout
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
_FAR: Final = 5.0
"""Of 1,167 measured steps that ship none is further than 3.8 times from its prediction: beyond it a run waits, or
shares its devices, and no constant of a stack is to hold that."""
_WRONG: Final = 50.0
"""Beyond so many times the prediction the input is wrong: a unit, a batch, a layout."""


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
    """Parse an anchor such as `tp=8,batch=16: 9.8ms`.

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
        key = key.strip().lower().replace("-", "_")
        if not equals or key not in _KEYS:
            do = did_you_mean(key, _KEYS)
            raise InputError(
                f"{each!r} says nothing", where="--anchor", allowed=f"{', '.join(_KEYS)}; {_EXAMPLE}", do=do
            )
        if key in said:
            raise InputError(f"{key} is there twice in {text!r}", where="--anchor", do="state it once")
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
        system=store.find("system", said["system"], where="--anchor") if "system" in said else None,
        step_s=step_s,
    )


def _nothing(_text: str) -> None:
    """Say nothing."""


def anchored(
    scenarios: Sequence[Scenario], anchors: Sequence[Anchor], say: Callable[[str], None] = _nothing
) -> tuple[Scenario, ...]:
    """Return the scenarios with the constants of their stacks pulled to the anchors of their system.

    The constants move as the posterior of all stacks' constants lets them, most of all the layer time, in which stacks
    differ most: 629 other loads of an anchor's curve are then 4.5 / 16 % off (median / p90), 5.3 / 18 % where the layer
    time alone moves, and 7.3 / 21 % where memory efficiency alone does (tests/bench/decode_study.py). A step 5 to 50
    times from its prediction is a finding about the run, which `say` is told, and moves nothing.

    Raises
    ------
    InputError
        Prefills are asked for; or an anchor names no system, batch or degree among several, or a system that is not
        asked for, or a layout that is not possible; or its time is impossible, or so far from the prediction that it
        is in another unit.
    """
    if any(scenario.workload.phase != "decode" for scenario in scenarios):
        raise InputError("an anchor is a decode step, and prefills are asked for", where="--anchor", do="leave it out")
    systems = list(dict.fromkeys(scenario.system.name for scenario in scenarios))
    found: dict[str, _Pull] = {}
    for name in systems:
        own = [anchor for anchor in anchors if _system(anchor, systems) == name]
        if own:
            asked = [scenario for scenario in scenarios if scenario.system.name == name]
            near = [(at, anchor) for anchor in own if _is_near(at := _at(asked, anchor), anchor, say)]
            if near:
                found[name] = _pull([at for at, _ in near], [anchor for _, anchor in near])
    return tuple(
        _having(scenario, found[scenario.system.name]) if scenario.system.name in found else scenario
        for scenario in scenarios
    )


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


def _at(asked: Sequence[Scenario], anchor: Anchor) -> Scenario:
    """Return the scenario that an anchor measured: what it does not say is as in all that are asked for.

    Raises
    ------
    InputError
        It does not say a degree or batch of which several are asked for, or its layout is not possible.
    """
    base = asked[0]
    for key, name in _DEGREES.items():
        if name not in anchor.degrees:
            _require_one(anchor, key, {getattr(scenario.layout, name) for scenario in asked})
    if anchor.batch is None:
        _require_one(anchor, "batch", {int(np.mean(scenario.workload.batch)) for scenario in asked})
    layout: Layout = replace(base.layout, **dict(anchor.degrees))  # type: ignore[arg-type]
    check(layout, base.transformer, base.system.fabric)
    changes = {"batch": anchor.batch, "context_tokens": anchor.context}
    given = {name: float(value) for name, value in changes.items() if value is not None}
    return replace(base, layout=layout, workload=replace(base.workload, **given))  # type: ignore[arg-type]


def _require_one(anchor: Anchor, key: str, values: set[int]) -> None:
    """Refuse an anchor that leaves open what it ran at.

    Raises
    ------
    InputError
        Several are asked for.
    """
    if len(values) > 1:
        several = ", ".join(map(str, sorted(values)))
        raise InputError(
            f"{anchor.text!r} does not say its {key}, and several are asked for: {several}",
            where="--anchor", do=f"write {key}=... in the anchor",
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pull:
    """The constants of a stack before and after a fit to anchors, and the names of those that the anchors moved."""

    before: Mapping[str, float]
    fitted: Fitted
    names: tuple[str, ...]
    text: str


def _pull(measured: Sequence[Scenario], anchors: Sequence[Anchor]) -> _Pull:
    """Return where the anchors move the constants of a stack."""
    centre = {name: float(np.mean(getattr(measured[0].stack, name))) for name in CONSTANTS}
    spread: Prior = prior(calibrated=True).around(centre)
    steps = [response(scenario, 1) for scenario in measured]
    fitted: Fitted = fit(
        Task(
            response=joined(steps),
            log_times=np.log([anchor.step_s for anchor in anchors]),
            weights=np.ones(len(anchors)),
            prior=spread,
            noise=NOISE,
        )
    )
    text = "; ".join(anchor.text for anchor in anchors)
    return _Pull(before=centre, fitted=fitted, names=told(steps, fitted), text=text)


def _is_near(scenario: Scenario, anchor: Anchor, say: Callable[[str], None]) -> bool:
    """Tell whether constants may be fitted to an anchor: one far off and outside its band is said to be a finding.

    Raises
    ------
    InputError
        It is faster than weights and cache are read at the datasheet rate, or `_WRONG` times from the prediction.
    """
    step = response(scenario, 1)
    predicted_s = float(step.step_s({name: float(np.mean(getattr(scenario.stack, name))) for name in CONSTANTS})[0])
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
        return True
    found = points(scenario).at(0)
    low, high = found.low_s, found.high_s
    if low <= anchor.step_s <= high:
        return True
    factor = f"{max(ratio, 1 / ratio):.3g} times {'longer' if ratio > 1 else 'shorter'} than"
    band = f"(80 % band {units.format_time(low)} to {units.format_time(high)})"
    text = f"{told} is {factor} the {units.format_time(predicted_s)} predicted without it {band}"
    if not 1 / _WRONG <= ratio <= _WRONG:
        raise InputError(
            f"{text}, so no constant can be fitted to it", where="--anchor",
            allowed=f"a step within {_WRONG:g} times of the prediction",
            do="check its unit (98ms, not 98s), its batch and degrees; a step without waiting or prefills is meant",
        )  # fmt: skip
    calls = float(step.collectives[0])
    waits = calls > 0 and is_mostly(float(step.communication_s[0]) / calls, (anchor.step_s - predicted_s) / calls)
    why = SAID if waits else "another load, a wrong layout, or something that shares the devices"
    say(f"{text}: a finding about the run, to which no constant is fitted. {why[0].upper()}{why[1:]}")
    return False


def _having(scenario: Scenario, pull: _Pull) -> Scenario:
    """Return a scenario with the constants of its stack where anchors move them, their origins, and its band.

    They have no interval of their own: what one step leaves open of each is tied to the others, and in the band.
    """
    values = {name: pull.fitted.constants[name] for name in pull.names}
    origins = {
        f"stack.{name}": Datum(
            value=value, unit="s" if name.endswith("_s") else "1", source="--anchor", locator=pull.text, kind="fitted",
            date="",
        )
        for name, value in values.items()
    }  # fmt: skip
    return replace(
        scenario,
        stack=replace(scenario.stack, **values),  # type: ignore[arg-type]
        origins={**scenario.origins, **origins},
        residual=residual(scenario, response(scenario, 1), pull.fitted, pull.names, pull.before),
    )

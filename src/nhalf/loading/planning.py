"""Planning: what `nhalf plan` was asked in texts, and its answer on each system; and `nhalf.plan` from Python."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.decide.candidates import GOALS, Wish
from nhalf.decide.layouts import name as name_of
from nhalf.decide.search import nearest, search
from nhalf.engines.served import PLACEHOLDER
from nhalf.errors import InputError
from nhalf.layout import check
from nhalf.loading import launch, switches
from nhalf.loading.defaults import Default
from nhalf.loading.degrees import FIELDS, FLAGS, Degrees
from nhalf.loading.inputs import BY_NAME, OUTPUT, PROMPT
from nhalf.loading.options import Options
from nhalf.loading.request import keywords, scenarios

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.decide.candidates import Goal
    from nhalf.decide.search import Plan
    from nhalf.loading.choices import Request
    from nhalf.loading.launch import Launched
    from nhalf.scenario import Scenario

LEAST_ODDS, MOST_ODDS = 0.5, 0.99
"""A band of 80 % says nothing of odds beyond these."""
MOST: Final = 4096
"""More devices than this are not searched."""
SEARCHED: Final = (*FLAGS, "exchange", "skew", "batch", "users", "rate")
"""Inputs of which a plan looks at several: they narrow the search, and are none of its request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a plan is asked beside its inputs, as texts: devices, limits, the goal, prices, a launch line."""

    gpus: str | None = None
    tpot: str | None = None
    ttft: str | None = None
    goal: str = GOALS[0]
    price: str | None = None
    odds: str | None = None
    launched: Launched | None = None
    pools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned:
    """The plan of one system, and what it rests on; `suggestion` searches for what would let a layout fit."""

    plan: Plan
    request: Request
    system: str
    price: str | None
    skew: float | None
    defaults: tuple[Default, ...]
    warnings: tuple[str, ...]
    launched: Launched | None
    served_model: str
    suggestion: Callable[[], str]


def planned(request: Request, searched: Mapping[str, object], limits: Limits) -> list[Planned]:
    """Return the plan of each system of a request; `searched` holds what narrows the search, as texts by name.

    Raises
    ------
    InputError
        A limit, a degree or the launch line is not possible.
    """
    read = {
        name: BY_NAME[name].read(value, BY_NAME[name].on_command_line)
        for name, value in searched.items()
        if value is not None
    }
    request, defaults = _open(request, limits)
    prices = _prices(limits.price, request.systems)
    return [
        _planned(replace(request, systems=(system,)), read, replace(limits, price=price), defaults)
        for system, price in zip(request.systems, prices, strict=True)
    ]


def _open(request: Request, limits: Limits) -> tuple[Request, tuple[Default, ...]]:
    """Return the request for one scenario of each system; what a launch line says and the flags do not, is believed."""
    launched, told = limits.launched, {}
    if launched is not None:
        told = {"engine": launched.engine, "weights": launched.weights, "kv": launched.kv}
        told["mode"] = "eager" if launched.eager else None
    open_ = {key: value for key, value in told.items() if getattr(request, key) is None}
    request = replace(request.updated(open_), degrees=Degrees(), batches=(1,), users=None)
    defaults = []
    if request.context is None and request.isl is None and request.osl is None:
        request = replace(request, isl=PROMPT, osl=OUTPUT)
        defaults.append(Default(flag="--isl", value=f"{PROMPT} --osl {OUTPUT}", reason="a chat"))
    if limits.tpot is None and limits.goal != "latency":
        why = "large batches win; state it for people who read along"
        defaults.append(Default(flag="--tpot", value="(none)", reason=why))
    return request, tuple(defaults)


def _planned(request: Request, read: Mapping[str, Any], limits: Limits, defaults: tuple[Default, ...]) -> Planned:
    """Return the plan of one system."""
    loaded = scenarios(request)
    skew = read.get("skew")
    base = switches.applied(_with_experts(loaded.scenarios[0], skew), Options().having({"skew": skew}))
    launched = None if limits.launched is None else _replicated(limits.launched, base)
    count = _devices(limits.gpus, base, launched)
    wanted = _wish(read, limits)
    judged = None
    if launched is not None:
        check(launched.layout, base.transformer, base.system.fabric)
        judged = (replace(launched.layout, replicas=count // launched.layout.devices), launched.batch)
    taken = (*defaults, *loaded.defaults)
    if "rate" in read and limits.goal != "latency":
        taken = (Default(flag="--goal", value="latency", reason="all that keep up serve as many tokens"), *taken)
    if limits.gpus is None and launched is None:
        taken = (Default(flag="--gpus", value=str(count), reason="a node"), *taken)
    return Planned(
        plan=search(base, count, wanted, judged),
        request=request,
        system=base.system.name,
        price=limits.price,
        skew=skew,
        defaults=taken,
        warnings=(*loaded.warnings, *(f"--launch: {note}" for note in (launched.notes if launched else ()))),
        launched=launched,
        served_model=launch.checkpoint_of(request.model, base.workload.weight_dtype)
        if launched is None
        else launched.model or PLACEHOLDER,
        suggestion=lambda: _suggestion(base, count, wanted),
    )


def _prices(text: str | None, systems: tuple[str, ...]) -> list[str | None]:
    """Return the price of a GPU and hour on each system: the same for all, or one for each.

    Raises
    ------
    InputError
        There are more prices than one, and not one for each system.
    """
    if text is None:
        return [None] * len(systems)
    found = [part.strip() for part in text.split(",")]
    if len(found) == 1:
        return [found[0]] * len(systems)
    if len(found) != len(systems):
        raise InputError(
            f"{len(found)} prices for {len(systems)} systems", where="--price", allowed="one, or one for each of --on"
        )
    return list(found)


def _replicated(launched: Launched, base: Scenario) -> Launched:
    """Return a launch line whose data parallelism, in a model without experts, is replicas of each other."""
    layout = launched.layout
    if base.transformer.mixture is not None or layout.attention_dp == 1:
        return launched
    batch = None if launched.batch is None else launched.batch // layout.attention_dp
    alone = replace(
        layout, attention_dp=1, replicas=layout.attention_dp, expert_parallel=1, routed_exchange="all-gather"
    )
    return replace(launched, layout=alone, batch=batch)


def _devices(gpus: str | None, base: Scenario, launched: Launched | None) -> int:
    """Return how many devices to use: those asked for, those of the launch line, or a node."""
    if gpus is not None:
        count = units.parse_count(gpus, where="--gpus")
    elif launched is not None:
        count = launched.layout.devices * launched.layout.replicas
    else:
        count = base.system.fabric.devices_per_host
    if count > MOST:
        raise InputError(f"{count} devices are more than are searched", where="--gpus", allowed=f"1 to {MOST}")
    if launched is not None and count % launched.layout.devices:
        raise InputError(
            f"the launch line needs a multiple of {launched.layout.devices} devices", where="--gpus",
            do=f"give --gpus {launched.layout.devices}",
        )  # fmt: skip
    return count


def _wish(read: Mapping[str, Any], limits: Limits) -> Wish:
    """Return what is wanted, and what narrows the search."""
    if limits.goal not in GOALS:
        raise InputError(f"{limits.goal!r} is no goal", where="--goal", allowed=", ".join(GOALS))
    if limits.goal == "cost" and limits.price is None:
        raise InputError("the cost needs a price", where="--price", do="add --price '$2.5' (for each GPU and hour)")
    if len(loads := [BY_NAME[name].on_command_line for name in ("users", "batch", "rate") if name in read]) > 1:
        raise InputError(f"{' and '.join(loads)} are both given", where=loads[0], allowed="one of them")
    if limits.odds is not None and limits.tpot is None and limits.ttft is None:
        raise InputError("odds are those of a limit", where="--odds", do="add --tpot 20ms, or --ttft 1s")
    texts = {name: text for name in ("tpot", "ttft", "price") if (text := getattr(limits, name)) is not None}
    return replace(
        wish(texts),
        # At a rate, all layouts that keep up serve as many tokens: the fastest is the best.
        goal=limits.goal if "rate" not in read else "latency",  # type: ignore[arg-type]
        pools=limits.pools,
        degrees={FIELDS[name]: read[name] for name in FLAGS if name in read},
        batches=read.get("batch"),
        users=read.get("users"),
        rate_per_s=read.get("rate"),
        odds=_odds(limits.odds),
        exchanges=(read["exchange"],) if "exchange" in read else ("all-gather", "all-to-all"),
    )


def _odds(text: str | None) -> float | None:
    """Return the probability with which a limit is to hold, None where even odds will do.

    Raises
    ------
    InputError
        It is none, or one that no band reaches.
    """
    if text is None:
        return None
    found = units.parse(text, "ratio", where="--odds")
    if not LEAST_ODDS <= found <= MOST_ODDS:
        raise InputError(f"{text} is not possible", where="--odds", allowed="50% to 99%")
    return found


def _suggestion(base: Scenario, gpus: int, wanted: Wish) -> str:
    """Return what would make a plan that has no answer feasible: how many devices hold the model."""
    if search(base, gpus, replace(wanted, batches=None, users=None, rate_per_s=None)).candidates:
        return "lower --batch, --users or --rate"
    found = nearest(base, 2 * gpus)
    if found is not None:
        row, count = found
        return f"the nearest that fits is {name_of(row.layout)} on {count} devices; or quantise with --weights"
    return "quantise with --weights, shorten --isl, or take devices with more memory"


def _with_experts(base: Scenario, skew: float | None) -> Scenario:
    """Return a scenario, unless it has no experts and a skew of their tokens was asked for.

    Raises
    ------
    InputError
        It has none.
    """
    if skew is not None and base.transformer.mixture is None:
        raise InputError(f"{base.transformer.name} has no experts", where="--skew", do="leave it out")
    return base


def plan(
    model: str,
    *,
    on: str,
    gpus: int | None = None,
    goal: Goal = "tokens-per-gpu",
    limits: dict[str, str] | None = None,
    **choices: Any,  # noqa: ANN401  as nhalf.load
) -> Plan:
    """Return the plan of a model on so many devices of a system (None: a node), as `nhalf plan` makes it.

    `limits` are texts with units: `{"tpot": "20ms", "ttft": "1s", "price": "$2.5"}`; `choices` are those of
    `nhalf.load`, of which degrees, exchanges and batches narrow the search. `Plan.chosen` is None where nothing holds
    the limits; `to_polars()` and `chart()` show all points.

    Raises
    ------
    InputError
        An unknown name or choice, an unreadable file, an impossible value.
    """
    texts = dict(limits or {})
    wish(texts)  # which says what is no limit
    request = keywords(model, on, {name: each for name, each in choices.items() if name not in SEARCHED}, "nhalf.plan")
    searched = {name: choices[name] for name in SEARCHED if name in choices}
    tpot, ttft, price = (texts.get(name) for name in ("tpot", "ttft", "price"))
    count = None if gpus is None else str(gpus)
    return planned(request, searched, Limits(gpus=count, goal=goal, tpot=tpot, ttft=ttft, price=price))[0].plan


def wish(limits: dict[str, str]) -> Wish:
    """Return what is wanted within limits, which are texts with units.

    Raises
    ------
    InputError
        A limit that is not known, or not possible.
    """
    dimensions = {"tpot": ("tpot_s", "time"), "ttft": ("ttft_s", "time"), "price": ("price_per_hour", "money")}
    found: dict[str, float] = {}
    for name, text in limits.items():
        if name not in dimensions:
            raise InputError(f"there is no limit {name!r}", where="limits", allowed=", ".join(dimensions))
        field, dimension = dimensions[name]
        value = units.parse(text.removesuffix("/h"), dimension, where=f"--{name}")
        if not value:
            raise InputError("nothing is for nothing", where=f"--{name}", allowed="more than 0")
        found[field] = value
    return Wish(**found)  # type: ignore[arg-type]


def named(model: str | None, line: str | None, engine: str | None) -> tuple[str, Launched | None]:
    """Return the model that is planned for, and the launch line that is judged, which may stand for the model.

    Raises
    ------
    InputError
        Neither names a model, or they contradict each other.
    """
    if model is not None and launch.is_launch_line(model):
        model, line = None, model
    launched = launch.read(line) if line is not None else None
    found = model or (launched.model if launched else None)
    if found is None:
        raise InputError("the model is missing", where="MODEL", do="name one, or a launch line that does")
    if launched is not None:
        launch.check_same(launched, model, engine)
    return found, launched

"""Planning from Python: `nhalf.plan`, with the choices of the command line as keywords."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.decide.candidates import GOALS, Wish
from nhalf.decide.search import search
from nhalf.errors import InputError
from nhalf.loading.request import load

if TYPE_CHECKING:
    from nhalf.decide.candidates import Goal
    from nhalf.decide.search import Plan

PROMPT, OUTPUT = 1024, 512
"""The lengths of a request where none are given [tokens]: a chat."""


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
    `nhalf.load` but for degrees. `Plan.chosen` is None where nothing holds the limits; `to_polars()` and `chart()` show
    all points.

    Raises
    ------
    InputError
        An unknown name or choice, an unreadable file, an impossible value.
    """
    if goal not in GOALS:
        raise InputError(f"{goal!r} is no goal", where="nhalf.plan", allowed=", ".join(GOALS))
    if not {"isl", "osl", "context"} & set(choices):
        choices |= {"isl": PROMPT, "osl": OUTPUT}
    base = load(model, on=on, tp=1, **choices)
    count = gpus if gpus is not None else base.system.fabric.devices_per_host
    if count < 1:
        raise InputError(f"{count} devices are not possible", where="gpus", allowed="1 or more")
    return search(base, count, replace(wish(limits or {}), goal=goal))


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

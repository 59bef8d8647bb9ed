"""Buying: the layouts that are looked at where none is stated, and how steps divide over batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.layout import Layout, check
from nhalf.loading.defaults import Default
from nhalf.loading.degrees import Degrees
from nhalf.loading.model import model_of
from nhalf.loading.request import scenarios

if TYPE_CHECKING:
    from nhalf.loading.choices import Request
    from nhalf.loading.request import Loaded

BATCHES: Final = (1, 16, 128)
"""The batches looked at where none are named."""


def layouts(request: Request, *, stated: bool) -> tuple[Loaded, Request, tuple[Default, ...]]:
    """Return the scenarios of a request; without degrees, TP over the largest part of a node that the model allows.

    `stated` says that there are degrees, be they 1.
    """
    if stated or request.degrees != Degrees():
        loaded = scenarios(request)
        return loaded, request, loaded.defaults
    base = scenarios(request).scenarios[0]
    fabric = base.system.fabric
    for degree in range(fabric.devices_per_host, 0, -1):
        try:
            check(Layout(tensor_parallel=degree), base.transformer, fabric)
        except InputError:
            continue
        break
    request = replace(request, degrees=Degrees(tp=(degree,)))
    loaded = scenarios(request)
    taken = Default(flag="--tp", value=str(degree), reason="a whole node, as far as the model splits")
    return loaded, request, (taken, *loaded.defaults)


def at_rate(loaded: Loaded, mix: dict[int, float]) -> tuple[tuple[int, ...], Default]:
    """Return the batch at which a layout keeps up with a rate of requests, and that as a choice.

    Raises
    ------
    InputError
        There are several layouts, each with a batch of its own, or batches are stated too.
    """
    if mix:
        raise InputError("--rate finds the batch itself", where="--rate", do="leave out --mix")
    if len(loaded.scenarios) > 1:
        what = f"each of {len(loaded.scenarios)} layouts keeps up at a batch of its own"
        raise InputError(what, where="--rate", do="name one layout, such as --tp 8, or give --batch")
    workload = loaded.scenarios[0].workload
    batch = int(np.max(workload.batch))
    rate = loaded.request.options.rate
    reason = (
        f"what keeps up with {rate:g} requests/s" if workload.requests_per_s else f"{rate:g} requests/s are too many"
    )
    return (batch,), Default(flag="--batch", value=str(batch), reason=reason)


def within_a_node(request: Request) -> tuple[Request, tuple[Default, ...]]:
    """Return a request without degrees with the TP degrees that its model and a node of each of its systems allow."""
    transformer = model_of(request.model)[0]
    fabrics = [store.system(name, where="--on")[0].fabric for name in request.systems]
    found = []
    for degree in _USUAL:
        try:
            for fabric in fabrics:
                check(Layout(tensor_parallel=degree), transformer, fabric)
        except InputError:
            continue
        found.append(degree)
    found = [degree for degree in found if all(degree <= fabric.devices_per_node for fabric in fabrics)] or [1]
    taken = Default(flag="--tp", value=",".join(map(str, found)), reason="what the model allows within a node")
    return replace(request, degrees=Degrees(tp=tuple(found))), (taken,)


_USUAL: Final = (1, 2, 4, 8)


def shares(text: str | None) -> dict[int, float]:
    """Return the shares of steps by batch of `--mix`, which add up to 1.

    Raises
    ------
    InputError
        The text is no list of batches and shares.
    """
    if text is None:
        return {}
    found: dict[int, float] = {}
    for part in text.split(","):
        batch, equals, share = part.partition("=")
        if not equals:
            raise InputError(f"{part!r} is no BATCH=SHARE", where="--mix", allowed="such as 1=60,16=30,128=10")
        key = units.parse_count(batch, where="--mix")
        if key in found:
            raise InputError(f"batch {key} is given twice", where="--mix", do="give each batch once")
        found[key] = units.parse(share, "ratio", where="--mix")
    if not sum(found.values()):
        raise InputError("the shares add up to nothing", where="--mix", allowed="shares of more than 0")
    return {batch: share / sum(found.values()) for batch, share in found.items()}

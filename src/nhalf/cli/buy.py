"""`nhalf buy`: what each thing on a shopping list saves, by batch and by money."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from nhalf import loading, units
from nhalf.cli import flags, following, forms, output, page_file
from nhalf.decide.purchase import purchase
from nhalf.errors import InputError
from nhalf.layout import Layout, check
from nhalf.loading.degrees import Degrees
from nhalf.loading.offers import options as read_options
from nhalf.loading.offers import standard
from nhalf.report import buy as report
from nhalf.report.buy_document import document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.decide.purchase import Purchase
    from nhalf.loading import Default, Loaded, Request
    from nhalf.report.page import Page

BATCHES = "1,16,128"
_STANDARD = loading.Default(
    flag="--option", value="(none)", reason="better links, memory, software; write your own, such as nic=800Gb/s"
)


@click.command()
@click.argument("model")
@click.option("--on", "systems", metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue.")
@click.option("--option", "texts", multiple=True, metavar="'KEY=VALUE @ $PRICE'", help="One thing to buy; repeat it.")
@click.option("--batch", metavar="LIST", help=f"Sequences that decode together.  [default: {BATCHES}]")
@click.option("--mix", metavar="BATCH=SHARE,..", help="How steps divide over batches: 1=60,16=30,128=10.")
@flags.layout
@flags.workload
@page_file.option
@forms.option
def buy(model: str, systems: str | None, texts: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's flags
    """Say what to buy for MODEL: the gain of each option, whether the model can tell, and at which batch that flips.

    An option is KEY=VALUE: a link (nic=800Gb/s, nvlink.latency=x0.5), hbm=4.8TB/s, the path of any input
    (stack.host_launch_s=-10us), system=NAME, engine=, library=, mode=, weights=, kv=, or a degree. Several are joined
    by ' + '; a label goes before ': '; a price after '@', for each GPU or with /nic, /node, /all. Without any option
    they are twice the bandwidth and half the latency of the links, twice the memory bandwidth, half the fixed times.
    """
    answer("buy", model, systems, texts, given)


def answer(command: str, model: str, systems: str | None, texts: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Answer `nhalf buy`, or `nhalf whatif`, which knows no prices."""
    request = flags.request(model, given, systems=systems)
    mix = _mix(given["mix"])
    batches = flags.counts(given["batch"], "batch") if given["batch"] else request.batches
    batches = tuple(mix) if mix and not given["batch"] else batches or units.parse_int_list(BATCHES)
    found: list[Purchase] = []
    asked: list[Request] = []
    defaults: dict[Default, None] = {}
    told: dict[str, None] = {}
    for system in request.systems:
        loaded, alone, taken = _layouts(replace(request, batches=(1,), systems=(system,)))
        listed = texts or standard(loaded.scenarios)
        chosen, warnings = read_options(alone, loaded.scenarios, listed, prices=command == "buy")
        found.append(purchase(loaded.scenarios, chosen, batches, mix))
        defaults |= dict.fromkeys([*([] if texts else [_STANDARD]), *taken])
        told |= dict.fromkeys([*loaded.warnings, *warnings])
        asked.append(alone)
    for warning in told:
        output.warn(warning)
    page_file.write(given["pages"], lambda: _page(found, list(defaults), list(told)))
    if forms.write(lambda: document(command, found, list(defaults), list(told)), "options"):
        return
    canvas = output.canvas()
    report.write(found, list(defaults), canvas, next_command=_next(asked, found[0].batches))
    output.write(canvas.text)


def _page(found: Sequence[Purchase], defaults: Sequence[Default], warnings: Sequence[str]) -> Page:
    """Return the page of the answer; its module is loaded only when one is asked for."""
    from nhalf.report.buy_page import page

    return page(found, defaults, warnings)


def _layouts(request: Request) -> tuple[Loaded, Request, tuple[Default, ...]]:
    """Return the scenarios of a request; without degrees, TP over the largest part of a node that the model allows."""
    if request.degrees != Degrees():
        loaded = loading.scenarios(request)
        return loaded, request, loaded.defaults
    base = loading.scenarios(request).scenarios[0]
    fabric = base.system.fabric
    for degree in range(fabric.devices_per_host, 0, -1):
        try:
            check(Layout(tensor_parallel=degree), base.transformer, fabric)
        except InputError:
            continue
        break
    request = replace(request, degrees=Degrees(tp=(degree,)))
    loaded = loading.scenarios(request)
    taken = loading.Default(flag="--tp", value=str(degree), reason="a whole node, as far as the model splits")
    return loaded, request, (taken, *loaded.defaults)


def _mix(text: str | None) -> dict[int, float]:
    """Return the shares of steps by batch, which add up to 1."""
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


def _next(asked: Sequence[Request], batches: tuple[int, ...]) -> str:
    """Return the command to run next: the step that is bought for, term by term."""
    degrees = dict.fromkeys(degree for request in asked for degree in request.degrees.tp)
    tp, batch = ",".join(map(str, degrees)), ",".join(map(str, batches))
    return following.command("decode", {"--tp": tp, "--batch": batch, "--explain": True})

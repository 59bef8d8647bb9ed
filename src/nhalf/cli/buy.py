"""`nhalf buy`: what each thing on a shopping list saves, by batch and by money."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from nhalf import loading
from nhalf.cli import flags, next_command, output, output_formats, page_file
from nhalf.cli.help_pages import Grouped
from nhalf.decide.purchase import purchase
from nhalf.loading.buying import BATCHES, at_rate, layouts, shares
from nhalf.loading.degrees import FLAGS
from nhalf.loading.purchase_options import options as read_options
from nhalf.loading.purchase_options import standard
from nhalf.report import buy as report
from nhalf.report.buy import document
from nhalf.report.buy_brief import brief
from nhalf.report.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.decide.purchase import Purchase
    from nhalf.loading import Default, Request
    from nhalf.report.page import Page

_STANDARD = loading.Default(
    flag="--option", value="(none)", reason="better links, memory, software; write your own, such as nic=800Gb/s"
)


@click.command(cls=Grouped)
@click.argument("model")
@flags.inputs("buy")
@click.option("--option", "texts", multiple=True, metavar="'KEY=VALUE @ $PRICE'", help="One thing to buy; repeat it.")
@click.option("--mix", metavar="BATCH=SHARE,..", help="How steps divide over batches: 1=60,16=30,128=10.")
@page_file.option
@output_formats.option
def buy(model: str, texts: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's flags
    """Say what to buy for MODEL: the gain of each option, whether the model can tell, and at which batch that flips.

    An option is KEY=VALUE: a link (nic=800Gb/s, nvlink.latency=x0.5), hbm=4.8TB/s, all-reduce=23us, the path of any
    input (stack.host_launch_s=-10us), system=NAME, engine=, library=, mode=, weights=, kv=, or a degree. Several join
    by ' + '; a label goes before ': '; a price after '@', for each GPU or with /nic, /node, /all. Without any option
    they are twice the bandwidth and half the latency of the links, twice the memory bandwidth, half the fixed times.
    """
    answer("buy", model, texts, given)


def answer(command: str, model: str, texts: tuple[str, ...], given: Mapping[str, Any]) -> None:
    """Answer `nhalf buy`, or `nhalf whatif`, which knows no prices."""
    request = flags.request(model, given).shared()
    stated = any(given[name] is not None for name in FLAGS)
    mix = shares(given["mix"])
    asked_at = tuple(map(int, request.batches or BATCHES))
    batches = tuple(mix) if mix and not given["batch"] and not given["users"] else asked_at
    at_one = None if request.options.rate is not None else (1,)
    found: list[Purchase] = []
    asked: list[Request] = []
    defaults: dict[Default, None] = {}
    told: dict[str, None] = {}
    for system in request.systems:
        loaded, alone, taken = layouts(replace(request, batches=at_one, systems=(system,)), stated=stated)
        if request.options.rate is not None:
            batches, settled = at_rate(loaded, mix)
            taken = (settled, *taken)
        listed = texts or standard(loaded.scenarios)
        chosen, warnings = read_options(alone, loaded.scenarios, listed, prices=command == "buy")
        found.append(purchase(loaded.scenarios, chosen, batches, mix))
        defaults |= dict.fromkeys([*([] if texts else [_STANDARD]), *taken])
        told |= dict.fromkeys([*loaded.warnings, *warnings])
        asked.append(alone)
    for warning in told:
        output.warn(warning)
    page_file.write(given["pages"], lambda: _page(found, list(defaults), list(told)))
    after = _next(asked, found[0].batches)
    output_formats.show(
        View(
            document=lambda: document(command, found, list(defaults), list(told)),
            rows="options",
            brief=lambda: brief(found, list(defaults), next_command=after, priced=command == "buy"),
            below=lambda canvas: report.write(found, canvas),
            defaults=list(defaults),
        )
    )


def _page(found: Sequence[Purchase], defaults: Sequence[Default], warnings: Sequence[str]) -> Page:
    """Return the page of the answer; its module is loaded only when one is asked for."""
    from nhalf.report.buy_page import page

    return page(found, defaults, warnings)


def _next(asked: Sequence[Request], batches: tuple[int, ...]) -> str:
    """Return the command to run next: the step that is bought for, term by term."""
    degrees = dict.fromkeys(degree for request in asked for degree in request.degrees.tp)
    tp, batch = ",".join(map(str, degrees)), ",".join(map(str, batches))
    return next_command.command("decode", {"--tp": tp, "--batch": batch, "--explain": True})

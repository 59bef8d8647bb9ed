"""`nhalf whatif`: what each change would save, by batch; `nhalf buy` without prices."""

from __future__ import annotations

from typing import Any

import click

from nhalf.cli import flags, output_formats, page_file
from nhalf.cli.buy import answer
from nhalf.cli.help_pages import Grouped
from nhalf.errors import InputError
from nhalf.loading.calls import calls
from nhalf.report import calls as report
from nhalf.report.view import View, write_brief


@click.command(cls=Grouped)
@click.argument("model", required=False)
@flags.inputs("whatif")
@click.option("--option", "texts", multiple=True, metavar="KEY=VALUE", help="One change; repeat it.")
@click.option("--mix", metavar="BATCH=SHARE,..", help="How steps divide over batches: 1=60,16=30,128=10.")
@click.option("--step", metavar="TIME", help="Without MODEL: how long a step takes.")
@click.option("--calls", metavar="N", help="Without MODEL: how many calls wait in a step.")
@click.option("--each", metavar="TIME", help="Without MODEL: how long each takes; --option each=23us.")
@click.option("--link", metavar="LINK", help="With --each: what of it is not the link's, 5us,400GB/s.")
@click.option("--size", metavar="SIZE", help="With --link: the size of its message.")
@page_file.option
@output_formats.option
def whatif(model: str | None, texts: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's flags
    """Say what each change would save on MODEL, whether the model can tell, and at which batch that flips.

    A change is KEY=VALUE: a link (nic=800Gb/s, nvlink.latency=x0.5), hbm=4.8TB/s, all-reduce=23us, the path of any
    input (stack.host_launch_s=-10us), system=NAME, engine=, library=, mode=, weights=, kv=, or a degree. Several join
    by ' + '; a label goes before ': '. Without any option they are twice the bandwidth, half the latency of the links,
    twice the memory bandwidth, half the fixed times. Without MODEL a step is known by --step, --calls and --each.
    """
    by_hand = {name: given.pop(name) for name in ("step", "calls", "each", "link", "size")}
    if model is None:
        _by_hand(by_hand, texts, given)
        return
    for name, value in by_hand.items():
        if value is not None:
            raise InputError("MODEL says how many calls there are", where=f"--{name}", do="leave MODEL or it out")
    answer("whatif", model, texts, given)


def _by_hand(numbers: dict[str, str | None], texts: tuple[str, ...], given: dict[str, Any]) -> None:
    """Answer for a step that is known by its numbers."""
    for name, value in given.items():
        if value not in (None, (), False):
            raise InputError("it is of a model", where=f"--{name.replace('_', '-')}", do="name MODEL, or leave it out")
    found = calls(numbers, texts)
    after = "nhalf whatif llama-3.1-70b --on h100-sxm --option all-reduce=x0.5"
    output_formats.show(
        View(
            document=lambda: report.document(found),
            rows="options",
            brief=lambda: report.brief(found, next_command=after),
            detail=lambda canvas: write_brief(report.brief(found, next_command=after), canvas),
        )
    )

"""`nhalf whatif`: what each change would save, by batch; `nhalf buy` without prices."""

from __future__ import annotations

from typing import Any

import click

from nhalf.cli import flags, output_formats, page_file
from nhalf.cli.buy import answer
from nhalf.cli.help_pages import Grouped


@click.command(cls=Grouped)
@click.argument("model")
@flags.inputs("whatif")
@click.option("--option", "texts", multiple=True, metavar="KEY=VALUE", help="One change; repeat it.")
@click.option("--mix", metavar="BATCH=SHARE,..", help="How steps divide over batches: 1=60,16=30,128=10.")
@page_file.option
@output_formats.option
def whatif(model: str, texts: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's flags
    """Say what each change would save on MODEL, whether the model can tell, and at which batch that flips.

    A change is KEY=VALUE: a link (nic=800Gb/s, nvlink.latency=x0.5), hbm=4.8TB/s, the path of any input
    (stack.host_launch_s=-10us), system=NAME, engine=, library=, mode=, weights=, kv=, or a degree. Several are joined
    by ' + '; a label goes before ': '. Without any option they are twice the bandwidth, half the latency of the links,
    twice the memory bandwidth, half the fixed times.
    """
    answer("whatif", model, texts, given)

"""`nhalf lab`: the article's claims, predicted and then seen, on hosts of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from nhalf.cli import output, output_formats, page_file
from nhalf.cli.help_pages import Grouped
from nhalf.errors import NoAnswerError
from nhalf.report.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.lab.claims import Claim
    from nhalf.report.pictures import Subject

_TOKENS, _FEW = 12, 4


@click.command(cls=Grouped)
@click.option("--short", is_flag=True, help="Fewer tokens of each run.")
@click.option("--simulated", is_flag=True, help="No hosts: play the messages on a simulated network.")
@click.option("--model", default="llama-3.1-70b", show_default=True, metavar="MODEL", help="Whose pictures -o draws.")
@click.option("--on", "system", default="h100-sxm", show_default=True, metavar="SYSTEM", help="Where it runs in them.")
@page_file.option
@output_formats.option
def lab(pages: Sequence[str], model: str, system: str, *, short: bool, simulated: bool) -> None:
    """Try the claims of the article here, in half a minute: what is predicted, then what is seen.

    On Linux, with the right to make network namespaces, four hosts are made of this machine and joined by links of a
    set latency and bandwidth; a small decoder runs on them, split over ranks. Elsewhere its messages are simulated.
    With -o the interconnect in eight pictures: each claim for a model of yours, beside what was seen here.
    Exits 3 when a claim does not hold.
    """
    from nhalf.evidence.probe.bed import ONE_THREAD, missing

    os.environ.update(ONE_THREAD)  # before NumPy is there, which reads them once
    from nhalf.evidence.probe.conductor import StoppedError
    from nhalf.evidence.probe.signals import Interrupts
    from nhalf.lab.claims import Lab
    from nhalf.lab.hosts import Hosts
    from nhalf.lab.simulated import Simulated
    from nhalf.report import lab as report

    of = _subject(model, system) if pages else None
    why = "--simulated was asked for" if simulated else missing()
    claims: list[Claim] = []
    stopped = False
    with Interrupts() as interrupts, Simulated() if why else Hosts(interrupts) as bench:
        tried = Lab(bench, _FEW if short else _TOKENS)
        try:
            for claim in tried.claims():
                claims.append(claim)
                output.tell(f"{len(claims)} of 8: {claim.name}: {'holds' if claim.holds else 'does not hold'}")
                if stopped := interrupts():
                    break
        except StoppedError:  # a rank was asked when it came
            stopped = True
    if not claims:
        raise StoppedError("interrupted")
    answer = report.Answer(claims=claims, bench=bench.name, tokens_equal=tried.tokens_equal, why=why, stopped=stopped)
    output_formats.show(
        View(
            document=lambda: report.document(answer),
            rows=report.rows,
            brief=lambda: report.brief(answer),
            detail=lambda canvas: report.detail(answer, canvas),
        )
    )
    if of is not None:
        page_file.write(pages, lambda: report.page(answer, of))
    if stopped:
        raise StoppedError("interrupted")
    failed = [claim.name for claim in claims if not claim.holds]
    if failed:
        raise NoAnswerError(f"{'; '.join(failed)}: not as claimed", where="nhalf lab",
                            do="run it again: other work on this machine may have been in the times")  # fmt: skip


def _subject(model: str, system: str) -> Subject:
    """Return what the pictures are of, before any claim is tried: a name that is wrong is told at once."""
    from nhalf.loading.choices import Request
    from nhalf.report.pictures import subject

    return subject(Request(model=model, systems=()).updated({"system": system}))

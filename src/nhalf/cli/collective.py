"""`nhalf collective`: one collective by size and algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nhalf import units
from nhalf.catalog import store
from nhalf.cli import next_command, output_formats, page_file
from nhalf.cli.quantities import WithQuantities
from nhalf.loading.collective import SIZES, Asked, load_all
from nhalf.report import collective as report
from nhalf.report.collective_answer import Answer, answer
from nhalf.report.collective_brief import brief
from nhalf.report.collective_document import document
from nhalf.report.collective_page import page
from nhalf.report.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(cls=WithQuantities)
@click.argument("op", metavar="OP")
@click.argument("link", nargs=-1, metavar="[LATENCY BANDWIDTH | LINK]")
@click.option("--ranks", metavar="K[,K]", help="Ranks of the group, or of several.")
@click.option("--nodes", metavar="N[,N]", help="Nodes that the ranks divide over.  [default: the fewest]")
@click.option("--on", "system", metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue, instead of a bare link.")
@click.option("--sizes", metavar="A:B", help=f"Sizes with units: A:B doubles, A:B:x4, or a list.  [default: {SIZES}]")
@click.option("--library", metavar="NAME", help="Communication library; `nhalf catalog libraries`.  [default: vllm]")
@click.option("--mode", metavar="MODE", help="graph, eager or host.  [default: graph]")
@click.option("--has", metavar="LIST", help="What the machine has beyond its links: nvls, sharp, torus.")
@click.option("--reduce-at", metavar="RATE", help="Charge arithmetic at this rate: 1TB/s.  [default: hidden]")
@click.option("--per-token", default="160", show_default=True, metavar="N", help="Collectives a token: 2 a layer.")
@click.option("-b", "first", metavar="SIZE", help="nccl-tests' first size; there 8K is 8192 bytes.")
@click.option("-e", "last", metavar="SIZE", help="nccl-tests' last size.")
@click.option("-f", "factor", metavar="FACTOR", help="nccl-tests' factor from size to size.  [default: 2]")
@click.option("-g", "gpus", metavar="K", help="nccl-tests' number of GPUs: the ranks.")
@page_file.option
@output_formats.option
def collective(op: str, link: tuple[str, ...], per_token: str, pages: tuple[str, ...], **given: str | None) -> None:
    """Say what OP costs by size: every algorithm, who wins where, and what the library would run.

    OP is all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, barrier or send-recv. Sizes are those
    that nccl-tests prints: the total for an all-gather.
    """
    count = units.parse_count(per_token, where="--per-token")
    asked = Asked(op=op, link=link, **given)
    answers = {name: answer(loaded, store.fixed_time(), count) for name, loaded in load_all(asked).items()}
    if len(answers) > 1:
        _several(list(answers.items()), asked, pages)
        return
    [found] = answers.values()
    page_file.write(pages, lambda: page(found))
    after = _next(str(asked.system) if found.question.library else "")
    output_formats.show(
        View(
            document=lambda: document(found),
            rows="rows",
            brief=lambda: brief(found, next_command=after),
            below=lambda canvas: report.write(found, canvas),
        )
    )


def _several(answers: Sequence[tuple[str, Answer]], asked: Asked, pages: tuple[str, ...]) -> None:
    """Write the answers of several systems or groups side by side."""
    from nhalf.report import collective_several as several

    page_file.write(pages, lambda: several.page(answers, page))
    first = answers[0][1]
    one = {"--ranks": first.question.ranks, "--nodes": None, **({"--on": first.loaded.system} if asked.system else {})}
    alone = next_command.command("collective", one)

    output_formats.show(
        View(
            document=lambda: several.document(answers),
            rows="rows",
            brief=lambda: several.brief(answers, next_command=alone),
            below=lambda canvas: several.write(answers, canvas),
            following=[f"{alone}  # every algorithm and its sources"],
        )
    )


def _next(system: str) -> str:
    """Return the command to run next: where a model's collectives turn, on the system or, for a bare link, on one."""
    if not system:
        return "nhalf crossover llama-3.1-70b --on h100-sxm"
    return next_command.command("crossover", {"model": "llama-3.1-70b", "--on": system})

"""`nhalf fit`: latency, bandwidth and the whole curve from the logs of benchmarks."""

from __future__ import annotations

from pathlib import Path

import click

from nhalf.catalog import store
from nhalf.cli import next_command, output, output_formats, page_file
from nhalf.cli.help_pages import Grouped
from nhalf.errors import NoAnswerError
from nhalf.evidence import gate
from nhalf.evidence.crossing import contests
from nhalf.loading.fitting import (
    BATCHES,
    THEMSELVES,
    compared,
    examined,
    fitted,
    judged,
    marked,
    message_bytes,
    require,
    told,
    used_for,
)  # fmt: skip
from nhalf.report import cluster_file
from nhalf.report import fit as report
from nhalf.report.fit_answer import Answer
from nhalf.report.fit_brief import brief
from nhalf.report.fit_page import page
from nhalf.report.view import View

_MARKED = {"--model": "llama-3.1-70b"}
"""The model whose messages are marked on the curve by the next command, where none is."""


def _listed(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Write the names of the formats where they are asked for, and end."""
    if value != "list":
        return value
    from nhalf.evidence.readers.detection import known

    output.write("".join(f"{name}\n" for name in known()))
    return context.exit()


@click.command(cls=Grouped)
@click.argument("logs", nargs=-1, required=True, metavar="FILE...")
@click.option("--op", metavar="OP", help="The operation, where a log does not say: all-reduce, ...")
@click.option("--ranks", metavar="K", help="The ranks, where a log does not say.")
@click.option("--nodes", metavar="N", help="The nodes, where a log does not say.")
@click.option("--mode", metavar="MODE", help="graph, eager or host, where a log does not say.")
@click.option(
    "--format",
    "format_",
    metavar="NAME",
    is_eager=True,
    callback=_listed,
    help="nccl-tests, osu, perftest, csv, ...; `--format list` names all.  [default: by content]",
)
@click.option("--on", "--like", "system", metavar="SYSTEM",
              help="What the ranks ran on: compares with its link; a new cluster file is like it.")  # fmt: skip
@click.option("--library", metavar="NAME", help="Whose kernels ran, where a log does not say.")
@click.option("--model", metavar="MODEL", help="Mark this model's decode messages on the curve.")
@click.option("--batch", metavar="LIST", help=f"The batches to mark, with --model.  [default: {BATCHES}]")
@click.option(
    "--compare",
    "other",
    is_flag=False,
    flag_value=THEMSELVES,
    metavar="[LOG]",
    help="What changed since LOG, or since the first FILE: latency and bandwidth as ratios with intervals.",
)
@click.option("--fail-if", "gates", multiple=True, metavar="GATE", help="Exit 3 when it holds: 'latency>30us'.")
@click.option(
    "-o",
    "--output",
    "files",
    metavar="FILE",
    multiple=True,
    help="Write the curves and links into a cluster file, for --on (.toml), or a page (report.html) or a figure (.svg, "
    ".png); these need nhalf[report].",
)
@output_formats.option
def fit(logs: tuple[str, ...], gates: tuple[str, ...], files: tuple[str, ...], **flags: str | None) -> None:
    """Fit the benchmark logs in FILE...: a file, several, a folder, - for standard input, .gz as well."""
    asked = [gate.parse(text) for text in gates]
    model, batch, other, library = (flags.pop(name) for name in ("model", "batch", "other", "library"))
    library = None if library is None else store.find("library", library, where="--library")
    said = told(**flags)
    found, refused, tables = fitted(logs, said)
    marks, doubts = marked(found, model, batch)
    comparison, every = compared(logs, other, said, found)
    tripped, unknown = judged(found, asked)
    again = {**({} if model else _MARKED), **({"--compare": True} if other == THEMSELVES else {})}
    clusters = [file for file in files if not page_file.is_page(file)]
    written = [
        text for file in clusters for text in cluster_file.write_measured(Path(file), tables, found, library, said.like)
    ]
    answer = Answer(
        fit=found, marks=marks, mark_doubts=doubts, comparison=comparison, tripped=tripped,
        doctor=examined(found),
        contests=contests(every.curves, message_bytes(model)),
        links=clusters[0] if clusters else "", written=written,
        again=next_command.command("fit", again),
        **used_for(model, said, found),
    )  # fmt: skip
    output_formats.show(
        View(
            document=lambda: report.document(answer), rows="fits", brief=lambda: brief(answer),
            detail=lambda canvas: report.write(answer, canvas), found=found,
        )
    )  # fmt: skip
    page_file.write([file for file in files if page_file.is_page(file)], lambda: page(answer))
    for file in clusters:
        output.tell(f"wrote {file}")
    if tripped:
        for error in refused:
            output.warn(str(error))
        raise NoAnswerError("; ".join(tripped), where="--fail-if", allowed=f"not {' and not '.join(gates)}")
    require(found, comparison, refused, unknown, where=", ".join(logs))

"""`nhalf fit`: latency, bandwidth and the whole curve from the logs of benchmarks."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from nhalf.cli import next_command, output, output_formats, page_file
from nhalf.cli.help_pages import Grouped
from nhalf.errors import NoAnswerError, WeakEvidenceError
from nhalf.evidence import gate
from nhalf.evidence.comparison import compare
from nhalf.files.writing import write_text
from nhalf.loading.fitting import BATCHES, examined, fitted, judged, marked, told, unread, used_for
from nhalf.report import fit as report
from nhalf.report.fit_answer import Answer
from nhalf.report.fit_links import write_links
from nhalf.report.fit_page import page

_MARKED = {"--model": "llama-3.1-70b"}
"""The model whose messages are marked on the curve by the next command, where none is."""


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
    help="nccl-tests, osu, perftest, csv, ...; `--format list` names all.  [default: by content]",
)
@click.option("--on", "system", metavar="SYSTEM", help="What the ranks ran on: compares with its link.")
@click.option("--model", metavar="MODEL", help="Mark this model's decode messages on the curve.")
@click.option("--batch", metavar="LIST", help=f"The batches to mark, with --model.  [default: {BATCHES}]")
@click.option("--compare", "other", metavar="LOG", help="Another log: what moved, outside the noise or not.")
@click.option("--fail-if", "gates", multiple=True, metavar="GATE", help="Exit 3 when it holds: 'latency>30us'.")
@click.option(
    "-o",
    "--output",
    "files",
    metavar="FILE",
    multiple=True,
    help="Write the links for nhalf decode --links (.toml), a page (report.html) or a figure (.svg, .png); these need "
    "nhalf[report].",
)
@output_formats.option
def fit(logs: tuple[str, ...], gates: tuple[str, ...], files: tuple[str, ...], **flags: str | None) -> None:
    """Fit the benchmark logs in FILE...: a file, several, a folder, - for standard input, .gz as well."""
    asked = [gate.parse(text) for text in gates]
    model, batch, other = (flags.pop(name) for name in ("model", "batch", "other"))
    said = told(**flags)
    found, refused = fitted(logs, said)
    marks, doubts = marked(found, model, batch)
    compared = compare(found, fitted((other,), said)[0]) if other is not None else None
    tripped, unknown = judged(found, asked)
    links = [file for file in files if not page_file.is_page(file)]
    answer = Answer(
        fit=found, marks=marks, mark_doubts=doubts, comparison=compared, tripped=tripped,
        links=links[0] if links else "", doctor=examined(found),
        again=next_command.command("fit", None if model else _MARKED),
        **used_for(model, said),
    )  # fmt: skip
    if not output_formats.write(lambda: report.document(answer), "fits"):
        canvas = output.canvas()
        report.write(answer, canvas, whole=output_formats.everything())
        output.write(canvas.text)
    page_file.write([file for file in files if page_file.is_page(file)], lambda: page(answer))
    for file in links:
        write_text(Path(file), write_links(found, date=dt.datetime.now(tz=dt.UTC).date().isoformat()))
        output.tell(f"wrote {file}")
    if tripped:
        for error in refused:
            output.warn(str(error))
        raise NoAnswerError("; ".join(tripped), where="--fail-if", allowed=f"not {' and not '.join(gates)}")
    if refused:
        raise unread(refused)
    if unknown is not None:
        raise unknown
    if compared is not None and not compared.changes:
        raise WeakEvidenceError(
            "no curve of one log has a partner in the other", where="--compare",
            allowed="logs of the same operation and ranks", do="see the curves of each above",
        )  # fmt: skip
    if not found.answered:
        refusal = found.curves[0].latency_refusal or found.curves[0].bandwidth_refusal
        raise WeakEvidenceError(
            f"neither a latency nor a bandwidth: {refusal}", where=", ".join(logs), do="run the command above"
        )

"""`nhalf fit`: latency, bandwidth and the whole curve from the logs of benchmarks."""

from __future__ import annotations

import datetime as dt
import gc
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf import units
from nhalf.cli import following, forms, output, page_file
from nhalf.errors import InputError, NoAnswerError, WeakEvidenceError
from nhalf.evidence import gate
from nhalf.evidence.comparison import compare
from nhalf.evidence.fit import fit as fit_tables
from nhalf.evidence.reading import completed
from nhalf.loading.files import write_text
from nhalf.report import fit as report
from nhalf.report.fit_links import write_links
from nhalf.report.fit_page import page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.evidence.fit import Fit
    from nhalf.evidence.marks import Mark

_COUNTS = ("ranks", "nodes")
_MARKED = {"--model": "llama-3.1-70b"}
"""The model whose messages are marked on the curve by the next command, where none is."""


@click.command()
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
@click.option("--batch", default="1,8,64", show_default=True, metavar="LIST", help="The batches to mark.")
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
@forms.option
def fit(
    logs: tuple[str, ...], model: str | None, batch: str, gates: tuple[str, ...], files: tuple[str, ...],
    **flags: str | None,
) -> None:  # fmt: skip
    """Fit the benchmark logs in FILE...: a file, several, a folder, - for standard input, .gz as well."""
    asked = [gate.parse(text) for text in gates]
    found, refused = _fit(logs, flags)
    marks, doubts = _marks(found, model, batch) if model else ([], [])
    compared = compare(found, _fit((flags["other"],), flags)[0]) if flags["other"] is not None else None
    tripped, unknown = _judged(found, asked)
    links = [file for file in files if not page_file.is_page(file)]
    answer = report.Answer(
        fit=found, marks=marks, mark_doubts=doubts, comparison=compared, tripped=tripped,
        links=links[0] if links else "", again=following.command("fit", None if model else _MARKED),
        **_step(model, flags["system"]),
    )  # fmt: skip
    if not forms.write(lambda: report.document(answer), "fits"):
        canvas = output.canvas()
        report.write(answer, canvas)
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
        raise _unread(refused)
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


def _step(model: str | None, system: str | None) -> dict[str, Any]:
    """Return which step a link is used for, as far as the flags say."""
    found: dict[str, Any] = {"model": model} if model else {}
    if system:
        from nhalf.catalog import store

        found |= {"system": system, "devices_per_node": store.system(system)[0].fabric.devices_per_node}
    return found


def _unread(refused: list[InputError]) -> InputError:
    """Return the error of files that could not be read beside others that were answered."""
    if len(refused) == 1:
        return refused[0]
    reasons = "; ".join(f"{error.where}: {error.what}" for error in refused)
    return InputError(f"{len(refused)} files cannot be read: {reasons}", where="FILE", do="check these files")


def _fit(logs: tuple[str | None, ...], flags: dict[str, str | None]) -> tuple[Fit, list[InputError]]:
    """Return the fit of logs, with what the flags add to them, and an error for each file that cannot be read.

    Raises
    ------
    InputError
        No file can be read, or a flag is none.
    """
    from nhalf.evidence.readers.reading import read_each

    if not all(logs):
        raise InputError("a name is empty", where="FILE", allowed="a file, a folder, or - for standard input")
    ranks, nodes = (units.parse_count(text, where=f"--{name}") if (text := flags[name]) else None for name in _COUNTS)
    system = None
    if flags["system"]:
        from nhalf.catalog import store

        system, _ = store.system(flags["system"], where="--on")
    with _without_collector():
        read, refused = read_each([log for log in logs if log], flags["format_"])
        if refused and not any(table.rows for table in read):
            raise refused[0]
        tables = completed(read, op=flags["op"], ranks=ranks, nodes=nodes, mode=flags["mode"])
        return fit_tables(tables, system=system), refused


@contextmanager
def _without_collector() -> Iterator[None]:
    """Suspend the search for cycles: rows have none, and looking for them takes a third of the time of a long log."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _marks(found: Fit, model: str, batch: str) -> tuple[list[Mark], list[str]]:
    """Return the decode messages of a model on the curves."""
    from nhalf.evidence.marks import marks
    from nhalf.loading.model import transformer_of

    return marks(found, transformer_of(model), units.parse_int_list(batch, where="--batch"))


def _judged(found: Fit, asked: list[gate.Gate]) -> tuple[list[str], WeakEvidenceError | None]:
    """Return which gates tripped, and the complaint of one that could not be judged."""
    tripped: list[str] = []
    unknown: WeakEvidenceError | None = None
    for each in asked:
        try:
            tripped += [f"{each.text}: {text}" for text in each.tripped(found)]
        except WeakEvidenceError as error:
            unknown = unknown or error
    return tripped, unknown

"""`nhalf measure`: run the measurement, on this machine or on many."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf.cli import flags, measure_loop, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.errors import InputError
from nhalf.evidence.probe.asked import Asked, requested
from nhalf.evidence.probe.meeting import WORD
from nhalf.evidence.probe.ranks import command
from nhalf.evidence.probe.ranks import place as place_of
from nhalf.loading.message_sizes import parse_sizes
from nhalf.report import cluster_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.record import Record
    from nhalf.loading.looping import Loops


@click.command(cls=Grouped)
@click.option("--backend", metavar="NAME", help="sockets, mpi, gloo or nccl.  [default: by the launcher, else sockets]")
@click.option("-n", "--ranks", metavar="K", help="Ranks to start on this machine.  [default: 2]")
@click.option("--ops", metavar="LIST", help="Operations: send-recv, all-reduce, ...  [default: all of the backend's]")
@click.option(
    "--sizes",
    metavar="A:B",
    help="Sizes with units: A:B doubles, A:B:x4, or a list.  [default: 8B:8MiB or, with collectives, :x4]",
)
@click.option("--channels", metavar="LIST", help="Of sockets: tcp, unix, shm.  [default: all]")
@click.option("--timing", metavar="LIST", help="isolated, back-to-back, graph.")
@click.option("--pairs", metavar="all", help="'all': the matrix of every pair, with the slow ones marked.")
@flags.inputs("measure")
@click.option("--compute", is_flag=True, help="With --model: a product of the rank's share of a block before each.")
@click.option("--overlap", is_flag=True, help="How much of a collective, or of a model's, hides under computing.")
@click.option("--fuse", metavar="LIST", help="m small collectives, or of a model's, against one: 1,2,4,8.")
@click.option("--fuse-size", default="16KiB", show_default=True, metavar="SIZE", help="The small one of --fuse.")
@click.option(
    "--placement",
    metavar="HOW",
    help="Where ranks started here run. spread: a core each, of other caches where there are; near: threads of one "
    "core, else cores of one cache; free: where the system moves them, as most tools do: on one core it may read a "
    "third of the latency between two.  [default: spread; mpi: free]",
)
@click.option(
    "--listen",
    is_flag=False,
    flag_value="",
    metavar="[HOST[:PORT]]",
    help="Be the other host of one measurement, at this address of its own, and print a word.  [default: 127.0.0.1]",
)
@click.option("--connect", metavar="HOST[:PORT]", help="Measure with a host that listens, by the word it printed.")
@click.option("--bind", metavar="ADDRESS", help="Where --listen, or a launcher's rank 0, is reached.")
@click.option("--port", metavar="N", help="The port of --listen and --connect, or of rank 0.  [default: 29577]")
@click.option(
    "--word", default="", metavar="WORD", help="What both ends must know; it is proved, never sent. Or NHALF_WORD."
)
@click.option(
    "--budget", metavar="TIME", help="Stop after this time.  [default: 12s; 30s with collectives; --listen: 1h]"
)
@click.option("--target", default="2%", show_default=True, metavar="SHARE", help="Or when medians are known so well.")
@click.option("--deadline", default="30s", show_default=True, metavar="TIME", help="The longest wait for a rank.")
@click.option("--wait", default="60s", show_default=True, metavar="TIME", help="The longest wait for ranks to come.")
@click.option("--sync", default="auto", show_default=True, metavar="HOW", help="Ranks begin by window or barrier.")
@click.option("--seed", default="1", show_default=True, metavar="N", help="Of the random order.")
@click.option("--launches", default="1", show_default=True, metavar="N", help="Start the ranks anew N times.")
@click.option("-o", "--output", "file", metavar="FILE",
              help="Save every sample, for nhalf fit (.json), or write into a cluster file (.toml).")  # fmt: skip
@click.option("--like", metavar="SYSTEM", help="What a new cluster file is like.")
@output_formats.option
def measure(file: str | None, like: str | None, **given: Any) -> None:  # noqa: ANN401  click's values
    """Measure latency and bandwidth between processes, and print the fit.

    Without flags: messages between two processes of this machine, over TCP, Unix sockets and shared memory.
    `--backend mpi -n 4` adds collectives by mpiexec; `torchrun ... -m nhalf measure` uses your own torch. Two hosts:
    `nhalf measure --listen ADDRESS` on one, `nhalf measure --connect ADDRESS` with the word it prints on the other.
    `--model M --tp 2` sends what a model sends, token by token.
    """
    from nhalf.evidence.probe import listening, session
    from nhalf.evidence.probe.progress import Progress, rescue
    from nhalf.evidence.probe.signals import Interrupts

    sizes, said = given.pop("sizes"), {name: given.pop(name) for name in measure_loop.INPUTS}
    looped = measure_loop.asked(given.pop("model"), said, given, None if _apart(given) else place_of(os.environ))
    del given["compute"]
    if looped is not None:
        given |= {"loops": looped.programs, "ladder": looped.ladder}
    cluster = Path(file) if file and file.endswith(".toml") else None
    target = Path(file) if file and cluster is None else None
    if file and not Path(file).absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"-o {file}", do="make it first")
    if cluster is not None:
        cluster_file.check(cluster, like)
    typed = command(sys.argv[2:] if sys.argv[1:2] == ["measure"] else [], os.environ)
    if given["connect"] and not given["word"] and WORD not in os.environ and sys.stdin and sys.stdin.isatty():
        given["word"] = click.prompt("Word that the host that listens printed", err=True)
    asked = Asked(command=typed, file=str(target or ""), sizes_bytes=parse_sizes(sizes) if sizes else (), **given)
    place, request = requested(asked, os.environ)
    if asked.listen is not None:
        came_from = listening.listen(request, lambda line: click.echo(line, err=True))
        click.echo(f"Measured with {came_from}; the answer is there.")
        return
    with Interrupts() as interrupts, Progress() as progress:
        calls = session.Calls(progress=progress, rescue=rescue(target, progress, output.warn), interrupted=interrupts)
        record = session.measured(request, place, calls)
        if record is None:
            return  # rank 0 says it
        interrupts.ignore()  # it is complete: whoever interrupts now gets the file and the answer
        progress.close()
        if target is not None:
            record.save(target)
        _answer(record, request, str(target or ""), looped)
        if cluster is not None:
            _write(cluster, record, like)


def _apart(given: Mapping[str, Any]) -> bool:
    return given["listen"] is not None or given["connect"] is not None


def _answer(record: Record, request: Request, file: str, looped: Loops | None) -> None:
    from nhalf.evidence.fit import fit
    from nhalf.evidence.probe.extras import of_run
    from nhalf.evidence.readers.nhalf_run import tables_of
    from nhalf.report import measure as report
    from nhalf.report.view import View

    run = record.document()
    tables = [table for table in tables_of({**run, "doubts": []}, file) if table.rows and "fuse" not in table.label]
    found = None if request.pairs or not tables else fit(tables)
    answer = report.Answer(fit=found, run=run, extras=of_run(run, pairs=request.pairs or looped is not None), file=file)
    if looped is not None:
        measure_loop.answer(answer, looped)
        return
    output_formats.show(
        View(
            document=lambda: report.document(answer), rows="fits", brief=lambda: report.brief(answer),
            detail=lambda canvas: report.write(answer, canvas),
        )
    )  # fmt: skip


def _write(path: Path, record: Record, like: str | None) -> None:
    """Write what was measured into a cluster file: links of messages, and the curves of collectives."""
    from nhalf.catalog import store
    from nhalf.evidence.fit import fit
    from nhalf.evidence.readers.nhalf_run import tables_of

    run = record.document()
    tables = [table for table in tables_of({**run, "doubts": []}, "nhalf measure") if table.rows]
    named = store.find("system", like, where="--like") if like else ""
    told = cluster_file.write_measured(path, tables, fit(tables) if tables else None, str(run["backend"]), named)
    output.tell(f"wrote {path}: {'; '.join(told) or 'the links of messages'}")

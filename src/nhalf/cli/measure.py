"""`nhalf measure`: run the measurement, on this machine or on many."""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from nhalf.cli import forms, output
from nhalf.errors import InputError, NhalfError
from nhalf.evidence.probe.asked import Asked, requested
from nhalf.loading.collective import parse_sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.probe.plan import Request
    from nhalf.evidence.probe.record import Record

_REFRESH_S = 0.25
_PARTIAL = "nhalf-measure.partial.json"


@click.command()
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
@click.option("--overlap", is_flag=True, help="How much of a collective hides under computing.")
@click.option("--fuse", metavar="LIST", help="m small collectives against one: 1,2,4,8.")
@click.option("--fuse-size", default="16KiB", show_default=True, metavar="SIZE", help="The small one of --fuse.")
@click.option("--listen", is_flag=True, help="Be the other host of one measurement.")
@click.option("--connect", metavar="HOST", help="Measure with a host that listens.")
@click.option("--bind", metavar="ADDRESS", help="Where --listen, or a launcher's rank 0, is reached.")
@click.option("--port", metavar="N", help="The port of --listen and --connect, or of rank 0.  [default: 29577]")
@click.option("--word", default="", metavar="WORD", help="Only who says the same word may measure with this host.")
@click.option("--budget", metavar="TIME", help="Stop after this time.  [default: 12s; 30s with collectives]")
@click.option("--target", default="2%", show_default=True, metavar="SHARE", help="Or when medians are known so well.")
@click.option("--deadline", default="30s", show_default=True, metavar="TIME", help="The longest wait for a rank.")
@click.option("--wait", default="60s", show_default=True, metavar="TIME", help="The longest wait for ranks to come.")
@click.option("--sync", default="auto", show_default=True, metavar="HOW", help="Ranks begin by window or barrier.")
@click.option("--seed", default="1", show_default=True, metavar="N", help="Of the random order.")
@click.option("--launches", default="1", show_default=True, metavar="N", help="Start the ranks anew N times.")
@click.option("-o", "--output", "file", metavar="FILE", help="Save every sample, for nhalf fit.")
@forms.option
def measure(listen: bool, file: str | None, **given: Any) -> None:  # noqa: ANN401  click's values
    """Measure latency and bandwidth between processes, and print the fit.

    Without flags: messages between two processes of this machine, over TCP, Unix sockets and shared memory.
    `--backend mpi -n 4` adds collectives by mpiexec; `torchrun ... -m nhalf measure` uses your own torch. Two hosts:
    `nhalf measure --listen` on one, `nhalf measure --connect HOST` on the other.
    """
    sizes = given.pop("sizes")
    asked = Asked(listen=listen, command=_command(), file=file or "",
                  sizes_bytes=parse_sizes(sizes) if sizes else (), **given)  # fmt: skip
    place, request = requested(asked, os.environ)
    target = Path(file) if file else None
    if target is not None and not target.absolute().parent.is_dir():
        raise InputError("there is no such folder", where=f"-o {file}", do="make it first")
    if listen:
        _listen(request)
        return
    with _Progress() as progress:
        saving = _rescue(target, progress)
        record = _run(request, place, progress, saving)
    if record is None:
        return  # rank 0 says it
    if target is not None:
        record.save(target)
    _answer(record, request, file or "")


def _command() -> str:
    """Return the command as it was typed, without where its samples went, to be proposed again."""
    typed = sys.argv[2:] if len(sys.argv) > 1 and sys.argv[1] == "measure" else []
    kept, skip = [], False
    for word in typed:
        if skip or word in ("-o", "--output", "--budget"):
            skip = not skip and "=" not in word
        elif word != "--json" and not word.startswith(("--output=", "--budget=")):
            kept.append(word)
    return shlex.join([*_launcher(), "measure", *kept])


def _launcher() -> list[str]:
    """Return what started this rank, where one host has them all: nobody else could start the command again."""
    size = os.environ.get("WORLD_SIZE", "")
    if "TORCHELASTIC_RUN_ID" in os.environ and size == os.environ.get("LOCAL_WORLD_SIZE"):
        return ["torchrun", "--nproc-per-node", size, "-m", "nhalf"]
    return ["nhalf"]


def _run(request: Request, place: Any, progress: _Progress, rescue: Callable[..., None]) -> Record | None:  # noqa: ANN401
    from nhalf.evidence.probe import session

    if request.host:
        return session.connect(request, progress, rescue)
    if place is not None:
        return session.joined(request, place, progress, rescue)
    return session.local(request, progress, rescue)


def _listen(request: Request) -> None:
    from nhalf.evidence.probe import session

    def ready(host: str, port: int) -> None:
        click.echo(f"nhalf: listening on {host}:{port} for one measurement, for {request.wait_s:.0f} s", err=True)

    came_from = session.listen(request, ready)
    click.echo(f"Measured with {came_from}; the answer is there.")


def _rescue(target: Path | None, progress: _Progress) -> Callable[[Record, BaseException], None]:
    """Return what saves the samples of a measurement that ends early."""

    def save(record: Record, error: BaseException) -> None:
        progress.close()
        if not record.samples:
            return
        path = target or Path(_PARTIAL)
        try:
            record.save(path)
        except NhalfError as problem:
            output.warn(f"{record.samples} samples are lost: {problem}")
            return
        why = f" ({error})" if not isinstance(error, NhalfError) else ""
        output.warn(f"ended early{why}: {record.samples} samples are in {path}; nhalf fit {path}")

    return save


def _answer(record: Record, request: Request, file: str) -> None:
    from nhalf.evidence.fit import fit
    from nhalf.evidence.probe.extras import of_run
    from nhalf.evidence.readers.nhalf_run import tables_of
    from nhalf.report import measure as report

    run = record.document()
    tables = [table for table in tables_of({**run, "doubts": []}, file) if table.rows and "fuse" not in table.label]
    found = None if request.pairs or not tables else fit(tables)
    answer = report.Answer(fit=found, run=run, extras=of_run(run, pairs=request.pairs), file=file)
    if forms.write(lambda: report.document(answer), "fits"):
        return
    canvas = output.canvas()
    report.write(answer, canvas)
    output.write(canvas.text)


class _Progress:
    """A bar on standard error, where that is a terminal; nothing elsewhere."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._due = 0.0

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=Console(stderr=True),
                transient=True, auto_refresh=False,
            )  # fmt: skip
            self._task = self._bar.add_task("measuring", total=1.0)
            self._bar.start()
        return self

    def __call__(self, share: float, text: str) -> None:
        """Show how far it is."""
        now = time.monotonic()
        if self._bar is not None and (now >= self._due or share >= 1.0):
            self._due = now + _REFRESH_S  # drawing more often would take a processor from the ranks
            self._bar.update(self._task, completed=share, description=text, refresh=True)

    def close(self) -> None:
        """Take the bar away, so that a message has a line of its own."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(self, *_: object) -> None:
        self.close()

"""`nhalf doctor`: whether measured collectives are normal, and what is wrong where they are not."""

from __future__ import annotations

from pathlib import Path

import click

from nhalf.cli import next_command, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.errors import NoAnswerError, WeakEvidenceError
from nhalf.files.writing import write_text
from nhalf.loading.doctoring import examine, judged
from nhalf.loading.fitting import unread
from nhalf.report import doctor as report
from nhalf.report.junit import xml
from nhalf.report.view import View

_NOT_AGAIN = {"--junit": None, "--fail-if": None, "--baseline": None}


@click.command(cls=Grouped)
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option("--on", "system", metavar="SYSTEM", help="What the ranks ran on.  [default: by the GPUs in the log]")
@click.option("--model", metavar="MODEL", help="Say what each slow pair costs a token of this model.")
@click.option("--ranks", metavar="K", help="The ranks, where a log does not say.")
@click.option("--nodes", metavar="N", help="The nodes, where a log does not say.")
@click.option("--baseline", metavar="DIR", help="Earlier logs: since when, and with which version, it changed.")
@click.option("--fail-if", "limits", multiple=True, metavar="LIMIT", help="Exit 3 when it holds: 'share<60%'.")
@click.option("--junit", metavar="FILE", help="Write the checks as JUnit XML.")
@output_formats.option
def doctor(logs: tuple[str, ...], limits: tuple[str, ...], junit: str | None, **flags: str | None) -> None:
    """Say whether the logs in LOG... are normal, and if not why: a file, several, a folder, - for standard input.

    Read are benchmark logs (as by nhalf fit), nvidia-smi topo -m, NCCL_DEBUG=INFO output, ibstat and traces, in any
    mixture. A folder of logs between two nodes each becomes a matrix with its slow pairs.
    """
    found, refused = examine(logs, **flags)
    tripped, unknown = judged(found, limits)
    fits = found.normal is True and bool(found.readings)
    after = (
        next_command.command("fit", {"--fail-if": None, "--like": found.system})
        if fits
        else next_command.command("doctor", {"--detail": True, **_NOT_AGAIN})
    )
    output_formats.show(
        View(
            document=lambda: report.document(found, tripped),
            rows="causes",
            brief=lambda: report.brief(found, tripped, next_command=after),
            detail=lambda canvas: report.write(found, canvas, tripped),
        )
    )
    if junit:
        write_text(Path(junit), xml("nhalf doctor", report.checks(found, tripped)))
    if tripped:
        for error in refused:
            output.warn(str(error))
        raise NoAnswerError("; ".join(tripped), where="--fail-if", allowed=f"not {' and not '.join(limits)}")
    if refused:
        raise unread(refused)
    if unknown is not None:
        raise unknown
    if found.normal is None and not found.named and not limits:
        raise WeakEvidenceError(
            "it holds no time to compare",
            where=", ".join(logs),
            do="add the log of a benchmark, and name the machine with --on",
        )

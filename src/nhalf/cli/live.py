"""`nhalf live`: what a running server pays, and since when, from the metrics that it publishes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf.cli import flags, next_command, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.cli.live_screen import refreshing
from nhalf.errors import WeakEvidenceError
from nhalf.files.writing import write_text
from nhalf.live.alerts import rules
from nhalf.live.answer import answer
from nhalf.live.collectives import parted, traced
from nhalf.live.expected import Expected
from nhalf.live.exporter import exposition, serve
from nhalf.live.polling import Poll
from nhalf.live.scrape import targets
from nhalf.loading import served
from nhalf.report import live as report
from nhalf.report.view import View

if TYPE_CHECKING:
    from nhalf.report.live import Watched


@click.command(cls=Grouped)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option("--model", metavar="MODEL", help="What runs there.  [default: what the server says]")
@click.option("--launch", metavar="LINE", help="The line that launched it: model, layout and engine are read from it.")
@click.option("--every", metavar="TIME", default="10s", help="Time between scrapes.  [default: 10s]")
@click.option("--for", "lasts", metavar="TIME", help="Stop after so long.  [default: until Ctrl-C]")
@click.option("--once", is_flag=True, help="Two scrapes, one answer.")
@click.option("--serve", "address", metavar="HOST:PORT", help="Publish prediction, excess and findings for Prometheus.")
@click.option("--alerts", metavar="FILE.yaml", help="Write rules for Prometheus; their thresholds are predictions.")
@click.option("--learn", metavar="STACK.toml", help="Refit the stack's constants on what was seen, for --stack.")
@flags.inputs("live")
@output_formats.option
def live(urls: tuple[str, ...], *, once: bool, address: str | None, alerts: str | None, learn: str | None, every: str,
         lasts: str | None, model: str | None, launch: str | None, **given: Any) -> None:  # fmt: skip  # noqa: ANN401
    """Say what the servers at URL... pay for each token, against what their step is predicted to take.

    URL is http://HOST:PORT/metrics of vLLM, SGLang, TensorRT-LLM, Dynamo or llama.cpp, or a file: a saved page; a
    dump of NCCL's Inspector, or traces of all ranks. Only /v1/models is asked besides; redirects are not followed.
    """
    apart, stop = served.seconds(every, "--every"), served.seconds(lasts, "--for") if lasts else None
    flags.written_as(learn, ".toml", "a stack, which is written as TOML")
    traces, pages = parted(urls)
    poll = Poll(targets=targets(pages), every=apart, timed=traced(traces))
    notes: list[str] = []
    first = served.Described(model=model, launch=launch, given=given)

    def watched() -> Watched:
        now = time.time()
        pairs = sorted(((answer(watch, now), watch) for watch in poll.servers()),
                       key=lambda pair: report.urgency(pair[0]))  # fmt: skip
        return report.Watched(answers=[each for each, _ in pairs], watches=[each for _, each in pairs],
                              assumed=first.assumed, notes=notes)  # fmt: skip

    def look() -> None:
        poll.scrape()
        _describe(poll, first, notes)
        if address:  # the exporter's threads read a page, never what is being changed
            page[0] = exposition(watched().answers)

    page = [exposition([])]
    exporter = serve(address, lambda: page[0]) if address else None
    try:
        refreshing(look, lambda: _view(watched()), every=apart, once=once, stop=stop)
    finally:
        poll.close()
        if exporter is not None:
            exporter.shutdown()
            exporter.server_close()
    if alerts:
        write_text(Path(alerts), rules(poll.servers()))
    if learn:
        _learnt(poll, first, Path(learn))
    if not any(watch.seen for watch in poll.servers()):
        why = "; ".join(dict.fromkeys(each.why_nothing for each in watched().answers)) or report.DUMPS
        raise WeakEvidenceError(f"nothing can be said of a token: {why}", where="nhalf live", do="check the address")


def _describe(poll: Poll, first: served.Described, notes: list[str]) -> None:
    """Let servers that answered for the first time say what they serve, so that their steps are predicted."""
    for watch in poll.servers():
        last = watch.last
        if last is None or watch.name in first.asked:
            continue
        scenario, why = first.scenario(last.engine, poll.served(watch.name), last.facts, watch.name)
        notes.extend([why] if why and why not in notes else [])
        if scenario is not None:
            watch.expect(Expected(scenario=scenario))


def _view(found: Watched) -> View:
    """Return the answer in every form; rows of CSV are the windows, and what follows is the watch without an end."""
    after = next_command.command("live", {"--once": None, "--for": None, "--every": "10s"})

    return View(document=lambda: report.document(found), rows="history",
                below=lambda canvas: report.detail(found, canvas),
                brief=lambda: report.brief(found, next_command=after))  # fmt: skip


def _learnt(poll: Poll, first: served.Described, path: Path) -> None:
    """Write the constants that were learnt from all servers' windows."""
    from nhalf.live.learn import learnt
    from nhalf.report.calibrate import Calibrated, stack_file

    fit = learnt([each for watch in poll.servers() for each in watch.seen], first.columns())
    found = Calibrated(fit=fit, splits=(), doubts=(), engine=first.engine, path="nhalf live")
    write_text(path, stack_file(found, date=time.strftime("%Y-%m-%d", time.gmtime())))
    output.tell(f"{path}: constants refitted on {fit.rows} groups of windows; use it with --stack {path}")

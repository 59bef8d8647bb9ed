"""What to run after `nhalf trace`: what an answer lacks, or a page of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.cli import next_command

if TYPE_CHECKING:
    from nhalf.trace.study import Study


def _links_of(result: Study) -> list[str]:
    """Return how the links of a run become known: invented ones, or another machine's, would price another run."""
    if any(row.kind.family == "gloo" for row in result.rows):
        return ["nhalf measure --backend gloo -o run.json", "nhalf fit run.json -o mycluster.toml"]
    return ["nhalf fit nccl-tests.log -o mycluster.toml  # the log of nccl-tests on these ranks"]


def next_commands(result: Study, *, links: bool, batch: bool, outputs: tuple[str, ...]) -> list[str]:
    """Return the commands to run next, or what they lack."""
    if not result.timeline.waits_known or not result.timeline.meetings.whole:
        return ["# the same, and the other ranks' files"]
    if any(row.kind.size_bytes is None for row in result.rows) and not batch:
        sized = next_command.command("trace", {"--model": "config.json", "--batch": 8})
        return [f"{sized}  # with your model and batch"]
    if not links and any(row.line is None for row in result.rows):
        return [*_links_of(result), next_command.command("trace", {"--links": "mycluster.toml"})]
    if not outputs:
        return [next_command.command("trace", {"--output": ("report.html", "tracks.json")})]
    return ["# to compare two runs: nhalf trace --diff BEFORE AFTER"]

"""Settings that hold for every test."""

from __future__ import annotations

import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# The same examples on every run, and no deadline: a slow machine is not a wrong answer. To look for new examples:
# pytest --hypothesis-profile=explore
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("repeatable")


_SKIPPED = "nhalf/skipped-in-the-test-bed"
"""Where the run of the test bed leaves what it skipped for the run after it, whose closing line is the verdict."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Keep what the test bed skipped, or tell it again: with `-rs` skips are the last thing before the closing line."""
    if not hasattr(config, "cache") or config.cache is None:
        return
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    if any("testbed" in str(each) for each in config.args):
        config.cache.set(_SKIPPED, skipped)
        return
    for reason, count in Counter(config.cache.get(_SKIPPED, [])).items():
        terminalreporter.write_line(f"SKIPPED [{count}] tests/testbed: {reason.removeprefix('Skipped: ')}")
    if len(config.args) > 1:  # the whole suite, as `make test` runs it
        config.cache.set(_SKIPPED, [])


@pytest.fixture
def no_end_is_left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the sockets that a test leaves open, as a process that died does."""
    made: list[socket.socket] = []
    begin = socket.socket.__init__

    def noted(self: socket.socket, *arguments: Any, **named: Any) -> None:  # noqa: ANN401
        begin(self, *arguments, **named)
        made.append(self)

    monkeypatch.setattr(socket.socket, "__init__", noted)
    yield
    for each in made:
        each.close()

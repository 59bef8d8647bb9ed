"""Polling: servers and dumps are scraped at once, each within its time, and what comes goes to their watches."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nhalf.live.collectives import calls
from nhalf.live.reading import LAST, reading, served_model
from nhalf.live.scrape import TIMEOUT_S, GapError, fetch
from nhalf.live.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nhalf.live.collectives import Calls
    from nhalf.live.scrape import Target

_AT_ONCE: Final = 32
_SMALL: Final = 256 * 1024
"""The largest page `/v1/models` that is taken [bytes]."""


@dataclass(slots=True, eq=False, kw_only=True)
class Poll:
    """Watches over some targets; dumps of inspectors go to all of them, for they are of the same job.

    `timed` are collectives that are known beforehand: those of traces.
    """

    targets: Sequence[Target]
    every: float
    timed: Calls | None = None
    timeout_s: float = TIMEOUT_S
    clock: Callable[[], float] = time.time
    watches: dict[str, Watch] = field(default_factory=dict)
    dumps: set[str] = field(default_factory=set)
    _late: dict[str, Future[tuple[float, str]]] = field(default_factory=dict)
    _workers: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        """Begin with a watch for each target."""
        self._workers = ThreadPoolExecutor(max_workers=min(len(self.targets), _AT_ONCE), thread_name_prefix="scrape")
        for each in self.targets:
            self.watches[each.name] = Watch(name=each.name, every=self.every)
            if self.timed is not None:
                self.watches[each.name].calls.append((self.clock(), self.timed))

    def scrape(self) -> None:
        """Scrape every target once; one that is still busy with the last scrape has a gap."""
        end = time.monotonic() + self.timeout_s + 1.0
        for each in self.targets:
            if each.name not in self._late:
                self._late[each.name] = self._workers.submit(self._fetched, each)
        dumped: list[str] = []
        for each in self.targets:
            dumped += self._take(each, self._late[each.name], max(end - time.monotonic(), 0.0))
        if dumped:  # one file a rank: who waits for whom shows in all of them together
            found = calls("\n".join(dumped))
            for watch in self.servers() if found.ops else ():
                watch.calls.append((self.clock(), found))

    def _fetched(self, wanted: Target) -> tuple[float, str]:
        """Return when a page was asked for, and its text: counters are of about that moment."""
        at = self.clock()
        return at, fetch(wanted, self.timeout_s)

    def _take(self, wanted: Target, coming: Future[tuple[float, str]], patience: float) -> list[str]:
        """Hand what comes to its watch; return the text of a dump."""
        watch = self.watches[wanted.name]
        try:
            at, text = coming.result(timeout=patience)
        except LateError:
            watch.miss(self.clock(), "its name or its answer takes longer than a scrape may")
            return []
        except GapError as error:
            watch.miss(self.clock(), str(error))
            self._late.pop(wanted.name)
            return []
        self._late.pop(wanted.name)
        found = reading(text, at, watch.last.totals.get(LAST, 0.0) if watch.last is not None else 0.0)
        if found is None:
            watch.miss(at, "its page holds no metrics that are known")
        elif found.dump:
            self.dumps.add(wanted.name)
            return [text]
        else:
            watch.take(found)
        return []

    def servers(self) -> list[Watch]:
        """Return the watches over servers, those of dumps left out."""
        return [watch for name, watch in self.watches.items() if name not in self.dumps]

    def served(self, name: str) -> str:
        """Return the model that a server says it serves, by its metrics or its page `/v1/models`; else nothing."""
        wanted = next((each for each in self.targets if each.name == name), None)
        if wanted is not None and wanted.file is None:
            try:
                if found := served_model(fetch(wanted.at("/v1/models"), min(self.timeout_s, 2.0), _SMALL)):
                    return found
            except GapError:
                pass
        last = self.watches[name].last
        return last.model if last is not None else ""

    def close(self) -> None:
        """Let go of the threads; what still waits ends by its own time limit."""
        self._workers.shutdown(wait=False, cancel_futures=True)

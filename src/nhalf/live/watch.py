"""A watch over one server: its windows, what each was predicted to take, gaps, restarts, and the test for drift."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from nhalf.live.drift import Drift
from nhalf.live.window import NothingError, restarted, window

if TYPE_CHECKING:
    from nhalf.live.collectives import Calls
    from nhalf.live.drift import Shift
    from nhalf.live.expected import Expected, Prediction
    from nhalf.live.reading import Reading
    from nhalf.live.window import Window

KEPT: Final = 8640
"""Windows that are kept: a day of one every 10 s."""
_SHARES: Final = (0.70, 0.15, 0.10)
"""What a step is made of before anything is learnt, each as doubtful as large: a constant, what grows with the
requests, and what with the tokens in the cache [shares of a step]."""

_BEND: Final = 0.02
"""How far a step may be off a straight line in the requests [share of a step]: kernels and graphs change with them."""
_BENDS: Final = 22
"""Half octaves of requests in which it may, from 1 to 1,448."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A window with its prediction (None without a scenario)."""

    window: Window
    predicted: Prediction | None

    @property
    def decode_s(self) -> tuple[float, float, float]:
        """Return the decode step without prefill [s] and its range: told, or the mean less what prefill takes."""
        return decode_step(self.window)


def decode_step(window: Window) -> tuple[float, float, float]:
    """Return the decode step of a window without its prefills [s], and its range."""
    if not math.isnan(window.decode_s):
        return window.decode_s, 0.99 * window.decode_s, 1.01 * window.decode_s
    share, (less, more) = window.prefill_share, window.extra_s
    if math.isnan(share) or math.isnan(more):
        return window.step_s, 0.5 * window.step_s, window.step_s
    # A mean of requests counts a step by those that wait for it, so a step with prefill weighs as any other does.
    takes = [min(share * each, 0.95 * window.step_s) for each in (less, (less + more) / 2, more)]
    return window.step_s - takes[1], window.step_s - takes[2], window.step_s - takes[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time in which nothing was learnt, and why."""

    start: float
    end: float
    why: str


@dataclass(slots=True, eq=False, kw_only=True)
class Watch:
    """What is known of one server; `every` is the time between scrapes [s], `expected` what predicts its steps."""

    name: str
    every: float
    expected: Expected | None = None
    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    gaps: deque[Gap] = field(default_factory=lambda: deque(maxlen=200))
    restarts: list[float] = field(default_factory=list)
    drift: Drift | None = None
    last: Reading | None = None
    calls: deque[tuple[float, Calls]] = field(default_factory=lambda: deque(maxlen=KEPT))
    first: Window | None = None
    _failed: float = math.nan

    def take(self, reading: Reading) -> Shift | None:
        """Take what a scrape says; return a change of the step that it proves."""
        before = self.last
        self._failed = math.nan
        if before is not None and before.engine == reading.engine and restarted(before, reading):
            self.restarts.append(reading.at)
        self.last = reading
        try:
            found = window(before if before is None or before.engine == reading.engine else None, reading)
        except NothingError as error:
            if before is not None or reading.fresh:
                self._gap(before.at if before is not None else reading.at, reading.at, str(error))
            return None
        predicted = self.expected.at(found) if self.expected is not None else None
        self.seen.append(Seen(window=found, predicted=predicted))
        return self._test(found)

    def expect(self, expected: Expected) -> None:
        """Predict the windows that were seen, and those to come; the test for drift begins anew with them."""
        self.expected, self.first, self.drift = expected, None, None
        windows = [each.window for each in self.seen]
        self.seen.clear()
        for each in windows:
            predicted = expected.at(each)
            self.seen.append(Seen(window=each, predicted=predicted))
            self._test(each)

    def miss(self, at: float, why: str) -> None:
        """Keep that a scrape brought nothing."""
        start = self._failed if not math.isnan(self._failed) else (self.last.at if self.last else at)
        self._failed = start
        self._gap(start, at, why)

    def _gap(self, start: float, end: float, why: str) -> None:
        """Keep a gap; one that goes on is one."""
        if self.gaps and self.gaps[-1].why == why and self.gaps[-1].end >= start - 1e-6:
            start = self.gaps.pop().start
        self.gaps.append(Gap(start=start, end=end, why=why))

    def _test(self, found: Window) -> Shift | None:
        """Hand a window to the test for drift; its inputs are in units of the first window's.

        What is predicted takes no part: a curve that changes its algorithm jumps with the batch, and where the server
        jumps elsewhere the difference would look like a change of the server.
        """
        if math.isnan(found.context[0]) and self.first is not None and not math.isnan(self.first.context[0]):
            return None
        if self.first is None or self.drift is None:
            self.first = found
            self.drift = self._drift(found)
        value = found.decode_s if not math.isnan(found.decode_s) else found.step_s
        return self.drift.add(found.start, self.inputs(*self._load(found)), value)

    def _drift(self, found: Window) -> Drift:
        """Return the test, with what is known before anything is learnt."""
        prefill = 1.0 - decode_step(found)[0] / found.step_s if math.isnan(found.decode_s) else 0.0
        doubts = (*_SHARES, max(prefill / 2, 0.02), *[_BEND] * _BENDS)
        prior = (*_SHARES, prefill, *[0.0] * _BENDS)
        return Drift(prior=prior, doubts=doubts, scale=found.step_s, every=self.every)

    def _load(self, found: Window) -> tuple[float, float, float]:
        """Return the load of a window: requests, context, and prompt tokens of a step that shows in it."""
        context = found.context[0] if not math.isnan(found.context[0]) else 1.0
        return found.running[0], context, found.prompt_tokens if math.isnan(found.decode_s) else 0.0

    def inputs(self, running: float, context: float, prompt_tokens: float) -> tuple[float, ...]:
        """Return the inputs of the regression: a constant, requests, tokens in the cache, prompt tokens of a step.

        Behind them comes how near the requests are to each of some numbers, half an octave apart: what a step bends by
        there.
        """
        first = self.first
        if first is None:
            return 1.0, 1.0, 1.0, 0.0, *[0.0] * _BENDS
        requests, tokens, prompts = self._load(first)
        place = min(max(2.0 * math.log2(max(running, 1.0)), 0.0), _BENDS - 1.0)
        near = [max(1.0 - abs(place - each), 0.0) for each in range(_BENDS)]
        return (1.0, running / requests, running * context / (requests * tokens),
                prompt_tokens / prompts if prompts > 0 else prompt_tokens / 256.0, *near)  # fmt: skip

    def explained_s(self, running: float, context: float, prompt_tokens: float) -> float:
        """Return the step [s] that is expected at a load by what was learnt; NaN before that."""
        if self.drift is None:
            return math.nan
        return float(self.drift.coefficients @ self.inputs(running, context, prompt_tokens)) * self.drift.scale

    def between(self, start: float, end: float) -> list[Seen]:
        """Return the windows that ended after `start` and not after `end`."""
        return [each for each in self.seen if start < each.window.end <= end]

    def newest(self, count: int) -> list[Seen]:
        """Return the last windows, the oldest first."""
        return list(islice(self.seen, max(len(self.seen) - count, 0), None))

"""`nhalf live` on made histories over real HTTP: time to find, false alarms in a day, and whether the cause is right.

    python tests/bench/live_study.py [--quick] [--seed FIRST] [--days N]

Servers are processes on loopback that simulate an engine step by step (tests/unit/live_histories.py), each scrape 10 s
later on the clock of the watch; days are handed to the watch without HTTP. Printed is what was reached, misses by name.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.live_histories import BUSY, START, Conditions, Engine, daily  # noqa: E402  the path comes first

import nhalf  # noqa: E402
from nhalf.live.answer import answer  # noqa: E402
from nhalf.live.expected import Expected  # noqa: E402
from nhalf.live.polling import Poll  # noqa: E402
from nhalf.live.reading import reading  # noqa: E402
from nhalf.live.scrape import target  # noqa: E402
from nhalf.live.watch import Watch  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nhalf.live.answer import Answer

STEP_S = 10.0
TURN = 120
"""The scrape after which something changes: 20 minutes."""
AFTER = 30
FORMATS = ("vllm", "sglang", "trtllm", "dynamo")
KINDS = {
    "constant-added": ("vllm", "sglang", "trtllm", "dynamo"),
    "longer-prompts": ("vllm", "sglang", "trtllm", "dynamo"),
    "fuller-batch": ("vllm", "sglang", "trtllm", "dynamo"),
    "speculation": ("vllm", "sglang", "trtllm"),
    "kv-pressure": ("vllm", "sglang", "trtllm"),
    "restarted": ("vllm", "sglang", "trtllm", "dynamo"),
}
"""The formats that hold what tells each cause: Dynamo's front end sees neither drafts nor preemptions."""
COUNTS = {
    "constant-added": 8,
    "longer-prompts": 7,
    "fuller-batch": 7,
    "speculation": 6,
    "kv-pressure": 6,
    "restarted": 6,
}


@dataclass
class Clock:
    """The clock of a watch: so many steps since the start."""

    steps: int = 0

    def __call__(self) -> float:
        return START + STEP_S * self.steps


@contextmanager
def serving(*words: str) -> Iterator[int]:
    """Run a server of the tests; give its port."""
    command = [sys.executable, str(ROOT / "tests" / "unit" / "live_server.py"), *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def watched(cause: str, kind: str, seed: int, scrapes: int, turn: int = TURN, model: bool = True) -> tuple[Watch, Answer, int]:  # fmt: skip  # noqa: E501, FBT001, FBT002
    """Return the watch over a history and its last answer, and at which scrape a change was first proved."""
    clock, first = Clock(), -1
    with serving("history", cause, kind, str(seed), str(turn * STEP_S)) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        poll = Poll(targets=[target(url)], every=STEP_S, clock=clock, timeout_s=60.0)
        [watch] = poll.watches.values()
        if model:
            watch.expect(Expected(scenario=nhalf.load("llama-3.3-70b", on="h100-sxm", tp=8)))
        for _ in range(scrapes):
            clock.steps += 1
            poll.scrape()
            shifts = watch.drift.shifts if watch.drift else []
            if first < 0 and any(shift.since >= START + turn * STEP_S - STEP_S for shift in shifts):
                first = clock.steps
        poll.close()
    return watch, answer(watch, clock()), first


class Stairs(Engine):
    """An engine whose step has stairs: batches are filled up to a graph's, and kernels change at 64 and at 128."""

    def _time(self, given: Conditions, decoding: int, prompt: float) -> float:
        filled = -decoding % (8 if decoding <= 64 else 16)
        kernels = 0.4e-3 * (decoding > 64) + 0.3e-3 * (decoding > 128)
        return super()._time(given, decoding, prompt) + 4 * given.per_request_s * filled + kernels


def jumping(now: float) -> Conditions:
    """Return a load that swings over the day and jumps every 15 minutes, with prompts of other lengths."""
    swing, turn = 1.0 + 0.6 * math.sin(2 * math.pi * now / 86_400.0), int(now // 900)
    rate = min(swing * (1, 1, 1.6, 1, 0.5, 1, 1, 2.0, 1, 1.3)[turn * 7919 % 10], 2.0)
    return replace(BUSY, rate=BUSY.rate * rate, prompt=BUSY.prompt * (1, 1, 1, 2, 1, 0.6, 1)[turn * 104_729 % 7])


def day(engine: Engine) -> int:
    """Return the false alarms of a day, handed to the watch without HTTP and without a prediction, and print them."""
    begin, watch = time.perf_counter(), Watch(name="day", every=STEP_S)
    for number in range(1, 8641):
        engine.until(STEP_S * number)
        if (read := reading(engine.page(engine.kind), START + STEP_S * number)) is not None:
            watch.take(read)
    shifts = watch.drift.shifts if watch.drift else []
    requests = [each.window.running[0] for each in watch.seen]
    print(f"  {engine.kind:<8} seed {engine.seed}: {len(shifts)} alarms in 24 h, {min(requests):.0f} to "
          f"{max(requests):.0f} requests, {time.perf_counter() - begin:.0f} s", flush=True)  # fmt: skip
    for shift in shifts:
        print(f"      at {shift.found - START:.0f} s: {1e3 * shift.excess_s:+.3f} ms")
    return len(shifts)


def main() -> None:
    """Print the study; seeds count from the one that is named, and so many days are watched of each format."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer histories, and no day")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--days", type=int, default=1)
    asked = parser.parse_args()
    print("10 us for each of 160 all-reduces, 64 requests in flight, TP8: seconds until it is found")
    for kind in FORMATS:
        took = [STEP_S * (found - TURN) if found > 0 else float("inf")
                for seed in range(0, 4 if asked.quick else 10, 2)
                for found in [watched("constant-added", kind, asked.seed + seed, TURN + 30)[2]]]  # fmt: skip
        print(f"  {kind:<8} {took}", flush=True)
    print("causes")
    right: Counter[str] = Counter()
    for cause, count in COUNTS.items():
        for seed in range(count):
            kind = KINDS[cause][(seed // 2 + seed) % len(KINDS[cause])]
            _, found, _ = watched(cause, kind, asked.seed + seed, TURN + AFTER)
            named = found.findings[0].code if found.findings else "nothing"
            right[cause] += named == cause
            if named != cause:
                print(f"    {cause} ({kind}, seed {seed}) is called {named}: {[each.code for each in found.findings]}")
        print(f"  {cause:<15} {right[cause]} of {count}", flush=True)
    print(f"  all {sum(right.values())} of {sum(COUNTS.values())}")
    nothing = [watched("nothing", kind, asked.seed + seed, TURN + AFTER)[1] for seed, kind in enumerate(FORMATS)]
    print(f"  nothing happens: {[[each.code for each in found.findings] for found in nothing]}")
    if not asked.quick:
        print("days of load that swings by 60 % on each side, nothing wrong")
        alarms = [day(Engine(daily(BUSY), seed=asked.seed + seed, kind=kind))
                  for kind in FORMATS for seed in range(asked.days)]  # fmt: skip
        print(f"  {sum(alarms)} alarms in {len(alarms)} days, at most {max(alarms)} in one")
        print("a day whose load jumps every 15 minutes, then one with stairs in the step")
        day(Engine(jumping, seed=asked.seed))
        day(Stairs(jumping, seed=asked.seed))


if __name__ == "__main__":
    main()

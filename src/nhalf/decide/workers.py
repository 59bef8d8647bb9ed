"""Workers: the tasks of a grid evaluated here, by processes of this machine, or by a Dask cluster, always in order.

Whoever evaluates a task also makes of its numbers what is kept of them, so that only a text and a tally come back. Only
so many tasks are under way at a time, so a grid of any size takes little memory; a worker that is lost has its tasks
done again by another.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys
import threading
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nhalf.decide.grid import Tally, Task, evaluate
from nhalf.errors import InputError, NoAnswerError
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from multiprocessing.context import BaseContext

    from nhalf.decide.grid import Grid, Numbers

Answered: TypeAlias = "tuple[Task, Numbers | None]"
Made: TypeAlias = "Callable[[Grid, Sequence[Answered]], list[bytes]]"
"""What is made of a portion's numbers where they are evaluated: pieces that a core's cache holds."""
Portion: TypeAlias = "tuple[Tally, Sequence[bytes | memoryview]]"
"""Some tasks as a whole, and what was made of their numbers, which is there until the next portion is asked for."""
ENOUGH: Final = 8192
"""Points of a portion, at least, until the last."""
AHEAD: Final = 2
"""Portions under way for each worker: one that runs, and another so that it never waits."""
PATIENCE_S: Final = 10
"""How long a scheduler, and its first worker, are waited for [s]."""
_NEW_POOLS: Final = 3
"""How often lost processes are replaced before the sweep gives up."""
_SLOT_BYTES: Final = 64 << 20
"""Memory in which a process hands over what it made, of which only what is written to is really taken [bytes]."""
_WORTH: Final = 1_000_000
"""Points that make a process pay: starting it takes 0.1 s, a tenth of what they take (`tests/bench/bulk_speed.py`)."""


def here(grid: Grid, tasks: Iterable[Task]) -> Iterator[Answered]:
    """Yield every task with its numbers, evaluated in this process; None for a cell that is not legal."""
    for task in tasks:
        cell = grid.workload(task)
        yield task, None if cell is None else evaluate(cell, task)


def portions(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Yield the tasks in lists of `ENOUGH` points or more, until the last."""
    waiting: list[Task] = []
    points = 0
    for task in tasks:
        waiting.append(task)
        points += task.points
        if points >= ENOUGH:
            yield waiting
            waiting, points = [], 0
    if waiting:
        yield waiting


def portion(grid: Grid, tasks: Iterable[Task], made: Made | None) -> tuple[Tally, list[bytes]]:
    """Return what some tasks say as a whole, and what is made of their numbers, nothing by None."""
    tally, answered = Tally(), list(here(grid, tasks))
    for task, answers in answered:
        tally.add(grid, task, answers)
    return tally, made(grid, answered) if made else []


def alone(grid: Grid, tasks: Iterable[Task], made: Made | None) -> Generator[Portion, None, None]:
    """Yield the portions of a grid, evaluated in this process."""
    for each in portions(tasks):
        yield portion(grid, each, made)


def fitting(points: int) -> int:
    """Return how many processes pay for so many points: as many as cores are idle, and one where more would lose."""
    if _context().get_start_method() != "fork":
        return 1
    idle = len(os.sched_getaffinity(0)) - round(os.getloadavg()[0])
    return max(1, min(idle, points // _WORTH))


def processes(grid: Grid, tasks: Iterable[Task], made: Made | None, workers: int) -> Generator[Portion, None, None]:
    """Yield the portions of a grid, evaluated by `workers` processes of this machine.

    Raises
    ------
    NoAnswerError
        Processes died again and again.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context, size = _context(), AHEAD * workers
    forked = context.get_start_method() == "fork"
    slots = [mmap.mmap(-1, _SLOT_BYTES) for _ in range(size)] if forked else []
    waiting, rest, pools = deque[_Unit](), enumerate(portions(tasks)), 0
    while True:
        with ProcessPoolExecutor(workers, context, _begin, (grid, made, slots)) as pool:
            try:
                for number, (tally, pieces) in _window(rest, waiting, _deaf(pool.submit, _sent), size):
                    yield tally, _seen(slots[number % size], pieces) if slots else pieces
            except BrokenProcessPool:
                pools += 1
                if pools > _NEW_POOLS:
                    raise NoAnswerError(
                        "worker processes die again and again",
                        where="--workers",
                        do="use fewer workers: memory may be short",
                    ) from None
                continue
            return


def _context() -> BaseContext:
    """Return how processes are started: forked, which is at once, where no thread of this one holds locks."""
    from multiprocessing import get_context

    single = sys.platform == "linux" and threading.active_count() == 1 and "polars" not in sys.modules
    return get_context("fork" if single else "spawn")


_HELD: list[Any] = []
"""What a worker process works on: the grid, what is made of numbers, and memory that its parent sees."""


def _begin(*held: object) -> None:
    """Begin a worker process: one core is its own, and it ends when its parent does."""
    from multiprocessing import parent_process

    def follow() -> None:
        if parent := parent_process():
            parent.join()
        os._exit(1)

    os.environ["POLARS_MAX_THREADS"] = "1"
    _HELD[:] = held
    threading.Thread(target=follow, daemon=True).start()


def _sent(number: int, tasks: Sequence[Task]) -> tuple[Tally, list[bytes] | list[int]]:
    """Return a portion from a worker process: its pieces, or how long each is in the memory that its parent sees."""
    grid, made, slots = _HELD
    tally, pieces = portion(grid, tasks, made)
    if not slots or sum(map(len, pieces)) > _SLOT_BYTES:
        return tally, pieces
    slot = slots[number % len(slots)]
    slot.seek(0)
    return tally, [slot.write(piece) for piece in pieces]


def _seen(slot: mmap.mmap, pieces: list[bytes] | list[int]) -> list[bytes | memoryview]:
    """Return the pieces that a worker process left in memory, or sent."""
    ends = [0]
    found: list[bytes | memoryview] = []
    for piece in pieces:
        if isinstance(piece, int):
            ends.append(ends[-1] + piece)
            found.append(memoryview(slot)[ends[-2] : ends[-1]])
        else:
            found.append(piece)
    return found


def _deaf(submit: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a way to hand work to a function whose processes, started by it, do not hear the user's interrupt: we do.

    They inherit that it is blocked while they are started; one that comes meanwhile waits for us.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return partial(submit, function)

    def start(*work: object) -> Any:  # noqa: ANN401  a future of the pool's
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return submit(function, *work)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return start


def cluster(grid: Grid, tasks: Iterable[Task], made: Made | None, address: str) -> Generator[Portion, None, None]:
    """Yield the portions of a grid, evaluated by the workers of a Dask scheduler.

    Raises
    ------
    InputError
        Dask is not installed, nobody answers at the address, no worker comes, or workers have no (or another) nhalf.
    """
    client = _connected(address)
    try:
        workers = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        there = client.scatter(grid, broadcast=True)

        def submit(number: int, tasks: Sequence[Task]) -> Any:  # noqa: ANN401  a Dask future has no type
            del number
            return client.submit(portion, there, tasks, made, pure=False)

        for _, found in _window(enumerate(portions(tasks)), deque(), submit, AHEAD * workers):
            yield found
    finally:
        client.close()


_Unit: TypeAlias = "tuple[int, list[Task]]"


def _window(
    rest: Iterator[_Unit], waiting: deque[_Unit], submit: Callable[..., Any], size: int
) -> Iterator[tuple[int, Any]]:
    """Yield what comes of portions in order, with at most `size` under way; `waiting` are those not yet yielded."""
    under_way: deque[Any] = deque(submit(*left) for left in waiting)  # those that a lost pool left behind
    while True:
        for fresh in islice(rest, max(size - len(under_way), 0)):
            waiting.append(fresh)
            under_way.append(submit(*fresh))
        if not under_way:
            return
        found = under_way.popleft().result()
        yield waiting.popleft()[0], found


def _connected(address: str) -> Any:  # noqa: ANN401  Dask has no types
    """Return a client of a scheduler with at least one worker that has this nhalf."""
    try:
        import distributed
    except ImportError as error:
        raise InputError(
            "a cluster needs Dask, which is not installed",
            where="--cluster",
            do="in the checkout: pip install '.[cluster]'",
        ) from error
    if ":" not in address:  # a client that cannot begin complains of itself when it goes
        raise InputError(f"{address!r} is no address of a scheduler", where="--cluster",
                         allowed="an address such as tcp://host:8786")  # fmt: skip
    connect: Any = distributed.Client  # Dask has no types
    try:
        client: Any = connect(address, timeout=PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no scheduler answers at {address}: {error}",
            where="--cluster",
            allowed="an address such as tcp://host:8786",
        ) from error
    try:
        client.wait_for_workers(1, timeout=PATIENCE_S)
        versions = set(client.run(_version).values())
    except (OSError, TimeoutError, ImportError, AttributeError) as error:
        client.close()
        raise InputError(
            f"no worker of {address} can run nhalf: {error or 'none came'}", where="--cluster",
            do="start workers where nhalf is installed: dask worker ADDRESS",
        ) from error  # fmt: skip
    if versions != {_version()}:
        client.close()
        raise InputError(
            f"workers have nhalf {', '.join(sorted(versions))}, this is {_version()}", where="--cluster",
            do="install the same version everywhere",
        )  # fmt: skip
    return client


def _version() -> str:
    """Return the version of nhalf where this runs."""
    return VERSION

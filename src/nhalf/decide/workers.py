"""Farms: the tasks of a grid evaluated here, by processes of this machine, or by a Dask cluster, always in order.

Only so many tasks are under way at a time, so a grid of any size takes little memory; a worker that is lost has its
tasks done again by another.
"""

from __future__ import annotations

import signal
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from nhalf.decide.grid import Task, evaluate, evaluate_sent
from nhalf.errors import InputError, NoAnswerError
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from nhalf.decide.grid import Grid, Numbers

Answered = tuple[Task, "Numbers | None"]
AHEAD: Final = 3
"""Tasks under way for each worker: one that runs, and others so that it never waits."""
PATIENCE_S: Final = 10
"""How long a scheduler, and its first worker, are waited for [s]."""
_NEW_POOLS: Final = 3
"""How often lost processes are replaced before the sweep gives up."""


def here(grid: Grid, tasks: Iterable[Task]) -> Generator[Answered, None, None]:
    """Yield every task with its numbers, evaluated in this process; None for a cell that is not legal."""
    for task in tasks:
        cell = grid.workload(task)
        yield task, None if cell is None else evaluate(cell, task)


def processes(grid: Grid, tasks: Iterable[Task], workers: int) -> Generator[Answered, None, None]:
    """Yield every task with its numbers, evaluated by `workers` processes of this machine.

    Raises
    ------
    NoAnswerError
        Processes died again and again.
    """
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    # Spawned, because a fork copies the locks of other threads (polars has some) in whatever state they are.
    waiting, rest, pools = deque[Task](), iter(tasks), 0
    while True:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            try:
                yield from _window(grid, rest, waiting, _deaf(pool.submit), AHEAD * workers)
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


def _deaf(submit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a way to hand over work whose processes, started by it, do not hear the user's interrupt: we do.

    They inherit that it is blocked while they are started; one that comes meanwhile waits for us.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return submit

    def start(*work: object) -> Any:  # noqa: ANN401  a future of the pool's
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return submit(*work)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    return start


def cluster(grid: Grid, tasks: Iterable[Task], address: str) -> Generator[Answered, None, None]:
    """Yield every task with its numbers, evaluated by the workers of a Dask scheduler.

    Raises
    ------
    InputError
        Dask is not installed, nobody answers at the address, no worker comes, or workers have no (or another) nhalf.
    """
    client = _connected(address)
    try:
        workers = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))

        def submit(function: Callable[..., Numbers], *arguments: object) -> Any:  # noqa: ANN401  a Dask future has no type
            return client.submit(function, *arguments, pure=False)

        yield from _window(grid, iter(tasks), deque(), submit, AHEAD * workers)
    finally:
        client.close()


def _window(
    grid: Grid, rest: Iterator[Task], waiting: deque[Task], submit: Callable[..., Any], size: int
) -> Iterator[Answered]:
    """Yield tasks with their numbers in order, with at most `size` under way; `waiting` are those not yet yielded."""
    under_way: deque[tuple[Task, Any]] = deque()

    def start(task: Task) -> None:
        legal = grid.cells[task.cell].scenario is not None
        under_way.append((task, submit(evaluate_sent, grid.payload(task), task) if legal else None))

    for left in list(waiting):  # those that a lost pool left behind
        start(left)
    while True:
        for fresh in islice(rest, max(size - len(under_way), 0)):
            waiting.append(fresh)
            start(fresh)
        if not under_way:
            return
        task, future = under_way.popleft()
        answers = None if future is None else future.result()
        waiting.popleft()
        yield task, answers


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

"""Speed and memory of the simulator: messages per second of each engine, beside the goals and a peer.

python tests/bench/simulate_speed.py [arrays|events|peers]...

Rates are CPU time of the best of a few runs, preparation included; `kernel` leaves the preparation out. Peers are
measured only where they are installed: SimPy (pip install simpy) and SimGrid's C++ interface (Debian:
libsimgrid-dev).
"""

from __future__ import annotations

import importlib
import importlib.util
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from nhalf.link import Link
from nhalf.simulate import network, routes, tables
from nhalf.simulate.compiled import compiled_play, is_installed
from nhalf.simulate.engine import Conditions, Run, run
from nhalf.simulate.programs import build
from nhalf.simulate.programs.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.breakdown import Array
    from nhalf.simulate.kernels import State, Work
    from nhalf.simulate.plan import Plan
    from nhalf.simulate.program import Program

LINK = Link(5e-6, 50e9)
REPEATS = 3


def best(play: Callable[[], Run], repeats: int = REPEATS) -> tuple[Run, float]:
    """Return a run and the least CPU time [s] that it took."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        found = play()
        times.append(time.process_time() - start)
    return found, min(times)


def program(name: str, ranks: int, size: float = 16384.0, segments: int = 8) -> Program:
    return build("all-reduce", name, Shape(ranks=ranks, size_bytes=size, segments=segments))


def show(label: str, rate: float, unit: str, goal: str, more: str = "") -> None:
    print(f"{label:<52}{rate:>10.3g} {unit:<12} goal {goal:<12} {more}", flush=True)


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def arrays() -> None:
    """Print what NumPy alone does where no messages meet."""
    for ranks, goal in ((512, "40"), (4096, "200")):
        made = program("ring", ranks)
        net = network.switch(ranks, LINK)
        found, spent = best(lambda made=made, net=net: run(made, net, record=False))  # type: ignore[misc]
        show(f"arrays: ring of {ranks}", found.messages / spent / 1e6, "M messages/s", goal)
    made, net = program("ring", 16_384), network.switch(16_384, LINK)
    found, spent = best(lambda: run(made, net, record=False), 1)
    show("arrays: ring of 16,384, 537 M messages", spent, "s", "3 (numba .5)", f"{memory_mb():.0f} MB (goal 150)")
    for ranks, goal in ((8, "0.03"), (64, "0.7")):
        starts = np.random.default_rng(1).exponential(1e-6, (ranks, 10_000))
        made, net = program("ring", ranks), network.switch(ranks, LINK)
        _, spent = best(lambda made=made, net=net, starts=starts: run(made, net, Conditions(starts_s=starts)))  # type: ignore[misc]
        show(f"arrays: 10,000 draws of a ring of {ranks}", spent, "s", goal)


def measured(label: str, made: Program, net: network.Network, conditions: Conditions, goal: str) -> None:
    """Print the rate of the compiled event engine, as a whole and of its loop alone."""
    spent: list[float] = []
    real = compiled_play()

    def timed(plan: Plan, state: State, work: Work, ports: int) -> None:
        start = time.process_time()
        real(plan, state, work, ports)
        spent.append(time.process_time() - start)

    with mock.patch.object(tables, "compiled_play", return_value=timed):
        found, whole = best(lambda: run(made, net, conditions, engine="compiled events", record=False))
    tracemalloc.start()
    run(made, net, conditions, engine="compiled events", record=False)
    each = tracemalloc.get_traced_memory()[1] / found.messages
    tracemalloc.stop()
    kernel = f"kernel {found.messages / min(spent) / 1e6:.3g} M/s, {each:.0f} B a message at most, {memory_mb():.0f} MB"
    show(label, found.messages / whole / 1e6, "M messages/s", goal, kernel)


def skewed(ranks: int) -> Array:
    return np.random.default_rng(1).exponential(1e-6, ranks)


def events() -> None:
    """Print what the event engine does, compiled and plain."""
    made = program("ring", 64)
    found, spent = best(lambda: run(made, network.switch(64, LINK), engine="events", record=False))
    show("plain Python: ring of 64", found.messages / spent / 1e6, "M messages/s", "-")
    if not is_installed():
        print("numba is not installed: the compiled engine is not measured")
        return
    run(made, network.switch(64, LINK), engine="compiled events")  # compiles, or loads what was compiled before
    for name, ranks in (("ring", 512), ("two-shot", 512), ("recursive-doubling", 4096), ("recursive-doubling", 16_384)):
        measured(
            f"any program: {name} of {ranks}", program(name, ranks), network.switch(ranks, LINK), Conditions(), "5"
        )
    pipelined = program("double-tree", 512, segments=64)
    measured("any program: double tree of 512, 64 segments", pipelined, network.switch(512, LINK), Conditions(), "5")
    tree = network.tree(512, LINK, leaf=8, oversubscription=2.0)
    for name in ("ring", "two-shot", "rabenseifner"):
        made = program(name, 512, 2.0**20)
        measured(f"shared links, together: {name} of 512", made, tree, Conditions(ports="fair"), "3")
    for name, ranks in (
        ("ring", 512),
        ("rabenseifner", 512),
        ("two-shot", 64),
        ("recursive-doubling", 64),
        ("ring", 64),
    ):
        net = network.tree(ranks, LINK, leaf=8, oversubscription=2.0)
        conditions = Conditions(ports="fair", starts_s=skewed(ranks))
        measured(f"shared links, skewed: {name} of {ranks}", program(name, ranks, 2.0**20), net, conditions, "1 (aim)")


SIMGRID = (
    "--cfg=network/model:CM02 --cfg=network/latency-factor:1 --cfg=network/bandwidth-factor:1 "
    "--cfg=network/weight-S:0 --cfg=network/TCP-gamma:0 --cfg=network/crosstraffic:0 --cfg=maxmin/precision:1e-9 "
    "--cfg=surf/precision:1e-12 --cfg=contexts/factory:raw --cfg=contexts/stack-size:32 --cfg=contexts/guard-size:0"
)
"""Everything switched off that SimGrid 3.32 adds to latency and bandwidth."""


def peers() -> None:
    """Print the rate of SimPy and of SimGrid beside ours, where they are installed."""
    for ranks in (64, 512):
        made = program("ring", ranks)
        ours, spent = best(lambda made=made, ranks=ranks: run(made, network.switch(ranks, LINK), record=False))  # type: ignore[misc]
        rate = ours.messages / spent / 1e6
        show(f"nhalf, arrays: ring of {ranks}", rate, "M messages/s", "-")
        if importlib.util.find_spec("simpy") is not None and ranks < MANY:
            start = time.process_time()
            found = _simpy_ring(ranks, 16384 // ranks) / (time.process_time() - start) / 1e6
            show(f"SimPy with ports: ring of {ranks}", found, "M messages/s", "-", f"nhalf is {rate / found:.0f}x")
        _beside_simgrid(ours, rate, "ring")
    if not is_installed():
        print("numba is not installed: shared links are not measured")
        return
    run(program("ring", 64), network.switch(64, LINK), engine="compiled events")
    for name, ranks in (("ring", 64), ("ring", 512), ("two-shot", 64)):
        made, net = program(name, ranks, 2.0**20), network.tree(ranks, LINK, leaf=8, oversubscription=2.0)
        conditions = Conditions(ports="fair", starts_s=skewed(ranks))
        # The loop alone, of both.
        tables_ = tables.Tables(
            program=made, graph=made.graph(), paths=paths_of(made, net), network=net, conditions=conditions
        )
        spent = min(_loop(tables_, skewed(ranks)) for _ in range(REPEATS))
        ours = run(made, net, conditions, engine="compiled events", record=False)
        rate = ours.messages / spent / 1e6
        show(f"nhalf, skewed tree: {name} of {ranks}", rate, "M messages/s", "-")
        _beside_simgrid(ours, rate, name, oversubscription=2.0)


MANY = 512


def paths_of(made: Program, net: network.Network) -> routes.Paths:
    graph = made.graph()
    return routes.paths_of(net, graph)


def _loop(prepared: tables.Tables, starts: Array) -> float:
    """Return the CPU time of a compiled run whose tables are made [s]."""
    start = time.process_time()
    prepared.play(starts, compiled=True)
    return time.process_time() - start


def _beside_simgrid(ours: Run, rate: float, name: str, oversubscription: float = 0.0) -> None:
    """Print SimGrid's rate on the same case, and both simulated times."""
    starts = ours.conditions.starts_s
    times_us = np.zeros(ours.program.ranks) if starts is None else starts * 1e6
    answer = _simgrid(name, ours.program, times_us, oversubscription)
    if answer is None:
        return
    time_us, found = answer
    show(f"SimGrid S4U: {name} of {ours.program.ranks}", found, "M messages/s", "-", f"nhalf is {rate / found:.0f}x")
    print(f"    simulated time: nhalf {float(ours.time_s) * 1e6:.6f} us, SimGrid {time_us:.6f} us")


def _simgrid(name: str, made: Program, starts_us: Array, oversubscription: float) -> tuple[float, float] | None:
    """Return SimGrid's time of an all-reduce [us] and its messages per second [M/s]; None without it or a compiler."""
    source = Path(__file__).with_name("simulate_simgrid.cpp")
    if shutil.which("g++") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "simulate"
        done = subprocess.run(["g++", "-O2", "-o", built, source, "-lsimgrid"], capture_output=True, check=False)
        if done.returncode:
            print("SimGrid is not installed (Debian: libsimgrid-dev)")
            return None
        words = [name, str(made.ranks), f"{made.size_bytes:.0f}", str(oversubscription)]
        played = subprocess.run([built, *words, *SIMGRID.split(), "--log=root.thresh:critical"],
                                input=" ".join(map(repr, starts_us.tolist())), capture_output=True, text=True,
                                check=True)  # fmt: skip
    time_us, messages, spent = played.stdout.split()
    return float(time_us), float(messages) / float(spent) / 1e6


def _simpy_ring(ranks: int, chunk: int) -> int:
    """Run a ring all-reduce in SimPy, one process a rank with a port out and a port in, and return its messages."""
    simpy: Any = importlib.import_module("simpy")
    world = simpy.Environment()
    out = [simpy.Resource(world) for _ in range(ranks)]
    back = [simpy.Resource(world) for _ in range(ranks)]
    boxes = [simpy.Store(world) for _ in range(ranks)]

    def send(source: int, target: int):  # type: ignore[no-untyped-def]  # noqa: ANN202  a generator of SimPy's own
        with out[source].request() as leaving:
            yield leaving
            with back[target].request() as arriving:
                yield arriving
                yield world.timeout(5e-6 + chunk / 50e9)
        yield boxes[target].put(source)

    def rank(own: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
        for _ in range(2 * (ranks - 1)):
            sent = world.process(send(own, (own + 1) % ranks))
            yield boxes[own].get() & sent

    for own in range(ranks):
        world.process(rank(own))
    world.run()
    return 2 * (ranks - 1) * ranks


def main() -> None:
    """Print the tables that were asked for, or all."""
    for part in sys.argv[1:] or ["arrays", "events", "peers"]:
        {"arrays": arrays, "events": events, "peers": peers}[part]()


if __name__ == "__main__":
    main()

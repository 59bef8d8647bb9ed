"""Placement: which processors the ranks of this machine run on, and how far apart those are.

Ranks on one processor, on two threads of a core, on two cores of a cache and across caches differ by more than most
links do: on one loopback 6.7 us where the system keeps both ends on one processor, 19.7 us on two cores.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nhalf.evidence.probe.messages import Result

Placement: TypeAlias = Literal["spread", "near", "free", "launcher"]
PLACEMENTS: Final[tuple[Placement, ...]] = ("spread", "near", "free")
"""Those that can be asked for: `launcher` leaves ranks where a launcher put them."""
_CPU: Final = "/sys/devices/system/cpu/cpu{}/"
_LEVELS: Final = ("same processor", "same core", "same cache", "across caches", "across sockets")
_MOST: Final = 4096  # visits that are remembered
_SHOWN, _LOOKED_AT = 8, 32  # ranks


def processors(count: int, how: Placement = "spread") -> list[int]:
    """Return a processor for each of `count` ranks; empty: no placing.

    `spread` takes another core for each while there are enough, of other caches first; `near` fills a core, then its
    cache; no two ranks share a processor. There is no placing where the system places no process, or has fewer
    processors than ranks.
    """
    if sys.platform != "linux" or how in ("free", "launcher"):
        return []
    mine = sorted(os.sched_getaffinity(0))
    if len(mine) < count:
        return []
    where = {cpu: _where(cpu) for cpu in mine}
    near = sorted(mine, key=lambda cpu: (*reversed(where[cpu]), cpu))
    if how == "near":
        return near[:count]
    turns: Counter[str] = Counter()
    order = []
    for cpu in near:
        core, cache, _ = where[cpu]
        thread = turns[f"core {core}"]
        order.append((thread, turns[f"cache {cache} {thread}"], cpu))
        turns[f"core {core}"] += 1
        turns[f"cache {cache} {thread}"] += 1
    return sorted(cpu for *_, cpu in sorted(order)[:count])


def place(processor: int | None) -> None:
    """Keep this process on a processor; None leaves it free."""
    if processor is not None and sys.platform == "linux":
        os.sched_setaffinity(0, {processor})


def _where(cpu: int) -> tuple[int, int, int]:
    """Return the core, the last cache and the socket of a processor, each by the first processor that is there."""
    caches = sorted(Path(_CPU.format(cpu), "cache").glob("index*/shared_cpu_list"))
    core = _first(Path(_CPU.format(cpu), "topology/thread_siblings_list"), cpu)
    cache = _first(caches[-1], core) if caches else core
    return core, cache, _first(Path(_CPU.format(cpu), "topology/package_cpus_list"), cache)


def _first(path: Path, otherwise: int) -> int:
    try:
        return int(path.read_text(encoding="ascii").strip().partition(",")[0].partition("-")[0])
    except (OSError, ValueError):
        return otherwise


class Seen:
    """Where this process was seen after each visit."""

    def __init__(self) -> None:
        self._cpus: list[int] = []

    def note(self) -> None:
        """Look where this process is."""
        cpu = _now()
        if cpu is not None and len(self._cpus) < _MOST:
            self._cpus.append(cpu)

    def result(self) -> Result:
        """Return the processor after each visit, and where each of them is."""
        seen = sorted(set(self._cpus))
        cores, caches, sockets = (
            ([*column] for column in zip(*map(_where, seen), strict=True)) if seen else ([], [], [])
        )
        return {"visits": [*self._cpus], "seen": [*seen], "cores": cores, "caches": caches, "sockets": sockets}


def _now() -> int | None:
    if sys.platform != "linux":
        return None
    if len(pinned := os.sched_getaffinity(0)) == 1:
        return min(pinned)
    try:
        return int(Path("/proc/thread-self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[36])
    except (OSError, ValueError, IndexError):
        return None


def apart(first: Mapping[str, list[int]], second: Mapping[str, list[int]]) -> tuple[str, float] | None:
    """Return how far apart two ranks of a machine mostly were, and in which share of their visits; None: unknown.

    Each says what `Ran` asks: the processor after each visit, and the core, cache and socket of each of those.
    """
    levels = Counter(
        _level(first, one, second, other) for one, other in zip(first["visits"], second["visits"], strict=False)
    )
    if not levels:
        return None
    level, count = levels.most_common(1)[0]
    return _LEVELS[level], count / levels.total()


def _level(first: Mapping[str, list[int]], one: int, second: Mapping[str, list[int]], other: int) -> int:
    here, there = first["seen"].index(one), second["seen"].index(other)
    if one == other:
        return 0
    same = [first[name][here] == second[name][there] for name in ("cores", "caches", "sockets")]
    return next((level for level, is_same in enumerate(same, start=1) if is_same), len(_LEVELS) - 1)


def described(how: str, ran: Mapping[int, Mapping[str, list[int]]], nodes: Mapping[int, int]) -> dict[str, str]:
    """Return where the ranks ran, for the environment: what was asked, how far apart ranks of a machine were, where."""
    pairs = [pair for pair in itertools.combinations(sorted(ran)[:_LOOKED_AT], 2) if nodes[pair[0]] == nodes[pair[1]]]
    told = [each for each in (apart(ran[one], ran[other]) for one, other in pairs) if each is not None]
    least = {name: min(share for each, share in told if each == name) for name, _ in told}
    levels = [
        f"{name} ({100 * least[name]:.0f} % of visits)" if least[name] < 1.0 else name
        for name in _LEVELS if name in least
    ]  # fmt: skip
    if len(set(nodes.values())) > 1:
        levels.append("across hosts")
    seen = len(ran) <= _SHOWN and all(ran[rank]["seen"] for rank in ran)
    on = [f"rank {rank} on {_listed(ran[rank]['seen'])}" for rank in sorted(ran) if seen]
    found = {"placement": how, "ranks_apart": ", ".join(levels), "ranks_on": ", ".join(on)}
    return {name: text for name, text in found.items() if text}


def _listed(cpus: Iterable[int]) -> str:
    """Return `processor 3`, or `processors 0-3, 7`."""
    ordered = sorted(cpus)
    groups = [
        [cpu for _, cpu in group] for _, group in itertools.groupby(enumerate(ordered), lambda item: item[1] - item[0])
    ]
    text = ", ".join(f"{group[0]}-{group[-1]}" if len(group) > 1 else f"{group[0]}" for group in groups)
    return f"processor{'s' * (len(ordered) > 1)} {text}"

"""What follows from the loops of a run: a token's communication by layout and batch, its parts, and who is slow."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf.evidence.probe.cell import LADDER
from nhalf.evidence.probe.in_loop import IN_A_LOOP
from nhalf.evidence.probe.statistics import interval, median

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LATE: Final = 0.1
"""A rank that costs the others more than this share of a token's communication is slow."""
_NANO: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of collective of a token: how often, how large [bytes], what one takes in the loop and by itself [s]."""

    name: str
    op: str
    size_bytes: int
    ranks: int
    count_per_token: int
    time_s: float | None
    wait_s: float | None
    alone_s: float | None
    floor_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A token of a layout and batch: its communication [s], of which `fixed_s` is the floor, and `wait_s` skew.

    `low_s` and `high_s` are the 95 % interval of the median over visits; `token_s` is the whole token, with what was
    computed; `alone_s` is what its collectives take by themselves.
    """

    tp: int
    pp: int
    ep: int
    batch: int
    ranks: int
    variant: str
    token_s: float
    time_s: float
    low_s: float | None
    high_s: float | None
    fixed_s: float | None
    transfer_s: float | None
    wait_s: float | None
    alone_s: float | None
    collectives: tuple[Kind, ...]

    @property
    def key(self) -> tuple[int, int, int, int]:
        """Return the layout and the batch."""
        return self.tp, self.pp, self.ep, self.batch

    @property
    def excess_s(self) -> float | None:
        """Return what a collective takes in the loop beyond what it takes by itself [s]."""
        count = sum(kind.count_per_token for kind in self.collectives)
        return max(self.time_s - self.alone_s, 0.0) / count if self.alone_s is not None and count else None

    @property
    def layout(self) -> str:
        """Return the layout in short."""
        degrees = (("TP", self.tp), ("PP", self.pp), ("EP", self.ep))
        return " ".join(f"{name}{degree}" for name, degree in degrees if degree > 1 or name == "TP")

    def to_dict(self) -> dict[str, Any]:
        """Return the row as the document holds it."""
        return {"layout": self.layout, **asdict(self), "in_model_excess_s": self.excess_s}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """A rank that the others wait for: what it costs them [s] per token."""

    rank: int
    host: str
    cost_s_per_token: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAnswer:
    """Rows in the order of batches, and what was tried beside them.

    `batch_at_double_floor` is where the collective of the layers takes twice its floor, None where the batches do not
    show it; `number` is what was summed.
    """

    rows: tuple[Row, ...]
    variants: tuple[Row, ...]
    batch_at_double_floor: float | None
    slow: Slow | None
    number: str

    @property
    def lead(self) -> Row:
        """Return the row of the verdict: the first batch of the first layout that communicates."""
        return next((row for row in self.rows if row.ranks > 1), self.rows[0])


def of_run(run: Mapping[str, Any]) -> LoopAnswer | None:
    """Return what the loops of a run say, None where it played none to the end of a visit."""
    loops = [each for each in run.get("loops", ()) if each["rounds"]]
    floors = {(_layout(each), each["variant"]): each for each in loops if not each["batch"]}
    made = [
        _row(each, floors.get((_layout(each), each["variant"]), floors.get((_layout(each), ""))), run)
        for each in loops if each["batch"] and each["variant"] != LADDER
    ]  # fmt: skip
    rows = sorted((row for row in made if not row.variant), key=lambda row: row.key)
    if not rows:
        return None
    return LoopAnswer(
        rows=tuple(rows),
        variants=tuple(sorted((row for row in made if row.variant), key=lambda row: (row.key, row.variant))),
        batch_at_double_floor=_doubles(loops),
        slow=_slow(loops, run),
        number=loops[0]["number"],
    )


def silent(key: tuple[int, int, int, int]) -> Row:
    """Return the row of one rank, which sends nothing."""
    tp, pp, ep, batch = key
    return Row(tp=tp, pp=pp, ep=ep, batch=batch, ranks=1, variant="", token_s=0.0, time_s=0.0, low_s=None, high_s=None,
               fixed_s=None, transfer_s=None, wait_s=None, alone_s=None, collectives=())  # fmt: skip


def _layout(loop: Mapping[str, Any]) -> tuple[int, int, int]:
    return loop["tp"], loop["pp"], loop["ep"]


def _row(loop: Mapping[str, Any], floor: Mapping[str, Any] | None, run: Mapping[str, Any]) -> Row:
    token, alone = median([each["token"] for each in loop["rounds"]]) * _NANO, loop["ranks"] == 1
    marked = bool(_steps(loop)) and not alone
    times = [sum(map(sum, each["steps"].values())) if marked else each["token"] for each in loop["rounds"]]
    ends = interval(times) if not alone else None
    kinds = tuple(_kind(message, loop, floor, run) for message in loop["messages"]) if not alone else ()
    wait = sum(wait for _, wait in _steps(loop).values()) if marked and loop["rounds"][0]["waits"] else None
    time = 0.0 if alone else median(times) * _NANO
    least = None if floor is None else _moved(floor)
    fixed = min(least, time - (wait or 0.0)) if least is not None else None
    known = [kind.alone_s for kind in kinds]
    alone_s = sum(kind.count_per_token * (kind.alone_s or 0.0) for kind in kinds)
    return Row(
        **{name: loop[name] for name in ("tp", "pp", "ep", "batch", "ranks", "variant")},
        token_s=token,
        time_s=time,
        low_s=ends[0] * _NANO if ends else None,
        high_s=ends[1] * _NANO if ends else None,
        fixed_s=fixed,
        transfer_s=None if fixed is None else time - fixed - (wait or 0.0) if fixed == least else 0.0,
        wait_s=wait,
        alone_s=alone_s if known and None not in known else None,
        collectives=kinds,
    )


def _kind(
    message: Mapping[str, Any], loop: Mapping[str, Any], floor: Mapping[str, Any] | None, run: Mapping[str, Any]
) -> Kind:
    name, steps = message["name"], _steps(loop)
    count = max(message["count_per_token"], 1)
    return Kind(
        **{key: message[key] for key in ("name", "op", "size_bytes", "ranks", "count_per_token")},
        time_s=_call(loop, name),
        wait_s=steps[name][1] / count if name in steps and loop["rounds"][0]["waits"] else None,
        alone_s=_alone(message, run),
        floor_s=None if floor is None else _call(floor, name),
    )


def _steps(loop: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the transfer and wait [s] of each kind of step in a token, medians over the visits."""
    rounds = [each["steps"] for each in loop["rounds"] if each["steps"]]
    return {
        name: (median([each[name][0] for each in rounds]) * _NANO, median([each[name][1] for each in rounds]) * _NANO)
        for name in (rounds[0] if rounds else ())
    }


def _call(loop: Mapping[str, Any], name: str) -> float | None:
    times = [each["calls"][name] for each in loop["rounds"] if name in each["calls"]]
    return median(times) * _NANO if times else None


def _moved(loop: Mapping[str, Any]) -> float:
    """Return a token's communication without its waits [s]."""
    steps = _steps(loop)
    return sum(transfer for transfer, _ in steps.values()) if steps else median(
        [each["token"] for each in loop["rounds"]]) * _NANO  # fmt: skip


def _alone(message: Mapping[str, Any], run: Mapping[str, Any]) -> float | None:
    found = [
        point["median_s"]
        for curve in run["curves"]
        if (curve["op"], curve["ranks"]) == (message["op"], message["ranks"]) and curve["label"] != IN_A_LOOP
        for point in curve["points"]
        if point["size_bytes"] == message["size_bytes"] and point["median_s"] is not None
    ]
    return found[0] if found else None


def _doubles(loops: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the batch at which one collective of the layers takes twice its floor, along straight lines between."""
    plain = [each for each in loops if each["variant"] in ("", LADDER)]
    if len({_layout(each) for each in plain if each["ranks"] > 1}) != 1:
        return None
    lead = max(plain[0]["messages"], key=lambda message: message["count_per_token"])["name"]
    of: dict[int, list[float]] = {}
    for each in plain:
        if (time := _call(each, lead)) is not None:
            of.setdefault(each["batch"], []).append(time)
    line = sorted((batch, median(times)) for batch, times in of.items())
    if not line or line[0][0]:
        return None
    twice = 2.0 * line[0][1]
    for (batch, time), (above, longer) in itertools.pairwise(line):
        if longer >= twice > time:
            return batch + (above - batch) * (twice - time) / (longer - time)
    return None


def _slow(loops: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> Slow | None:
    """Return the rank that comes last at such a cost, in the loops that are as in life; None where nobody does.

    It must cost more than any other in the whole interval of the visits' median: at times each is late.
    """
    worst: tuple[float, int, float] = (_LATE, -1, 0.0)
    for loop in loops:
        time = median([sum(map(sum, each["steps"].values())) for each in loop["rounds"]]) * _NANO
        if loop["variant"] or not loop["batch"] or not time or len(loop["rounds"]) == 1:
            continue
        for rank in loop["rounds"][0]["late"]:
            late = [each["late"] for each in loop["rounds"]]
            ahead = [each[rank] - max(cost for other, cost in each.items() if other != rank) for each in late]
            cost = sum(each[rank] for each in late) / len(late) * _NANO
            if (interval(ahead) or (min(ahead),))[0] > 0:
                worst = max(worst, (cost / time, int(rank), cost))
    _, rank, cost = worst
    if rank < 0:
        return None
    hosts = {each["rank"]: each["host"] for each in run["ranks"]}
    return Slow(rank=rank, host=str(hosts.get(rank, "")), cost_s_per_token=cost)

"""The search: every legal layout of so many devices at every batch that fits, ranked, with ties and the front."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from nhalf.decide import pools, ranking
from nhalf.decide.candidates import Candidate, Choice, Wish, evaluate
from nhalf.decide.launch_lines import ENGINES, runs_on
from nhalf.decide.layouts import groups, layouts, name
from nhalf.decide.ranking import front
from nhalf.decide.refining import refine, refined
from nhalf.decide.regime import TIE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nhalf.decide.candidates import Choice
    from nhalf.decide.pools import Pools
    from nhalf.layout import Layout
    from nhalf.scenario import Scenario


_KEYS: Final = (
    "system", "layout", "tp", "pp", "ep", "attention_dp", "moe_tp", "cp", "exchange", "replicas", "nodes", "batch",
    "running", "step_s", "tpot_s", "tpot_low_s", "tpot_high_s", "ttft_low_s", "ttft_high_s", "tokens_per_s_per_user",
    "tokens_per_s_per_gpu", "cost_per_mtoken", "binding", "kind", "pareto", "meets", "tied", "fits_memory",
    "memory_bytes", "alike_ep", "runs_on",
)  # fmt: skip
"""The keys of a row in their order: those of the plan, and the names of what a point says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Whether "TP inside the node, PP across" holds: the best of each kind on as many devices, by what is compared.

    `inside` has TP within a node and stages across, `across` one stage whose groups cross nodes.
    """

    devices: int
    what: Literal["throughput", "one stream"]
    inside: Choice
    across: Choice

    @property
    def holds(self) -> bool | None:
        """Tell whether stages across are better; None when the two tie."""
        inside, across = self.inside.score, self.across.score
        if max(inside, across) <= min(inside, across) * (1 + TIE):
            return None
        return inside > across


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """What was found: every candidate, the best point of each layout in order, those on the front, and the chosen one.

    `nearest` is the point that misses the limits least, where none holds them; `refused` counts the layouts that were
    left out by why; `judged` is the layout of a launch line at its batch, `judged_best` at its best within the limits;
    `pools` is the best split into prefill and decode, where one was asked for, or no load was stated.
    """

    gpus: int
    wish: Wish
    candidates: tuple[Candidate, ...]
    rows: tuple[Choice, ...]
    pareto: tuple[Choice, ...]
    chosen: Choice | None
    nearest: Choice | None
    rules: tuple[Rule, ...]
    refused: Mapping[str, int]
    judged: Choice | None = None
    judged_best: Choice | None = None
    pools: Pools | None = None
    even: Choice | None = None
    """What even odds would choose, where better ones are asked for."""

    def every(self) -> Iterator[Choice]:
        """Yield every layout at every batch that fits."""
        for candidate in self.candidates:
            meets, scores = ranking.meets(candidate, self.wish), ranking.scores(candidate, self.wish)
            for place, (code, score) in enumerate(zip(meets.tolist(), scores.tolist(), strict=True)):
                yield ranking.choice(candidate, place, code=code, score=score)

    def records(self, *, every: bool = False) -> list[dict[str, Any]]:
        """Return rows by the keys of the contract: the best of each layout and the front, or every point."""
        found: dict[tuple[int, int], Choice] = {}
        for row in (*self.rows, *self.pareto, *(self.every() if every else ())):
            found.setdefault((id(row.candidate), row.place), row)
        return [self.record(row) for row in found.values()]

    def record(self, row: Choice) -> dict[str, Any]:
        """Return one row by the keys of the contract."""
        own = {
            "layout": name(row.layout),
            "replicas": self.replicas(row.layout),
            "cost_per_mtoken": row.cost_per_mtoken(self.wish.price_per_hour),
            "pareto": any(each.candidate is row.candidate and each.place == row.place for each in self.pareto),
            "meets": row.meets,
            "tied": row.tied,
            "alike_ep": list(row.candidate.alike),
            "runs_on": [engine for engine in ENGINES if runs_on(row.layout, engine)],
        }
        return {key: own[key] if key in own else getattr(row, key) for key in _KEYS}

    def to_polars(self) -> Any:  # noqa: ANN401  polars is optional
        """Return every layout at every batch that fits as a polars data frame."""
        import polars as pl

        return pl.DataFrame(self.records(every=True), infer_schema_length=None)

    def chart(self) -> Any:  # noqa: ANN401  altair is optional
        """Return tokens/s of a user against tokens/s of a GPU as an Altair chart, with the front."""
        import altair as alt

        table: Any = alt.Data  # altair leaves it untyped
        rows = [
            {key: value for key, value in row.items() if not isinstance(value, list)}
            for row in self.records(every=True)
        ]
        axes = {
            "x": alt.X("tokens_per_s_per_user:Q", title="tokens/s per user"),
            "y": alt.Y("tokens_per_s_per_gpu:Q", title="tokens/s per GPU"),
        }
        told = ["layout:N", "batch:Q", "tpot_s:Q", "binding:N", "meets:N"]
        points = alt.Chart(table(values=rows)).mark_point(opacity=0.4).encode(**axes, color="binding:N", tooltip=told)
        line = alt.Chart(table(values=[row for row in rows if row["pareto"]])).mark_line(point=True)
        return points + line.encode(**axes, order="tokens_per_s_per_user:Q", tooltip=told)

    def replicas(self, layout: Layout) -> int:
        """Return how many replicas of a layout the devices hold."""
        return self.gpus // layout.devices


def search(base: Scenario, gpus: int, wish: Wish, judged: tuple[Layout, int | None] | None = None) -> Plan:
    """Return the plan for so many devices: `base` has the workload of one request, its batch and layout do not matter.

    `judged` is a layout with its batch (None: at its best) to hold against the plan.
    """
    refused: Counter[str] = Counter()
    found: list[Candidate] = []
    for alike in groups(layouts(base, gpus, wish)):
        layout = next((each for each in alike if runs_on(each, base.stack.engine)), alike[0])
        candidate = evaluate(replace(base, layout=layout), wish, tuple(each.expert_parallel for each in alike))
        if candidate is None:
            refused[_why_not(wish, layout)] += len(alike)
        else:
            found.append(candidate)
    candidates = refined(found, wish)
    rows = _rows(candidates, wish)
    chosen = _chosen(rows, base.stack.engine, wish)
    even = replace(wish, odds=None)
    return Plan(
        even=None if wish.odds is None else _chosen(_rows(refined(found, even), even), base.stack.engine, even),
        gpus=gpus,
        wish=wish,
        candidates=candidates,
        rows=tuple(rows),
        pareto=tuple(_front(candidates, wish)),
        chosen=chosen,
        nearest=None if chosen is not None else _nearest(candidates, wish),
        rules=tuple(_rules(candidates, wish, base)),
        refused=refused,
        judged=None if judged is None else _judged(base, wish, *judged),
        judged_best=None if judged is None else _judged(base, wish, judged[0], None),
        pools=pools.best(candidates, gpus, wish) if wish.pools or not wish.load else None,
    )


def _why_not(wish: Wish, layout: Layout) -> str:
    if wish.users is not None and wish.users < layout.attention_dp * layout.replicas:
        return "has more attention ranks than users"
    return "does not fit in memory"


def _rows(candidates: Sequence[Candidate], wish: Wish) -> list[Choice]:
    """Return the best point of each layout, the best layouts first: those that meet the limits, then the others."""
    rows = [ranking.best(candidate, wish) for candidate in candidates]
    rows.sort(key=lambda row: (row.meets == "no", -row.score))
    if not rows or rows[0].meets == "no":
        return rows
    limit = rows[0].score / (1 + TIE)
    return [replace(row, tied=row.meets != "no" and row.score >= limit) for row in rows]


def _chosen(rows: Sequence[Choice], engine: str, wish: Wish) -> Choice | None:
    """Return the chosen row: of those that tie, one that surely holds the limits and that the engine launches.

    Of several that cannot be told apart for a user, that with the highest throughput.
    """
    tied = [row for row in rows if row.tied]
    if not tied:
        return None
    launched = [row for row in tied if runs_on(row.layout, engine)]
    for pool in ([row for row in launched if row.meets == "yes"], launched, tied):
        if pool:
            return max(pool, key=lambda row: row.tokens_per_s_per_gpu) if wish.goal == "latency" else pool[0]
    return None


def _nearest(candidates: Sequence[Candidate], wish: Wish) -> Choice | None:
    """Return the point that misses the limits least."""
    rows = [ranking.best(candidate, wish) for candidate in candidates]
    return min(rows, key=lambda row: float(ranking.missed(row.candidate, wish)[row.place]), default=None)


def _front(candidates: Sequence[Candidate], wish: Wish) -> Iterator[Choice]:
    """Yield the points of all layouts that no other beats in tokens/s of a user and of a GPU, the fastest first."""
    if not candidates:
        return
    users = np.concatenate([each.points.tokens_per_s_per_user for each in candidates])
    gpus = np.concatenate([each.points.tokens_per_s_per_gpu for each in candidates])
    owners = np.repeat(np.arange(len(candidates)), [len(each.batches) for each in candidates])
    starts = np.cumsum([0, *(len(each.batches) for each in candidates)])
    places = np.flatnonzero(front(users, gpus))
    for point in places[np.argsort(-users[places])].tolist():
        candidate = candidates[owners[point]]
        place = point - int(starts[owners[point]])
        code, score = ranking.meets(candidate, wish)[place], ranking.scores(candidate, wish)[place]
        yield ranking.choice(candidate, place, code=code, score=score, pareto=True)


def _rules(candidates: Sequence[Candidate], wish: Wish, base: Scenario) -> Iterator[Rule]:
    """Yield what the numbers say of "TP inside the node, PP across", on the fewest devices that cross one.

    Only layouts of TP and PP alone are compared, for what a GPU gives within the limits, and for one stream.
    """
    node = base.system.fabric.devices_per_node
    plain = [each for each in candidates if each.layout.stage_devices == each.layout.tensor_parallel]
    plain = [each for each in plain if each.layout.expert_parallel == 1]
    sizes = sorted({each.layout.devices for each in plain if each.layout.devices > node})
    for devices in sizes:
        same = [each for each in plain if each.layout.devices == devices]
        inside = [each for each in same if each.layout.stage_devices <= node and each.layout.pipeline_parallel > 1]
        across = [each for each in same if each.layout.stage_devices > node and each.layout.pipeline_parallel == 1]
        if not inside or not across:
            continue
        yield _rule(devices, "throughput", inside, across, replace(wish, goal="tokens-per-gpu"))
        yield _rule(devices, "one stream", inside, across, Wish(goal="latency"))
        return


def _rule(
    devices: int,
    what: Literal["throughput", "one stream"],
    inside: Sequence[Candidate],
    across: Sequence[Candidate],
    wish: Wish,
) -> Rule:
    """Return the best of each kind: within the limits where both have such a point, else without limits."""
    pools = [[ranking.best(refine(each, wish), wish) for each in pool] for pool in (inside, across)]
    held = [[row for row in rows if row.meets != "no"] for rows in pools]
    if not all(held):
        held = [[ranking.best(each, Wish(goal=wish.goal)) for each in pool] for pool in (inside, across)]
    best = [max(rows, key=lambda row: row.score) for rows in held]
    return Rule(devices=devices, what=what, inside=best[0], across=best[1])


def _judged(base: Scenario, wish: Wish, layout: Layout, batch: int | None) -> Choice | None:
    """Return the layout of a launch line at its batch, or at its best; None where it does not fit."""
    narrowed = replace(wish, batches=None if batch is None else (batch,))
    candidate = evaluate(replace(base, layout=layout), narrowed)
    return None if candidate is None else ranking.best(refine(candidate, narrowed), wish)


_DOUBLINGS: Final = 7


def nearest(base: Scenario, gpus: int, batches: tuple[int, ...] | None = None) -> tuple[Choice, int] | None:
    """Return the layout of fewest devices that holds some batches (None: any), and the devices it was found on.

    Looked at are so many devices and their doublings up to 128 times as many; None where even those do not hold it.
    """
    for count in (gpus * 2**power for power in range(_DOUBLINGS + 1)):
        rows = search(base, count, Wish(goal="latency", batches=batches)).rows
        if rows:
            return min(rows, key=lambda row: row.layout.devices), count
    return None

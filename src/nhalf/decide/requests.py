"""Requests: what each waits for its first token and for the next ones, by replaying the steps of a server.

The server batches continuously: at the start of a step it takes the prompts that came, as far as sequences and the
tokens of a step go round, oldest first and in chunks; every sequence that decodes gets its next token. Stretches in
which nobody comes or goes are taken at once.

References
----------
G.-I. Yu et al., "Orca", OSDI 2022 (continuous batching); A. Agrawal et al., "Sarathi-Serve", arXiv:2403.02310 (chunks
of prompts share the tokens of a step with the sequences that decode).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.points import at_batches
from nhalf.predict.prefill import prefill
from nhalf.predict.prompt import one_prompt

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.points import Point
    from nhalf.scenario import Scenario

STEP_TOKENS: Final = 8192
"""Tokens of a step that decodes and chunks of prompts share, where the scenario has no chunk.

vLLM, "Optimization and Tuning" (more than 8,192 for throughput on large devices); TensorRT-LLM, "Tuning max batch size
and max num tokens" (its default).
"""
MOST: Final = 1024
"""Sequences that a replica is given at most, where its cache has room for more."""
REPLAYED: Final = 4000
"""Requests of a replay: enough for a 99th percentile."""
_LEAST: Final = 200
_WARM: Final = 0.1
"""Share of the requests, the first ones, that find the server emptier than it will be."""
_SPREAD: Final = 0.1
"""Answers are so much [1] shorter or longer than the mean, as benchmarks draw them (0.8 to 1 of the longest)."""
_SEED: Final = 20260


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Service:
    """What a replica takes: `step_s[b]` [s] where b sequences decode and no prompt is worked on, b up to the most.

    A prompt of `prompt_tokens` takes `beside_s` on top of such steps, or `alone_s` where nothing decodes. A step has
    room for `step_tokens` tokens on each of `ranks` attention ranks. An answer of `output_tokens` tokens gets `kept` of
    them a step, but for the first, which ends its prompt.
    """

    step_s: Array
    beside_s: float
    alone_s: float
    prompt_tokens: float
    output_tokens: float
    kept: float = 1.0
    step_tokens: float = STEP_TOKENS
    ranks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """What `n` requests waited: to the first token, and for each further one [s]: shapes (n,)."""

    ttft_s: Array
    tpot_s: Array

    def at(self, share: float) -> tuple[float, float]:
        """Return the times to the first token and per token [s] that this share [1] of the requests keeps."""
        return float(np.quantile(self.ttft_s, share)), float(np.quantile(self.tpot_s, share))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What half of the requests wait at most, and 99 % of them: to the first token, and for each further one [s]."""

    ttft_p50_s: float
    ttft_p99_s: float
    tpot_p50_s: float
    tpot_p99_s: float


@dataclass(slots=True)
class _Server:
    """The server during a replay: who waits, whose prompt is worked on, and who decodes until which step."""

    service: Service
    waiting: deque[int] = field(default_factory=deque)
    prompts: deque[list[float]] = field(default_factory=deque)
    """Requests whose prompts are worked on, each with the tokens that are left of it."""
    running: list[tuple[int, int]] = field(default_factory=list)
    """A heap of the step after which each leaves, and which it is."""
    step: int = 0

    def chunk(self) -> tuple[float, list[int]]:
        """Take a step with the prompts that find room; return its time [s] and whose prompts it ends."""
        service = self.service
        decoding = len(self.running)
        room = max(service.step_tokens * service.ranks - decoding, 1.0)
        most = len(service.step_s) - 1 - decoding - len(self.prompts)
        taken = largest = 0.0
        ended: list[int] = []
        each = 0
        while taken < room and (each < len(self.prompts) or (self.waiting and most > 0)):
            if each == len(self.prompts):
                self.prompts.append([self.waiting.popleft(), service.prompt_tokens])
                most -= 1
            prompt = self.prompts[each]
            own = min(prompt[1], service.step_tokens, room - taken)
            prompt[1] -= own
            taken += own
            largest = max(largest, own)
            each += 1
        while self.prompts and self.prompts[0][1] <= 0.0:
            ended.append(int(self.prompts.popleft()[0]))
        share = max(largest, taken / service.ranks) / service.prompt_tokens
        self.step += 1
        return (service.step_s[decoding] + service.beside_s * share if decoding else service.alone_s * share), ended


def replay(
    service: Service, lengths: Array, *, come_s: Array | None = None, users: int = 0, warm: float = _WARM
) -> Served:
    """Return what requests waited whose answers are so long [1, of the mean], and which come at times [s].

    Without times they come from `users` who ask again as soon as they have their answer. The first requests, `warm` [1]
    of all, are not counted. Shapes: (n,).
    """
    server, now_s, requests = _Server(service), 0.0, len(lengths)
    tokens = np.maximum(np.rint(lengths * service.output_tokens), 2.0)
    steps = np.ceil((tokens - 1.0) / service.kept).astype(int).tolist()
    came, first, last = np.zeros(requests), np.zeros(requests), np.zeros(requests)
    if come_s is not None:
        came[:] = come_s
    most, asked, done = len(service.step_s) - 1, 0, 0
    known = min(users, requests) if come_s is None else requests
    while done < requests:
        while asked < known and came[asked] <= now_s:
            server.waiting.append(asked)
            asked += 1
        decoding = len(server.running)
        full = decoding + len(server.prompts) >= most
        if server.prompts or (server.waiting and not full):
            time_s, ended = server.chunk()
            now_s += time_s
            for one in ended:
                first[one] = now_s
                heappush(server.running, (server.step + steps[one], one))
        elif decoding:
            step_s, count = float(service.step_s[decoding]), server.running[0][0] - server.step
            if asked < known and not full:
                count = min(count, max(ceil((came[asked] - now_s) / step_s), 1))
            server.step += count
            now_s += count * step_s
        else:
            now_s = float(came[asked])
        while server.running and server.running[0][0] <= server.step:
            last[heappop(server.running)[1]] = now_s
            done += 1
            if come_s is None and known < requests:
                came[known] = now_s
                known += 1
    seen = slice(int(warm * requests), None)
    return Served(ttft_s=(first - came)[seen], tpot_s=((last - first) / (tokens - 1.0))[seen])


def service(scenario: Scenario, most: int) -> Service:
    """Return what a replica of a scenario takes with up to `most` sequences; requests must have lengths.

    The steps are those of decode at the mean length of a sequence; what a prompt adds to them is its arithmetic, as in
    decode's prefill interference.
    """
    workload = scenario.workload
    quiet = replace(scenario, workload=replace(workload, output_tokens=0.0))
    batches = np.arange(1.0, most + 1)
    alone = replace(scenario, workload=replace(workload, batch=1.0, output_tokens=0.0))
    chunk = float(np.mean(workload.chunk_tokens))
    steps_s = at_batches(quiet, batches).step_s
    return Service(
        step_s=np.concatenate([steps_s[:1], steps_s]),
        beside_s=float(np.mean(one_prompt(alone).value)),
        alone_s=float(np.mean(prefill(alone).value)),
        prompt_tokens=float(np.mean(workload.prompt_tokens)),
        output_tokens=float(np.mean(workload.output_tokens)),
        kept=float(np.mean(workload.accepted_tokens)),
        step_tokens=chunk or STEP_TOKENS,
        ranks=scenario.layout.attention_dp,
    )


def at_rate(scenario: Scenario, most: int, rate_per_s: float, *, requests: int = REPLAYED) -> Served:
    """Return what requests wait that come at random (Poisson) at a rate [1/s] to all replicas, each to one of them."""
    drawn = np.random.default_rng(_SEED)
    come_s = np.cumsum(drawn.exponential(scenario.layout.replicas / rate_per_s, requests))
    return replay(service(scenario, most), _lengths(drawn, requests), come_s=come_s)


def of_users(scenario: Scenario, users: int, *, from_start: bool = False) -> Served:
    """Return what requests wait of users of one replica who each ask again as soon as they have their answer.

    `from_start` counts the first requests too, which all come at once, as benchmarks of ten requests a user do.
    """
    lengths = _lengths(np.random.default_rng(_SEED), max(10 * users, 1 if from_start else _LEAST))
    return replay(service(scenario, users), lengths, users=users, warm=0.0 if from_start else _WARM)


def waits(point: Point) -> Waits | None:
    """Return what the requests of a point wait, the front end and the scheduler included; None where it has none.

    They come at the workload's rate, or from as many users as sequences run.
    """
    scenario, users = point.scenario, int(point.running)
    if point.prefills or not np.all(np.greater(scenario.workload.output_tokens, 0)) or users < 1:
        return None
    rate = float(np.mean(scenario.workload.requests_per_s))
    most = int(min(point.memory.largest_batch, MOST))
    found = at_rate(scenario, max(most, users), rate) if rate else of_users(scenario, users)
    stack = scenario.stack
    later = float(np.mean(stack.first_token_wait_s)) + float(np.mean(stack.first_token_steps)) * float(point.step_s)
    (first, each), (last_first, last_each) = found.at(0.5), found.at(0.99)
    return Waits(ttft_p50_s=first + later, ttft_p99_s=last_first + later, tpot_p50_s=each, tpot_p99_s=last_each)


def _lengths(drawn: np.random.Generator, requests: int) -> Array:
    """Return lengths of answers [1, of the mean]: equal ones would keep users who began together in step for ever."""
    found: Array = drawn.uniform(1.0 - _SPREAD, 1.0 + _SPREAD, requests)
    return found

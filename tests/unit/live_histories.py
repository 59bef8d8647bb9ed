"""Made histories: an engine that is simulated step by step, and its pages in the formats of four engines.

The step has a form and constants of its own, other than those of nhalf: a constant, a part for each request, one for
each token in the cache, one for each prompt token, a curved part, noise of each step and noise that lasts for minutes.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

START = 1_764_500_000.0
_SIZES = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
_BLOCK = 16


@dataclass(frozen=True)
class Conditions:
    """What may change over a history: load and the step; times [s], lengths [tokens]."""

    concurrency: int = 0
    rate: float = 0.0
    prompt: float = 1536.0
    output: float = 512.0
    added_s: float = 0.0
    per_request_s: float = 14e-6
    kept: float = 1.0
    capacity: int = 900_000
    flags: str = "auto"


@dataclass
class Request:
    """One request: tokens at its last start, steps that are left then, when it came and was stopped [s]."""

    context: float
    left: int
    came: float
    stopped: float = -1.0
    begun: int = 0


@dataclass
class Engine:
    """A simulated engine; `at(t)` gives the conditions at a time since the start [s]."""

    at: Callable[[float], Conditions]
    seed: int = 1
    kind: str = "vllm"
    now: float = 0.0
    running: dict[int, Request] = field(default_factory=dict)
    ends: list[tuple[int, int]] = field(default_factory=list)
    waiting: deque[Request] = field(default_factory=deque)
    totals: dict[str, float] = field(default_factory=dict)
    sizes: list[float] = field(default_factory=lambda: [0.0] * (len(_SIZES) + 1))
    records: list[dict[str, object]] = field(default_factory=list)
    context_sum: float = 0.0
    iteration: int = 0
    step_count: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311  repeated, not secret
        self._slow = 0.0
        self._next = 0.0
        self._number = 0
        self._flags = self.at(0.0).flags
        self._clear()

    def _clear(self) -> None:
        self.totals = dict.fromkeys(
            ("gaps", "gap_s", "steps", "tokens", "prompts", "prompt_tokens", "first_s", "queued_s", "drafts",
             "accepted", "preemptions", "finished", "output_tokens", "step_tokens"), 0.0)  # fmt: skip
        self.sizes = [0.0] * (len(_SIZES) + 1)
        self.iteration = 0

    def until(self, end: float) -> None:
        """Run up to a time [s]."""
        while self.now < end:
            given = self.at(self.now)
            if given.flags != self._flags:  # started again: everything that ran is gone
                self._flags = given.flags
                self.running, self.ends, self.context_sum = {}, [], 0.0
                self.waiting.clear()
                self._clear()
                self.now += 20.0
            self._arrive(given)
            if not self.running and not self.waiting:
                self.now = max(min(self._next, end), self.now + 1e-3) if given.rate else end
                continue
            self._step(given)

    def _length(self, mean: float) -> float:
        return max(8.0, mean * math.exp(float(self._random.gauss(0.0, 0.4)) - 0.08))

    def _arrive(self, given: Conditions) -> None:
        if given.rate:
            while self._next <= self.now:
                if self._next > 0:
                    self.waiting.append(self._request(given, self._next))
                self._next = max(self._next, self.now - 1.0) + self._random.expovariate(given.rate)
            return
        while len(self.running) + len(self.waiting) < given.concurrency:
            self.waiting.append(self._request(given, self.now))

    def _request(self, given: Conditions, came: float) -> Request:
        steps = max(2, round(self._length(given.output) / given.kept))
        return Request(context=self._length(given.prompt), left=steps, came=came)

    def _step(self, given: Conditions) -> None:
        """Run one step: admit, compute, hand out tokens, end and preempt."""
        prompt, started = 0.0, list[Request]()
        while self.waiting and len(self.running) + len(started) < 256:
            new = self.waiting[0]
            full = self.context_sum + new.context > 0.97 * given.capacity
            if (prompt and prompt + new.context > 8192) or (full and (self.running or started)):
                break
            started.append(self.waiting.popleft())
            prompt += new.context
            self.context_sum += new.context
            if new.stopped < 0:
                self.totals["queued_s"] += self.now - new.came
        decoding = len(self.running)
        took = self._time(given, decoding, prompt)
        self.now += took
        self._count(given, decoding, prompt, took, self._tokens(given, decoding))
        for each in started:
            if each.stopped < 0:
                self.totals["prompts"] += 1
                self.totals["prompt_tokens"] += each.context
                self.totals["first_s"] += self.now - each.came
            else:  # it was preempted: its next token waited for all of that
                self.totals["gaps"] += 1
                self.totals["gap_s"] += self.now - each.stopped
        self._end(given, decoding, started)

    def _time(self, given: Conditions, decoding: int, prompt: float) -> float:
        self._slow = 0.9995 * self._slow + self._random.gauss(0.0, 1e-4)
        took = (
            9.4e-3 + given.per_request_s * decoding + 1.9e-8 * self.context_sum + 0.4e-3 * float((decoding / 64) ** 1.5)
        )
        return (took + given.added_s + 1.8e-5 * prompt) * (1 + self._slow) * (1 + self._random.gauss(0.0, 0.02))

    def _tokens(self, given: Conditions, decoding: int) -> float:
        if given.kept == 1.0 or not decoding:
            return float(decoding)
        extra = decoding * (given.kept - 1.0)
        accepted = min(max(round(extra + self._random.gauss(0.0, math.sqrt(extra))), 0), 3 * decoding)
        self.totals["drafts"] += decoding
        self.totals["accepted"] += accepted
        return float(decoding + accepted)

    def _count(self, given: Conditions, decoding: int, prompt: float, took: float, kept: float) -> None:
        totals = self.totals
        totals["gaps"] += decoding
        totals["gap_s"] += decoding * took
        totals["steps"] += 1
        totals["tokens"] += kept
        size = kept + prompt
        totals["step_tokens"] += size
        place = next((index for index, bound in enumerate(_SIZES) if size <= bound), len(_SIZES))
        self.sizes[place] += 1
        self.iteration += 1
        if self.kind != "vllm":
            self._record(given, decoding, prompt, took, kept)

    def _record(self, given: Conditions, decoding: int, prompt: float, took: float, kept: float) -> None:
        self.records.append(
            {"iter": self.iteration, "iterLatencyMS": 1e3 * took, "numActiveRequests": decoding,
             "numQueuedRequests": len(self.waiting),
             "kvCacheStats": {"maxNumBlocks": given.capacity // 32, "usedNumBlocks": int(self.context_sum / 32),
                              "tokensPerBlock": 32},
             "inflightBatchingStats": {"numContextRequests": int(prompt > 0), "numGenRequests": decoding,
                                       "numPausedRequests": sum(each.stopped >= 0 for each in self.waiting),
                                       "numCtxTokens": int(prompt),
                                       "avgNumDecodedTokensPerIter": kept / decoding if decoding else 1.0},
             "scheduledSumDecodeKvTokens": int(self.context_sum)}
        )  # fmt: skip
        del self.records[:-1000]

    def _end(self, given: Conditions, decoding: int, started: list[Request]) -> None:
        self.step_count += 1
        self.context_sum += decoding * given.kept
        while self.ends and self.ends[0][0] <= self.step_count:
            _, number = heapq.heappop(self.ends)
            gone = self.running.pop(number, None)
            if gone is not None:
                self.context_sum -= self._held(gone, given)
                self.totals["finished"] += 1
        for each in started:
            each.begun = self.step_count
            self._number += 1
            self.running[self._number] = each
            heapq.heappush(self.ends, (self.step_count + each.left, self._number))
        while self.context_sum > given.capacity and len(self.running) > 1:
            number, out = self.running.popitem()  # the youngest
            out.context = self._held(out, given)
            self.context_sum -= out.context
            out.left -= self.step_count - out.begun
            out.stopped = self.now
            self.totals["preemptions"] += 1
            self.waiting.appendleft(out)

    def _held(self, each: Request, given: Conditions) -> float:
        return each.context + given.kept * (self.step_count - each.begun)

    def page(self, kind: str) -> str:
        """Return the page of metrics in a format: vllm, sglang, trtllm or dynamo."""
        return {"vllm": self._vllm, "sglang": self._sglang, "trtllm": self._trtllm, "dynamo": self._dynamo}[kind]()

    def _vllm(self) -> str:
        given, totals = self.at(self.now), self.totals
        labels = 'engine="0",model_name="meta-llama/Llama-3.3-70B-Instruct"'
        capacity = given.capacity // _BLOCK
        rows = {
            "num_requests_running": len(self.running), "num_requests_waiting": len(self.waiting),
            "kv_cache_usage_perc": self.context_sum / given.capacity, "num_preemptions_total": totals["preemptions"],
            "prompt_tokens_total": totals["prompt_tokens"], "generation_tokens_total": totals["tokens"],
            "iteration_tokens_total_count": totals["steps"], "iteration_tokens_total_sum": totals["step_tokens"],
            "time_to_first_token_seconds_count": totals["prompts"],
            "time_to_first_token_seconds_sum": totals["first_s"],
            "inter_token_latency_seconds_count": totals["gaps"], "inter_token_latency_seconds_sum": totals["gap_s"],
            "request_queue_time_seconds_count": totals["prompts"],
            "request_queue_time_seconds_sum": totals["queued_s"],
        }  # fmt: skip
        if given.kept != 1.0:
            rows |= {"spec_decode_num_drafts_total": totals["drafts"],
                     "spec_decode_num_accepted_tokens_total": totals["accepted"]}  # fmt: skip
        lines = [f"vllm:{name}{{{labels}}} {float(value)!r}" for name, value in rows.items()]
        below = 0.0
        for bound, count in zip([*map(float, _SIZES), "+Inf"], self.sizes, strict=True):
            below += count
            lines.append(f'vllm:iteration_tokens_total_bucket{{{labels},le="{bound}"}} {below!r}')
        facts = f'block_size="{_BLOCK}",cache_dtype="{self._flags}",num_gpu_blocks="{capacity}"'
        return "\n".join([*lines, f'vllm:cache_config_info{{{facts},engine="0"}} 1.0', ""])

    def _sglang(self) -> str:
        given, totals = self.at(self.now), self.totals
        labels = 'engine_type="unified",model_name="meta-llama/Llama-3.3-70B-Instruct"'
        rows = {
            "num_running_reqs": len(self.running), "num_queue_reqs": len(self.waiting),
            "num_retracted_reqs": sum(each.stopped >= 0 for each in self.waiting),
            "decode_sum_seq_lens": self.context_sum, "token_usage": self.context_sum / given.capacity,
            "max_total_num_tokens": given.capacity, "is_cuda_graph": 1.0, "spec_accept_length": self._kept(),
            "prompt_tokens_total": totals["prompt_tokens"], "generation_tokens_total": totals["tokens"],
            "time_to_first_token_seconds_count": totals["prompts"],
            "time_to_first_token_seconds_sum": totals["first_s"],
            "inter_token_latency_seconds_count": totals["tokens"], "inter_token_latency_seconds_sum": totals["gap_s"],
            "queue_time_seconds_count": totals["prompts"], "queue_time_seconds_sum": totals["queued_s"],
        }  # fmt: skip
        return "\n".join([*(f"sglang:{name}{{{labels}}} {float(value)!r}" for name, value in rows.items()), ""])

    def _kept(self) -> float:
        """Return the tokens of a step over the last steps."""
        recent = [each["inflightBatchingStats"] for each in self.records[-40:]]
        values = [float(each["avgNumDecodedTokensPerIter"]) for each in recent if isinstance(each, dict)]
        return sum(values) / len(values) if values else 1.0

    def _trtllm(self) -> str:
        records, self.records = self.records, []
        return json.dumps(records)

    def _dynamo(self) -> str:
        totals = self.totals
        rows = {
            "inter_token_latency_seconds_count": totals["tokens"], "inter_token_latency_seconds_sum": totals["gap_s"],
            "time_to_first_token_seconds_count": totals["prompts"],
            "time_to_first_token_seconds_sum": totals["first_s"],
            "input_sequence_tokens_count": totals["prompts"], "input_sequence_tokens_sum": totals["prompt_tokens"],
            "output_tokens_total": totals["tokens"], "queued_requests": len(self.waiting),
            "inflight_requests": len(self.running) + len(self.waiting),
        }  # fmt: skip
        lines = (f'dynamo_frontend_{name}{{model="llama"}} {float(value)!r}' for name, value in rows.items())
        return "\n".join([*lines, ""])


def steady(given: Conditions) -> Callable[[float], Conditions]:
    """Return conditions that stay."""
    return lambda _: given


def turned(before: Conditions, after: Conditions, at: float) -> Callable[[float], Conditions]:
    """Return conditions that change at a time [s]."""
    return lambda now: before if now < at else after


BUSY = Conditions(rate=6.0)
FULL = Conditions(concurrency=64)
CAUSES = {
    "constant-added": lambda given: replace(given, added_s=1.6e-3),
    "longer-prompts": lambda given: replace(given, prompt=2.0 * given.prompt),
    "fuller-batch": lambda given: replace(given, rate=1.7 * given.rate, concurrency=2 * given.concurrency),
    "speculation": lambda given: replace(given, kept=1.6),
    "kv-pressure": lambda given: replace(given, rate=1.5 * given.rate, concurrency=2 * given.concurrency),
    "restarted": lambda given: replace(given, flags="fp8_e5m2", per_request_s=3.0 * given.per_request_s,
                                       added_s=0.9e-3),
}  # fmt: skip
"""What changes in a history, by the code of its cause."""


def history(cause: str, *, full: bool, at: float) -> Callable[[float], Conditions]:
    """Return conditions in which one thing changes at a time [s]: requests in flight are fixed, or come at a rate."""
    before = FULL if full else BUSY
    if cause == "speculation":
        before = replace(before, kept=2.5, rate=1.5 * before.rate)
    if cause == "kv-pressure":
        grows = replace(before, prompt=400.0, output=1500.0, rate=before.rate / 3, capacity=90_000)
        before = grows if full else replace(before, capacity=140_000)
    return turned(before, CAUSES[cause](before), at)


def daily(given: Conditions, share: float = 0.6, added_from: float = math.inf) -> Callable[[float], Conditions]:
    """Return a rate that swings over the day by a share on each side, with 10 us more for each of 160 all-reduces."""

    def conditions(now: float) -> Conditions:
        swing = 1.0 + share * math.sin(2 * math.pi * now / 86_400.0)
        return replace(given, rate=given.rate * swing, added_s=1.6e-3 if now >= added_from else 0.0)

    return conditions

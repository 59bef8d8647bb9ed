"""The replay of requests, against a model of the same server as processes in SimPy, and against what must hold."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import simpy

import nhalf
from nhalf.decide.requests import STEP_TOKENS, Service, at_rate, of_users, replay, service, waits
from nhalf.points import Points

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


class Server:
    """The server step by step: a process that works, and one for each request, which waits for its tokens."""

    def __init__(self, env: simpy.Environment, given: Service) -> None:
        self.env, self.given = env, given
        self.queue: list[dict[str, Any]] = []
        self.live: list[dict[str, Any]] = []
        self.woken = env.event()
        env.process(self.work())

    def request(self, tokens: float) -> Generator[simpy.Event, Any, tuple[float, float]]:
        begun = self.env.now
        first, last = self.env.event(), self.env.event()
        one = {"prompt": self.given.prompt_tokens, "owed": tokens - 1, "first": first, "last": last}
        self.queue.append(one)
        if not self.woken.triggered:
            self.woken.succeed()
        yield first
        answered = self.env.now
        yield last
        return answered - begun, (self.env.now - answered) / (tokens - 1)

    def admit(self, most: int, room: float) -> None:
        while self.queue and len(self.live) < most:
            if sum(min(max(one["prompt"], 0), self.given.step_tokens) for one in self.live) >= room:
                return
            self.live.append(self.queue.pop(0))

    def chunks(self, room: float) -> list[float]:
        parts = []
        for one in self.live:
            if one["prompt"] > 0 and room > 0:
                parts.append(min(one["prompt"], room, self.given.step_tokens))
                one["prompt"] -= parts[-1]
                room -= parts[-1]
        return parts

    def work(self) -> Generator[simpy.Event, Any, None]:
        given, most = self.given, len(self.given.step_s) - 1
        while True:
            if not self.queue and not self.live:
                self.woken = self.env.event()
                yield self.woken
            yield self.env.timeout(0)  # who comes at this moment is taken along
            decoding = [one for one in self.live if one["prompt"] <= 0]
            self.admit(most, given.step_tokens * given.ranks - len(decoding))
            parts = self.chunks(given.step_tokens * given.ranks - len(decoding))
            share = max(*parts, sum(parts) / given.ranks) / given.prompt_tokens if parts else 0.0
            step = given.step_s[len(decoding)] + share * given.beside_s if decoding else share * given.alone_s
            yield self.env.timeout(step)
            for one in decoding:
                one["owed"] -= given.kept
                if one["owed"] <= 0:
                    one["last"].succeed()
                    self.live.remove(one)
            for one in self.live:
                if one["prompt"] <= 0 and not one["first"].triggered:
                    one["first"].succeed()


def modelled(given: Service, tokens: Sequence[float], come_s: Sequence[float]) -> np.ndarray:
    """Return what requests waited in the model: shape (n, 2)."""
    env = simpy.Environment()
    server, found = Server(env, given), [(0.0, 0.0)] * len(tokens)

    def one(place: int) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(come_s[place])
        found[place] = yield env.process(server.request(tokens[place]))

    for place in range(len(tokens)):
        env.process(one(place))
    env.run(until=1e6)
    return np.array(found)


@pytest.mark.parametrize("case", range(20))
def test_the_replay_is_the_server_step_by_step(case: int) -> None:
    drawn = np.random.default_rng(case)
    most, ranks = int(drawn.integers(2, 40)), int(drawn.choice([1, 1, 2]))
    given = Service(
        step_s=np.linspace(0.01, 0.01 * drawn.uniform(1, 3), most + 1),
        beside_s=drawn.uniform(0.005, 0.05), alone_s=drawn.uniform(0.02, 0.06),
        prompt_tokens=float(drawn.integers(100, 9000)), output_tokens=float(drawn.integers(5, 60)),
        kept=float(drawn.choice([1.0, 1.0, 2.5])), step_tokens=float(drawn.choice([512, 2048, 8192])), ranks=ranks,
    )  # fmt: skip
    requests = 300
    lengths = drawn.uniform(0.7, 1.3, requests)
    gap_s = given.output_tokens * given.step_s[-1] / most * drawn.uniform(0.8, 4) + given.beside_s
    come_s = np.cumsum(drawn.exponential(gap_s, requests))
    found = replay(given, lengths, come_s=come_s, warm=0.0)
    tokens = np.maximum(np.rint(lengths * given.output_tokens), 2.0)
    other = modelled(given, tokens.tolist(), come_s.tolist())
    for share in (0.5, 0.99):
        np.testing.assert_allclose(found.at(share), np.quantile(other, share, axis=0), rtol=0.02)


def scenario(**more: Any) -> nhalf.Scenario:  # noqa: ANN401  numbers and words of a request
    return nhalf.load("llama-3.1-70b", on="h100-sxm", tp=4, weights="fp8", isl=1024, osl=512, **more)


def test_users_wait_for_a_token_what_decode_says() -> None:
    for users in (16, 64):
        step_s = nhalf.decode(scenario(batch=users)).value
        assert of_users(scenario(batch=users), users).at(0.5)[1] == pytest.approx(step_s, rel=0.05)


def test_a_request_alone_waits_for_its_prefill_alone() -> None:
    one = scenario(batch=1)
    served, points = of_users(one, 1), Points(scenario=one)
    assert served.at(0.5)[0] == pytest.approx(float(points.ttft_low_s[0]))
    found = waits(points.at(0))
    assert found is not None
    later = float(one.stack.first_token_wait_s) + float(one.stack.first_token_steps) * float(points.step_s[0])
    assert found.ttft_p50_s == pytest.approx(float(points.ttft_low_s[0]) + later)


def test_more_requests_wait_longer() -> None:
    first = [at_rate(scenario(), 256, rate).at(0.99) for rate in (1.0, 3.0, 6.0)]
    assert first == sorted(first)


def test_requests_of_no_length_do_not_wait() -> None:
    found = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=4, weights="fp8")
    assert waits(Points(scenario=found).at(0)) is None


def test_a_prompt_longer_than_a_step_takes_several() -> None:
    given = Service(
        step_s=np.array([0.01, 0.01]), beside_s=0.0, alone_s=1.0, prompt_tokens=4.0 * STEP_TOKENS, output_tokens=10.0
    )
    assert replay(given, np.ones(1), come_s=np.zeros(1), warm=0.0).at(0.5) == pytest.approx((1.0, 0.01))


def test_a_hundred_thousand_requests_take_a_few_seconds_at_most() -> None:
    given = service(scenario(), 256)
    drawn = np.random.default_rng(1)
    begun = time.process_time()
    replay(given, np.ones(100_000), come_s=np.cumsum(drawn.exponential(0.2, 100_000)))
    assert time.process_time() - begun < 10  # 0.9 s on an idle machine

"""The lab: one model however it is split, claims that are predicted before they are seen, and what is said of them."""

from __future__ import annotations

import datetime as dt
import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from tests.cli.command import invoke

from nhalf.evidence.probe import bed
from nhalf.evidence.probe.decoder import Decoder, alone, play
from nhalf.evidence.probe.socket_group import SocketGroup
from nhalf.evidence.probe.streams import Stream
from nhalf.lab import simulated
from nhalf.lab.bench import Tokens, order
from nhalf.lab.claims import BASE, LATE_S, Lab
from nhalf.lab.simulated import Simulated
from nhalf.loading.choices import Request
from nhalf.report.lab import Answer, brief, document, page
from nhalf.report.pictures import subject

if TYPE_CHECKING:
    from nhalf.evidence.probe.messages import Decode
    from nhalf.evidence.probe.sockets import Sockets
    from nhalf.lab.bench import Wire


class Joined:
    """As much of a backend as a decoder needs, over pairs of sockets of one process."""

    def __init__(self, rank: int, ends: dict[tuple[int, int], Stream]) -> None:
        self.rank, self.ends = rank, ends

    def group(self, ranks: tuple[int, ...]) -> SocketGroup:
        streams = {other: self.ends[self.rank, other] for other in ranks if other != self.rank}
        return SocketGroup(streams, ranks, self.rank, 10.0)

    def messenger(self, channel: str, peer: int, size_bytes: int) -> Any:  # noqa: ANN401
        del channel
        return self.ends[self.rank, peer].messenger(size_bytes)


def decoded(asked: Decode) -> list[dict[str, Any]]:
    """Return what each rank of a split decodes, all of them threads here."""
    ranks = asked.tp * asked.pp
    ends: dict[tuple[int, int], Stream] = {}
    for low in range(ranks):
        for high in range(low + 1, ranks):
            first, second = socket.socketpair()
            ends[low, high], ends[high, low] = Stream(first, 1 << 16, 10.0), Stream(second, 1 << 16, 10.0)
    found: list[dict[str, Any]] = [{}] * ranks

    def run(rank: int) -> None:
        found[rank] = cast("dict[str, Any]", play(asked, cast("Sockets", Joined(rank, ends)), rank))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    for each in ends.values():
        each.close()
    return found


@pytest.mark.parametrize("split", [(2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (1, 4)])
def test_the_model_is_one_however_it_is_split(split: tuple[int, int]) -> None:
    tp, pp = split
    whole = alone(order(3, 9))["ids"]
    found = decoded(order(3, 9, tp=tp, pp=pp))
    assert found[-1]["ids"] == whole
    assert found[0]["ids"] == whole
    assert len(set(cast("list[int]", whole))) > 10  # it does not say one thing over and over


def test_a_shard_alone_is_another_model() -> None:
    assert alone(order(3, 9, tp=2), shards=1)["ids"] != alone(order(3, 9))["ids"]


def test_a_token_depends_on_those_before_it() -> None:
    def after(first: int) -> Any:  # noqa: ANN401
        asked = order(1, 4)
        decoder = Decoder(asked, range(1), range(asked.layers))
        for place, each in enumerate((first, 7)):
            x = decoder.through(decoder.embedded(np.array([each]), place), lambda part: part)
        return x

    assert np.allclose(after(5), after(5))
    assert not np.allclose(after(5), after(6))


class Lawful(Simulated):
    """A bench on which everything takes what latency and bandwidth say, but for a fault that a test gives it."""

    name = "by the law"

    def __init__(self, *, deaf: bool = False, uneven: bool = False) -> None:
        super().__init__()
        self.wire, self.deaf, self.uneven = BASE, deaf, uneven

    def impose(self, wire: Wire) -> None:
        self.wire = BASE if self.deaf else wire

    def message_s(self, size_bytes: int) -> float:
        return self.wire.latency_s + 1e-6 + size_bytes / self.wire.bandwidth_bytes_per_s

    def all_reduce_s(self, ranks: int, size_bytes: int, algorithm: str = "") -> float:
        steps = ranks.bit_length() - 1
        each = self.message_s(0)
        moved = size_bytes / self.wire.bandwidth_bytes_per_s
        if algorithm == "ring":
            return 2 * (ranks - 1) * each + 2 * (ranks - 1) / ranks * moved
        return steps * (each + moved)

    def tokens(self, asked: Decode, late_s: float = 0.0) -> Tokens:
        work = 1e-3 + 1e-5 * asked.batch / asked.tp
        size = asked.batch * asked.hidden * 4
        time = work + (2 * asked.layers * self.all_reduce_s(asked.tp, size) if asked.tp > 1 else 0.0)
        time += (self.message_s(size) + self.message_s(8)) * (asked.pp > 1) + asked.layers * late_s
        return Tokens(times_s=(time,) * 7, ids=(1, 2, asked.tp if self.uneven else 3))


def test_every_claim_is_predicted_before_it_is_seen_and_comes_as_predicted() -> None:
    tried = Lab(Lawful(), 4)
    claims = list(tried.claims())
    assert len(claims) == 8
    for claim in claims:
        assert claim.holds, claim.name
        assert claim.ratio == pytest.approx(1.0, rel=0.02), claim.name
        assert claim.seen.keys() == claim.expected.keys()
        said, saw = (dt.datetime.fromisoformat(each) for each in (claim.predicted_at, claim.measured_at))
        assert said <= saw
    assert tried.tokens_equal
    late = claims[-1]
    assert late.seen["one rank late"] - late.seen["none late"] == pytest.approx(8 * LATE_S)
    answer = Answer(claims=claims, bench="by the law", tokens_equal=True)
    assert brief(answer).verdict[0] == "8 of 8 claims hold: by the law."
    body = document(answer)
    assert set(body["claims"][0]) >= {"name", "predicted", "measured", "ratio", "holds", "predicted_at"}
    drawn = page(answer, subject(Request(model="llama-3.1-8b", systems=()).updated({"system": "h100-sxm"})))
    assert [bool(section.table) for section in drawn.sections] == [True] * 8 + [False]
    assert drawn.sections[2].table is not None
    assert drawn.sections[2].table.rows[0][0] == "half the latency"


def test_claims_do_not_hold_where_a_link_does_not_change_and_tokens_that_differ_are_told() -> None:
    tried = Lab(Lawful(deaf=True, uneven=True), 4)
    held = {claim.name: claim.holds for claim in tried.claims()}
    assert [name for name, holds in held.items() if not holds] == [
        "n_1/2 of t = alpha + n/beta is found back", "batch 1: latency pays, bandwidth does not",
        "batch 64: bandwidth pays, latency does not",
    ]  # fmt: skip
    assert not tried.tokens_equal
    assert brief(Answer(claims=[], bench="", tokens_equal=False)).warn


def test_without_hosts_the_messages_are_simulated_and_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bed, "missing", lambda: "making network namespaces needs root")

    def steady(asked: Decode, *, shards: int = 0, clock: object = None) -> dict[str, Any]:
        del clock  # this process computes with several threads, whose times say little on a busy machine
        each = 1e-3 + 1e-5 * asked.batch / (asked.tp if shards else 1)
        return {"ids": alone(asked)["ids"], "times": [each] * asked.tokens}

    monkeypatch.setattr(simulated, "alone", steady)
    result = invoke("lab", "--short")
    assert result.code == 0, result.err
    assert "8 of 8 claims hold: simulated message by message" in " ".join(result.out.split())
    assert "No hosts were made: making network namespaces needs root." in " ".join(result.out.split())
    assert "Tokens are the same however the model is split." in " ".join(result.out.split())


def test_what_was_simulated_is_not_called_measured() -> None:
    answer = Answer(claims=(), bench="a bench", tokens_equal=True, why="--simulated was asked for")
    assert answer.seen == "simulated"
    assert replace(answer, why="").seen == "measured"

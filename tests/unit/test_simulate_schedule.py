"""A user's own schedule: read, checked, and refused in one clear sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nhalf.errors import InputError
from nhalf.link import Link
from nhalf.simulate import network, payload, schedule
from nhalf.simulate.engine import run
from nhalf.simulate.payload import message_levels
from nhalf.simulate.programs import build
from nhalf.simulate.programs.shape import Shape

LINK = Link(5e-6, 50e9)


def message(source: int, target: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"from": source, "to": target, "bytes": 50_000, **more}


def document(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"ranks": 4, "messages": list(messages), **more}


CHAIN = document(
    message(0, 1, id="a", reduces=True),
    message(1, 2, id="b", after="a", reduces=True),
    message(2, 3, id="c", after=["b"], reduces=True),
    message(3, 2, id="d", after="c"),
    message(2, 1, id="e", after="d"),
    message(1, 0, id="f", after="e"),
    op="all-reduce",
)


def test_a_chain_takes_its_messages_one_after_the_other() -> None:
    program = schedule.read(CHAIN, where="chain.json")
    assert payload.check(program) == "bitmask"
    assert run(program, network.switch(4, LINK)).time_s == pytest.approx(6 * 6e-6)


def test_messages_that_wait_for_nothing_go_at_once() -> None:
    program = schedule.read(document(message(0, 1), message(2, 3)), where="x")
    assert run(program, network.switch(4, LINK)).time_s == pytest.approx(6e-6)


def test_sizes_may_have_units() -> None:
    program = schedule.read(document({"from": 0, "to": 1, "bytes": "16KiB"}), where="x")
    assert program.size_bytes == 16384


def test_a_schedule_survives_json() -> None:
    assert schedule.read(json.loads(json.dumps(CHAIN)), where="x").messages == 6


def test_an_incomplete_schedule_names_the_rank_that_lacks_something() -> None:
    short = {**CHAIN, "messages": CHAIN["messages"][:-1]}
    with pytest.raises(InputError, match="rank 0 ends without the whole of block 0: what rank"):
        payload.check(schedule.read(short, where="x"))


def test_a_schedule_that_sends_too_early_is_incomplete() -> None:
    early = [message(0, 1, id="a", reduces=True), message(1, 2, reduces=True), message(2, 3, reduces=True, after=1)]
    with pytest.raises(InputError, match="without the whole of block 0"):
        payload.check(schedule.read(document(*early, op="all-reduce"), where="x"))


def test_a_message_that_does_not_wait_for_what_it_carries_is_refused() -> None:
    # Rank 0 hands on the sum as soon as the small contribution is there; the large one ends 20 ms later.
    star = [
        message(1, 0, id="small", reduces=True),
        message(2, 0, id="large", reduces=True, bytes="1GB"),
        message(0, 1, id="back", after="small"),
        message(0, 2, after=["small", "large"]),
    ]
    words = "x: message 2, after: rank 0 sends block 0 without waiting for message 'large', which brings a part of it"
    with pytest.raises(InputError, match=words):
        schedule.read({"ranks": 3, "op": "all-reduce", "messages": star}, where="x")
    star[2]["after"] = ["large", "small"]
    program = schedule.read({"ranks": 3, "op": "all-reduce", "messages": star}, where="x")
    assert payload.check(program) == "bitmask"
    assert schedule.read({"ranks": 3, "messages": star}, where="x").notes == ()


def test_waiting_through_other_ranks_is_waiting() -> None:
    ring = [
        message(rank, (rank + 1) % 4, id=f"{step}.{rank}", after=f"{step - 1}.{(rank - 1) % 4}" if step else [])
        | {"block": (rank - step) % 4, "reduces": step < 3}
        for step in range(6)
        for rank in range(4)
    ]
    program = schedule.read(document(*ring, op="all-reduce", blocks=4), where="x")
    assert payload.check(program) == "bitmask"
    built = build("all-reduce", "ring", Shape(ranks=4, size_bytes=200_000.0))
    net = network.switch(4, LINK)
    assert run(program, net).time_s == pytest.approx(run(built, net).time_s)


def test_a_doubled_contribution_names_the_message_and_the_ranks() -> None:
    twice = [message(0, 1, reduces=True), message(0, 1, reduces=True), message(1, 0, reduces=True)]
    program = schedule.read({"ranks": 2, "op": "all-reduce", "messages": twice}, where="x")
    with pytest.raises(InputError, match=r"message 1 \(rank 0 to rank 1\): rank 1 adds .* twice: what rank 0 had of b"):
        payload.check(program)


def test_long_chains_are_read_and_checked_in_their_length() -> None:
    count = 20_000
    back = [message(n % 2, 1 - n % 2, after=[n + 1] if n + 1 < count else []) for n in range(count)]
    program = schedule.read({"ranks": 2, "messages": back}, where="x")
    assert program.steps is not None
    assert message_levels(program.steps).tolist() == list(range(count))[::-1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"messages": []}, "the key 'ranks' is missing"),
        ({"ranks": 1, "messages": [message(0, 0)]}, "1 rank has nobody to talk to"),
        ({"ranks": 4, "messages": []}, "has no messages"),
        ({"ranks": 4, "mesages": []}, "Did you mean 'messages'"),
        (document(message(0, 4)), "x: message 0, to: there is no rank 4"),
        (document(message(0, 0)), "rank 0 sends a message to itself"),
        (document({"from": 0, "bytes": 1}), "the key 'to' is missing"),
        (document(message(0, 1, bytes=-1)), "-1 is no size"),
        (document(message(0, 1, bytes="5GB/s")), "is a rate, not a size"),
        (document(message(0, 1, bytes=True)), "True is no size"),
        (document(message(0, 1, block=1)), "there is no block 1"),
        (document(message(0, 1, size=1)), "the key 'size' is not known"),
        (document(message(0, 1, after="z")), "there is no message 'z' to wait for"),
        (document(message(0, 1, id="a"), message(2, 3, id="a")), "two messages are called 'a'"),
        (document(message(0, 1, id="a"), message(2, 3, after="a")), "rank 2 cannot know when message 'a'"),
        (document(message(0, 1, id="a", after="b"), message(1, 0, id="b", after="a")), "in a circle"),
        (document(message(0, 1), op="all-redu"), "op 'all-redu' has no known result"),
        (document(7), "a message is an object"),  # type: ignore[arg-type]
        (document(message(0, 1), op=["all-reduce"]), r"op \['all-reduce'\] has no known result"),
        (document(message(0, 1), name=5), "x: name: 5 is no name"),
        (document(message(0, 1, bytes=10**400)), "0 is no size"),
        (document(message(0, 1, reduces="false")), "message 0, reduces: 'false' is no choice. Allowed: true or false"),
        (document(message(0, 1, block=False)), "there is no block False"),
        (document(message(0, 1, id=None)), "message 0, id: None names no message"),
        (document(message(0, 1, after={"a": 1})), "after: {'a': 1} names no message"),
        (document(message(0, 1, after=None)), "after: None names no message"),
        (document(message(0, 1), op="all-gather", blocks=2), "the all-gather of 4 ranks has 4 blocks, not 2"),
        (document(message(0, 1, block=6), op="reduce-scatter", blocks=8), "has 4 blocks, not 8"),
        (document(message(0, 1), op="all-reduce", blocks=10**11), "100,000,000,000 blocks on each of 4 ranks are too"),
        (document(message(0, 1), op="all-to-all") | {"ranks": 5000}, "25,000,000 blocks on each of 5,000 ranks"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        schedule.read(given, where="x")


def test_a_circle_names_its_messages_and_a_rank() -> None:
    knot = document(
        message(0, 1, id="a", after="c"), message(1, 2, id="b", after="a"), message(2, 0, id="c", after="b")
    )
    with pytest.raises(InputError, match=r"in a circle \(a -> b -> c -> a\): rank 0 never sends message 'a'"):
        schedule.read(knot, where="x")


def test_a_long_circle_is_not_spelled_out() -> None:
    knot = document(*(message(n % 2, 1 - n % 2, after=(n + 1) % 500) for n in range(500)))
    with pytest.raises(InputError, match=r"0 -> 499 -> 498 -> 497 -> \.\.\. \(493 more\) -> 3 -> 2 -> 1 -> 0\)"):
        schedule.read(knot, where="x")

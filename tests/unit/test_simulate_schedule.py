"""A user's own schedule: read, checked, and refused in one clear sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nhalf.errors import InputError
from nhalf.link import Link
from nhalf.simulate import network, payload, schedule
from nhalf.simulate.engine import run

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
    eager = [dict(one) for one in CHAIN["messages"]]
    del eager[1]["after"]
    with pytest.raises(InputError, match="without the whole of block 0"):
        payload.check(schedule.read({**CHAIN, "messages": eager}, where="x"))


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

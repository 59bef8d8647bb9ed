"""Skimming: events that nobody reads are left out of the text, in every layout where that is sure, and no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from nhalf.trace import events, kineto, sources
from nhalf.trace.recognition import standard
from nhalf.trace.skim import CATEGORIES, skim

if TYPE_CHECKING:
    from pathlib import Path


def event(cat: str, **more: object) -> dict[str, Any]:
    given = {"ph": "X", "cat": cat, "name": f'a {cat} with }}, {{ "ph": "X" in it', "pid": 1, "tid": 1, "ts": 1.0}
    return {**given, "dur": 2.0, **more}


UNREAD = [
    event("python_function"),
    event("overhead"),
    {**event("ac2g"), "ph": "s", "id": 7},
    event("cpu_instant_event"),
    {**event("Trace"), "ph": "i"},
]
READ = [event(cat, args={"list": [{}, {}], "External id": 3}) for cat in CATEGORIES] + [event("KERNEL")]
MIXED = [each for pair in zip(READ, UNREAD * 4, strict=False) for each in pair]


def text_of(made: list[dict[str, Any]], **layout: Any) -> bytes:  # noqa: ANN401  as json.dumps takes them
    return json.dumps(made, **layout).encode()[1:-1].strip()


@pytest.mark.parametrize("layout", [{}, {"indent": 2}, {"indent": "\t"}, {"separators": (",", ":")}])
def test_the_events_that_are_read_are_left_and_the_others_counted(layout: dict[str, Any]) -> None:
    text = text_of(MIXED, **layout)
    found = skim(text + b" , {", len(text))
    assert json.loads(b"[" + found.text + b"]") == READ
    assert (found.skipped, found.python) == (len(READ), True)
    assert not skim(text_of(READ, **layout), len(text_of(READ, **layout))).python


@pytest.mark.parametrize(
    "made",
    [
        [{"name": "first", **each} for each in MIXED],
        [*MIXED, {"cat": "kernel", "ph": "X"}, *MIXED],
        [*MIXED, event("kernel", args={"ph": 1}), *MIXED],
        [{key: each[key] for key in sorted(each)} for each in MIXED],
        [{}],
        [],
    ],
)
def test_a_layout_that_is_not_sure_is_left_as_it_is(made: list[dict[str, Any]]) -> None:
    text = text_of(made)
    assert skim(text, len(text)).text == text


def test_zeros_of_a_lost_block_are_left_to_be_told() -> None:
    text = text_of(MIXED).replace(b"python_function with", bytes(20))
    assert skim(text, len(text)).text == text


def test_odd_events_between_plain_ones_are_kept() -> None:
    odd = [{**event("kernel"), "ph": "XX"}, {**event("kernel"), "ph": ""}, event("ker\\u006eel"), event("")]
    text = text_of([*MIXED, *odd, *MIXED])
    kept = json.loads(b"[" + skim(text, len(text)).text + b"]")
    assert [each for each in kept if each in odd] == odd[:3]


@pytest.mark.parametrize("block", [97, 1000, 1 << 20])
def test_unread_events_change_nothing_but_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(events, "blocks", lambda p: sources.blocks(p, block))
    both = []
    for made in (READ * 9, MIXED * 9):
        path = tmp_path / "rank0.json"
        path.write_text(json.dumps({"traceEvents": made}), "utf-8")
        both.append(kineto.read(path, standard()))
    one, other = both
    assert other.events == 2 * one.events == 2 * len(READ) * 9
    assert (one.works, one.busy_s.tolist(), one.kinds) == (other.works, other.busy_s.tolist(), other.kinds)
    assert any("Python stacks" in note for note in other.notes)
    assert not any("Python stacks" in note for note in one.notes)


def test_a_bad_byte_takes_one_event_and_no_operator_with_shapes(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[1, 4096], []], "Input type": ["bf16", ""], "External id": 1}
    made = [event("cpu_op", name="aten::mm", ts=10.0 * i, args=shapes) for i in range(500)]
    path = tmp_path / "rank0.json"
    path.write_bytes(json.dumps({"traceEvents": made}).encode().replace(b'"dur"', b'"dur', 1))
    found = kineto.read(path, standard())
    assert (found.events, found.lost) == (499, 1)


def test_a_packed_file_that_nobody_reads_to_its_end_is_let_go(tmp_path: Path) -> None:
    import gzip
    import threading

    path = tmp_path / "rank0.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 22)))
    before = threading.active_count()
    unpacked = sources.blocks(path, 1 << 16)
    assert next(unpacked)
    unpacked.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before

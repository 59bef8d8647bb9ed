"""The names of collectives are kebab-case, and are read whatever their case and separators."""

from __future__ import annotations

import re

import pytest

from nhalf.collective import Algorithm, Mode, Op
from nhalf.errors import InputError

NAMES = [*Op, *Algorithm, *Mode]


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_names_are_kebab_case_and_equal_their_text(name: Op | Algorithm | Mode) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", str(name))
    assert name == str(name)
    assert name.name == str(name).upper().replace("-", "_")


def test_the_names_that_others_rely_on() -> None:
    assert {str(op) for op in Op} == {
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "all-to-all",
        "broadcast",
        "reduce",
        "barrier",
        "send-recv",
    }
    assert {str(mode) for mode in Mode} == {"graph", "eager", "host"}
    assert {"ring", "double-tree", "chain-tree", "one-shot", "hierarchical", "torus-2d"} <= {str(a) for a in Algorithm}


@pytest.mark.parametrize("text", ["all-reduce", "all_reduce", "AllReduce", "ALL REDUCE", "allreduce"])
def test_case_and_separators_are_ignored(text: str) -> None:
    assert Op.parse(text) is Op.ALL_REDUCE


def test_no_two_names_are_read_alike() -> None:
    for names in (Op, Algorithm, Mode):
        letters = [re.sub("[ _-]", "", str(name)) for name in names]
        assert len(set(letters)) == len(letters)


def test_an_unknown_name_says_where_and_what_is_allowed() -> None:
    with pytest.raises(InputError) as caught:
        Op.parse("all-reduze", where="--op")
    message = str(caught.value)
    assert message.startswith("--op: 'all-reduze' is not a known op")
    assert "reduce-scatter" in message
    assert "Did you mean 'all-reduce'?" in message


@pytest.mark.parametrize("text", ["point-to-point", "Point to point", "p2p", "send-recv", "SendRecv"])
def test_point_to_point_is_what_nccl_tests_calls_send_recv(text: str) -> None:
    assert Op.parse(text) is Op.SEND_RECV

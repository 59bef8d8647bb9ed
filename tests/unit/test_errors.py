"""The one message shape."""

from __future__ import annotations

import pickle

import pytest

from nhalf.catalog.naming import find
from nhalf.errors import InputError, NhalfError, NoAnswerError, WeakEvidenceError, did_you_mean, nearest

SYSTEMS = ("a100-sxm", "b200-sxm", "h100-sxm", "h200-sxm", "gb200-nvl72")


def test_message_is_where_what_allowed_and_do_in_this_order() -> None:
    error = InputError("'5' has no unit", where="--latency", allowed="5us or 1.2 ms", do="write 5us")
    assert str(error) == "--latency: '5' has no unit. Allowed: 5us or 1.2 ms. Do: write 5us."


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "it broke."),
        ({"where": "a.toml:3"}, "a.toml:3: it broke."),
        ({"allowed": "1 or 2"}, "it broke. Allowed: 1 or 2."),
        ({"do": "try again"}, "it broke. Do: try again."),
        ({"do": "Did you mean 'x'?"}, "it broke. Did you mean 'x'?"),
        ({"allowed": "etc.", "do": "stop!"}, "it broke. Allowed: etc. Do: stop!"),
    ],
)
def test_empty_parts_are_left_out_and_each_part_ends_once(parts: dict[str, str], message: str) -> None:
    assert str(NhalfError("it broke", **parts)) == message


def test_parts_can_be_read_apart() -> None:
    error = NoAnswerError("no layout fits", where="--tp", allowed="", do="use more GPUs")
    assert (error.what, error.where, error.allowed, error.do) == ("no layout fits", "--tp", "", "use more GPUs")


@pytest.mark.parametrize(
    ("kind", "code"), [(NhalfError, 1), (InputError, 2), (NoAnswerError, 3), (WeakEvidenceError, 4)]
)
def test_every_kind_has_the_exit_code_of_the_contract(kind: type[NhalfError], code: int) -> None:
    assert kind.exit_code == code
    with pytest.raises(NhalfError):
        raise kind("x")


def test_an_error_keeps_its_parts_when_it_crosses_a_process() -> None:
    error = InputError("what", where="where", allowed="allowed", do="do")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made one line above
    assert type(copy) is InputError
    assert str(copy) == str(error)


@pytest.mark.parametrize("name", ["h100-sxm", "H100_SXM", "h100 sxm", "h100", "h10-sxm", "h100-smx"])
def test_a_near_name_is_suggested_whatever_its_case_and_separators(name: str) -> None:
    assert did_you_mean(name, SYSTEMS) == "Did you mean 'h100-sxm'?"


@pytest.mark.parametrize("name", ["", "zzz", "tpu", "a-completely-different-machine"])
def test_a_far_name_gets_no_suggestion(name: str) -> None:
    assert did_you_mean(name, SYSTEMS) == ""


def test_nothing_is_suggested_from_nothing() -> None:
    assert did_you_mean("h100", ()) == ""


def test_at_most_five_near_names_are_named_those_spelled_alike_first() -> None:
    known = ["a100-sxm", "h100-sxm", "h100-pcie", "h100-nvl", "h100-efa", "h100-x", "h100-y", "tpu"]
    found = nearest("h100", known)
    assert len(found) == 5
    assert all(name.startswith("h100") for name in found)
    assert nearest("zzz", known) == []


def test_a_name_that_the_catalogue_does_not_know_is_told_five_of_many() -> None:
    with pytest.raises(InputError) as raised:
        find("model", "llama-3.1-70", where="MODEL")
    named, _, rest = raised.value.allowed.partition(", or any ")
    assert named.startswith("llama-3.1-70b, ")
    assert len(named.split(", ")) <= 5
    assert "nhalf catalog models" in rest

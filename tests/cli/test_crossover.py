"""`nhalf crossover` on the command line: the page, the document of the contract, and bad input."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.command import detailed, invoke, matches, refused

JOB = ("crossover", "llama-3.1-70b", "--on", "h100-sxm")
KEYS = {
    "collective", "tier", "half_size_bytes", "double_floor_size_bytes", "message_bytes_per_sequence",
    "batch_at_half_size", "batch_at_double_floor", "library", "mode", "kind",
}  # fmt: skip


@pytest.fixture(scope="module")
def document() -> Any:  # noqa: ANN401  JSON is whatever it is
    return invoke(*JOB, "--json").document


@pytest.mark.parametrize("columns", [80, 140])
def test_the_main_job_prints_the_stored_page(columns: int) -> None:
    result = invoke(*JOB, columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"crossover_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns


def test_the_details_are_the_stored_ones() -> None:
    assert matches("crossover_detail_80", detailed(*JOB, columns=80).out)


def test_the_floor_of_the_article_is_that_of_a_bare_link() -> None:
    result = invoke("crossover", "llama-3.1-70b", "--link", "5us,400GB/s", columns=80)
    assert result.out.startswith("From batch 122 on, bytes outweigh latency")
    assert "Floor: 160 all-reduces x 5 us = 0.8 ms: under 1,250 tokens/s on any link." in result.out
    found = invoke("crossover", "llama-3.1-70b", "--link", "5us,400GB/s", "--json").document
    assert found["floor_s"] == pytest.approx(0.8e-3)
    assert found["most_tokens_per_s"] == pytest.approx(1250)
    assert found["crossovers"][0]["batch_at_half_size"] == pytest.approx(2e6 / 16384)


def test_the_two_thresholds_stand_apart() -> None:
    lines = invoke(*JOB, "--library", "vllm", columns=80).out.splitlines()
    assert lines[0].startswith("From batch 35 on, bytes outweigh latency")
    assert any(line.startswith("Of the whole token, 2x NVLink saves 5 % from batch 1") for line in lines)


def test_the_document_has_the_keys_of_the_contract(document: Any) -> None:  # noqa: ANN401
    assert document["schema"] == "nhalf.crossover/2"
    assert all(set(found) >= KEYS for found in document["crossovers"])
    assert document["use"] == "double_floor_size_bytes"


def test_both_measures_are_given_for_every_library_and_tier(document: Any) -> None:  # noqa: ANN401
    found = document["crossovers"]
    assert {each["library"] for each in found} == {"vllm", "sglang", "trtllm", "nccl"}
    assert {each["tier"] for each in found} == {"intra_node", "inter_node"}
    for each in found:
        message = each["message_bytes_per_sequence"]
        assert message == 8192 * 2
        assert each["batch_at_half_size"] == pytest.approx(each["half_size_bytes"] / message)
        assert each["batch_at_double_floor"] == pytest.approx(each["double_floor_size_bytes"] / message)
    inside = [each for each in found if each["tier"] == "intra_node"]
    assert {each["kind"] for each in inside} == {"measured"}
    assert {each["collective"].split(" x")[0] for each in inside} == {"all-reduce", "all-gather", "reduce-scatter"}
    assert {each["kind"] for each in found if each["tier"] == "inter_node"} == {"modelled"}


# By an independent summary of the same data: library, TP8, n_1/2 and 2x floor [KiB], batch of each. That of older
# versions of the other two libraries is held against their curves in tests/catalog.
@pytest.mark.parametrize(
    ("library", "half_kib", "double_kib", "batch_half", "batch_double"),
    [
        ("trtllm", 733, 135, 46, 8),
        ("nccl", 3680, 1434, 230, 90),
    ],
)
def test_tp8_on_h100_turns_where_the_data_says(
    document: Any,  # noqa: ANN401
    library: str,
    half_kib: float,
    double_kib: float,
    batch_half: float,
    batch_double: float,
) -> None:
    (found,) = (
        each for each in document["crossovers"] if (each["library"], each["collective"]) == (library, "all-reduce x8")
    )
    assert found["half_size_bytes"] / 1024 == pytest.approx(half_kib, rel=0.1)
    assert found["double_floor_size_bytes"] / 1024 == pytest.approx(double_kib, rel=0.3)
    assert found["batch_at_half_size"] == pytest.approx(batch_half, rel=0.1)
    assert found["batch_at_double_floor"] == pytest.approx(batch_double, rel=0.3)


def test_a_library_and_degrees_narrow_it() -> None:
    found = invoke(*JOB, "--library", "trtllm", "--tp", "2,8", "--json").document["crossovers"]
    assert [(each["library"], each["ranks"]) for each in found] == [("trtllm", 2), ("trtllm", 8)]


def test_messages_grow_with_the_batch(document: Any) -> None:  # noqa: ANN401
    assert document["messages"][0] == {"batch": 1, "size_bytes": 16384.0}
    assert document["messages"][-1]["size_bytes"] == 1024 * 16384


def test_a_system_that_nobody_measured_is_modelled() -> None:
    found = invoke("crossover", "llama-3.1-70b", "--on", "mi300x", "--tp", "8", "--json").document["crossovers"]
    assert {each["kind"] for each in found} == {"modelled"}


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("crossover", "llama-3.1-70b"), ["--on", "h100-sxm"]),
        (("crossover", "llama-3.1-70b", "--link", "5us,4,5"), ["is no link"]),
        ((*JOB, "--link", "5us,400GB/s"), ["a bare link has no system"]),
        ((*JOB, "--tp", "1"), ["one device has no collective"]),
        ((*JOB, "--tp", "7"), ["TP 7"]),
        ((*JOB, "--library", "gloo"), ["gloo"]),
        ((*JOB[:2], "--on", "h100"), ["no system 'h100'"]),
        (("crossover", "llama-9", "--on", "h100-sxm"), ["llama-9"]),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], parts: list[str]) -> None:
    message = refused(*arguments)
    for part in parts:
        assert part in message, message


def test_libraries_that_one_model_stands_for_have_no_span() -> None:
    text = " ".join(detailed("crossover", "deepseek-v3", "--on", "h200-sxm", "--tp", "16").out.split())
    assert "No library is measured there: one model stands for all." in text
    assert "a modelled collective" in text
    assert "measured collective" not in text
    assert "Here n_1/2 is 28.8 times the other" in text
    assert "Across libraries: batch 7 to 35." in detailed("crossover", "llama-3.1-70b", "--on", "h100-sxm").out

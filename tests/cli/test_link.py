"""`nhalf link` on the command line."""

from __future__ import annotations

import pytest
from tests.cli.command import detailed, invoke, matches, refused


@pytest.mark.parametrize("columns", [80, 140])
def test_two_numbers_print_the_stored_page(columns: int) -> None:
    result = detailed("link", "5us", "400GB/s", "--size", "16KiB", columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"link_{columns}", result.out)


def test_the_document_has_the_keys_of_the_contract() -> None:
    document = invoke("link", "5us", "400GB/s", "--size", "16KiB", "--size", "8MB", "--json").document
    assert document["schema"] == "nhalf.link/2"
    assert document["latency_s"] == 5e-6
    assert document["bandwidth_bytes_per_s"] == 4e11
    assert document["half_size_bytes"] == 2e6
    small, large = document["points"]
    assert (small["size_bytes"], small["regime"]) == (16384, "latency")
    assert small["time_s"] == pytest.approx(5e-6 + 16384 / 4e11)
    assert small["effective_bandwidth_bytes_per_s"] == pytest.approx(16384 / small["time_s"])
    assert (large["size_bytes"], large["regime"]) == (8e6, "bandwidth")


def test_a_name_of_the_catalogue_brings_its_sources() -> None:
    result = detailed("link", "ib-ndr")
    assert result.code == 0
    assert "assumed" in result.out
    assert "nccl" in result.out


def test_a_link_without_latency_charges_bytes_only() -> None:
    document = invoke("link", "0s", "1GB/s", "--size", "1kB", "--json").document
    assert document["half_size_bytes"] == 0
    assert document["points"][0]["regime"] == "bandwidth"
    assert document["points"][0]["time_s"] == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("link",), ["LATENCY BANDWIDTH"]),
        (("link", "5us"), ["5us", "link"]),
        (("link", "5", "400GB/s"), ["latency", "no unit", "5us"]),
        (("link", "5us", "400G"), ["bandwidth", "400 Gb/s", "400 GB/s"]),
        (("link", "5us", "400GB"), ["bandwidth", "size"]),
        (("link", "5us", "0GB/s"), ["bandwidth", "zero"]),
        (("link", "-5us", "400GB/s"), ["-5us"]),
        (("link", "nan", "400GB/s"), ["latency", "finite"]),
        (("link", "5us", "400GB/s", "1"), ["too many"]),
        (("link", "5us", "400GB/s", "--size", "16"), ["--size", "no unit"]),
        (("link", "nvlink44"), ["nvlink44", "Did you mean"]),
    ],
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], parts: list[str]) -> None:
    message = refused(*arguments)
    for part in parts:
        assert part in message, message


def test_a_link_without_latency_has_no_turning_point_to_tell() -> None:
    assert invoke("link", "0s", "1GB/s").out.startswith("This link has no latency")


def test_the_ladder_as_csv() -> None:
    lines = invoke("link", "5us", "400GB/s", "--size", "16KiB", "--csv").out.splitlines()
    assert lines[0].startswith("size_bytes,time_s,regime,effective_bandwidth_bytes_per_s")
    assert lines[1].startswith("16384.0,5.04096e-06,latency,")


@pytest.mark.parametrize(
    ("arguments", "words", "not_said"),
    [
        (("link", "5us", "400GB/s", "--size", "-1"), ("--size: '-1' is negative",), "nhalf link"),
        (("link", "-5us", "400GB/s"), ("nhalf link: '-5us' is negative",), "option"),
        (("link", "5us"), ("'5us' is a latency, and the bandwidth is missing", "write 5us 400GB/s"), "nvlink1"),
        (("link", "400GB/s"), ("'400GB/s' is a bandwidth, and the latency is missing", "5us 400GB/s"), "nvlink1"),
        (("collective", "all-reduce", "5us", "--ranks", "8"), ("the bandwidth is missing",), "nvlink1"),
        (("collective", "all-reduce", "-5us", "50GB/s"), ("nhalf collective: '-5us' is negative",), "option"),
        (("collective", "all-reduce", "5us", "50GB/s", "--ranks", "8", "--sizes", "-1"), ("'-1' is negative",), "1B"),
        (("collective", "all-reduce", "5us", "50GB/s", "--ranks", "1,024"), ("write 1024",), "such as 1."),
    ],
)
def test_advice_leads_to_something_right(arguments: tuple[str, ...], words: tuple[str, ...], not_said: str) -> None:
    message = refused(*arguments)
    for word in words:
        assert word in message
    assert not_said not in message


def test_a_link_may_be_written_with_a_comma_as_everywhere() -> None:
    assert invoke("link", "5us,400GB/s", "--json").document["half_size_bytes"] == 2e6
    both = [
        invoke("collective", "all-reduce", *link, "--ranks", "8", "--csv").out
        for link in (("5us,400GB/s",), ("5us", "400GB/s"))
    ]
    assert both[0] == both[1]

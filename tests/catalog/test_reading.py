"""A file of the catalogue's format is read with its units, or refused with the file, the field and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nhalf.catalog import build
from nhalf.catalog.reading import convert, parse
from nhalf.catalog.schema import Constants, Time
from nhalf.catalog.stated import links_in
from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.citation import Datum

FILE = "my-links.toml"
GOOD = """
[common]
source = "my notes"
locator = "page 3"
kind = "measured"

[links.mine]
title = "my link"
latency = { value = "5 us", low = "4 us" }
bandwidth = { value = "400 GB/s", per = "device", direction = "one_way", date = "2026-05" }
"""


def read(text: str, *, name: str = "mine") -> tuple[Datum, Datum]:
    """Return latency and bandwidth of a link in a text."""
    entry = links_in(parse(text, where=FILE, dates={"my notes": "2026-04"}), where=FILE)[name]
    _, origins = build.link(entry, where=f"{FILE} [{name}]")
    return origins["latency_s"], origins["bandwidth_bytes_per_s"]


def refused(text: str) -> InputError:
    """Return the refusal of a text."""
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.where.startswith(FILE)
    return caught.value


def test_a_value_takes_what_it_lacks_from_common_and_its_date_from_its_source() -> None:
    latency, bandwidth = read(GOOD)
    assert (latency.value, latency.low, latency.high) == (5e-6, 4e-6, None)
    assert (latency.source, latency.locator, latency.kind, latency.date) == (
        "my notes",
        "page 3",
        "measured",
        "2026-04",
    )
    assert (bandwidth.value, bandwidth.date) == (400e9, "2026-05")


@pytest.mark.parametrize(
    ("bandwidth", "bytes_per_s"),
    [
        ('value = "900 GB/s", per = "device", direction = "both"', 450e9),
        ('value = "3200 Gb/s", per = "node", devices = 8, direction = "one_way"', 50e9),
        ('value = "6400 Gb/s", per = "node", devices = 8, direction = "both"', 50e9),
        ('value = "25 GB/s", per = "link", links = 18, direction = "one_way"', 450e9),
        ('value = "50 GB/s", per = "link", links = 18, direction = "both", low = "40 GB/s"', 450e9),
    ],
)
def test_a_bandwidth_becomes_that_of_one_device_one_way(bandwidth: str, bytes_per_s: float) -> None:
    stated = 'value = "400 GB/s", per = "device", direction = "one_way"'
    _, datum = read(GOOD.replace(stated, bandwidth))
    assert datum.value == pytest.approx(bytes_per_s, rel=1e-12)
    if datum.low is not None:
        assert datum.low == pytest.approx(360e9)


@pytest.mark.parametrize(
    ("old", "new", "what", "allowed"),
    [
        ("[common]", "[common", "this is not TOML", ""),
        ("[links.mine]", "[link.mine]", "unknown field 'link'", "links"),
        ("title =", "titel =", "unknown field 'titel'", "title"),
        ("latency =", "latncy =", "unknown field 'latncy'", "latency"),
        ('title = "my link"', "", "lacks the required field 'title'", "title"),
        ('kind = "measured"', 'kind = "messured"', "'messured'", "measured"),
        ('kind = "measured"', "", "lacks the required field 'kind'", "kind"),
        ('"5 us"', "5", "got 'int'", "'5 us'"),
        ('"5 us"', '"5"', "no unit", "5us"),
        ('"5 us"', '"5 GB"', "is a size, not a time", "us"),
        ('"5 us"', '"3 us"', "outside low", "low <= value <= high"),
        ('"400 GB/s"', '"400G"', "can be read as", "GB/s"),
        ('per = "device", ', "", "lacks the required field 'per'", "per"),
        ('per = "device"', 'per = "rack"', "'rack'", "device, node, link"),
        ('"one_way"', '"two_way"', "'two_way'", "one_way, both"),
        ('per = "device"', 'per = "node"', "does not go with devices = None", '"node" with devices'),
        ('per = "device"', 'per = "device", links = 18', "does not go with", "alone"),
        ('per = "device"', 'per = "link", links = 0', ">= 1", "a whole number of 1 or more"),
        ('low = "4 us"', 'log_sd = "wide"', "not of the type 'float | null'", "a number"),
        ('locator = "page 3"', 'locator = ""', "locator is blank", "any text"),
        ('date = "2026-05"', 'date = "May"', "not an ISO date", "2026-02"),
    ],
)
def test_a_fault_is_one_message_with_file_field_and_what_is_allowed(
    old: str, new: str, what: str, allowed: str
) -> None:
    assert old in GOOD
    error = refused(GOOD.replace(old, new, 1))
    assert what in error.what
    assert allowed in error.allowed
    assert "$" not in error.what
    assert "`" not in error.what


def test_a_near_miss_is_pointed_out() -> None:
    assert refused(GOOD.replace("latency =", "latncy =")).do == "Did you mean 'latency'?"
    assert refused(GOOD.replace('"measured"', '"messured"')).do == "Did you mean 'measured'?"


def test_a_message_names_the_entry_and_the_field() -> None:
    error = refused(GOOD.replace('"one_way"', '"two_way"'))
    assert error.where == f"{FILE} [mine]"
    assert error.what.startswith("field 'bandwidth.direction'")


def test_constants_of_a_file_lack_none() -> None:
    with pytest.raises(InputError, match=r"lacks the required field 'memory_efficiency'.*kv_efficiency"):
        convert({}, Constants, where="my-stack.toml")


def test_log_sd_of_a_time() -> None:
    time = Time(value="18 us", source="s", locator="l", kind="assumed", log_sd=0.7)
    datum = time.datum("here")
    assert datum.low == pytest.approx(18e-6 / 3.9433, rel=1e-4)
    assert datum.high == pytest.approx(18e-6 * 3.9433, rel=1e-4)

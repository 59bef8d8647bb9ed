"""What is read, what is refused and why, and what is printed."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf import units
from nhalf.errors import InputError
from nhalf.units.scales import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
EVERY_UNIT = [(dimension, unit) for dimension, known in DIMENSIONS.items() for unit in known.units]


def attempt(read: Callable[[], T]) -> tuple[T | None, str]:
    """Return what was read, or None and the message; any other exception fails the test."""
    try:
        return read(), ""
    except InputError as error:
        return None, str(error)


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        ("time", "5us", 5e-6),
        ("time", "5 us", 5e-6),
        ("time", " 5\tus ", 5e-6),
        ("time", "5\u00b5s", 5e-6),
        ("time", "5 \u03bcs", 5e-6),
        ("time", "7.26ms", 7.26e-3),
        ("time", "250ns", 250e-9),
        ("time", ".5s", 0.5),
        ("time", "5.s", 5.0),
        ("time", "5e-3ms", 5e-6),
        ("time", "+5us", 5e-6),
        ("time", "1.5min", 90.0),
        ("time", "0s", 0.0),
        ("time", "-0s", 0.0),
        ("size", "16KiB", 16_384.0),
        ("size", "2 MB", 2e6),
        ("size", "2MiB", 2_097_152.0),
        ("size", "16kB", 16e3),
        ("size", "16KB", 16e3),
        ("size", "80GB", 80e9),
        ("size", "1.5TiB", 1.5 * 1024**4),
        ("size", "2EB", 2e18),
        ("size", "2e3B", 2e3),
        ("size", "512 bytes", 512.0),
        ("size", "8kb", 1e3),
        ("size", "8Mb", 1e6),
        ("size", "8Gbit", 1e9),
        ("size", "12 bits", 1.5),
        ("size", "0B", 0.0),
        ("bandwidth", "400GB/s", 400e9),
        ("bandwidth", "400 GB / s", 400e9),
        ("bandwidth", "400GBps", 400e9),
        ("bandwidth", "400Gb/s", 50e9),
        ("bandwidth", "400Gbps", 50e9),
        ("bandwidth", "400Gbit/s", 50e9),
        ("bandwidth", "3.35TB/s", 3.35e12),
        ("bandwidth", "1GiB/s", 1024.0**3),
        ("bandwidth", "100Mb/s", 12.5e6),
        ("bandwidth", "100MB/s", 100e6),
        ("flop_rate", "989TFLOP/s", 989e12),
        ("flop_rate", "989 TFLOPS", 989e12),
        ("flop_rate", "989TFLOPs", 989e12),
        ("flop_rate", "1.979PFLOP/s", 1.979e15),
        ("flop_rate", "500GFLOP/s", 500e9),
        ("count", "8", 8.0),
        ("count", " 1024 ", 1024.0),
        ("ratio", "0.72", 0.72),
        ("ratio", "72%", 0.72),
        ("ratio", "72 %", 0.72),
        ("ratio", "1.3", 1.3),
        ("money", "$3", 3.0),
        ("money", "$ 3", 3.0),
        ("money", "1200$", 1200.0),
        ("money", "$1.2k", 1200.0),
        ("money", "1.2k$", 1200.0),
        ("money", "$2.5M", 2.5e6),
        ("money", "$0", 0.0),
    ],
)
def test_a_quantity_is_read_to_the_nearest_float(dimension: str, text: str, value: float) -> None:
    assert units.parse(text, dimension) == value


def test_zero_has_no_sign() -> None:
    assert math.copysign(1.0, units.parse("-0us", "time")) == 1.0


def test_the_article_crosses_at_2_mb_to_the_last_rounding() -> None:
    crossing = units.parse("5us", "time") * units.parse("400GB/s", "bandwidth")
    assert crossing == pytest.approx(2e6, rel=2**-52)
    assert units.format_size(crossing) == "2 MB"


@pytest.mark.parametrize(
    ("dimension", "text", "what"),
    [
        ("time", "5", "'5' has no unit"),
        ("time", "5 kelvin", "'5 kelvin' has an unknown unit"),
        ("time", "5K", "'5K' has an unknown unit"),
        ("time", "5h", "'5h' has an unknown unit"),
        ("time", "5 GB", "'5 GB' is a size, not a time"),
        ("time", "us", "'us' does not start with a number"),
        ("time", "five us", "'five us' does not start with a number"),
        ("time", "\uff15us", "'\uff15us' does not start with a number"),
        ("time", "", "a time is missing: the text is empty"),
        ("time", " \n", "a time is missing: the text is empty"),
        ("time", "-1us", "'-1us' is negative"),
        ("time", "1e400s", "'1e400s' is too large"),
        ("time", "1e999999999min", "'1e999999999min' is too large"),
        ("time", "nan", "'nan' is not a finite number"),
        ("time", "-nan s", "'-nan s' is not a finite number"),
        ("time", "inf", "'inf' is not a finite number"),
        ("time", "+Infinity", "'+Infinity' is not a finite number"),
        ("time", "\u221e s", "'\u221e s' is not a finite number"),
        ("size", "16384", "'16384' has no unit"),
        ("size", "400GB/s", "'400GB/s' is a rate, not a size"),
        ("size", "5us", "'5us' is a time, not a size"),
        ("size", "-1B", "'-1B' is negative"),
        ("size", "1e308EB", "'1e308EB' is too large"),
        ("size", "1e308EiB", "'1e308EiB' is too large"),
        ("bandwidth", "400", "'400' has no unit"),
        ("bandwidth", "400GB", "'400GB' is a size, not a rate"),
        ("bandwidth", "400Gb", "'400Gb' is a size, not a rate"),
        ("bandwidth", "0GB/s", "'0GB/s' is zero"),
        ("bandwidth", "-0GB/s", "'-0GB/s' is zero"),
        ("bandwidth", "-400GB/s", "'-400GB/s' is negative"),
        ("bandwidth", "inf GB/s", "'inf GB/s' is not a finite number"),
        ("bandwidth", "989TFLOP/s", "'989TFLOP/s' is a FLOP rate, not a rate"),
        ("flop_rate", "989", "'989' has no unit"),
        ("flop_rate", "989TB/s", "'989TB/s' is a rate, not a FLOP rate"),
        ("flop_rate", "0FLOP/s", "'0FLOP/s' is zero"),
        ("ratio", "5us", "'5us' is a time, not a plain number"),
        ("ratio", "-0.1", "'-0.1' is negative"),
        ("ratio", "nan%", "'nan%' is not a finite number"),
        ("money", "3", "'3' has no unit"),
        ("money", "$", "'$' does not start with a number"),
        ("money", "\u20ac3", "'\u20ac3' does not start with a number"),
        ("money", "$3/h", "'$3/h' has an unknown unit"),
        ("money", "$3$", "'$3$' has an unknown unit"),
        ("money", "-$3", "'-$3' is negative"),
        ("money", "$-3", "'$-3' is negative"),
        ("money", "$inf", "'$inf' is not a finite number"),
        ("money", "$1,200", "'$1,200' has a comma, which is a decimal point to some and a thousands mark to others"),
        ("size", "1,5GB", "'1,5GB' has a comma, which is a decimal point to some and a thousands mark to others"),
    ],
)
def test_a_bad_quantity_is_refused_with_what_is_accepted(dimension: str, text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse(text, dimension, where="--flag")
    assert caught.value.what == what
    assert caught.value.where == "--flag"
    assert caught.value.allowed == DIMENSIONS[dimension].allowed


@pytest.mark.parametrize(
    ("dimension", "text", "readings", "do"),
    [
        ("bandwidth", "400G", "400 Gb/s = 50 GB/s, or as 400 GB/s", "write 400Gb/s or 400GB/s"),
        ("bandwidth", "400g", "400 Gb/s = 50 GB/s, or as 400 GB/s", "write 400Gb/s or 400GB/s"),
        ("bandwidth", "400G/s", "400 Gb/s = 50 GB/s, or as 400 GB/s", "write 400Gb/s or 400GB/s"),
        ("bandwidth", "400gb/s", "400 Gb/s = 50 GB/s, or as 400 GB/s", "write 400Gb/s or 400GB/s"),
        ("bandwidth", "400gb", "400 Gb/s = 50 GB/s, or as 400 GB/s", "write 400Gb/s or 400GB/s"),
        ("bandwidth", "8mb/s", "8 Mb/s = 1 MB/s, or as 8 MB/s", "write 8Mb/s or 8MB/s"),
        ("bandwidth", "400gbps", "400 Gbps = 50 GB/s, or as 400 GBps = 400 GB/s", "write 400Gbps or 400GBps"),
        ("size", "128M", "128 MB, or as 128 MiB", "write 128MB or 128MiB"),
        ("size", "16k", "16 kB, or as 16 KiB", "write 16kB or 16KiB"),
        ("size", "80gb", "80 Gb = 10 GB, or as 80 GB", "write 80Gb or 80GB"),
        ("time", "5m", "5 ms, or as 5 min = 300 s", "write 5ms or 5min"),
        ("bandwidth", "1e3G", "1e3 Gb/s = 125 GB/s, or as 1e3 GB/s = 1 TB/s", "write 1e3Gb/s or 1e3GB/s"),
    ],
)
def test_a_text_with_two_readings_is_refused_with_both(dimension: str, text: str, readings: str, do: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse(text, dimension)
    assert caught.value.what == f"{text!r} can be read as {readings}"
    assert caught.value.do == do


@pytest.mark.parametrize(
    ("dimension", "text", "meant"),
    [
        ("time", "5Ms", "5ms"),
        ("time", "5US", "5us"),
        ("time", "5u", "5us"),
        ("size", "16kib", "16KiB"),
        ("size", "16Ki", "16KiB"),
        ("size", "70b", "70B"),
        ("bandwidth", "400gbit/s", "400Gbit/s"),
        ("flop_rate", "989tflops", "989TFLOPS"),
        ("flop_rate", "989T", "989TFLOP/s"),
        ("flop_rate", "989TFLOP", "989TFLOP/s"),
        ("money", "1.2k", "1.2k$"),
    ],
)
def test_a_near_unit_is_suggested_and_the_suggestion_works(dimension: str, text: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse(text, dimension)
    assert caught.value.do == f"Did you mean '{meant}'?"
    assert units.parse(meant, dimension) > 0.0


@pytest.mark.parametrize(
    ("dimension", "text", "do"),
    [
        ("time", "5", "write 5us, if that is what is meant"),
        ("size", "16384", "write 16384B, if that is what is meant"),
        ("bandwidth", "400", "write 400GB/s or 400Gb/s, if that is what is meant"),
        ("bandwidth", "400GB", "write 400GB/s"),
        ("bandwidth", "400Gb", "write 400Gb/s"),
        ("money", "3", "write $3, if that is what is meant"),
        ("size", "1,024B", "write a point, or no mark"),
    ],
)
def test_a_refusal_says_what_to_write(dimension: str, text: str, do: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse(text, dimension)
    assert caught.value.do == do


def test_a_long_text_is_shortened_in_the_message() -> None:
    with pytest.raises(InputError) as caught:
        units.parse("x" * 10_000, "time")
    assert len(str(caught.value)) < 300


def test_an_unknown_dimension_or_unit_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"dimension 'speed' is unknown.*bandwidth"):
        units.parse("5us", "speed")
    with pytest.raises(InputError, match=r"unit 'm/s' is unknown.*FLOP/s"):
        units.parse_for_unit("5us", "m/s")


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("1us", "s", 1e-6),
        ("16KiB", "bytes", 16_384.0),
        ("400Gb/s", "bytes/s", 50e9),
        ("989TFLOP/s", "FLOP/s", 989e12),
        ("8", "1", 8.0),
        ("72%", "1", 0.72),
        ("$3", "$", 3.0),
    ],
)
def test_a_set_value_is_read_in_the_unit_of_its_path(text: str, unit: str, value: float) -> None:
    assert units.parse_for_unit(text, unit, where="--set") == value


@pytest.mark.parametrize("unit", ["s", "bytes", "bytes/s", "FLOP/s", "$"])
def test_a_set_value_without_a_unit_is_refused(unit: str) -> None:
    with pytest.raises(InputError, match="--set: '5' has no unit"):
        units.parse_for_unit("5", unit, where="--set")


@pytest.mark.parametrize(
    ("text", "do"),
    [
        ("0", ""),
        ("-1", ""),
        ("2.5", ""),
        ("1e3", ""),
        ("eight", ""),
        ("", ""),
        ("\u0664", ""),
        ("9" * 5000, ""),
        ("1,024", "write 1024 for one number"),
        ("1_024", "write 1024 for one number"),
        ("8k", "write 8000 or 8192: 8k is read both ways"),
    ],
)
def test_what_is_not_a_count_is_refused(text: str, do: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_count(text, where="--batch")
    assert caught.value.where == "--batch"
    assert caught.value.do == do
    with pytest.raises(InputError):
        units.parse(text, "count")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("8", (8,)),
        ("1,2,4,8", (1, 2, 4, 8)),
        (" 8 , 1 ", (8, 1)),
        ("1:8", (1, 2, 3, 4, 5, 6, 7, 8)),
        ("2:9:3", (2, 5, 8)),
        ("1:512:x2", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
        ("1:500:x4", (1, 4, 16, 64, 256)),
        ("3:3", (3,)),
        ("1,2,4:8:x2,16", (1, 2, 4, 8, 16)),
    ],
)
def test_a_list_of_whole_numbers_is_read_in_its_order(text: str, values: tuple[int, ...]) -> None:
    assert units.parse_int_list(text) == values


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the list is empty"),
        ("  ", "the list is empty"),
        ("1,2,,4", "the list '1,2,,4' has an empty item"),
        ("1,2,", "the list '1,2,' has an empty item"),
        ("1,0", "'0' is not a whole number of 1 or more"),
        ("-1", "'-1' is not a whole number of 1 or more"),
        ("2.5", "'2.5' is not a whole number of 1 or more"),
        ("1 2", "'1 2' is not a whole number of 1 or more"),
        ("1,2,1", "the list '1,2,1' has 1 twice"),
        ("1:4,3", "the list '1:4,3' has 3 twice"),
        ("8:1", "the range 8:1 runs backwards"),
        ("8\n: 1", "the range 8:1 runs backwards"),
        ("0:8", "'0' is not a whole number of 1 or more"),
        ("1:8:0", "'0' is not a whole number of 1 or more"),
        ("1:8:x1", "the range 1:8:x1 never grows"),
        ("1:8:x", "'x' is not a whole number of 1 or more"),
        ("1:", "'1:' is not a range"),
        ("1:2:3:4", "'1:2:3:4' is not a range"),
        ("1:999999999999", "the range 1:999999999999 has over 100000 values"),
    ],
)
def test_a_bad_list_is_refused(text: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        units.parse_int_list(text, where="--tp")
    assert caught.value.what == what
    assert caught.value.where == "--tp"


@pytest.mark.parametrize(
    ("printer", "value", "text"),
    [
        (units.format_time, 7.26e-3, "7.26 ms"),
        (units.format_time, 5e-6, "5 us"),
        (units.format_time, 25.2e-6, "25.2 us"),
        (units.format_time, 0.8e-3, "800 us"),
        (units.format_time, 0.0, "0 s"),
        (units.format_time, -0.0, "0 s"),
        (units.format_time, 999.4e-6, "999 us"),
        (units.format_time, 999.6e-6, "1 ms"),
        (units.format_time, 90.0, "90 s"),
        (units.format_time, 12_345.0, "12300 s"),
        (units.format_time, 1e-10, "0.1 ns"),
        (units.format_time, 1e-30, "1e-21 ns"),
        (units.format_time, -3e-3, "-3 ms"),
        (units.format_time, math.nan, "nan s"),
        (units.format_time, math.inf, "inf s"),
        (units.format_size, 16_384, "16 KiB"),
        (units.format_size, 2_097_152, "2 MiB"),
        (units.format_size, 49_152, "48 KiB"),
        (units.format_size, 2e6, "2 MB"),
        (units.format_size, 80e9, "80 GB"),
        (units.format_size, 128_000, "128 kB"),  # also 125 KiB: SI when both are exact
        (units.format_size, 16_383.999999999998, "16 KiB"),
        (units.format_size, 123_456, "121 KiB"),  # binary when neither is
        (units.format_size, 512, "512 B"),
        (units.format_size, 0, "0 B"),
        (units.format_size, 0.5, "0.5 B"),
        (units.format_bandwidth, 400e9, "400 GB/s"),
        (units.format_bandwidth, 3.35e12, "3.35 TB/s"),
        (units.format_flop_rate, 989e12, "989 TFLOP/s"),
        (units.format_number, 0.72, "0.72"),
        (units.format_number, 122.0703125, "122"),
        (units.format_number, 1024, "1024"),
        (units.format_number, 1023.9999999999999, "1024"),
        (units.format_number, 1023.9, "1020"),
        (units.format_number, 0, "0"),
        (units.format_number, -8, "-8"),
        (units.format_number, 1e-9, "1e-09"),
        (units.format_number, 1e20, "1e+20"),
        (units.format_number, math.inf, "inf"),
        (units.format_money, 3.0, "$3"),
        (units.format_money, 0.4312, "$0.431"),
        (units.format_money, 1200.0, "$1.2k"),
        (units.format_money, -2.5e6, "-$2.5M"),
        (units.format_money, 0.0, "$0"),
    ],
)
def test_a_value_is_printed_with_three_digits(printer: Callable[[float], str], value: float, text: str) -> None:
    assert printer(value) == text


def test_the_kind_of_prefix_of_a_size_can_be_chosen() -> None:
    assert units.format_size(16_384, binary=False) == "16.4 kB"
    assert units.format_size(2e6, binary=True) == "1.91 MiB"


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("s", "16000 s"),
        ("bytes", "16 kB"),
        ("bytes/s", "16 kB/s"),
        ("FLOP/s", "16 kFLOP/s"),
        ("1", "16000"),
        ("$", "$16k"),
        ("W", "16000 W"),
    ],
)
def test_a_value_is_printed_as_its_unit_is(unit: str, text: str) -> None:
    assert units.format_value(16e3, unit) == text


@pytest.mark.parametrize(("dimension", "unit"), EVERY_UNIT)
def test_every_accepted_unit_survives_printing(dimension: str, unit: str) -> None:
    value = units.parse(f"3.5{unit}", dimension)
    assert units.parse(units.format_value(value, DIMENSIONS[dimension].unit), dimension) == pytest.approx(
        value, rel=5e-3
    )


@pytest.mark.parametrize("unit", ["s", "bytes", "bytes/s", "FLOP/s", "1", "$"])
@given(value=st.floats(1e-9, 1e18))
def test_what_is_printed_can_be_read_again(unit: str, value: float) -> None:
    assert units.parse_for_unit(units.format_value(value, unit), unit) == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize("dimension", [*DIMENSIONS, "count"])
@given(
    text=st.one_of(
        st.text(max_size=20),
        st.from_regex(r"[-+$]?[0-9.,e]{1,6} ?[a-zA-Z%$/\u00b5]{0,6}", fullmatch=True),
    )
)
def test_any_text_is_a_usable_number_or_one_clear_error(dimension: str, text: str) -> None:
    value, message = attempt(lambda: units.parse(text, dimension, where="--flag"))
    if value is None:
        assert message.startswith("--flag: ")
        assert "Allowed: " in message
        assert len(message.splitlines()) == 1
    else:
        assert math.isfinite(value)
        assert value >= 0.0


@given(text=st.text(alphabet="0123456789,:x -", max_size=12))
def test_any_list_is_positive_and_distinct_or_one_clear_error(text: str) -> None:
    values, message = attempt(lambda: units.parse_int_list(text, where="--tp"))
    if values is None:
        assert message.startswith("--tp: ")
    else:
        assert min(values) >= 1
        assert len(set(values)) == len(values)


def test_reading_units_loads_nothing_heavy() -> None:
    code = "import sys, nhalf.units, nhalf.citation; sys.exit(bool({'numpy', 'scipy', 'difflib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

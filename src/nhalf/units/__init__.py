"""Read and print quantities: the only room that knows a prefix, 1024, or a factor of eight.

Inside nhalf every number is an SI float: seconds, bytes, bytes per second, FLOP per second. Text becomes such a float
in `parse` and goes back to text in `format_value`. Case decides: `b` is a bit and `B` is a byte, `M` is always mega.
A text that can be read in two ways (`400G`, or `400gb/s`, which did not mind case) is refused with both readings.
"""

from __future__ import annotations

from nhalf.units.limits import Limit, parse_limit
from nhalf.units.printing import (
    format_bandwidth,
    format_flop_rate,
    format_money,
    format_number,
    format_size,
    format_time,
    format_value,
)
from nhalf.units.reading import parse, parse_for_unit
from nhalf.units.whole import parse_count, parse_int_list

__all__ = [
    "Limit",
    "format_bandwidth",
    "format_flop_rate",
    "format_money",
    "format_number",
    "format_size",
    "format_time",
    "format_value",
    "parse",
    "parse_count",
    "parse_for_unit",
    "parse_int_list",
    "parse_limit",
]

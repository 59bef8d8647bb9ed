"""Limits: `latency>=1ms` or `p90>40%`, the one grammar of `--fail-if` in every command."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError, did_you_mean
from nhalf.units.reading import parse, parse_for_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WHERE: Final = "--fail-if"
_PATTERN: Final = re.compile(r"\s*([A-Za-z][\w /-]*?)\s*(?:\(([^)]*)\))?\s*(>=|<=|>|<)\s*([^<>=\s][^<>=]*?)\s*")
_TESTS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A limit on what `key` names (of a message of `size_bytes` [bytes], for a time): it holds beyond `value`."""

    text: str
    key: str
    test: str
    value: float
    size_bytes: float | None = None

    def holds(self, value: float) -> bool:
        """Tell whether a value is where the limit says."""
        return _TESTS[self.test](value, self.value)


def parse_limit(text: str, keys: Mapping[str, str], *, sized: tuple[str, ...] = (), examples: str) -> Limit:
    """Return the limit that a text means: KEY, or KEY(SIZE) for those that are `sized`, then >, >=, < or <=, and VALUE.

    `keys` are the units of what may be limited, `examples` what a refusal shows. A share is written with its per cent
    sign, or is at most 1.

    Raises
    ------
    InputError
        It is no limit, its key is unknown, or its value has another unit or two readings.
    """
    listed = ", ".join(f"{key}(SIZE)" if key in sized else key for key in keys)
    allowed = f"{listed}, then >, >=, < or <=, then a value with its unit, such as {examples}"
    found = _PATTERN.fullmatch(text)
    if found is None:
        name = re.split("[<>=]", text, maxsplit=1)[0].strip()
        do = "" if name in keys else did_you_mean(name, keys)
        raise InputError(f"{text!r} is no limit", where=WHERE, allowed=allowed, do=do)
    name, size, test, value = found.groups()
    key = re.sub(r"[ _]+", "-", name.strip().casefold())
    if key not in keys:
        raise InputError(f"{name!r} is no value here", where=WHERE, allowed=allowed, do=did_you_mean(name, keys))
    if (size is not None) != (key in sized):
        what = f"{text!r}: {', '.join(sized) or 'nothing'} alone has a size, and needs one"
        raise InputError(what, where=WHERE, allowed=allowed)
    number = parse_for_unit(value, keys[key], where=WHERE)
    if keys[key] == "1" and number > 1 and "%" not in value:
        begin = text[: text.rindex(value)].strip()
        raise InputError(
            f"{text!r} can be read as {number:g} % or as {100 * number:g} %", where=WHERE,
            allowed="per cent with its sign, or a share up to 1",
            do=f"write '{begin}{number:g}%' (or '{begin}{number / 100:g}'), or '{begin}{100 * number:g}%'",
        )  # fmt: skip
    return Limit(
        text=text,
        key=key,
        test=test,
        value=number,
        size_bytes=parse(size, "size", where=WHERE) if size is not None else None,
    )

"""A step known by three numbers alone: how long it takes, how many calls wait in it, and how long each takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.errors import InputError
from nhalf.loading.links import link_of
from nhalf.loading.purchase_options import factor_of, parse
from nhalf.loading.readers import not_empty

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.loading.purchase_options import Offer

_EXAMPLE: Final = "each=23us, each=x0.5, each=-44us, calls=50"
_MOST: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What one option saves: the time of its calls [s], and the step that is left [s]."""

    name: str
    calls: float
    each_s: float
    saved_s: float
    step_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """A step of `step_s` [s] in which `calls` calls of `each_s` [s] wait, and what options save.

    `link_s` [s] is what one message on a link takes of a call, None where no link is given; the rest is software.
    """

    step_s: float
    calls: int
    each_s: float
    options: tuple[Saved, ...]
    link_s: float | None = None
    link: str = ""

    @property
    def waiting_s(self) -> float:
        """Return what all calls take of a step [s]."""
        return self.calls * self.each_s


def calls(given: Mapping[str, str | None], texts: Sequence[str]) -> Calls:
    """Return a step by its numbers, and what the options of texts save.

    Raises
    ------
    InputError
        A number is missing or impossible, the calls take longer than the step, or an option is about something else.
    """
    not_empty({f"--{name}": value for name, value in given.items()})
    for name in ("step", "calls", "each"):
        if given.get(name) is None:
            allowed, do = "MODEL, or --step, --calls and --each", "add --step 52ms --calls 100 --each 59us"
            raise InputError(f"--{name} is missing", where="nhalf whatif", allowed=allowed, do=do)
    step_s = units.parse(given["step"] or "", "time", where="--step")
    each_s = units.parse(given["each"] or "", "time", where="--each")
    count = units.parse_count(given["calls"] or "", where="--calls")
    if step_s <= 0 or each_s <= 0 or count > _MOST:
        raise InputError("that is no step", where="--step, --calls, --each", allowed="times and a count above 0")
    if count * each_s > step_s:
        whole = f"{count} calls of {units.format_time(each_s)} take {units.format_time(count * each_s)}"
        raise InputError(
            f"{whole}, and the step {units.format_time(step_s)}", where="--calls", allowed="no more than it"
        )
    if not texts:
        raise InputError("nothing is asked", where="--option", allowed=_EXAMPLE, do="add --option each=23us")
    link_s, name = _link(given)
    options = tuple(_saved(parse(text), step_s, count, each_s) for text in texts)
    return Calls(step_s=step_s, calls=count, each_s=each_s, options=options, link_s=link_s, link=name)


def _link(given: Mapping[str, str | None]) -> tuple[float | None, str]:
    """Return what a message takes on the link that is given [s], and its name."""
    text, size = given.get("link"), given.get("size")
    if text is None:
        if size is not None:
            raise InputError("a size is of use with a link", where="--size", do="add --link 5us,400GB/s")
        return None, ""
    link = link_of(text, where="--link")
    size_bytes = units.parse(size, "size", where="--size") if size else 0.0
    return float(link.latency_s) + size_bytes / float(link.bandwidth_bytes_per_s), text


def _saved(offer: Offer, step_s: float, count: int, each_s: float) -> Saved:
    """Return what one option saves."""
    now = {"each": each_s, "calls": float(count)}
    after = dict(now)
    for key, value in offer.settings:
        if key not in now or offer.price is not None:
            raise InputError(f"{key!r} is not known of a step by its numbers", where=offer.where, allowed=_EXAMPLE,
                             do="name MODEL and --on SYSTEM")  # fmt: skip
        factor = factor_of(value)
        if factor is not None:
            after[key] = now[key] * factor
        elif key == "calls":
            after[key] = float(units.parse_count(value, where=offer.where))
        else:
            amount = units.parse(value.lstrip("+-").strip(), "time", where=offer.where)
            after[key] = amount if value[0] not in "+-" else now[key] + (amount if value[0] == "+" else -amount)
        if after[key] < 0:
            raise InputError(f"{value!r} leaves less than nothing", where=offer.where, allowed="0 or more in the end")
    saved_s = count * each_s - after["calls"] * after["each"]
    return Saved(
        name=offer.name, calls=after["calls"], each_s=after["each"], saved_s=saved_s, step_after_s=step_s - saved_s
    )

"""The first screen of `nhalf collective`: what one message costs, how much of it is latency, what runs at each size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.collective import Op
from nhalf.laws.collective.bandwidth import busbw
from nhalf.report import planned
from nhalf.report.collective import focus, spread, verdict
from nhalf.report.view import Bars, Brief, percent
from nhalf.report.words import PARTS

if TYPE_CHECKING:
    from nhalf.decide.choice import Choice
    from nhalf.report.collective_answer import Answer

_SIZES: Final = 9
_BUSBW_BYTES: Final = float(4 << 20)
"""Bus bandwidths are shown from this size on [bytes]: below it they say how large the latency is."""
_DOUBLE: Final = 2.0


def brief(found: Answer, *, next_command: str) -> Brief:
    """Return the first screen of an answer."""
    question = found.question
    notes = [_sentence(note) for note in planned.notes(question, found.known)[:2]]
    if question.op == Op.BARRIER:
        at = found.choices[0]
        takes = f"It takes {units.format_time(_time_s(at))}. {_trust(found, at.size_bytes)}"
        more = f"{takes} {_rest(verdict(found))}".strip()
        return Brief(verdict=[_sentence(verdict(found))], number=more, next_command=next_command)
    times = {each.size_bytes: _time_s(each) for each in found.choices}
    size = focus(found.loaded.sizes_bytes)
    floor_s = found.fixed.total_s if found.fixed is not None else min(times.values())
    share = min(1.0, floor_s / times[size])
    return Brief(
        verdict=[" ".join([*_first(size, times[size], share), *_turn(times, floor_s)])],
        number=_trust(found, size),
        title=f"{question.op} on {found.loaded.subject}",
        bars=_bars(found, times, floor_s),
        notes=notes,
        closing=_parts(found),
        assumed=", ".join(_assumed(found)),
        next_command=next_command,
        next_why="from which batch it matters",
    )


def _time_s(each: Choice) -> float:
    """Return the time of a size [s] as it is best known: measured, planned, by the law of what runs, or the fastest."""
    known = [each.measured_s, each.plan.time_s if each.plan is not None else None, each.time_s, each.fastest_s]
    return next(time for time in known if time is not None)


def _trust(found: Answer, size: float) -> str:
    """Return how the times are known."""
    question = found.question
    at = next(each for each in found.choices if each.size_bytes == size)
    if question.curve is not None:
        key, row = (
            question.curve.key,
            next(each for each in found.rows if each.kind != "law" and each.size_bytes == size),
        )
        band = ""
        if row.low_s is not None and row.high_s is not None:
            band = f"80 % range {units.format_time(row.low_s)} to {units.format_time(row.high_s)}, "
        where = f" on {key.system}, a sibling" if question.curve.lent_to else ""
        how = "moved from what was measured" if question.curve.is_moved(question.ranks) else f"measured{where}"
        return f"{band}{how} ({key.whose}, {key.mode} mode)."
    if at.plan is not None and question.library is not None:
        low, high = units.format_time(at.plan.low_s), units.format_time(at.plan.high_s)
        return f"Modelled, not measured: {low} to {high}."
    return f"By the law of {at.algorithm or at.fastest} on the link alone, not measured."


def _first(size: float, time_s: float, share: float) -> list[str]:
    return [f"{_size(size)} takes {units.format_time(time_s)}: {percent(share)} of it is latency."]


def _turn(times: dict[float, float], floor_s: float) -> list[str]:
    """Return from which of the sizes on bytes take more than latency."""
    beyond = [size for size, time in sorted(times.items()) if time > _DOUBLE * floor_s]
    return [f"Bytes lead from {_size(beyond[0])} on."] if beyond and len(beyond) < len(times) else []


def _bars(found: Answer, times: dict[float, float], floor_s: float) -> Bars:
    """Return what part of each size's time is latency."""
    at = {each.size_bytes: each for each in found.choices}
    sizes = spread(found.loaded.sizes_bytes, _SIZES)
    shares = [min(1.0, floor_s / times[size]) for size in sizes]
    return Bars(
        heads=["size", "time", "latency"],
        rows=[
            [_size(size), units.format_time(times[size]), percent(share)]
            for size, share in zip(sizes, shares, strict=True)
        ],
        names=["latency"],
        parts=[[share] for share in shares],
        remarks=[_remark(found, at[size], times[size]) for size in sizes],
    )


def _remark(found: Answer, each: Choice, time_s: float) -> str:
    """Return what runs, with the bus bandwidth of a large message."""
    name = each.algorithm if each.algorithm is not None and each.beaten is None else f"{each.algorithm}?"
    runs = name if found.question.library is not None and each.algorithm is not None else each.fastest
    if each.size_bytes < _BUSBW_BYTES:
        return runs
    rate = busbw(found.question.op, each.size_bytes, time_s, found.question.ranks)
    return f"{runs}, {units.format_bandwidth(float(rate))} busbw"


def _parts(found: Answer) -> list[str]:
    """Return what the latency is made of, and what a token pays for it."""
    fixed = found.fixed
    if fixed is None or not fixed.total_s:
        return []
    shown = sorted(fixed.parts, key=lambda part: -part.time_s)
    told = [
        f"{PARTS.get(part.name, part.name)} {percent(part.time_s / fixed.total_s)}" for part in shown if part.time_s > 0
    ]
    token = units.format_time(found.per_token * fixed.total_s)
    return [
        f"Of the {units.format_time(fixed.total_s)} latency: {', '.join(told)}.",
        f"{found.per_token} of them in a token cost {token} of latency.",
    ]


def _assumed(found: Answer) -> list[str]:
    """Return what nobody stated, in short."""
    stated = {flag: text.partition(": ")[0] for flag, text in found.loaded.defaults}
    told = [_ASSUMED[flag].format(value) for flag, value in stated.items() if flag in _ASSUMED]
    brought = [(flag, value) for flag, value in stated.items() if flag.startswith("--on ")]
    return [*told, *(f"{value} from {flag.removeprefix('--on ')}" for flag, value in brought)]


_ASSUMED: Final = {"--library": "{}", "--mode": "{} mode"}


def _size(size_bytes: float) -> str:
    return units.format_size(size_bytes, binary=True)


def _sentence(text: str) -> str:
    first, mark, _ = text.partition(". ")
    return first + "." if mark else text


def _rest(text: str) -> str:
    """Return what follows the first sentence of a text."""
    return text.partition(". ")[2]

"""The answer of `nhalf doctor`: the verdict, its two numbers, the causes with what speaks for them, and what to try."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.doctor.advice import ADVICE
from nhalf.doctor.verdict import LIKELY, headline, numbers, rate
from nhalf.report.document import envelope
from nhalf.report.view import Brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.doctor.diagnosis import Cause
    from nhalf.doctor.examination import Examination, Reading
    from nhalf.doctor.history import Change
    from nhalf.doctor.pairs import Pair
    from nhalf.report.canvas import Canvas

_ELSEWHERE: Final = ("slow-pair", "slow-rank", "waiting", "host-timed")
"""Causes after whose remedy another number than the bus bandwidth changes."""
_CAUSES, _PAIRS, _CHANGES, _TRIES = 4, 4, 3, 3
_VERDICTS: Final = {True: "yes", False: "no", None: "measure again"}


def document(found: Examination, tripped: Sequence[str] = ()) -> dict[str, Any]:
    """Return the document of `nhalf doctor`."""
    worst = found.worst
    body = {
        "verdict": headline(found),
        "normal": found.normal,
        "normal_odds": found.normal_odds,
        "share_of_ceiling": worst.share_of_ceiling if worst else None,
        "share_of_measured": worst.share_of_measured if worst else None,
        "system": found.system or None,
        "assumed": found.assumed or None,
        "causes": [_cause(cause, found) for cause in found.named],
        "readings": [_reading(reading) for reading in found.readings],
        "pairs": [_pair(pair) for each in found.matrices for pair in each.pairs],
        "slow": [_pair(pair) for each in found.matrices for pair in each.slow],
        "slow_ends": [{"end": end, "ratio": ratio} for each in found.matrices for end, ratio in each.slow_ends],
        "common": next((each.common for each in found.matrices if each.common), None),
        "changes": [asdict(change) for change in found.changes],
        "tripped": list(tripped),
        "notes": list(found.notes),
    }
    return envelope("doctor", body)


def _cause(cause: Cause, found: Examination) -> dict[str, Any]:
    """Return a cause, with what to expect after its remedy."""
    says, remedy = ADVICE[cause.code]
    return {
        "code": cause.code, "probability": cause.probability, "says": says, "for": list(cause.for_),
        "against": list(cause.against), "try": [remedy] if remedy else [],
        "expected": _expected(cause, found) if remedy else None,
    }  # fmt: skip


def _expected(cause: Cause, found: Examination) -> dict[str, float | None] | None:
    """Return what is reached once a cause is gone: what like systems do, less what another cause beside it costs."""
    reading = next((each for each in found.readings if each.curve == cause.curve), found.worst)
    if reading is None:
        return None
    (small, large), floor = cause.left, reading.expected_floor_s
    keys = ("expected_bytes_per_s", "expected_low_bytes_per_s", "expected_high_bytes_per_s")
    rates = {key.removeprefix("expected_"): getattr(reading, key) for key in keys}
    return {**{key: None if value is None else value / large for key, value in rates.items()},
            "floor_s": None if floor is None else floor * small}  # fmt: skip


def _reading(reading: Reading) -> dict[str, Any]:
    shares = {"share_of_ceiling": reading.share_of_ceiling, "share_of_measured": reading.share_of_measured}
    ranges = [{"sizes": name, "ratio": ratio} for name, ratio in reading.ranges]
    return {**asdict(reading), "like": reading.like or None, "kind": reading.kind or None, **shares, "ranges": ranges}


def _pair(pair: Pair) -> dict[str, Any]:
    one, other = pair.ends
    return {
        "a": one, "b": other, "ratio": pair.ratio, "own_ratio": pair.own_ratio, "repeats": pair.repeats,
        "slow": pair.slow, "extra_s_per_token": pair.extra_s,
    }  # fmt: skip


def brief(found: Examination, tripped: Sequence[str], *, next_command: str) -> Brief:
    """Return the first screen."""
    worst = found.worst
    causes = () if found.normal is True else found.named[: _CAUSES // (1 + bool(found.matrices))]
    rows = [
        [
            cause.code,
            f"{100 * cause.probability:.0f} %",
            *((texts or ("-",))[0] for texts in (cause.for_, cause.against)),
        ]
        for cause in causes
    ]
    return Brief(
        verdict=[headline(found), *(f"Tripped: {text}" for text in tripped)],
        number=_sentence(numbers(worst)) if worst else "",
        title=f"{worst.curve}, against {worst.like}".removesuffix(", against ") if worst else "",
        table=(["<cause", "odds", "<for", "<against"], rows) if rows else None,
        marked=[0],
        notes=[*_pairs(found), *map(_moved, found.changes[:_CHANGES]), *found.notes],
        closing=_tries(causes, found),
        assumed=found.assumed,
        next_command=next_command,
        next_why="alpha, beta and n_1/2" if found.normal is True else "all that speaks for and against",
        warn=found.normal is False,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _pairs(found: Examination) -> list[str]:
    """Return the slow pairs, what they have in common, and what they cost."""
    lines = []
    for each in found.matrices:
        most = max(_PAIRS // len(found.matrices), 1)
        slow, unsure = each.slow, sum(pair.slow is None for pair in each.pairs)
        shown = ", ".join(f"{' to '.join(pair.ends)} {pair.ratio:.2f} times{_cost(pair)}" for pair in slow[:most])
        more = f" and {len(slow) - most} more" if len(slow) > most else ""
        told = f": {shown}{more}" if slow else ""
        lines.append(f"{each.ranks} ranks, {len(each.pairs)} pairs, {len(slow)} slow{told}.")
        ends = "; ".join(f"{name} {ratio:.2f} times with everybody" for name, ratio in each.slow_ends[:2])
        lines += [f"Slow ends: {ends}."] if ends else []
        lines += [f"The slow pairs have {each.common} in common."] if each.common and not ends else []
        lines += [f"{unsure} more look slow and were measured once: measure them again."] if unsure else []
    return lines


def _cost(pair: Pair) -> str:
    return f" (+{1e3 * pair.extra_s:.2f} ms a token)" if pair.extra_s is not None else ""


def _moved(change: Change) -> str:
    """Return a change of level in words."""
    moved = f"{'up' if change.ratio > 1 else 'down'} to {change.ratio:.2f} times"
    version = f", with {change.version_after} in place of {change.version_before}" if change.version_after else ""
    when = f"from {change.day} on" if change.runs_after > 1 else f"in the one run of {change.day}: measure it again"
    return f"{change.curve}: {change.value} {moved} {when}{version} ({change.runs_before} runs before)."


def _tries(causes: Sequence[Cause], found: Examination) -> list[str]:
    """Return what to try, in order, and what to expect after it."""
    lines = [f"Try {place}: {ADVICE[cause.code].try_}." for place, cause in enumerate(causes[:_TRIES], start=1)]
    if causes and causes[0].probability >= LIKELY and (told := _told(causes[0], found)):
        lines.append(f"Expect {told} after it.")
    return lines


def _told(cause: Cause, found: Examination) -> str:
    """Return in words what to expect after a remedy, nothing where it changes another number."""
    expected = None if cause.code in _ELSEWHERE else _expected(cause, found)
    if expected is None or expected["bytes_per_s"] is None:
        return ""
    value, low, high = (rate(each or expected["bytes_per_s"]) for each in list(expected.values())[:3])
    return f"{value} of bus bandwidth (80 %: {low} to {high})"


def write(found: Examination, canvas: Canvas, tripped: Sequence[str] = ()) -> None:
    """Write everything: curves by ranges of size, causes with all that speaks for and against them, all pairs."""
    canvas.paragraph("\n".join([headline(found), *(f"Tripped: {text}" for text in tripped)]), bold=True)
    for reading in found.readings:
        canvas.heading(f"{reading.curve}, against {reading.like}".removesuffix(", against "))
        canvas.paragraph(_sentence(numbers(reading)))
        if reading.ranges:
            canvas.table(["<sizes", "time over usual"], [[name, f"{ratio:.2f}"] for name, ratio in reading.ranges])
    for cause in found.named:
        canvas.heading(f"{cause.code} ({100 * cause.probability:.0f} %): {ADVICE[cause.code].says}")
        told = _told(cause, found)
        last = (ADVICE[cause.code].try_,), (f"{told}." if told else "",)
        for mark, texts in zip(("+", "-", "try", "then"), (cause.for_, cause.against, *last), strict=True):
            for text in filter(None, texts):
                canvas.paragraph(f"  {mark} {text}", indent="    ")
    for each in found.matrices:
        canvas.heading(f"{len(each.pairs)} pairs, whose own part scatters by {100 * each.noise:.2g} %")
        rows = [
            [*pair.ends, f"{pair.ratio:.2f}", f"{pair.own_ratio:.2f}", str(pair.repeats), _VERDICTS[pair.slow],
             "-" if pair.extra_s is None else units.format_time(pair.extra_s)]
            for pair in each.pairs
        ]  # fmt: skip
        canvas.table(["<from", "<to", "ratio", "own part", "repeats", "<slow", "a token"], rows)
    for text in (*map(_moved, found.changes), *found.notes):
        canvas.paragraph(text)


def checks(found: Examination, tripped: Sequence[str]) -> list[tuple[str, str]]:
    """Return the checks of JUnit: the verdict, every limit that tripped, every pair."""
    limits = [(text.partition(":")[0], text) for text in tripped]
    of_pairs = [
        (f"pair {' to '.join(pair.ends)}", f"{pair.ratio:.2f} times as long as usual" if pair.slow else "")
        for each in found.matrices
        for pair in each.pairs
    ]
    return [("verdict", headline(found) if found.normal is False else ""), *limits, *of_pairs]

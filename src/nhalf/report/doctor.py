"""The answer of `nhalf doctor`: the verdict, its two numbers, the causes with what speaks for them, and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.doctor.advice import ADVICE
from nhalf.doctor.verdict import headline, numbers, rate
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
_CAUSES, _PAIRS, _CHANGES, _TRIES = 4, 4, 3, 3
LIMITS: Final = {
    "share": "1", "share-of-ceiling": "1", "share-of-measured": "1", "bandwidth": "bytes/s", "floor": "s",
    "slow-pairs": "1",
}  # fmt: skip
"""What --fail-if may limit, with its unit."""


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
        "changes": [_change(change) for change in found.changes],
        "tripped": list(tripped),
        "notes": list(found.notes),
        "skipped": [{"file": file, "why": why} for file, why in found.skipped],
    }
    return envelope("doctor", body)


def _cause(cause: Cause, found: Examination) -> dict[str, Any]:
    return {
        "code": cause.code,
        "probability": cause.probability,
        "says": ADVICE[cause.code].says,
        "for": list(cause.for_),
        "against": list(cause.against),
        "try": list(ADVICE[cause.code].tries),
        "expected": _expected(found.worst) if cause.code != "normal" else None,
    }


def _expected(reading: Reading | None) -> dict[str, Any] | None:
    """Return what like systems reach, which is what to expect after a remedy."""
    if reading is None or (reading.expected_bytes_per_s is None and reading.expected_floor_s is None):
        return None
    return {
        "busbw_bytes_per_s": reading.expected_bytes_per_s,
        "busbw_low_bytes_per_s": reading.low_bytes_per_s,
        "busbw_high_bytes_per_s": reading.high_bytes_per_s,
        "floor_s": reading.expected_floor_s,
    }


def _reading(reading: Reading) -> dict[str, Any]:
    return {
        "curve": reading.curve,
        "like": reading.like or None,
        "kind": reading.kind or None,
        "busbw_bytes_per_s": reading.bus_bytes_per_s,
        "ceiling_bytes_per_s": reading.ceiling_bytes_per_s,
        "expected_bytes_per_s": reading.expected_bytes_per_s,
        "low_bytes_per_s": reading.low_bytes_per_s,
        "high_bytes_per_s": reading.high_bytes_per_s,
        "floor_s": reading.floor_s,
        "expected_floor_s": reading.expected_floor_s,
        "share_of_ceiling": reading.share_of_ceiling,
        "share_of_measured": reading.share_of_measured,
        "ranges": [{"sizes": name, "ratio": ratio} for name, ratio in reading.ranges],
    }


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "a": pair.ends[0], "b": pair.ends[1], "ratio": pair.ratio, "own_ratio": pair.own_ratio,
        "repeats": pair.repeats, "slow": pair.slow, "extra_s_per_token": pair.extra_s,
    }  # fmt: skip


def _change(change: Change) -> dict[str, Any]:
    return {
        "curve": change.curve, "value": change.value, "day": change.day, "ratio": change.ratio,
        "runs_before": change.runs_before, "runs_after": change.runs_after, "version_before": change.before or None,
        "version_after": change.after or None,
    }  # fmt: skip


def brief(found: Examination, tripped: Sequence[str], *, next_command: str) -> Brief:
    """Return the first screen."""
    causes = found.named[:_CAUSES]
    return Brief(
        verdict=[headline(found), *(f"Tripped: {text}" for text in tripped)],
        number=f"{_sentence(numbers(found.worst))}" if found.worst else "",
        title=_title(found),
        table=_table(causes) if causes and found.normal is not True else None,
        marked=[0],
        notes=[*_pairs(found), *map(_moved, found.changes[:_CHANGES]), *found.notes],
        asked="",
        closing=_tries(found),
        assumed=found.assumed,
        next_command=next_command,
        next_why="alpha, beta and n_1/2" if found.normal is True else "all that speaks for and against",
        warn=found.normal is False,
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _title(found: Examination) -> str:
    worst = found.worst
    if worst is None:
        return ""
    return f"{worst.curve}, against {worst.like}" if worst.like else worst.curve


def _table(causes: Sequence[Cause]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for cause in causes:
        pro = cause.for_[0] if cause.for_ else "-"
        con = cause.against[0] if cause.against else "-"
        rows.append([cause.code, f"{100 * cause.probability:.0f} %", pro, con])
    return ["<cause", "odds", "<for", "<against"], rows


def _pairs(found: Examination) -> list[str]:
    """Return the slow pairs, what they have in common, and what they cost."""
    lines = []
    for each in found.matrices:
        ends = "; ".join(f"{name} {ratio:.2f} times with everybody" for name, ratio in each.slow_ends[:2])
        slow = each.slow
        unsure = sum(pair.slow is None for pair in each.pairs)
        shown = ", ".join(f"{' to '.join(pair.ends)} {pair.ratio:.2f} times{_cost(pair)}" for pair in slow[:_PAIRS])
        more = f" and {len(slow) - _PAIRS} more" if len(slow) > _PAIRS else ""
        lines.append(
            f"{each.ranks} ranks, {len(each.pairs)} pairs, {len(slow)} slow{f': {shown}{more}' if slow else ''}."
        )
        lines += [f"Slow ends: {ends}."] if ends else []
        lines += [f"The slow pairs have {each.common} in common."] if each.common and not ends else []
        lines += [f"{unsure} more look slow and were measured once: measure them again."] if unsure else []
    return lines


def _cost(pair: Pair) -> str:
    return f" (+{1e3 * pair.extra_s:.2f} ms a token)" if pair.extra_s is not None else ""


def _moved(change: Change) -> str:
    """Return a change of level in words."""
    moved = f"{'up' if change.ratio > 1 else 'down'} to {change.ratio:.2f} times"
    version = f", with {change.after} in place of {change.before}" if change.after else ""
    return f"{change.curve}: {change.value} {moved} from {change.day} on{version} ({change.runs_before} runs before)."


def _tries(found: Examination) -> list[str]:
    """Return what to try, in order, and what to expect after it."""
    causes = [cause for cause in found.named if ADVICE[cause.code].tries]
    if found.normal is True or not causes:
        return []
    lines = [f"Try {place}: {ADVICE[cause.code].tries[0]}." for place, cause in enumerate(causes[:_TRIES], start=1)]
    worst = found.worst
    if worst is not None and worst.expected_bytes_per_s is not None and causes[0].code not in _ELSEWHERE:
        ends = (worst.expected_bytes_per_s, worst.low_bytes_per_s, worst.high_bytes_per_s)
        expected, low, high = (rate(end or worst.expected_bytes_per_s) for end in ends)
        lines.append(f"Expect {expected} of bus bandwidth after it (80 %: {low} to {high}).")
    return lines


def write(found: Examination, canvas: Canvas, tripped: Sequence[str] = ()) -> None:
    """Write everything: curves by ranges of size, causes with all that speaks for and against them, all pairs."""
    canvas.paragraph(headline(found), bold=True)
    for text in tripped:
        canvas.paragraph(f"Tripped: {text}", bold=True)
    for reading in found.readings:
        canvas.heading(f"{reading.curve}, against {reading.like}" if reading.like else reading.curve)
        canvas.paragraph(_sentence(numbers(reading)))
        if reading.ranges:
            canvas.table(["<sizes", "time over usual"], [[name, f"{ratio:.2f}"] for name, ratio in reading.ranges])
    for cause in found.named:
        canvas.heading(f"{cause.code} ({100 * cause.probability:.0f} %): {ADVICE[cause.code].says}")
        for mark, texts in (("+", cause.for_), ("-", cause.against), ("try", ADVICE[cause.code].tries)):
            for text in texts:
                canvas.paragraph(f"  {mark} {text}", indent="    ")
    for each in found.matrices:
        canvas.heading(f"{len(each.pairs)} pairs, whose own part scatters by {100 * each.noise:.2g} %")
        rows = [
            [*pair.ends, f"{pair.ratio:.2f}", f"{pair.own_ratio:.2f}", str(pair.repeats), _VERDICTS[pair.slow],
             "-" if pair.extra_s is None else units.format_time(pair.extra_s)]
            for pair in each.pairs
        ]  # fmt: skip
        canvas.table(["<from", "<to", "ratio", "own part", "repeats", "<slow", "a token"], rows)
    for change in found.changes:
        canvas.paragraph(_moved(change))
    for text in (*found.notes, *(f"{file}: {why}" for file, why in found.skipped[:_PAIRS])):
        canvas.paragraph(text)


_VERDICTS: Final = {True: "yes", False: "no", None: "measure again"}


def checks(found: Examination, tripped: Sequence[str]) -> list[tuple[str, str]]:
    """Return the checks of JUnit: the verdict, every limit that tripped, every pair."""
    wrong = "" if found.normal is not False else headline(found)
    limits = [(text.partition(":")[0], text) for text in tripped]
    of_pairs = [
        (f"pair {' to '.join(pair.ends)}", f"{pair.ratio:.2f} times as long as usual" if pair.slow else "")
        for each in found.matrices
        for pair in each.pairs
    ]
    return [("verdict", wrong), *limits, *of_pairs]

"""What changes along a would-be scaling curve besides the devices: rows that belong to another curve."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Final

from nhalf.decide.scaling_curve import LABELS, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nhalf.decide.scaling_curve import Point

    Curves = Mapping[tuple[str, ...], Sequence[Point]]

_NAMES: Final = (*LABELS, "batch")
"""What the places of a curve's key are."""
_OTHER_CURVE: Final = ("model", "system")
"""Curves of other models and systems may well be of other device counts: only a lone row of one was mixed in."""


def mixed(by_kind: Curves) -> list[Finding]:
    """Return the rows of a table that were mixed into a curve, by what makes them others."""
    varying = [at for at in range(len(_NAMES)) if len({key[at] for key in by_kind}) > 1]
    found: dict[tuple[str, int], Finding] = {}
    alone = (finding for at in varying for finding in _by_one(by_kind, at))
    for finding in chain(alone, _by_several(by_kind)):
        found.setdefault((finding.code, finding.row), finding)
    return list(found.values())


def _by_one(by_kind: Curves, at: int) -> Iterator[Finding]:
    """Yield what was mixed into curves from others that differ from them in one thing only."""
    groups: dict[tuple[str, ...], list[tuple[str, Sequence[Point]]]] = defaultdict(list)
    for key, curve in by_kind.items():
        if key[at]:
            groups[key[:at] + key[at + 1 :]].append((key[at], curve))
    name = _NAMES[at]
    for group in groups.values():
        if len(group) > 1 and not (name == "batch" and is_weak_scaling([*chain(*(curve for _, curve in group))])):
            yield from _in_group(group, name)


def _in_group(group: Sequence[tuple[str, Sequence[Point]]], name: str) -> Iterator[Finding]:
    """Yield the rows of one would-be curve whose devices no other value has: a lone count, or all of a value's."""
    # The value with most device counts is the curve; devices that only another value has were mixed in.
    main, longest = max(group, key=lambda item: len(_devices(item[1])))
    have = _devices(longest)
    for value, rows in group:
        own = _devices(rows)
        if value == main or own & have:
            continue
        if len(own) == 1:
            for point in rows:
                yield _finding(point, f"{point.devices}", name, (value, main))
        elif name not in _OTHER_CURVE:
            yield _finding(rows[0], ", ".join(map(str, sorted(own))), name, (value, main))


def _by_several(by_kind: Curves) -> Iterator[Finding]:
    """Yield lone rows that differ from the longest curve of their model and system in several things at once."""
    longest: dict[tuple[str, ...], tuple[tuple[str, ...], set[int]]] = {}
    for key, curve in by_kind.items():
        have = _devices(curve)
        if key[:2] not in longest or len(have) > len(longest[key[:2]][1]):
            longest[key[:2]] = (key, have)
    for key, curve in by_kind.items():
        main, have = longest[key[:2]]
        changed = [at for at, value in enumerate(key) if value and main[at] and value != main[at]]
        if len(changed) > 1 and len(_devices(curve)) == 1 and curve[0].devices not in have:
            for at in changed:
                yield _finding(curve[0], f"{curve[0].devices}", _NAMES[at], (key[at], main[at]))


def _finding(point: Point, devices: str, name: str, values: tuple[str, str]) -> Finding:
    """Return the finding that some devices were measured with one value of a label, others with another."""
    value, main = (f"{float(text):g}" if name == "batch" else text for text in values)
    return Finding(
        code=f"mixed-{name}", row=point.row, severity="warning",
        text=f"{devices} devices were measured with {name} {value} only, others with {main}: compare like with like",
    )  # fmt: skip


def _devices(curve: Sequence[Point]) -> set[int]:
    return {point.devices for point in curve}


def is_weak_scaling(points: Sequence[Point]) -> bool:
    """Tell whether the batch grows in proportion to the devices."""
    if len(_devices(points)) < 2:  # noqa: PLR2004  two make a proportion
        return False
    return len({point.batch / point.devices for point in points if point.batch}) == 1

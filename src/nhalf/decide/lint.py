"""Lint of scaling curves: what was mixed, what is missing, what cannot be, and how far a curve may be read.

A scaling curve says how fast one model runs on more and more devices; it says so of one batch, engine and launch mode.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from nhalf.decide.regime import TIE
from nhalf.decide.scaling_curve import LABELS, Finding, curves
from nhalf.evidence.waiting import is_mostly, sentence, waited_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nhalf.decide.scaling_curve import Known, Point

    Curves = Mapping[tuple[str, ...], Sequence[Point]]


WANTED: Final = {
    "model": "the answer depends on it",
    "system": "an in-node curve says nothing about another machine, or about more nodes",
    "engine": "the same step takes 13 to 32 % longer in some engines",
    "mode": "an all-reduce launched by the host takes 3 to 7 times as long as one replayed in a graph",
}  # fmt: skip
"""Labels without which a curve is hard to use, and why (the house's decode-step note for engines; on 8 H100 16 KiB take
3.6 us in TensorRT-LLM's graphs, 5.3 in vLLM's, 17 launched by nccl-tests, 24 in vLLM's eager mode)."""
NOISE: Final = 0.09
"""A repeated run differs by 9 % in a quarter of cases (the house's decode-step note)."""
_AGREES: Final = 0.05


def lint(points: Sequence[Point], known: Mapping[tuple[str, str], Known]) -> list[Finding]:
    """Return what is wrong with a table of scaling curves, the worst first; `known` is by model and system."""
    by_kind = curves(points)
    found = [*_missing(points), *mixed(by_kind), *_weak_scaling(by_kind), *_disagreeing(points)]
    for curve in by_kind.values():
        found += [*_repeated(curve), *_superlinear(curve), *_turned(curve)]
        label = curve[0].labels
        about = known.get((label.get("model", ""), label.get("system", "")))
        if about is not None:
            found += [*_impossible(curve, about), *_boundary(curve, about), *_regime(curve, about)]
        found += _waiting(curve, about.call_s if about else None)
    order = {"refused": 0, "warning": 1, "note": 2}
    return sorted(found, key=lambda finding: (order[finding.severity], finding.row))


def _missing(points: Sequence[Point]) -> Iterator[Finding]:
    """Yield the labels that the table does not have; without a batch it is refused."""
    unknown = [point for point in points if point.batch is None]
    if unknown:
        yield Finding(
            code="no-batch", row=unknown[0].row, severity="refused",
            text="a scaling curve without a batch cannot be read: at batch 1 more devices cost latency, at a large one "
                 "they buy bandwidth; add a batch (or concurrency) column",
        )  # fmt: skip
    if all(point.step_s is None and point.tokens_per_s is None for point in points):
        yield Finding(code="no-values", row=0, severity="refused",
                      text="nothing was measured: add step_s (or tpot_s), or tokens_per_s")  # fmt: skip
    if len({point.devices for point in points}) == 1:
        yield Finding(code="one-device-count", row=0, severity="refused",
                      text=f"all rows have {points[0].devices} devices: one point is no curve")  # fmt: skip
    for name, why in WANTED.items():
        if not any(point.labels.get(name) for point in points):
            yield Finding(code=f"no-{name}", row=0, severity="note", text=f"no {name} is stated: {why}")


def _weak_scaling(by_kind: Mapping[tuple[str, ...], Sequence[Point]]) -> Iterator[Finding]:
    """Yield a note when the batch grows with the devices: each has the same work, so no stream gets faster."""
    groups: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    for key, curve in by_kind.items():
        groups[key[:-1]] += curve
    for group in groups.values():
        if is_weak_scaling(group):
            each = (group[0].batch or 0.0) / group[0].devices
            yield Finding(
                code="weak-scaling", row=min(point.row for point in group), severity="warning",
                text=f"the batch grows with the devices ({each:g} each): the curve says how throughput scales, and "
                     "nothing about the time per token of one batch",
            )  # fmt: skip


def _disagreeing(points: Sequence[Point]) -> Iterator[Finding]:
    """Yield the rows whose rate and step do not belong together."""
    for point in points:
        if point.step_s is None or point.tokens_per_s is None or point.batch is None:
            continue
        rate = point.batch / point.step_s
        if abs(point.tokens_per_s / rate - 1) <= _AGREES:
            continue
        ratio = point.tokens_per_s / rate
        guess = _guess(ratio, point)
        yield Finding(
            code="rate-and-step", row=point.row, severity="warning",
            text=f"batch / step is {rate:.4g} tokens/s, the table says {point.tokens_per_s:.4g}{guess}",
        )  # fmt: skip


def _guess(ratio: float, point: Point) -> str:
    """Return what a ratio of the stated rate to the expected one looks like."""
    for factor, words in (
        (1.0 / (point.batch or 1.0), "which is the rate of one user"),
        (1.0 / point.devices, "which is the rate of one device"),
    ):
        if factor < 1 and abs(ratio / factor - 1) <= _AGREES:
            return f", {words}"
    return ": tokens accepted from drafts, or prompts counted too"


def _repeated(curve: Sequence[Point]) -> Iterator[Finding]:
    """Yield device counts that were measured more than once and differ by more than repeated runs do."""
    by_devices: dict[int, list[Point]] = defaultdict(list)
    for point in curve:
        by_devices[point.devices].append(point)
    for devices, rows in by_devices.items():
        times = [time for point in rows if (time := point.time_s)]
        if len(times) > 1 and max(times) / min(times) - 1 > NOISE:
            yield Finding(
                code="repeated", row=rows[-1].row, severity="warning",
                text=f"{devices} devices were measured {len(times)} times, {100 * (max(times) / min(times) - 1):.0f} % "
                     f"apart; repeated runs differ by {100 * NOISE:.0f} % in a quarter of cases",
            )  # fmt: skip


def _superlinear(curve: Sequence[Point]) -> Iterator[Finding]:
    """Yield points that gain more than the devices that they add."""
    timed = [(point, time) for point in curve if (time := point.time_s)]
    for (one, before), (other, after) in pairwise(timed):
        most = other.devices / one.devices
        if other.devices > one.devices and before / after > most * (1 + TIE):
            yield Finding(
                code="superlinear", row=other.row, severity="warning",
                text=f"{one.devices} to {other.devices} devices is {before / after:.2f} times as fast, more than "
                     f"{most:g} times: something else changed, or the smaller one was short of memory",
            )  # fmt: skip


def _turned(curve: Sequence[Point]) -> Iterator[Finding]:
    """Yield where a curve turns over, which is the end of what it may be extended to."""
    timed = [(point, time) for point in curve if (time := point.time_s)]
    if len(timed) < 2:  # noqa: PLR2004  two make a curve
        return
    best = min(timed, key=lambda pair: pair[1])
    last = timed[-1]
    if last[0].devices > best[0].devices and last[1] > best[1] * (1 + TIE):
        yield Finding(
            code="turn-over", row=best[0].row, severity="note",
            text=f"the curve turns over at {best[0].devices} devices (batch {best[0].batch or 0:g}); it says so of "
                 "that batch only",
        )  # fmt: skip


def _impossible(curve: Sequence[Point], about: Known) -> Iterator[Finding]:
    """Yield points that are faster than the weights can be read."""
    for point in curve:
        time = point.time_s
        floor = about.floor_s / point.devices
        if time is not None and time < floor:
            yield Finding(
                code="impossible", row=point.row, severity="warning",
                text=f"{1e3 * time:.3g} ms is less than reading the weights takes at the datasheet rate "
                     f"({1e3 * floor:.3g} ms): speculative decoding that is not said, or another dtype",
            )  # fmt: skip


def _waiting(curve: Sequence[Point], modelled_s: float | None) -> Iterator[Finding]:
    """Yield points whose all-reduces mostly wait for another rank."""
    for point in curve:
        parts = waited_s(point.call_s, point.pure_s, point.skew_s, modelled_s)
        if parts is not None and is_mostly(*parts):
            text = sentence(*parts, calls=point.calls or 0.0)
            yield Finding(code="waiting", row=point.row, severity="warning", text=text)


def _boundary(curve: Sequence[Point], about: Known) -> Iterator[Finding]:
    """Yield what a curve does at the boundary of a node."""
    node, most = about.devices_per_node, curve[-1].devices
    if curve[0].devices <= node < most:
        after = next(point for point in curve if point.devices > node)
        yield Finding(
            code="crosses-node", row=after.row, severity="note",
            text=f"from {after.devices} devices on collectives cross nodes of {node}: another link and another library "
                 "path, so do not read one slope through it",
        )  # fmt: skip
    elif most <= node and len({point.devices for point in curve}) > 1:
        yield Finding(
            code="inside-node", row=curve[-1].row, severity="note",
            text=f"all points are inside a node of {node}: the curve may not be extended to more devices",
        )  # fmt: skip


def _regime(curve: Sequence[Point], about: Known) -> Iterator[Finding]:
    """Yield in which regime of its collectives a curve was measured."""
    batch, turning = curve[0].batch, about.turning_batch
    if batch is None or turning is None or len({point.devices for point in curve}) == 1:
        return
    below = batch < turning
    measured, other = ("latency", "bandwidth") if below else ("bandwidth", "latency")
    side = "above" if below else "below"
    yield Finding(
        code="regime", row=curve[0].row, severity="note",
        text=f"batch {batch:g} is in the {measured} regime of its collectives, which turns at batch {turning:.0f}: do "
             f"not extend it to batches {side}, where {other} counts",
    )  # fmt: skip


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

"""The answer of `nhalf collective`: who wins where, what the library runs, and where its fixed time goes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from nhalf import units
from nhalf.collective import Op
from nhalf.decide.choice import symmetric
from nhalf.decide.fixed_time import alike, launch_s
from nhalf.report import losses, planned, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.collective import Flip, Row
    from nhalf.library import Rule
    from nhalf.report.canvas import Canvas
    from nhalf.report.collective_answer import Answer

FOCUS_BYTES = 16384.0
"""The size that the one number is about [bytes]: one token of a model of width 8,192 in 16 bits."""
_WIDE = 110
_FEW, _MANY = 3, 7


def write(found: Answer, canvas: Canvas) -> None:
    """Write who wins where, the tables, where the fixed time goes and what it all rests on."""
    canvas.paragraph(f"\n{verdict(found)}", bold=True)
    for note in [*_chosen(found), *planned.notes(found.question, found.known)]:
        canvas.paragraph(note)
    if found.question.op != Op.BARRIER:
        canvas.heading(f"{found.question.op} on {found.loaded.subject}, by size")
        _by_size(found, canvas)
    canvas.heading("Every algorithm by its law (the fastest that this machine can run: *, what the library runs: >)")
    _by_algorithm(found, canvas)
    _fixed_time(found, canvas)
    _rests_on(found, canvas)


def _chosen(found: Answer) -> list[str]:
    """Return where the time of the size that the answer is about comes from, where it was not measured."""
    at = next(each for each in found.choices if each.size_bytes == focus(found.loaded.sizes_bytes))
    head = "" if found.question.op == Op.BARRIER else f"{_size(at.size_bytes)}: "
    return [] if found.question.curve is not None else [f"{head}{planned.number(found.question, at)}."]


# --- words ------------------------------------------------------------------------------------------------------------


def verdict(found: Answer) -> str:
    """Return who wins where, and what the library's own choice costs."""
    question = found.question
    first = question.fastest(found.loaded.sizes_bytes[0])
    sentences = [f"{question.op} on {found.loaded.subject}: {_who_wins(first, found.flips)} by the laws of the links."]
    if question.library is not None:
        sentences.append(losses.library_choice(found))
    return " ".join(sentences)


def _who_wins(first: str, turns: Sequence[Flip]) -> str:
    """Return which algorithm is fastest from where to where."""
    if not turns:
        return f"{first} is fastest at every size"
    parts = [f"{first} is fastest below {_size(turns[0].size_bytes)}"]
    parts += [f"{before.after} up to {_size(after.size_bytes)}" for before, after in pairwise(turns)]
    return f"{', '.join(parts)}, {turns[-1].after} above"


def focus(sizes: Sequence[float]) -> float:
    """Return the size that is nearest to that of one token."""
    return min(sizes, key=lambda size: abs(math.log(size / FOCUS_BYTES)))


def _size(size_bytes: float) -> str:
    return units.format_size(size_bytes, binary=True)


# --- tables -----------------------------------------------------------------------------------------------------------


def _by_size(found: Answer, canvas: Canvas) -> None:
    """Write a line for each size: the fastest law, the library's choice, what was measured or planned, and busbw."""
    question = found.question
    measured = {row.size_bytes: row for row in found.rows if row.kind != "law"}
    laws = {(row.size_bytes, row.algorithm): row for row in found.rows if row.kind == "law"}
    wide = canvas.width >= _WIDE
    heads = ["size", "<fastest", "law"]
    if question.library is not None:
        heads += [f"<{found.loaded.library} runs", *(["its law"] if wide else []), "loses"]
        heads += [next((row.kind for row in measured.values()), "planned")]
    heads += [*(["algbw"] if wide else []), "busbw"]
    lines = []
    for each in found.choices:
        shown = measured.get(each.size_bytes) or laws[each.size_bytes, each.fastest]
        line = [_size(each.size_bytes), each.fastest, units.format_time(each.fastest_s)]
        if question.library is not None:
            own = "-" if each.time_s is None else units.format_time(each.time_s)
            other = "-" if each.plan is None else units.format_time(each.plan.time_s)
            line += [losses.runs(each), *([own] if wide else []), losses.cell(each)]
            line += [units.format_time(measured[each.size_bytes].time_s) if measured else other]
        bandwidths = [shown.algbw_bytes_per_s, shown.busbw_bytes_per_s]
        line += [units.format_bandwidth(rate) for rate in (bandwidths if wide else bandwidths[1:])]
        lines.append(line)
    canvas.table(heads, lines)
    source = "what was measured" if measured else "the fastest law"
    canvas.paragraph(f"busbw is that of {source}, as nccl-tests defines it.", indent="  ")
    for note in losses.notes(found):
        canvas.paragraph(note, indent="  ")


def _by_algorithm(found: Answer, canvas: Canvas) -> None:
    """Write a line for each algorithm: its time at a few sizes, where its law is exact, and what it needs."""
    sizes = spread(found.loaded.sizes_bytes, _MANY if canvas.width >= _WIDE else _FEW)
    if found.question.op == Op.BARRIER:
        sizes = sizes[:1]
    lines, reasons = [], dict[str, list[str]]()
    for name in found.question.laws:
        mine = {row.size_bytes: row for row in found.rows if row.algorithm == name and row.kind == "law"}
        cells = [f"{_mark(mine[size])}{units.format_time(mine[size].time_s)}" for size in sizes]
        one = mine[sizes[0]]
        needs = "" if one.runs else f"needs {one.needs}"
        if one.unchecked:
            reasons.setdefault(one.unchecked, []).append(name)
        lines.append([name, *cells, _EXACT[one.exact], needs])
    heads = ["time"] if found.question.op == Op.BARRIER else [_size(size) for size in sizes]
    canvas.table(["<algorithm", *heads, "<exact for", "<"], lines)
    for reason, names in reasons.items():
        canvas.paragraph(f"not checked: {', '.join(names)}: {reason}.", indent="  ")
    size = focus(found.loaded.sizes_bytes)
    if (kernel := symmetric(found.question, size)) is not None:
        source = found.loaded.origins[f"{_SYMMETRIC}base_s"].source
        canvas.paragraph(
            f"With registered buffers NCCL expects {units.format_time(kernel.time_s)} at {_size(size)} of its "
            f"symmetric kernels ({kernel.path}): by its own constants [{source}], not measured.", indent="  ",
        )  # fmt: skip


_SYMMETRIC = "stack.library.symmetric."
_EXACT = {
    "every": "every K", "powers of two": "K = 2^i", "small messages": "small n", "large messages": "large n",
    "upper bound": "upper bound", "unchecked": "not checked",
}  # fmt: skip
"""Where a law is exact, in few letters."""


def _mark(row: Row) -> str:
    return ("*" if row.fastest else "") + (">" if row.chosen else "")


def spread(sizes: Sequence[float], count: int) -> list[float]:
    """Return a few of the sizes: both ends and what lies evenly between."""
    if len(sizes) <= count:
        return list(sizes)
    return [sizes[round(step * (len(sizes) - 1) / (count - 1))] for step in range(count)]


def _fixed_time(found: Answer, canvas: Canvas) -> None:
    """Write where the fixed time goes and what would take a part of it away."""
    fixed = found.fixed
    if fixed is None:
        return
    total = units.format_time(fixed.total_s)
    canvas.heading(f"Where the latency goes: {total} {fixed.kind}, {_steps(fixed.steps)} of {fixed.algorithm}")
    lines = [
        [
            words.PARTS.get(part.name, part.name),
            units.format_time(part.time_s),
            f"{100 * part.time_s / fixed.total_s:.0f} %",
            part.kind,
            part.lever,
        ]
        for part in fixed.parts
    ]
    canvas.table(["<part", "time", "share", "<kind", "<what shrinks it"], lines)
    for bypass in fixed.bypasses:
        saved = units.format_time(bypass.saves_s)
        canvas.paragraph(f"  {bypass.name}: {saved} ({bypass.kind}; {bypass.how})", indent="    ")
    pairs = alike(found.loaded.pairs, found.question)
    added = launch_s(pairs)
    if added is not None:
        which = f"{pairs[0].version} on these ranks" if len(pairs) == 1 else f"median of {len(pairs)} pairs of curves"
        canvas.paragraph(
            f"  Launched by the host instead of a graph, {found.loaded.library} takes {units.format_time(added)} more "
            f"(measured: {which}).",
            indent="    ",
        )


def _steps(count: float) -> str:
    return f"{count:g} step{'' if count == 1 else 's'}"


def _rests_on(found: Answer, canvas: Canvas) -> None:
    """Write the links, the rule of the library, its other rules, and the defaults."""
    used = {"intra_node"} | ({"inter_node"} if found.question.span.nodes > 1 else set())
    links = [
        f"{path} = {units.format_value(origin.value, origin.unit)}: {origin.kind} [{origin.source}]"
        for path, origin in found.loaded.origins.items()
        if not path.startswith(_SYMMETRIC) and (not path.startswith("system.fabric.") or path.split(".")[2] in used)
    ]
    rules = [] if found.question.rule is None else [_rule(found.question.rule)]
    others = [f"not taken: {_rule(rule)}" for rule in found.loaded.others]
    defaults = [f"{flag} {why}" for flag, why in found.loaded.defaults]
    canvas.listed("What it rests on", [*links, *rules, *others, *defaults])


def _rule(rule: Rule) -> str:
    """Return a rule in words, with its source; an algorithm whose sizes an earlier one takes is left out."""
    steps, reached = [], 0.0
    for algorithm, limit in zip(rule.algorithms, rule.limits, strict=False):
        if limit.value > reached:
            steps.append(f"{algorithm} {'below' if rule.strict else 'up to'} {_size(limit.value)}")
            reached = limit.value
    pair = " a pair of ranks" if rule.per_pair else ""
    variant = f", {rule.variant}" if rule.variant else ""
    text = f"{', '.join([*steps, f'then {rule.algorithms[-1]}'])}{pair}" if steps else f"{rule.algorithms[-1]} always"
    return f"{rule.library} {rule.version}{variant}: {text} [{rule.source}]"

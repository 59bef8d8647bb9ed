"""A study: how many damaged logs give a wrong answer in silence.

    python tests/bench/intake_study.py [COUNT] [SEED]

The formats of the table in tests/logs/intake.py and the logs of tests/logs are damaged COUNT times in all (100,000 if
nothing is said): a digit changed, lost or added, lines lost, doubled or swapped, a word lost or moved, a unit renamed,
the file cut at either end, bytes flipped, or all that tests/fuzz/mutation.py does. An answer is silent when no line was
skipped and no note was added. It is wrong when no curve of the whole log has its operation and ranks, and its latency
and bandwidth within 15 %. Printed are the counts by format and by damage, and the first wrong ones of each.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.fuzz.mutation import damaged
from tests.logs.intake import SHAPES
from tests.logs.test_truth_table import FILES

from nhalf.errors import InputError
from nhalf.evidence.fit import fit
from nhalf.evidence.readers.reading import _read_one
from nhalf.evidence.readers.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

LOGS = Path(__file__).resolve().parents[1] / "logs"
_MOST = 0.15


class Answer(NamedTuple):
    """What a log says: one curve's operation, ranks, latency [s] and bandwidth [bytes/s], and what was doubted."""

    op: str
    ranks: int | None
    latency: float
    bandwidth: float
    doubts: frozenset[str]


def answers(text: str) -> list[Answer]:
    """Return the answers of a log; none where it is refused."""
    try:
        tables = _read_one(Source(name="log", content=text.encode("utf-8", "surrogateescape")), None, in_folder=False)
        found = fit([table for table in tables if table.rows])
    except InputError:
        return []
    doubts = {f"skipped {skip.why}" for table in tables for skip in table.skipped}
    doubts |= {"several"} if len(found.curves) > 1 else set()
    return [
        Answer(
            curve.series.key.name,
            curve.series.key.ranks,
            curve.latency.value if curve.latency else math.nan,
            curve.bandwidth.value if curve.bandwidth else math.nan,
            frozenset(doubts | {note.code for note in curve.notes}),
        )
        for curve in found.curves
    ]


def _digit(draw: random.Random, text: str) -> str:
    places = [found.start() for found in re.finditer(r"\d", text)]
    at = draw.choice(places)
    how = draw.randrange(3)
    new = draw.choice("0123456789")
    return text[:at] + (new, "", text[at] + new)[how] + text[at + 1 :]


def _lines(draw: random.Random, text: str) -> str:
    lines = text.split("\n")
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    how = draw.randrange(4)
    if how == 0:
        del lines[min(one, other) : max(one, other)][: draw.randrange(1, 4)]
        lines[one : one + draw.randrange(1, 4)] = []
    elif how == 1:
        lines[one:one] = [lines[one]] * draw.choice((1, 1, 5))
    elif how == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        draw.shuffle(lines)
    return "\n".join(lines)


def _words(draw: random.Random, text: str) -> str:
    words = list(re.finditer(r"[^\s,|]+", text))
    one, other = draw.choice(words), draw.choice(words)
    how = draw.randrange(3)
    if how == 0:
        return text[: one.start()] + text[one.end() :]
    if how == 1:
        return text[: one.start()] + other[0] + text[one.end() :]
    return text[: one.end()] + " " + other[0] + text[one.end() :]


def _units(draw: random.Random, text: str) -> str:
    old, new = draw.choice(
        (("us", "ms"), ("us", "ns"), ("(us)", "(ms)"), ("usec", "msec"), ("GB/s", "MB/s"), (".", ","))
    )
    return text.replace(old, new, draw.choice((1, -1)))


def _cut(draw: random.Random, text: str) -> str:
    at = draw.randrange(len(text))
    return text[:at] if draw.random() < 0.7 else text[at:]


def _bytes(draw: random.Random, text: str) -> str:
    places = [draw.randrange(len(text)) for _ in range(draw.choice((1, 3, 10)))]
    for at in places:
        text = text[:at] + chr(draw.randrange(32, 127)) + text[at + 1 :]
    return text


def _fuzz(draw: random.Random, text: str) -> str:
    return damaged(draw, text.encode()).decode("utf-8", "surrogateescape")


DAMAGE: dict[str, Callable[[random.Random, str], str]] = {
    "digit": _digit, "lines": _lines, "words": _words, "units": _units, "cut": _cut, "bytes": _bytes,
    "fuzz": _fuzz,
}  # fmt: skip


def wrong(found: Answer, truths: list[Answer]) -> str:
    """Return what is wrong with an answer where no curve of the whole log has it, or nothing."""
    return min((_wrong(found, truth) for truth in truths), key=len)


def _wrong(found: Answer, truth: Answer) -> str:
    if found.op != truth.op:
        return f"op {found.op}"
    if found.ranks != truth.ranks:
        return f"ranks {found.ranks}"
    for name in ("latency", "bandwidth"):
        value, right = getattr(found, name), getattr(truth, name)
        if abs(value / right - 1.0) > _MOST:
            return f"{name} {value / right:.3g} times"
    return ""


def study(count: int, seed: int) -> None:
    """Print the table."""
    draw = random.Random(seed)  # noqa: S311
    texts = {name: shape.text for name, shape in SHAPES.items()}
    texts |= {name: (LOGS / name).read_text(encoding="utf-8") for name in FILES}
    truths = {name: answers(text) for name, text in texts.items()}
    names = [name for name, some in truths.items() if some]
    known = {name: frozenset().union(*(one.doubts for one in some)) for name, some in truths.items()}
    silent: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], list[str]] = defaultdict(list)
    for number in range(count):
        name, how = names[number % len(names)], draw.choice(list(DAMAGE))
        text = DAMAGE[how](draw, texts[name])
        total[name, how] += 1
        for found in answers(text):
            problem = wrong(found, truths[name])
            if problem and found.doubts <= known[name]:
                silent[name, how] += 1
                if len(examples[name, how]) < 3:
                    examples[name, how].append(f"{problem}: {_difference(texts[name], text)}")
                break
    print(f"{count:,} damaged logs, {sum(silent.values())} wrong in silence (seed {seed})")
    for kind in (0, 1):
        of: Counter[str] = Counter()
        all_: Counter[str] = Counter()
        for key in total:
            all_[key[kind]] += total[key]
            of[key[kind]] += silent[key]
        print("\n".join(f"  {key:28s}{of[key]:6d} of {all_[key]:7,d}" for key in all_))
    for key, some in examples.items():
        print(*key, *some, sep="\n    ")


def _difference(before: str, after: str) -> str:
    """Return the first place where two texts differ."""
    at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    return f"{before[max(at - 30, 0) : at + 30]!r} became {after[max(at - 30, 0) : at + 30]!r}"


if __name__ == "__main__":
    study(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1)

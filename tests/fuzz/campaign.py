"""The long campaign of `make fuzz`: python -m tests.fuzz.campaign --inputs 100000 --workers 2 [--seed 1]."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from random import Random

from tests.fuzz import inputs
from tests.fuzz.trial import faults

_PART = 250
_KEPT = Path("fuzz-found")
"""Where the first input of every kind of fault is kept."""


def tried(seed: int, count: int) -> list[tuple[str, inputs.Input]]:
    """Try so many inputs, and return what was wrong, each with its input; every one depends on its seed alone."""
    found: list[tuple[str, inputs.Input]] = []
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder, "a", "b", "c")  # so deep that `../../x` is the campaign's own
        inside.mkdir(parents=True)
        os.chdir(inside)
        inputs.prepare()
        try:
            for number in range(count):
                random = Random(f"{seed}-{number}")
                given = (inputs.file if random.random() < 0.5 else inputs.option)(random)
                if given.name:
                    Path(given.name).write_bytes(given.content)
                wrong = faults(given.arguments, b"" if given.name else given.content)
                found += [(f"{given.arguments[0]}: {each}", given) for each in wrong]
        finally:
            os.chdir(home)
    return found


def tried_part(seed: int) -> list[tuple[str, inputs.Input]]:
    """Try the inputs of one task."""
    return tried(seed, _PART)


def main() -> int:
    """Try the inputs, print what was wrong, and return 1 when anything was."""
    parser = argparse.ArgumentParser(description="Try damaged files and odd options.")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    parts = -(-asked.inputs // _PART)
    seeds = [asked.seed * 1_000_000 + part for part in range(parts)]
    counts: Counter[str] = Counter()
    begun = time.monotonic()
    with get_context("spawn").Pool(asked.workers, maxtasksperchild=20) as pool:
        for part, found in enumerate(pool.imap(tried_part, seeds), start=1):
            for what, given in found:
                kind = what[:120]
                counts[kind] += 1
                if counts[kind] == 1:
                    print(what, [word[:80] for word in given.arguments], flush=True)
                    _KEPT.mkdir(exist_ok=True)
                    (_KEPT / f"{len(counts)}-{given.name or 'input'}").write_bytes(given.content)
            if part % 20 == 0:
                taken = time.monotonic() - begun
                print(f"{part * _PART} of {parts * _PART} in {taken:.0f} s, {len(counts)} kinds of fault", flush=True)
    for kind, count in counts.most_common():
        print(count, kind)
    print(f"{parts * _PART} inputs, {sum(counts.values())} faults")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())

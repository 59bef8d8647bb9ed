"""Write how far untouched constants are for engines that launch kernels one by one: bands, and no constant of a step.

    python tools/derive_classes.py

The cases are those of the public sources in tests/golden/decode_cases whose engines are of such a class; each engine of
a source counts alike. What is printed besides is the share of cases that a band holds which was derived without the
source that they are from. A test checks that the bands that ship are what this derives.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.golden.cases import Case, read

from nhalf.calibrate.derive import half_widths
from nhalf.catalog import files

CLASSES = Path(files.__file__).with_name("data") / "calibration" / "classes.toml"


def launched() -> list[Case]:
    """Return the answered cases of engines that launch kernels one by one."""
    return [case for case in read() if case.launched]


def widths(cases: list[Case]) -> tuple[float, float]:
    """Return the factors below and above a prediction between which 80 % of the measured times lie."""
    errors = np.array([np.log(case.measured_s / case.predicted_s) for case in cases])
    _, member, sizes = np.unique([_key(case) for case in cases], return_inverse=True, return_counts=True)
    below, above = half_widths(errors, 1.0 / sizes[member])
    return float(np.exp(-below)), float(np.exp(above))


def _key(case: Case) -> str:
    return f"{case.source} {case.engine}"


def held_out(cases: list[Case]) -> float:
    """Return the share of cases that the widths of the other sources hold, each engine of a source counting alike."""
    inside: dict[str, list[bool]] = {}
    for source in dict.fromkeys(case.source for case in cases):
        low, high = widths([case for case in cases if case.source != source])
        for case in cases:
            if case.source == source:
                inside.setdefault(_key(case), []).append(low <= case.measured_s / case.predicted_s <= high)
    return float(np.mean([np.mean(each) for each in inside.values()]))


def document(cases: list[Case]) -> str:
    """Return the bands as TOML."""
    low, high = widths(cases)
    engines = len({_key(case) for case in cases})
    sources = len({case.source for case in cases})
    return f"""\
# How far untouched constants are for engines of a class that no calibration has seen: half-widths of 80 % bands.
# tools/derive_classes.py, from tests/golden/decode_cases. Do not edit: a test compares this file with what it derives.

[common]
source = "nhalf-priors"
kind = "measured"
date = "2026-11"
locator = "{len(cases)} cases of {sources} public sources whose engines launch kernels one by one, each of {engines} \
engines of a source counting alike"

[bands.class]
low.value = "{low:.2f}"
high.value = "{high:.2f}"
"""


def main() -> None:
    """Write the file, and print what it holds."""
    cases = launched()
    CLASSES.write_text(document(cases), encoding="utf-8")
    low, high = widths(cases)
    held = 100 * held_out(cases)
    print(f"{len(cases)} cases, {low:.2f} to {high:.2f}; a band of the other sources holds {held:.0f} %")  # noqa: T201  a tool says what it did


if __name__ == "__main__":
    main()

"""How far the communication term alone is off: where it was measured, in pairs of runs, where scaling turns over.

    python tests/bench/communication_study.py       # from the folder of the repository

A time per token cannot judge this term: without any it is as well predicted. So three bars of its own: rows whose
source states the time of communication, pairs of runs that differ in communication alone or in little else, and
scalings of one load over device counts, by whether the count that is predicted fastest is the fastest.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden.cases import by_source, communication, pairs, read

from nhalf.loading import load
from nhalf.points import points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.golden.cases import Case

EXPOSED_S = {2: 2.08e-3, 4: 2.35e-3, 8: 3.88e-3}
"""What Llama-3-70B at batch 1 on H100 takes longer with communication than without, by TP (the house's decode-step
note)."""
TIE = 0.05


def line(name: str, ratios: Sequence[float]) -> None:
    """Print the median and 90th percentile of |predicted / measured - 1|, and the bias."""
    errors = np.asarray(ratios) - 1
    median, p90, bias = 100 * np.median(np.abs(errors)), 100 * np.quantile(np.abs(errors), 0.9), 100 * np.median(errors)
    print(f"{name:48s} {len(errors):4d}  {median:5.0f} / {p90:4.0f} %  bias {bias:+4.0f} %")


def turn_overs(found: list[Case]) -> tuple[int, int, list[str]]:
    """Return the loads measured on several device counts, those whose predicted fastest is within the tie, and misses.

    A miss is a load on which more devices were slower, and are predicted faster.
    """
    loads: dict[tuple[str, ...], dict[int, Case]] = {}
    for case in found:
        if not case.refused and case.devices:
            loads.setdefault((case.source, *case.group), {})[case.devices] = case
    several = {key: runs for key, runs in loads.items() if len(runs) > 1}
    right, missed = 0, []
    for key, runs in several.items():
        told = min(runs.values(), key=lambda case: case.predicted_s)
        best = min(runs.values(), key=lambda case: case.measured_s)
        if told.measured_s <= (1 + TIE) * best.measured_s:
            right += 1
        else:
            held = told.low_s <= told.measured_s <= told.high_s
            missed.append(
                f"{key[1]} on {key[3]}: {best.devices} fastest, {told.devices} predicted, "
                f"{told.measured_s / best.measured_s:.2f} times slower, {'in' if held else 'out of'} its band"
            )
    return len(several), right, missed


def main() -> None:
    """Print the tables."""
    found = read()
    rows = [row for row in communication() if row[2] > 1]
    line("communication that sources state", [predicted / measured for *_, measured, predicted in rows])
    for hardware in dict.fromkeys(row[1] for row in rows):
        some = [predicted / measured for _, name, _, measured, predicted in rows if name == hardware]
        line(f"  {hardware}", some)
    told = {
        tp: points(load("llama-3-70b", on="h100-sxm", tp=tp, library="nccl")).at(0)
        for tp in EXPOSED_S
    }  # fmt: skip
    owed = {tp: row.columns["collective_fixed"] + row.columns["collective_transfer"] for tp, row in told.items()}
    line("H100 with and without, TP 2, 4, 8 (fitted on)", [owed[tp] / measured for tp, measured in EXPOSED_S.items()])
    line("pairs that differ in communication", [pair.predicted / pair.measured for pair in pairs(found)])
    count, right, missed = turn_overs(found)
    print(f"{right} of {count} loads on several device counts: the predicted fastest is within 5 % of the fastest")
    for text in missed:
        print(f"  {text}")
    print(f"{len(found)} cases of {len(by_source(found))} sources")


if __name__ == "__main__":
    main()

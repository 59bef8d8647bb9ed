"""How far predictions are off for the engines of others, source by source; run from the folder of the repository.

python tests/bench/decode_cases.py
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden.cases import by_source, communication, pairs, read


def main() -> None:
    """Print the table."""
    found = read()
    print(f"{'source':44s} rows refused  median   bias")
    for source, (count, refused, median, bias) in by_source(found).items():
        print(f"{source[:44]:44s} {count:4d} {refused:7d} {100 * median:6.0f} % {100 * bias:+5.0f} %")
    told = [case for case in found if not case.refused]
    errors = np.array([case.predicted_s / case.measured_s - 1 for case in told])
    inside = np.mean([case.low_s <= case.measured_s <= case.high_s for case in told])
    median, bias = 100 * np.median(np.abs(errors)), 100 * np.median(errors)
    print(f"{len(told)} of {len(found)}: {median:.0f} %, bias {bias:+.0f} %, {100 * inside:.0f} % in their bands")
    for reason, count in Counter(case.refused for case in found if case.refused).most_common():
        print(f"{count:4d} refused: {reason}")
    print("pairs that differ in communication alone, or in little else: ratio measured, predicted")
    for pair in pairs(found):
        print(f"  {pair.what:92s} {pair.measured:5.2f} {pair.predicted:5.2f}")
    print("communication, measured and predicted [ms]")
    for model, hardware, nodes, measured, predicted in communication():
        print(f"  {model:12s} {hardware:24s} {nodes} nodes {1e3 * measured:8.1f} {1e3 * predicted:8.1f}")


if __name__ == "__main__":
    main()

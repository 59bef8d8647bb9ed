"""How often the faster of two measured deployments is named, and whether the odds come true.

    python tests/bench/pair_study.py       # from the folder of the repository

Pairs are two of the shipped serving runs of one model at one load that differ in layout, system, engine or dtype. The
constants were fitted on these runs, so this is how the product behaves on what it has seen; `decode_study.py` refits.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise

import numpy as np

from nhalf.decide.paired import Side, paired_draws
from nhalf.loading.case_table import read_table
from nhalf.loading.cases import cases
from nhalf.loading.golden import SERVING
from nhalf.points import points

APART = 0.10
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0001)
MOST_OF_A_LOAD = 12
SAME = ("model", "isl", "osl", "concurrency")


def deployments() -> dict[tuple[str, ...], list[tuple[Side, float]]]:
    """Return the runs of each model and load: the deployment, and its measured time per token [s]."""
    table = read_table(SERVING)
    load = [table.column(name) for name in SAME]
    measured = table.column("tpot_s")
    found: dict[tuple[str, ...], list[tuple[Side, float]]] = defaultdict(list)
    for group in cases(table).groups:
        for place, row in enumerate(group.rows.tolist()):
            scenario = group.scenario.at(place, len(group.rows))
            side = Side(points=points(scenario), name=str(row), index=row)
            found[tuple(column[row] for column in load)].append((side, float(measured[row])))
    return found


def main() -> None:
    """Print the table."""
    dice = np.random.default_rng(1)
    right, odds, wins, kinds = [], [], [], defaultdict(list)
    for sides in deployments().values():
        every = list(combinations(sides, 2))
        some = dice.permutation(len(every))[:MOST_OF_A_LOAD]
        for (a, a_s), (b, b_s) in (every[place] for place in some):
            first, second = paired_draws(a, b)
            likely = float(np.mean(first < second))
            odds.append(max(likely, 1 - likely))
            wins.append((a_s < b_s) == (likely >= 0.5))
            if max(a_s, b_s) > (1 + APART) * min(a_s, b_s):
                right.append(wins[-1])
                kinds[_differs(a, b)].append(wins[-1])
    print(f"{len(odds)} pairs; of {len(right)} over {100 * APART:.0f} % apart {100 * np.mean(right):.0f} % named right "
          "(goal 90)")  # fmt: skip
    for kind, each in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"  differ in {kind:28s} {len(each):5d}  {100 * np.mean(each):3.0f} %")
    for low, high in pairwise(BINS):
        inside = [(one, win) for one, win in zip(odds, wins, strict=True) if low <= one < high]
        if inside:
            said, came = (100 * np.mean([pair[part] for pair in inside]) for part in (0, 1))
            bin_name = f"odds {100 * low:3.0f} to {min(100 * high, 100):3.0f} %"
            print(f"  {bin_name}: {len(inside):5d} pairs, said {said:3.0f} %, came true {came:3.0f} % (goal within 8)")


def _differs(a: Side, b: Side) -> str:
    """Return in what two deployments differ."""
    pairs = {
        "system": (a.system, b.system), "engine": (a.engine, b.engine), "layout": (a.layout_name, b.layout_name),
        "dtype": (a.scenario.workload.weight_dtype, b.scenario.workload.weight_dtype),
    }  # fmt: skip
    return " and ".join(name for name, (one, other) in pairs.items() if one != other) or "version"


if __name__ == "__main__":
    main()

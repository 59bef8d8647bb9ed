"""Print what a request waits for its first token beyond the replayed steps of the server, by engine (stacks.toml).

    python tools/derive_first_token.py

A run of the shipped serving runs has `concurrency` users who all begin at once, ten requests each; its mean time to the
first token is that of the replay, a fixed wait (front end, tokeniser, network) and some steps in which its prompt waits
in the scheduler. Both are fitted on the logarithm of measured / predicted, robustly; intervals come from drawing curves
(runs that differ in load alone) again. Printed besides: errors on a fifth of the curves that was left out.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from nhalf.decide.requests import of_users
from nhalf.loading.case_table import read_table
from nhalf.loading.cases import cases
from nhalf.loading.golden import SERVING
from nhalf.points import Points

MOST = 256
"""Runs of more users are left out: their queues are those of limits that the runs do not tell."""
PARTS, DRAWS = 5, 60


@dataclass(frozen=True)
class Runs:
    """Measured and replayed times to the first token, and the step [s] of each run; its engine and curve."""

    engine: np.ndarray
    curve: np.ndarray
    measured_s: np.ndarray
    replayed_s: np.ndarray
    step_s: np.ndarray

    def some(self, chosen: np.ndarray) -> Runs:
        """Return some of the runs."""
        return Runs(*(each[chosen] for each in (
            self.engine, self.curve, self.measured_s, self.replayed_s, self.step_s,
        )))  # fmt: skip


def runs() -> Runs:
    """Replay the runs."""
    table = read_table(SERVING)
    first, users, engines = table.column("ttft_s"), table.column("concurrency"), table.column("engine")
    same = [table.column(name) for name in table.header if name not in ("concurrency", "ttft_s", "tpot_s")]
    rows = []
    for group in cases(table).groups:
        for place, row in enumerate(group.rows.tolist()):
            if not first[row].strip() or float(users[row]) > MOST:
                continue
            scenario = group.scenario.at(place, len(group.rows))
            served = of_users(scenario, int(float(users[row])), from_start=True)
            step_s = float(Points(scenario=scenario).step_s[0])
            curve = " ".join(texts[row] for texts in same)
            rows.append((engines[row], curve, float(first[row]), float(np.mean(served.ttft_s)), step_s))
    return Runs(*(np.array(column) for column in zip(*rows, strict=True)))


def fitted(some: Runs) -> np.ndarray:
    """Return the fixed wait [s] and the steps [1] that fit some runs."""

    def misses(logs: np.ndarray) -> np.ndarray:
        return np.log(predicted(np.exp(logs), some) / some.measured_s)

    return np.exp(least_squares(misses, np.log([0.02, 3.0]), loss="soft_l1", f_scale=0.3).x)


def predicted(constants: np.ndarray, some: Runs) -> np.ndarray:
    """Return the mean times to the first token [s]."""
    return constants[0] + constants[1] * some.step_s + some.replayed_s


def held_out(some: Runs) -> np.ndarray:
    """Return predicted / measured - 1 of every run by the constants of the curves in the other parts."""
    names, member = np.unique(some.curve, return_inverse=True)
    part = np.random.default_rng(1).integers(0, PARTS, len(names))[member]
    found = np.empty(len(part))
    for one in range(PARTS):
        found[part == one] = predicted(fitted(some.some(part != one)), some.some(part == one))
    return found / some.measured_s - 1


def drawn(some: Runs) -> np.ndarray:
    """Return constants of curves that were drawn again: shape (draws, 2)."""
    names, member = np.unique(some.curve, return_inverse=True)
    places = [np.flatnonzero(member == one) for one in range(len(names))]
    random = np.random.default_rng(2)
    return np.array([
        fitted(some.some(np.concatenate([places[one] for one in random.integers(0, len(names), len(names))])))
        for _ in range(DRAWS)
    ])  # fmt: skip


def main() -> None:
    """Print the constants of every engine with their 95 % intervals, and the errors."""
    found = runs()
    parts = {name: found.some(found.engine == name) for name in sorted(set(found.engine))} | {"all": found}
    errors = []
    for name, some in parts.items():
        constants, low, high = fitted(some), *np.quantile(drawn(some), (0.025, 0.975), axis=0)
        error = held_out(some)
        errors += [] if name == "all" else [error]
        sys.stdout.write(f"{name}: {len(error)} runs, held out {told(error)}\n")
        for key, place, unit in (("wait", 0, " s"), ("steps", 1, "")):
            ends = (f"{end[place]:.4f}{unit}" for end in (constants, low, high))
            told_of = ", ".join(f'{word} = "{end}"' for word, end in zip(("value", "low", "high"), ends, strict=True))
            sys.stdout.write(f"  first_token_{key} = {{ {told_of} }}\n")
    sys.stdout.write(f"each by its engine: {told(np.concatenate(errors))}\n")


def told(errors: np.ndarray) -> str:
    """Return the median and the 90th percentile of some errors."""
    return " / ".join(f"{np.quantile(np.abs(errors), share):.1%}" for share in (0.5, 0.9))


if __name__ == "__main__":
    main()

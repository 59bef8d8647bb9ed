"""Scores `nhalf trace` against traces whose truth is known: last rank, lateness, transfer, wait, clock offset.

Run: python tests/bench/trace_truth.py FOLDER... where each folder holds rank files and TRUTH.json; without a folder,
runs made here are scored (`tests.unit.trace_runs`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tests.unit.trace_runs import Plan, Run, make

from nhalf.trace.study import Options, study

_US = 1e6
_PLANS = {
    "nccl, offsets": Plan(slow={2: 7.0}, offsets={1: 40.0, 2: -25.0, 3: 300.0}),
    "graph, offsets": Plan(flavour="graph", slow={2: 7.0}, offsets={1: 40.0, 2: -25.0, 3: 300.0}, seed=1),
    "graph, drift": Plan(flavour="graph", slow={1: 4.0}, steps=60, offsets={1: -180.0, 3: 90.0},
                         drifts_ppm={1: 30.0, 2: -12.0}, seed=2),
    "8 ranks": Plan(ranks=8, slow={5: 3.0}, offsets={r: 37.0 * r for r in range(8)}, seed=3),
    "two groups": Plan(slow={3: 5.0}, groups=((0, 1), (2, 3)), offsets={1: 12.0}, seed=4),
    "nobody slow": Plan(offsets={1: 200.0, 2: -200.0}, seed=5),
}  # fmt: skip


def truth_of(run: Run) -> dict[str, Any]:
    """Return the truth of a made run in the shape of a TRUTH.json."""
    plan = run.plan
    return {
        "clock_offset_us": [plan.offsets.get(rank, 0.0) for rank in range(plan.ranks)],
        "drifting": bool(plan.drifts_ppm) or bool(plan.groups),
        "collectives": [
            {
                "last_rank": last,
                "lateness_us": late,
                "transfer_us": moved,
                "wait_us": [wait.get(r) for r in range(plan.ranks)],
            }
            for last, late, moved, wait in zip(run.last, run.lateness, run.transfer, run.wait, strict=True)
        ],
    }


def score(names: list[str], truth: dict[str, Any]) -> dict[str, float]:
    """Return the share of right last ranks and the errors [us]."""
    found = study(names, Options())
    line = found.timeline
    ranks = [trace.rank for trace in line.traces]
    listed = truth["collectives"]
    order = _order(line, listed)
    last = np.array([ranks[row] for row in line.split.last[order].tolist()])
    late = line.split.lateness_s[order] * _US - [one["lateness_us"] for one in listed]
    moved = line.split.transfer_s[order] * _US - [one["transfer_us"] for one in listed]
    waits = np.array([[np.nan if w is None else w for w in one["wait_us"]] for one in listed]).T
    wait = line.split.wait_s[:, order] * _US - waits
    offsets = np.array([clock.offset_s * _US for clock in line.aligned.clocks])
    return {
        "collectives": len(listed),
        "last_right": float(np.mean(last == [one["last_rank"] for one in listed])),
        "lateness_worst": float(np.abs(late).max()),
        "transfer_worst": float(np.abs(moved).max()),
        "transfer_mean": float(moved.mean()),
        "wait_worst": float(np.nanmax(np.abs(wait))),
        "offset_worst": float("nan")
        if truth.get("drifting")
        else float(np.abs(offsets - truth["clock_offset_us"]).max()),
        "named": found.verdict.stragglers[0].rank if found.verdict.stragglers else -1,
    }


def _order(line: Any, listed: list[dict[str, Any]]) -> np.ndarray[Any, np.dtype[np.int64]]:  # noqa: ANN401
    """Return the meeting of each entry of the truth: entries go by group in turn, meetings by time inside a group."""
    groups = {tuple(i for i, w in enumerate(one["wait_us"]) if w is not None) for one in listed}
    members = [tuple(np.flatnonzero(line.meetings.index[:, k] >= 0).tolist()) for k in range(len(line.meetings))]
    queues = {group: [k for k, own in enumerate(members) if own == group] for group in groups}
    taken = dict.fromkeys(groups, 0)
    order = []
    for one in listed:
        group = tuple(i for i, w in enumerate(one["wait_us"]) if w is not None)
        order.append(queues[group][taken[group]])
        taken[group] += 1
    return np.array(order)


def main(folders: list[str]) -> None:
    """Print a line of scores for each folder, or for each made run."""
    cases = {Path(name).name: ([name], json.loads(Path(name, "TRUTH.json").read_text())) for name in folders}
    with tempfile.TemporaryDirectory() as place:
        if not folders:
            for name, plan in _PLANS.items():
                run = make(plan)
                cases[name] = (run.write(Path(place, name)), truth_of(run))
        for name, (files, truth) in cases.items():
            scores = score(files, truth)
            print(f"{name:28s} " + "  ".join(f"{key} {value:.4g}" for key, value in scores.items()))


if __name__ == "__main__":
    main(sys.argv[1:])

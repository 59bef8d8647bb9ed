"""How often the doctor is right: on labelled settings, on machines left out, on made cases, on pairs.

    python tests/bench/doctor_study.py [../shared/data]

Labelled settings are judged against the constants of their machine as the catalogue has it (sockets by constants that
machine had no voice in); clean machines against their class without them. Without the folder of measurements only the
made cases are run. Figures are those reached, misses included.
"""

from __future__ import annotations

import csv
import gzip
import math
import random
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench import doctor_cases as made
from tools import derive_fabrics as derive
from tools.fabric_machines import MACHINES, OPS, VERSIONS, Machine

from nhalf.catalog import store
from nhalf.collective import Mode, Op
from nhalf.decide.choice import drawn
from nhalf.doctor.diagnosis import RANGES, Case, weighed
from nhalf.doctor.yardstick import Known, across
from nhalf.evidence.fit import fit
from nhalf.evidence.table import Point, Table
from nhalf.loading.doctoring import examine
from nhalf.transport import Transport

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.doctor.examination import Examination
    from nhalf.doctor.yardstick import Yardstick

LABELS = {
    **{("a100-40g-polaris", f"alcf-{run}"): ("tcp", "slingshot-polaris") for run in (1, 2)},
    **{("a100-40g-polaris", f"alcf-{run}"): ("normal", "slingshot-polaris") for run in (3, 4)},
    **{("gh200-slingshot", f"alps-{name}-ofi{ofi}"): ("protocol-capped", "slingshot-alps")
       for name in ("base", "ignoreaff") for ofi in (113, 19)},
    **{("gh200-slingshot", f"alps-bigcq-ofi{ofi}"): ("normal", "slingshot-alps") for ofi in (113, 19)},
    **{("gh200-slingshot", f"alps-nogdrcopy-ofi{ofi}"): ("no-gdr", "slingshot-default-alps") for ofi in (113, 19)},
}  # fmt: skip
"""What settings are, and the transport that they are judged by: the same machine without that setting."""
SLOW = {("a100-40g-polaris", "alcf-5"), ("mi300x-cx7-aac10", "aac10")}
"""Stacks that are slow for reasons that no code names: only `not normal` is right."""
DEFAULTS = ("base", "ignoreaff", "nogdrcopy", "crossnic1")
NAMED = {
    ("b200-gcp-a4-dranet", "dranet-a4-2w"): ("b200-sxm-roce", "nic-affinity"),
    ("h200-gcp-a3ultra", "gcp-skypilot"): ("h200-sxm-roce", "normal"),
}
"""Settings of machines that no class is made of, the system to name, and what they are."""
Key = tuple[str, str, str, str, int, int]
"""System, settings, version, operation, ranks a node, nodes."""
Runs = dict[Key, dict[float, list[float]]]


def runs(folder: Path) -> Runs:
    """Return times [s] by size of every run across nodes."""
    found: Runs = defaultdict(lambda: defaultdict(list))
    with gzip.open(folder / "across_nodes.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["op"] in OPS and int(row["nodes"]) > 1:
                key = (
                    row["system"],
                    row["settings"],
                    row["version"],
                    OPS[row["op"]],
                    int(row["ranks_per_node"]),
                    int(row["nodes"]),
                )
                found[key][float(row["bytes"])].append(float(row["time_us"] or row["time_in_place_us"]) * 1e-6)
    return found


def transport(machine: Machine, theta: Array, **more: Array) -> Transport:
    values = dict(zip(derive.NAMES, theta, strict=True))
    return Transport(name="left out", known="class", ll128=machine.ll128, **values, **more)


class Judge:
    """Makes cases of runs: against a class that the machine is left out of, or against a transport of the catalogue."""

    def __init__(self) -> None:
        variants = derive.read()
        fits, within = derive.fitted(variants)
        self.pools = derive.left_out(fits, within)
        self.doubt = derive.class_doubt(variants, self.pools)

    def case(self, key: Key, times: dict[float, list[float]], name: str = "") -> Case:
        """Return the case of a run; `name` is the transport, the class without the machine where there is none."""
        machine = MACHINES[key[0], key[1].replace("-ring", "-default")]
        points = tuple(
            Point(size_bytes=size, seconds=time, repeat=repeat)
            for size, several in times.items()
            for repeat, time in enumerate(several)
        )
        table = Table(file="run", tool="nccl-tests", op=Op(key[3]), ranks=key[4] * key[5], nodes=key[5], mode=Mode.HOST,
                      quantity="back_to_back", points=points)  # fmt: skip
        curve = fit([table]).curves[0]
        series = derive.Series(Op(key[3]), machine, key[4], key[5], *curve.fitted_points)
        return Case.of(curve, self._yardstick(machine, series, name), across=True)

    def _yardstick(self, machine: Machine, series: derive.Series, name: str) -> Yardstick:
        library = store.library(machine.library, architecture=machine.architecture)[0]
        tcp = np.exp(self.pools["a100-40g-polaris-tcp"].centres["tcp"])
        known = Known(system=None, origins={}, library=library, sockets=transport(machine, tcp))  # type: ignore[arg-type]
        if name:
            own, origins = store.transport(name)
            moving = drawn(own, {f"system.transport.{path}": datum for path, datum in origins.items()})
        else:
            pool, kind = self.pools[machine.family], machine.kind
            kind = "slingshot" if machine.family in ("gh200-alps", "a100-40g-polaris") and kind != "tcp" else kind
            normal = np.random.default_rng(1).standard_normal((256, len(derive.NAMES) + 2))
            theta = pool.centres[kind] + pool.spreads[kind] * normal[:, :-2]
            own = transport(machine, np.exp(pool.centres[kind]))
            moving = transport(
                machine, np.exp(theta.T)[:, :, None], doubt=np.exp(self.doubt * normal[:, -1:]),
                switch=np.exp(math.log(2.0) / derive.Z95 * normal[:, -2:-1]),
            )  # fmt: skip
        place = series.place(own)
        return across(series.op, series.sizes, place, replace(place, transport=moving), known)


def verdict(cases: list[Case]) -> str:
    normal, causes = weighed(cases, ())
    return "normal" if normal >= 0.5 else causes[0].code


def labelled(judge: Judge, known: Runs) -> None:
    """Print how the labelled settings are named: all runs of one together, and each alone."""
    groups: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for key, times in known.items():
        code = LABELS.get(key[:2], ("",))[0]
        if code == "tcp" or (code and key[2] == VERSIONS.get(key[0], key[2])):
            groups[key[:3]].append(judge.case(key, times, LABELS[key[:2]][1]))
    print("labelled settings (want: right together; right alone)")
    for code in ("tcp", "no-gdr", "protocol-capped", "normal"):
        mine = [cases for key, cases in groups.items() if LABELS[key[:2]][0] == code]
        alone = [case for cases in mine for case in cases]
        together = sum(verdict(cases) == code for cases in mine)
        print(
            f"  {code:16} {together} of {len(mine)}; {sum(verdict([case]) == code for case in alone)} of {len(alone)}"
        )
    for name in sorted(SLOW):
        slow = [judge.case(key, times) for key, times in known.items() if key[:2] == name]
        count = sum(verdict([case]) != "normal" for case in slow)
        print(f"  slow stack {name[0]}: {verdict(slow)}; alone not normal {count} of {len(slow)}")
    for key, times in known.items():
        if key[:2] in NAMED:
            system, code = NAMED[key[:2]]
            rows = [(int(size), 1e6 * several[0]) for size, several in sorted(times.items())]
            healthy = made.Healthy(system=system, ranks=key[4] * key[5], nodes=key[5], rows=rows, link=0.0, nics=0.0,
                                   test=key[3].replace("-", "_"))  # fmt: skip
            files = {"run.txt": made.log(healthy, rows)}
            found = examined(made.Case(name="", causes=frozenset(), files=files, arguments=("--on", system)))
            print(f"  {key[0]} ({code}): {[cause.code for cause in found.named[:2]]}")
        if key[1] == "nccltests290-ring":
            print(f"  a forced ring, large messages alone (nvls-off): {verdict([judge.case(key, times)])}")


def clean(judge: Judge, known: Runs) -> None:
    """Print how many clean machines are normal against their class without them, and what the law misses by range."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for key, times in known.items():
        sound = key[:2] in MACHINES and key[:2] not in SLOW and LABELS.get(key[:2], ("normal",))[0] == "normal"
        if sound and not any(word in key[1] for word in DEFAULTS) and key[2] == VERSIONS.get(key[0], key[2]):
            groups[MACHINES[key[:2]].family].append(judge.case(key, times))
    right = {family: verdict(cases) == "normal" for family, cases in groups.items()}
    alone = [verdict([case]) == "normal" for cases in groups.values() for case in cases]
    print(f"clean machines left out: normal {sum(right.values())} of {len(right)} "
          f"(not: {', '.join(family for family, good in right.items() if not good)}); "
          f"alone {sum(alone)} of {len(alone)} runs")  # fmt: skip
    for place, (name, _, _) in enumerate(RANGES):
        gaps = [
            float(np.median([case.mean[case.places.index(place)] for case in cases if place in case.places]))
            for family, cases in groups.items()
            if family not in derive.DOUBTFUL and any(place in case.places for case in cases)
        ]
        print(f"  {name:18} rms of {len(gaps)} machines {np.sqrt(np.mean(np.square(gaps))):.2f}")


def examined(case: made.Case) -> Examination:
    """Return what the doctor says of the files of a case."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in case.files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        flags = dict(zip((flag[2:] for flag in case.arguments[::2]), case.arguments[1::2], strict=True))
        return examine((folder,), system=flags["on"], ranks=flags.get("ranks"), nodes=flags.get("nodes"))[0]


def right(case: made.Case, found: Examination) -> bool:
    """Tell whether a cause that is there is named first, or nothing where nothing is wrong."""
    if not case.causes:
        return found.normal is True
    return found.normal is not True and bool(found.named) and found.named[0].code in case.causes


def cases(seeds: tuple[int, ...] = (1, 2, 3)) -> None:
    """Print how many made cases are named right."""
    for name, make in (("made cases, the cause first", made.made), ("healthy logs, normal", made.sound)):
        counts = []
        for seed in seeds:
            judged = [(case, examined(case)) for case in make(seed)]
            counts.append(f"{sum(right(*each) for each in judged)} of {len(judged)}")
            for case, found in judged:
                if not right(case, found):
                    what = "+".join(sorted(case.causes)) or "healthy"
                    print(f"  missed {case.name} ({what}): {[cause.code for cause in found.named[:3]]}")
        print(f"{name}: {'; '.join(counts)}")


def alone() -> None:
    """Print how many faults of any strength are named by times alone, by what they are."""
    counts: dict[str, list[bool]] = defaultdict(list)
    for case in made.alone():
        (code,) = case.causes
        counts[code].append(right(case, examined(case)))
    each = ", ".join(f"{code} {sum(good)} of {len(good)}" for code, good in counts.items())
    print(
        f"faults of any strength by times alone: {sum(map(sum, counts.values()))} of {sum(map(len, counts.values()))}"
    )
    print(f"  {each}")


def slow_pairs(folders: int = 40) -> None:
    """Print the share of pairs 20 % slow that are found, and of false alarms, over made folders."""
    found = there = alarms = sound = 0
    for seed in range(folders):
        rng = random.Random(seed)  # noqa: S311  no secret
        names = [(one, other) for one in range(8) for other in range(one + 1, 8)]
        slow = dict.fromkeys(rng.sample(names, 1 + seed % 3), 1.2)
        files = made.pairs(rng, slow=slow, sd=0.005 + 0.015 * (seed % 2))
        case = made.Case(name="pairs", causes=frozenset(), files=files, arguments=("--on", "h100-sxm"))
        named = {pair.ends for each in examined(case).matrices for pair in each.slow}
        wanted = {(f"gpu{one:02d}", f"gpu{other:02d}") for one, other in slow}
        found, there = found + len(named & wanted), there + len(wanted)
        alarms, sound = alarms + len(named - wanted), sound + len(names) - len(wanted)
    print(f"pairs 20 % slow: found {100 * found / there:.0f} % of {there}; ", end="")
    print(f"false alarms {100 * alarms / sound:.2f} % of {sound}")


def main() -> None:
    """Print everything."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if folder is not None:
        judge, known = Judge(), runs(folder)
        labelled(judge, known)
        clean(judge, known)
    cases()
    alone()
    slow_pairs()


if __name__ == "__main__":
    main()

"""The doctor: clues in the text of logs, faults, the weighing of causes, pairs, and changes of level."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.bench import doctor_cases as made

from nhalf.catalog import store
from nhalf.collective import Mode, Op
from nhalf.doctor import history, pairs
from nhalf.doctor.advice import ADVICE
from nhalf.doctor.clues import SURE, Clue, Facts, clues, of_matrix
from nhalf.doctor.diagnosis import Case, weighed
from nhalf.doctor.examination import Examination, examined
from nhalf.doctor.faults import FAULTS, UNKNOWN, Fault, effect
from nhalf.doctor.yardstick import Known, bus_ceiling, is_across, yardstick
from nhalf.evidence.fit import fit
from nhalf.evidence.readers import topo
from nhalf.evidence.table import Point, Table

if TYPE_CHECKING:
    from nhalf.evidence.curvefit import CurveFit


def curve(rows: list[tuple[int, float]], *, ranks: int = 8, nodes: int = 1, op: Op = Op.ALL_REDUCE) -> CurveFit:
    """Return the curve of rows of bytes and microseconds."""
    points = tuple(Point(size_bytes=float(size), seconds=time * 1e-6) for size, time in rows)
    table = Table(file="run", tool="nccl-tests", op=op, ranks=ranks, nodes=nodes, mode=Mode.HOST,
                  quantity="back_to_back", points=points)  # fmt: skip
    return fit([table]).curves[0]


def known(name: str) -> Known:
    system, origins = store.system(name, curves=True)
    library = store.library("nccl", architecture=system.device.architecture)[0]
    return Known(system=system, origins=origins, library=library, sockets=store.transport("tcp")[0])


@pytest.mark.parametrize(
    ("line", "code", "side"),
    [
        ("a:1:1 [0] NCCL INFO Using network Socket", "tcp", 1),
        ("a:1:1 [0] NCCL INFO Using network IB", "tcp", -1),
        ("a:1:1 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/Socket/0", "tcp", 1),
        ("a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0", "no-gdr", 1),
        ("a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA", "no-gdr", -1),
        ("a:1:1 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'", "no-gdr", 1),
        ("a:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", "host-bounce", 1),
        ("a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "host-bounce", -1),
        ("a:1:1 [0] NCCL INFO NVLS multicast support is not available on dev 0", "nvls-off", 1),
        ("a:1:1 [0] NCCL INFO NVLS multicast support is available on dev 0", "nvls-off", -1),
        ("a:1:1 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.", "host-bounce", 1),
        ("NCCL_PROTO=LL", "protocol-capped", 1),
        ("NCCL_ALGO=Ring", "nvls-off", 1),
        ("a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>", "rails", 1),
        ("\t\tRate: 200", "half-speed-link", 1),
        ("\t\tactive_mtu:\t\t1024 (3)", "mtu", 1),
        ("LnkSta: Speed 16GT/s (downgraded), Width x16", "half-speed-link", 1),
    ],
)
def test_a_line_speaks_for_or_against_a_cause(line: str, code: str, side: int) -> None:
    found = [clue for clue in clues(Facts().take(line), nics_per_node=8.0, nic_gbit=400.0) if clue.code == code]
    assert len(found) == 1
    assert found[0].weight * side > 0


@pytest.mark.parametrize(
    "line",
    ["NCCL_ALGO=Ring,Tree,NVLS", "NCCL_PROTO=Simple", "NCCL_IB_DISABLE=0", "Rate: 400", "active_mtu: 4096 (5)",
     "Out of bounds values : 0 OK"],
)  # fmt: skip
def test_a_harmless_line_says_nothing(line: str) -> None:
    assert clues(Facts().take(line), nics_per_node=8.0, nic_gbit=400.0) == []


def test_a_matrix_without_nvlink_or_near_nics_is_a_clue() -> None:
    text = "\tGPU0\tGPU1\tNIC0\nGPU0\tX\tSYS\tSYS\nGPU1\tSYS\tX\tPIX\nNIC0\tSYS\tPIX\tX\n"
    found = {clue.code: clue.text for clue in of_matrix(topo.read(text), nvlinked=True, nics_per_node=8.0)}
    assert {"host-bounce", "nic-affinity", "rails"} == set(found)
    assert found["nic-affinity"].startswith("GPU0 reaches")
    near = text.replace("GPU0\tX\tSYS\tSYS", "GPU0\tX\tNV4\tPIX").replace("GPU1\tSYS", "GPU1\tNV4")
    assert of_matrix(topo.read(near), nvlinked=True, nics_per_node=1.0) == []


def test_every_cause_has_words_and_a_remedy() -> None:
    codes = {fault.code for fault in FAULTS} - {UNKNOWN}
    assert codes | {"slow-pair", "waiting", "normal"} == set(ADVICE)
    assert all(advice.try_ for code, advice in ADVICE.items() if code != "normal")


def test_a_fault_works_on_the_fixed_time_and_on_the_bytes() -> None:
    healthy = made.inside("h100-sxm")
    measure = yardstick(curve(healthy.rows), known("h100-sxm"))
    assert measure is not None
    sizes = np.array([size for size, _ in healthy.rows], dtype=float)
    factor, gradients, variances = effect(sizes, measure, [Fault(code="x", odds=1.0, fixed=2.0, bytes_=4.0)])
    assert np.exp(factor[0]) == pytest.approx(2.0, rel=0.02)
    assert np.exp(factor[-1]) == pytest.approx(4.0, rel=0.02)
    assert gradients.sum(axis=0) == pytest.approx(np.ones(len(sizes)))
    assert len(variances) == 2


@pytest.mark.parametrize("system", ["h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm"])
def test_the_catalogues_own_curve_is_normal(system: str) -> None:
    readings, odds, _ = examined([curve(made.inside(system).rows)], known(system), ())
    assert odds is not None
    assert odds > 0.9
    assert readings[0].share_of_measured == pytest.approx(1.0, abs=0.01)


def test_faster_than_usual_is_no_symptom_and_beyond_twice_the_links_is_no_measurement() -> None:
    healthy = made.inside("h100-sxm")
    quick = [(size, time / 1.5) for size, time in healthy.rows]
    assert (examined([curve(quick)], known("h100-sxm"), ())[1] or 0.0) > 0.8
    impossible = [(size, 4.0) for size, _ in healthy.rows]
    _, odds, causes = examined([curve(impossible)], known("h100-sxm"), ())
    assert odds is not None
    assert odds < 0.01
    assert causes[0].code == "host-timed"


def test_the_trays_of_a_rack_are_no_nodes() -> None:
    system = store.system("gb200-nvl72")[0]
    assert not is_across(curve([(2**20, 40.0)], ranks=16, nodes=4), system)
    assert is_across(curve([(2**20, 40.0)], ranks=144, nodes=36), system)
    assert is_across(curve([(2**20, 40.0)], ranks=8, nodes=2), store.system("h100-sxm")[0])


def test_an_all_to_all_sends_over_the_nics_only_what_leaves_its_node() -> None:
    rows = [(2**30, 1e4), (2**31, 2e4)]
    system = store.system("h100-sxm")[0]
    over = bus_ceiling(curve(rows, ranks=16, nodes=2, op=Op.ALL_TO_ALL), system)
    assert over == pytest.approx(50e9 * (15 / 16) / (1 / 2))
    assert bus_ceiling(curve(rows, ranks=16, nodes=2), system) == pytest.approx(400e9)
    assert bus_ceiling(curve(rows, ranks=8, op=Op.ALL_TO_ALL), system) == pytest.approx(450e9)


@pytest.mark.parametrize(("times", "wrong"), [(1.9, False), (2.2, True)])
def test_twice_the_links_is_the_end_of_what_can_be(times: float, wrong: bool) -> None:  # noqa: FBT001
    rows = [(size, max(6.0, 1e6 * size * 1.75 / (times * 450e9))) for size in made.SIZES]
    causes = examined([curve(rows)], known("h100-sxm"), ())[2]
    assert (causes[0].code == "host-timed") is wrong


@pytest.mark.parametrize(("times", "apart"), [(1.3, False), (2.0, True)])
def test_runs_of_the_same_that_differ_speak_for_other_jobs(times: float, apart: bool) -> None:  # noqa: FBT001
    healthy = made.inside("h100-sxm")
    runs = [curve(healthy.rows), curve([(size, time * times) for size, time in healthy.rows])]
    causes = {cause.code: cause for cause in examined(runs, known("h100-sxm"), ())[2]}
    assert any("runs of the same" in text for text in causes["other-jobs"].for_) is apart


@pytest.mark.parametrize(
    ("odds", "normal"), [(0.6, True), (0.51, True), (0.49, None), (0.26, None), (0.24, False), (None, None)]
)
def test_odds_decide_what_is_normal(odds: float | None, normal: bool | None) -> None:  # noqa: FBT001
    assert Examination(system="h100-sxm", normal_odds=odds).normal is normal


@pytest.mark.parametrize(("count", "side"), [(8, -1), (5, -1), (4, 1), (1, 1)])
def test_half_of_the_nics_and_fewer_speak_for_rails(count: int, side: int) -> None:
    line = "NET/IB : Using " + " ".join(f"[{place}]mlx5_{place}:1/IB" for place in range(count)) + " [RO]; OOB eth0"
    (clue,) = clues(Facts().take(line), nics_per_node=8.0, nic_gbit=400.0)
    assert clue.weight * side > 0


def test_a_clue_decides_between_faults_that_look_alike() -> None:
    healthy = made.across()[0]
    rows = made.capped(healthy, 0.5 * healthy.nics)
    of = known(healthy.system)
    case = curve(rows, ranks=healthy.ranks, nodes=healthy.nodes)
    port = clues(Facts().take("Rate: 100"), nics_per_node=8.0, nic_gbit=200.0)
    assert examined([case], of, port)[2][0].code == "half-speed-link"
    few = clues(Facts().take(made.IB.split(" [4]")[0]), nics_per_node=8.0, nic_gbit=200.0)
    assert examined([case], of, few)[2][0].code == "rails"


def test_of_two_faults_at_once_the_other_stays_once_one_is_gone() -> None:
    healthy, one_known = made.inside("h100-sxm"), known("h100-sxm")
    both = [fault for fault in FAULTS if fault.code in ("half-speed-link", "nvls-off") and fault.where == "node"]
    measure = yardstick(curve(healthy.rows), one_known)
    assert measure is not None
    factors = np.exp(effect(curve(healthy.rows).fitted_points[0], measure, both)[0])
    rows = [(size, time * factor) for (size, time), factor in zip(healthy.rows, factors, strict=True)]
    said = [Clue(code=code, weight=SURE, text="") for code in ("half-speed-link", "nvls-off")]
    _, _, causes = examined([curve(rows)], one_known, said)
    left = {cause.code: cause.left for cause in causes}
    assert left["half-speed-link"][1] == pytest.approx(1.3, rel=0.1)
    assert left["nvls-off"][1] == pytest.approx(2.0, rel=0.1)
    assert left["half-speed-link"][0] == pytest.approx(1.0, abs=0.05)


def test_several_curves_of_one_machine_count_as_fewer() -> None:
    healthy = made.inside("h100-sxm")
    slow = curve([(size, time * (1.15 if size > 2**22 else 1.0)) for size, time in healthy.rows])
    measure = yardstick(slow, known("h100-sxm"))
    assert measure is not None
    case = Case.of(slow, measure, across=False)
    alone, together = weighed([case], ())[0], weighed([case] * 4, ())[0]
    assert together < alone
    assert np.log(1 / together) < 4 * np.log(1 / alone) + 3


def matrix_of(slow: dict[tuple[int, int], float], **more: float) -> pairs.Matrix:
    """Return the matrix of made pairs of eight nodes, two runs of each but for `runs`."""
    rng, found = random.Random(3), []  # noqa: S311  no secret
    for one in range(8):
        for other in range(one + 1, 8):
            factor = slow.get((one, other), 1.0) * (more.get("bad", 1.0) if one == 2 or other == 2 else 1.0)
            for _ in range(int(more.get("runs", 2))):
                rows = [(size, factor * size / 46e3 * rng.lognormvariate(0, 0.01)) for size in (2**25, 2**27)]
                found.append(((f"n{one}", f"n{other}"), curve(rows, ranks=2, nodes=2, op=Op.SEND_RECV)))
    (only,) = pairs.matrices(found)
    return only


def test_slow_pairs_are_found_and_no_others() -> None:
    found = matrix_of({(1, 4): 1.2, (4, 6): 1.5})
    assert {pair.ends for pair in found.slow} == {("n1", "n4"), ("n4", "n6")}
    assert found.common == "n4"
    assert found.pairs[0].ratio == pytest.approx(1.5, rel=0.03)
    assert matrix_of({(0, 1): 1.3, (2, 3): 1.3, (0, 4): 1.3}).common == ""
    assert matrix_of({}).slow == ()
    assert matrix_of({(1, 4): 1.05}).slow == ()


def test_a_slow_node_is_named_and_its_pairs_are_not() -> None:
    found = matrix_of({}, bad=1.3)
    assert [name for name, _ in found.slow_ends] == ["n2"]
    assert found.slow_ends[0][1] == pytest.approx(1.3, rel=0.05)
    assert found.slow == ()


def test_a_pair_without_a_repeat_has_no_verdict() -> None:
    found = matrix_of({(1, 4): 1.5}, runs=1)
    assert found.slow == ()
    assert [pair.ends for pair in found.pairs if pair.slow is None] == [("n1", "n4")]


@pytest.mark.parametrize(
    ("file", "ends"),
    [
        ("nccl_N2_G1_cnode2-001_cnode2-002.log", ("cnode2-001", "cnode2-002")),
        ("logs/node07-node03.txt", ("node03", "node07")),
        ("a1__a2.run1.txt", ("a1", "a2")),
        ("host1-to-host2.log.gz", ("host1", "host2")),
        ("all_reduce.txt", None),
        ("run-2026-11-03.log", None),
    ],
)
def test_the_name_of_a_file_names_its_ends(file: str, ends: pairs.Ends | None) -> None:
    one = curve([(1024, 10.0), (2048, 11.0)])
    series = replace(one.series, key=replace(one.series.key, file=file))
    assert pairs.ends_of(replace(one, series=series)) == ends


def dated(factors: list[float], versions: list[str]) -> list[history.Dated]:
    """Return one run a day whose bandwidth is divided by a factor."""
    return [
        history.Dated(
            day=f"2026-11-{day:02d}", version=version,
            curve=curve([(2**power, 20.0 + factor * 2**power / 200e3) for power in range(10, 30)]),
        )
        for day, (factor, version) in enumerate(zip(factors, versions, strict=True), start=1)
    ]  # fmt: skip


def test_a_change_of_level_has_its_day_and_versions() -> None:
    rng = random.Random(5)  # noqa: S311  no secret
    factors = [rng.lognormvariate(0, 0.01) * (1.0 if day < 6 else 1.3) for day in range(12)]
    (found,) = history.changes(dated(factors, ["2.18"] * 6 + ["2.21"] * 6))
    assert (found.day, found.version_before, found.version_after) == ("2026-11-07", "2.18", "2.21")
    assert found.value == "bandwidth"
    assert found.ratio == pytest.approx(1 / 1.3, rel=0.03)


def test_the_last_run_alone_is_told_and_no_single_one_before() -> None:
    rng = random.Random(5)  # noqa: S311  no secret
    factors = [rng.lognormvariate(0, 0.01) for _ in range(8)]
    (found,) = history.changes(dated([*factors, 1.3], [""] * 9))
    assert (found.day, found.runs_after) == ("2026-11-09", 1)
    assert history.changes(dated([1.0, 1.0, 1.0, 1.3], [""] * 4)) == []


def test_noise_a_single_bad_day_and_a_small_step_are_no_change() -> None:
    rng = random.Random(6)  # noqa: S311  no secret
    noise = [rng.lognormvariate(0, 0.02) for _ in range(12)]
    assert history.changes(dated(noise, [""] * 12)) == []
    spike = [1.5 if day == 5 else 1.0 + day * 1e-3 for day in range(12)]
    assert history.changes(dated(spike, [""] * 12)) == []
    assert history.changes(dated([1.0] * 6 + [1.08] * 6, [""] * 12)) == []

"""Cluster files: a log goes in, what was measured reaches the step, and everything says whether it was used."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.cli.command import detailed, invoke, refused

import nhalf
from nhalf.breakdown import columns
from nhalf.catalog import store
from nhalf.collective import Mode, Op
from nhalf.errors import InputError
from nhalf.layout import Group
from nhalf.predict.communication import collective

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.curve import MeasuredCurve

SIZES = [2**power for power in range(3, 31)]
ROOT = Path(__file__).parents[2]
STEP = ("decode", "llama-3.1-70b", "--tp")
A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"


def log(  # noqa: PLR0913  what a log says
    path: Path,
    time_s: Callable[[float], float],
    *,
    ranks: int = 4,
    nodes: int = 1,
    graph: int = 0,
    device: str = A100,
    gpus: int = 1,
    sizes: list[int] = SIZES,
    day: str = "",
) -> str:
    """Write the log of an all-reduce of nccl-tests, and return its name."""
    lines = [
        f"# nThread 1 nGpus {gpus} minBytes 8 maxBytes 1073741824 iters: 20 agg iters: 1 validation: 1 graph: {graph}",
        "# nccl-tests version 2.17.6 nccl-headers=22707 nccl-library=22707",
        "# Collective test starting: all_reduce_perf",
        "# Using devices",
    ]
    per_node = ranks // nodes
    lines += [
        f"#  Rank {rank:2} Group  0 Pid {rank} on node-{rank // per_node} device {rank % per_node:2} [0x00] {device}"
        for rank in range(ranks)
    ]
    lines.append("#       size         count      type   redop    root     time   algbw   busbw #wrong")
    for size in sizes:
        seconds = time_s(size)
        rate = size / seconds / 1e9
        lines.append(
            f"{size:12d} {size // 4:13d}     float     sum      -1 {1e6 * seconds:.6g} {rate:.6g} "
            f"{rate * 2 * (ranks - 1) / ranks:.6g}      0"
        )
    lines.append("# Out of bounds values : 0 OK")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if day:
        stamp = np.datetime64(day).astype("datetime64[s]").astype(int)
        os.utime(path, (int(stamp), int(stamp)))
    return str(path)


def line(floor_us: float, rate_gb_s: float = 150.0) -> Callable[[float], float]:
    return lambda size: floor_us * 1e-6 + size / (rate_gb_s * 1e9)


def flat(floor_us: float) -> Callable[[float], float]:
    return lambda _: floor_us * 1e-6


def cluster(folder: Path, name: str, *logs: str, like: str = "") -> str:
    target = str(folder / name)
    result = invoke("fit", *logs, "-o", target, *(["--like", like] if like else []))
    assert result.code == 0, result.err
    return target


def collectives_s(system: str, tp: int, **choices: Any) -> float:  # noqa: ANN401
    owed = columns(nhalf.decode(nhalf.load("llama-3.1-70b", on=system, tp=tp, **choices)))
    return float(owed["collective_fixed"] + owed["collective_transfer"])


def isolated(scenario: nhalf.Scenario, ranks: int) -> float:
    return float(np.mean(collective(scenario, Op.ALL_REDUCE, Group(ranks=ranks), 16384.0).value))


def own(system: str) -> list[MeasuredCurve]:
    return [curve for curve in store.system(system, curves=True)[0].curves if curve.own]


def test_a_graph_log_with_a_floor_of_80_us_costs_a_step_12_8_ms(tmp_path: Path) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", flat(80), graph=20, sizes=SIZES[:18]))
    assert store.system(mine)[0].like == "a100-sxm"  # by the device that the log names
    scenario = nhalf.load("llama-3.1-70b", on=mine, tp=4)
    excess = 160 * scenario.stack.collective_excess_s
    assert collectives_s(mine, 4) == pytest.approx(12.8e-3 + excess, abs=20e-6)  # the logits are gathered once
    assert excess == pytest.approx(0.7e-3, rel=0.01)
    told = " ".join(detailed(*STEP, "4", "--on", mine).out.split())
    assert f"--on {mine} all-reduce x4 of nccl, the rest as a100-sxm: measured with nccl 2.27.7, run.log," in told
    assert "--library nccl: measured there; vllm's own kernel was not, and is never inferred: --library vllm" in told
    brief = " ".join(invoke(*STEP, "4", "--on", mine).out.split())
    assert f"from {mine}: all-reduce x4 of nccl, the rest as a100-sxm." in brief


@pytest.mark.parametrize("mode", ["graph", "host"])
def test_random_clusters_come_back_to_one_per_cent(mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    for number in range(15):
        floor_s, rate = 10 ** random.uniform(-5, -3.5), 10 ** random.uniform(10, 11.6)
        ranks = int(random.choice([2, 4, 8]))
        name = log(tmp_path / f"{number}.log", line(1e6 * floor_s, 1e-9 * rate),
                   ranks=ranks, graph=20 * (mode == "graph"), device=H100)  # fmt: skip
        mine = cluster(tmp_path, f"{number}-{mode}.toml", name)
        (curve,) = own(mine)
        assert (curve.key.op, curve.key.mode, curve.key.whose) == (
            Op.ALL_REDUCE,
            Mode.parse(mode, where=""),
            "nccl 2.27.7",
        )
        assert curve.floor_s(ranks) == pytest.approx(floor_s, rel=0.01)
        through = curve.line(ranks)
        assert through.latency_s == pytest.approx(floor_s, rel=0.01)
        assert through.half_size_bytes == pytest.approx(floor_s * rate, rel=0.01)
        excess = 160 * nhalf.load("llama-3.1-70b", on=mine, tp=ranks).stack.collective_excess_s
        imposed = 160 * (floor_s + 16384 / rate)
        # The gathered logits are as of the like system, and small.
        assert collectives_s(mine, ranks, mode="graph") - excess == pytest.approx(imposed, rel=0.01, abs=60e-6)


def test_the_engines_own_kernel_is_never_inferred_and_that_is_said(tmp_path: Path) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", line(80), graph=20))
    theirs = collectives_s("a100-sxm", 4, library="vllm")
    assert collectives_s(mine, 4, library="vllm") == pytest.approx(theirs)
    told = " ".join(detailed(*STEP, "4", "--on", mine, "--library", "vllm").out.split())
    assert "curves of nccl are not used: a kernel of vllm is never inferred from them" in told
    assert invoke(*STEP, "4", "--on", mine, "--library", "vllm", "--json").document["rows"][0]["kind"] == "modelled"


def test_a_host_log_stands_in_for_a_graph_and_eager_adds_its_launches(tmp_path: Path) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", line(30)))
    graph, eager = (collectives_s(mine, 4, mode=mode) for mode in ("graph", "eager"))
    assert graph == pytest.approx(160 * 30.1e-6 + 160 * 4.4e-6, rel=0.02)
    assert eager - graph == pytest.approx(160 * 3.7 * 5e-6, rel=0.05)
    assert "in host mode, taken as it is in graph mode" in " ".join(detailed(*STEP, "4", "--on", mine).out.split())


def test_one_process_for_all_gpus_is_an_upper_bound(tmp_path: Path) -> None:
    several = cluster(tmp_path, "a.toml", log(tmp_path / "a.log", line(30)))
    alone = cluster(tmp_path, "b.toml", log(tmp_path / "b.log", line(30), gpus=4))
    one, other = (invoke(*STEP, "4", "--on", each, "--json").document["rows"][0] for each in (several, alone))
    assert one["step_s"] == other["step_s"]
    assert other["low_s"] < one["low_s"]
    assert other["high_s"] == pytest.approx(one["high_s"], rel=0.01)
    told = " ".join(detailed(*STEP, "4", "--on", alone).out.split())
    assert "one process drove all GPUs, so an upper bound: run it with a process a GPU" in told
    # Where both are in the file, a process a rank stands.
    both = cluster(tmp_path, "a.toml", str(tmp_path / "b.log"))
    assert invoke(*STEP, "4", "--on", both, "--json").document["rows"][0]["low_s"] == one["low_s"]


def test_other_rank_counts_and_nodes_move_with_what_was_measured(tmp_path: Path) -> None:
    known = store.system("h100-sxm", curves=True)[0].curves
    nccl = next(
        each for each in known if (each.key.library, each.key.op, each.key.mode) == ("nccl", Op.ALL_REDUCE, Mode.HOST)
    )
    twice = lambda size: 2 * float(nccl.time_s(float(size), 8))  # noqa: E731
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "x8.log", twice, ranks=8, device=H100))
    (curve,) = own(mine)
    assert curve.ranks == (2, 4, 8)
    assert not curve.is_measured(4)
    assert float(curve.time_s(16384.0, 4)) == pytest.approx(2 * float(nccl.time_s(16384.0, 4)), rel=0.15)
    across = log(tmp_path / "x16.log", line(120, 80), ranks=16, nodes=2, device=H100)
    cluster(tmp_path, "mine.toml", across)
    at = {tp: collectives_s(mine, tp) for tp in (8, 16, 32)}
    assert at[16] == pytest.approx(160 * 120.2e-6 + 160 * 4.4e-6, rel=0.02)
    plain = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, library="nccl")
    curved = nhalf.load("llama-3.1-70b", on=mine, tp=8)
    law, moved = ([isolated(each, ranks) for ranks in (16, 32)] for each in (plain, curved))
    assert moved[1] / moved[0] == pytest.approx(law[1] / law[0], rel=0.15)  # the floor inside a node is its own
    rows = invoke("collective", "all-reduce", "--on", mine, "--ranks", "32", "--sizes", "16KiB", "--json").document[
        "rows"
    ]
    asked = next(row["time_s"] for row in rows if row["kind"] != "law")
    assert asked == pytest.approx((at[32] - 160 * 4.4e-6) / 160, rel=0.02)


def test_what_was_measured_on_as_many_ranks_comes_before_what_is_moved(tmp_path: Path) -> None:
    graph = log(tmp_path / "x8.log", line(50), ranks=8, graph=20)
    host = log(tmp_path / "x4.log", line(30), ranks=4)
    mine = cluster(tmp_path, "mine.toml", graph, host)
    at = [isolated(nhalf.load("llama-3.1-70b", on=mine, tp=8), ranks) for ranks in (4, 8)]
    assert at == pytest.approx([30e-6, 50e-6], rel=0.01)


def test_more_logs_join_the_file_and_it_is_said_how(tmp_path: Path) -> None:
    first = log(tmp_path / "a.log", line(80), day="2026-11-01")
    mine = cluster(tmp_path, "mine.toml", first)
    assert "a.log is in the file already" in invoke("fit", first, "-o", mine).out
    again = log(tmp_path / "b.log", line(90), day="2026-11-01")
    told = " ".join(invoke("fit", again, "-o", mine).out.split())
    assert "pooled with that of a.log, of the same day (12 % slower)" in told
    (curve,) = own(mine)
    assert curve.floor_s(4) == pytest.approx(math.sqrt(80 * 90) * 1e-6, rel=1e-3)
    later = log(tmp_path / "c.log", line(40), day="2026-11-09")
    told = " ".join(invoke("fit", later, "-o", mine).out.split())
    assert " % faster), the newest stands" in told
    (curve,) = own(mine)
    assert curve.floor_s(4) == pytest.approx(40e-6, rel=1e-3)
    listed = " ".join(invoke("catalog", "system", mine).out.split())
    assert "all-reduce x4 of nccl 2.27.7, host, 2026-11-09: a process a GPU, 28 sizes, 8 B to 1 GiB" in listed
    assert "all-reduce x4 of nccl 2.27.7, host, 2026-11-01" in listed


def test_comments_at_the_top_and_values_by_hand_stay(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('# our rack\nlike = "h100-sxm"\n[fabric.intra_node]\nlatency = "2 us"\n', encoding="utf-8")
    cluster(tmp_path, "mine.toml", log(tmp_path / "a.log", line(80), device=H100))
    text = file.read_text(encoding="utf-8")
    assert text.startswith('# our rack\nlike = "h100-sxm"\n')
    system, origins = store.system(str(file))
    assert system.fabric.intra_node.latency_s == 2e-6
    assert origins["system.fabric.intra_node.latency_s"].kind == "given"
    assert origins["system.fabric.intra_node.latency_s"].source == "mine.toml"


def test_a_saved_scenario_finds_the_file_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", line(80), graph=20))
    saved = tmp_path / "saved.toml"
    before = invoke(*STEP, "4", "--on", mine, "--save", str(saved), "--json").document["rows"][0]["step_s"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert invoke("decode", str(saved), "--json").document["rows"][0]["step_s"] == before


def test_the_users_catalogue_may_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = cluster(tmp_path, "rack-7.toml", log(tmp_path / "run.log", line(80), graph=20))
    linked = '\n[fabric.intra_node.latency]\nvalue = "2 us"\nsource = "p2p.log"\nlocator = "x"\nkind = "fitted"\n'
    Path(mine).write_text(Path(mine).read_text(encoding="utf-8") + linked, encoding="utf-8")
    named = invoke(*STEP, "4", "--on", mine, "--json").document["rows"][0]["step_s"]
    monkeypatch.setenv("NHALF_CATALOG", mine)
    assert invoke(*STEP, "4", "--on", "rack-7", "--json").document["rows"][0]["step_s"] == named


@pytest.mark.parametrize(
    "command",
    [
        ("decode", "llama-3.1-70b", "--tp", "4"),
        ("crossover", "llama-3.1-70b", "--tp", "4"),
        ("plan", "llama-3.1-70b", "--gpus", "8"),
        ("buy", "llama-3.1-70b", "--tp", "4", "--batch", "1"),
        ("whatif", "llama-3.1-70b", "--tp", "4", "--batch", "1"),
        ("compare", "llama-3.1-70b", "--layout", "tp=4", "--layout", "tp=8"),
        ("sweep", "llama-3.1-70b", "--axis", "tp=2,4"),
        ("collective", "all-reduce", "--ranks", "4"),
    ],
)
def test_every_command_takes_it_and_its_document_says_what_came_from_it(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", line(80), graph=20))
    flags = [] if command[0] == "collective" else ["--library", "nccl"]
    found = invoke(*command, "--on", mine, *flags, "--json").document
    taken = found["defaults"] if "defaults" in found else found["systems"][0]["defaults"]
    assert any(each["flag"] == f"--on {mine}" and "all-reduce x4 of nccl" in each["value"] for each in taken)


@pytest.mark.parametrize("tp", [4, 8])
def test_one_measured_number_moves_the_curve_of_its_key(tp: int) -> None:
    asked = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", str(tp))
    before = invoke(*asked, "--json").document
    moved = invoke(*asked, "--measured", "all-reduce 16KiB x8 = 72us", "--json").document
    ratio = 72e-6 / isolated(nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8), 8)
    fixed = [found["rows"][0]["collective_fixed_s"] - 160 * 4.4e-6 for found in (before, moved)]
    assert fixed[1] / fixed[0] == pytest.approx(ratio, rel=0.1)
    assert moved["rows"][0]["kind"] == "modelled"
    assert any(each["flag"] == "--measured" for each in moved["defaults"])


def test_a_measured_number_across_nodes_moves_the_law() -> None:
    scenario = nhalf.load("llama-3.1-70b", on="h100-sxm", tp=16, measured="all-reduce 16KiB x16 = 99us")
    owed = columns(nhalf.decode(scenario))
    excess = 160 * scenario.stack.collective_excess_s
    assert float(owed["collective_fixed"] + owed["collective_transfer"]) - excess == pytest.approx(
        160 * 99e-6, rel=0.02
    )


@pytest.mark.parametrize(
    "text",
    ["all-reduce 16KiB = 7us", "16KiB x8 = 7us", "all-reduce 16 x8 = 7us", "fuse 1KiB x8 = 7us",
     "all-reduce 16KiB x1 = 7us", "all-reduce 16KiB x8 = 0s"],
)  # fmt: skip
def test_a_measured_number_that_is_none_is_refused(text: str) -> None:
    assert "--measured" in refused("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--measured", text)


def test_a_kernel_44_us_faster_saves_7_ms_of_160_calls(tmp_path: Path) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", flat(67), graph=20, sizes=SIZES[:18]))
    options = ["--option", "all-reduce=-44us", "--option", "all-reduce=23us", "--option", "all-reduce=x0.5"]
    found = invoke("whatif", "llama-3.1-70b", "--on", mine, "--tp", "4", "--batch", "1", *options, "--json").document
    less, to, half = ((each["step_before_s"] - each["step_after_s"]) * 1e3 for each in found["options"])
    assert less == pytest.approx(7.04, rel=1e-3)
    assert to == pytest.approx(7.04, rel=1e-3)
    assert half == pytest.approx(160 * 33.5e-3, rel=1e-3)


def test_no_kernel_is_faster_than_its_bytes() -> None:
    asked = ("whatif", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--batch", "4096", "--context", "1")
    (option,) = invoke(*asked, "--option", "all-reduce=-1s", "--json").document["options"]
    assert 0 < option["gain"] < 0.5
    assert "more than 0s" in refused(*asked, "--option", "all-reduce=0s")


def test_a_step_known_by_its_numbers() -> None:
    asked = ("whatif", "--step", "52ms", "--calls", "100", "--each", "59us")
    found = invoke(
        *asked, "--option", "each=23us", "--option", "each=8.8us", "--link", "5us,400GB/s", "--json"
    ).document
    assert [each["saved_s"] for each in found["options"]] == pytest.approx([3.6e-3, 5.02e-3])
    assert [each["gain"] for each in found["options"]] == pytest.approx([0.0692, 0.0965], rel=1e-3)
    assert found["software_s"] == pytest.approx(54e-6)
    told = invoke(*asked, "--option", "each=23us", "--option", "each=8.8us").out
    assert "3.6 ms        6.9 %" in told
    assert "each=8.8us saves 5 ms of 52 ms, 9.7 %." in told
    assert "no more than it" in refused("whatif", "--step", "5ms", "--calls", "100", "--each", "59us")
    assert "--calls is missing" in refused("whatif", "--step", "5ms")
    assert "it is of a model" in refused(*asked, "--tp", "4", "--option", "each=23us")
    assert "leave MODEL or it out" in refused("whatif", "llama-3.1-70b", "--on", "h100-sxm", "--step", "5ms")


def test_a_trace_brings_the_excess_in_the_model(tmp_path: Path) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", flat(80), graph=20, sizes=SIZES[:18]))
    text = Path(mine).read_text(encoding="utf-8")
    traced = '\n[[in_model]]\nop = "all-reduce"\nsize = "16 KiB"\nranks = 4\ntime = "91 us"\nfile = "r0.json"\n'
    Path(mine).write_text(text + traced, encoding="utf-8")
    scenario = nhalf.load("llama-3.1-70b", on=mine, tp=4)
    assert scenario.stack.collective_excess_s == pytest.approx(11e-6, rel=0.02)
    assert scenario.origins["stack.collective_excess_s"].kind == "measured"
    assert "the excess in the model" in invoke(*STEP, "4", "--on", mine).out.replace("\n", " ")


def test_topo_trace_and_calibrate_write_into_the_same_file(tmp_path: Path) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", line(80), graph=20))
    matrix = tmp_path / "matrix.txt"
    names = [f"GPU{place}" for place in range(4)]
    rows = ["\t".join([row, *(" X " if row == column else "NV12" for column in names)]) for row in names]
    matrix.write_text("\n".join(["\t".join(["", *names]), *rows]) + "\n", encoding="utf-8")
    assert invoke("topo", str(matrix), "-o", mine).code == 0  # an NV12 is as fast as in the like system
    assert invoke("trace", str(ROOT / "tests" / "golden" / "trace" / "tp2_slow1"), "-o", mine).code == 0
    runs = tmp_path / "runs.csv"
    head = "model,system,engine,weight_dtype,isl,osl,concurrency,tp,tpot_s\n"
    cells = [f"llama-3.1-70b,a100-sxm,vllm,fp8,1024,512,{load},4,{time}\n" for load, time in ((1, 0.03), (16, 0.04))]
    runs.write_text(head + "".join(cells), encoding="utf-8")
    assert invoke("calibrate", str(runs), "-o", mine).code == 0
    system = store.system(mine, curves=True)[0]
    assert system.fabric.devices_per_node == 4
    assert [curve.key.op for curve in system.curves if curve.own] == [Op.ALL_REDUCE]
    brief = invoke(*STEP, "4", "--on", mine).out.replace("\n", " ")
    assert "all-reduce x4 of nccl, constants of the stack, the excess in the model, the rest as a100-sxm" in brief
    assert "is in the file already" in invoke("fit", str(tmp_path / "run.log"), "-o", mine).out


def test_a_stack_file_becomes_a_cluster_when_a_log_joins_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    origin = 'source = "runs"\nkind = "fitted"\nlocator = "x"\ndate = "2026-12-01"\n'
    file.write_text(f'[constants.layer_time]\nvalue = "50 us"\n{origin}', encoding="utf-8")
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", line(80), graph=20))
    assert nhalf.load("llama-3.1-70b", on=mine, tp=4).stack.layer_time_s == 50e-6
    assert len(own(mine)) == 1


def test_constants_of_a_stack_are_taken_unless_another_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    text = 'like = "h100-sxm"\n[band]\nlow = 0.9\nhigh = 1.2\n[constants]\nlayer_time = "50 us"\n'
    file.write_text(text, encoding="utf-8")
    scenario = nhalf.load("llama-3.1-70b", on=str(file), tp=8)
    assert scenario.stack.layer_time_s == 50e-6
    assert scenario.origins["stack.layer_time_s"].source == "mine.toml"
    assert nhalf.load("llama-3.1-70b", on=str(file), tp=8, stack="priors").stack.layer_time_s != 50e-6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no cluster file"),
        ("like = 'h100'\n", "there is no 'h100'"),
        ("like = 'h100-sxm'\n[[measured]]\nop = 'all-reduce'\nranks = 8\npoints = []\n", "it has no points"),
        ("like = 'h100-sxm'\n[[measured]]\nop = 'all-reduce'\nranks = 8\npoints = [['16', '5 us']]\n", "16"),
        (
            "like = 'h100-sxm'\n[[measured]]\nop = 'all-reduce'\nranks = 1\npoints = [['16 KiB', '5 us']]\n",
            "from 2 or more",
        ),
        (
            "like = 'h100-sxm'\n[[measured]]\nop = 'all-reduse'\nranks = 8\npoints = [['16 KiB', '5 us']]\n",
            "all-reduse",
        ),
        ("like = 'h100-sxm'\n[fabrik]\n", "fabrik"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    message = refused("decode", "llama-3.1-70b", "--on", str(file), "--tp", "8")
    assert words in message
    assert "mine.toml" in message


def test_a_file_that_is_not_there_and_one_that_is_no_cluster(tmp_path: Path) -> None:
    assert "there is no file" in refused("decode", "llama-3.1-70b", "--on", str(tmp_path / "none.toml"))
    other = tmp_path / "other.toml"
    other.write_text("[links.x]\n", encoding="utf-8")
    name = log(tmp_path / "run.log", line(80))
    assert "none of a cluster" in refused("fit", name, "-o", str(other))
    plain = log(tmp_path / "plain.log", line(80), device="a device nobody knows")
    assert "add --like h100-sxm" in refused("fit", plain, "-o", str(tmp_path / "new.toml"))


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    mine = cluster(tmp_path, "mine.toml", log(tmp_path / "run.log", flat(80), graph=20, sizes=SIZES[:18]))
    before = collectives_s(mine, 4)
    Path(mine).write_text(Path(mine).read_text(encoding="utf-8").replace("80 us", "40 us"), encoding="utf-8")
    assert before - collectives_s(mine, 4) == pytest.approx(160 * 40e-6, rel=1e-3)


def test_python_says_no_to_a_measured_number_as_the_command_line_does() -> None:
    with pytest.raises(InputError, match="no measured collective"):
        nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, measured="7us")

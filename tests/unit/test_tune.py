"""`nhalf tune`: the plug-in through its ABI, the example's format by a parser of its own, bins, regret and checks."""

from __future__ import annotations

import ctypes
import math
import random
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nhalf.errors import InputError, WeakEvidenceError
from nhalf.tune.bins import Bin, bins, chosen, margin
from nhalf.tune.check import per_token, won
from nhalf.tune.choices import Choice
from nhalf.tune.paths import ALGORITHMS, OPERATIONS, PROTOCOLS, parse
from nhalf.tune.paths import Path as Way
from nhalf.tune.sweeps import Curve, Key, Sweep, sweeps
from nhalf.tune.writing import configuration, environment, experiment, plugin, repeats, unsafe

if TYPE_CHECKING:
    from nhalf.breakdown import Array

PROBES = 10_000
SIZES: Array = np.exp2(np.arange(10.0, 24.0))


def choice(op: str, start: int, end: int, path: Way | None, ranks: int = 16, nodes: int = 2) -> Choice:
    return Choice(key=Key(op, ranks, nodes), bin=Bin(start=start, end=end, path=path), kind="measured", gain_s=None,
                  low_s=None, high_s=None, batches=())  # fmt: skip


def drawn(rng: random.Random, *, leaves: bool) -> list[Choice]:
    """Return choices of every operation on three communicators, with or without sizes that are left."""
    found = []
    for op in OPERATIONS:
        for ranks, nodes in ((8, 1), (16, 2), (64, 8)):
            ends = sorted({rng.randrange(1, 2**34) for _ in range(rng.randrange(1, 6))})
            ways = [Way(a, p) for a in ALGORITHMS for p in PROTOCOLS if Way(a, p).legal(op, nodes)]
            start = 0
            for end in ends:
                left = leaves and rng.random() < 0.3
                found.append(choice(op, start, end, None if left else rng.choice(ways), ranks, nodes))
                start = end + 1
    return found


def probe(rng: random.Random, found: list[Choice]) -> tuple[str, int, int, int, int]:
    """Return an operation, ranks, nodes, bytes (often at a boundary) and whether buffers are registered."""
    ranks, nodes = rng.choice([(8, 1), (16, 2), (64, 8), (16, 1), (4, 4)])
    edge = rng.choice(found).bin
    size = rng.choice([edge.start - 1, edge.start, edge.end, edge.end + 1, rng.randrange(2**35), 2**40])
    return rng.choice(list(OPERATIONS)), ranks, nodes, max(size, 0), rng.randrange(2)


def meant(found: list[Choice], op: str, ranks: int, nodes: int, size: int) -> Way | None:
    return next((each.bin.path for each in found
                 if each.key == (op, ranks, nodes) and each.bin.start <= size <= each.bin.end), None)  # fmt: skip


# ------------------------------------------------------------------------------------------- the plug-in by its ABI

Begin2 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p,
                          ctypes.POINTER(ctypes.c_void_p))  # fmt: skip
Begin5 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint64, ctypes.c_size_t,
                          ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)  # fmt: skip
INT = ctypes.POINTER(ctypes.c_int)
Info2 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                         ctypes.c_int, INT, INT, INT)  # fmt: skip
Info3 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p,
                         ctypes.c_int, ctypes.c_int, INT)  # fmt: skip
Info4 = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p,
                         ctypes.c_int, ctypes.c_int, ctypes.c_int, INT)  # fmt: skip
Finish = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
Chunk = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                         ctypes.c_int, ctypes.POINTER(ctypes.c_size_t))  # fmt: skip
TYPES: dict[int, list[Any]] = {
    2: [Begin2, Info2, Finish], 3: [Begin2, Info3, Finish], 4: [Begin2, Info4, Finish], 5: [Begin5, Info4, Finish],
    6: [Begin5, Info4, Finish, Chunk],
}  # fmt: skip


class Plugin:
    """One version of the ABI of a plug-in, as NCCL would call it."""

    def __init__(self, library: ctypes.CDLL, version: int) -> None:
        names = ("begin", "info", "finish", "chunk")
        fields = list(zip(names, TYPES[version], strict=False))
        layout: Any = type("Layout", (ctypes.Structure,), {"_fields_": [("name", ctypes.c_char_p), *fields]})
        self.version = version
        self.table: Any = layout.in_dll(library, f"ncclTunerPlugin_v{version}")
        self.contexts: dict[tuple[int, int], ctypes.c_void_p] = {}

    def context(self, ranks: int, nodes: int) -> ctypes.c_void_p:
        if (ranks, nodes) not in self.contexts:
            made = ctypes.c_void_p()
            given = (ctypes.byref(made), 7, ranks, nodes, None, None, None) if self.version > 4 else (
                ranks, nodes, None, ctypes.byref(made))  # fmt: skip
            assert self.table.begin(*given) == 0
            self.contexts[ranks, nodes] = made
        return self.contexts[ranks, nodes]

    def ask(self, op: str, ranks: int, nodes: int, size: int, registered: int = 0,
            unusable: frozenset[Way] = frozenset()) -> tuple[Way | None, int]:  # fmt: skip
        """Return the path that is chosen, None for NCCL's own, and the channels."""
        context, channels = self.context(ranks, nodes), ctypes.c_int(0)
        if self.version == 2:
            algorithm, protocol = ctypes.c_int(-1), ctypes.c_int(-1)
            assert self.table.info(context, OPERATIONS[op], size, 1, 1, 1, ctypes.byref(algorithm),
                                   ctypes.byref(protocol), ctypes.byref(channels)) == 0  # fmt: skip
            way = None if algorithm.value < 0 else Way(ALGORITHMS[algorithm.value], PROTOCOLS[protocol.value])
            return way, channels.value
        costs = (ctypes.c_float * 21)(*(10.0 + place for place in range(21)))
        for each in unusable:
            row, column = each.numbers
            costs[3 * row + column] = -1.0
        before = list(costs)
        last = (registered,) if self.version > 3 else ()
        assert self.table.info(context, OPERATIONS[op], size, 1, costs, 7, 3, *last, ctypes.byref(channels)) == 0
        changed = [place for place in range(21) if costs[place] != before[place]]
        assert all(costs[place] == 0.0 for place in changed)
        assert len(changed) <= 1
        return (Way(ALGORITHMS[changed[0] // 3], PROTOCOLS[changed[0] % 3]) if changed else None), channels.value


def built(folder: Path, found: list[Choice]) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    (folder / "nccl_tuner.c").write_text(plugin(found, "a test */ of what\nstands here"))
    library = folder / "libnccl-tuner-nhalf.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", str(library),
                    str(folder / "nccl_tuner.c")], check=True)  # fmt: skip
    return ctypes.CDLL(str(library))


def test_every_probe_gets_the_choice_that_was_meant_through_each_version(tmp_path: Path) -> None:
    rng = random.Random(4)  # noqa: S311  repeated
    found = drawn(rng, leaves=True)
    library = built(tmp_path, found)
    for version in TYPES:
        made = Plugin(library, version)
        for _ in range(PROBES // len(TYPES)):
            op, ranks, nodes, size, registered = probe(rng, found)
            expected = meant(found, op, ranks, nodes, size)
            if version == 2 and expected is not None and expected.algorithm == "pat":
                expected = None  # that version has no word for it
            assert made.ask(op, ranks, nodes, size, registered) == (expected, 0), (version, op, ranks, nodes, size)
        for context in made.contexts.values():
            assert made.table.finish(context) == 0


def test_what_nccl_cannot_run_stays_unusable(tmp_path: Path) -> None:
    way = Way("tree", "ll")
    made = Plugin(built(tmp_path, [choice("all-reduce", 0, 100, way)]), 6)
    assert made.ask("all-reduce", 16, 2, 50) == (way, 0)
    assert made.ask("all-reduce", 16, 2, 50, unusable=frozenset({way})) == (None, 0)
    size = ctypes.c_size_t(4096)
    assert made.table.chunk(made.context(16, 2), 4, 50, 0, 0, 2, ctypes.byref(size)) == 0
    assert size.value == 4096


def test_the_plug_in_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = built(tmp_path, [choice("all-reduce", 0, 100, Way("tree", "ll"))])
    monkeypatch.setenv("NHALF_TUNER_OFF", "1")
    ctypes.CDLL(None).setenv(b"NHALF_TUNER_OFF", b"1", 1)
    try:
        assert Plugin(library, 5).ask("all-reduce", 16, 2, 50) == (None, 0)
    finally:
        ctypes.CDLL(None).unsetenv(b"NHALF_TUNER_OFF")


# --------------------------------------------------------------------------- NVIDIA's example format, read on its own


def example(text: str, op: str, ranks: int, nodes: int, size: int) -> tuple[str, str, int] | None:
    """Return what NVIDIA's example plug-in chooses: the first line that matches; None runs on one channel.

    By the house's note on the format: bounds are in it, -1 is any, words in lower case, 255 characters at most.
    """
    for line in text.splitlines():
        assert len(line) < 255
        if line.startswith("#") or not line:
            continue
        cells = line.split(",")
        assert len(cells) == 10
        assert all(cell and cell == cell.strip().lower() for cell in cells)
        assert cells[3] in ALGORITHMS
        assert cells[4] in PROTOCOLS
        fits = cells[0] == op.replace("-", "") and int(cells[1]) <= size <= int(cells[2])
        if fits and cells[6] in ("-1", str(nodes)) and cells[7] in ("-1", str(ranks)):
            return cells[3], cells[4], int(cells[5])
    return None


def test_the_example_configuration_gives_each_probe_the_choice_that_was_meant() -> None:
    rng = random.Random(5)  # noqa: S311  repeated
    found = drawn(rng, leaves=False)
    text = configuration(found, "a test, " + "with a long head " * 40)
    assert unsafe(found, [each.key for each in found]) == ""
    for _ in range(PROBES):
        op, ranks, nodes, size, _ = probe(rng, found)
        ours = [each for each in found if each.key == (op, ranks, nodes)]
        if not ours:
            continue
        way = meant(found, op, ranks, nodes, size) or ours[-1].bin.path  # beyond the last: without an end
        assert way is not None
        assert example(text, op, ranks, nodes, size) == (way.algorithm, way.protocol, 0)


def test_the_example_configuration_is_refused_where_it_would_run_something_on_one_channel() -> None:
    one = [choice("all-reduce", 0, 100, Way("tree", "ll"))]
    assert "one channel" in unsafe(one, [one[0].key])
    whole = [choice(op, 0, 100, Way("ring", "ll")) for op in OPERATIONS]
    assert unsafe(whole, [each.key for each in whole]) == ""
    whole[2] = choice("all-gather", 0, 100, None)
    assert "left to NCCL" in unsafe(whole, [each.key for each in whole])


# ------------------------------------------------------------------------------------------------------ bins and regret


def swept(
    rng: np.random.Generator, sizes: Array, noise: float = 0.01, runs: int = 5
) -> tuple[Sweep, dict[Way, Any], Any]:
    """Return a made sweep, the true time of each path, and that of the default, which switches where it should not."""
    ways = {
        Way("tree", "ll"): (28 * rng.uniform(0.7, 1.4), 4e3 * rng.uniform(0.6, 1.5)),
        Way("tree", "ll128"): (38 * rng.uniform(0.7, 1.4), 1.2e4 * rng.uniform(0.6, 1.5)),
        Way("ring", "ll"): (42 * rng.uniform(0.7, 1.4), 5e3 * rng.uniform(0.6, 1.5)),
        Way("ring", "simple"): (90 * rng.uniform(0.7, 1.4), 6e4 * rng.uniform(0.6, 1.5)),
    }
    truth = {way: (lambda n, a=a, b=b: 1e-6 * (a + n / b)) for way, (a, b) in ways.items()}
    cut = float(rng.choice(sizes))
    small, large = (list(truth)[int(each)] for each in rng.integers(0, 4, 2))

    def default(n: Any) -> Any:  # noqa: ANN401
        return np.where(np.asarray(n) < cut, truth[small](np.asarray(n)), truth[large](np.asarray(n)))

    def curve(time: Any) -> Curve:  # noqa: ANN401
        drawn = time(sizes) * np.exp(noise * rng.standard_normal((runs, len(sizes)))).mean(axis=0)
        return Curve(size_bytes=sizes, time_s=drawn)

    sweep = Sweep(key=Key("all-reduce", 16, 2), curves={way: curve(time) for way, time in truth.items()},
                  default=curve(default), noise=noise, repeats=runs)  # fmt: skip
    return sweep, truth, default


def midpoints(sweep: Sweep, size: float) -> Way:
    """Return the choice of one bin a size, cut in the middle between neighbours."""
    sizes = next(iter(sweep.curves.values())).size_bytes
    place = int(np.argmin(np.abs(sizes - size)))
    return min(sweep.curves, key=lambda way: float(sweep.curves[way].time_s[place]))


def test_regret_on_sizes_left_out_is_small_and_half_of_that_of_midpoints() -> None:
    rng = np.random.default_rng(7)
    ours, theirs, worst = [], [], 0.0
    for _ in range(60):
        sweep, truth, default = swept(rng, SIZES[::2])
        assert sweep.default is not None
        found = bins(sweep, sweep.default, SIZES[0], SIZES[-2])
        for size in np.geomspace(SIZES[0], SIZES[-2], 160)[1:-1]:
            best = min(float(time(size)) for time in truth.values())
            way, own = chosen(found, round(size)), float(default(size))
            took = own if way is None else float(truth[way](size))
            ours.append(took / min(best, own) - 1.0)
            theirs.append(float(truth[midpoints(sweep, size)](size)) / min(best, own) - 1.0)
            between = abs(math.log2(size) % 2) > 1e-9
            worst = max(worst, took / own - 1.0) if between else worst
    assert np.mean(ours) <= 0.02
    assert np.mean(ours) <= np.mean(theirs) / 2
    assert np.max(ours) <= 0.05
    assert worst <= 0.05


def test_bins_are_few_and_cover_what_was_asked_for() -> None:
    rng = np.random.default_rng(8)
    for _ in range(30):
        sweep, _, _ = swept(rng, SIZES)
        assert sweep.default is not None
        found = bins(sweep, sweep.default, 2000.0, 5e6)
        assert (found[0].start, found[-1].end) == (2000, 5_000_000)
        assert all(one.end + 1 == two.start and one.path != two.path for one, two in pairwise(found))
        assert len(found) <= 8


def test_a_default_that_is_good_enough_is_left() -> None:
    way = Way("tree", "ll")
    times = 1e-5 + SIZES / 1e10
    sweep = Sweep(key=Key("all-reduce", 16, 2), curves={way: Curve(size_bytes=SIZES, time_s=times)},
                  default=Curve(size_bytes=SIZES, time_s=1.005 * times), noise=0.01, repeats=1.0)  # fmt: skip
    assert sweep.default is not None
    assert [each.path for each in bins(sweep, sweep.default, SIZES[0], SIZES[-1])] == [None]
    assert margin(sweep) > 0.005


def test_the_worked_example_cuts_where_the_lines_cross() -> None:
    sizes = np.array([4096.0, 16384, 65536, 262144, 1048576])
    rows = {"tree/ll": [31, 33, 44, 96, 300], "tree/ll128": [38, 39, 43, 62, 130]}
    curves = {parse(name, ""): Curve(size_bytes=sizes, time_s=1e-6 * np.array(row)) for name, row in rows.items()}
    default = Curve(size_bytes=sizes, time_s=1e-6 * np.array([60, 62, 68, 84, 140]))
    sweep = Sweep(key=Key("all-reduce", 16, 2), curves=curves, default=default, noise=1e-3, repeats=1.0)
    found = bins(sweep, default, 4096.0, 1048576.0)
    assert [str(each.path) for each in found] == ["tree/ll", "tree/ll128"]
    assert found[1].start == pytest.approx(58_514, abs=600)


# ------------------------------------------------------------------------------------------------------ reading, check


def table(tmp_path: Path, *rows: str) -> str:
    head = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,pipeOps,regBuff,bandwidth_gbps,latency_us"
    file = tmp_path / "sweep.csv"
    file.write_text("\n".join([head, *rows, ""]))
    return str(file)


def test_repeats_tell_the_noise(tmp_path: Path) -> None:
    rows = [f"allreduce,{size},tree,ll,-1,2,16,-1,-1,0,{took}" for size in (1024, 2048) for took in (10.0, 10.2, 9.8)]
    [sweep] = sweeps([table(tmp_path, *rows, "allreduce,1024,default,,-1,2,16,-1,-1,0,12")])
    assert sweep.noise == pytest.approx(0.02, rel=0.05)
    assert not sweep.assumed_noise
    assert sweep.default is not None


def test_a_folder_of_logs_says_its_paths_by_names_or_by_variables(tmp_path: Path) -> None:
    rows = "op,size_bytes,ranks,nodes,seconds\nall-reduce,1024,16,2,0.00003\nall-reduce,2048,16,2,0.00004\n"
    for name in ("tree_ll128.csv", "sweep-nvls_tree-simple.csv", "default.csv"):
        (tmp_path / name).write_text(rows)
    log = "NCCL INFO NCCL_ALGO set by environment to Ring\nNCCL INFO NCCL_PROTO set by environment to LL\n"
    (tmp_path / "run7.csv").write_text(rows + "".join(f"# {line}\n" for line in log.splitlines()))
    [sweep] = sweeps([str(tmp_path)])
    assert {str(path) for path in sweep.curves} == {"tree/ll128", "nvls_tree/simple", "ring/ll"}
    assert sweep.default is not None
    (tmp_path / "run8.csv").write_text(rows)
    with pytest.raises(InputError, match="which path was forced"):
        sweeps([str(tmp_path)])


def test_one_variable_leaves_a_choice_that_the_log_tells_by_size(tmp_path: Path) -> None:
    lines = ["# NCCL INFO NCCL_ALGO set by environment to Tree", "op,size_bytes,ranks,nodes,seconds",
             "all-reduce,1024,16,2,0.00003", "all-reduce,2048,16,2,0.00004"]  # fmt: skip
    told = [f"# NCCL INFO AllReduce: {size} Bytes -> Algo TREE proto {protocol} channel{{Lo..Hi}}={{0..1}}"
            for size, protocol in ((1024, "LL"), (2048, "LL128"))]  # fmt: skip
    log = tmp_path / "run.csv"
    log.write_text("\n".join([*lines, *told]))
    [sweep] = sweeps([str(log)])
    assert {str(path): curve.size_bytes.tolist() for path, curve in sweep.curves.items()} == {
        "tree/ll": [1024], "tree/ll128": [2048],
    }  # fmt: skip
    log.write_text("\n".join([*lines, told[0]]))
    with pytest.raises(InputError, match="which path took 2048 bytes"):
        sweeps([str(log)])


def test_what_nccl_predicts_is_no_measurement() -> None:
    log = Path(__file__).parents[1] / "logs" / "nccl_debug" / "predicted.txt"
    with pytest.raises(InputError, match="nothing was measured"):
        sweeps([f"default={log}"], 16, 2)


@pytest.mark.parametrize(
    "row",
    ["allreduce,1024,tre,ll,-1,2,16,-1,-1,0,10", "allgather,1024,tree,ll,-1,2,16,-1,-1,0,10",
     "allreduce,1024,nvls_tree,simple,-1,1,8,-1,-1,0,10", "allreduce,64K,tree,ll,-1,2,16,-1,-1,0,10",
     "allreduce,1024,tree,ll,-1,2,16,-1,-1,0,-1", "alltoall,1024,tree,ll,-1,2,16,-1,-1,0,10",
     "allreduce,1024,tree,ll,-1,2,1,-1,-1,0,10"],
)  # fmt: skip
def test_what_the_example_would_read_as_something_else_is_refused(tmp_path: Path, row: str) -> None:
    with pytest.raises(InputError):
        sweeps([table(tmp_path, row)])


def log(folder: Path, name: str, factor: float, rng: random.Random) -> str:
    file = folder / name
    rows = [f"all-reduce,{size},16,2,{factor * (30e-6 + size / 1e10) * math.exp(rng.gauss(0, 0.01)):.9f}"
            for size in (16384, 32768, 65536)]  # fmt: skip
    file.write_text("\n".join(["op,size_bytes,ranks,nodes,seconds", *rows, ""]))
    return str(file)


def test_a_check_tells_what_was_won_and_what_cannot_be_told(tmp_path: Path) -> None:
    rng = random.Random(2)  # noqa: S311  repeated
    before = [f"default={log(tmp_path, f'a{run}.csv', 1.0, rng)}" for run in range(5)]
    faster = [f"tuned={log(tmp_path, f'b{run}.csv', 0.9, rng)}" for run in range(5)]
    alike = [f"tuned={log(tmp_path, f'c{run}.csv', 1.0, rng)}" for run in range(5)]
    found = won(before + faster)
    assert {each.verdict for each in found} == {"won"}
    assert all(each.low < 0.9 < each.high for each in found)
    assert {each.verdict for each in won(before + alike)} == {"cannot tell"}
    messages = [{"op": "all-reduce", "ranks": 16, "batch": 1, "size_bytes": 16384, "count": 160}]
    [token] = per_token(found, messages)
    assert token["gain_s_per_token"] == pytest.approx(160 * 0.1 * (30e-6 + 16384 / 1e10), rel=0.2)
    with pytest.raises(WeakEvidenceError):
        won([before[0], faster[0]])


def test_runs_are_as_many_as_the_gain_needs() -> None:
    sweep = Sweep(key=Key("all-reduce", 16, 2), curves={}, default=None, noise=0.02, repeats=1.0)
    assert repeats(sweep, 0.5) == 3
    assert repeats(sweep, 0.02) == 9
    assert repeats(sweep, 1e-6) == 40


def test_scripts_are_scripts_of_a_shell(tmp_path: Path) -> None:
    text = experiment([(Key("all-reduce", 16, 2), 1024.0, 65536.0, 3)], "/a folder/with 'quotes'")
    file = tmp_path / "measure.sh"
    file.write_text(text)
    subprocess.run(["sh", "-n", str(file)], check=True)
    assert "all_reduce_perf" in text.replace("${TESTS}", "")
    loads = environment([choice("all-reduce", 0, 9, Way("tree", "ll"))], "/a folder")
    assert '# export NCCL_ALGO="allreduce:tree"' in loads
    assert "no such setting" in environment(
        [choice("all-reduce", 0, 9, None), choice("all-reduce", 10, 99, Way("tree", "ll"))], "/x"
    )

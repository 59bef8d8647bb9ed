"""`nhalf sweep` on the command line: the page, the file, bad input, and a real cluster that loses a worker."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from tests.cli.command import detailed, invoke, matches, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).resolve().parents[2] / "src"
AXES = ("--axis", "tp=1,2,3,8,16", "--axis", "batch=1:512:x2",
        "--axis", "system.fabric.inter_node.latency_s=1us:50us")  # fmt: skip


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("scenario.toml").write_text('model = "llama-3.1-70b"\nsystems = ["h100-sxm"]\nweights = "fp8"\n', "utf-8")
    return "scenario.toml"


@pytest.mark.parametrize("columns", [80, 140])
def test_the_main_job_prints_the_stored_page(scenario: str, columns: int) -> None:
    result = detailed("sweep", scenario, *AXES, "-o", "sweep.parquet", columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"sweep_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns
    frame = pl.read_parquet("sweep.parquet")
    assert len(frame) == 5 * 10 * 25
    assert frame["reason"].to_list().count("") == 4 * 10 * 25


def test_the_file_has_the_columns_of_decode(scenario: str) -> None:
    invoke("sweep", scenario, "--axis", "tp=8", "-o", "sweep.json")
    (row,) = json.loads(Path("sweep.json").read_text(encoding="utf-8"))
    alone = invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8", "--tp", "8", "--json").document
    shared = set(row) & set(alone["rows"][0])
    assert {"system", "tp", "pp", "ep", "attention_dp", "moe_tp", "nodes", "step_s", "binding", "kind"} <= shared
    for name in shared:
        assert row[name] == (pytest.approx(alone["rows"][0][name]) if row[name] is not None else None), name


def test_flags_and_a_model_do_without_a_file(scenario: str) -> None:
    del scenario
    result = invoke("sweep", "llama-3.1-8b", "--on", "h100-sxm", "--batch", "1,2", "--tp", "1,2", "-o", "-")
    lines = result.out.splitlines()
    assert lines[0].startswith("tp,batch,")
    assert [line.split(",")[:2] for line in lines[1:]] == [["1", "1"], ["1", "2"], ["2", "1"], ["2", "2"]]


def test_the_summary_as_json(scenario: str) -> None:
    found = invoke("sweep", scenario, *AXES, "-o", "sweep.csv", "--json").document
    assert (found["schema"], found["points"], found["legal"]) == ("nhalf.sweep/2", 1250, 1000)
    assert found["best"]["tp"] == 8
    assert found["best"]["axes_without_effect"] == ["system.fabric.inter_node.latency_s"]


def test_an_axis_that_changes_nothing_is_no_part_of_the_answer(scenario: str) -> None:
    told = " ".join(invoke("sweep", scenario, *AXES, "-o", "sweep.csv").out.split())
    assert "the fastest is tp=8, batch=1, where " in told
    assert "There system.fabric.inter_node.latency_s changes nothing." in told
    assert re.search(r" 8 [\d.]+ ms \d+ [\w -]+ batch=1 16 [\d.]+ ms [\d.]+ [\w -]+ batch=1, latency_s=1us", told)
    one = invoke("sweep", scenario, "--axis", "tp=1,2", "-o", "sweep.csv").out.splitlines()
    assert "tp     step  tok/s  most time" in one
    only = ("--axis", "system.fabric.inter_node.latency_s=1us:50us")
    alone = " ".join(invoke("sweep", scenario, *only, "--tp", "8", "-o", "sweep.csv").out.split())
    assert "25 points; system.fabric.inter_node.latency_s changes nothing at the fastest" in alone


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("-o", "x.csv"), ["there is no axis"]),
        (("--axis", "tp=1,2", "-o", "x.xls"), [".parquet"]),
        (("--axis", "tp=1,2", "-o", "nowhere/x.csv"), ["check the folder"]),
        (("--axis", "bach=1", "-o", "x.csv"), ["Did you mean 'batch'?"]),
        (("--axis", "tp=1,2", "-o", "x.csv", "--workers", "2", "--cluster", "tcp://h:1"), ["one of them"]),
        (("--axis", "tp=1,2", "-o", "x.csv", "--workers", "0"), ["--workers"]),
    ],
)
def test_bad_input_is_refused_in_one_line(scenario: str, arguments: tuple[str, ...], parts: list[str]) -> None:
    message = refused("sweep", scenario, *arguments)
    for part in parts:
        assert part in message, message
    assert {path.name for path in Path().iterdir()} == {"scenario.toml"}


# --- a real scheduler and two workers over TCP ------------------------------------------------------------------------


class Cluster:
    """A Dask scheduler and two workers, each a process of its own on the loopback device."""

    def __init__(self, folder: Path) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONWARNINGS": "ignore"}
        told = folder / "scheduler.json"
        address = ("--host", "127.0.0.1")
        self.scheduler = self._start(
            "distributed.cli.dask_scheduler", *address, "--port", "0", "--no-dashboard", "--scheduler-file", str(told)
        )
        self.address = self._address(told)
        flags = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
        self.workers = [self._start("distributed.cli.dask_worker", self.address, *address, *flags) for _ in range(2)]

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @staticmethod
    def _address(told: Path) -> str:
        for _ in range(300):
            try:
                return str(json.loads(told.read_text(encoding="utf-8"))["address"])
            except (OSError, ValueError, KeyError):
                time.sleep(0.1)
        pytest.fail("the scheduler did not start")

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    yield found
    found.stop()


def begun_bytes(target: Path) -> int:
    """Return how much of a file that is still being written is there."""
    return sum(part.stat().st_size for part in target.parent.glob(f"{target.name}.nhalf-*.part"))


def test_a_cluster_that_loses_a_worker_writes_the_same_file(scenario: str, cluster: Cluster, tmp_path: Path) -> None:
    del scenario
    axes = ("--axis", "tp=1,2,3,8", "--axis", "batch=1:100", "--axis",
            "system.fabric.intra_node.latency_s=1us:5us:100", "--axis",
            "system.fabric.intra_node.bandwidth_bytes_per_s=100GB/s:900GB/s:25")  # fmt: skip
    assert invoke("sweep", "scenario.toml", *axes, "-o", "here.csv").code == 0
    command = [sys.executable, "-m", "nhalf", "sweep", "scenario.toml", *axes, "-o", "there.csv"]
    command += ["--cluster", cluster.address, "--task-points", "5000"]
    running = subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    whole = (tmp_path / "here.csv").stat().st_size
    while running.poll() is None and begun_bytes(tmp_path / "there.csv") <= whole / 10:
        time.sleep(0.01)
    assert running.poll() is None, "it ended before a worker could be lost"
    cluster.workers[0].send_signal(signal.SIGKILL)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err.decode()
    assert out.startswith(b"1000000 points")
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_processes_that_lose_one_write_the_same_file(scenario: str, tmp_path: Path, suffix: str) -> None:
    axes = ("--axis", "tp=1,2,3,8", "--axis", "batch=1:100", "--axis",
            "system.fabric.intra_node.latency_s=1us:5us:200", "--task-points", "2500")  # fmt: skip
    assert invoke("sweep", scenario, *axes, "-o", f"here.{suffix}", "--workers", "1").code == 0
    command = [sys.executable, "-m", "nhalf", "sweep", scenario, *axes, "-o", f"there.{suffix}", "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    while not begun_bytes(tmp_path / f"there.{suffix}"):
        assert running.poll() is None, "it ended before a process could be lost"
        time.sleep(0.002)
    os.kill(int(children.read_text(encoding="utf-8").split()[0]), signal.SIGKILL)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err.decode()
    assert out.startswith(b"80000 points")
    assert (tmp_path / f"there.{suffix}").read_bytes() == (tmp_path / f"here.{suffix}").read_bytes()
    assert not begun_bytes(tmp_path / f"there.{suffix}")


def test_a_cluster_that_is_not_there_is_named(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    del scenario
    monkeypatch.setattr("nhalf.decide.workers.PATIENCE_S", 1)
    message = refused("sweep", "scenario.toml", "--axis", "tp=1", "-o", "x.csv", "--cluster", "tcp://127.0.0.1:1")
    assert "no scheduler answers at tcp://127.0.0.1:1" in message
    assert not list(Path().glob("x.csv*"))
    assert "no address" in refused("sweep", "scenario.toml", "--axis", "tp=1", "-o", "x.csv", "--cluster", "foo")


def test_a_table_that_the_disk_cannot_hold_is_refused_before_it_begins(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    message = refused("sweep", scenario, *AXES, "-o", "x.csv")
    assert "1.25e+03 rows take about 250 kB, and 1 kB are free" in message
    assert not list(Path().glob("x.csv*"))


def test_csv_on_the_output_is_one_table(scenario: str) -> None:
    out = invoke("sweep", scenario, "--axis", "tp=1,2", "-o", "-", "--csv").out
    assert [line.split(",")[0] for line in out.splitlines()] == ["tp", "1", "2"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX are needed")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupt_leaves_the_rows_until_then_and_says_where(scenario: str, tmp_path: Path, workers: str) -> None:
    axes = ("--axis", "batch=1:2000", "--axis", "context=1:100000:10", "--task-points", "1000")
    command = [
        sys.executable,
        "-m",
        "nhalf",
        "sweep",
        scenario,
        *axes,
        "--workers",
        workers,
        "--task-points",
        "1000",
        "-o",
        "x.csv",
    ]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment,
                          start_new_session=True) as process:  # fmt: skip
        until = time.monotonic() + 60
        while begun_bytes(tmp_path / "x.csv") <= 1_000_000 and time.monotonic() < until:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the group
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "partial:" in err
    assert "points are in x.csv.part" in err
    assert "Traceback" not in err


def test_without_a_file_the_sweep_is_summed_up_and_csv_goes_to_the_output() -> None:
    job = ("sweep", "llama-3.1-70b", "--on", "h100-sxm", "--axis", "tp=4,8")
    page = invoke(*job)
    assert page.code == 0
    assert "The fastest that fits, by tp" in page.out
    assert page.out.splitlines()[-1].endswith("-o sweep.csv")
    table = invoke(*job, "--csv").out
    assert table.splitlines()[0].startswith("tp,system,")
    assert table == invoke(*job, "-o", "-").out


@pytest.mark.parametrize(
    ("axis", "flag", "value"),
    [
        ("tp", "--tp", "4"),
        ("attention-dp", "--attention-dp", "2"),
        ("batch", "--batch", "8"),
        ("engine", "--engine", "vllm"),
    ],
)
def test_a_flag_that_fixes_what_an_axis_varies_is_refused(axis: str, flag: str, value: str) -> None:
    values = "vllm,sglang" if axis == "engine" else "1,2"
    job = ("sweep", "llama-3.1-70b", "--on", "h100-sxm", "--axis", f"{axis}={values}", flag, value)
    message = refused(*job)
    assert f"{flag} fixes what --axis" in message
    assert "leave one of them out" in message

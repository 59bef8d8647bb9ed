"""`nhalf measure` for real, briefly, on loopback only: the answer, the file, lost ranks, interrupts, two hosts, MPI."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.ports import free_port

from nhalf.evidence.fit import fit
from nhalf.evidence.readers.nhalf_run import tables_of

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).resolve().parents[2] / "src"
QUICK = ("--sizes", "8B:64KiB:x4", "--budget", "0.5s")
LIMIT_S = 60.0
WORKER = "nhalf.evidence.probe.worker"
LAUNCHERS = ("NHALF_WORD", "RANK", "WORLD_SIZE", "MASTER_ADDR", "PMI_", "OMPI_", "SLURM_")

needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed: nhalf[mpi]")
needs_processes = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc to find processes in")


def environment(**more: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**kept, "PYTHONPATH": str(SOURCE), "COLUMNS": "100", "NO_COLOR": "1", **more}


def start(*arguments: str, folder: Path | None = None, given: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nhalf", "measure", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment(**(given or {})), cwd=folder,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return code, output and errors of a command that must end in time."""
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail("nhalf measure hangs")
    assert "Traceback" not in err, err
    return process.returncode, out, err


def run(*arguments: str, folder: Path | None = None, given: dict[str, str] | None = None) -> tuple[int, str, str]:
    return ended(start(*arguments, folder=folder, given=given))


def children(parent: int) -> list[tuple[int, list[str]]]:
    """Return the living descendants of a process, each with its command."""
    found: dict[int, tuple[int, list[str]]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            state, above = (path / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            words = (path / "cmdline").read_text(encoding="utf-8").split("\0")
            if state != "Z":
                found[int(path.name)] = (int(above), words)
    wanted, below = {parent}, []
    while new := [pid for pid, (above, _) in found.items() if above in wanted and pid not in wanted]:
        wanted.update(new)
        below += [(pid, found[pid][1]) for pid in new]
    return below


def eventually(condition: Callable[[], Any], limit_s: float = 20.0) -> Any:  # noqa: ANN401
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if found := condition():
            return found
        time.sleep(0.05)
    return pytest.fail("it did not happen in time")


def ranks_of(process: subprocess.Popen[str], count: int) -> list[int]:
    """Return the pids of the ranks of a command, by rank where they have one, once all of them run."""

    def found() -> list[int] | None:
        workers = [
            (words[words.index("--rank") + 1] if "--rank" in words else pid, pid)
            for pid, words in children(process.pid)
            if WORKER in words and "python" in Path(words[0]).name
        ]
        return [pid for _, pid in sorted(workers, key=str)] if len(workers) == count else None

    pids: list[int] = eventually(found)
    return pids


def measuring(path: Path) -> None:
    """Return once samples of a run are on disk, as they are while it goes on."""
    eventually(path.exists, 30.0)


def gone(pids: list[int]) -> bool:
    return all(not Path(f"/proc/{pid}").exists() or "Z" in _state(pid) for pid in pids)


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return "Z"


# ------------------------------------------------------------------------------------------------- the answer


def test_the_document_holds_the_keys_of_the_contract(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    code, out, err = run(*QUICK, "-o", str(file), "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema"] == "nhalf.measure/2"
    assert {"environment", "transport", "samples", "fits", "verdict", "doubts"} <= set(document)
    assert document["samples"] == str(file)
    assert document["environment"]["python"].count(".") == 2
    assert {found["label"] for found in document["fits"]} >= {"tcp", "shm"}
    assert all(found["quantity"] == "isolated" for found in document["fits"])
    again = fit(tables_of(json.loads(file.read_text(encoding="utf-8")), str(file)))
    assert [curve.floor_s for curve in again.curves] == [found["floor_s"] for found in document["fits"]]
    assert all(1e-8 < (curve.floor_s or 0) < 1.0 for curve in again.curves)


def test_the_page_begins_with_the_verdict_and_ends_with_a_command() -> None:
    code, out, err = run(*QUICK, "--channels", "tcp")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 24
    assert lines[0].startswith("point-to-point on 2 ranks, 1 node, tcp (isolated calls):")
    assert lines[-1] == "Next: nhalf measure --sizes 8B:64KiB:x4 --channels tcp -o run.json"
    _, out, _ = run(*QUICK, "--channels", "tcp", "--detail")
    assert "ping-pong: half of the time there and back" in out
    assert "placement spread: ranks started here keep a core each" in out


def test_ranks_that_the_system_moves_are_said_to_be_and_where_they_were_seen() -> None:
    code, out, _ = run(*QUICK, "--channels", "tcp", "--placement", "free", "--json")
    found = json.loads(out)["environment"]
    assert (code, found["placement"]) == (0, "free")
    if sys.platform == "linux":
        assert re.match(r"(same processor|same core|same cache|across caches|across sockets)", found["ranks_apart"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the bytes of each interface")
def test_the_transport_is_seen_from_what_interfaces_count() -> None:
    _, out, _ = run("--sizes", "8B:256KiB:x4", "--budget", "0.5s", "--json")
    carried = {each["channel"]: each["carried_by"] for each in json.loads(out)["transport"]}
    assert carried["tcp"].startswith("lo")


def test_every_pair_becomes_a_matrix() -> None:
    code, out, _ = run("--pairs", "all", "-n", "3", "--channels", "tcp", "--budget", "0.5s", "--json")
    assert code == 0
    document = json.loads(out)
    assert [row["ranks"] for row in document["pairs"]] == [[0, 1], [0, 2], [1, 2]]
    assert all(row["latency_s"] > 0 and row["channel"] == "tcp" for row in document["pairs"])
    assert document["verdict"].startswith("tcp: 3 pairs, inside a node")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--backend", "smoke"), "'smoke' is not a backend"),
        (("-o", "nowhere/run.json"), "there is no such folder"),
        (("--sizes", "8"), "8"),
        (
            ("--connect", "127.0.0.1", "--port", "1", "--wait", "1s", "--word", "sesame-sesame"),
            "nobody answers at 127.0.0.1:1",
        ),
        (("--launches", "2"), "two launches do not tell"),
        (("--launches", "3", "--connect", "127.0.0.1"), "can be started anew"),
        (("--listen", "--bind", "127.0.0.1", "--port", "0"), "'0' is not a whole number"),
    ],
)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    code, out, err = run(*arguments, folder=tmp_path)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


# ------------------------------------------------------------------------------------------------- lost and interrupted


@needs_processes
def test_a_rank_that_dies_is_named_and_its_samples_are_kept(tmp_path: Path) -> None:
    process = start("--channels", "tcp,shm", "--budget", "40s", folder=tmp_path)
    ranks = ranks_of(process, 2)
    time.sleep(3.0)
    os.kill(ranks[1], signal.SIGKILL)
    code, out, err = ended(process)
    assert (code, out) == (4, "")
    assert f"rank 1: its process (pid {ranks[1]}) was killed by SIGKILL" in err
    assert gone(ranks)
    document = json.loads((tmp_path / "nhalf-measure.partial.json").read_text(encoding="utf-8"))
    assert document["complete"] is False
    assert "rank 1" in document["lost"]
    assert any(point["rounds_ns"] for curve in document["curves"] for point in curve["points"])
    assert "partial" in [note.code for note in tables_of(document, "x")[0].notes]


@needs_processes
def test_a_rank_that_stops_moving_is_named_after_the_deadline(tmp_path: Path) -> None:
    process = start("--channels", "tcp", "--budget", "40s", "--deadline", "2s", folder=tmp_path)
    ranks = ranks_of(process, 2)
    time.sleep(2.0)
    os.kill(ranks[0], signal.SIGSTOP)
    code, _, err = ended(process)
    assert code == 4
    assert "rank 0: no answer for 2 s, nor a sign of life" in err
    eventually(lambda: gone(ranks))


@needs_processes
def test_an_interrupt_keeps_what_there_is_and_leaves_nobody(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    process = start("--channels", "tcp", "--budget", "40s", "-o", str(file))
    ranks = ranks_of(process, 2)
    time.sleep(3.0)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert (code, out) == (130, "")
    assert "nhalf: interrupted" in err
    assert f"samples are in {file}" in err
    assert gone(ranks)
    assert json.loads(file.read_text(encoding="utf-8"))["complete"] is False


@needs_processes
def test_ranks_end_when_nhalf_is_killed(tmp_path: Path) -> None:
    process = start("--channels", "shm", "--budget", "40s", folder=tmp_path)
    ranks = ranks_of(process, 2)
    time.sleep(1.0)
    process.kill()
    ended(process)
    eventually(lambda: gone(ranks))


# ------------------------------------------------------------------------------------------------- two hosts, launchers


def test_two_hosts_measure_the_network_between_them() -> None:
    port = str(free_port())
    other = start("--listen", f"127.0.0.1:{port}", "--wait", "30s")
    assert other.stderr is not None
    assert f"listening on 127.0.0.1:{port}, this machine only" in other.stderr.readline()
    told = re.search(r"NHALF_WORD=(\S+) nhalf measure --connect (\S+)", other.stderr.readline())
    assert told is not None
    assert told[2] == f"127.0.0.1:{port}"
    refused = run("--connect", told[2], *QUICK, given={"NHALF_WORD": "sesame-sesame"})
    assert refused[0] == 2
    assert "the word is not the one that it printed" in refused[2]
    code, out, err = run("--connect", told[2], *QUICK, "--json", given={"NHALF_WORD": told[1]})
    assert (code, err) == (0, "")
    document = json.loads(out)
    (found,) = document["fits"]
    assert (found["label"], found["ranks"]) == ("tcp", 2)
    assert document["environment"]["placement"] == "spread"
    assert ended(other)[:2] == (0, "Measured with 127.0.0.1; the answer is there.\n")


def test_a_host_that_nobody_asks_stops_waiting() -> None:
    code, _, err = run("--listen", "--port", str(free_port()), "--wait", "0.5s")
    assert code == 4
    assert "nobody connected within" in err


def test_ranks_of_several_hosts_that_share_no_word_do_not_meet() -> None:
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.1", "RANK": "0"}
    code, _, err = run("--backend", "sockets", "--channels", "tcp", *QUICK, given=given)
    assert code == 2
    assert "ranks of several hosts need a word" in err
    assert "NHALF_WORD" in err


def test_ranks_of_a_launcher_meet_by_their_variables(tmp_path: Path) -> None:
    port = str(free_port())
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    flags = ("--backend", "sockets", "--channels", "tcp", "--port", port, *QUICK)
    second = start(*flags, given={**given, "RANK": "1"})
    code, out, _ = run(*flags, "-o", str(tmp_path / "run.json"), given={**given, "RANK": "0"})
    assert code == 0
    assert out.startswith("point-to-point on 2 ranks")
    assert (tmp_path / "run.json").exists()
    assert ended(second)[:2] == (0, "")  # rank 0 speaks


def test_the_ranks_of_an_interrupted_launcher_say_so_in_a_line(tmp_path: Path) -> None:
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    flags = ("--backend", "sockets", "--channels", "tcp", "--port", str(free_port()), "--budget", "40s")
    second = start(*flags, given={**given, "RANK": "1"})
    first = start(*flags, "-o", str(tmp_path / "run.json"), given={**given, "RANK": "0"})
    measuring(tmp_path / "run.json")
    first.send_signal(signal.SIGINT)
    assert ended(first)[0] == 130
    code, out, err = ended(second)
    assert (code, out) == (4, "")
    assert err.startswith("nhalf: rank 0: it ended before the measurement did")


def test_a_lost_rank_of_a_launcher_is_named(tmp_path: Path) -> None:
    port = str(free_port())
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    flags = ("--backend", "sockets", "--channels", "tcp", "--port", port, "--budget", "40s")
    second = start(*flags, given={**given, "RANK": "1"})
    first = start(*flags, "-o", str(tmp_path / "run.json"), given={**given, "RANK": "0"})
    measuring(tmp_path / "run.json")
    second.kill()
    code, _, err = ended(first)
    second.communicate()
    assert code == 4
    assert f"rank 1: its process ended (pid {second.pid}" in err
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["complete"] is False


# ------------------------------------------------------------------------------------------------- launches


def test_launches_are_repeats_of_the_fit(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    flags = ("--channels", "tcp", "--sizes", "8B:64KiB:x4", "--budget", "1s", "--launches", "3")
    code, out, err = run(*flags, "-o", str(file), "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["launches"]["count"] == 3
    assert 0 < document["launches"]["typical_difference"] <= document["launches"]["largest_difference"]
    kept = json.loads(file.read_text(encoding="utf-8"))
    for point in kept["curves"][0]["points"]:
        assert set(point["launches"]) == {0, 1, 2}
        assert len(point["launches"]) == len(point["rounds_ns"])
    (table,) = tables_of(kept, str(file))
    assert {point.repeat for point in table.points} == {0, 1, 2}


@needs_processes
def test_an_interrupt_in_a_later_launch_keeps_the_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    process = start("--channels", "tcp", "--budget", "60s", "--launches", "3", "--target", "90%", "--sizes", "8B,16B",
                    "-o", str(file))  # fmt: skip
    measuring(file)
    process.send_signal(signal.SIGINT)
    code, _, _ = ended(process)
    document = json.loads(file.read_text(encoding="utf-8"))
    assert all(point["rounds_ns"] for curve in document["curves"] for point in curve["points"])
    # Two quick launches may have ended before the signal came.
    assert (code, document["complete"]) in ((130, False), (0, True))


# ------------------------------------------------------------------------------------------------- MPI and torch


@pytest.mark.mpi
@needs_mpi
def test_mpi_measures_collectives_that_are_right() -> None:
    sizes = ("--sizes", "8B:4KiB:x8", "--budget", "12s")
    code, out, err = run("--backend", "mpi", "-n", "2", *sizes, "--fuse", "1,4", "--overlap", "--json")
    assert code == 0, err
    document = json.loads(out)
    ops = {found["op"] for found in document["fits"]}
    assert ops == {"point-to-point", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "barrier"}
    assert {found["quantity"] for found in document["fits"]} == {"isolated", "back_to_back"}
    assert all(point["right"] for curve in document["measured"] for point in curve["points"])
    assert {row["op"] for row in document["fixed"]} == ops - {"point-to-point"}
    assert [row["count"] for row in document["fuse"]] == [1, 4]
    assert all(0 <= row["hidden"] <= 1 for row in document["overlap"])
    assert "MPICH" in document["environment"]["library"] or document["environment"]["library"]


@pytest.mark.mpi
@needs_processes
@needs_mpi
def test_a_rank_of_mpi_that_dies_is_named_and_nobody_is_left(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    process = start("--backend", "mpi", "-n", "2", "--ops", "send-recv", "--budget", "40s", "-o", str(file))
    ranks = ranks_of(process, 2)
    measuring(file)
    everybody = [pid for pid, _ in children(process.pid)]
    os.kill(ranks[1], signal.SIGKILL)
    code, _, err = ended(process)
    assert code == 4
    assert f"pid {ranks[1]} on {socket.gethostname()}" in err
    eventually(lambda: gone(everybody))
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["complete"] is False
    assert str(document["lost"]).startswith("rank ")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: it is the user's own")
@pytest.mark.parametrize("what", [("--sizes", "8B:4KiB:x8"), ("--model", "llama-3.1-8b")], ids=["links", "loop"])
def test_gloo_measures_collectives_that_are_right(what: tuple[str, str]) -> None:
    port = str(free_port())
    given = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCAL_WORLD_SIZE": "2"}
    flags = ("--backend", "gloo", *what, "--budget", "3s", "--json")
    second = start(*flags, given={**given, "RANK": "1", "LOCAL_RANK": "1"})
    code, out, err = run(*flags, given={**given, "RANK": "0", "LOCAL_RANK": "0"})
    assert code == 0, err
    document = json.loads(out)
    assert all(point["right"] for curve in document["measured"] for point in curve["points"])
    assert {found["mode"] for found in document["fits"]} <= {"eager"}
    assert ("loop" in document) is ("--model" in what)
    assert ended(second)[0] == 0


def test_a_loop_is_floor_bytes_and_waiting_and_its_file_is_fitted(tmp_path: Path) -> None:
    file = tmp_path / "loop.json"
    flags = ("--model", "llama-3.1-8b", "--tp", "2", "--batch", "1,4", "--budget", "3s", "-o", str(file), "--json")
    code, out, err = run(*flags)
    assert code == 0, err
    document = json.loads(out)
    loop = document["loop"]
    assert loop["time_s_per_token"] == pytest.approx(loop["fixed_s"] + loop["transfer_s"] + loop["wait_s"])
    assert [row["batch"] for row in loop["rows"]] == [1, 4]
    counts = {kind["name"]: kind["count_per_token"] for kind in loop["collectives"]}
    assert counts == {"all-reduce": 64, "logits all-gather": 1}
    assert loop["predicted_s"] == loop["alone_s"] > 0
    saved = json.loads(file.read_text(encoding="utf-8"))
    curves = [curve for curve in saved["curves"] if curve["label"] == "in a loop"]
    assert {curve["op"] for curve in curves} == {"all-reduce", "all-gather"}
    assert len(curves[0]["points"]) >= 2
    tables = [table for table in tables_of(saved, str(file)) if "in a loop" in table.label]
    assert all(table.rows for table in tables)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--tp", "2"), "it is of a model's messages"),
        (("--model", "llama-3.1-8b", "--ops", "all-reduce"), "the model says what is sent"),
        (("--model", "llama-3.1-8b", "--tp", "1"), "one rank has nobody to send to"),
        (("--model", "llama-3.1-8b", "--tp", "2", "-n", "4"), "the layout has 2 ranks, and there are 4"),
        (("--model", "llama-3.1-8b", "--overlap"), "sockets send while"),
        (("--model", "llama-3.1-8b", "--channels", "shm"), "'shm' is no channel"),
        (("--model", "llama-3.1-8b", "--backend", "gloo"), "gloo needs ranks that torchrun started"),
        (("--model", "lama-3.1-8b"), "Did you mean 'llama-3.1-8b'"),
    ],
)  # fmt: skip
def test_what_a_loop_cannot_be_is_said_in_a_line(flags: tuple[str, ...], told: str) -> None:
    code, _, err = run(*flags)
    assert code == 2
    assert told in err
    assert len(err.strip().splitlines()) == 1

"""`nhalf doctor`: a verdict on any mixture of logs, limits, JUnit, pairs, a baseline."""

from __future__ import annotations

import random
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.bench import doctor_cases as made
from tests.cli.command import detailed, invoke, refused

LOGS = Path(__file__).parents[1] / "logs"
TRACE = LOGS.parent / "golden" / "trace" / "tp2_slow1"
SLOW = made.capped(made.inside("h100-sxm"), 19.3e9, 44.0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    healthy = made.inside("h100-sxm")
    Path("good.txt").write_text(made.log(healthy, healthy.rows), encoding="utf-8")
    Path("slow.txt").write_text(made.log(healthy, SLOW), encoding="utf-8")
    return tmp_path


def written(case: made.Case) -> None:
    for name, text in case.files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def test_a_healthy_log_is_normal() -> None:
    document = invoke("doctor", "good.txt", "--on", "h100-sxm", "--json").document
    assert document["schema"] == "nhalf.doctor/2"
    assert document["normal"] is True
    assert document["share_of_measured"] == pytest.approx(1.0, abs=0.02)
    assert document["share_of_ceiling"] == pytest.approx(0.99, abs=0.02)
    assert document["causes"][0]["code"] == "normal"
    assert document["pairs"] == document["slow"] == []


def test_a_slow_log_has_a_cause_with_reasons_and_a_remedy() -> None:
    document = invoke("doctor", "slow.txt", "--on", "h100-sxm", "--json").document
    assert document["normal"] is False
    assert document["share_of_ceiling"] == pytest.approx(0.043, abs=0.005)
    cause = document["causes"][0]
    assert cause["code"] == "host-bounce"
    assert {"code", "for", "against", "try", "expected"} <= set(cause)
    assert cause["for"]
    assert cause["try"]
    assert cause["expected"]["bytes_per_s"] == pytest.approx(445e9, rel=0.05)


@pytest.mark.parametrize("columns", [80, 140])
def test_the_screen_of_a_slow_log_is_one_screen(columns: int) -> None:
    result = invoke("doctor", "slow.txt", "--on", "h100-sxm", columns=columns)
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0].startswith("Not normal: most likely messages between GPUs go through host memory")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= columns
    assert "GB/s" in result.out
    assert len(detailed("doctor", "slow.txt", "--on", "h100-sxm").out.splitlines()) > len(lines)


def test_the_system_is_known_by_the_gpus_of_the_log() -> None:
    text = Path("slow.txt").read_text(encoding="utf-8").replace("NVIDIA X", "NVIDIA H100 80GB HBM3")
    Path("named.txt").write_text(text, encoding="utf-8")
    document = invoke("doctor", "named.txt", "--json").document
    assert document["system"] == "h100-sxm"
    assert "by the GPUs" in document["assumed"]
    assert invoke("doctor", "slow.txt").code == 4


@pytest.mark.parametrize(
    ("line", "system"),
    [
        ("NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>", "h100-sxm-roce"),
        ("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>", "h100-sxm"),
        ("Using network AWS Libfabric", "h100-sxm-efa"),
    ],
)
def test_the_network_of_the_log_tells_the_system(line: str, system: str) -> None:
    healthy = made.across()[0]
    text = made.log(healthy, healthy.rows, debug=(line,)).replace("NVIDIA X", "NVIDIA H100 80GB HBM3")
    Path("named.txt").write_text(text, encoding="utf-8")
    assert invoke("doctor", "named.txt", "--json").document["system"] == system


@pytest.mark.parametrize(
    ("limit", "log", "code"),
    [
        ("share<60%", "slow.txt", 3), ("share<60%", "good.txt", 0), ("share-of-ceiling<5%", "slow.txt", 3),
        ("floor>40us", "slow.txt", 3), ("floor>40us", "good.txt", 0), ("bandwidth<100GB/s", "slow.txt", 3),
        ("slow-pairs>=1", "good.txt", 0),
    ],
)  # fmt: skip
def test_a_limit_trips(limit: str, log: str, code: int) -> None:
    assert invoke("doctor", log, "--on", "h100-sxm", "--fail-if", limit).code == code


def test_a_limit_that_is_none_is_refused() -> None:
    assert "share" in refused("doctor", "good.txt", "--on", "h100-sxm", "--fail-if", "shares<60%")
    assert "no system" in refused("doctor", "good.txt", "--on", "h100-smx")
    assert "no such file" in refused("doctor", "gone.txt", "--on", "h100-sxm")


def test_junit_tells_what_failed() -> None:
    arguments = ("doctor", "slow.txt", "--on", "h100-sxm", "--fail-if", "share<60%", "--junit", "checks.xml")
    assert invoke(*arguments).code == 3
    suite = ET.fromstring(Path("checks.xml").read_text(encoding="utf-8"))  # noqa: S314  our own file
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    names = {case.get("name"): case.find("failure") for case in suite}
    assert names["verdict"] is not None
    assert "share<60%" in names


def test_debug_output_alone_speaks() -> None:
    Path("debug.txt").write_text("a:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
                                 "a:1:1 [0] NCCL INFO Using network Socket\n", encoding="utf-8")  # fmt: skip
    document = invoke("doctor", "debug.txt", "--json").document
    assert document["normal"] is None
    assert document["causes"][0]["code"] == "tcp"
    assert len(document["causes"][0]["for"]) == 2


def test_a_mixture_is_read_together() -> None:
    matrix = "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n"
    Path("matrix.txt").write_text(matrix, encoding="utf-8")
    document = invoke("doctor", "slow.txt", "matrix.txt", "--on", "h100-sxm", "--json").document
    assert document["causes"][0]["code"] == "host-bounce"
    assert any("NVLink" in text for text in document["causes"][0]["for"])


def test_a_trace_names_a_slow_rank() -> None:
    document = invoke("doctor", str(TRACE), "--json").document
    assert document["normal"] is False
    assert document["causes"][0]["code"] == "slow-rank"
    assert "rank 1" in document["causes"][0]["for"][0]


def test_pairs_become_a_matrix_with_what_they_cost() -> None:
    rng = random.Random(4)  # noqa: S311  no secret
    files = made.pairs(rng, slow={(1, 4): 1.5, (4, 6): 1.3})
    written(made.Case(name="", causes=frozenset(), files={f"pairs/{name}": text for name, text in files.items()}))
    arguments = ("doctor", "pairs", "--on", "h100-sxm", "--model", "llama-3.1-70b")
    document = invoke(*arguments, "--json").document
    assert len(document["pairs"]) == 28
    assert [(each["a"], each["b"]) for each in document["slow"]] == [("gpu01", "gpu04"), ("gpu04", "gpu06")]
    assert all(each["extra_s_per_token"] > 0 for each in document["slow"])
    assert document["common"] == "gpu04"
    assert document["causes"][0]["code"] == "slow-pair"
    lines = invoke(*arguments, columns=80).out.splitlines()
    assert len(lines) <= 24
    assert invoke("doctor", "pairs", "--on", "h100-sxm", "--fail-if", "slow-pairs>=1").code == 3


def test_a_baseline_says_since_when() -> None:
    healthy, rng = made.inside("h100-sxm"), random.Random(4)  # noqa: S311  no secret
    Path("before").mkdir()
    for day in range(1, 11):
        slower = 1.0 if day < 6 else 1.4
        rows = [(size, (14.0 + (time - 14.0) * slower) * rng.lognormvariate(0, 0.01)) for size, time in healthy.rows]
        version = "22703" if day < 6 else "22800"
        head = f"# nccl-tests version 2.17.1 nccl-headers={version} nccl-library={version}\n"
        Path(f"before/run-2026-11-{day:02d}.txt").write_text(head + made.log(healthy, rows), encoding="utf-8")
    document = invoke(
        "doctor", "before/run-2026-11-10.txt", "--on", "h100-sxm", "--baseline", "before", "--json"
    ).document
    (change,) = document["changes"]
    assert change["day"] == "2026-11-06"
    assert change["version_before"] == "2.27.3"
    assert change["version_after"] == "2.28.0"


def test_a_cluster_of_ones_own_is_the_yardstick() -> None:
    assert invoke("fit", "slow.txt", "--on", "h100-sxm", "-o", "mine.toml").code == 0
    document = invoke("doctor", "slow.txt", "--on", "mine.toml", "--json").document
    assert document["normal"] is True
    assert document["share_of_measured"] == pytest.approx(1.0, abs=0.02)
    assert document["share_of_ceiling"] < 0.1


def test_fit_prints_the_first_line() -> None:
    lines = invoke("fit", "slow.txt", "--on", "h100-sxm", columns=400).out.splitlines()
    assert lines[0].startswith("Not normal: most likely messages between GPUs go through host memory")
    assert invoke("fit", "good.txt", "--on", "h100-sxm").out.startswith("This is normal")


def test_a_log_without_times_of_a_network_is_refused() -> None:
    Path("notes.txt").write_text("nothing here\n", encoding="utf-8")
    assert invoke("doctor", "notes.txt", "--on", "h100-sxm").code == 2
    assert invoke("doctor", str(LOGS / "nccl_tests" / "without_mpi.txt")).code == 4

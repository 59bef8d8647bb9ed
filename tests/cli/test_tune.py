"""`nhalf tune` on the command line: choices, files, what is left alone, and the check afterwards."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import invoke, refused

if TYPE_CHECKING:
    from pathlib import Path

TIMES = {
    "tree,ll": (31, 33, 44, 96, 300), "tree,ll128": (38, 39, 43, 62, 130), "tree,simple": (60, 62, 68, 84, 140),
    "default,": (60, 62, 68, 84, 140),
}  # fmt: skip
SIZES = (4096, 16384, 65536, 262144, 1048576)
LLAMA = ("llama-3.1-70b", "--on", "h100-sxm", "--tp", "16")


def sweep(folder: Path, *, default: bool = True) -> str:
    """Write the sweep of the worked example: made curves of all-reduces on 2 nodes of 8."""
    rng = random.Random(1)  # noqa: S311  repeated
    head = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,pipeOps,regBuff,bandwidth_gbps,latency_us"
    rows = [
        f"allreduce,{size},{name},-1,2,16,-1,-1,0,{took * (1 + rng.gauss(0, 0.01)):.3f}"
        for name, row in TIMES.items()
        if default or not name.startswith("default")
        for size, took in zip(SIZES, row, strict=True)
        for _ in range(3)
    ]
    file = folder / "sweep.csv"
    file.write_text("\n".join([head, *rows, ""]))
    return str(file)


def test_choices_have_the_keys_of_the_contract(tmp_path: Path) -> None:
    result = invoke("tune", *LLAMA, "--logs", sweep(tmp_path), "-o", str(tmp_path / "out"), "--json")
    found = result.document
    assert found["schema"] == "nhalf.tune/2"
    keys = {"op", "from_bytes", "to_bytes", "algorithm", "protocol", "gain_s_per_token", "low", "high", "kind"}
    assert all(keys <= set(each) for each in found["choices"])
    first, second = found["choices"]
    assert (first["algorithm"], first["protocol"], second["protocol"]) == ("tree", "ll", "ll128")
    assert first["to_bytes"] == pytest.approx(58_513, rel=0.1)
    # 160 all-reduces of 16 KiB at batch 1 (29 us less each) and of 32 KiB at batch 2 (27.3 us less)
    assert first["gain_s_per_token"] == pytest.approx(160 * 28.2e-6, rel=0.05)
    assert first["low"] < first["gain_s_per_token"] < first["high"]
    assert set(found["files"]) == {"nccl.env", "nccl_tuner.c", "measure.sh", "measure.sbatch"}
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {*found["files"], "choices.json"}
    assert any("nccl_tuner.conf is not written" in note for note in found["notes"])


def test_the_screen_is_one_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = invoke("tune", *LLAMA, "--logs", "sweep.csv", columns=80)
    lines = result.out.splitlines()
    assert result.code == 0, result.err
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("tree/ll wins 4.")
    assert any(line.startswith("Next: nhalf tune ") for line in lines)


def test_without_runs_the_laws_leave_everything_and_say_so(tmp_path: Path) -> None:
    result = invoke("tune", *LLAMA, "-o", str(tmp_path / "out"), "--json").document
    assert {each["kind"] for each in result["choices"]} == {"leave"}
    assert result["files"] == ["nccl.env"]
    assert "Leave it: nothing was measured" in invoke("tune", *LLAMA).out


def test_inside_a_node_it_is_said_what_the_engine_runs_first() -> None:
    text = " ".join(invoke("tune", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8").out.split())
    assert "Inside a node vllm runs its own all-reduce up to 64 MiB" in text


@pytest.mark.parametrize(
    ("factor", "said"),
    [(10.0, "Leave that on"), (0.1, "Turn it off"), (1.0, "SGLANG_CUSTOM_ALL_REDUCE_V2_MAX_SIZE_KB=")],
)
def test_the_cut_off_of_an_engine_is_where_nccl_begins_to_win(tmp_path: Path, factor: float, said: str) -> None:
    head = "collective,size_bytes,algorithm,protocol,nodes,ranks,latency_us"
    # A path that is slow at first and nearly flat, against a kernel that pays for its bytes.
    rows = [
        f"allreduce,{size},{name},1,8,{factor * (8 + size / 1e6)}"
        for size in SIZES
        for name in ("nvls,simple", "default,")
    ]
    file = tmp_path / "node.csv"
    file.write_text("\n".join([head, *rows, ""]))
    arguments = ("llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--engine", "sglang", "--batch", "1,4,16,64")
    notes = invoke("tune", *arguments, "--logs", str(file), "--json").document["notes"]
    assert any(said in note for note in notes), notes


def test_without_a_default_run_the_plan_stands_in(tmp_path: Path) -> None:
    found = invoke("tune", *LLAMA, "--logs", sweep(tmp_path, default=False), "--json").document
    assert any("no default run" in note for note in found["notes"])
    assert found["choices"]


def test_a_folder_with_old_choices_is_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("x")
    assert "holds something" in refused("tune", *LLAMA, "-o", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((), "the model is missing"), ((*LLAMA[:3], "--tp", "1"), "asks a tuner"),
     ((*LLAMA[:3], "--tp", "8,16"), "one job"),
     ((*LLAMA, "--logs", "tre/ll=x"), "unknown"), (("--check", "nowhere"), "cannot be read")],
)  # fmt: skip
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], said: str) -> None:
    assert said in refused("tune", *arguments)


def test_a_domain_of_several_hosts_has_the_nodes_that_nccl_counts(tmp_path: Path) -> None:
    system = (LLAMA[0], "--on", "gb200-nvl72", "--tp", "16")
    found = invoke("tune", *system, "--logs", sweep(tmp_path), "-o", str(tmp_path / "out"), "--json").document
    assert {(each["ranks"], each["nodes"]) for each in found["choices"]} == {(16, 2)}
    assert "TREE, LL, 16, 2}" in (tmp_path / "out" / "nccl_tuner.c").read_text()


def test_logs_of_another_communicator_are_refused(tmp_path: Path) -> None:
    assert "16 ranks of 2 nodes" in refused("tune", *LLAMA[:3], "--tp", "8", "--logs", sweep(tmp_path))


def test_a_check_says_what_a_token_won(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert invoke("tune", *LLAMA, "--logs", sweep(tmp_path), "-o", out).code == 0
    words: list[str] = []
    rng = random.Random(3)  # noqa: S311  repeated
    for arm, factor in (("default", 1.0), ("tuned", 0.5)):
        for run in range(3):
            file = tmp_path / f"{arm}{run}.csv"
            rows = [f"all-reduce,{size},16,2,{factor * 6e-5 * (1 + rng.gauss(0, 0.01)):.9f}" for size in SIZES]
            file.write_text("\n".join(["op,size_bytes,ranks,nodes,seconds", *rows, ""]))
            words += ["--logs", f"{arm}={file}"]
    found = invoke("tune", "--check", out, *words, "--json").document
    assert {each["verdict"] for each in found["sizes"]} == {"won"}
    first = found["tokens"][0]
    assert first["batch"] == 1
    assert first["low"] < first["gain_s_per_token"] < first["high"]
    assert first["gain_s_per_token"] == pytest.approx(160 * 3e-5, rel=0.05)
    text = " ".join(invoke("tune", "--check", out, *words).out.replace("\\", "").split())
    assert "5 of 5 sizes are faster" in text
    assert f"--check {out} -o mycluster.toml" in text
    cluster = str(tmp_path / "mine.toml")
    text = invoke("tune", "--check", out, *words, "-o", cluster).out.replace("\\", "")
    assert f"Next: nhalf decode llama-3.1-70b --on {cluster} --tp 16" in " ".join(text.split())
    rows = invoke("collective", "all-reduce", "--on", cluster, "--ranks", "16", "--sizes", "16KiB", "--json").document[
        "rows"
    ]
    [took] = [each["time_s"] for each in rows if each["kind"] == "measured"]
    assert took == pytest.approx(3e-5, rel=0.02)
    assert invoke("tune", "--check", out, *words, "-o", out).code == 2

"""`nhalf topo` on the command line: from a pipe or a file to links, the document of the contract, and bad input."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.cli.command import Result, detailed, invoke, matches, refused

LOGS = Path(__file__).resolve().parents[1] / "logs" / "topo"


def typed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def piped(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> Result:
    typed(monkeypatch, (LOGS / f"{name}.txt").read_bytes())
    return invoke("topo", "-", *arguments)


def test_a_pipe_prints_the_stored_page(monkeypatch: pytest.MonkeyPatch) -> None:
    result = piped(monkeypatch, "v100-dgx-1")
    assert (result.code, result.err) == (0, "")
    assert matches("topo_v100_100", result.out)


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_file_is_read_like_a_pipe(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("topo", str(path))
    assert result.code == 0, result.err
    assert result.out == piped(monkeypatch, path.stem).out
    assert max(map(len, result.out.splitlines())) <= 100


def test_the_document_is_that_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    document = piped(monkeypatch, "h100-8", "--on", "h100-sxm", "--pcie", "5", "--json").document
    assert document["schema"] == "nhalf.topo/2"
    nodes = document["nodes"]
    assert [node["name"] for node in nodes[:8]] == [f"GPU{index}" for index in range(8)]
    assert (nodes[8]["name"], nodes[8]["type"], nodes[8]["device"]) == ("NIC0", "nic", "mlx5_0")
    assert nodes[5]["nearest_nics"] == ["NIC5"]
    assert nodes[8]["cpu_affinity"] is None
    links = {(link["from"], link["to"]): link for link in document["links"]}
    assert len(links) == 16 * 15  # one for each cell off the diagonal
    assert links["GPU0", "GPU7"]["kind"] == "NV18"
    assert links["GPU0", "GPU7"]["bandwidth_bytes_per_s"] == 450e9
    assert links["GPU0", "GPU7"]["latency_s"] == 0.779e-6
    assert links["NIC0", "GPU0"]["kind"] == links["GPU0", "NIC0"]["kind"] == "PIX"
    assert links["GPU0", "NIC0"]["bandwidth_bytes_per_s"] == 63e9
    assert {"from", "to", "kind", "latency_s", "bandwidth_bytes_per_s"} <= set(document["weakest"])
    assert document["weakest"]["kind"] == "NV18"
    assert document["fabric"]["devices_per_node"] == 8
    assert document["fabric"]["topology"] == "switch"
    assert [set(note) for note in document["notes"]] == [{"code", "text"}]


def test_one_gpu_has_no_weakest_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    document = piped(monkeypatch, "gh200-1", "--json").document
    assert document["weakest"] is None
    assert document["fabric"]["intra_node"] is None
    assert document["ring"] == ["GPU0"]


def test_the_system_says_how_fast_an_nvlink_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "450 GB/s one way" in piped(monkeypatch, "b200-8").out
    assert "say --on SYSTEM" in " ".join(piped(monkeypatch, "b200-8").out.split())
    assert "900 GB/s one way" in piped(monkeypatch, "b200-8", "--on", "b200-sxm").out


def test_a_machine_is_saved_as_a_system_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "My Box.toml"
    result = piped(monkeypatch, "l40s-8", "--on", "l40s", "--pcie", "4", "--save", str(mine))
    assert result.code == 0
    assert f"nhalf decode MODEL --on {mine}" in result.err
    monkeypatch.setenv("NHALF_CATALOG", str(mine))
    (entry,) = invoke("catalog", "system", "my-box", "--json").document["entries"]
    values = {value["path"]: value for value in entry["values"]}
    inside = "system.fabric.intra_node."
    assert values[f"{inside}bandwidth_bytes_per_s"]["value"] == 24e9  # between sockets
    assert values[f"{inside}latency_s"]["value"] == 1.5e-6
    assert values[f"{inside}latency_s"]["kind"] == "given"
    assert values["system.device.memory_bandwidth_bytes_per_s"]["value"] == 864e9
    assert entry["facts"]["topology"] == "host"
    assert invoke("decode", "qwen3-8b", "--on", "my-box", "--tp", "8").code == 0


@pytest.mark.parametrize(("like", "lender"), [("h100-sxm", "h100-sxm"), ("h20-sxm", "h100-sxm")])
def test_a_saved_machine_with_the_same_links_borrows_the_curves(
    like: str, lender: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.toml"
    result = piped(monkeypatch, "h100-8", "--on", like, "--save", str(mine))
    assert f"the curves measured on {lender} stand in" in result.err
    monkeypatch.setenv("NHALF_CATALOG", str(mine))
    job = ("decode", "llama-3.1-70b", "--tp", "8", "--weights", "fp8", "--on")
    (own,), (theirs,) = (invoke(*job, system, "--json").document["rows"] for system in ("mine", like))
    assert own["step_s"] == theirs["step_s"]
    assert own["kind"] == "modelled"
    told = " ".join(detailed(*job, "mine").out.split())
    assert f"No all-reduce was measured on mine; the curve of {lender}, a sibling, stands in" in told


SWITCHED = (LOGS / "h100-8.txt").read_text()
PAIR = "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"


@pytest.mark.parametrize("matrix", [SWITCHED.replace("NV18", "SYS "), PAIR], ids=["links", "devices"])
@pytest.mark.parametrize("like", ["h100-sxm", "h20-sxm", "h100-sxm-efa"])
def test_a_saved_machine_with_other_links_or_devices_borrows_none(
    matrix: str, like: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, shown = tmp_path / "mine.toml", tmp_path / "matrix.txt"
    shown.write_text(matrix)
    result = invoke("topo", str(shown), "--on", like, "--save", str(mine))
    assert (result.code, "no measured curve stands in" in result.err) == (0, True)
    monkeypatch.setenv("NHALF_CATALOG", str(mine))
    told = " ".join(detailed("decode", "qwen3-8b", "--on", "mine", "--tp", "2").out.split())
    assert "No all-reduce of vllm in graph mode was measured on mine; NCCL's own plan is taken instead." in told


def test_nothing_is_saved_without_a_system_that_it_is_like(tmp_path: Path) -> None:
    message = refused("topo", str(LOGS / "l40s-8.txt"), "--save", str(tmp_path / "mine.toml"))
    assert "nothing says what this cluster is like" in message


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("", (), ("standard input: it is empty", "nvidia-smi topo -m | nhalf topo -")),
        ("no devices were found\n", (), ("there is no row of GPUs",)),
        ("\tGPU0\tGPU1\nGPU0\t X \tPIZ\nGPU1\tPIX\t X\n", (), ("line 2, row GPU0, column GPU1", "'PIZ'", "NV#")),
        ("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X\n", ("--on", "h100"), ("--on", "no system 'h100'")),
        ("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X\n", ("--pcie", "2"), ("--pcie", "3, 4, 5, 6")),
        ("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X\n", ("--pcie", "five"), ("--pcie", "five")),
    ],
)
def test_bad_input_is_one_line(
    text: str, arguments: tuple[str, ...], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, text.encode())
    message = refused("topo", "-", *arguments)
    for word in words:
        assert word in message


def test_a_file_that_is_not_there_is_refused() -> None:
    assert "there is no such file" in refused("topo", "nowhere.txt")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_any_encoding_that_a_shell_writes_is_read(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (LOGS / "a100-8.txt").read_text(encoding="utf-8").replace("\n", "\r\n").encode(encoding)
    (tmp_path / "m.txt").write_bytes(content)
    expected = invoke("topo", str(LOGS / "a100-8.txt")).out
    assert invoke("topo", str(tmp_path / "m.txt")).out == expected
    typed(monkeypatch, content)
    assert invoke("topo", "-").out == expected


@pytest.mark.parametrize("system", ["mi300x", "tpu-v5e"])
def test_a_system_of_another_make_is_refused(system: str) -> None:
    message = refused("topo", str(LOGS / "a100-8.txt"), "--on", system)
    assert "--on: nvidia-smi knows no" in message
    assert "a system with NVIDIA GPUs" in message


def test_a_second_matrix_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    one = (LOGS / "a100-8.txt").read_bytes()
    typed(monkeypatch, one + b"\n" + (LOGS / "v100-dgx-1.txt").read_bytes())
    document = invoke("topo", "-", "--json").document
    (note,) = [note for note in document["notes"] if note["code"] == "matrix-left-out"]
    assert f"line {one.decode().count(chr(10)) + 3}" in note["text"]
    assert len([node for node in document["nodes"] if node["type"] == "gpu"]) == 8


def test_a_second_matrix_is_left_out_without_a_legend_too(monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, b"\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n")
    document = invoke("topo", "-", "--json").document
    assert document["weakest"]["kind"] == "PIX"
    assert "matrix-left-out" in [note["code"] for note in document["notes"]]

"""`nvidia-smi topo -m`: twelve matrices of machines from K80 to GB200, and every way in which one can be broken."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from nhalf.catalog.topology import Machine, machine
from nhalf.errors import InputError
from nhalf.evidence.readers.topo import Matrix, Place, nvlinks, read

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.txt"))

# File, GPUs, NICs, letters between GPUs (pairs of each), the weakest edge of the ring, its link of the catalogue.
EXPECTED = """
a100-8                  8  10  NV12=28                        GPU0 GPU1 NV12  nvlink3
h100-8                  8   8  NV18=28                        GPU0 GPU1 NV18  nvlink4
b200-8                  8   8  NV18=28                        GPU0 GPU1 NV18  nvlink4
v100-dgx-1              8   4  NV1=8,NV2=8,SYS=12             GPU3 GPU4 SYS   smp-intel-skl
v100-dgx-2             16   8  NV6=120                        GPU0 GPU1 NV6   nvlink2
l40s-8                  8   2  PIX=4,NODE=8,SYS=16            GPU3 GPU4 SYS   smp-amd-zen
k80-8-old               8   0  PSB=4,PHB=8,SOC=16             GPU3 GPU4 SOC   smp-amd-zen
rtx-3090-2-bridge       2   0  NV4=1                          GPU0 GPU1 NV4   nvlink3-bridge
rtx-5090-2              2   0  PHB=1                          GPU0 GPU1 PHB   pcie4-x16
rtx-pro-6000-4-wrapped  4   2  NODE=2,SYS=4                   GPU1 GPU2 SYS   smp-amd-zen
gb200-tray              4   4  NV18=6                         GPU0 GPU1 NV18  nvlink4
"""
ROWS = [row.split(maxsplit=4) for row in EXPECTED.strip().splitlines()]


def matrix(name: str) -> Matrix:
    return read((HERE / f"{name}.txt").read_text(encoding="utf-8"), where=name)


def seen(name: str, *, on: str | None = None, pcie: int | None = None) -> Machine:
    return machine(matrix(name), on=on, pcie=pcie)


# --- matrices ---------------------------------------------------------------------------------------------------------


def test_there_are_ten_matrices_or_more_and_each_is_expected() -> None:
    assert len(FILES) >= 10
    assert {path.stem for path in FILES} == {row[0] for row in ROWS} | {"gh200-1"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_cell_is_read(row: list[str]) -> None:
    name, gpus, nics, letters, _ = row
    found = matrix(name)
    assert (len(found.gpus), len(found.nics)) == (int(gpus), int(nics))
    pairs = Counter(found.cells[one, other] for one in found.gpus for other in found.gpus if one < other)
    assert dict(pairs) == {kind: int(count) for kind, count in (part.split("=") for part in letters.split(","))}
    for (one, other), kind in found.cells.items():
        assert one != other
        assert found.cells[other, one] == kind
    assert not [note for note in found.notes if note.code == "asymmetric"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_weakest_edge_of_the_ring_is_named(row: list[str]) -> None:
    start, end, kind, source = row[4].split()
    found = seen(row[0])
    assert found.weakest is not None
    assert (found.weakest.start, found.weakest.end) == (start, end)
    assert (found.weakest.letters, found.weakest.source) == (kind, source)
    ring = [*found.ring, found.ring[0]]
    edges = {(edge.start, edge.end): edge for edge in found.edges}
    weakest = min(edges[pair].link.bandwidth_bytes_per_s for pair in pairwise(ring))
    assert found.weakest.link.bandwidth_bytes_per_s == weakest
    assert found.intra_node is not None
    assert found.intra_node.bandwidth_bytes_per_s == weakest


def test_letters_of_nics_and_where_gpus_sit_are_kept() -> None:
    found = matrix("h100-8")
    assert found.cells["GPU5", "NIC5"] == "PIX"
    assert found.cells["GPU5", "NIC4"] == "NODE"
    assert found.cells["GPU5", "NIC0"] == "SYS"
    assert found.devices["NIC5"] == "mlx5_5"
    assert found.places["GPU5"] == Place(cpus="52-103,156-207", numa="1", gpu_numa="N/A")
    assert "NIC5" not in found.places
    old = matrix("v100-dgx-1")
    assert old.nics == ("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    assert old.places["GPU7"] == Place(cpus="20-39,60-79")


def test_one_gpu_makes_no_ring() -> None:
    found = seen("gh200-1")
    assert found.weakest is None
    assert found.intra_node is None
    assert found.better == ()
    assert len(found.edges) == 6
    assert found.matrix.places["GPU0"].gpu_numa == "1"


def test_a_wrapped_matrix_reads_as_an_unwrapped_one() -> None:
    text = (HERE / "h100-8.txt").read_text(encoding="utf-8")
    head, legend = text.split("\nLegend")
    for width in (3, 7, 11):
        wrapped = []
        for line in head.splitlines():
            cells = line.split("\t")
            wrapped += ["\t".join(cells[at : at + width]) for at in range(0, len(cells), width)]
        found = read("\n".join(wrapped) + "\nLegend" + legend)
        assert (found.names, found.cells, found.places) == (
            matrix("h100-8").names, matrix("h100-8").cells, matrix("h100-8").places,
        )  # fmt: skip


def test_a_prompt_colours_and_blanks_do_not_matter() -> None:
    text = (HERE / "a100-8.txt").read_text(encoding="utf-8")
    prompt = "user@host:~$ nvidia-smi topo -m\n" + text.replace("\t", "   ")
    assert read(prompt).cells == matrix("a100-8").cells
    coloured = text.replace("\tGPU0\t", "\t\x1b[4mGPU0\t", 1).replace("NUMA Affinity", "NUMA Affinity\x1b[0m", 1)
    assert read(coloured).cells == matrix("a100-8").cells
    pasted = coloured.replace("\x1b", "")
    assert read(pasted).cells == matrix("a100-8").cells


def test_rows_of_nics_may_be_missing() -> None:
    found = matrix("gb200-tray")
    assert [note.code for note in found.notes] == ["rows-missing"]
    assert found.cells["NIC3", "GPU0"] == found.cells["GPU0", "NIC3"] == "SYS"
    assert ("NIC0", "NIC1") not in found.cells
    assert found.places["GPU1"].numa == "0,10-17"


# --- links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "on", "bandwidth_bytes_per_s", "source"),
    [
        ("a100-8", None, 300e9, "nvlink3"),
        ("h100-8", None, 450e9, "nvlink4"),
        ("h100-8", "h200-sxm", 450e9, "h200-sxm"),
        ("b200-8", "b200-sxm", 900e9, "b200-sxm"),
        ("gb200-tray", "gb200", 900e9, "gb200-nvl72"),
        ("rtx-3090-2-bridge", None, 56.25e9, "nvlink3-bridge"),
        ("rtx-3090-2-bridge", "rtx-3090-pair-nvlink", 56.25e9, "rtx-3090-pair-nvlink"),
        ("v100-dgx-2", None, 150e9, "nvlink2"),
        ("v100-dgx-2", "v100-sxm", 150e9, "v100-sxm"),
    ],
)
def test_nvlinks_are_as_fast_as_the_catalogue_says(
    name: str, on: str | None, bandwidth_bytes_per_s: float, source: str
) -> None:
    found = seen(name, on=on).weakest
    assert found is not None
    assert found.source == source
    assert found.link.bandwidth_bytes_per_s == pytest.approx(bandwidth_bytes_per_s)


def test_each_nvlink_of_a_mesh_counts() -> None:
    found = seen("v100-dgx-1")
    rates = {edge.letters: edge.link.bandwidth_bytes_per_s for edge in found.edges}
    assert rates["NV1"] == pytest.approx(25e9)
    assert rates["NV2"] == pytest.approx(50e9)
    by_system = seen("v100-dgx-1", on="v100-sxm")  # 150 GB/s over the 6 links of a row
    assert {e.letters: e.link.bandwidth_bytes_per_s for e in by_system.edges}["NV2"] == pytest.approx(50e9)


def test_a_better_ring_is_found_where_there_is_one() -> None:
    found = seen("v100-dgx-1")
    assert found.better_weakest is not None
    assert found.better_weakest.letters == "NV2"
    assert sorted(found.better) == sorted(found.ring)
    assert seen("l40s-8").better == ()  # two sockets are crossed twice, in whatever order
    assert seen("a100-8").better == ()


@pytest.mark.parametrize(("pcie", "rate"), [(3, 15.75e9), (4, 31e9), (5, 63e9), (6, 121e9)])
def test_the_generation_of_the_slots_sets_their_rate(pcie: int, rate: float) -> None:
    found = seen("rtx-5090-2", pcie=pcie)
    assert found.weakest is not None
    assert found.weakest.link.bandwidth_bytes_per_s == rate
    assert not [note for note in found.notes if note.code == "pcie-assumed"]


def test_what_the_letters_do_not_say_is_said_to_be_assumed() -> None:
    codes = {note.code for note in seen("h100-8").notes}
    assert codes == {"pcie-assumed", "nvlink-assumed", "sockets-assumed"}
    assert {note.code for note in seen("h100-8", on="h100-sxm", pcie=5).notes} == {"sockets-assumed"}
    assert "count-differs" in {note.code for note in seen("gb200-tray", on="h100-sxm").notes}
    assert not seen("rtx-5090-2", pcie=5).notes


def test_a_number_of_nvlinks_is_read() -> None:
    assert [nvlinks(letters) for letters in ("NV18", "NV1", "NV0", "NV", "PIX", "NV123")] == [18, 1, 0, 0, 0, 0]


# --- what is wrong ----------------------------------------------------------------------------------------------------

GOOD = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV2\tPIX\t0-3\nGPU1\tNV2\t X \tSYS\t0-3\nNIC0\tPIX\tSYS\t X\n"


def test_the_smallest_matrix_is_good() -> None:
    assert len(read(GOOD).cells) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"stdin: it is empty\. Allowed: .*topo -m.*Do: nvidia-smi topo -m \| nhalf topo -"),
        ("   \n\n", "it is empty"),
        ("nvidia-smi: command not found\n", "there is no row of GPUs"),
        ("# nThread 1 nGpus 8\n 8 2 float sum\n", "there is no row of GPUs"),
        ("\tGPU0\tGPU1\tCPU Affinity\n", "there is a header, and no row of GPU0"),
        (GOOD.replace("GPU1\tNV2\t X \tSYS\t0-3\n", ""), "the row of GPU1 is missing"),
        (GOOD.replace("NV2\tPIX\t0-3", "NV2\t0-3"), r"line 2, row GPU0, column NIC0: the row ends early, at '0-3'"),
        (GOOD.replace("NV2\tPIX\t0-3", "NV2"), r"line 2: row GPU0 has 2 of 3 cells.*GPU0, GPU1, NIC0"),
        (GOOD.replace("PIX\t0-3", "PIXX\t0-3"), r"column NIC0: 'PIXX' where letters should be.*Did you mean 'PIX'\?"),
        (GOOD.replace("NV2", "NV"), r"'NV' where letters should be.*Allowed: X, SYS"),
        (GOOD.replace("GPU0\t X ", "GPU0\tSYS"), r"line 2, row GPU0, column GPU0: 'SYS' where a row meets itself"),
        (GOOD.replace("GPU1\tNIC0", "GPU1\tGPU1", 1), "GPU1 is there twice"),
        (GOOD.replace("NV2", "OK"), r"'OK' is of `nvidia-smi topo -p2p`"),
    ],
)
def test_a_broken_matrix_says_where(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text)


def test_lines_that_were_cut_are_refused_and_not_read_as_a_smaller_machine() -> None:
    whole = (HERE / "a100-8.txt").read_text(encoding="utf-8")
    cut = "\n".join(line.expandtabs(8)[:88] for line in whole.splitlines())
    with pytest.raises(InputError, match=r"the column of NIC.* is missing: the lines are cut"):
        read(cut)


def test_a_pair_that_differs_both_ways_is_noted() -> None:
    found = read(GOOD.replace("GPU1\tNV2", "GPU1\tSYS"))
    assert [note.code for note in found.notes] == ["asymmetric"]
    assert "GPU0 to GPU1 is NV2, back it is SYS" in found.notes[0].text


@pytest.mark.parametrize(
    ("on", "pcie", "message"),
    [
        ("h100-sx", None, r"--on: the catalogue has no system 'h100-sx'.*Did you mean 'h100-sxm'\?"),
        (None, 7, r"--pcie: PCIe 7 is not known\. Allowed: 3, 4, 5, 6"),
    ],
)
def test_what_the_user_adds_is_checked(on: str | None, pcie: int | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        seen("h100-8", on=on, pcie=pcie)

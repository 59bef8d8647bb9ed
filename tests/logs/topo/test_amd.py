"""The matrices of rocm-smi and amd-smi, and cells of nvidia-smi that lost the blank between them."""

from __future__ import annotations

import pytest

from nhalf.catalog.topology import machine
from nhalf.errors import InputError
from nhalf.evidence.readers.topo import read
from nhalf.fabric import Topology

HEAD = "       GPU0         GPU1         GPU2         GPU3         \n"


def rocm(cells: list[str], title: str = "Link Type between two GPUs") -> str:
    rows = []
    for row in range(4):
        words = ["0" if row == column else cells[(row // 2) != (column // 2)] for column in range(4)]
        rows.append(f"GPU{row}   " + "".join(f"{word:13s}" for word in words))
    return f"=============== {title} ===============\n{HEAD}" + "\n".join(rows) + "\n\n"


ROCM = (
    rocm(["15", "72"], "Weight between two GPUs") + rocm(["1", "3"], "Hops between two GPUs") + rocm(["XGMI", "PCIE"])
    + "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[3]\t\t: (Topology) Numa Node: 1\n"
)  # fmt: skip
AMD = """ACCESS TABLE:
             0000:03:00.0 0000:0c:00.0
0000:03:00.0 ENABLED      DISABLED
0000:0c:00.0 DISABLED     ENABLED
LINK TYPE TABLE:
             0000:03:00.0 0000:0c:00.0
0000:03:00.0 SELF         XGMI
0000:0c:00.0 XGMI         SELF
NUMA BW TABLE:
             0000:03:00.0 0000:0c:00.0
"""


def test_two_hives_are_weakest_between_them() -> None:
    found = machine(read(ROCM))
    assert found.weakest is not None
    assert (found.weakest.start, found.weakest.end, found.weakest.letters) == ("GPU1", "GPU2", "PCIE")
    assert sorted(edge.letters for edge in found.edges) == ["PCIE"] * 8 + ["XGMI"] * 4
    assert {note.code for note in found.notes} == {"hops", "pcie-assumed", "xgmi-assumed"}
    assert found.matrix.places["GPU3"].numa == "1"


def test_a_mesh_of_xgmi_has_a_link_for_each_pair() -> None:
    found = machine(read(AMD), on="mi300x")
    assert found.topology is Topology.MESH
    assert found.matrix.devices == {"GPU0": "0000:03:00.0", "GPU1": "0000:0c:00.0"}
    assert found.intra_node is not None
    assert float(found.intra_node.bandwidth_bytes_per_s) == pytest.approx(64e9)


@pytest.mark.parametrize(("text", "word"), [
    (ROCM.replace("XGMI", "XGMX"), "no link type"),
    (ROCM[: ROCM.index("GPU3   PCIE")], "missing"),
    ("LINK TYPE TABLE:\n", "no matrix"),
])  # fmt: skip
def test_what_is_cut_or_unknown_is_refused(text: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        read(text)


def test_a_matrix_of_the_other_make_is_refused() -> None:
    with pytest.raises(InputError, match="rocm-smi knows no"):
        machine(read(ROCM), on="h100-sxm")


def test_glued_cells_are_two_where_that_makes_the_row_whole() -> None:
    plain = "\tGPU0\tGPU1\tNIC0\tNIC1\nGPU0\t X \tNV18\tSYS\tSYS\nGPU1\tNV18\t X \tNODE\tPIX\n"
    plain += "NIC0\tSYS\tNODE\t X \tPIX\nNIC1\tSYS\tPIX\tPIX\t X\n"
    glued = plain.replace("SYS\tSYS", "SYSSYS").replace("NODE\tPIX", "NODEPIX").replace("\t X \tPIX", "\t XPIX")
    assert read(glued) == read(plain)
    with pytest.raises(InputError):
        read(plain.replace("SYS\tSYS", "SYS"))

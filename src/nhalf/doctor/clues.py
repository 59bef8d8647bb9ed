"""Clues: what the text of logs says of transports, settings and links, whatever the times are.

References
----------
NVIDIA/nccl, src/init.cc, src/transport/net.cc, shm.cc, p2p.cc, nvls.cc and src/graph/paths.cc for the lines of
NCCL_DEBUG=INFO; its documentation of environment variables. rdma-core's ibstat and ibv_devinfo; pciutils' LnkSta.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.topo import Matrix

SURE, LIKELY, HINT = 6.0, 4.0, 2.0
"""Weights of clues: natural logarithms of the odds by which they speak for a cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """What a log says for a cause (`weight` above 0) or against it (below), in a sentence."""

    code: str
    weight: float
    text: str


@dataclass(slots=True, kw_only=True)
class Facts:
    """What the text of logs says, counted; `rates_gbit` and `mtus` are those of ports."""

    networks: Counter[str] = field(default_factory=Counter)
    settings: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    hcas: int = 0
    wires: set[str] = field(default_factory=set)
    rates_gbit: list[float] = field(default_factory=list)
    mtus: list[int] = field(default_factory=list)

    @property
    def spoken(self) -> int:
        """Return how much was found."""
        told = (self.networks.total(), self.counts.total(), len(self.settings), len(self.rates_gbit), len(self.mtus))
        return sum(told)

    def take(self, line: str) -> Facts:
        """Take what a line says; return these facts."""
        if any(word in line for word in _WORDS):
            self._take(line[:_LONGEST])
        return self

    def _take(self, line: str) -> None:
        self.networks.update(name for name in _NETWORK.findall(line))
        for name, marked in _VIA.findall(line):
            self.networks[name] += 1
            self.counts["gdr" if marked else "no gdr"] += 1
        if found := _USING.search(line):
            ports = _HCA.findall(found[1])
            self.hcas = max(self.hcas, len(ports))
            self.wires |= set(ports)
        for name, pattern in _COUNTED.items():
            self.counts[name] += bool(pattern.search(line))
        for name, value in (*_SET.findall(line), *_GIVEN.findall(line)):
            self.settings[name] = value.rstrip(".,;")
        self.rates_gbit += [float(found[1]) for found in _RATE.finditer(line)]
        self.mtus += [int(found[1]) for found in _MTU.finditer(line)]


_LONGEST: Final = 4096
_WORDS: Final = (
    "NCCL", "NET/", "via ", "ate:", "active_mtu", "LnkSta", "inactive", "mtu ", "FI_PROVIDER", "Using network",
)  # fmt: skip
_NETWORK = re.compile(r"Using network (\S+(?: \S+)?)")
_VIA = re.compile(r"\bvia NET/([^/]+)/\d+(/GDRDMA)?")
_USING = re.compile(r"NET/IB\w* ?: Using (.*?)(?:;|$)")
_HCA = re.compile(r"\[\d+\][\w.-]+:\d+(?:/(\w+))?")
_SET = re.compile(r"\b(NCCL_\w+|FI_PROVIDER) set (?:by environment )?to (\S+)")
_GIVEN = re.compile(r"\b(NCCL_\w+|FI_PROVIDER)=(\S+)")
_RATE = re.compile(r"^\s*(?:Rate|rate):\s*(\d+(?:\.\d+)?)")
_MTU = re.compile(r"active_mtu:\s*(\d+)")
_COUNTED: Final = {
    "shm": re.compile(r"\bvia (?:SHM|direct shared memory)"),
    "p2p": re.compile(r"\bvia P2P\b"),
    "gdr disabled": re.compile(r"NET/(?!Socket).*GPU Direct RDMA Disabled"),
    "no nvls": re.compile(r"NVLS multicast support is not available"),
    "nvls": re.compile(r"NVLS multicast support is available|Connected NVLS"),
    "downgraded": re.compile(r"LnkSta:.*\((?:downgraded|strange)\)"),
    "inactive link": re.compile(r"Link \d+: <?inactive>?", re.IGNORECASE),
    "frame 1500": re.compile(r"\bmtu 1500\b"),
}


_SETTINGS: Final = (
    ("NCCL_IB_DISABLE", r"1", "tcp", LIKELY),
    ("NCCL_NET", r"Socket", "tcp", SURE),
    ("FI_PROVIDER", r"tcp.*|sockets", "tcp", SURE),
    ("NCCL_P2P_DISABLE", r"1", "host-bounce", SURE),
    ("NCCL_P2P_LEVEL", r"LOC|0", "host-bounce", SURE),
    ("NCCL_NVLS_ENABLE", r"0", "nvls-off", SURE),
    ("NCCL_ALGO", r"(?!.*nvls)(?!\^).*(?:ring|tree).*|\^.*nvls.*", "nvls-off", LIKELY),
    ("NCCL_PROTO", r"LL", "protocol-capped", SURE),
    ("NCCL_PROTO", r"LL128|LL,LL128|LL128,LL", "protocol-capped", HINT),
    ("NCCL_MAX_NCHANNELS", r"[1-4]", "protocol-capped", LIKELY),
    ("NCCL_MAX_CTAS", r"[1-4]", "protocol-capped", LIKELY),
    ("NCCL_NET_GDR_LEVEL", r"LOC|0", "no-gdr", SURE),
    ("NCCL_IB_HCA", r"=?\w+_\d+(?::\d+)?", "rails", HINT),
)
"""A variable, its values that speak for a cause, and how strongly."""
_SAID: Final = (
    ("shm", "p2p", "host-bounce", LIKELY, "channels inside a node go through shared memory (SHM)"),
    ("p2p", "shm", "host-bounce", -LIKELY, "channels inside a node go from GPU to GPU (P2P)"),
    ("no nvls", "", "nvls-off", LIKELY, "the library says that NVLS multicast is not available"),
    ("nvls", "no nvls", "nvls-off", -HINT, "the library says that NVLS multicast is available"),
    ("downgraded", "", "half-speed-link", LIKELY, "lspci says of a PCIe link that it is downgraded"),
    ("inactive link", "", "half-speed-link", LIKELY, "an NVLink is inactive"),
    ("gdr", "no gdr", "no-gdr", -LIKELY, "every channel through the NICs is marked GDRDMA"),
    ("gdr disabled", "gdr", "no-gdr", LIKELY, "the library says that GPU Direct RDMA is disabled"),
)
"""What is counted and what must not be, the cause that it speaks for or against, and the sentence."""


def clues(facts: Facts, *, nics_per_node: float, nic_gbit: float) -> list[Clue]:
    """Return what facts say for and against causes on nodes with so many NICs of a rate [Gb/s]."""
    found = [
        Clue(code=code, weight=weight, text=f"{name}={value} is set")
        for known, values, code, weight in _SETTINGS
        for name, value in facts.settings.items()
        if name == known and re.fullmatch(values, value, re.IGNORECASE)
    ]
    counts = facts.counts
    # That channels of P2P are there as well does not undo that some go through shared memory.
    found += [
        Clue(code=code, weight=weight, text=text)
        for name, without, code, weight, text in _SAID
        if counts[name] and not (counts[without] and (weight < 0 or name != "shm"))
    ]
    return [*found, *_of_network(facts), *_of_ports(facts, nics_per_node, nic_gbit)]


def _of_network(facts: Facts) -> Iterable[Clue]:
    other = sorted(name for name in facts.networks if not name.startswith("Socket"))
    if facts.networks and not other:
        yield Clue(code="tcp", weight=SURE, text="the library says that it uses sockets (NET/Socket)")
    elif other:
        yield Clue(code="tcp", weight=-SURE, text=f"the library uses {other[0]}, not sockets")
        if facts.counts["no gdr"] and not facts.counts["gdr"]:
            yield Clue(code="no-gdr", weight=LIKELY, text="no channel through the NICs is marked GDRDMA")


def _of_ports(facts: Facts, nics_per_node: float, nic_gbit: float) -> Iterable[Clue]:
    if facts.hcas and nics_per_node > 1:
        few = facts.hcas <= nics_per_node / 2
        text = f"the library uses {facts.hcas} NICs of a node's {nics_per_node:g}"
        yield Clue(code="rails", weight=LIKELY if few else -LIKELY, text=text)
    slowest, small = min(facts.rates_gbit, default=nic_gbit), min(facts.mtus, default=_LARGE_MTU)
    if facts.rates_gbit and slowest <= _HALF * nic_gbit:
        text = f"a port runs at {slowest:g} Gb/s, where {nic_gbit:g} was expected"
        yield Clue(code="half-speed-link", weight=SURE, text=text)
    if small <= _SMALL_MTU:
        yield Clue(code="mtu", weight=LIKELY, text=f"a port's active MTU is {small}, of {_LARGE_MTU}")
    if facts.counts["frame 1500"] and any(name.startswith("Socket") for name in facts.networks):
        yield Clue(code="mtu", weight=HINT, text="an interface has an MTU of 1500")


_HALF: Final = 0.6
"""Half, and what the name of a rate rounds."""
_SMALL_MTU, _LARGE_MTU = 1024, 4096
_FAR: Final = ("SYS", "SOC", "NODE", "PHB")


def of_matrix(matrix: Matrix, *, nvlinked: bool, nics_per_node: float) -> list[Clue]:
    """Return what a topology matrix says on a system whose GPUs are joined by NVLink or not."""
    found = []
    gpus, nics = matrix.gpus, matrix.nics
    pairs = [letters for (one, other), letters in matrix.cells.items() if one in gpus and other in gpus]
    if nvlinked and pairs and not any(letters.startswith("NV") for letters in pairs):
        found.append(Clue(code="host-bounce", weight=SURE, text="no pair of GPUs is joined by NVLink in the matrix"))
    near = {gpu: [matrix.cells.get((gpu, nic), "") for nic in nics] for gpu in gpus}
    lost = [gpu for gpu, letters in near.items() if letters and all(each in _FAR for each in letters)]
    if lost:
        which = "every GPU" if len(lost) == len(gpus) else ", ".join(lost[:4])
        text = f"{which} reaches every NIC through the host (none at PIX or PXB)"
        found.append(Clue(code="nic-affinity", weight=LIKELY, text=text))
    if nics and nics_per_node > 1 and len(nics) <= nics_per_node / 2:
        found.append(Clue(code="rails", weight=HINT, text=f"the matrix shows {len(nics)} NICs of {nics_per_node:g}"))
    return found

"""Read p2pBandwidthLatencyTest of the CUDA samples: seven matrices and more, with P2P disabled and enabled.

Source, by description: NVIDIA/cuda-samples, p2pBandwidthLatencyTest.cu. Its latency is the time to issue a small copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nhalf.collective import Op
from nhalf.evidence.readers.columns import note, skip
from nhalf.evidence.readers.matrix import Matrix, unit_of
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Note, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line

_TITLE = re.compile(r"(Unidirectional |Bidirectional )?P2P=(Disabled|Enabled) (Bandwidth|Latency)")


@dataclass(slots=True)
class _Titled:
    matrix: Matrix
    by: str
    skipped: list[Skipped] = field(default_factory=list)


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    found: list[_Titled] = []
    title = ""
    current: _Titled | None = None
    for line in lines:
        text = line.text
        tokens = text.split()
        if _TITLE.search(text):
            title, current = text.strip(), None
        elif "Matrix" in text:  # the connectivity matrix
            title, current = "", None
        elif title and tokens[0] in {"D\\D", "GPU", "CPU"} and (what := unit_of(title)):
            current = _Titled(Matrix(title, *what), "" if tokens[0] == "D\\D" else tokens[0])
            if current.matrix.take(line, tokens) == "taken":
                found.append(current)
        elif current:
            answer = current.matrix.take(line, tokens)
            if answer not in {"taken", "other"}:
                current.skipped.append(skip(line, source, answer))
    return [_table(one, source) for one in found if one.matrix.figures or one.skipped]


def _table(one: _Titled, source: str) -> Table:
    matrix = one.matrix
    title = _TITLE.search(matrix.title)
    enabled = bool(title) and title[2] == "Enabled" if title else False
    bandwidth = matrix.of == "bandwidth"
    ways = (title[1] or "").strip().casefold() if title else ""
    label = ", ".join(filter(None, (f"P2P {'enabled' if enabled else 'disabled'}", ways, one.by)))
    return Table(
        file=source,
        tool="p2pBandwidthLatencyTest",
        op=Op.SEND_RECV,
        test="device-to-device",
        ranks=len(matrix.columns),
        nodes=1,
        quantity="back_to_back" if bandwidth else "isolated",
        size_is="none",
        label=label,
        streamed=bandwidth,
        figures=tuple(matrix.figures),
        notes=tuple(_notes(one, enabled=enabled, both_ways=ways == "bidirectional")),
        skipped=tuple(one.skipped),
    )


def _notes(one: _Titled, *, enabled: bool, both_ways: bool) -> Iterable[Note]:
    if one.matrix.of == "bandwidth":
        yield note("one-size", "one copy size: bandwidth only")
    else:
        yield note("issue-time", f"latency here is the time to issue a copy on a {one.by or 'GPU'}")
    if both_ways:
        yield note("both-ways", "the bandwidth of both directions together")
    if not enabled:
        yield note("p2p-disabled", "P2P disabled: the path through the host, not the link")
    yield note("diagonal", "the diagonal is local memory")


READER = Format(
    name="p2p-bandwidth-latency-test",
    words=("P2P",),
    signs=(
        (re.compile(r"P2P \(Peer-to-Peer\) GPU Bandwidth Latency Test"), 1.0),
        (re.compile(r"P2P=(?:Disabled|Enabled) (?:Bandwidth|Latency)"), 0.9),
    ),
    parse=_parse,
    banner=re.compile(r"\[P2P \(Peer-to-Peer\)"),
)

"""What launchers, terminals, editors and web pages do to a log changes nothing that is read from it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.logs.test_truth_table import FILES

from nhalf.evidence.readers import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.evidence.table import Table

HERE = Path(__file__).parent
WIDE = {ord(c): chr(ord(c) + 0xFEE0) for c in "0123456789."} | {ord(" "): "\u3000"}
DATA = re.compile(r"[\s\[\]0-9:|*]*\d")
NO_ADDED_LINES = (".json", ".jsonl")
CHATTER = "+ mpirun -np 8 ./benchmark\nWarning: Permanently added 'node-b' (ED25519)\nsrun: job 4242 queued\n"


def each(change: Callable[[int, str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(i, line) for i, line in enumerate(text.split("\n")))


def prefixed(prefix: str) -> Callable[[str], str]:
    return each(lambda _, line: prefix + line)


def widened(i: int, line: str) -> str:
    return line.translate(WIDE) if i % 5 == 2 and re.match(r"\s*\d", line) else line


def with_debug_lines(text: str) -> str:
    lines: list[str] = []
    for i, line in enumerate(text.split("\n")):
        lines.append(line)
        if i % 7 == 3:
            lines.append("node-a:4100:4133 [0] NCCL INFO Connected all rings")
        if i % 11 == 3:
            lines.append("[2026-03-02 10:00:00] node-b:41:43 [7] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL")
    return "\n".join(lines)


LINES: dict[str, Callable[[str], str]] = {
    "colour": each(lambda _, line: f"\x1b[1;32m{line}\x1b[0m"),
    "mpirun": prefixed("[1,0]<stdout>:"),
    "srun": prefixed("0: "),
    "mpich": prefixed("[0] "),
    "torchrun": prefixed("[rank0]: "),
    "host": prefixed("node-a: "),
    "container": prefixed("bench-1  | "),
    "time": each(lambda i, line: f"2026-03-02T10:36:{i % 60:02d}.699Z {line}"),
    "bracketed time": each(lambda i, line: f"[2026-03-02 10:36:{i % 60:02d}] {line}"),
    "syslog": each(lambda i, line: f"Mar  2 10:36:{i % 60:02d} node-a bench[123]: {line}"),
    "time and rank": each(lambda i, line: f"2026-03-02T10:36:{i % 60:02d}Z [0] {line}"),
    "rank and colour": each(lambda _, line: f"[1,0]<stdout>:\x1b[32m{line}\x1b[0m"),
    "line numbers": each(lambda i, line: f"{i + 1:4d}  {line}"),
    "line numbers of an excerpt": each(lambda i, line: f"{i + 57}: {line}"),
    "line numbers and colour": each(lambda i, line: f"{i + 1:6d}\t\x1b[32m{line}\x1b[0m"),
    "indentation": prefixed("    "),
    "quoted": prefixed("> "),
    "trailing spaces": each(lambda _, line: line + " " * 20),
    "eaten hash": each(lambda _, line: re.sub("^#", "", line)),
    "bold": each(lambda i, line: re.sub(r"(\d+\.\d+)", r"**\1**", line) if i % 3 == 0 else line),
    "wide": each(widened),
    "decimal comma": each(lambda _, line: re.sub(r"(?<=\d)\.(?=\d)", ",", line) if DATA.match(line) else line),
    "debug lines": with_debug_lines,
    "chatter": lambda text: f"{CHATTER}{text}\n[node-a:04100] 7 more processes have sent help message\n",
    "fence": lambda text: f"This is what we see:\n\n```\n{text}\n```\n\nIs that expected?\n",
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "old line ends": lambda text: text.replace("\n", "\r"),
}
BREAKS_JSON = {"line numbers", "line numbers of an excerpt", "line numbers and colour", "eaten hash", "wide"} | {
    *("decimal comma", "debug lines", "chatter", "fence", "bold"),
}
BYTES: dict[str, Callable[[str], bytes]] = {
    "mark": lambda text: ("\ufeff" + text).encode(),
    "utf-16": lambda text: ("\ufeff" + text).encode("utf-16-le"),
    "utf-16 of the other end": lambda text: ("\ufeff" + text).encode("utf-16-be"),
    "utf-16 without its mark": lambda text: text.encode("utf-16-le"),
    "gzip": lambda text: gzip.compress(text.encode()),
}


def facts(tables: list[Table]) -> list[object]:
    """Return all that is read, without line numbers and file names."""
    return [
        (
            *(
                table.tool,
                table.name,
                table.ranks,
                table.nodes,
                table.quantity,
                table.size_is,
                table.dtype,
                table.label,
            ),
            [(point.size_bytes, point.seconds, point.wrong) for point in table.points],
            [(figure.value, figure.label) for figure in table.figures],
        )
        for table in tables
        if table.rows
    ]


CASES = [
    pytest.param(name, how, id=f"{name}-{how}")
    for name in FILES
    for how in LINES
    if not (name.endswith(NO_ADDED_LINES) and how in BREAKS_JSON)
    and not (name.endswith(".csv") and how == "decimal comma")
]


@pytest.mark.parametrize(("name", "how"), CASES)
def test_noise_changes_nothing(name: str, how: str, tmp_path: Path) -> None:
    path = HERE / name
    noisy = tmp_path / "log"
    noisy.write_bytes(LINES[how](path.read_text(encoding="utf-8")).encode())
    assert facts(read(noisy)) == facts(read(path))


@pytest.mark.parametrize("how", BYTES)
@pytest.mark.parametrize("name", FILES)
def test_encoding_changes_nothing(name: str, how: str, tmp_path: Path) -> None:
    path = HERE / name
    noisy = tmp_path / "log"
    noisy.write_bytes(BYTES[how](path.read_text(encoding="utf-8")))
    assert facts(read(noisy)) == facts(read(path))

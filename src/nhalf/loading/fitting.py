"""Fitting: what `nhalf fit` was asked in texts, read and fitted."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.catalog import store
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.evidence.comparison import compare
from nhalf.evidence.decode_messages import ACTIVATION_BYTES, marks
from nhalf.evidence.fit import fit
from nhalf.evidence.reading import completed
from nhalf.loading.devices import system_of_device
from nhalf.loading.model import transformer_of
from nhalf.loading.readers import not_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.evidence.comparison import Comparison
    from nhalf.evidence.decode_messages import Mark
    from nhalf.evidence.fit import Fit
    from nhalf.evidence.gate import Gate
    from nhalf.evidence.table import Table
    from nhalf.system import System

BATCHES = "1,8,64"
"""The batches whose messages are marked where none are named."""
THEMSELVES: Final = "FILE..."
"""What `--compare` alone stands for: the logs that are named are compared with the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """What flags say of logs that do not: operation, ranks, nodes, mode, format, and the system that they ran on."""

    op: str | None
    ranks: int | None
    nodes: int | None
    mode: str | None
    format_: str | None
    system: System | None

    @property
    def like(self) -> str:
        """Return the system of the catalogue that the logs' machine is, or is like; empty where nobody says."""
        return "" if self.system is None else self.system.like or self.system.name


def told(
    *, op: str | None, ranks: str | None, nodes: str | None, mode: str | None, format_: str | None, system: str | None
) -> Told:
    """Return what flags say of logs.

    Raises
    ------
    InputError
        A count is none, or the system is not known.
    """
    counts = {"ranks": ranks, "nodes": nodes}
    not_empty({"--format": format_, "--on": system, **{f"--{name}": text for name, text in counts.items()}})
    read = {name: units.parse_count(text, where=f"--{name}") if text else None for name, text in counts.items()}
    found = store.system(system, where="--on")[0] if system else None
    return Told(op=op, ranks=read["ranks"], nodes=read["nodes"], mode=mode, format_=format_, system=found)


def fitted(logs: Sequence[str | None], said: Told) -> tuple[Fit, list[InputError], list[Table]]:
    """Return the fit of logs, an error for each file that cannot be read, and the tables that were fitted.

    What the flags say is added to the tables.

    Raises
    ------
    InputError
        No file can be read, or a flag is none.
    """
    from nhalf.evidence.readers.reading import read_each

    if not all(logs):
        raise InputError("a name is empty", where="FILE", allowed="a file, a folder, or - for standard input")
    with _without_collector():
        read, refused = read_each([log for log in logs if log], said.format_)
        if refused and not any(table.rows for table in read):
            raise refused[0]
        tables = list(completed(read, op=said.op, ranks=said.ranks, nodes=said.nodes, mode=said.mode))
        return fit(tables, system=said.system), refused, tables


@contextmanager
def _without_collector() -> Iterator[None]:
    """Suspend the search for cycles: rows have none, and looking for them takes a third of the time of a long log."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def marked(found: Fit, model: str | None, batch: str | None) -> tuple[list[Mark], list[str]]:
    """Return the decode messages of a model on the curves, none without one, and what is doubtful about them.

    Raises
    ------
    InputError
        The model is not known, or batches are named without one.
    """
    if model is None:
        if batch is not None:
            raise InputError("it is of a model's messages", where="--batch", do="add --model, or leave it out")
        return [], []
    return marks(found, transformer_of(model), units.parse_int_list(batch or BATCHES, where="--batch"))


def judged(found: Fit, asked: Sequence[Gate]) -> tuple[list[str], WeakEvidenceError | None]:
    """Return which gates tripped, and the complaint of one that could not be judged."""
    tripped: list[str] = []
    unknown: WeakEvidenceError | None = None
    for each in asked:
        try:
            tripped += [f"{each.text}: {text}" for text in each.tripped(found)]
        except WeakEvidenceError as error:
            unknown = unknown or error
    return tripped, unknown


def examined(found: Fit) -> str:
    """Return the verdict of the doctor in one line, where a system is named; empty otherwise."""
    if found.system is None:
        return ""
    from nhalf.loading.doctoring import first_line

    return first_line(found)


def used_for(model: str | None, said: Told, found: Fit) -> dict[str, Any]:
    """Return which step a link is used for, as far as the flags, or the devices that a log names, say."""
    answer: dict[str, Any] = {"model": model} if model else {}
    device = next((curve.series.device for curve in found.curves if curve.series.device), "")
    system = said.system
    if system is None and (name := system_of_device(device)):
        system = store.system(name)[0]
        answer["named"] = device
    if system is not None:
        answer |= {"system": system.name, "devices_per_node": system.fabric.devices_per_node}
    return {**answer, "like": "" if system is not None else "h100-sxm"}


def compared(logs: Sequence[str], other: str | None, said: Told, found: Fit) -> tuple[Comparison | None, Fit]:
    """Return what changed from one log to another, and the fit of all their curves.

    `other` is the log to compare with, or `THEMSELVES`: then it is the first of the logs with the rest.

    Raises
    ------
    InputError
        A log cannot be read, or there is no second one.
    """
    if other is None:
        return None, found
    if other == THEMSELVES:
        if len(logs) < 2:  # noqa: PLR2004  a log is compared with another
            raise InputError("there is one log", where="--compare", allowed="nhalf fit BEFORE AFTER --compare")
        before, after = fitted(logs[:1], said)[0], fitted(logs[1:], said)[0]
        return compare(after, before), found
    before = fitted((other,), said)[0]
    return compare(found, before), replace(found, curves=(*before.curves, *found.curves))


def message_bytes(model: str | None) -> float | None:
    """Return what a model's all-reduce takes for each sequence [bytes], None without a model."""
    return None if model is None else ACTIVATION_BYTES * transformer_of(model).hidden_size


def require(
    found: Fit, comparison: Comparison | None, refused: Sequence[InputError], unknown: WeakEvidenceError | None, *,
    where: str,
) -> None:  # fmt: skip
    """Refuse what an answer leaves open, after it: a file, a gate, a comparison, or all of it.

    Raises
    ------
    InputError
        A file cannot be read.
    WeakEvidenceError
        A gate cannot be judged, no curve has a partner to be compared with, or none gives a latency or a bandwidth.
    """
    if refused:
        raise unread(refused)
    if unknown is not None:
        raise unknown
    if comparison is not None and not comparison.changes:
        raise WeakEvidenceError(
            "no curve of one log has a partner in the other", where="--compare",
            allowed="logs of the same operation and ranks", do="see the curves of each above",
        )  # fmt: skip
    if not found.answered:
        refusal = found.curves[0].latency_refusal or found.curves[0].bandwidth_refusal
        raise WeakEvidenceError(
            f"neither a latency nor a bandwidth: {refusal}", where=where, do="run the command above"
        )


def unread(refused: Sequence[InputError]) -> InputError:
    """Return the error of files that could not be read beside others that were answered."""
    if len(refused) == 1:
        return refused[0]
    reasons = "; ".join(f"{error.where}: {error.what}" for error in refused)
    return InputError(f"{len(refused)} files cannot be read: {reasons}", where="FILE", do="check these files")

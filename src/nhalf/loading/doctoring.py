"""What `nhalf doctor` was asked: logs, matrices, debug output and traces in any mixture, read and examined."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.catalog import store
from nhalf.doctor import history, pairs, waiting
from nhalf.doctor.clues import SURE, Clue, Facts, clues, of_matrix
from nhalf.doctor.examination import Examination, examined
from nhalf.doctor.verdict import sentence
from nhalf.doctor.yardstick import Known, is_across
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.evidence.decode_messages import ACTIVATION_BYTES, ALL_REDUCES_PER_LAYER
from nhalf.evidence.fit import Fit, fit
from nhalf.evidence.readers import topo
from nhalf.evidence.readers.detection import cleaned
from nhalf.evidence.readers.reading import read_source
from nhalf.evidence.readers.source import sources
from nhalf.evidence.reading import completed
from nhalf.loading.model import transformer_of
from nhalf.loading.readers import not_empty
from nhalf.trace.sources import find as find_traces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.doctor.diagnosis import Cause
    from nhalf.doctor.examination import Reading
    from nhalf.doctor.history import Change
    from nhalf.doctor.pairs import Ends, Matrix, Pair
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.readers.source import Source
    from nhalf.evidence.readers.topo import Matrix as Topology
    from nhalf.evidence.table import Table
    from nhalf.units import Limit

_DEVICES: Final = (
    (r"H100 PCIe", "h100-pcie"), (r"H100 NVL", "h100-nvl-pair"), (r"\bH100", "h100-sxm"), (r"GH200", "gh200-slingshot"),
    (r"\bH200", "h200-sxm"), (r"GB200", "gb200-nvl72"), (r"GB300", "gb300-nvl72"), (r"\bB200", "b200-sxm"),
    (r"\bB300", "b300-sxm"), (r"\bA100", "a100-sxm"), (r"\bH20\b", "h20-sxm"), (r"V100.SXM", "v100-sxm"),
    (r"RTX PRO 6000", "rtx-pro-6000"), (r"\bL40S", "l40s"), (r"MI300X", "mi300x"), (r"MI325X", "mi325x"),
    (r"MI355X", "mi355x"),
)  # fmt: skip
"""The system that the name of a GPU in a log means, where nobody names one."""
_FABRICS: Final = ((r"AWS Libfabric|EFA", "-efa"), (r"RoCE", "-roce"))
_DAY: Final = re.compile(r"(?<!\d)(20\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12]\d|3[01])(?!\d)")
_HEAD: Final = 400
_MATRIX: Final = re.compile(r"\bGPU0\b.*\bGPU1\b|\bGPU0\s+X\b")
_MOST_CURVES: Final = 64


@dataclass(slots=True, kw_only=True)
class Read:
    """What was read of files: tables, what their text says, matrices of `topo -m`, traces, and the days of files."""

    tables: list[Table] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    matrices: list[Topology] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    days: dict[str, str] = field(default_factory=dict)
    refused: list[InputError] = field(default_factory=list)
    files: int = 0

    def take(self, given: str) -> None:
        """Read a file, a folder, or - for standard input."""
        try:
            files = sources(given)
        except InputError as error:
            self.refused.append(error)
            return
        for source, in_folder in files:
            self.files += 1
            try:
                self._take(source, in_folder=in_folder)
            except InputError as error:
                self.refused.append(error)

    def _take(self, source: Source, *, in_folder: bool) -> None:
        if source.path is not None and _is_trace(source):
            self.traces.append(str(source.path))
            return
        before = self.facts.spoken
        head: list[str] = []
        shown = False
        for line in cleaned(source):
            self.facts.take((line.text,))
            shown = shown or bool(_MATRIX.search(line.text))
            head += [line.text] if len(head) < _HEAD else []
        if shown:
            self.matrices.append(topo.read("\n".join(head), where=source.name))
            return
        self.days[source.name] = _day(source, head)
        try:
            self.tables += read_source(source, in_folder=in_folder)
        except InputError:
            if self.facts.spoken == before:
                raise


def _is_trace(source: Source) -> bool:
    try:
        return bool(source.path and find_traces([str(source.path)]))
    except InputError:
        return False


def _day(source: Source, head: Sequence[str]) -> str:
    """Return the day of a log [ISO]: by its name, else by its text, else by its file."""
    for text in (source.name.replace("\\", "/").rpartition("/")[2], *head):
        if found := _DAY.search(text):
            return "-".join(found.groups())
    when = source.path.stat().st_mtime if source.path is not None else dt.datetime.now(tz=dt.UTC).timestamp()
    return dt.datetime.fromtimestamp(when, tz=dt.UTC).date().isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line says."""

    logs: tuple[str, ...]
    system: str | None = None
    model: str | None = None
    baseline: str | None = None
    ranks: int | None = None
    nodes: int | None = None


def asked_of(
    logs: tuple[str, ...], *, ranks: str | None = None, nodes: str | None = None, **names: str | None
) -> Asked:
    """Return what the flags say.

    Raises InputError when a count is none, or a name is empty.
    """
    not_empty({"--on": names.get("system"), "--model": names.get("model"), "--baseline": names.get("baseline")})
    counts = {
        name: units.parse_count(text, where=f"--{name}") if text is not None else None
        for name, text in (("ranks", ranks), ("nodes", nodes))
    }
    return Asked(logs=logs, **names, **counts)  # type: ignore[arg-type]


def examine(asked: Asked) -> tuple[Examination, list[InputError]]:
    """Return the examination of logs, and an error for each file that cannot be read.

    Raises
    ------
    InputError
        No file can be read, or a name is not known.
    WeakEvidenceError
        Nothing that was read says anything.
    """
    read = Read()
    for log in asked.logs:
        read.take(log)
    if read.refused and len(read.refused) >= max(read.files, 1):
        raise read.refused[0]
    tables = completed([table for table in read.tables if table.rows], ranks=asked.ranks, nodes=asked.nodes)
    found = fit(tables) if tables else None
    curves = [curve for curve in (found.curves if found else ()) if _tells(curve)]
    known, assumed = _known(asked.system, read, tables, curves)
    said = _clues(read, tables, known, curves)
    matrices = _matrices(curves, tables, asked.model)
    if not (curves or read.matrices or read.traces or read.facts.spoken):
        raise WeakEvidenceError(
            "it holds no time that a network could be judged by", where=", ".join(asked.logs),
            allowed="logs of collectives, nvidia-smi topo -m, NCCL_DEBUG=INFO, traces", do="nhalf fit --format list",
        )  # fmt: skip
    more = [*_of_traces(read), *_of_pairs(matrices)]
    judged = _usual(curves, matrices)
    readings, odds, causes = examined(judged[:_MOST_CURVES], known, said, more)
    return Examination(
        system=known.system.name if known else "", assumed=assumed, readings=readings, normal_odds=odds, causes=causes,
        matrices=tuple(matrices), changes=tuple(_changes(asked.baseline, curves, read, tables)),
        notes=tuple(_notes(readings, odds, known)), logs=read.files,
        skipped=tuple((skip.file, skip.why) for table in read.tables for skip in table.skipped),
    ), read.refused  # fmt: skip


def first_line(found: Fit) -> str:
    """Return the verdict on a fit whose system is named, in one sentence; empty where nothing can be compared."""
    if found.system is None:
        return ""
    known = _of(found.system.name, "nccl")
    readings, odds, causes = examined([curve for curve in found.curves if _tells(curve)][:_MOST_CURVES], known, ())
    return sentence(Examination(system=known.system.name, readings=readings, normal_odds=odds, causes=causes))


def _tells(curve: CurveFit) -> bool:
    """Tell whether a curve has times of sizes that were measured."""
    key = curve.series.key
    return bool(len(curve.fitted_points[0])) and key.quantity != "predicted" and (key.ranks or 2) > 1


def _known(
    name: str | None, read: Read, tables: Sequence[Table], curves: Sequence[CurveFit]
) -> tuple[Known | None, str]:
    """Return the system that was named, or the one that the logs speak of, and why that one."""
    amd = any(table.tool.startswith("rccl") for table in tables)
    if name is not None:
        return _of(name, "rccl" if amd else "nccl"), ""
    devices = [table.environment.get("device", "") for table in tables]
    guess = next((key for device in devices for pattern, key in _DEVICES if re.search(pattern, device)), None)
    if guess is None:
        return None, ""
    known = _of(guess, "rccl" if amd else "nccl")
    if any(is_across(curve, known.system) for curve in curves):
        spoken = " ".join(read.facts.networks)
        for pattern, ending in _FABRICS:
            if re.search(pattern, spoken) and f"{guess}{ending}" in store.names("system"):
                known = _of(f"{guess}{ending}", "nccl")
    return known, f"{known.system.name}, by the GPUs that the log names"


def _of(name: str, library: str) -> Known:
    system, origins = store.system(name, curves=True, where="--on")
    architecture = system.device.architecture
    try:
        used = store.library(library, architecture=architecture)[0]
    except InputError:
        used = store.library("rccl" if library == "nccl" else "nccl", architecture=architecture)[0]
    return Known(system=system, origins=origins, library=used, sockets=store.transport("tcp")[0])


def _clues(read: Read, tables: Sequence[Table], known: Known | None, curves: Sequence[CurveFit]) -> list[Clue]:
    """Return what the text of all logs says."""
    fabric = known.system.fabric if known else None
    nics = float(fabric.nics_per_node) if fabric is not None else 0.0
    rate = float(fabric.inter_node.bandwidth_bytes_per_s) * 8e-9 if fabric is not None else 0.0
    nvlinked = fabric is not None and str(fabric.topology) == "switch"
    found = clues(read.facts, nics_per_node=nics, nic_gbit=rate)
    for matrix in read.matrices:
        found += of_matrix(matrix, nvlinked=nvlinked, nics_per_node=nics)
    if any("cpu" in table.environment.get("timing_source", "") for table in tables):
        found.append(Clue(code="host-timed", weight=SURE, text="the log says that the host took the times"))
    if known is not None and curves and not any(is_across(curve, known.system) for curve in curves):
        found = [clue for clue in found if clue.code not in _BETWEEN]
    return found


_BETWEEN: Final = ("tcp", "no-gdr", "rails", "mtu", "nic-affinity")
"""Causes that a log inside one node cannot have: NCCL names its network there too."""


def _matrices(curves: Sequence[CurveFit], tables: Sequence[Table], model: str | None) -> list[Matrix]:
    """Return the matrices of pairwise logs, with what each slow pair costs a token of the model."""
    hosts = {table.file: table.environment.get("hosts", "") for table in tables}
    named = [(ends, curve) for curve in curves if (ends := pairs.ends_of(curve, hosts[curve.series.key.file]))]
    if len({ends for ends, _ in named}) < 3:  # noqa: PLR2004  two have no usual one
        return []
    found = pairs.matrices(named)
    if model is None:
        return found
    transformer = transformer_of(model)
    size, calls = transformer.hidden_size * ACTIVATION_BYTES, ALL_REDUCES_PER_LAYER * transformer.layer_count
    return [
        replace(each, pairs=tuple(replace(pair, extra_s=_extra(pair, named, size, calls)) for pair in each.pairs))
        for each in found
    ]


def _extra(pair: Pair, named: Sequence[tuple[Ends, CurveFit]], size: float, calls: float) -> float | None:
    """Return what a slow pair adds to a token [s]: its all-reduces of one sequence take so many times as long.

    Where only larger messages were measured, it is their bytes' part, which is the least it can be.
    """
    own = [curve for ends, curve in named if ends == pair.ends]
    if not pair.slow or not own:
        return None
    sizes, times = own[0].fitted_points
    time = times[0] * min(size / sizes[0], 1.0)
    for at, known in zip(sizes, times, strict=True):
        time = known if at <= size else time
    return float(time) * (1.0 - 1.0 / pair.ratio) * calls


def _usual(curves: Sequence[CurveFit], matrices: Sequence[Matrix]) -> list[CurveFit]:
    """Return the curves to judge: of many pairs only that of the pair in the middle."""
    if not matrices:
        return list(curves)
    middle = {each.pairs[len(each.pairs) // 2].ends for each in matrices}
    chosen = [curve for curve in curves if pairs.ends_of(curve) in middle]
    return chosen[:1] or list(curves)[:1]


def _of_traces(read: Read) -> list[Cause]:
    if not read.traces:
        return []
    from nhalf.trace.study import Options, study

    try:
        return waiting.causes(study(read.traces, Options()))
    except (InputError, WeakEvidenceError) as error:
        read.refused.append(InputError(error.what, where=error.where or read.traces[0]))
        return []


def _of_pairs(matrices: Sequence[Matrix]) -> list[Cause]:
    from nhalf.doctor.diagnosis import Cause as Found

    slow = [pair for each in matrices for pair in each.slow]
    ends = [end for each in matrices for end, _ in each.slow_ends]
    if not slow and not ends:
        return []
    shared = next((each.common for each in matrices if each.common), "")
    worst = max(slow, key=lambda pair: pair.ratio, default=None)
    text = f"{len(slow)} pairs are slow in every repeat" if slow else f"every pair of {ends[0]} is slow"
    also = f"the worst, {' to '.join(worst.ends)}, takes {worst.ratio:.2g} times as long" if worst else ""
    why = tuple(filter(None, (text, also, f"what they have in common: {shared}" if shared else "")))
    return [Found(code="slow-pair", probability=0.95, for_=why, against=())]


def _changes(baseline: str | None, curves: Sequence[CurveFit], read: Read, tables: Sequence[Table]) -> list[Change]:
    """Return the changes of level over a folder of earlier logs and the logs at hand."""
    if baseline is None:
        return []
    before = Read()
    before.take(baseline)
    if before.refused and not before.tables:
        raise before.refused[0]
    earlier = [table for table in before.tables if table.rows]
    old = fit(earlier).curves if earlier else ()
    days, versions = {**before.days, **read.days}, _versions([*earlier, *tables])
    runs = [
        history.Dated(
            day=days.get(curve.series.key.file, ""), version=versions.get(curve.series.key.file, ""), curve=curve
        )
        for curve in (*old, *curves)
        if _tells(curve)
    ]
    return history.changes(runs)


def _versions(tables: Sequence[Table]) -> dict[str, str]:
    """Return the version of the library by file, as far as logs say it."""
    return {table.file: table.environment.get("library", "") or table.environment.get("nccl", "") for table in tables}


def _notes(readings: Sequence[object], odds: float | None, known: Known | None) -> list[str]:
    if odds is None and known is None:
        return ["No system is named, and the logs name no GPU that the catalogue has: --on SYSTEM compares."]
    if odds is None and not readings:
        return ["No time was compared: only the text of logs speaks."]
    return []


def judged(found: Examination, asked: Sequence[Limit]) -> tuple[list[str], WeakEvidenceError | None]:
    """Return which limits tripped, and the complaint of one that could not be judged."""
    tripped: list[str] = []
    unknown: WeakEvidenceError | None = None
    for limit in asked:
        values = _limited(found, limit.key)
        if not values:
            unknown = unknown or WeakEvidenceError(
                f"nothing has a {limit.key}, so the limit cannot be judged", where=f"--fail-if {limit.text!r}",
                do="name the machine with --on SYSTEM, or measure more sizes",
            )  # fmt: skip
        beyond = [(name, value) for name, value in values if limit.holds(value)]
        tripped += [f"{limit.text}: {name}, {_shown(limit.key, value)}" for name, value in beyond]
    return tripped, unknown


def _limited(found: Examination, key: str) -> list[tuple[str, float]]:
    """Return the values that a limit is of; a share is that of like systems, or else that of the ceiling."""
    if key == "slow-pairs":
        return [("pairs", float(sum(len(each.slow) for each in found.matrices)))]
    values = [(reading.curve, _of_reading(reading, key)) for reading in found.readings]
    return [(name, value) for name, value in values if value is not None]


def _of_reading(reading: Reading, key: str) -> float | None:
    if key == "share":
        return reading.share_of_measured or reading.share_of_ceiling
    names = {"bandwidth": "bus_bytes_per_s", "floor": "floor_s"}
    value: float | None = getattr(reading, names.get(key, key.replace("-", "_")))
    return value


def _shown(key: str, value: float) -> str:
    if key.startswith("share"):
        return f"{100 * value:.3g} %"
    return (
        f"{value:.0f} slow" if key == "slow-pairs" else units.format_value(value, "s" if key == "floor" else "bytes/s")
    )

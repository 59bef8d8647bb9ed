"""What `nhalf doctor` was asked: everything read, the system found, and all of it examined."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.catalog import store
from nhalf.doctor import history, pairs
from nhalf.doctor.clues import SURE, Clue, clues, of_matrix
from nhalf.doctor.diagnosis import Cause
from nhalf.doctor.examination import Examination, examined
from nhalf.doctor.verdict import sentence
from nhalf.doctor.yardstick import Known, is_across
from nhalf.errors import InputError, WeakEvidenceError
from nhalf.evidence.decode_messages import ACTIVATION_BYTES, ALL_REDUCES_PER_LAYER
from nhalf.evidence.fit import Fit, fit
from nhalf.evidence.reading import completed
from nhalf.loading.devices import system_of_device
from nhalf.loading.doctor_logs import Everything
from nhalf.loading.model import transformer_of
from nhalf.loading.readers import not_empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.doctor.examination import Reading
    from nhalf.doctor.history import Change
    from nhalf.doctor.pairs import Ends, Matrix, Pair
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.table import Table
    from nhalf.trace.study import Study

LIMITS: Final = {
    "share": "1", "share-of-ceiling": "1", "share-of-measured": "1", "bandwidth": "bytes/s", "floor": "s",
    "slow-pairs": "1",
}  # fmt: skip
"""What --fail-if may limit, with its unit."""
_HELD: Final = {"bandwidth": "busbw_bytes_per_s", "floor": "floor_s"}
_EXAMPLES: Final = "'share<60%', 'floor>40us' or 'slow-pairs>=1'"
_FABRICS: Final = ((r"AWS Libfabric|EFA", "-efa"), (r"RoCE", "-roce"), (r"Slingshot|CXI", "-slingshot"))
_MOST_CURVES: Final = 64
_WORTH: Final = 0.05
"""A wait below this share of the step is not worth a name."""
_BETWEEN: Final = ("tcp", "no-gdr", "rails", "mtu", "nic-affinity")
"""Causes that a log inside one node cannot have: NCCL names its network there too."""


def examine(
    logs: Sequence[str], *, system: str | None, model: str | None = None, ranks: str | None = None,
    nodes: str | None = None, baseline: str | None = None,
) -> tuple[Examination, list[InputError]]:  # fmt: skip
    """Return the examination of logs, with what flags say of them, and an error for each file that cannot be read.

    Raises
    ------
    InputError
        No file can be read, a name is not known, or a count is none.
    WeakEvidenceError
        Nothing that was read says anything of a network.
    """
    not_empty({"--on": system, "--model": model, "--baseline": baseline, "--ranks": ranks, "--nodes": nodes})
    counts = [
        units.parse_count(text, where=where) if text else None
        for text, where in ((ranks, "--ranks"), (nodes, "--nodes"))
    ]
    read = Everything()
    for log in logs:
        read.take(log)
    if read.refused and len(read.refused) >= max(read.files, 1):
        raise read.refused[0]
    tables = completed([table for table in read.tables if table.rows], ranks=counts[0], nodes=counts[1])
    curves = _curves(fit(tables) if tables else None)
    if not (curves or read.matrices or read.traces or read.facts.spoken):
        raise WeakEvidenceError(
            "it holds no time that a network could be judged by", where=", ".join(logs),
            allowed="logs of collectives, nvidia-smi topo -m, NCCL_DEBUG=INFO, traces", do="nhalf fit --format list",
        )  # fmt: skip
    known, assumed = _known(system, read, tables, curves)
    matrices = _matrices(curves, tables, model)
    more = [*_of_traces(read), *_of_pairs(matrices)]
    readings, odds, causes = examined(_usual(curves, matrices), known, _clues(read, tables, known, curves), more)
    silent = "No system is named, and the logs name no GPU that the catalogue has: --on SYSTEM compares."
    return Examination(
        system=known.system.name if known else "", assumed=assumed, readings=readings, normal_odds=odds, causes=causes,
        matrices=tuple(matrices), changes=tuple(_changes(baseline, curves, read)), notes=() if known else (silent,),
    ), read.refused  # fmt: skip


def first_line(found: Fit) -> str:
    """Return the verdict on a fit whose system is named, in one sentence; empty where nothing can be compared."""
    if found.system is None:
        return ""
    readings, odds, causes = examined(_curves(found)[:_MOST_CURVES], _of(found.system.name, "nccl"), ())
    return sentence(Examination(system=found.system.name, readings=readings, normal_odds=odds, causes=causes))


def _curves(found: Fit | None) -> list[CurveFit]:
    """Return the curves with times of sizes that were measured."""
    return [
        curve
        for curve in (found.curves if found is not None else ())
        if len(curve.fitted_points[0])
        and curve.series.key.quantity != "predicted"
        and (curve.series.key.ranks or 2) > 1
    ]


def _known(
    name: str | None, read: Everything, tables: Sequence[Table], curves: Sequence[CurveFit]
) -> tuple[Known | None, str]:
    """Return the system that was named, or the one that the logs speak of, and why that one."""
    amd = any(table.tool.startswith("rccl") for table in tables)
    if name is not None:
        return _of(name, "rccl" if amd else "nccl"), ""
    devices = [table.environment.get("device", "") for table in tables]
    guess = next(filter(None, map(system_of_device, devices)), "")
    if not guess:
        return None, ""
    known = _of(guess, "rccl" if amd else "nccl")
    if any(is_across(curve, known.system) for curve in curves):
        spoken = " ".join((*read.facts.networks, *read.facts.wires))
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


def _clues(read: Everything, tables: Sequence[Table], known: Known | None, curves: Sequence[CurveFit]) -> list[Clue]:
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
        return list(curves)[:_MOST_CURVES]
    middle = {each.pairs[len(each.pairs) // 2].ends for each in matrices}
    chosen = [curve for curve in curves if pairs.ends_of(curve) in middle]
    return chosen[:1] or list(curves)[:1]


def _of_traces(read: Everything) -> list[Cause]:
    if not read.traces:
        return []
    from nhalf.trace.study import Options, study

    try:
        return _of_study(study(read.traces, Options()))
    except (InputError, WeakEvidenceError) as error:
        read.refused.append(InputError(error.what, where=error.where or read.traces[0]))
        return []


def _of_study(study: Study) -> list[Cause]:
    """Return what a trace names."""
    found = []
    for straggler in study.verdict.stragglers[:1]:
        cost = units.format_time(straggler.cost_s)
        text = f"rank {straggler.rank} costs {cost} a step: {straggler.cause}, {straggler.why}"
        found.append(Cause(code="slow-rank", probability=0.9, for_=(text,), against=()))
    wait, sent = study.mean.exposed_wait_s, study.mean.exposed_transfer_s
    if wait is not None and sent is not None and wait > max(sent, _WORTH * study.mean.step_s):
        text = f"a step waits {units.format_time(wait)} and moves bytes for {units.format_time(sent)}"
        found.append(Cause(code="waiting", probability=0.8, for_=(text,), against=()))
    return found


def _of_pairs(matrices: Sequence[Matrix]) -> list[Cause]:
    slow = sorted((pair for each in matrices for pair in each.slow), key=lambda pair: -pair.ratio)
    ends = [end for each in matrices for end, _ in each.slow_ends]
    shared = next((each.common for each in matrices if each.common), "")
    why = [
        f"{len(slow)} pairs are slow in every repeat" if slow else f"every pair of {end} is slow"
        for end in ends[:1] or slow[:1]
    ]
    why += [f"the worst, {' to '.join(pair.ends)}, takes {pair.ratio:.2g} times as long" for pair in slow[:1]]
    why += [f"what they have in common: {shared}"] if slow and shared else []
    return [Cause(code="slow-pair", probability=0.95, for_=tuple(why), against=())] if why else []


def _changes(baseline: str | None, curves: Sequence[CurveFit], read: Everything) -> list[Change]:
    """Return the changes of level over a folder of earlier logs and the logs at hand."""
    if baseline is None:
        return []
    before = Everything()
    before.take(baseline)
    if before.refused and not before.tables:
        raise before.refused[0]
    earlier = [table for table in before.tables if table.rows]
    days = {**before.days, **read.days}
    versions = {**before.versions, **read.versions}
    files = [(curve.series.key.file, curve) for curve in (*_curves(fit(earlier) if earlier else None), *curves)]
    files = [each for place, each in enumerate(files) if place < len(files) - len(curves) or each[0] not in before.days]
    return history.changes(
        [history.Dated(day=days.get(file, ""), version=versions.get(file, ""), curve=curve) for file, curve in files]
    )


def judged(found: Examination, limits: Sequence[str]) -> tuple[list[str], WeakEvidenceError | None]:
    """Return which limits tripped, and the complaint of one that could not be judged.

    A share is that of like systems, or where nothing is known of them that of the ceiling.

    Raises InputError when a text is no limit.
    """
    tripped: list[str] = []
    unknown: WeakEvidenceError | None = None
    for limit in [units.parse_limit(text, LIMITS, examples=_EXAMPLES) for text in limits]:
        key = limit.key
        values = [(reading.curve, _held(reading, key)) for reading in found.readings]
        if key == "slow-pairs":
            values = [("slow pairs", float(sum(len(each.slow) for each in found.matrices)))]
        known = [(name, value) for name, value in values if value is not None]
        if not known:
            unknown = unknown or WeakEvidenceError(
                f"nothing has a {key}, so the limit cannot be judged", where=f"--fail-if {limit.text!r}",
                do="name the machine with --on SYSTEM, or measure more sizes",
            )  # fmt: skip
        for name, value in known:
            if limit.holds(value):
                text = f"{100 * value:.3g} %" if key.startswith("share") else units.format_value(value, LIMITS[key])
                tripped.append(f"{limit.text}: {name}, {text}")
    return tripped, unknown


def _held(reading: Reading, key: str) -> float | None:
    if key == "share":
        return reading.share_of_measured or reading.share_of_ceiling
    value: float | None = getattr(reading, _HELD.get(key, key.replace("-", "_")), None)
    return value

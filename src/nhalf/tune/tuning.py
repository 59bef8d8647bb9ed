"""Tuning: a model's messages, the sweeps of their operations, the choices, and the files of them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Op
from nhalf.engines.own_kernels import OWN
from nhalf.errors import InputError
from nhalf.loading.request import scenarios
from nhalf.predict.communication import collective
from nhalf.tune import writing
from nhalf.tune.bins import margin
from nhalf.tune.choices import by_law, choices, default_of, messages
from nhalf.tune.sweeps import sweeps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.engines.own_kernels import OwnKernels
    from nhalf.loading import Default
    from nhalf.loading.request import Request
    from nhalf.scenario import Scenario
    from nhalf.tune.choices import Choice, Message
    from nhalf.tune.sweeps import Key, Sweep

BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""The batches that are looked at where none are named."""
RECORD: Final = "choices.json"
_HOST: Final = 8
"""Devices of one host, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOff:
    """An engine's own kernels up to `cap` [bytes] (None: not known), and the sizes at which NCCL's best beats them.

    `kept` are sizes where it does not; both are empty where nothing was measured inside a node.
    """

    engine: OwnKernels
    name: str
    cap: int | None
    kept: Sequence[float]
    beaten: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The choices for a model, and what they rest on."""

    scenario: Scenario
    messages: Sequence[Message]
    sweeps: Sequence[Sweep]
    choices: Sequence[Choice]
    defaults: Sequence[Default]
    warnings: Sequence[str]
    own: Scenario | None = None
    """The same on the engine's own library."""

    @property
    def refused(self) -> str:
        """Return why NVIDIA's example configuration is not written, nothing where it is or nothing is to be written."""
        why = writing.unsafe(self.choices, [each.key for each in self.sweeps])
        return f"{writing.CONFIGURATION} is not written: {why}." if why and writing.made(self.choices) else ""

    def own_kernels(self) -> CutOff | None:
        """Return what an engine runs before NCCL inside a node, and from which size the measured paths beat it."""
        found = OWN.get(self.scenario.stack.engine)
        inside = [each for each in self.messages if each.span.nodes == 1]
        if found is None or not inside:
            return None
        cap = found.cap(self.scenario.system.device.architecture, inside[0].key.ranks)
        kept: list[float] = []
        beaten: list[float] = []
        for sweep in self.sweeps:
            sizes = sorted({each.size_bytes for each in inside if each.key == sweep.key})
            if sweep.kind != "measured" or self.own is None or not sizes:
                continue
            at = np.array(sizes)
            ours = np.fmin.reduce([each.at(at) for each in sweep.curves.values()])  # NaN where none was measured
            for size, time in zip(sizes, ours.tolist(), strict=True):
                if np.isfinite(time):
                    wins = time * (1.0 + margin(sweep)) < _own_s(self.own, sweep.key, size)
                    (beaten if wins else kept).append(size)
        return CutOff(engine=found, name=self.scenario.stack.engine, cap=cap, kept=kept, beaten=beaten)

    def margins(self) -> list[tuple[Sweep, float]]:
        """Return what a path must win of each sweep that was measured [1]."""
        return [(each, margin(each)) for each in self.sweeps if each.kind == "measured"]


def tuned(request: Request, logs: Sequence[str]) -> Found:
    """Return the choices for a request, from forced runs or from laws.

    Raises
    ------
    InputError
        More than one layout is asked for, the model sends nothing that a tuner chooses for, or a log is of no use.
    """
    batches = tuple(int(each) for each in request.batches) if request.batches is not None else BATCHES
    asked = replace(request, batches=(1,))
    loaded = scenarios(asked if asked.library is not None else asked.updated({"library": "nccl"}))
    if len(loaded.scenarios) > 1:
        raise InputError("several systems or layouts are named", where="--tp", do="name one: files are for one job")
    scenario = loaded.scenarios[0]
    ours = messages(scenario, batches)
    if not ours:
        raise InputError("no collective of this layout asks a tuner", where="--tp", do="raise --tp")
    keys = list(dict.fromkeys(each.key for each in ours))
    found = sweeps(logs, keys[0].ranks, keys[0].nodes) if logs else by_law(scenario, ours)
    if scenario.system.fabric.devices_per_node > _HOST:  # NCCL counts hosts, of which an NVLink domain may hold several
        hosts = {(each.key.op, each.key.ranks): each.key.nodes for each in found}
        ours = [replace(each, key=each.key._replace(nodes=hosts.get(each.key[:2], each.key.nodes))) for each in ours]
        keys = list(dict.fromkeys(each.key for each in ours))
    made, kept, warnings = _choices(scenario, ours, found)
    told = [*loaded.warnings, *warnings]
    if logs and not any(each.key in keys for each in kept):
        seen = ", ".join(_where(each.key) for each in found)
        want = ", ".join(_where(key) for key in keys)
        raise InputError(
            f"the logs are of {seen}", where="--logs", allowed=want, do="choose the layout that was measured"
        )
    own = scenarios(asked).scenarios[0] if request.library is None else None
    return Found(scenario=scenario, messages=ours, sweeps=kept, choices=made, defaults=loaded.defaults, warnings=told,
                 own=own)  # fmt: skip


def _where(key: Key) -> str:
    return f"{key.op} on {key.ranks} ranks of {key.nodes} node{'s' if key.nodes > 1 else ''}"


def _own_s(scenario: Scenario, key: Key, size_bytes: float) -> float:
    """Return the time [s] of an engine's own collective, as the catalogue knows it."""
    return float(collective(scenario, Op.parse(key.op), scenario.layout.tensor_group, size_bytes).value)


def _choices(
    scenario: Scenario, ours: Sequence[Message], found: Sequence[Sweep]
) -> tuple[list[Choice], list[Sweep], list[str]]:
    """Return the choices, the sweeps that they are of, and what was left out."""
    made: list[Choice] = []
    kept, warnings = [], []
    for sweep in found:
        span = next((each.span for each in ours if each.key == sweep.key), None)
        default = default_of(sweep, scenario, span) if span is not None else sweep.default
        if default is None:
            why = "a default run, default=LOG, is what choices are compared with"
            warnings.append(f"{sweep.key.op} on {sweep.key.ranks} ranks is left out: {why}.")
            continue
        if sweep.default is None and sweep.kind == "measured":
            warnings.append(f"{sweep.key.op}: no default run, so NCCL's choice is what its plan (2.30.7) picks.")
        kept.append(sweep)
        made += choices(sweep, default, ours, whole=span is None)
    return made, kept, warnings


def files(found: Found, folder: str) -> dict[str, str]:
    """Return the files of the choices, by name; nothing is written of an empty table but the record."""
    head = _head(found)
    acting = writing.made(found.choices)
    text = {"nccl.env": writing.environment(found.choices, folder)}
    if not acting:
        return text
    text[writing.PLUGIN] = writing.plugin(found.choices, head)
    if not found.refused:
        text[writing.CONFIGURATION] = writing.configuration(found.choices, head)
    runs = [_run(found, key) for key in dict.fromkeys(each.key for each in acting)]
    text["measure.sh"] = writing.experiment(runs, folder)
    per_node = int(found.scenario.system.fabric.devices_per_node)
    text["measure.sbatch"] = writing.batch_job([run[0] for run in runs], per_node)
    return text


def _run(found: Found, key: Key) -> tuple[Key, float, float, int]:
    """Return the sizes and repeats that would prove the choices of an operation: for the least gain that is stated."""
    ours = [each for each in writing.made(found.choices) if each.key == key]
    sweep = next(each for each in found.sweeps if each.key == key)
    low, high = min(each.bin.start for each in ours), max(each.bin.end for each in ours)
    floor = 2 ** max(int(low).bit_length() - 1, 3)
    return key, float(floor), float(high), writing.repeats(sweep, margin(sweep))


def _head(found: Found) -> str:
    """Return what the files are of."""
    scenario = found.scenario
    kinds = ", ".join(dict.fromkeys(each.kind for each in found.sweeps))
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    where = f"{scenario.transformer.name}, {scenario.layout.name}, on {scenario.system.name}"
    return f"{where}; choices by {kinds} times; written {date}"

"""Evidence: measured steps with the responses that predict them, and the clusters that they fall into."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nhalf.calibrate.fit import NOISE, Fitted, Task, fit
from nhalf.device import generation
from nhalf.errors import WeakEvidenceError
from nhalf.predict.response import joined, response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.calibrate.prior import Prior
    from nhalf.loading.cases import Cases
    from nhalf.predict.response import Indices, Mask, Response
    from nhalf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """`n` measured steps: their rows in the table, times [s], responses, and what each belongs to, as texts.

    `generation` is the architecture of the devices of a system, `version` an engine with the version that it states.
    """

    rows: Indices
    step_s: Array
    response: Response
    model: Array
    system: Array
    generation: Array
    engine: Array
    version: Array
    cluster: Array
    devices: Array

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.step_s)

    def take(self, chosen: Mask) -> Evidence:
        """Return the steps where a mask is true."""
        at = np.flatnonzero(chosen)
        return Evidence(
            rows=self.rows[at],
            step_s=self.step_s[at],
            response=self.response.take(at),
            model=self.model[at],
            system=self.system[at],
            generation=self.generation[at],
            engine=self.engine[at],
            version=self.version[at],
            cluster=self.cluster[at],
            devices=self.devices[at],
        )

    def weights(self, correlation: float) -> Array:
        """Return the weight of each step: 1 / (1 + (m - 1) r) for the m steps of its cluster.

        Steps of one stack and model err together; with r = 1 each cluster counts as one observation, with r = 0 each
        step does (the design effect, L. Kish, "Survey Sampling", 1965).
        """
        sizes = Counter(self.cluster.tolist())
        return np.array([1.0 / (1.0 + (sizes[name] - 1) * correlation) for name in self.cluster.tolist()])

    def fit(self, prior: Prior, *, correlation: float, start: Mapping[str, float] | None = None,
            multiples: Array | None = None, noise: float = NOISE) -> Fitted:  # fmt: skip
        """Return the constants that explain the steps; `multiples` say how often each of them counts."""
        weights = self.weights(correlation)
        task = Task(
            response=self.response,
            log_times=np.log(self.step_s),
            weights=weights if multiples is None else weights * multiples,
            prior=prior,
            noise=noise,
        )
        return fit(task, start)

    def log_errors(self, constants: Mapping[str, float]) -> Array:
        """Return ln(measured / predicted) of every step."""
        found: Array = np.log(self.step_s / self.response.step_s(constants))
        return found


def evidence(cases: Cases, measured_s: Array) -> Evidence:
    """Return the rows of a case table that have a scenario and a measured time per token [s]; NaN stands for none.

    Raises
    ------
    WeakEvidenceError
        None of its rows can be used.
    """
    parts, labels = [], []
    for group in cases.groups:
        usable = np.flatnonzero(measured_s[group.rows] > 0)
        if not len(usable):
            continue
        kept = np.broadcast_to(group.scenario.workload.accepted_tokens, len(group.rows))[usable]
        parts.append(response(group.scenario, len(group.rows)).take(usable))
        rows = group.rows[usable]
        devices = group.scenario.layout.devices
        labels.append((rows, measured_s[rows] * kept, group, devices))
    if not parts:
        why = next((reason for reason in cases.refused if reason), "the table holds no times")
        raise WeakEvidenceError(f"no run can be used: {why}", where=cases.table.path)
    counts = [len(rows) for rows, *_ in labels]

    def texts(of: str) -> Array:
        return np.repeat(np.array([str(getattr(group, of)) for _, _, group, _ in labels]), counts)

    of_group = [generation(group.scenario.system.device.architecture) for *_, group, _ in labels]
    return Evidence(
        rows=np.concatenate([rows for rows, *_ in labels]),
        step_s=np.concatenate([steps for _, steps, *_ in labels]),
        response=joined(parts),
        model=texts("model"),
        system=texts("system"),
        generation=np.repeat(np.array(of_group), counts),
        engine=texts("engine"),
        version=np.repeat(np.array([_version(group.scenario) for *_, group, _ in labels]), counts),
        cluster=texts("stack_and_model"),
        devices=np.repeat(np.array([devices for *_, devices in labels], dtype=np.float64), counts),
    )


def _version(scenario: Scenario) -> str:
    """Return an engine with its version."""
    return f"{scenario.stack.engine}=={scenario.stack.version}"

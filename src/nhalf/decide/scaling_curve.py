"""A scaling curve: how fast one model runs on more and more devices, at one batch, engine and launch mode."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Severity = Literal["refused", "warning", "note"]
LABELS: Final = ("model", "system", "engine", "version", "library", "mode", "weights", "kv", "isl", "osl", "context")
"""What a curve may be labelled with, besides devices and batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One row of a curve: where it stands, devices, batch, and what was measured, None where the table does not say.

    `call_s` [s] is one of the `calls` of a step with its waiting, `pure_s` when no rank is late, `skew_s` how far apart
    ranks come.
    """

    row: int
    devices: int
    batch: float | None = None
    step_s: float | None = None
    tokens_per_s: float | None = None
    calls: float | None = None
    call_s: float | None = None
    pure_s: float | None = None
    skew_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def time_s(self) -> float | None:
        """Return the time per token of a sequence [s], measured or by the rate of all sequences."""
        if self.step_s is not None:
            return self.step_s
        return self.batch / self.tokens_per_s if self.tokens_per_s and self.batch else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a model on a system: the node, the batch at which collectives turn, and the floor of a step.

    `turning_batch` is None where it is not known; `floor_s` [s] is the weights over the memory bandwidth of one device;
    `call_s` [s] is what one all-reduce of a whole node is modelled to take, None where there is none.
    """

    devices_per_node: int
    turning_batch: float | None
    floor_s: float
    call_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know about a curve: a code, the row that shows it (0: the whole), a text, and how bad it is."""

    code: str
    row: int
    text: str
    severity: Severity


def curves(points: Sequence[Point]) -> dict[tuple[str, ...], list[Point]]:
    """Return the points of each curve: same labels and, last in the key, same batch; in the order of their devices."""
    found: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    for point in points:
        labels = point.labels
        batch = "" if point.batch is None else str(point.batch)
        found[(*(labels.get(name, "") for name in LABELS), batch)].append(point)
    return {key: sorted(curve, key=lambda point: point.devices) for key, curve in found.items()}

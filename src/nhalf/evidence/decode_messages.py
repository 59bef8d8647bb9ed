"""Marks: the messages that a model sends while it decodes, on a fitted curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.collective import Op
from nhalf.errors import NhalfError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.fit import Fit
    from nhalf.transformer import Transformer

ACTIVATION_BYTES: Final = 2.0
"""Engines reduce activations in bf16 whatever the weights are kept in."""
ALL_REDUCES_PER_LAYER: Final = 2
"""One after the attention, one after the feed-forward block (Shoeybi et al., "Megatron-LM", arXiv:1909.08053)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The all-reduce of one decode step on a curve: `size_bytes` [bytes] takes `time_s` [s], 80 % band around it.

    `on_floor`: a wider link would not help, because the curve has not doubled its floor there; None when the sweep
    does not show where that is. `per_token_s` [s] is the time of all of them in one step.
    """

    curve: str
    batch: int
    size_bytes: float
    time_s: float
    low_s: float
    high_s: float
    on_floor: bool | None
    per_token_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return the mark with SI units in its keys."""
        return {name: getattr(self, name) for name in self.__slots__}


def marks(fit: Fit, transformer: Transformer, batches: Sequence[int]) -> tuple[list[Mark], list[str]]:
    """Return the decode messages of a model on every all-reduce curve, and why a curve has none."""
    found: list[Mark] = []
    doubts: list[str] = []
    sizes = np.array([batch * transformer.hidden_size * ACTIVATION_BYTES for batch in batches])
    count = ALL_REDUCES_PER_LAYER * transformer.layer_count
    for curve in fit.curves:
        key = curve.series.key
        if key.op is not Op.ALL_REDUCE:
            doubts.append(f"{key}: a decode step sends all-reduces")
            continue
        if key.ranks is None:
            doubts.append(f"{key}: the ranks are unknown (--ranks)")
            continue
        try:
            times, lows, highs = fit.only(curve).predict(sizes, key.ranks)
        except NhalfError as error:
            doubts.append(f"{key}: {error.what}")
            continue
        found += [
            Mark(
                curve=str(key),
                batch=batch,
                size_bytes=float(size),
                time_s=float(time),
                low_s=float(low),
                high_s=float(high),
                on_floor=_on_floor(curve, float(size)),
                per_token_s=float(time) * count,
            )
            for batch, size, time, low, high in zip(batches, sizes, times, lows, highs, strict=True)
        ]
    return found, doubts


def _on_floor(curve: CurveFit, size_bytes: float) -> bool | None:
    """Return whether the curve has not doubled its floor at a size [bytes], or None where the sweep does not tell."""
    double, between = curve.double_floor_size_bytes, curve.double_floor_between_bytes
    if between is None:
        return None
    if double is not None:
        return size_bytes < double
    low, high = between
    return True if size_bytes <= low else False if size_bytes >= high else None

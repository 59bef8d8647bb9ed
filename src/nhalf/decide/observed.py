"""Observed: the transfers of a trace as samples, and their fit by the method that fits benchmark logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.collective import Op
from nhalf.evidence.fit import fit
from nhalf.sample import Sample

if TYPE_CHECKING:
    from nhalf.evidence.fit import Fit
    from nhalf.trace.fixed_time import Row
    from nhalf.trace.study import Study

_MOST_REPEATS: Final = 64
"""Calls of one size that are kept: more narrow no interval that matters."""
_FEWEST_SIZES: Final = 2
_LOWER: Final = 0.5
"""The share of the calls of a size that is kept, the quickest: what held up the others is not the link's."""


def samples_of(study: Study) -> list[Sample]:
    """Return the transfers of a trace's collectives, waiting left out, as samples.

    Each is one call that began when its last rank came, so it counts as `isolated`. Calls of unknown size, fused
    kernels and messages are left out; of many calls of one size the quicker half is kept, spread evenly.
    """
    found = []
    for row in study.rows:
        kind = row.kind
        if not kind.size_bytes or kind.ranks is None or kind.fused or kind.op is Op.SEND_RECV:
            continue
        for repeat, seconds in enumerate(_quick(row)):
            found.append(
                Sample(
                    op=kind.op, size_bytes=kind.size_bytes, ranks=kind.ranks, seconds=seconds, repeat=repeat,
                    environment={"label": kind.family, "tool": "nhalf trace"},
                )
            )  # fmt: skip
    return found


def _quick(row: Row) -> list[float]:
    """Return the quicker half of a row's transfers [s], at most `_MOST_REPEATS` of them."""
    rising = np.sort(row.transfers_s[row.transfers_s > 0])
    kept = rising[: max(1, round(_LOWER * len(rising)))]
    if len(kept) > _MOST_REPEATS:
        kept = kept[np.linspace(0, len(kept) - 1, _MOST_REPEATS).astype(np.int64)]
    return [float(seconds) for seconds in kept]


def fit_of(study: Study) -> Fit | None:
    """Return the fit of a trace's transfers, None when waiting is in them or no operation ran at two sizes."""
    samples = samples_of(study) if study.timeline.waits_known else []
    sizes: dict[tuple[Op, int, str], set[float]] = {}
    for sample in samples:
        key = sample.op, sample.ranks, sample.environment["label"]
        sizes.setdefault(key, set()).add(sample.size_bytes)
    several = {key for key, found in sizes.items() if len(found) >= _FEWEST_SIZES}
    chosen = [s for s in samples if (s.op, s.ranks, s.environment["label"]) in several]
    return fit(chosen) if chosen else None

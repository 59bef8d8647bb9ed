"""Learn: the constants of a stack, refitted on the decode steps that a watch has seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.calibrate.evidence import evidence
from nhalf.calibrate.prior import prior
from nhalf.calibrate.stack import refit
from nhalf.errors import WeakEvidenceError
from nhalf.live.watch import decode_step
from nhalf.live.window import pooled
from nhalf.loading.case_table import Table
from nhalf.loading.cases import Options, cases

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.calibrate.stack import StackFit
    from nhalf.live.watch import Seen
    from nhalf.live.window import Window

_ROWS: Final = 24
_LEAST: Final = 3
_SURE: Final = 0.1
"""Steps from which prefills cannot be taken out to within this share tell no constants."""


def learnt(seen: Sequence[Seen], given: Mapping[str, str]) -> StackFit:
    """Return the refit on windows, those of like batch as one; `given` are columns of a case table, the same for all.

    Raises
    ------
    WeakEvidenceError
        There are too few windows whose decode step is known.
    """
    known = [each.window for each in seen if _sure(each) and not math.isnan(each.window.context[0])]
    if len(known) < _LEAST:
        raise WeakEvidenceError(
            f"{len(known)} windows tell the decode step without its prefills", where="--learn",
            allowed=f"{_LEAST} or more", do="watch longer, or at times with fewer prompts",
        )  # fmt: skip
    rows = [pooled(each) for each in _alike(known)]
    header = (*given, "batch", "context", "tpot_s")
    cells = [
        [*given.values(), f"{each.running[0]:.0f}", f"{each.context[0]:.0f}", f"{decode_step(each)[0]:.9g}"]
        for each in rows
    ]
    table = Table(path="nhalf live", header=header, rows=cells)
    loaded = cases(table, Options(defaults={}))
    times = np.array([decode_step(each)[0] for each in rows])
    return refit(evidence(loaded, times), prior(calibrated=True, engine=given.get("engine", "")))


def _sure(each: Seen) -> bool:
    """Tell whether the decode step of a window is known."""
    value, low, high = each.decode_s
    return high - low < _SURE * value


def _alike(windows: Sequence[Window]) -> list[list[Window]]:
    """Return windows in groups of like batch, at most `_ROWS` of them."""
    ordered = sorted(windows, key=lambda each: each.running[0])
    size = max(-(-len(ordered) // _ROWS), 1)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]

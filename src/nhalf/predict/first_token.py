"""The first token: the range of the time to it, which the start of a burst and queues decide.

References
----------
The house's decode-step note: the time to the first token is dominated by burst start and queueing, so it is a range.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.predict.prefill import prefill

if TYPE_CHECKING:
    from nhalf.breakdown import Array
    from nhalf.scenario import Scenario


def first_token(scenario: Scenario, batches: Array, tpot_s: Array) -> tuple[Array, Array]:
    """Return the range of the time to the first token [s] of `n` batches, whose tokens take `tpot_s` [s]: shapes (n,).

    It runs from one prompt alone to all prompts of the batch at once, and the step that runs when they come. Where a
    scenario holds an array over the batches, its prompts too, both are NaN for those without prompts.
    """
    both = np.stack([np.ones_like(batches), batches])
    workload = replace(scenario.workload, batch=both, output_tokens=0.0)
    times = np.broadcast_to(prefill(replace(scenario, workload=workload)).value, both.shape)
    asked = np.broadcast_to(np.greater(scenario.workload.output_tokens, 0), batches.shape)
    alone, burst = np.where(asked, times, np.nan)
    return alone, np.maximum(burst, alone) + tpot_s

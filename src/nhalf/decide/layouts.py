"""Layouts to look at: every legal one that uses all devices, in groups that a prediction does not tell apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.errors import InputError
from nhalf.layout import Layout, check

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nhalf.decide.candidates import Wish
    from nhalf.scenario import Scenario

LONG_PROMPT: Final = 32_768
"""From so many tokens of prompt or context on, context parallelism is looked at."""


def layouts(base: Scenario, gpus: int, wish: Wish) -> Iterator[Layout]:
    """Yield every legal layout whose replicas use all devices, each once.

    Context parallelism is only looked at for long prompts, or where it is asked for.
    """
    transformer = base.transformer
    mixture, divisors = transformer.mixture, [degree for degree in range(1, gpus + 1) if gpus % degree == 0]
    known = {name: [d for d in divisors if d in wish.degrees[name]] for name in wish.degrees}
    several = divisors if mixture is not None else [1]
    contexts = divisors if _long(base) else [1]
    sharded = _legal_tensor(base, known.get("tensor_parallel", divisors))
    for tp in sharded:
        for dp in known.get("attention_dp", several):
            for cp in known.get("context_parallel", contexts):
                for pp in known.get("pipeline_parallel", divisors):
                    if gpus % (tp * dp * cp * pp) or pp > transformer.layer_count:
                        continue
                    for ep in known.get("expert_parallel", several):
                        if mixture is not None and (tp * dp % ep or mixture.experts % ep):
                            continue
                        layout = Layout(
                            tensor_parallel=tp, attention_dp=dp, context_parallel=cp, pipeline_parallel=pp,
                            expert_parallel=ep, replicas=gpus // (tp * dp * cp * pp),
                        )  # fmt: skip
                        if _is_legal(layout, base):
                            yield from _exchanging(layout, wish)


def _exchanging(layout: Layout, wish: Wish) -> Iterator[Layout]:
    """Yield a layout with each way in which its tokens may reach the experts; all-to-all needs an expert everywhere."""
    sends = layout.attention_dp > 1 and layout.expert_parallel == layout.expert_devices
    for exchange in wish.exchanges:
        if exchange == "all-gather" or sends:
            yield replace(layout, routed_exchange=exchange)


def _long(base: Scenario) -> bool:
    """Tell whether prompts are so long that context parallelism is worth a look."""
    workload = base.workload
    return max(float(np.max(workload.prompt_tokens)), float(np.max(workload.context_tokens))) >= LONG_PROMPT


def _legal_tensor(base: Scenario, degrees: Sequence[int]) -> list[int]:
    """Return the TP degrees that the model allows."""
    return [degree for degree in degrees if _is_legal(Layout(tensor_parallel=degree), base)]


def _is_legal(layout: Layout, base: Scenario) -> bool:
    """Tell whether a model and a fabric allow a layout."""
    try:
        check(layout, base.transformer, base.system.fabric)
    except InputError:
        return False
    return True


def groups(found: Iterable[Layout]) -> list[list[Layout]]:
    """Return layouts in groups that the prediction does not tell apart: EP matters only where tokens are sent.

    Gathered by all, tokens cost the same and every device reads as many bytes of experts and does as much arithmetic
    however experts are split; what an uneven routing adds to that nobody has measured.
    """
    found_by: dict[Layout | tuple[int, ...], list[Layout]] = {}
    for layout in found:
        degrees = (layout.tensor_parallel, layout.attention_dp, layout.context_parallel, layout.pipeline_parallel)
        found_by.setdefault(degrees if layout.routed_exchange == "all-gather" else layout, []).append(layout)
    return list(found_by.values())


def name(layout: Layout) -> str:
    """Return a layout in short, with how tokens reach the experts where they are sent."""
    return f"{layout.name} a2a" if layout.routed_exchange == "all-to-all" else layout.name

"""A workload: how many sequences decode together, how long they are, and in which number formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """What the machine is asked to do.

    `batch` sequences decode at once with `context_tokens` tokens of key-value cache each. `prompt_tokens` and
    `output_tokens` are 0 unless requests arrive and leave, when each step also carries its part of their prefills.
    `kv_bytes` are bytes per element of the cache. With a draft, each sequence feeds `tokens_per_step` tokens a step, of
    which `accepted_tokens` are kept. `routing_skew` is what the busiest expert rank receives over the mean.

    `requests_per_s` come at random to all replicas; 0 where each sequence is a user who asks again at once.

    In the `phase` "prefill" each sequence is a prompt of `prompt_tokens` instead, taken `chunk_tokens` at a time (0: at
    once).
    """

    batch: Quantity
    context_tokens: Quantity
    weight_dtype: str
    kv_dtype: str
    kv_bytes: Quantity
    activation_bytes: Quantity = 2.0
    tokens_per_step: Quantity = 1.0
    accepted_tokens: Quantity = 1.0
    routing_skew: Quantity = 1.0
    prompt_tokens: Quantity = 0.0
    output_tokens: Quantity = 0.0
    chunk_tokens: Quantity = 0.0
    requests_per_s: Quantity = 0.0
    phase: Literal["decode", "prefill"] = "decode"

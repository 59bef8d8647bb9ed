"""Exports: under which names engines publish what a watcher reads, and what one observation of each is.

A name that ends in `_count` or `_sum` is part of a histogram. Counters are written without `_total`, as old clients
print them; both spellings are read. Readers go by the names that are there, never by a version.

References
----------
vLLM 0.33.0, `v1/metrics/loggers.py`; SGLang 0.5.23, `srt/observability/metrics_collector.py`; TensorRT-LLM,
`metrics/collector.py`; Dynamo, `lib/runtime/src/metrics/prometheus_names.rs`; llama.cpp, `tools/server`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Observed = Literal["step", "token", "request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What one engine publishes, by the names that nhalf uses.

    `totals` only grow, `levels` are of the moment, `shares` are levels that are averaged over ranks. `observed` is what
    one observation of `gaps` (their sum `gap_s`) is: the time of a request in one step, of one token, or of a finished
    request. `infos` carry facts as labels, and `sizes` is a histogram of the tokens of a step. `path` is where it
    answers.
    """

    title: str
    mark: str
    observed: Observed
    totals: Mapping[str, str]
    levels: Mapping[str, str]
    shares: Mapping[str, str] = field(default_factory=dict)
    infos: tuple[str, ...] = ()
    sizes: str = ""
    path: str = "/metrics"

    @property
    def wanted(self) -> dict[str, str]:
        """Return what each metric is called here, by the name on the wire."""
        return {wire: name for group in (self.totals, self.levels, self.shares) for name, wire in group.items()}


EXPORTS: Final[Mapping[str, Export]] = {
    "vllm": Export(
        title="vLLM", mark="vllm:", observed="step", sizes="vllm:iteration_tokens_total_bucket",
        infos=("vllm:cache_config_info",),
        totals={
            "gaps": "vllm:inter_token_latency_seconds_count", "gap_s": "vllm:inter_token_latency_seconds_sum",
            "steps": "vllm:iteration_tokens_total_count", "tokens": "vllm:generation_tokens",
            "prompt_tokens": "vllm:prompt_tokens", "prompts": "vllm:time_to_first_token_seconds_count",
            "first_s": "vllm:time_to_first_token_seconds_sum", "queued": "vllm:request_queue_time_seconds_count",
            "queued_s": "vllm:request_queue_time_seconds_sum", "lengths": "vllm:request_generation_tokens_count",
            "lengths_sum": "vllm:request_generation_tokens_sum", "drafts": "vllm:spec_decode_num_drafts",
            "accepted": "vllm:spec_decode_num_accepted_tokens", "preemptions": "vllm:num_preemptions",
        },
        levels={"in_flight": "vllm:num_requests_running", "waiting": "vllm:num_requests_waiting"},
        shares={"kv_share": "vllm:kv_cache_usage_perc"},
    ),
    "sglang": Export(
        title="SGLang", mark="sglang:", observed="token",
        totals={
            "gaps": "sglang:inter_token_latency_seconds_count", "gap_s": "sglang:inter_token_latency_seconds_sum",
            "tokens": "sglang:generation_tokens", "prompt_tokens": "sglang:prompt_tokens",
            "prompts": "sglang:time_to_first_token_seconds_count",
            "first_s": "sglang:time_to_first_token_seconds_sum", "queued": "sglang:queue_time_seconds_count",
            "queued_s": "sglang:queue_time_seconds_sum", "passes": "sglang:cuda_graph_passes",
        },
        levels={
            "in_flight": "sglang:num_running_reqs", "waiting": "sglang:num_queue_reqs",
            "context_sum": "sglang:decode_sum_seq_lens", "kv_capacity": "sglang:max_total_num_tokens",
            "retracted": "sglang:num_retracted_reqs",
        },
        shares={
            "kv_share": "sglang:token_usage", "accept_length": "sglang:spec_accept_length",
            "graph": "sglang:is_cuda_graph",
        },
    ),
    "trtllm": Export(
        title="TensorRT-LLM", mark="trtllm_", observed="request", path="/prometheus/metrics",
        infos=("trtllm_parallel_config_info", "trtllm_kv_cache_config_info", "trtllm_model_config_info"),
        totals={
            "gaps": "trtllm_time_per_output_token_seconds_count", "gap_s": "trtllm_time_per_output_token_seconds_sum",
            "tokens": "trtllm_generation_tokens", "prompt_tokens": "trtllm_prompt_tokens",
            "prompts": "trtllm_time_to_first_token_seconds_count",
            "first_s": "trtllm_time_to_first_token_seconds_sum", "queued": "trtllm_request_queue_time_seconds_count",
            "queued_s": "trtllm_request_queue_time_seconds_sum",
        },
        levels={
            "in_flight": "trtllm_num_generation_requests", "waiting": "trtllm_num_requests_waiting",
            "paused": "trtllm_num_paused_requests", "kv_blocks": "trtllm_kv_cache_used_blocks",
            "block_size": "trtllm_kv_cache_tokens_per_block",
        },
        shares={"kv_share": "trtllm_kv_cache_utilization", "accept_length": "trtllm_spec_decode_acceptance_length"},
    ),
    "dynamo": Export(
        title="Dynamo", mark="dynamo_frontend_", observed="token",
        totals={
            "gaps": "dynamo_frontend_inter_token_latency_seconds_count",
            "gap_s": "dynamo_frontend_inter_token_latency_seconds_sum", "tokens": "dynamo_frontend_output_tokens",
            "prompts": "dynamo_frontend_time_to_first_token_seconds_count",
            "first_s": "dynamo_frontend_time_to_first_token_seconds_sum",
            "prompt_tokens": "dynamo_frontend_input_sequence_tokens_sum",
            "lengths": "dynamo_frontend_output_sequence_tokens_count",
            "lengths_sum": "dynamo_frontend_output_sequence_tokens_sum",
        },
        levels={"waiting": "dynamo_frontend_queued_requests", "in_flight": "dynamo_frontend_inflight_requests"},
    ),
    "llama.cpp": Export(
        title="llama.cpp", mark="llamacpp:", observed="token",
        totals={
            "gaps": "llamacpp:tokens_predicted", "gap_s": "llamacpp:tokens_predicted_seconds",
            "prompt_tokens": "llamacpp:prompt_tokens", "steps": "llamacpp:n_decode",
            "drafts": "llamacpp:spec_decode_num_drafts", "accepted": "llamacpp:spec_decode_num_accepted_tokens",
        },
        levels={"in_flight": "llamacpp:requests_processing", "waiting": "llamacpp:requests_deferred"},
    ),
}  # fmt: skip
"""The exports of engines, in the order in which a page is tried."""

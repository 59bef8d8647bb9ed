"""vLLM: experts are split over TP x DP devices, by EP where that is enabled.

References
----------
vLLM, "Engine arguments", "Expert parallel deployment" and "Data parallel deployment".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.engines.engine import Engine, count, joined
from nhalf.layout import Layout
from nhalf.predict.memory import USABLE_SHARE

if TYPE_CHECKING:
    from nhalf.engines.served import Served

_EXCHANGES: Final = {"all-gather": "allgather_reducescatter", "all-to-all": "deepep_low_latency"}


class Vllm(Engine):
    """vLLM, whose context parallelism is inside the TP group; --max-num-seqs is of each data-parallel rank."""

    name = "vllm"
    title = "vLLM"
    newest = "0.31.0"
    start = "vllm serve"
    programs = ("vllm",)
    images = ("vllm-openai",)
    backends = ("vllm",)
    eager_flag = "enforce-eager"
    no_reuse_flag = "no-enable-prefix-caching"
    even_ranks = True
    spellings = {  # noqa: RUF012
        "tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
        "ep": "enable-expert-parallel", "q": "quantization", "dcp": "decode-context-parallel-size",
    }  # fmt: skip
    degrees = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "enable-expert-parallel")

    def refusal(self, layout: Layout) -> str:
        """Return why it cannot run a layout, or an empty string."""
        if layout.context_parallel > 1:
            return "its context parallelism is inside the TP group, not beside it"
        if layout.expert_parallel not in (1, layout.expert_devices):
            return f"its experts are split over all {layout.expert_devices} devices by EP, or not at all"
        return ""

    def command(self, layout: Layout, served: Served) -> tuple[str, tuple[str, ...]]:
        """Return the command, and the files or commands that go with it."""
        nodes = served.nodes(layout)
        flags: list[str | int] = ["--tensor-parallel-size", layout.tensor_parallel]
        flags += ["--pipeline-parallel-size", layout.pipeline_parallel] if layout.pipeline_parallel > 1 else []
        flags += ["--data-parallel-size", layout.attention_dp] if layout.attention_dp > 1 else []
        flags += ["--enable-expert-parallel"] if served.mixture and layout.expert_parallel > 1 else []
        flags += ["--all2all-backend", _EXCHANGES[layout.routed_exchange]] if layout.attention_dp > 1 else []
        spread, also = _across_nodes(layout, served) if nodes > 1 else ([], ())
        flags += [*spread, *_load(layout, served)]
        command = joined(*self.start.split(), served.model, *flags)
        return command, (*also, *served.needs)

    def layout_of(self, flags: dict[str, str], where: str) -> tuple[Layout, int | None, list[str]]:
        """Return the layout of a line, the sequences of a replica, and what is left out of account."""
        tp, dp = count(flags, "tensor-parallel-size", where), count(flags, "data-parallel-size", where)
        sends = flags.get("all2all-backend", "allgather_reducescatter") not in ("allgather_reducescatter", "naive")
        layout = Layout(
            tensor_parallel=tp,
            pipeline_parallel=count(flags, "pipeline-parallel-size", where),
            attention_dp=dp,
            expert_parallel=tp * dp if "enable-expert-parallel" in flags else 1,
            routed_exchange="all-to-all" if sends and dp > 1 and "enable-expert-parallel" in flags else "all-gather",
        )
        notes = []
        if count(flags, "decode-context-parallel-size", where) > 1:
            notes.append(
                "--decode-context-parallel-size is left out of account: it splits the cache inside the TP group"
            )
        batch = count(flags, "max-num-seqs", where, 0) * dp
        return layout, batch or None, notes


def _across_nodes(layout: Layout, served: Served) -> tuple[list[str | int], tuple[str, ...]]:
    """Return the flags for several nodes, and what goes with them.

    Data-parallel ranks that fill nodes are started by one `serve` on each node, the first of which takes the requests;
    others, and a single rank, by Ray.
    """
    nodes, each = served.nodes(layout), layout.tensor_parallel * layout.pipeline_parallel
    ray = f"ray start on all {nodes} nodes before"
    if layout.attention_dp == 1:
        return ["--distributed-executor-backend", "ray"], (ray,)
    room = served.devices_per_node // each
    if served.devices_per_node % each or layout.attention_dp % room:
        span = ("VLLM_RAY_DP_PACK_STRATEGY=span in the environment",) if each > served.devices_per_node else ()
        return ["--data-parallel-backend", "ray"], (ray, *span)
    flags: list[str | int] = ["--data-parallel-size-local", room, "--data-parallel-address", "HOST"]
    starts = [str(room * node) for node in range(1, nodes)]
    ranks = starts[0] if len(starts) == 1 else f"{starts[0]} to {starts[-1]} in steps of {room}"
    others = "the other node" if len(starts) == 1 else f"each of the {len(starts)} other nodes"
    also = (
        f"the same on {others} and --headless --data-parallel-start-rank {'START, START ' * (len(starts) > 1)}{ranks}"
    )
    return [*flags, "--data-parallel-rpc-port", "PORT"], ("HOST the first node", also)


def _load(layout: Layout, served: Served) -> list[str | int]:
    """Return the flags of the load and the number formats."""
    flags: list[str | int] = ["--max-num-seqs", served.each(layout), "--max-model-len", served.tokens]
    flags += ["--gpu-memory-utilization", f"{USABLE_SHARE:g}"]
    flags += ["--kv-cache-dtype", "fp8"] if served.kv_dtype == "fp8" else []
    flags += ["--quantization", served.method] if served.method else []
    return flags

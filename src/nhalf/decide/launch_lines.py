"""Launch lines: the commands of three engines that run a layout as it was predicted, or why one cannot.

References
----------
vLLM, "Engine arguments", "Expert parallel deployment" and "Data parallel deployment": experts are split over TP x DP
devices, by EP where that is enabled; SGLang, "Server arguments": --tp-size counts all devices of a stage, of which
--dp-size groups take different sequences; TensorRT-LLM, "trtllm-serve" and its LLM arguments: attention data
parallelism is over all devices of a stage. Of number formats, both vLLM and SGLang make only fp8 of 16-bit weights in
every version under one name (vLLM, "Quantization"; SGLang, "Quantization"): the others come from a checkpoint.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.predict.memory import USABLE_SHARE

if TYPE_CHECKING:
    from nhalf.layout import Layout

ENGINES: Final = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is launched: a model by the name that engines know, how many sequences (of one replica) and how long.

    `quantised` is the dtype of the weights where it is not the checkpoint's, which are of 16 bits if `plain`; `mixture`
    tells whether the model has experts; `devices_per_node` how nodes are filled.
    """

    model: str
    batch: int
    tokens: int
    kv_dtype: str
    quantised: str
    mixture: bool
    devices_per_node: int
    plain: bool = True

    @property
    def method(self) -> str:
        """Return the method by which an engine quantises the checkpoint when it loads, empty where none does."""
        return self.quantised if self.plain and self.quantised in _METHODS else ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Return what no flag of vLLM and SGLang makes: weights that no method makes of the checkpoint, a cache."""
        weights = [_checkpoint(self.quantised)] if self.quantised and not self.method else []
        cache = [] if self.kv_dtype in ("bf16", "fp16", "fp8") else [f"a cache in {self.kv_dtype}, which has no flag"]
        return (*weights, *cache)


_METHODS: Final = ("fp8",)
"""Number formats that vLLM and SGLang both make of 16-bit weights when they load, under the format's own name."""


def _checkpoint(dtype: str) -> str:
    """Return in words what checkpoint holds weights of a number format."""
    return f"a checkpoint in {dtype}" if dtype in ("bf16", "fp16") else f"a checkpoint quantised to {dtype}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The command of an engine; or no command, and why. `also` are files or commands that go with it."""

    engine: str
    command: str
    reason: str = ""
    also: tuple[str, ...] = ()


def lines(layout: Layout, served: Served) -> dict[str, Line]:
    """Return the line of every engine for one replica of a layout."""
    return {"vllm": _vllm(layout, served), "sglang": _sglang(layout, served), "trtllm": _trtllm(layout, served)}


def runs_on(layout: Layout, engine: str) -> bool:
    """Tell whether an engine has flags for a layout; one that is not known is thought to."""
    return engine not in _REASONS or not _REASONS[engine](layout)


def _no_vllm(layout: Layout) -> str:
    """Return why vLLM cannot run a layout, or an empty string."""
    if layout.context_parallel > 1:
        return "its context parallelism is inside the TP group, not beside it"
    if layout.expert_parallel not in (1, layout.expert_devices):
        return f"its experts are split over all {layout.expert_devices} devices by EP, or not at all"
    return ""


def _no_sglang(layout: Layout) -> str:
    """Return why SGLang cannot run a layout, or an empty string."""
    return "it decodes without context parallelism" if layout.context_parallel > 1 else ""


def _no_trtllm(layout: Layout) -> str:
    """Return why TensorRT-LLM cannot run a layout, or an empty string."""
    if layout.context_parallel > 1:
        return "its context parallelism is of prompts only"
    if layout.attention_dp > 1 and layout.tensor_parallel > 1:
        return "its attention data parallelism is over all devices of a stage"
    return ""


_REASONS: Final = {"vllm": _no_vllm, "sglang": _no_sglang, "trtllm": _no_trtllm}


_VLLM_WAYS: Final = {"all-gather": "allgather_reducescatter", "all-to-all": "deepep_low_latency"}


def _joined(*parts: str | int) -> str:
    """Return a command line without the parts that are empty."""
    return " ".join(shlex.quote(str(part)) for part in parts if part != "")


def _vllm(layout: Layout, served: Served) -> Line:
    """Return the line of vLLM; --max-num-seqs is of each data-parallel rank."""
    reason = _no_vllm(layout)
    if reason:
        return Line(engine="vllm", command="", reason=reason)
    nodes = _nodes(layout, served)
    flags: list[str | int] = ["--tensor-parallel-size", layout.tensor_parallel]
    flags += ["--pipeline-parallel-size", layout.pipeline_parallel] if layout.pipeline_parallel > 1 else []
    flags += ["--data-parallel-size", layout.attention_dp] if layout.attention_dp > 1 else []
    flags += ["--enable-expert-parallel"] if served.mixture and layout.expert_parallel > 1 else []
    flags += ["--all2all-backend", _VLLM_WAYS[layout.routed_exchange]] if layout.attention_dp > 1 else []
    spread, also = _vllm_nodes(layout, served) if nodes > 1 else ([], ())
    flags += [*spread, *_vllm_load(layout, served)]
    command = _joined("vllm", "serve", served.model, *flags)
    return Line(engine="vllm", command=command, also=(*also, *served.needs))


def _vllm_nodes(layout: Layout, served: Served) -> tuple[list[str | int], tuple[str, ...]]:
    """Return vLLM's flags for several nodes, and what goes with them.

    Data-parallel ranks that fill nodes are started by one `serve` on each node, the first of which takes the requests;
    others, and a single rank, by Ray.
    """
    nodes, each = _nodes(layout, served), layout.tensor_parallel * layout.pipeline_parallel
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


def _vllm_load(layout: Layout, served: Served) -> list[str | int]:
    """Return vLLM's flags of the load and the number formats."""
    flags: list[str | int] = ["--max-num-seqs", _each(layout, served), "--max-model-len", served.tokens]
    flags += ["--gpu-memory-utilization", f"{USABLE_SHARE:g}"]
    flags += ["--kv-cache-dtype", "fp8"] if served.kv_dtype == "fp8" else []
    flags += ["--quantization", served.method] if served.method else []
    return flags


def _sglang(layout: Layout, served: Served) -> Line:
    """Return the line of SGLang; --tp-size counts all devices of a stage, --max-running-requests all sequences."""
    reason = _no_sglang(layout)
    if reason:
        return Line(engine="sglang", command="", reason=reason)
    nodes = _nodes(layout, served)
    flags: list[str | int] = ["--model-path", served.model, "--tp-size", layout.stage_devices]
    flags += ["--pp-size", layout.pipeline_parallel] if layout.pipeline_parallel > 1 else []
    flags += ["--dp-size", layout.attention_dp, "--enable-dp-attention"] if layout.attention_dp > 1 else []
    flags += ["--ep-size", layout.expert_parallel] if layout.expert_parallel > 1 else []
    flags += ["--moe-a2a-backend", "deepep"] if layout.routed_exchange == "all-to-all" else []
    flags += ["--nnodes", nodes, "--node-rank", "RANK", "--dist-init-addr", "HOST:PORT"] if nodes > 1 else []
    flags += ["--max-running-requests", served.batch, "--cuda-graph-max-bs", _each(layout, served)]
    flags += ["--context-length", served.tokens, "--mem-fraction-static", f"{USABLE_SHARE:g}"]
    flags += ["--kv-cache-dtype", "fp8_e4m3"] if served.kv_dtype == "fp8" else []
    flags += ["--quantization", served.method] if served.method else []
    also = (f"once on each of {nodes} nodes, RANK from 0",) if nodes > 1 else ()
    command = _joined("python", "-m", "sglang.launch_server", *flags)
    return Line(engine="sglang", command=command, also=(*also, *served.needs))


def _trtllm(layout: Layout, served: Served) -> Line:
    """Return the line of TensorRT-LLM and its file of options; --max_batch_size is of each rank."""
    reason = _no_trtllm(layout)
    if reason:
        return Line(engine="trtllm", command="", reason=reason)
    each, nodes = _each(layout, served), _nodes(layout, served)
    flags: list[str | int] = ["--tp_size", layout.stage_devices]
    flags += ["--pp_size", layout.pipeline_parallel] if layout.pipeline_parallel > 1 else []
    flags += ["--ep_size", layout.expert_parallel] if layout.expert_parallel > 1 else []
    flags += ["--max_batch_size", each, "--max_seq_len", served.tokens]
    flags += ["--kv_cache_free_gpu_memory_fraction", f"{USABLE_SHARE:g}", "--extra_llm_api_options", "options.yaml"]
    options = [f"cuda_graph_config: {{enable_padding: true, max_batch_size: {each}}}"]
    options += ["enable_attention_dp: true"] if layout.attention_dp > 1 else []
    options += ["kv_cache_config: {dtype: fp8}"] if served.kv_dtype == "fp8" else []
    also = [f"options.yaml: {'; '.join(options)}"]
    also += [_checkpoint(served.quantised)] if served.quantised else []
    also += [f"under mpirun or srun with {layout.devices} ranks on {nodes} nodes"] if nodes > 1 else []
    return Line(engine="trtllm", command=_joined("trtllm-serve", served.model, *flags), also=tuple(also))


def _each(layout: Layout, served: Served) -> int:
    """Return how many sequences each data-parallel rank runs."""
    return -(-served.batch // layout.attention_dp)


def switches(layout: Layout, *, mode: str, serves_prompts: bool) -> tuple[str, ...]:
    """Return what a prediction assumes of switches that the lines leave at their defaults, or set."""
    found = []
    if mode == "graph":
        found.append("CUDA graphs for every batch up to the one shown: no --enforce-eager, no --disable-cuda-graph")
    elif mode == "eager":
        found.append("no CUDA graphs: --enforce-eager (vLLM), --disable-cuda-graph (SGLang)")
    if layout.tensor_parallel > 1:
        found.append("the engine's own all-reduce inside a node: no --disable-custom-all-reduce")
    if layout.attention_dp > 1:
        by = "all-to-all (DeepEP, or NVLink)" if layout.routed_exchange == "all-to-all" else "all-gather, not DeepEP"
        found.append(f"tokens reach experts by {by}; no two batches in turns")
    if layout.pipeline_parallel > 1:
        found.append("as many micro-batches as stages, of equal size")
    if serves_prompts:
        found.append("no reuse of prefixes (--no-enable-prefix-caching, --disable-radix-cache): reuse is faster")
    return (*found, f"{100 * USABLE_SHARE:.0f} % of the memory for the engine, and no speculative decoding")


def _nodes(layout: Layout, served: Served) -> int:
    """Return how many nodes a replica takes."""
    return -(-layout.devices // served.devices_per_node)

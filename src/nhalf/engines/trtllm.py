"""TensorRT-LLM: attention data parallelism is over all devices of a stage, and stands in its file of options.

References
----------
TensorRT-LLM, "trtllm-serve" and its LLM arguments.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from nhalf.engines.engine import Engine, count, joined
from nhalf.engines.served import checkpoint
from nhalf.layout import Layout
from nhalf.predict.memory import USABLE_SHARE

if TYPE_CHECKING:
    from nhalf.engines.served import Served


class Trtllm(Engine):
    """TensorRT-LLM, whose --max_batch_size is of each rank."""

    name = "trtllm"
    title = "TensorRT-LLM"
    newest = "1.3.0rc20"
    start = "trtllm-serve"
    programs = ("trtllm-serve", "trtllm_serve")
    backends = ("trt", "tensorrt-llm")
    quantised_kv = "fp8"
    one_vendor = True
    even_ranks = True
    exchange_is_a_flag = False
    degrees = ("tp-size", "pp-size", "ep-size", "enable-attention-dp")

    def refusal(self, layout: Layout) -> str:
        """Return why it cannot run a layout, or an empty string."""
        if layout.context_parallel > 1:
            return "its context parallelism is of prompts only"
        if layout.attention_dp > 1 and layout.tensor_parallel > 1:
            return "its attention data parallelism is over all devices of a stage"
        return ""

    def command(self, layout: Layout, served: Served) -> tuple[str, tuple[str, ...]]:
        """Return the command, and the files or commands that go with it."""
        each, nodes = served.each(layout), served.nodes(layout)
        flags: list[str | int] = ["--tp_size", layout.stage_devices]
        flags += ["--pp_size", layout.pipeline_parallel] if layout.pipeline_parallel > 1 else []
        flags += ["--ep_size", layout.expert_parallel] if layout.expert_parallel > 1 else []
        flags += ["--max_batch_size", each, "--max_seq_len", served.tokens]
        flags += ["--kv_cache_free_gpu_memory_fraction", f"{USABLE_SHARE:g}", "--extra_llm_api_options", "options.yaml"]
        options = [f"cuda_graph_config: {{enable_padding: true, max_batch_size: {each}}}"]
        options += ["enable_attention_dp: true"] if layout.attention_dp > 1 else []
        options += ["kv_cache_config: {dtype: fp8}"] if served.kv_dtype == "fp8" else []
        also = [f"options.yaml: {'; '.join(options)}"]
        also += [checkpoint(served.quantised)] if served.quantised else []
        also += [f"under mpirun or srun with {layout.devices} ranks on {nodes} nodes"] if nodes > 1 else []
        return joined(*self.start.split(), served.model, *flags), tuple(also)

    def layout_of(self, flags: dict[str, str], where: str) -> tuple[Layout, int | None, list[str]]:
        """Return the layout of a line, the sequences of a replica, and what is left out of account."""
        tp = count(flags, "tp-size", where)
        path = flags.get("extra-llm-api-options") or flags.get("config")
        notes = []
        spread = flags.get("enable-attention-dp", "absent") in ("", "true", "True")
        if path and Path(path).is_file():
            text = Path(path).read_text(encoding="utf-8", errors="replace")
            spread = (
                spread
                or re.search(r"^\s*enable_attention_dp\s*:\s*true\b", text, re.MULTILINE | re.IGNORECASE) is not None
            )
        elif path:
            notes.append(f"{path} is not here: attention data parallelism is taken to be off")
        layout = Layout(
            tensor_parallel=1 if spread else tp,
            attention_dp=tp if spread else 1,
            pipeline_parallel=count(flags, "pp-size", where),
            expert_parallel=count(flags, "ep-size", where),
        )
        batch = count(flags, "max-batch-size", where, 0) * layout.attention_dp
        return layout, batch or None, notes

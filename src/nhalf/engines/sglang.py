"""SGLang: --tp-size counts all devices of a stage, of which --dp-size groups take different sequences.

References
----------
SGLang, "Server arguments".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.engines.engine import Engine, count, joined
from nhalf.errors import InputError
from nhalf.layout import Layout
from nhalf.predict.memory import USABLE_SHARE

if TYPE_CHECKING:
    from nhalf.engines.served import Served


class Sglang(Engine):
    """SGLang, whose --max-running-requests are all sequences of a replica."""

    name = "sglang"
    title = "SGLang"
    newest = "0.5.20"
    start = "python -m sglang.launch_server"
    programs = ("sglang",)
    backends = ("sglang",)
    eager_flag = "disable-cuda-graph"
    no_reuse_flag = "disable-radix-cache"
    even_ranks = True
    spellings = {  # noqa: RUF012
        "tp": "tp-size", "tensor-parallel-size": "tp-size", "pp": "pp-size", "pipeline-parallel-size": "pp-size",
        "dp": "dp-size", "data-parallel-size": "dp-size", "ep": "ep-size", "expert-parallel-size": "ep-size",
        "model": "model-path",
    }  # fmt: skip
    degrees = ("tp-size", "pp-size", "dp-size", "ep-size", "enable-dp-attention")

    def refusal(self, layout: Layout) -> str:
        """Return why it cannot run a layout, or an empty string."""
        return "it decodes without context parallelism" if layout.context_parallel > 1 else ""

    def command(self, layout: Layout, served: Served) -> tuple[str, tuple[str, ...]]:
        """Return the command, and the files or commands that go with it."""
        nodes = served.nodes(layout)
        flags: list[str | int] = ["--model-path", served.model, "--tp-size", layout.stage_devices]
        flags += ["--pp-size", layout.pipeline_parallel] if layout.pipeline_parallel > 1 else []
        flags += ["--dp-size", layout.attention_dp, "--enable-dp-attention"] if layout.attention_dp > 1 else []
        flags += ["--ep-size", layout.expert_parallel] if layout.expert_parallel > 1 else []
        flags += ["--moe-a2a-backend", "deepep"] if layout.routed_exchange == "all-to-all" else []
        flags += ["--nnodes", nodes, "--node-rank", "RANK", "--dist-init-addr", "HOST:PORT"] if nodes > 1 else []
        flags += ["--max-running-requests", served.batch, "--cuda-graph-max-bs", served.each(layout)]
        flags += ["--context-length", served.tokens, "--mem-fraction-static", f"{USABLE_SHARE:g}"]
        flags += ["--kv-cache-dtype", "fp8_e4m3"] if served.kv_dtype == "fp8" else []
        flags += ["--quantization", served.method] if served.method else []
        also = (f"once on each of {nodes} nodes, RANK from 0",) if nodes > 1 else ()
        command = joined(*self.start.split(), *flags)
        return command, (*also, *served.needs)

    def layout_of(self, flags: dict[str, str], where: str) -> tuple[Layout, int | None, list[str]]:
        """Return the layout of a line, the sequences of a replica, and what is left out of account.

        Raises
        ------
        InputError
            The groups of data-parallel attention do not divide the devices of a stage.
        """
        devices, dp, ep = (count(flags, name, where) for name in ("tp-size", "dp-size", "ep-size"))
        attention = dp if "enable-dp-attention" in flags else 1
        if devices % attention:
            raise InputError(
                f"--dp-size {dp} does not divide --tp-size {devices}", where=where, do="correct one of them"
            )
        layout = Layout(
            tensor_parallel=devices // attention,
            pipeline_parallel=count(flags, "pp-size", where),
            attention_dp=attention,
            expert_parallel=ep,
            replicas=1 if attention > 1 else dp,
            routed_exchange="all-to-all" if flags.get("moe-a2a-backend") and ep == devices > 1 else "all-gather",
        )
        return layout, count(flags, "max-running-requests", where, 0) or None, []

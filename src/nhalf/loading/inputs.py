"""The table of inputs: one row for each thing that a user can say about a scenario.

A row is the flag of the command line, the key of a scenario file, the axis of a sweep, the word of `--option`, the
keyword of `nhalf.load`, the column of a case table and what a shell completes, with its help, range and default. All of
those are made of it, so that an input that is added here is there in each of them. Nothing heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from nhalf.loading import readers as read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Part = Literal["request", "degrees", "options", "cells"]
Cell = Literal["", "name", "degree", "number"]

SCENARIO: Final = ("decode", "plan", "sweep", "buy", "whatif", "compare")
"""The commands that take every input of a scenario."""
TABLES: Final = ("predict", "validate", "calibrate")
"""The commands about tables of runs, whose flags say what a table does not."""
LOOP: Final = "measure"
"""The command that plays the messages of a model: of its inputs those that say what is sent."""
LOAD: Final = ("batch", "users", "rate", "context", "isl", "osl", "replicas")
"""What a running server tells by itself."""
PROMPT, OUTPUT = 1024, 512
"""The lengths of a request where a plan is asked for and none are given [tokens]: a chat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input: `name` is its key, axis, keyword and word; its flag is `--name` where `flag` does not say otherwise.

    `part` is what holds it: a field of the request (`field`, where it has another name), a degree, an option, or cells
    of a case table alone. `path` is the number of the scenario that it sets, `column` the column of a case table, whose
    cells are names, degrees or numbers. `words` and `catalogue` (a kind of the catalogue, or "file") are what a shell
    completes. `default` is what is taken where nobody says it, and `follows` names the inputs that a default rests on.
    `said` holds the help of commands where it differs.
    """

    name: str
    read: Callable[[object, str], Any] = read.text
    metavar: str = "NAME"
    help: str = ""
    default: str = ""
    part: Part = "options"
    field: str = ""
    flag: str = ""
    path: str = ""
    column: str = ""
    cell: Cell = ""
    words: tuple[str, ...] = ()
    catalogue: str = ""
    commands: tuple[str, ...] = SCENARIO
    axis: bool = False
    option: bool = False
    follows: tuple[str, ...] = ()
    said: tuple[tuple[str, str], ...] = ()

    @property
    def on_command_line(self) -> str:
        """Return the flag, or the argument in capitals."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def held_as(self) -> str:
        """Return the field that holds it."""
        return self.field or self.name

    @property
    def is_switch(self) -> bool:
        """Tell whether it is on or off without a value."""
        return self.read is read.switch

    def metavar_of(self, command: str) -> str:
        """Return how a command's help writes its value: one where the flag is for all rows of a table."""
        return {"LIST": "K"}.get(self.metavar, self.metavar.partition("[")[0]) if command in TABLES else self.metavar

    def help_of(self, command: str) -> str:
        """Return its help in a command, with its default there."""
        if command in TABLES and self.column:
            text = "Where the table does not say."
        else:
            text = dict(self.said).get(command, self.help)
        default = self.default if text == self.help or (command in TABLES and self.name == "engine") else ""
        return f"{text}  [default: {default}]" if default else text


_MOST: Final = 10**12
_DTYPES: Final = ("bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4")
_CHAT: Final = "if --context is not given]"
_LOOKED_AT: Final = "to look at: 4,8.  [default: all]"
_ALL: Final = "to look at.  [default: all]"
_LONG: Final = "Context-parallel degrees to look at.  [default: 1, for long prompts all]"
_LEGAL: Final = "Tensor-parallel degrees.  [default: those of 2,4,8,16 that are legal]"
_MEASURED: Final = "One of `nhalf catalog libraries`.  [default: all that were measured there]"

INPUTS: Final[tuple[Input, ...]] = (
    Input(name="model", part="request", column="model", cell="name", catalogue="model",
          commands=(*TABLES, LOOP), said=((LOOP, "Play this model's own collectives, a token at a time."),)),
    Input(
        name="system", read=read.names, metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue, or cluster files.",
        part="request",
        field="systems", flag="--on", column="system", cell="name", catalogue="system", axis=True, option=True,
        commands=(*SCENARIO, "crossover", *TABLES, LOOP), said=((LOOP, "With --model: compare with nhalf decode."),),
    ),
    Input(
        name="tp", read=read.counts, metavar="LIST", help="Tensor-parallel degrees: 1,2,4,8.", default="1",
        part="degrees", path="layout.tensor_parallel", column="tp", cell="degree", axis=True, option=True,
        commands=(*SCENARIO, "crossover", *TABLES, LOOP),
        said=(
            (LOOP, "Tensor-parallel degrees, with --model.  [default: the ranks]"),
            ("plan", f"Tensor-parallel degrees {_LOOKED_AT}"), ("crossover", _LEGAL),
            ("decode", "Tensor-parallel degrees.  [default: of 1,2,4,8 those that a node allows]"),
        ),
    ),
    Input(
        name="pp", read=read.counts, metavar="LIST", help="Pipeline stages.", default="1", part="degrees",
        path="layout.pipeline_parallel", column="pp", cell="degree", axis=True, option=True,
        commands=(*SCENARIO, LOOP),
        said=(("plan", f"Pipeline stages {_ALL}"),),
    ),
    Input(
        name="ep", read=read.counts, metavar="LIST", help="Expert-parallel degrees.", default="1", part="degrees",
        path="layout.expert_parallel", column="moe_ep", cell="degree", axis=True, option=True,
        commands=(*SCENARIO, LOOP),
        said=(("plan", f"Expert-parallel degrees {_ALL}"),),
    ),
    Input(
        name="attention_dp", read=read.counts, metavar="LIST", help="Attention data-parallel degrees.", default="1",
        part="degrees", path="layout.attention_dp", column="attention_dp", cell="degree", axis=True, option=True,
        commands=(*SCENARIO, LOOP),
        said=(("plan", f"Attention data-parallel degrees {_ALL}"),),
    ),
    Input(name="moe_tp", part="cells", column="moe_tp", cell="degree", commands=()),
    Input(
        name="cp", read=read.counts, metavar="LIST", help="Context-parallel degrees.", default="1", part="degrees",
        path="layout.context_parallel", column="cp", cell="degree", axis=True, option=True, said=(("plan", _LONG),),
    ),
    Input(
        name="batch", read=read.counts, metavar="LIST", help="Sequences that decode together.", default="1",
        part="request", field="batches", path="workload.batch", column="batch", cell="number", axis=True,
        commands=(*SCENARIO, LOOP),
        said=(
            ("tune", "Sequences that decode together.  [default: 1,2,4 to 256]"),
            ("plan", "Batches of a replica to look at.  [default: all that fit]"),
            *((each, "Sequences that decode together.  [default: 1,16,128]") for each in ("buy", "whatif")),
        ),
    ),
    Input(
        name="users", read=read.count, metavar="N", part="request",
        commands=("decode", "plan", "buy", "whatif", "compare"),
        help="Sequences in flight in all, instead of --batch: each replica takes its share, rounded up.",
        said=(("plan", "Sequences in flight in all; layouts are ranked at this load.  [default: what suits each]"),),
    ),
    Input(
        name="rate", read=read.rate, metavar="R", commands=("decode", "plan", "buy", "whatif", "compare"),
        help="Requests per second in all, with --isl and --osl: finds the batch at which each layout keeps up.",
    ),
    Input(name="concurrency", part="cells", column="concurrency", cell="number", commands=()),
    Input(
        name="context", read=read.count, metavar="N", help="Tokens in the cache of each sequence.", default="1024",
        part="request", path="workload.context_tokens", column="context", cell="number", axis=True,
        follows=("isl", "osl"),
        said=(("plan", "Tokens in the cache of each sequence, instead of --isl and --osl."),),
    ),
    Input(
        name="isl", read=read.count, metavar="N", help="Prompt tokens, with --osl: adds the prefills of arriving "
        "requests.", part="request", path="workload.prompt_tokens", column="isl", cell="number", axis=True,
        said=(("plan", f"Prompt tokens, with --osl.  [default: {PROMPT}, {_CHAT}"),),
    ),
    Input(
        name="osl", read=read.count, metavar="N", help="Output tokens, with --isl.", part="request",
        path="workload.output_tokens", column="osl", cell="number", axis=True,
        said=(("plan", f"Output tokens, with --isl.  [default: {OUTPUT}, {_CHAT}"),),
    ),
    Input(
        name="weights", metavar="DTYPE", help=f"{', '.join(_DTYPES)}.", default="the config's", part="request",
        column="weight_dtype", cell="name", words=_DTYPES, axis=True, option=True,
        commands=(*SCENARIO, *TABLES), follows=("model",),
    ),
    Input(name="moe_dtype", part="cells", column="moe_dtype", cell="name", commands=()),
    Input(
        name="kv", metavar="DTYPE", help="Cache dtype: bf16, fp8.", default="what servers most likely run",
        part="request", column="kv_dtype", cell="name", words=("bf16", "fp8"), axis=True, option=True,
        commands=(*SCENARIO, *TABLES), follows=("model", "system", "engine", "weights"),
    ),
    Input(
        name="engine", help="vllm, sglang, trtllm; vllm==0.24.0 for a version.", default="vllm", part="request",
        column="engine", cell="name", catalogue="engine", axis=True, option=True, commands=(*SCENARIO, *TABLES),
    ),
    Input(name="engine_version", part="cells", column="engine_version", cell="name", commands=()),
    Input(
        name="library", help="Communication library: vllm, nccl, ...; `nhalf catalog libraries`.",
        default="the engine's", part="request", column="library", cell="name", catalogue="library", axis=True,
        option=True, commands=(*SCENARIO, "crossover"), follows=("engine",), said=(("crossover", _MEASURED),),
    ),
    Input(
        name="mode", metavar="MODE", help="graph, eager or host.", default="the engine's own", part="request",
        column="mode", cell="name", words=("graph", "eager", "host"), axis=True, option=True,
        commands=(*SCENARIO, "crossover"), follows=("engine",),
        said=(("crossover", "graph, eager or host.  [default: graph, and host for NCCL]"),),
    ),
    Input(
        name="stack", metavar="FILE", help="Constants of nhalf calibrate, or `priors`.", default="the calibrated",
        part="request", catalogue="file", option=True, commands=(*SCENARIO, "predict", "validate"),
    ),
    Input(
        name="links", metavar="FILE", help="A file of links: [links.intra-node], [links.inter-node].", part="request",
        catalogue="file", option=True,
    ),
    Input(
        name="measured", read=read.texts, metavar="'OP SIZE xK = TIME'", part="request",
        commands=(*SCENARIO, "crossover"),
        help="A collective that you measured: 'all-reduce 16KiB x8 = 7.2us'; may be repeated.",
    ),
    Input(
        name="set", read=read.changes, metavar="PATH=VALUE", part="request", field="changes",
        help="Change any input; may be repeated. `nhalf catalog system SYSTEM` and `nhalf catalog engine ENGINE` list "
        "the paths.",
    ),
    Input(
        name="replicas", read=read.few(1_000_000), metavar="N", path="layout.replicas",
        commands=("decode", "buy", "whatif", "compare"),
        help="Copies of the layout, each with a batch of its own.", default="1",
    ),
    Input(
        name="phase", read=read.one_of("decode", "prefill"), metavar="PHASE", path="workload.phase",
        help="decode, or prefill (with --isl).", default="decode", words=("decode", "prefill"), commands=("decode",),
    ),
    Input(
        name="chunk", read=read.few(_MOST), metavar="N", path="workload.chunk_tokens", commands=("decode",),
        help="Tokens of a prompt that a prefill takes at a time.", default="all",
    ),
    Input(
        name="kv_transfer", read=read.link, metavar="LINK", catalogue="link", commands=("decode",),
        help="Hand over the cache: LATENCY,BANDWIDTH or a link's name.",
    ),
    Input(
        name="cp_exchange", read=read.one_of("all-gather", "ring"), metavar="WAY", path="layout.context_exchange",
        help="all-gather or ring, in prefills.", default="all-gather", words=("all-gather", "ring"), option=True,
        commands=("decode", "sweep", "buy", "whatif"),
    ),
    Input(
        name="draft_tokens", read=read.few(64), metavar="N", path="workload.tokens_per_step", option=True,
        help="Tokens drafted and checked each step, with --acceptance.",
    ),
    Input(
        name="acceptance", read=read.share, metavar="A", path="workload.accepted_tokens", option=True,
        help="The chance that a drafted token is kept: 0.8.",
    ),
    Input(
        name="exchange", read=read.one_of("all-gather", "all-to-all"), metavar="WAY", path="layout.routed_exchange",
        help="Tokens to experts: all-gather or all-to-all.", default="all-gather", words=("all-gather", "all-to-all"),
        option=True, said=(("plan", "Tokens to experts: all-gather or all-to-all.  [default: both]"),),
    ),
    Input(
        name="skew", read=read.ratio(64.0, of="the busiest rank to the mean"), metavar="RATIO", default="1",
        help="Busiest expert rank over the mean, with all-to-all.", path="workload.routing_skew", option=True,
    ),
    Input(
        name="fuse_norm", read=read.switch, path="stack.remedies.fused_norms", option=True,
        help="Do the norm in the kernel of its all-reduce.",
    ),
    Input(
        name="fuse", read=read.few(_MOST), metavar="M", path="stack.remedies.fused_collectives", option=True,
        help="Run M small collectives as one.",
    ),
    Input(
        name="overlap", read=read.share, metavar="FRACTION", path="stack.remedies.overlap_share", axis=True,
        option=True,
        help="Share of the collectives that may run under compute.",
    ),
    Input(
        name="two_batch_overlap", read=read.switch, path="stack.remedies.two_batches", option=True,
        help="One half of the batch computes, the other communicates.",
    ),
    Input(
        name="quantised_all_reduce", read=read.one_of("fp8"), metavar="DTYPE", words=("fp8",), option=True,
        path="stack.remedies.message_factor", help="Send all-reduces in fp8.",
    ),
    Input(
        name="kernel_bypass", read=read.one_of("on", "off"), metavar="on|off", words=("on", "off"), option=True,
        path="stack.remedies.kernel_bypass", help="Messages between nodes past the kernel, or through it.",
    ),
    Input(
        name="p2p", read=read.one_of("on", "off"), metavar="on|off", words=("on", "off"), option=True,
        help="off: devices of a node reach each other through the host alone.",
    ),
    Input(name="tokens_per_step", part="cells", column="tokens_per_step", cell="number", commands=()),
    Input(name="accepted_tokens", part="cells", column="accepted_tokens", cell="number", commands=()),
)  # fmt: skip
"""Every input, in the order of a command's help."""
BY_NAME: Final = {row.name: row for row in INPUTS if row.part != "cells"}
"""The inputs of a request, by name."""
NAME_OF: Final = {row.field: row.name for row in INPUTS if row.field}
"""The names of inputs that a request holds in a field by another name."""


def of_part(part: Part) -> tuple[Input, ...]:
    """Return the inputs that one part of a request holds."""
    return tuple(row for row in INPUTS if row.part == part)


def of_cell(cell: Cell) -> tuple[str, ...]:
    """Return the columns of a case table whose cells are names, degrees or numbers."""
    return tuple(row.column for row in INPUTS if row.cell == cell)


def of_command(command: str) -> Iterator[Input]:
    """Yield the inputs that a command has a flag for."""
    if command in ("live", "tune"):
        known = "batch" if command == "tune" else ""
        return (row for row in of_command("compare") if row.name not in LOAD or row.name == known)
    return (row for row in INPUTS if command in row.commands)

"""Inputs: files of every kind that nhalf reads, damaged, and options of every command with values that are none."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click
from tests.fuzz.mutation import damaged
from tests.fuzz.trial import ended

from nhalf.app.asked import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

TESTS = Path(__file__).resolve().parents[1]
_SMALL = 40_000
"""Larger files are left to the long campaign: they take most of its time [bytes]."""


@dataclass(frozen=True)
class Input:
    """What is tried: a command, the file it reads, if any, and the name of that."""

    arguments: tuple[str, ...]
    name: str = ""
    content: bytes = b""


MODEL = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2, "vocab_size": 32000, "torch_dtype": "bfloat16", "rope_theta": 1e6, "sliding_window": None,
    "max_position_embeddings": 32768, "tie_word_embeddings": False, "_name_or_path": "x/y",
    "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"},
}  # fmt: skip
BENCH = {
    "model_id": "llama-3.1-8b", "num_prompts": 100, "request_rate": "inf", "max_concurrency": 16, "completed": 100,
    "mean_tpot_ms": 9.1, "median_tpot_ms": 9.0, "p99_tpot_ms": 11.0, "mean_itl_ms": 9.0, "total_input_tokens": 102400,
    "total_output_tokens": 25600, "mean_ttft_ms": 80.0, "median_ttft_ms": 70, "duration": 30.0,
    "output_throughput": 850.0,
}  # fmt: skip
SCHEDULE = {"ranks": 4, "messages": [{"from": 0, "to": 1, "size_bytes": 1024}, {"from": 1, "to": 2, "size_bytes": 64}]}
CASES = "\n".join(
    ["model,system,engine,tp,pp,isl,osl,concurrency,weight_dtype,tpot_s,ttft_s"]
    + [f"llama-3.1-8b,h100-sxm,vllm,{tp},1,1024,256,{users},bf16,{0.004 + users / 4e3},0.08"
       for tp in (1, 2) for users in (1, 8, 64)]
).encode()  # fmt: skip
SCALING = (
    b"devices,batch,step_s,engine,mode\n1,1,0.03,vllm,graph\n2,1,0.02,vllm,graph\n4,1,0.015,vllm,graph\n"
    b"8,1,0.012,vllm,eager\n"
)
FORCED = "\n".join(
    ["collective,size_bytes,algorithm,protocol,channels,nodes,ranks,latency_us"]
    + [f"allreduce,{1024 << step},{algorithm},{protocol},-1,2,16,{latency + (1024 << step) / rate}"
       for algorithm, protocol, latency, rate in (("ring", "ll", 60, 4e3), ("tree", "ll128", 40, 9e3))
       for step in range(0, 14, 2)]
).encode()  # fmt: skip
PASSES = "\n".join(
    json.dumps({"event": {"schema": "dynamo.fpm.trace.v1", "observed_at_unix_ms": 1_764_500_000_000 + 20 * number,
                          "fpm": {"wall_time": 0.02, "queued_requests": {"num_prefill_requests": 0,
                                                                        "num_decode_requests": 1},
                                  "scheduled_requests": {"num_prefill_requests": number % 2, "sum_prefill_tokens": 9,
                                                         "num_decode_requests": 8, "sum_decode_kv_tokens": 8000}}}})
    for number in range(20)
).encode()  # fmt: skip
_ON = ("--on", "h100-sxm", "--tp", "2")
_STEP = (("model", "llama-3.1-8b"), ("on", "h100-sxm"), ("tp", "2"))
_LINK = (("latency", "5us"), ("bandwidth", "400GB/s"))
_ASKED: dict[str, tuple[tuple[tuple[str, str], ...], ...]] = {
    "link": (_LINK,),
    "collective": ((("op", "all-reduce"), ("ranks", "8"), ("on", "h100-sxm")), (*_LINK, ("op", "all-to-all"))),
    "simulate": ((*_LINK, ("op", "all-reduce"), ("ranks", "4"), ("size", "64KiB")),),
    "compare": ((*_STEP, ("layout", "tp=1")),),
    "crossover": (_STEP[:2],),
}
"""What a visitor of the app asks of each command before anything is damaged; of the others, a step."""


@cache
def _logs() -> tuple[list[tuple[str, bytes]], list[tuple[str, bytes]]]:
    """Return the logs of benchmarks, and those of topologies, by their names."""
    paths = [path for path in sorted((TESTS / "logs").glob("*/*")) if path.suffix != ".py" and path.is_file()]
    found = [(path, _unpacked(path)) for path in paths]
    small = [(path, data) for path, data in found if len(data) <= _SMALL]
    return (
        [(f"f{path.suffix}".removesuffix(".gz"), data) for path, data in small if path.parent.name != "topo"],
        [("t.txt", data) for path, data in small if path.parent.name == "topo"],
    )


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@cache
def _trace(few: bool) -> bytes:  # noqa: FBT001  a key of the cache
    """Return a trace, for the short campaign one of few events."""
    document = json.loads(_unpacked(TESTS / "golden" / "trace" / "tp2_slow1" / "rank0.json.gz"))
    if few:
        document["traceEvents"] = document["traceEvents"][:150]
    return json.dumps(document).encode()


@cache
def _written(what: str) -> bytes:
    """Return a file that nhalf itself writes, made once."""
    target = f"seed-{what}.toml"
    Path("seed.csv").write_bytes(CASES)
    log = str(TESTS / "logs" / "nccl_tests" / "2025-06_all_reduce.txt")
    commands = {
        "scenario": ("decode", "llama-3.1-8b", *_ON, "--save", target),
        "stack": ("calibrate", "seed.csv", "-o", target),
        "links": ("fit", log, "-o", target),
    }
    ending = ended(commands[what])
    path = Path(target)
    if not path.exists():
        raise RuntimeError(ending.err)
    return path.read_bytes()


def _fit(random: Random) -> Input:
    name, data = random.choice(_logs()[0])
    more = random.choice(
        ((), (), ("--op", "all-reduce", "--ranks", "8"), ("--on", "h100-sxm"), ("--model", "llama-3.1-8b"),
         ("--mode", "graph"))
    )  # fmt: skip
    if random.random() < 0.1:
        return Input(("fit", "f.gz"), "f.gz", damaged(random, gzip.compress(data)))
    if random.random() < 0.1:
        return Input(("fit", "-", *more), "", damaged(random, data))
    return Input(("fit", name, *more), name, damaged(random, data))


def _topo(random: Random) -> Input:
    name, data = random.choice(_logs()[1])
    more = random.choice(((), ("--on", "h100-sxm"), ("--save", "o.toml", "--on", "h100-sxm")))
    return Input(("topo", name, *more), name, damaged(random, data))


def _config(random: Random) -> Input:
    more = random.choice(
        (("decode", "--tp", "8"), ("decode", "--tp", "4", "--context", "8192", "--batch", "4"), ("plan", "--gpus", "8"),
         ("decode", "--tp", "2", "--phase", "prefill", "--isl", "512", "--osl", "4"))
    )  # fmt: skip
    arguments = (more[0], "config.json", "--on", "h200-sxm", *more[1:])
    return Input(arguments, "config.json", damaged(random, json.dumps(MODEL, indent=1).encode()))


def _traced(random: Random) -> Input:
    data = damaged(random, _trace(few=random.random() < 0.9))
    more = random.choice(((), ("--model", "llama-3.1-8b", "--batch", "4")))
    return Input(("trace", "rank0.json", *more), "rank0.json", data)


def _table(random: Random) -> Input:
    return Input((random.choice(("predict", "validate", "calibrate")), "c.csv"), "c.csv", damaged(random, CASES))


def _toml(random: Random) -> Input:
    what = random.choice(("scenario", "stack", "links"))
    name, decode = f"{what}.toml", ("decode", "llama-3.1-8b", *_ON)
    arguments = ("decode", name) if what == "scenario" else (*decode, f"--{what}", name)
    return Input(arguments, name, damaged(random, _written(what)))


def _bench(random: Random) -> Input:
    arguments = (random.choice(("calibrate", "validate")), "run.json@tp=2,batch=16", "--on", "h100-sxm")
    return Input(arguments, "run.json", damaged(random, json.dumps(BENCH).encode()))


def _scaling(random: Random) -> Input:
    return Input(("lint", "l.csv"), "l.csv", damaged(random, SCALING))


def _schedule(random: Random) -> Input:
    arguments = ("simulate", "schedule.json", "--latency", "5us", "--bandwidth", "100GB/s")
    return Input(arguments, "schedule.json", damaged(random, json.dumps(SCHEDULE).encode()))


def _doctored(random: Random) -> Input:
    name, data = random.choice(_logs()[0])
    more = random.choice(((), ("--ranks", "8"), ("--model", "llama-3.1-8b")))
    return Input(("doctor", name, "--on", "h100-sxm", *more), name, damaged(random, data))


@cache
def _pages() -> tuple[tuple[str, bytes], ...]:
    """Return the saved pages of servers, and files that are read beside them, by their names."""
    found = [(path.name, path.read_bytes()) for path in sorted((TESTS / "golden" / "scrapes").iterdir())]
    inspected = sorted((TESTS / "logs" / "inspector").iterdir())
    return (*found, ("passes.jsonl", PASSES), *((f"dump-{path.name}", path.read_bytes()) for path in inspected))


def _lived(random: Random) -> Input:
    name, data = random.choice(_pages())
    beside = ("page.prom",) if name.startswith("dump-") else ()
    arguments = ("live", *beside, name, "--model", "llama-3.1-8b", *_ON, "--every", "50ms", "--once")
    return Input(arguments, name, damaged(random, data))


def _tuned(random: Random) -> Input:
    arguments = ("tune", "llama-3.1-8b", "--on", "h100-sxm", "--tp", "16", "--logs", "forced.csv")
    return Input(arguments, "forced.csv", damaged(random, FORCED))


def _visited(random: Random) -> Input:
    """Return a request to the app: a parameter with a value that is none, or a damaged file dropped on the page."""
    if random.random() < 0.3:
        return Input(("app", "POST", f"/file/{random.choice(('fit', 'doctor'))}", ""), "",
                     damaged(random, random.choice(_logs()[0])[1]))  # fmt: skip
    command = random.choice(list(COMMANDS))
    parameters = dict(random.choice(_ASKED.get(command, (_STEP,))))
    parameters[random.choice(COMMANDS[command])] = random.choice(NASTY)
    if random.random() < 0.1:
        parameters[random.choice(NASTY)] = "1"
    own = {"decode": "/panel", "simulate": "/timeline"}.get(command, "")
    where = own if own and random.random() < 0.5 else f"/{random.choice(('api', 'screen'))}/{command}"
    return Input(("app", "GET", where, urlencode(parameters)))


KINDS: tuple[tuple[Callable[[Random], Input], int], ...] = (
    (_fit, 34), (_topo, 6), (_config, 14), (_traced, 4), (_table, 12), (_toml, 16), (_bench, 6), (_scaling, 4),
    (_schedule, 4), (_doctored, 10), (_lived, 5), (_tuned, 5),
    (_visited, 10),
)  # fmt: skip
"""What makes a file, and how often."""


def file(random: Random) -> Input:
    """Return a command that reads a damaged file."""
    makers, weights = zip(*KINDS, strict=True)
    made: Input = random.choices(makers, weights)[0](random)
    return made if random.random() < 0.2 else Input((*made.arguments, "--json"), made.name, made.content)


NASTY = (
    "", "0", "-1", "1", "nan", "inf", "-inf", "1e400", "1e-400", "-0", "1e308", "9" * 30, "9" * 5000, "0x10", "1_000",
    "\uff11\uff12", "٣", "½", "1,2,,3", "1,", "1,1,1", ",", "1:2", "8:1", "1:1e9:x1", "1:2:x0", "1:10:x-2", "1:10:+0",
    " ", "\t", "\n", "\x1b[31mred", "\x1b]0;x\x07", "\u202e\u200b", "<script>alert(1)</script>", "../../x",
    "/dev/null", "/dev/zero", ".", "/nonexistent/x", "~", "%s", "{0}", "${HOME}", "$(id)", "`id`", "'", '"', ";", "é",
    "\U0001f600", "a" * 10000, "--", "-x", "true", "None", "5us", "5 us", "5µs", "-5us", "0us", "nanus", "infGB/s",
    "1e400us", "400G", "400Gb/s", "0GB/s", "-1GB/s", "1e-300GB/s", "1e300s", "16KiB", "-16KiB", "0B", "1e30B", "0.5B",
    "1YiB", "100%", "-5%", "1e9%", "x=1", "=", "a=b=c", "system.device.memory_bandwidth_bytes_per_s=0",
    "stack.layer_time_s=-1us", "system.device.memory_bandwidth_bytes_per_s=nan", "stack.layer_time_s=1e400",
    "system.fabric.intra_node.latency_s=0", "system.fabric.intra_node.bandwidth_bytes_per_s=1e-300",
    "system.fabric.intra_node.latency_s=1e300s", "median>10%", "median>nan", "latency>", "tp=8,batch=16: 9.8ms",
    "tp=0", "context=1e20", "batch=1.5", "5us,400GB/s", "vllm", "nccl", "h100-sxm,h100-sxm", "gb200-nvl72", "fp8",
    "off", "ring", "prefill", "all-gather", "graph", "eager", "1.0", "0.999999", "1e-9", "3", "128", "1000000000",
    "1" + "0" * 400, str(2**63), str(-(2**63)), "1;2", "[1,2]", '{"a":1}',
)  # fmt: skip
BASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "link": (("5us", "400GB/s"),),
    "decode": (("llama-3.1-8b", *_ON), ("mixtral-8x7b", "--on", "h100-sxm", "--tp", "4", "--ep", "2")),
    "collective": (
        ("all-reduce", "--on", "h100-sxm", "--ranks", "8"),
        ("all-to-all", "5us", "400GB/s", "--ranks", "8"),
    ),
    "crossover": (("llama-3.1-8b", "--on", "h100-sxm"),),
    "plan": (("llama-3.1-8b", "--on", "h100-sxm"),),
    "buy": (("llama-3.1-8b", "--on", "h100-sxm"),),
    "whatif": (("llama-3.1-8b", "--on", "h100-sxm", "--tp", "4"),),
    "compare": (("llama-3.1-8b", "--on", "h100-sxm", "--layout", "tp=1", "--layout", "tp=2"),),
    "sweep": (("llama-3.1-8b", "--on", "h100-sxm", "--axis", "tp=1,2"),),
    "lint": (("curve.csv",),),
    "fit": ((str(TESTS / "logs" / "csv" / "plain.csv"),),),
    "doctor": ((str(TESTS / "logs" / "csv" / "plain.csv"), "--on", "h100-sxm"),),
    "tune": (("llama-3.1-8b", "--on", "h100-sxm", "--tp", "16", "--logs", "forced.csv"),),
    "predict": (("cases.csv",),),
    "validate": (("cases.csv",),),
    "calibrate": (("cases.csv",),),
    "simulate": (("all-reduce", "--on", "h100-sxm", "--ranks", "8", "--size", "64KiB"),),
    "topo": ((str(TESTS / "logs" / "topo" / "h100-8.txt"),),),
    "catalog": (("systems",), ("models", "llama-3.1-8b"), ("curves",)),
}
_NOT_TRIED = {"--workers", "--cluster", "--listen", "--connect", "--help", "-h", "--json", "--csv", "--md"}


@cache
def _options(command: str) -> tuple[tuple[str, bool], ...]:
    """Return the options of a command, each with whether it is a flag."""
    found = getattr(import_module(f"nhalf.cli.{command}"), command)
    if isinstance(found, click.Group):
        found = found.get_command(click.Context(found), "collective")
    options = [each for each in found.params if isinstance(each, click.Option) and _NOT_TRIED.isdisjoint(each.opts)]
    return tuple((max(each.opts, key=len), each.is_flag) for each in options)


def option(random: Random) -> Input:
    """Return a command with an option, or a word, that is none."""
    command = random.choice(list(BASES))
    words = list(random.choice(BASES[command]))
    choices: Sequence[tuple[str, bool]] = _options(command)
    name, flag = random.choice(choices) if choices else ("", True)
    if random.random() < 0.2:
        words[random.randrange(len(words))] = random.choice(NASTY)
    elif flag:
        words += [name] if name else []
    else:
        words += [name, random.choice(NASTY)]
    return Input((command, *words, "--json"))


def prepare() -> None:
    """Write, into the current folder, the files that options are tried with."""
    Path("curve.csv").write_bytes(SCALING)
    Path("cases.csv").write_bytes(CASES)
    Path("forced.csv").write_bytes(FORCED)
    Path("page.prom").write_bytes(dict(_pages())["vllm-t0.prom"])

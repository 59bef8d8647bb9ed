"""Help: the options of a command in groups, the rare ones last, and two examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUPS: Final = {
    "Question": (
        "--phase", "--gpus", "--tpot", "--ttft", "--odds", "--goal", "--price", "--launch", "--pools", "--option",
        "--mix", "--axis", "--compare", "--fail-if", "--link", "--diff", "--straggler", "--draws", "--builtin", "--op",
        "--ranks", "--size", "--sizes", "--backend", "--ops", "--channels", "--baseline", "--every", "--for",
        "--once", "--logs", "--check",
    ),
    "Layout": ("--tp", "--pp", "--ep", "--attention-dp", "--cp", "--replicas", "--layout"),
    "Load": ("--batch", "--users", "--rate", "--context", "--isl", "--osl", "--weights", "--kv", "--chunk", "--model"),
    "System": (
        "--on", "--engine", "--library", "--mode", "--measured", "--links", "--stack", "--anchor", "--set", "--nodes",
    ),
    "Output": ("--output", "--junit", "--detail", "--explain", "--save", "--json", "--csv", "--md", "--all",
               "--serve", "--alerts", "--learn", "--bind", "--port", "--help"),
}  # fmt: skip
"""The groups of options in the order of a help page; what is in none of them is rare and comes last."""
EXAMPLES: Final = {
    "link": ("nhalf link 5us 400GB/s", "nhalf link nvlink4"),
    "decode": (
        "nhalf decode llama-3.1-70b --on h100-sxm --weights fp8 --tp 8,16",
        "nhalf decode ./config.json --on h200-sxm --batch 1,16,128",
    ),
    "compare": (
        "nhalf compare llama-3.1-70b --on h100-sxm --layout tp=8 --layout tp=16 --users 4",
        "nhalf compare llama-3.1-70b --on h100-sxm,h200-sxm --tp 8 --users 64",
    ),
    "collective": (
        "nhalf collective all-reduce --ranks 8 --on h100-sxm",
        "nhalf collective all-reduce 5us 400GB/s --ranks 8",
    ),
    "crossover": (
        "nhalf crossover llama-3.1-70b --on h100-sxm",
        "nhalf crossover llama-3.1-70b --link 5us,400GB/s",
    ),
    "plan": (
        "nhalf plan deepseek-v3 --on h200-sxm --gpus 16 --isl 4000 --osl 1000 --tpot 50ms",
        "nhalf plan llama-3.1-70b --on h100-sxm,h200-sxm --goal cost --price '$2,$3'",
    ),
    "buy": (
        "nhalf buy llama-3.1-70b --on h100-sxm --tp 16 --option 'nic=800Gb/s @ $1500/nic'",
        "nhalf buy llama-3.1-70b --on h100-sxm --option 'hbm=4.8TB/s @ $4000' --batch 1,128",
    ),
    "whatif": (
        "nhalf whatif llama-3.1-70b --on h100-sxm --weights fp8 --tp 16",
        "nhalf whatif --step 52ms --calls 100 --each 59us --option each=23us",
    ),
    "sweep": (
        "nhalf sweep llama-3.1-70b --on h100-sxm --tp 4,8 --axis batch=1:256:x2",
        "nhalf sweep llama-3.1-70b --on h100-sxm --axis batch=1,16 -o sweep.csv",
    ),
    "lint": ("nhalf lint curve.csv", "nhalf lint curve.csv --json"),
    "doctor": ("nhalf doctor nccl-tests.log --on h100-sxm", "nhalf doctor pairs/ --on h100-sxm --model llama-3.1-70b"),
    "fit": ("nhalf fit nccl-tests.log", "nhalf fit nccl-tests.log --model llama-3.1-70b -o mycluster.toml"),
    "measure": (
        "torchrun --nproc-per-node 2 -m nhalf measure",
        "nhalf measure --model llama-3.1-8b --tp 2 --batch 1,16 -o loop.json",
    ),
    "lab": ("nhalf lab", "nhalf lab --short -o lab.html"),
    "predict": ("nhalf predict cases.csv -o out.csv", "nhalf predict cases.csv --on h100-sxm --model llama-3.1-70b"),
    "validate": ("nhalf validate --builtin", "nhalf validate runs.csv --fail-if 'p90>=40%'"),
    "calibrate": ("nhalf calibrate bench.csv -o my-stack.toml", "nhalf calibrate run.json@tp=8"),
    "simulate": ("nhalf simulate all-reduce --ranks 8 --size 16KiB --on h100-sxm", "nhalf simulate decode --help"),
    "trace": ("nhalf trace profiles/", "nhalf trace --diff before/ after/"),
    "live": (
        "nhalf live http://localhost:8000/metrics --on h100-sxm --tp 8 --once",
        "nhalf live http://localhost:8000/metrics --on h100-sxm --tp 8 --serve 127.0.0.1:9464",
    ),
    "tune": (
        "nhalf tune llama-3.1-70b --on h100-sxm --tp 16 --logs sweep.csv -o tuned",
        "nhalf tune --check tuned --logs default=a.log --logs tuned=b.log",
    ),
    "topo": ("nvidia-smi topo -m | nhalf topo -", "nhalf topo matrix.txt --on h100-sxm -o mycluster.toml"),
    "app": ("nhalf app", "nhalf app --on mycluster.toml --port 0"),
    "explain": ("nhalf explain crossover", "nhalf explain"),
    "catalog": ("nhalf catalog systems", "nhalf catalog model llama-3.1-70b"),
}
"""Two command lines of each command."""


class Grouped(click.Command):
    """A command whose help shows two examples, and its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, then the options group by group."""
        if examples := EXAMPLES.get(self.name or ""):
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in examples))
        shown: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, "Rare")}
        for param in self.get_params(ctx):
            record = None if isinstance(param, click.Argument) else param.get_help_record(ctx)
            if record is not None:
                shown[_group(param.opts)].append(record)
        several = sum(bool(records) for records in shown.values()) > 1
        for group, records in shown.items():
            if records:
                with formatter.section(group if several else "Options"):
                    formatter.write_dl(records)


def _group(flags: Sequence[str]) -> str:
    return next((group for group, names in GROUPS.items() if any(flag in names for flag in flags)), "Rare")

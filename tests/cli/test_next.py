"""The last lines of each answer: commands that run when they are pasted, about the question that was asked."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import detailed, invoke

if TYPE_CHECKING:
    from tests.cli.command import Result

LOGS = Path(__file__).parents[1] / "logs"
TRACE = LOGS.parent / "golden" / "trace" / "tp2_slow1"
LLAMA = ("llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--weights", "fp8")
EXPERTS = ("deepseek-v3", "--on", "h200-sxm", "--attention-dp", "16", "--ep", "16", "--exchange", "all-to-all")
TABLE = "model,system,tp,isl,osl,concurrency,tpot_s\nllama-3.1-70b,h100-sxm,8,1024,512,{},{}\n"


def following(result: Result) -> list[list[str]]:
    """Return the commands of the last section as words, as a shell reads them."""
    assert result.code in (0, 4), result.err
    _, mark, section = result.out.rpartition("\nNext: ")
    if not mark:
        section = result.out.rsplit("\nNext\n", 1)[1]
    lines = [line.strip() for line in section.replace(" \\\n", " ").splitlines()]
    found = [shlex.split(line, comments=True) for line in lines]
    return [words for words in found if words]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    runs = [TABLE.format(1, 0.011), *(TABLE.format(batch, time).splitlines(keepends=True)[1]
                                      for batch, time in ((4, 0.0115), (16, 0.0125), (64, 0.017)))]  # fmt: skip
    Path("runs.csv").write_text("".join(runs), encoding="utf-8")
    Path("curve.csv").write_text("devices,step_s,batch\n1,0.04,1\n2,0.03,1\n", encoding="utf-8")
    sizes = [2.0**power for power in range(3, 31)]
    line = [f"send-recv,2,{size:.0f},{5.0 + size / 50e3:.6f}" for size in sizes]  # 5 us and 50 GB/s
    Path("line.csv").write_text("\n".join(["op,ranks,size_bytes,time_us", *line, ""]), encoding="utf-8")
    return tmp_path


QUESTIONS = {
    "decode": ("decode", *LLAMA, "--library", "nccl"),
    "decode at many batches": ("decode", *EXPERTS, "--batch", "16,64", "--skew", "1.5"),
    "decode with an anchor": ("decode", *LLAMA, "--batch", "1,16", "--anchor", "tp=8,batch=16: 12ms"),
    "link": ("link", "5us", "400GB/s"),
    "collective": ("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm", "--library", "nccl"),
    "collective on two": ("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm,h200-sxm"),
    "crossover": ("crossover", "llama-3.1-70b", "--on", "h100-sxm", "--library", "vllm"),
    "plan": ("plan", "llama-3.1-70b", "--on", "h100-sxm", "--library", "nccl", "--set", "stack.step_time_s=1ms"),
    "plan on two": ("plan", "llama-3.1-70b", "--on", "h100-sxm,h200-sxm", "--price", "$2,$3", "--goal", "cost"),
    "plan of experts": ("plan", "deepseek-v3", "--on", "h200-sxm", "--gpus", "16", "--skew", "1.5"),
    "buy": ("buy", *EXPERTS, "--option", "nic=800Gb/s", "--batch", "16,64"),
    "whatif": ("whatif", *LLAMA, "--option", "nvlink.latency=x0.5", "--batch", "1"),
    "sweep": ("sweep", *LLAMA[:3], "--axis", "tp=4,8", "-o", "my sweep.csv"),
    "lint": ("lint", "curve.csv"),
    "doctor": ("doctor", str(LOGS / "nccl_tests" / "2025-06_all_reduce.txt"), "--on", "h100-sxm"),
    "fit": ("fit", "line.csv", "--nodes", "1", "--mode", "graph"),
    "fit with links": ("fit", "line.csv", "--nodes", "2", "--mode", "graph", "-o", "mine.toml", "--like", "h100-sxm"),
    "predict": ("predict", "runs.csv", "-o", "out.csv"),
    "validate": ("validate", "runs.csv", "--engine", "sglang"),
    "calibrate": ("calibrate", "runs.csv", "--engine", "sglang"),
    "simulate": ("simulate", "all-reduce", "--ranks", "8", "--size", "16KiB", "--on", "h100-sxm"),
    "simulate late": (
        "simulate", "all-reduce", "--ranks", "8", "--size", "16KiB", "--on", "h100-sxm", "--straggler", "rank 3: 20us",
    ),
    "simulate draws": (
        "simulate", "all-reduce", "--ranks", "4", "--size", "16KiB", "--on", "h100-sxm", "--draws", "10", "--skew",
        "exponential:10us",
    ),
    "simulate decode": ("simulate", "decode", *LLAMA, "--tokens", "3"),
    "simulate a straggler": ("simulate", "decode", *LLAMA, "--tokens", "3", "--straggler", "rank 3: 1.15x"),
    "topo": ("topo", str(LOGS / "topo" / "h100-8.txt")),
    "catalog": ("catalog", "systems"),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_what_comes_next_runs(question: tuple[str, ...]) -> None:
    commands = following(invoke(*question, columns=80))
    assert commands
    for words in commands:
        if words[0] == "head":
            assert Path(words[1]).is_file()
            continue
        assert words[0] == "nhalf"
        result = invoke(*words[1:])
        assert (result.code, result.out[:1]) != (0, ""), words
        assert result.code == 0, (words, result.err)


def test_a_trace_is_followed_by_a_command_too() -> None:
    (words,) = following(invoke("trace", str(TRACE), "--links", "5us,400GB/s", columns=80))
    assert words[:5] == ["nhalf", "trace", str(TRACE), "--links", "5us,400GB/s"]
    assert invoke(*words[1:]).code == 0


def test_a_trace_without_links_is_followed_by_how_to_measure_them() -> None:
    *measured, traced = following(detailed("trace", str(TRACE), columns=80))
    assert [words[:2] for words in measured] == [["nhalf", "measure"], ["nhalf", "fit"]]
    assert traced == ["nhalf", "trace", str(TRACE), "--links", "mycluster.toml"]


@pytest.mark.parametrize(
    ("question", "flags"),
    [
        (QUESTIONS["buy"], EXPERTS[1:]),
        (QUESTIONS["decode with an anchor"], ("--anchor", "tp=8,batch=16: 12ms", "--weights", "fp8")),
        (QUESTIONS["simulate a straggler"], (*LLAMA[1:], "--explain")),
        (QUESTIONS["plan"], ("--library", "nccl", "--set", "stack.step_time_s=1ms")),
        (QUESTIONS["plan on two"], ("--goal", "cost")),
        (QUESTIONS["simulate draws"], ("--draws", "10", "--skew", "exponential:10us")),
        (("whatif", *LLAMA, "--p2p", "off", "--batch", "1"), ("--p2p", "off", "--weights", "fp8")),
    ],
)
def test_what_comes_next_carries_the_flags_of_the_question(question: tuple[str, ...], flags: tuple[str, ...]) -> None:
    for words in following(invoke(*question)):
        for flag in flags:
            assert flag in words, (flag, words)


def test_a_fit_of_a_bandwidth_alone_is_followed_by_a_step_with_it() -> None:
    question = ("fit", str(LOGS / "iperf3" / "iperf3.json"), "--model", "llama-3.1-70b")
    decode, *_ = following(invoke(*question))
    assert decode[1] == "decode"
    wide = invoke(*decode[1:], "--json").document
    plain = invoke(*decode[1 : decode.index("--set")], "--json").document
    crossing = {row["layout"]: row["step_s"] for row in plain["rows"]}
    assert any(row["step_s"] > crossing[row["layout"]] for row in wide["rows"])

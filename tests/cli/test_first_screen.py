"""The first screen of every command: 24 lines of 79 columns, and everything else under --detail."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command import detailed, invoke, matches

from nhalf.report.view import LINES, MORE_LINES

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = GOLDEN.parent / "logs"
LLAMA = ("llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8")
COMMANDS = {
    "plan": ("plan", *LLAMA, "--gpus", "16", "--tpot", "20ms"),
    "plan_experts": ("plan", "deepseek-v3", "--on", "h200-sxm", "--gpus", "16", "--isl", "4000", "--osl", "1000"),
    "buy": ("buy", *LLAMA, "--tp", "8,16", "--option", "nic=800Gb/s @ $1500/nic", "--option", "hbm=4.8TB/s"),
    "whatif": ("whatif", *LLAMA, "--tp", "16", "--batch", "1,16"),
    "compare": ("compare", *LLAMA, "--layout", "tp=8", "--layout", "tp=8 pp=2", "--layout", "tp=16", "--users", "4"),
    "plan_odds": ("plan", *LLAMA, "--tpot", "20ms", "--odds", "90%"),
    "collective": ("collective", "all-reduce", "--on", "h100-sxm", "--ranks", "8"),
    "crossover": ("crossover", "llama-3.1-70b", "--on", "h100-sxm"),
    "link": ("link", "5us", "400GB/s"),
    "decode": ("decode", "llama-3.1-70b", "--on", "h100-sxm"),
    "collective_systems": ("collective", "all-reduce", "--on", "h100-sxm,h200-sxm", "--ranks", "8"),
    "plan_systems": ("plan", *LLAMA[:2], "h100-sxm,h200-sxm", "--price", "$2,$3", "--goal", "cost"),
    "doctor": ("doctor", str(LOGS / "nccl_tests" / "2025-06_all_reduce.txt"), "--on", "h100-sxm"),
    "trace": ("trace", str(GOLDEN / "trace" / "tp2_slow1"), "--links", "5us,400GB/s"),
}
OTHERS = {
    "simulate": ("simulate", "all-reduce", "--ranks", "8", "--size", "16KiB", "--on", "h100-sxm"),
    "simulate_decode": ("simulate", "decode", *LLAMA, "--tp", "8", "--straggler", "rank 3: 1.15x"),
    "sweep": ("sweep", *LLAMA, "--tp", "4,8", "--axis", "batch=1,16,128"),
    "topo": ("topo", str(LOGS / "topo" / "h100-8.txt")),
    "validate": ("validate", "--builtin"),
    "fit": ("fit", str(LOGS / "nccl_tests" / "2025-06_all_reduce.txt")),
    "fit_several": ("fit", *(str(LOGS / "nccl_tests" / f"{name}.txt") for name in ("2026-03_all_reduce", "two_runs"))),
    "fit_compare": (
        "fit",
        *(str(LOGS / "nccl_tests" / f"{name}.txt") for name in ("2026-03_all_reduce", "2025-06_all_reduce")),
        "--compare",
        "--model",
        "llama-3.1-70b",
    ),
    "fit_few": ("fit", str(LOGS / "nccl_tests" / "large_only.txt"), "--model", "llama-3.1-70b"),
    "calibrate": ("calibrate", "runs.csv"),
    "calibrate_doubts": ("calibrate", "waits.csv"),
    "lint": ("lint", "curve.csv"),
    "predict": ("predict", "runs.csv", "-o", "predicted.csv"),
    "validate_runs": ("validate", "runs.csv"),
    "decode_near": ("decode", "deepseek-v4-flash", "--on", "h200-sxm", "--tp", "8"),
    "catalog": ("catalog",),
    "explain": ("explain",),
}
"""Commands that have one page for both, which holds less without --detail, or no more than a screen."""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_screen_is_one_screen(name: str) -> None:
    result = invoke(*COMMANDS[name], columns=80)
    lines = result.out.splitlines()
    assert result.code == 0, result.err
    assert len(lines) <= LINES, len(lines)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("Next: nhalf ") for line in lines)
    assert len([line for line in lines if line.startswith("Assumed: ")]) <= 1
    assert name in ("decode", "trace", "doctor") or matches(f"first_{name}_80", result.out)


@pytest.mark.parametrize("name", COMMANDS)
def test_detail_holds_more(name: str) -> None:
    brief, everything = invoke(*COMMANDS[name]).out, detailed(*COMMANDS[name]).out
    assert len(everything.splitlines()) > len(brief.splitlines())


def test_batches_side_by_side_take_some_lines_more() -> None:
    lines = invoke("decode", *LLAMA, "--tp", "1,2,4,8,16", "--batch", "1,16,128", columns=80).out.splitlines()
    assert len(lines) <= MORE_LINES


RUNS = "model,system,engine,weight_dtype,isl,osl,concurrency,tp,tpot_s,calls,call_us,pure_us\n" + "".join(
    f"llama-3.1-70b,h100-sxm,vllm,fp8,{isl},1024,{batch},{tp},{0.004 + 0.05 / tp + 2e-4 * batch},{{waits}}\n"
    for isl in (1024, 8192) for batch in (1, 16, 64) for tp in (2, 4, 8)
)  # fmt: skip
CURVE = "devices,batch,tpot_ms,model,system,engine,mode,calls,call_us,pure_us\n" + "".join(
    f"{devices},{batch},{32 / devices + 4},llama-3.1-70b,h100-sxm,{engine},{mode},160,600,30\n"
    for devices, batch, engine, mode in ((1, 1, "vllm", "graph"), (2, 2, "vllm", "eager"), (4, 4, "sglang", "graph"),
                                         (8, 8, "vllm", "graph"), (16, 1, "trtllm", "graph"))
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text(RUNS.replace("{waits}", ",,"), encoding="utf-8")
    Path("waits.csv").write_text(RUNS.replace("{waits}", "160,30,2"), encoding="utf-8")
    Path("curve.csv").write_text(CURVE, encoding="utf-8")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", OTHERS)
def test_a_page_without_details_is_one_screen(name: str) -> None:
    result = invoke(*OTHERS[name], columns=80)
    lines = result.out.splitlines()
    assert result.code == 0, result.err
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 80


def test_the_first_natural_command_answers_and_says_which_layouts_it_took() -> None:
    result = invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", columns=80)
    assert result.code == 0
    assert result.out.startswith("TP8 is fastest")
    assert [row["tp"] for row in invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", "--json").document["rows"]] == [
        1, 2, 4, 8
    ]  # fmt: skip
    assert (
        "--tp 1,2,4,8: what the model allows within a node"
        in detailed("decode", "llama-3.1-70b", "--on", "h100-sxm").out
    )


def test_a_node_of_one_device_is_asked_for_no_more() -> None:
    rows = invoke("decode", "qwen3-8b", "--on", "gh200", "--json").document["rows"]
    assert [row["tp"] for row in rows] == [1]


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = invoke("decode", *LLAMA, columns=80).out.splitlines()
    rows = [line.split() for line in lines if line.startswith("TP") and line.split()[1][:1].isdigit()]
    assert len(rows) == 4
    lengths = [sum(cells[3].count(shade) for shade in "#=.") for cells in rows]  # ASCII, as no terminal is there
    longest = max(float(cells[1]) for cells in rows)
    for cells, length in zip(rows, lengths, strict=True):
        assert abs(length - max(lengths) * float(cells[1]) / longest) <= 1


RETIRED = (
    "c.fixed",
    "c.bytes",
    "2x floor",
    "in-model excess",
    "quantised input layer factor",
    "what binds it is",
    "bound by",
)
"""Words of earlier screens that nobody of the trade says."""


def test_no_screen_says_a_word_that_was_retired() -> None:
    screens = sorted((Path(__file__).parent / "snapshots").glob("*.txt"))
    assert len(screens) > 30
    said = [(screen.name, word) for screen in screens for word in RETIRED if word in screen.read_text("utf-8")]
    assert not said

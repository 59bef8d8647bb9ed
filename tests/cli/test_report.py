"""`-o FILE` on decode, collective, fit, plan, buy and sweep: pages and figures, and what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.cli.command import invoke, refused

LOG = Path(__file__).parents[1] / "logs" / "nccl_tests" / "2025-06_all_reduce.txt"
DECODE = ("decode", "llama-3.1-8b", "--on", "h100-sxm", "--tp", "1,8,16", "--batch", "1,64")


def has_extra() -> None:
    for extra in ("altair", "vl_convert", "jinja2"):
        pytest.importorskip(extra, reason="the extra [report] is not installed")


def sections(path: Path) -> list[str]:
    return re.findall(r'<section id="([^"]+)">', path.read_text(encoding="utf-8"))


def test_decode_writes_a_page_and_figures_beside_its_answer(tmp_path: Path) -> None:
    has_extra()
    report, picture, drawing = (tmp_path / name for name in ("r.html", "figure.png", "regime.svg"))
    plain = invoke(*DECODE)
    result = invoke(*DECODE, "-o", str(report), "-o", str(picture), "-o", str(drawing))
    assert (result.code, result.out) == (0, plain.out)
    assert result.err == f"wrote {report}\nwrote {picture}\nwrote {drawing}\n"
    assert sections(report) == [
        "scaling", "moving", "regime", "latency", "algorithms", "topology", "waterfall", "levers", "tornado", "sources",
        "notes", "command",
    ]  # fmt: skip
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "What takes most time, by batch and layout" in drawing.read_text(encoding="utf-8")


def test_one_device_has_no_collective_to_draw(tmp_path: Path) -> None:
    has_extra()
    report = tmp_path / "r.html"
    assert invoke("decode", "qwen3-8b", "--on", "h100-sxm", "--tp", "1", "-o", str(report)).code == 0
    assert "latency" not in sections(report)
    assert "waterfall" in sections(report)


def test_collective_writes_a_page(tmp_path: Path) -> None:
    has_extra()
    report = tmp_path / "r.html"
    assert invoke("collective", "all-reduce", "--ranks", "8", "--on", "b200-sxm", "-o", str(report)).code == 0
    assert sections(report)[:3] == ["algorithms", "latency", "losses"]
    # Where no loss is claimed, none is drawn.
    assert invoke("collective", "all-reduce", "--ranks", "8", "--on", "h200-sxm", "-o", str(report)).code == 0
    assert sections(report)[:3] == ["algorithms", "latency", "fixed"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("all-to-all", "5us", "400GB/s", "--ranks", "8"),
        ("barrier", "--ranks", "16", "--on", "h100-sxm"),
        ("all-gather", "--ranks", "16", "--on", "h100-sxm", "--sizes", "1MiB"),
        ("broadcast", "--ranks", "6", "--on", "h100-sxm"),
    ],
)
def test_every_collective_has_a_page(arguments: tuple[str, ...], tmp_path: Path) -> None:
    has_extra()
    report = tmp_path / "r.html"
    result = invoke("collective", *arguments, "-o", str(report))
    assert (result.code, result.err) == (0, f"wrote {report}\n")


def test_fit_writes_a_page_and_a_cluster(tmp_path: Path) -> None:
    has_extra()
    report, cluster = tmp_path / "r.html", tmp_path / "mine.toml"
    result = invoke("fit", str(LOG), "--model", "llama-3.1-70b", "-o", str(report), "-o", str(cluster),
                    "--like", "h100-sxm")  # fmt: skip
    assert result.code == 0
    assert sections(report)[:2] == ["latency", "messages"]
    assert "[[measured]]" in cluster.read_text(encoding="utf-8")


def test_another_ending_is_refused_before_any_work() -> None:
    message = refused(*DECODE, "-o", "report.pdf")
    assert "Allowed: report.html, figure.svg, figure.png" in message


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    assert "pip install '.[report]'" in refused(*DECODE, "-o", "report.html")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    has_extra()
    message = invoke(*DECODE, "-o", str(tmp_path / "no" / "r.html"))
    assert message.code == 2
    assert "cannot be written" in message.err


PLAN = ("plan", "llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8", "--gpus", "16", "--tpot", "20ms")
BUY = ("buy", "llama-3.1-70b", "--on", "h100-sxm", "--option", "hbm=x1.4 @ $3k", "--option", "system=gb200-nvl72")


def words(report: Path) -> str:
    """Return what a page says, without its markup."""
    return re.sub("<[^>]+>", "", report.read_text(encoding="utf-8"))


def test_a_page_of_a_fit_has_the_numbers_of_its_text(tmp_path: Path) -> None:
    has_extra()
    report = tmp_path / "r.html"
    gloo = LOG.parents[1] / "gloo" / "gloo.txt"
    found = invoke("fit", str(gloo), "-o", str(report), "--json").document["fits"][0]
    told = report.read_text(encoding="utf-8")
    assert f"n_1/2 {found['half_size_bytes'] / 2**10:.1f} KiB" in told  # beside the line, as in the verdict
    misses = [abs(float(miss)) for miss in re.findall(r'"line against point":"([+-][\d.]+) %"', told)]
    assert max(misses) == pytest.approx(100 * found["misfit_max"], abs=0.05)
    imb = LOG.parents[1] / "imb" / "imb_several.txt"
    assert invoke("fit", str(imb), "-o", str(report)).code == 0
    assert "1 of 4 curves are not drawn: 1 without two sizes" in words(report)


def test_a_plan_and_a_list_to_buy_write_pages(tmp_path: Path) -> None:
    has_extra()
    report, front = tmp_path / "r.html", tmp_path / "pareto.svg"
    plain = invoke(*PLAN)
    result = invoke(*PLAN, "-o", str(report), "-o", str(front))
    assert (result.code, result.out) == (0, plain.out)
    assert sections(report) == ["pareto", "ranking", "regime", "launch", "sources", "notes", "command"]
    assert "--tensor-parallel-size 4" in words(report)
    assert "What a user gets" in front.read_text(encoding="utf-8")
    plain = invoke(*BUY)
    result = invoke(*BUY, "-o", str(report))
    assert (result.code, result.out) == (0, plain.out)
    assert sections(report) == [
        "gains", "money", "flips", "links", "regime", "tornado", "sources", "notes", "command",
    ]  # fmt: skip


def test_pages_of_several_systems_have_a_figure_for_each(tmp_path: Path) -> None:
    has_extra()
    report = tmp_path / "r.html"
    for job in (PLAN, BUY):
        assert invoke(*job[:3], "h100-sxm,b200-sxm", *job[4:], "-o", str(report)).code == 0
        text = report.read_text(encoding="utf-8")
        assert 'id="chart-regime-0"' in text
        assert 'id="chart-regime-1"' in text
    assert invoke("plan", "llama-3.1-8b", "--on", "h100-sxm,gb200-nvl72", "-o", str(report)).code == 0
    text = report.read_text(encoding="utf-8")
    assert "llama-3.1-8b on GPUs: 8 of h100-sxm and 4 of gb200-nvl72" in text
    assert "on gb200-nvl72: --gpus 4: a node" in words(report)


def test_a_plan_that_nothing_holds_still_draws_what_is_nearest(tmp_path: Path) -> None:
    has_extra()
    report = tmp_path / "r.html"
    assert invoke(*PLAN, "--tpot", "1us", "-o", str(report)).code == 3
    assert sections(report) == ["pareto", "ranking", "regime", "sources", "notes", "command"]
    assert "misses the limits" in report.read_text(encoding="utf-8")


SWEEP = ("sweep", "llama-3.1-70b", "--on", "h100-sxm", "--axis", "tp=1,2,3,8,16", "--axis", "batch=1:512:x2")


def test_a_sweep_writes_a_page_beside_its_table_or_alone(tmp_path: Path) -> None:
    has_extra()
    report, table = tmp_path / "r.html", tmp_path / "s.csv"
    axes = (*SWEEP, "--axis", "system.fabric.inter_node.latency_s=1us:50us")
    result = invoke(*axes, "-o", str(table), "-o", str(report))
    assert (result.code, result.err) == (0, f"wrote {report}\n")
    assert len(table.read_text(encoding="utf-8").splitlines()) == 1 + 5 * 10 * 25
    assert sections(report) == ["axes", "bars", "map", "reasons", "sources", "notes", "command"]
    text = report.read_text(encoding="utf-8")
    assert "does not divide 64 attention heads" in text
    assert "Through the fastest point that fits: tp 8, batch 1" in text
    drawing = tmp_path / "map.svg"
    assert invoke(*axes, "-o", str(drawing)).code == 0
    assert "batch across, tp down" in drawing.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "axes",
    [
        ("--axis", "batch=8"),
        ("--axis", "engine=vllm,sglang", "--axis", "weights=fp8,bf16"),
        ("--axis", "system.device.memory_bandwidth_bytes_per_s=1TB/s:8TB/s:1TB/s"),
        ("--axis", "context=1,1024,131072", "--axis", "system=h100-sxm,b200-sxm"),
    ],
)
def test_every_sweep_has_a_page_that_altair_accepts(axes: tuple[str, ...], tmp_path: Path) -> None:
    has_extra()
    report = tmp_path / "r.html"
    assert invoke("sweep", "llama-3.1-70b", "--on", "h100-sxm", *axes, "-o", str(report)).code == 0
    assert "command" in sections(report)


def test_a_sweep_has_one_table() -> None:
    has_extra()
    assert "one table" in refused(*SWEEP, "-o", "a.csv", "-o", "b.json")
    assert "ends with no known format" in refused(*SWEEP, "-o", "a.pdf")

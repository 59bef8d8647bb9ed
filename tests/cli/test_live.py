"""`nhalf live` on the command line, against servers in processes on loopback that replay scrapes of known truth."""

from __future__ import annotations

import csv
import io
import re
import socket
import urllib.request
from pathlib import Path

import pytest
from tests.cli.command import detailed, invoke, refused
from tests.unit.test_live_scrape import SCRAPES, serving

PAGES = [str(SCRAPES / f"vllm-t{turn}.prom") for turn in range(3)]
RECORDS = str(SCRAPES / "trtllm-iter-t2.json")
LLAMA = ("--model", "llama-3.3-70b", "--on", "h100-sxm", "--tp", "8")
SOON = ("--every", "100ms")


def test_once_answers_in_one_screen() -> None:
    with serving("pages", *PAGES) as url:
        result = invoke("live", url, *LLAMA, *SOON, "--once", columns=80)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "vLLM takes 14.2 ms a token for 32 requests of 1,792 tokens." in result.out
    words = " ".join(result.out.split())
    assert re.search(r"Communication is predicted to be \d+ % of it; excess over the whole: [+-][\d.]+ [um]s", words)
    assert any(line.startswith("Next: nhalf live ") for line in lines)


def test_the_document_has_the_keys_of_the_contract() -> None:
    with serving("pages", *PAGES) as url:
        found = invoke("live", url, *LLAMA, *SOON, "--once", "--json").document
    assert found["schema"] == "nhalf.live/2"
    assert found["measured"]["running"] == pytest.approx(32.0, rel=0.01)
    assert found["predicted"]["low_s"] < found["predicted"]["step_s"] < found["predicted"]["high_s"]
    assert {"name", "time_s", "low_s", "high_s"} <= set(found["split"][0])
    assert sum(part["time_s"] or 0.0 for part in found["split"]) == pytest.approx(found["measured"]["token_s"])
    assert {"code", "since", "text"} <= set(found["findings"][0])


def test_the_model_is_what_the_server_serves() -> None:
    with serving("pages", *PAGES) as url:
        found = invoke("live", url, "--on", "h100-sxm", "--tp", "8", *SOON, "--once", "--json").document
    assert found["assumed"].startswith("llama-3.1-70b, TP8")


def test_a_launch_line_says_model_and_layout() -> None:
    line = "vllm serve meta-llama/Llama-3.3-70B-Instruct -tp 8"
    found = invoke("live", RECORDS, "--launch", line, "--on", "h100-sxm", *SOON, "--once", "--json").document
    assert found["assumed"].startswith("llama-3.1-70b, TP8")


def test_without_a_system_what_is_measured_is_said_and_nothing_predicted() -> None:
    found = invoke("live", RECORDS, *SOON, "--once", "--json").document
    assert found["predicted"] is None
    assert found["measured"]["decode_step_s"] == pytest.approx(14.1e-3, rel=0.01)
    assert found["notes"] == ["Add --on SYSTEM to have its steps predicted."]


def test_a_model_that_only_the_server_knows_is_told_and_one_that_is_stated_refused() -> None:
    page = str(SCRAPES / "trtllm-t0.prom")
    result = invoke("live", page, page.replace("t0", "t1"), "--on", "h100-sxm", *SOON, "--once", "--json")
    assert "add --model" in str(result.code) + result.out + result.err
    assert "no-such" in refused("live", RECORDS, "--model", "no-such", "--on", "h100-sxm", *SOON, "--once")


def test_rows_of_csv_come_as_windows_pass_and_gaps_are_among_them() -> None:
    with serving("pages", *PAGES) as url:
        result = invoke("live", url, *LLAMA, *SOON, "--for", "400ms", "--csv")
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert [row["gap"] for row in rows][:2] == ["", ""]
    assert "no token came" in {row["gap"] for row in rows}  # the last page again and again
    assert float(rows[0]["step_s"]) == pytest.approx(14.18e-3, rel=0.01)


def test_a_dump_alone_tells_no_token() -> None:
    dump = str(SCRAPES.parents[1] / "logs" / "inspector" / "inspector.jsonl")
    result = invoke("live", dump, *SOON, "--once")
    assert result.code == 4
    assert "only dumps of an inspector" in result.err


def test_nothing_but_silence_is_weak_evidence() -> None:
    assert invoke("live", "http://127.0.0.1:9/metrics", *SOON, "--once").code == 4


def test_files_of_rules_and_of_constants_are_written(tmp_path: Path) -> None:
    alerts, stack = tmp_path / "rules.yaml", tmp_path / "stack.toml"
    with serving("history", "nothing", "trtllm", "0", "0") as url:
        result = invoke("live", url, *LLAMA, *SOON, "--for", "1500ms", "--alerts", str(alerts), "--learn", str(stack))
    assert result.code == 0, result.err
    assert "NhalfNoAnswer" in alerts.read_text()
    assert invoke("decode", "llama-3.3-70b", *LLAMA[2:], "--stack", str(stack)).code == 0


def test_what_is_served_is_a_page_of_metrics() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seen: list[str] = []

    def ask(*_: object) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            seen.append(answer.read().decode())

    from nhalf.live import polling

    before = polling.Poll.close
    try:
        polling.Poll.close = ask  # type: ignore[method-assign, assignment]
        invoke("live", RECORDS, *LLAMA, *SOON, "--once", "--serve", f"127.0.0.1:{port}")
    finally:
        polling.Poll.close = before  # type: ignore[method-assign]
    assert 'nhalf_step_seconds{server="' in seen[0]


@pytest.mark.parametrize(
    "flags",
    [("--every", "1ns"), ("--every", "fast"), ("--serve", "nowhere"), ("--learn", "x.json"), ("--tp", "3"), (RECORDS,)],
)
def test_what_cannot_be_is_refused(flags: tuple[str, ...]) -> None:
    refused("live", RECORDS, *LLAMA, "--once", *flags)


def test_detail_lists_windows_and_the_rate_of_false_alarms() -> None:
    text = detailed("live", RECORDS, *LLAMA, *SOON, "--once").out
    assert "one false alarm in 7 days" in " ".join(text.split())


def test_a_trace_is_read_beside_a_server_and_not_alone() -> None:
    trace = str(Path(__file__).parents[1] / "golden" / "trace" / "tp2_slow1" / "rank0.json.gz")
    assert "no server is named" in refused("live", trace, "--once")

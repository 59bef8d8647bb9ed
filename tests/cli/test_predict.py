"""`nhalf predict` on the command line: the table with its new columns, what is refused, and what is never read."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from tests.cli.command import invoke, refused

from nhalf.loading.golden import SERVING

NEW = ["predicted_tpot_s", "low_s", "high_s", "ttft_low_s", "ttft_high_s", "binding", "refused"]
RUNS = """\
id,model,system,engine,weight_dtype,isl,osl,concurrency,tp,ttft_s,tpot_s,comment
a,meta-llama/Llama-3.1-70B,h100_sxm,vllm,fp8,1024,1024,16,8,0.1,0.0125,"one, two"
b,llama-9,h100_sxm,vllm,fp8,1024,1024,16,8,0.1,0.0125,
c,openai/gpt-oss-120b,b200_sxm,trtllm,mxfp4,1024,1024,64,1,0.1,0.012,
"""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # so that a screen has short names
    path = Path("runs.csv")
    path.write_text(RUNS, encoding="utf-8")
    return path


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_row_comes_back_in_order_with_its_answer_or_a_reason(runs: Path) -> None:
    result = invoke("predict", str(runs))
    assert (result.code, result.err) == (0, "")
    found = rows(result.out)
    assert [row["id"] for row in found] == ["a", "b", "c"]
    assert list(found[0])[-7:] == NEW
    assert found[0]["comment"] == "one, two"
    assert float(found[0]["low_s"]) < float(found[0]["predicted_tpot_s"]) < float(found[0]["high_s"])
    assert float(found[0]["ttft_low_s"]) < float(found[0]["ttft_high_s"])
    assert found[0]["binding"] in {"weights", "launch", "prefill"}
    assert "no model 'llama-9'" in found[1]["refused"]
    assert found[1]["predicted_tpot_s"] == found[1]["binding"] == ""


def test_what_was_measured_passes_through_and_is_not_read(runs: Path) -> None:
    plain = rows(invoke("predict", str(runs)).out)
    runs.write_text(RUNS.replace("0.0125", "wrong").replace("0.1,", "?,"), encoding="utf-8")
    spoiled = rows(invoke("predict", str(runs)).out)
    assert spoiled[0]["tpot_s"] == "wrong"
    assert [[row[name] for name in NEW] for row in plain] == [[row[name] for name in NEW] for row in spoiled]


def test_with_a_file_the_page_says_what_was_done(runs: Path) -> None:
    target = Path("out.csv")
    result = invoke("predict", str(runs), "-o", str(target))
    assert result.code == 0
    page = result.out.splitlines()
    assert page[0] == "2 of 3 rows predicted, 1 refused with a reason."
    assert page[-1].startswith("Next: nhalf validate ")
    assert "Refused, 1 row: " in result.out
    assert "least sure" in result.out
    assert invoke("predict", str(runs), "-o", str(target), "--detail").out.startswith(
        "2 of 3 rows predicted, 1 refused"
    )
    assert len(rows(target.read_text(encoding="utf-8"))) == 3


def test_a_terminal_gets_a_summary_and_a_pipe_the_table(runs: Path) -> None:
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    with mock.patch("nhalf.cli.predict.sys", terminal):
        result = invoke("predict", str(runs), columns=80)
    lines = result.out.splitlines()
    assert lines[0] == "2 of 3 rows predicted, 1 refused with a reason."
    assert len(lines) <= 24
    assert max(map(len, lines)) < 80
    assert invoke("predict", str(runs)).out.startswith("id,model,system")


def test_predicting_twice_writes_the_columns_anew(runs: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    invoke("predict", str(runs), "-o", str(one))
    invoke("predict", str(one), "-o", str(two))
    assert one.read_text(encoding="utf-8") == two.read_text(encoding="utf-8")


def test_the_document_has_one_entry_a_row(runs: Path) -> None:
    document = invoke("predict", str(runs), "--json").document
    assert document["schema"] == "nhalf.predict/2"
    assert [entry["line"] for entry in document["rows"]] == [2, 3, 4]
    assert document["rows"][1]["predicted_tpot_s"] is None
    assert document["rows"][0]["predicted_tpot_s"] > 0


def test_flags_say_what_the_table_does_not(tmp_path: Path) -> None:
    path = tmp_path / "short.csv"
    path.write_text("concurrency,context\n1,1024\n8,1024\n", encoding="utf-8")
    found = rows(invoke("predict", str(path), "--model", "llama-3.1-8b", "--on", "h100-sxm", "--engine", "sglang").out)
    assert float(found[0]["predicted_tpot_s"]) < float(found[1]["predicted_tpot_s"])


def test_the_priors_are_another_stack(runs: Path) -> None:
    calibrated, priors = (rows(invoke("predict", str(runs), *flags).out) for flags in ((), ("--stack", "priors")))
    assert calibrated[0]["predicted_tpot_s"] != priors[0]["predicted_tpot_s"]


def test_the_whole_shipped_table_is_answered() -> None:
    result = invoke("predict", str(SERVING))
    assert all(row["refused"] == "" for row in rows(result.out))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no rows below a header"),
        ("model,system\na,b\n", "no column concurrency"),
        ("model,system,concurrency\na,b\n", ":2: 2 cells"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_message(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8")
    assert words in refused("predict", str(path))


def test_a_file_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    assert "cannot be read" in refused("predict", str(tmp_path / "none.csv"))
    assert "--stack" in refused("predict", str(SERVING), "--stack", "nothing")


ODD = """\
tpot_s,osl,isl,model,engine,system,concurrency,tp,note
,1000,1000,llama-3.1-70b,,h100_sxm,8,8,no engine
,1000,1000,llama-3.1-70b,lmdeploy,h100_sxm,8,8,an engine that launches one by one
,1000,1000,llama-3.1-70b,unheard-of,h100_sxm,8,8,no such engine
,1000,1000,llama-3.1-8b,vllm,h100_sxm,8,,no tp
,1000,1000,unknown/Model-X,vllm,h100_sxm,8,8,no such model
,1000,1000,llama-3.1-8b,vllm,my-gpu,8,8,no such system
,,1000,llama-3.1-8b,vllm,h100_sxm,8,8,no osl
"""


def test_every_odd_row_is_answered_or_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(ODD, encoding="utf-8")
    told = invoke("predict", str(path))
    rows = {row["note"]: row for row in csv.DictReader(io.StringIO(told.out))}
    assert len(rows) == 7
    for note in ("no engine", "an engine that launches one by one", "no tp"):
        assert float(rows[note]["low_s"]) < float(rows[note]["predicted_tpot_s"]) < float(rows[note]["high_s"])
        assert 0 < float(rows[note]["ttft_low_s"]) < float(rows[note]["ttft_high_s"])
        assert not rows[note]["refused"]
    assert "nhalf catalog engines" in rows["no such engine"]["refused"]
    assert rows["no such model"]["refused"].startswith("model: the catalogue has no model 'unknown/Model-X'")
    assert "nhalf catalog system" in rows["no such system"]["refused"]
    assert all(len(row["refused"]) < 200 for row in rows.values())
    assert "1 row has no tp: 1 is taken, one device" in told.err
    assert "1 row has no engine: vllm is taken" in told.err


def test_the_page_names_what_was_assumed(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(ODD, encoding="utf-8")
    told = invoke("predict", str(path), "-o", str(tmp_path / "out.csv"), "--detail")
    assert "Assumed: " in invoke("predict", str(path), "-o", str(tmp_path / "out.csv")).out
    assert "Assumed where the table does not say" in told.out
    assert "kv_dtype" in told.out
    assumed = invoke("predict", str(path), "--json").document["assumed"]
    assert {"column": "tp", "value": "1", "rows": 1, "reason": "one device"} in assumed


def test_what_a_flag_says_is_not_assumed(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(ODD, encoding="utf-8")
    assert "no engine" not in invoke("predict", str(path), "--engine", "sglang").err


@pytest.mark.parametrize(
    ("command", "target", "name"), [("predict", "z.html", "z.csv"), ("calibrate", "z.csv", "z.toml")]
)
def test_a_name_that_promises_another_format_is_refused(
    runs: Path, tmp_path: Path, command: str, target: str, name: str
) -> None:
    message = refused(command, str(runs), "-o", str(tmp_path / target))
    assert f"write -o {tmp_path / name}" in message
    assert not (tmp_path / target).exists()


def test_the_first_token_is_that_of_a_plan(tmp_path: Path) -> None:
    table = tmp_path / "one.csv"
    table.write_text("model,system,weight_dtype,isl,osl,concurrency,tp\nllama-3.1-70b,h100-sxm,fp8,1024,512,16,8\n")
    row = invoke("predict", str(table), "--json").document["rows"][0]
    job = ("plan", "llama-3.1-70b", "--on", "h100-sxm", "--gpus", "8", "--tp", "8", "--weights", "fp8")
    planned = invoke(*job, "--batch", "16", "--json").document["chosen"]
    for name in ("ttft_low_s", "ttft_high_s"):
        assert row[name] == pytest.approx(planned[name], rel=1e-9)

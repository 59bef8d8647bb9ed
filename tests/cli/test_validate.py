"""`nhalf validate` on the command line: scores by group, limits that fail, and the tables that ship."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.command import invoke, refused

from nhalf.loading.golden import SERVING

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "model,system,engine,weight_dtype,isl,osl,concurrency,tp,tpot_s,quality_flag\n"
ROW = "llama-3.1-70b,h100-sxm,vllm,fp8,1024,1024,{},8,{},{}\n"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    text = HEADER + ROW.format(16, 0.0125, "") + ROW.format(64, 0.017, "") + ROW.format(16, 0.5, "queueing")
    path.write_text(text + ROW.format(1, 0.0001, ""), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def builtin() -> Any:  # noqa: ANN401  JSON is whatever it is
    return invoke("validate", "--builtin", "--json").document


def test_the_verdict_comes_first_and_the_next_command_last(runs: Path) -> None:
    result = invoke("validate", str(runs), columns=400)
    assert result.code == 0
    page = result.out.splitlines()
    assert page[0].startswith("Predictions are ")
    assert page[-1].startswith("Next: nhalf calibrate ")
    assert "left out: 1 row with a quality_flag" in result.err


def test_rows_below_the_datasheet_are_named_by_line_and_left_out_when_told(runs: Path) -> None:
    with_all = invoke("validate", str(runs), "--json").document
    assert [(each["line"], each["code"]) for each in with_all["findings"]] == [(5, "below-bound")]
    without = invoke("validate", str(runs), "--skip-doubtful", "--json").document
    assert with_all["overall"]["rows"] == 3
    assert without["overall"]["rows"] == 2
    assert without["overall"]["median_error"] < 0.25


def test_the_document_has_the_keys_of_the_contract(builtin: Any) -> None:  # noqa: ANN401  JSON
    keys = {"system", "engine", "model", "rows", "refused", "median_error", "p90_error", "bias", "coverage"}
    assert builtin["schema"] == "nhalf.validate/2"
    assert all(keys <= set(group) for group in builtin["groups"])
    assert keys <= set(builtin["overall"])
    assert sum(group["rows"] for group in builtin["groups"]) == builtin["overall"]["rows"] == 1167


def test_the_shipped_runs_are_judged_by_constants_that_did_not_see_them(builtin: Any) -> None:  # noqa: ANN401  JSON
    fitted = invoke("validate", "--builtin", "--stack", "priors", "--json").document["overall"]
    unseen = builtin["overall"]
    assert 0.085 < unseen["median_error"] < 0.115
    assert unseen["p90_error"] < 0.32
    assert unseen["coverage"] > 0.75
    assert fitted["median_error"] > unseen["median_error"]


def test_rows_of_several_files_are_named_by_file_and_line(tmp_path: Path) -> None:
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text(HEADER + ROW.format(16, 0.0125, ""), encoding="utf-8")
    other.write_text(HEADER + ROW.format(16, 0.0125, "") + ROW.format(1, 0.0001, ""), encoding="utf-8")
    document = invoke("validate", str(one), str(other), "--json").document
    found = [(each["file"], each["line"], each["code"]) for each in document["findings"]]
    assert found == [(str(other), 2, "duplicate"), (str(other), 3, "below-bound")]
    assert document["findings"][0]["text"] == f"the same as {one}:2"
    assert (document["worst"][0]["file"], document["worst"][0]["line"]) == (str(other), 3)
    assert f"{other}:3" in invoke("validate", str(one), str(other), columns=400).out
    other.write_text(HEADER + ROW.format(16, "soon", ""), encoding="utf-8")
    assert f"{other}:2: tpot_s 'soon'" in refused("validate", str(one), str(other))


def test_rows_that_are_not_looked_at_are_counted_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(HEADER + ROW.format(16, 0.0125, "") + ROW.format(64, "", "") * 2, encoding="utf-8")
    for command in ("validate", "calibrate"):
        assert "left out: 2 rows without a tpot_s" in invoke(command, str(path)).err
    path.write_text(HEADER + ROW.format(16, 0.0125, "") + ROW.format(64, 1, "queueing"), encoding="utf-8")
    for command in ("validate", "calibrate"):
        assert "left out: 1 row with a quality_flag (queueing)" in invoke(command, str(path)).err


def test_one_row_is_no_median(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(HEADER + ROW.format(16, 0.0125, ""), encoding="utf-8")
    page = invoke("validate", str(path)).out
    assert page.startswith("The one prediction is ")
    assert "percentile" not in page


def test_many_doubtful_rows_fit_on_a_page(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(HEADER + ROW.format(16, 0.0125, "") * 500, encoding="utf-8")
    assert "Doubtful: 499 rows duplicate." in invoke("validate", str(path)).out
    page = invoke("validate", str(path), "--detail").out
    assert "duplicate: 499 rows" in page
    assert "and 454 more, in the document" in " ".join(page.split())
    assert len(page.splitlines()) < 40


def test_misses_are_on_the_page() -> None:
    page = invoke("validate", "--builtin", "--detail").out
    assert "Furthest off" in page
    assert "h100-sxm  sglang  qwen3-32b" in page


def test_a_limit_that_holds_exits_3_after_the_page(runs: Path) -> None:
    result = invoke("validate", str(runs), "--fail-if", "median>1%")
    assert result.code == 3
    assert result.out.startswith("Predictions are ")
    assert "median>1%: median is" in result.err
    assert invoke("validate", str(runs), "--fail-if", "median>90%", "--skip-doubtful").code == 0


def test_a_limit_that_is_none_is_refused_before_anything_is_read() -> None:
    assert "--fail-if" in refused("validate", "nothing.csv", "--fail-if", "median")


def test_a_table_without_measured_times_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text("model,system,concurrency,context\nllama-3.1-8b,h100-sxm,1,1024\n", encoding="utf-8")
    assert "no column tpot_s" in refused("validate", str(path))


def test_one_table_or_the_shipped_ones() -> None:
    assert "name a table" in refused("validate")
    assert "name a table" in refused("validate", "runs.csv", "--builtin")


def test_a_limit_with_two_readings_is_refused_with_both() -> None:
    message = refused("validate", "nothing.csv", "--fail-if", "median>10")
    assert "can be read as 10 % or as 1000 %" in message
    assert "'median>10%' (or 'median>0.1')" in message


def test_nothing_to_compare_is_too_weak(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    row = "llama-9,h100-sxm,1,1024,0.01\n"
    path.write_text(f"model,system,concurrency,context,tpot_s\n{row}{row}", encoding="utf-8")
    result = invoke("validate", str(path))
    assert result.code == 4
    assert "None of 2 rows could be scored" in result.out
    assert "bands hold" not in result.out
    assert "every row is refused, 2 of 2 because: model: the catalogue has no model 'llama-9'" in result.err


def test_runs_that_the_constants_have_seen_are_said_to_be(tmp_path: Path) -> None:
    rows = SERVING.read_text(encoding="utf-8").splitlines()
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(rows[:4]) + "\n", encoding="utf-8")
    told = "every row is a run that the constants were fitted on"
    assert told in invoke("validate", str(path)).err
    assert "fitted on" not in invoke("validate", str(path), "--stack", "priors").err
    another = rows[4].rpartition(",")[0] + ",0.0123456"
    path.write_text("\n".join([*rows[:4], another]) + "\n", encoding="utf-8")
    assert "3 of 4 rows are runs that the constants were fitted on" in invoke("validate", str(path)).err


def test_times_in_milliseconds_are_read_by_the_name_of_their_column(tmp_path: Path) -> None:
    row = "llama-3.1-70b,h100-sxm,vllm,fp8,1024,512,16,8"
    seconds, milli = tmp_path / "s.csv", tmp_path / "ms.csv"
    seconds.write_text(f"{HEADER}{row},0.0109,\n", encoding="utf-8")
    milli.write_text(f"{HEADER.replace('tpot_s', 'tpot_ms')}{row},10.9,\n", encoding="utf-8")
    documents = [invoke("validate", str(path), "--json").document for path in (seconds, milli)]
    assert documents[0]["groups"] == documents[1]["groups"]

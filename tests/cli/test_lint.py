"""`nhalf lint` on the command line: the page, the document, what is refused, bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.command import invoke, matches, refused

HEAD = "devices,batch,tpot_ms,model,system,engine,mode,weights\n"
KIND = "llama-3.1-70b,h100-sxm,vllm"
MIXED = HEAD + "".join(
    f"{devices},{batch},{time},{KIND},{mode},fp8\n"
    for devices, batch, time, mode in (
        (1, 1, 32, "graph"), (2, 1, 18, "graph"), (4, 1, 11, "graph"), (8, 16, 9, "graph"), (16, 1, 14, "eager"),
    )
)  # fmt: skip
PLAIN = HEAD + "".join(
    f"{devices},1,{time},{KIND},graph,fp8\n" for devices, time in ((1, 32), (2, 18), (4, 11), (8, 7.3))
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mixed.csv").write_text(MIXED, encoding="utf-8")
    Path("plain.csv").write_text(PLAIN, encoding="utf-8")
    Path("bare.csv").write_text("devices,step_s\n1,0.04\n2,0.03\n", encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("columns", [80, 140])
def test_a_mixed_curve_prints_the_stored_page(columns: int) -> None:
    result = invoke("lint", "mixed.csv", columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"lint_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns


@pytest.mark.usefixtures("folder")
def test_the_document_has_the_keys_of_the_contract() -> None:
    found = invoke("lint", "mixed.csv", "--json").document
    assert found["schema"] == "nhalf.lint/2"
    assert all({"code", "row", "text"} <= set(finding) for finding in found["findings"])
    assert {"mixed-batch", "mixed-mode"} <= {finding["code"] for finding in found["findings"]}


@pytest.mark.usefixtures("folder")
def test_a_plain_curve_is_told_how_far_it_reaches() -> None:
    result = invoke("lint", "plain.csv")
    assert result.out.startswith("1 curve of one batch, engine and mode each, and nothing against them.")
    assert "latency regime" in " ".join(result.out.split())


def test_an_all_reduce_that_waits_is_said_to_and_no_link_is_blamed(tmp_path: Path) -> None:
    path = tmp_path / "waits.csv"
    head = HEAD.replace("weights\n", "weights,calls,call_us,pure_us\n")
    times = ((1, 32, ",,"), (2, 18, "160,30,25"), (4, 11, "160,20,"), (8, 104, "160,600,"), (16, 90, "160,500,30"))
    path.write_text(head + "".join(f"{k},1,{t},{KIND},graph,fp8,{told}\n" for k, t, told in times), encoding="utf-8")
    found = [each for each in invoke("lint", str(path), "--json").document["findings"] if each["code"] == "waiting"]
    assert [each["row"] for each in found] == [5, 6]
    for each in found:
        assert (
            "over 90 % of this is waiting for another rank (skew, host, scheduling), no link change helps"
            in each["text"]
        )


@pytest.mark.usefixtures("folder")
def test_a_curve_without_a_batch_is_refused_with_4() -> None:
    result = invoke("lint", "bare.csv")
    assert result.code == 4
    assert result.out.startswith("Refused: a scaling curve without a batch cannot be read")
    assert "batch" in result.err
    as_json = invoke("lint", "bare.csv", "--json")
    assert as_json.code == 4
    assert as_json.document["findings"][0]["code"] == "no-batch"


@pytest.mark.usefixtures("folder")
def test_csv_and_markdown_hold_the_findings() -> None:
    assert invoke("lint", "mixed.csv", "--csv").out.splitlines()[0] == "code,row,severity,text"
    assert invoke("lint", "mixed.csv", "--md").out.splitlines()[1] == "| --- | ---: | --- | --- |"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "part"),
    [((), "CURVE"), (("nosuch.csv",), "cannot be read"), (("mixed.csv", "--json", "--md"), "more than one form")],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], part: str) -> None:
    assert part in refused("lint", *arguments)


def test_a_page_names_a_fault_of_thousands_of_rows_a_few_times(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    rows = (f"{2 ** (n % 2)},{1 + n // 2},{20 - 12 * (n % 2)},{KIND},graph,fp8\n" for n in range(200))
    path.write_text(HEAD + "".join(rows), encoding="utf-8")
    assert "99 more of superlinear" in invoke("lint", str(path)).out
    result = invoke("lint", str(path), "--detail", columns=400)
    assert result.out.count(": superlinear: ") == 20
    assert "80 of superlinear" in result.out
    assert len(result.out.splitlines()[-1]) < 200
    assert (
        sum(each["code"] == "superlinear" for each in invoke("lint", str(path), "--json").document["findings"]) == 100
    )

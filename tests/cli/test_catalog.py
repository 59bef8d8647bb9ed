"""`nhalf catalog` on the command line: every kind, the document of the contract, the user's own, and bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.command import detailed, invoke, matches, refused

from nhalf.report.view import LINES

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("systems", "devices", "links", "libraries", "engines", "models", "hierarchy", "curves", "sources")
VALUE = {"path", "value", "unit", "kind", "source", "locator", "low", "high", "date", "note"}


def entries(*arguments: str) -> list[dict[str, Any]]:
    result = invoke("catalog", *arguments, "--json")
    assert result.code == 0, result.err
    document = result.document
    assert document["schema"] == "nhalf.catalog/2"
    assert document["command"] == "catalog"
    found: list[dict[str, Any]] = document["entries"]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_listed(kind: str) -> None:
    result = invoke("catalog", kind)
    assert result.code == 0, result.err
    assert result.err == ""
    assert "Next" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    assert len(invoke("catalog", kind, columns=80).out.splitlines()) <= LINES
    assert {entry["kind"] for entry in entries(kind)} <= {kind.removesuffix("s"), kind.replace("ies", "y")}


@pytest.mark.parametrize("word", ["link", "links", "LINKS"])
def test_one_and_many_are_the_same(word: str) -> None:
    assert [entry["name"] for entry in entries(word)] == [entry["name"] for entry in entries("link")]


def test_without_a_kind_there_is_a_summary() -> None:
    result = invoke("catalog")
    assert result.code == 0
    assert "things are known, with" in result.out.splitlines()[0]
    for kind in ("system", "device", "link", "library", "engine", "model", "hierarchy", "curve", "source"):
        assert f"\n{kind} " in result.out
    assert "nhalf catalog systems" in result.out
    assert {entry["kind"] for entry in entries()} >= {"system", "curve", "source"}


def test_the_document_is_that_of_the_contract() -> None:
    (entry,) = entries("links", "NDR")
    assert (entry["kind"], entry["name"]) == ("link", "ib-ndr")
    for value in entry["values"]:
        assert set(value) == VALUE
    latency, bandwidth = entry["values"]
    assert (latency["path"], latency["value"], latency["unit"]) == ("latency_s", 5e-6, "s")
    assert (latency["low"], latency["high"], latency["kind"]) == (2.7e-6, 14e-6, "assumed")
    assert (bandwidth["path"], bandwidth["low"], bandwidth["high"]) == ("bandwidth_bytes_per_s", 48e9, None)


def test_the_ladder_prints_the_stored_page() -> None:
    assert matches("catalog_hierarchy_80", invoke("catalog", "hierarchy", columns=80).out)


def test_the_ladder_is_in_the_document() -> None:
    document = invoke("catalog", "hierarchy", "--json").document
    names = [rung["name"] for rung in document["ladder"]]
    assert names == [entry["name"] for entry in document["entries"]]
    assert document["ladder"][0]["latency_orders"] == 0
    assert "ladder" not in invoke("catalog", "links", "--json").document


def test_what_sources_disagree_about_is_shown() -> None:
    page = invoke("catalog", "device", "rtx-4090").out
    assert "fp8_flop_per_s = 330 TFLOP/s (to 661 TFLOP/s)" in page
    assert "differs: +100 %" in page
    page = invoke("catalog", "link", "thunderbolt-5-rdma").out
    assert "latency_s = 10 us (3 us to 50 us): assumed" in page
    assert "differs: -70 % to +400 %" in page


def test_a_system_shows_its_shape_and_whether_it_was_measured() -> None:
    page = invoke("catalog", "system", "gb200").out
    assert page.startswith("gb200-nvl72: NVL72: 18 trays of 4 GB200")
    assert "topology: switch" in page
    assert "measured: curves" in page
    assert "system.fabric.inter_node.bandwidth_bytes_per_s = 50 GB/s" in page
    assert "measured: nothing: a tuner's plan is taken" in invoke("catalog", "system", "mi300x").out


def test_curves_are_found_by_a_part_of_their_key() -> None:
    found = entries("curves", "b200-sxm/vllm/graph")
    assert found
    assert all(entry["name"].startswith("b200-sxm/vllm ") for entry in found)
    assert {value["kind"] for entry in found for value in entry["values"]} == {"measured", "fitted"}


# --- the user's own ---------------------------------------------------------------------------------------------------


def test_the_users_catalogue_adds_and_overrides_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[links.ib-ndr]\nlatency = "3 us"\n'
        '[links.mine]\ntitle = "Mine"\nlatency = "1 us"\nbandwidth = "10 GB/s"\n'
        '[systems.mine]\nlike = "h100-sxm"\nfabric.inter_node = "mine"\n',
        encoding="utf-8",
    )
    monkeypatch.setenv("NHALF_CATALOG", str(mine))
    assert " mine+" in invoke("catalog", "links").out.replace("\n", " ")
    page = detailed("catalog", "links").out
    assert "Yours: NHALF_CATALOG=" in " ".join(page.split())
    assert "adds system mine, link mine and overrides link" in " ".join(page.split())
    assert "\nmine+ " in page
    assert "\nib-ndr* " in page
    assert "ib-ndr (overridden by you)" in invoke("catalog", "links", "ib-ndr").out
    document = invoke("catalog", "links", "ib-ndr", "--json").document
    assert "overrides link ib-ndr" in document["yours"]
    assert document["entries"][0]["standing"] == "overridden"
    assert document["entries"][0]["values"][0]["kind"] == "given"
    assert "+yours." in document["catalog_version"]
    answer = invoke("decode", "qwen3-8b", "--on", "mine", "--tp", "16", "--json")
    assert "NHALF_CATALOG" in answer.err
    decoded = answer.document
    assert "NHALF_CATALOG" in {source["source"] for source in decoded["sources"]}


def test_nothing_is_the_users_without_one() -> None:
    assert invoke("catalog", "links", "--json").document["yours"] is None
    assert "Yours" not in invoke("catalog", "links").out


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lnks",), ("there is no kind 'lnks'", "Did you mean 'link'?")),
        (("links", "ib-nrd"), ("no link 'ib-nrd'", "Did you mean 'ib-ndr'?")),
        (("systems", "h100-smx"), ("no system 'h100-smx'", "Did you mean 'h100-sxm'?")),
        (("devices", "h1000"), ("no device 'h1000'", "Did you mean 'h100-")),
        (("hierarchy", "l3-cache"), ("no hierarchy 'l3-cache'", "Did you mean 'l2-cache'?")),
        (("sources", "nvidia"), ("no source 'nvidia'",)),
        (("curves", "mi300x"), ("no curve has 'mi300x'", "measured systems")),
        (("links", "a", "b"), ("b",)),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    message = refused("catalog", *arguments)
    for word in words:
        assert word in message


def test_a_catalogue_of_ones_own_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NHALF_CATALOG", "nowhere.toml")
    assert "there is no file or folder 'nowhere.toml'" in refused("catalog", "links")


def test_a_model_shows_what_a_step_hangs_on() -> None:
    (entry,) = invoke("catalog", "model", "deepseek-r1", "--json").document["entries"]
    facts = entry["facts"]
    assert facts["hidden size"].startswith("7168")
    assert facts["attention"] == "latent attention in 61 layers, 128 heads"
    # DeepSeek-V3's report (arXiv:2412.19437): 671 B parameters, 37 B activated, 8 of 256 routed experts.
    assert facts["experts"].startswith("256 in 58 layers, of which a token takes 8")
    assert facts["parameters"].startswith("671 billion, of which a token multiplies with 36.6 billion")
    # A latent of 512 and a rotary key of 64 elements, two bytes each, in 61 layers.
    assert facts["cache"].startswith(f"{2 * (512 + 64) * 61 / 1024:.1f} KiB in bf16")
    dense = invoke("catalog", "model", "llama-3.1-70b").out
    assert "64 heads, 8 of keys and values" in dense
    assert "experts" not in dense


@pytest.mark.parametrize("kind", ["systems", "devices", "links", "libraries", "engines", "curves", "sources"])
@pytest.mark.parametrize("columns", [60, 80])
def test_no_name_is_broken_in_a_narrow_list(kind: str, columns: int) -> None:
    names = [entry["name"] for entry in invoke("catalog", kind, "--json").document["entries"]]
    page = detailed("catalog", kind, columns=columns).out
    assert max(map(len, page.splitlines())) <= columns
    words = page.split()
    for name in names:
        assert all(word in words for word in name.split() if len(word) <= 40), name

"""`nhalf buy` and `nhalf whatif` on the command line: pages, documents, and bad input."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.cli.command import detailed, invoke, matches, refused

JOB = ("buy", "llama-3.1-70b", "--on", "h100-sxm", "--weights", "fp8")
LIST = (
    "--option", "nic=800Gb/s @ $1.2k", "--option", "hbm=x1.4 @ $3k", "--option", "nvlink.latency=x0.5",
    "--option", "system=b200-sxm", "--option", "kv=fp8",
)  # fmt: skip
KEYS = {
    "name", "batch", "step_before_s", "step_after_s", "gain", "gain_low", "gain_high", "gain_per_money",
    "above_model_error",
}  # fmt: skip


@pytest.fixture(scope="module")
def document() -> Any:  # noqa: ANN401  JSON is whatever it is
    return detailed(*JOB, *LIST, "--json").document


@pytest.mark.parametrize("columns", [80, 140])
def test_the_main_job_prints_the_stored_page(columns: int) -> None:
    result = invoke(*JOB, *LIST, columns=columns)
    assert result.code == 0
    (warning,) = result.err.splitlines()
    assert "servers mostly keep the cache in fp8 then, and in bf16 before; state --kv to hold it" in warning
    assert matches(f"buy_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns


@pytest.mark.parametrize("columns", [80, 140])
def test_the_details_are_stored_too(columns: int) -> None:
    assert matches(f"buy_detail_{columns}", detailed(*JOB, columns=columns).out)


@pytest.mark.parametrize("command", ["buy", "whatif"])
@pytest.mark.parametrize("degrees", [("--pp", "1,2"), ("--cp", "1,2")])
def test_a_list_whose_best_layout_at_some_batch_is_one_device_is_answered(
    command: str, degrees: tuple[str, str]
) -> None:
    result = detailed(command, "llama-3.1-8b", "--on", "h100-sxm", *degrees)
    assert result.code == 0
    assert "Latency or bandwidth: " in result.out


def test_the_document_has_the_keys_of_the_contract(document: Any) -> None:  # noqa: ANN401
    assert document["schema"] == "nhalf.buy/2"
    assert document["verdict_interactive"].startswith("batch 1:")
    assert document["verdict_throughput"].startswith("batch 128:")
    assert len(document["options"]) == 5 * 3
    assert all(set(option) >= KEYS for option in document["options"])


def test_money_is_per_dollar_and_unknown_without_a_price(document: Any) -> None:  # noqa: ANN401
    for option in document["options"]:
        price = option["price_per_gpu"]
        expected = None if price is None else pytest.approx(option["gain"] / price)
        assert option["gain_per_money"] == expected


def test_nothing_helps_is_a_normal_answer() -> None:
    job = ("whatif", *JOB[1:], "--option", "nic=800Gb/s", "--option", "nvlink.latency=x0.5")
    result = detailed(*job)
    assert result.code == 0
    text = " ".join(result.out.split())
    assert text.startswith("Nothing on this list helps: nvlink.latency=x0.5 saves 0.83 %, within the model's error")
    idle = "nic=800Gb/s changes nothing here: TP8 stays inside a node; ask with --tp 16."
    assert f"{idle} Interactive use, batch 1: nothing on this list helps: " in text
    assert "of your step is per-layer overhead" in text


def test_links_that_the_layout_does_not_use_are_named_first_with_a_layout_that_does() -> None:
    job = ("whatif", "deepseek-v3", "--on", "h200-sxm", "--batch", "16", "--option", "nic=800Gb/s")
    said = detailed(*job, "--json").document["unused_links"]
    assert said.endswith("TP8 stays inside a node; ask with --tp 16, or with --ep 16 --attention-dp 16.")
    for flags in ("--tp 16", "--ep 16 --attention-dp 16"):
        document = detailed(*job, *flags.split(), "--json").document
        assert document["unused_links"] is None
        assert document["options"][0]["gain"] > 0
    rack = detailed("whatif", "deepseek-v3", "--on", "gb200-nvl72", "--tp", "8", *job[4:], "--json").document
    assert "TP8 stays inside a node" in rack["unused_links"]


@pytest.mark.parametrize(("word", "same_as"), [("on", "on"), ("off", "off"), ("Off", "off")])
@pytest.mark.parametrize("name", ["p2p", "kernel_bypass"])
def test_on_and_off_are_words_of_an_option_where_its_flag_takes_them(name: str, word: str, same_as: str) -> None:
    job = ("llama-3.1-70b", "--on", "h100-sxm", "--tp", "16", "--batch", "1")
    after = detailed("whatif", *job, "--option", f"{name}={word}", "--json").document["options"][0]["step_after_s"]
    flag = f"--{name.replace('_', '-')}"
    step = detailed("decode", *job, flag, same_as, "--json").document["rows"][0]["step_s"]
    assert after == pytest.approx(step, rel=1e-9)


@pytest.mark.parametrize("word", ["on", "true"])
def test_a_switch_is_on_by_either_word(word: str) -> None:
    option = detailed("whatif", *JOB[1:], "--option", f"fuse_norm={word}", "--batch", "1", "--json").document[
        "options"
    ][0]
    assert option["gain"] > 0.01


def test_a_longer_step_saves_nothing() -> None:
    text = " ".join(detailed("whatif", *JOB[1:], "--option", "p2p=off", "--batch", "1").out.split())
    assert "Nothing on this list helps: p2p=off makes a token" in text
    assert "% longer. Now: " in text
    assert "saves -" not in text


def test_whatif_is_buy_without_prices() -> None:
    with_prices = detailed(*JOB, "--option", "hbm=x1.4 @ $3k", "--json").document
    without = detailed("whatif", *JOB[1:], "--option", "hbm=x1.4", "--json").document
    assert without["schema"] == "nhalf.whatif/2"
    assert [option["gain"] for option in without["options"]] == [option["gain"] for option in with_prices["options"]]


def test_a_mix_is_one_more_column() -> None:
    result = detailed(*JOB, "--option", "hbm=x1.4", "--mix", "1=60,16=30,128=10")
    assert " mix" in result.out
    found = detailed(*JOB, "--option", "hbm=x1.4", "--mix", "1=60,16=30,128=10", "--json").document
    gains = [option["gain"] for option in found["options"]]
    assert min(gains) < found["mix"][0]["gain"] < max(gains)


@pytest.mark.parametrize("command", ["buy", "whatif"])
@pytest.mark.parametrize("tp", ["8", "16"])
def test_without_a_list_the_levers_of_decode_are_compared(command: str, tp: str) -> None:
    job = (*JOB[1:], "--tp", tp, "--batch", "16")
    document = detailed(command, *job, "--json").document
    gains = {option["name"]: option["gain"] for option in document["options"]}
    levers = detailed("decode", *job, "--json").document["levers"]
    assert {lever["name"]: pytest.approx(lever["gain"], abs=1e-9) for lever in levers} == {
        name: gain for name, gain in gains.items() if "the host's" not in name
    }
    assert len(gains) == len(levers) + 1
    assert document["defaults"][0]["flag"] == "--option"


def test_csv_and_markdown_hold_the_same_rows(document: Any) -> None:  # noqa: ANN401
    lines = detailed(*JOB, *LIST, "--csv").out.splitlines()
    assert len(lines) == 1 + len(document["options"])
    assert lines[0].split(",")[:3] == ["system", "name", "batch"]
    table = detailed(*JOB, *LIST, "--md").out.splitlines()
    assert len(table) == 2 + len(document["options"])
    assert all(line.startswith("| ") and line.endswith(" |") for line in table)


def test_a_time_that_is_not_there_is_warned_about() -> None:
    result = detailed("whatif", *JOB[1:], "--option", "stack.host_launch_s=-10us")
    assert result.code == 0
    assert "only 5 us to take" in result.err
    assert "it matters with --mode eager" in " ".join(result.out.split())


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        ((*JOB, "--option", "nick=1us"), 2, ["Did you mean 'nic'?"]),
        ((*JOB, "--option", "inter.latency=x0.5"), 2, ["Did you mean 'inter-node.latency'?"]),
        ((*JOB, "--option", "nvlink=off"), 2, ["nvlink cannot be off", "--option p2p=off"]),
        ((*JOB, "--option", "nic=OFF"), 2, ["nic cannot be off", "stays inside a node"]),
        ((*JOB[:2], "--option", "nic=1us"), 2, ["--on", "h100-sxm"]),
        ((*JOB, "--option", "nic=1us", "--batch", "0"), 2, ["--batch"]),
        (
            (*JOB, "--option", "nic=1us", "--batch", "4096"),
            3,
            [
                "does not fit before anything is bought",
                "the nearest layout that holds it is",
                "largest batch that fits",
            ],
        ),
        ((*JOB, "--option", "nic=1us", "--mix", "1"), 2, ["--mix"]),
        ((*JOB, "--option", "nic=1us", "--mix", "1=0"), 2, ["--mix"]),
        ((*JOB, "--option", "nic=1us", "--json", "--csv"), 2, ["more than one form"]),
        (("whatif", *JOB[1:], "--option", "nic=1us @ $1"), 2, ["nhalf buy"]),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], code: int, parts: list[str]) -> None:
    message = refused(*arguments, code=code)
    for part in parts:
        assert part in message, message


def test_two_systems_are_asked_the_same_list() -> None:
    job = ("whatif", "llama-3.1-70b", "--on", "h100-sxm,b200-sxm", "--option", "nvlink.latency=x0.5", "--batch", "1")
    text = detailed(*job)
    assert text.code == 0
    assert text.out.index("h100-sxm. Interactive use") < text.out.index("b200-sxm. Interactive use")
    document = detailed(*job, "--json").document
    alone = detailed(*job[:3], "b200-sxm", *job[4:], "--json").document
    assert [option for option in document["options"] if option["system"] == "b200-sxm"] == alone["options"]
    assert document["systems"][1]["verdict_interactive"] == alone["verdict_interactive"]
    assert document["verdict_interactive"].count("batch 1:") == 2


def test_where_bandwidth_buys_more_only_for_a_while_the_answer_says_so() -> None:
    job = ("whatif", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8,16", "--option", "nvlink.latency=x0.5", "--json")
    document = detailed(*job).document
    assert document["bandwidth_from_batch"] is None
    found = re.search(r"From batch (\d+) to (\d+) bandwidth buys more", document["latency_or_bandwidth"])
    assert found is not None
    assert 1 < int(found[1]) < 128 < int(found[2]) < 1024


def test_links_of_a_group_over_nodes_are_those_of_both_tiers() -> None:
    document = detailed("whatif", *JOB[1:], "--tp", "16", "--option", "nic=800Gb/s", "--batch", "64", "--json").document
    assert {link["tier"] for link in document["links"]} == {"intra_node", "inter_node"}
    assert "a link inside the node saves" in document["latency_or_bandwidth"]
    assert ", of one between nodes " in document["latency_or_bandwidth"]


SHOPPING = (
    "--option", "weights=fp8", "--option", "nvlink x2: nvlink.bandwidth=x2 @ $1k", "--option", "hbm=4.8TB/s @ $3k",
)  # fmt: skip


def test_a_flip_is_a_change_of_the_largest_gain_of_the_table() -> None:
    job = ("buy", "llama-3.1-70b", "--on", "h100-sxm", "--batch", "1,64,195,256,652,900", *SHOPPING)
    document = detailed(*job, "--json").document
    leads = {}
    for option in sorted(document["options"], key=lambda option: option["gain"]):
        leads[option["batch"]] = option["name"]
    for batch, leader in leads.items():
        before = [flip for flip in document["flips"] if flip["batch"] <= batch]
        assert leader == (before[-1]["to"] if before else leads[1])
    assert document["flips"]
    few = (*JOB, "--option", "weights=bf16", "--option", "nic=800Gb/s", "--option", "hbm=4.8TB/s")
    assert not detailed(*few, "--json").document["flips"]
    assert "hbm=4.8TB/s gains most at every batch" in detailed(*few).out


def test_what_gains_more_than_the_advice_but_cannot_be_told_is_named() -> None:
    job = ("buy", "llama-3.1-70b", "--on", "h100-sxm", "--batch", "1,512", *SHOPPING, "--json")
    verdict = detailed(*job).document["verdict_throughput"]
    assert "nvlink x2 saves" in verdict
    assert "weights=fp8 gains more" in verdict


def test_batches_between_have_a_verdict_too() -> None:
    document = detailed(*JOB[:4], "--batch", "1,4,64", *SHOPPING, "--json").document
    assert document["verdict_between"].startswith("In between, by time per token: batch 4: weights=fp8 saves ")
    assert detailed(*JOB[:4], "--batch", "4", *SHOPPING, "--json").document["verdict_between"] is None


def test_an_option_without_a_price_is_not_said_to_be_worse_for_the_money() -> None:
    found = detailed(*JOB[:4], "--batch", "4", *SHOPPING)
    text = " ".join(found.out.split())
    assert "it has no price and is not compared by money" in text
    assert "for the money hbm=4.8TB/s is better" not in text
    assert "Without a price, so left out: weights=fp8." in text


@pytest.mark.parametrize("columns", [60, 80])
def test_no_cell_is_cut_in_a_narrow_terminal(columns: int) -> None:
    long = "stack.host_launch_s=-4us + nic.bandwidth=x2 + nvlink.latency=x0.5 @ $100"
    job = (*JOB[:4], "--batch", "1,4,16,64,256,512", *SHOPPING, "--option", long)
    out = detailed(*job, columns=columns).out
    document = detailed(*job, "--json").document
    assert max(len(line) for line in out.splitlines()) <= columns
    cells = re.findall(r"[\d.-]+\*? \([\d.-]+\.\.[\d.-]+\)", out)
    assert len(cells) == len(document["options"])
    assert all(out.count(f"batch {batch}") >= 2 for batch in (1, 4, 16, 64, 256, 512))


# ---------------------------------------------------------------------------------------------------- requests a second


def test_a_rate_of_requests_buys_at_the_batch_that_keeps_up() -> None:
    load = ("--rate", "5", "--isl", "1000", "--osl", "200")
    before = invoke("buy", "llama-3.1-70b", "--on", "h100-sxm", *load, "--json").document["options"][0]["before"]
    (cell,) = invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", *load, "--json").document["rows"]
    assert [before[key] for key in ("batch", "step_s", "low_s")] == [cell[key] for key in ("batch", "step_s", "low_s")]


def test_a_rate_that_no_layout_or_several_settle_says_so() -> None:
    load = ("--isl", "1000", "--osl", "200")
    over = invoke("buy", "llama-3.1-70b", "--on", "h100-sxm", "--rate", "500", *load)
    assert "the queue does not settle at 500 requests/s" in over.err
    several = invoke("buy", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "4,8", "--rate", "5", *load)
    assert several.code == 2
    assert "name one layout" in several.err
    mixed = invoke("whatif", "llama-3.1-70b", "--on", "h100-sxm", "--mix", "1=2", "--rate", "5", *load)
    assert "leave out --mix" in mixed.err

"""`nhalf collective` on the command line: pages, the document of the contract, nccl-tests' flags, and bad input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.command import detailed, invoke, matches, refused

if TYPE_CHECKING:
    from pathlib import Path

JOB = ("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm", "--sizes", "1KiB:1GiB")
BARE = ("collective", "all-reduce", "--ranks", "8", "5us", "400GB/s")


@pytest.fixture(scope="module")
def document() -> Any:  # noqa: ANN401  JSON is whatever it is
    return detailed(*JOB, "--json").document


@pytest.mark.parametrize("columns", [80, 140])
def test_the_main_job_prints_the_stored_page(columns: int) -> None:
    result = invoke(*JOB, columns=columns)
    assert (result.code, result.err) == (0, "")
    assert matches(f"collective_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns


@pytest.mark.parametrize("columns", [80, 140])
def test_the_details_are_stored_too(columns: int) -> None:
    assert matches(f"collective_detail_{columns}", detailed(*JOB, columns=columns).out)


@pytest.mark.parametrize("columns", [80, 140])
def test_a_page_across_nodes_is_stored_too(columns: int) -> None:
    result = invoke("collective", "all-reduce", "--ranks", "16", "--on", "h100-sxm", "--sizes", "1KiB:1MiB:x4",
                    columns=columns)  # fmt: skip
    assert matches(f"collective_across_{columns}", result.out)
    assert max(len(line) for line in result.out.splitlines()) <= columns
    assert "RDMA instead of TCP" in detailed("collective", "all-reduce", "--ranks", "16", "--on", "h100-sxm").out


def test_the_first_line_is_the_verdict_and_the_last_the_next_command() -> None:
    page = detailed(*JOB).out.splitlines()
    assert page[0].startswith("16 KiB takes ")
    assert any(line.startswith("all-reduce on 8 ranks of h100-sxm: one-shot is fastest below") for line in page)
    assert page[-1] == "  nhalf crossover llama-3.1-70b --on h100-sxm"


def test_the_document_has_the_keys_of_the_contract(document: Any) -> None:  # noqa: ANN401
    assert document["schema"] == "nhalf.collective/2"
    assert document["command"] == "collective"
    keys = {"size_bytes", "algorithm", "time_s", "fixed_s", "transfer_s", "kind", "chosen"}
    assert all(keys <= set(row) for row in document["rows"])
    assert {row["kind"] for row in document["rows"]} == {"law", "measured"}
    assert all(row["time_s"] == pytest.approx(row["fixed_s"] + row["transfer_s"]) for row in document["rows"])
    assert all(set(flip) == {"from", "to", "size_bytes"} for flip in document["crossovers"])
    sizes = [flip["size_bytes"] for flip in document["crossovers"]]
    assert sizes == sorted(sizes)
    for before, after in zip(document["crossovers"], document["crossovers"][1:], strict=False):
        assert before["to"] == after["from"]


def test_one_algorithm_is_chosen_for_each_size_and_one_is_fastest(document: Any) -> None:  # noqa: ANN401
    laws = [row for row in document["rows"] if row["kind"] == "law"]
    for choice in document["choices"]:
        here = [row for row in laws if row["size_bytes"] == choice["size_bytes"]]
        assert [row["algorithm"] for row in here if row["chosen"]] == [choice["algorithm"]]
        assert [row["algorithm"] for row in here if row["fastest"]] == [choice["fastest"]]
        runnable = [row["time_s"] for row in here if row["runs"]]
        assert choice["fastest_s"] == pytest.approx(min(runnable))
        assert choice["behind_s"] == pytest.approx(choice["time_s"] - choice["fastest_s"])
        if choice["lost_s"] is None:
            assert (choice["lost_per_token_s"], choice["laws_tell"]) == (None, False)
        else:
            assert choice["lost_s"] == choice["behind_s"]
            assert choice["lost_per_token_s"] == pytest.approx(160 * choice["lost_s"])


def test_no_loss_is_claimed_against_a_law_that_the_measurement_beats() -> None:
    document = detailed(*JOB[:5], "h200-sxm", *JOB[6:], "--json").document
    ring = [choice for choice in document["choices"] if choice["algorithm"] == "ring"]
    assert ring
    assert all(choice["lost_s"] is None for choice in ring)
    (beaten,) = {tuple(choice["beaten_at"].values()) for choice in ring}
    _, measured, law = beaten
    assert measured < law
    text = " ".join(document["verdict"].split())
    assert "NCCL's tuner names ring, but 4 ms measured at 1 GiB beats its law (4.19 ms)" in text
    assert "a busbw of 470 GB/s over a link of 450 GB/s" in text
    assert "loses" not in text


def test_no_loss_is_claimed_where_the_laws_miss_the_measurement_by_more(document: Any) -> None:  # noqa: ANN401
    at = next(choice for choice in document["choices"] if choice["size_bytes"] == 131072.0)
    assert at["measured_s"] - at["time_s"] > at["behind_s"] > 0
    assert at["lost_s"] is None
    assert at["beaten_at"] is None
    assert "At 2 sizes the laws cannot tell" in document["verdict"]


def test_a_loss_is_claimed_where_the_laws_are_nearer_to_the_measurement_than_they_differ() -> None:
    found = one("vllm", "rtx-pro-6000")[0]
    (at,) = found["choices"]
    assert at["lost_s"] == at["behind_s"] > abs(at["measured_s"] - at["time_s"])
    assert "at 16 KiB it runs ring instead of one-shot and loses" in found["verdict"]


def test_a_plan_is_marked_as_one(document: Any) -> None:  # noqa: ANN401
    plans = {choice["decided_by"]: choice["plan"] for choice in document["choices"]}
    # Where vLLM's own thresholds decide, NCCL's plan is of something that does not run.
    assert plans["vllm's thresholds"] is None
    plan = plans["NCCL's tuner"]
    assert plan["kind"] == "assumed"
    assert (plan["low_s"], plan["high_s"]) == pytest.approx((0.5 * plan["time_s"], 2.0 * plan["time_s"]))
    assert document["fixed_time"]["kind"] == "measured"


def one(library: str, system: str, ranks: str = "8") -> Any:  # noqa: ANN401
    job = ("collective", "all-reduce", "--ranks", ranks, "--on", system, "--library", library, "--sizes", "16KiB")
    return detailed(*job, "--json").document, " ".join(detailed(*job).out.split())


def test_across_trays_the_kernel_decides_and_what_has_none_takes_nccls_time() -> None:
    document, text = one("trtllm", "gb300-nvl72", "16")
    (kernel,) = [row for row in document["rows"] if row["algorithm"] == "trtllm"]
    assert (kernel["kind"], kernel["time_s"]) == ("measured", pytest.approx(5.0e-6, rel=0.1))
    assert document["nodes"] == 1
    document, text = one("sglang", "gb300-nvl72", "16")
    plan = document["choices"][0]["plan"]
    assert plan["low_s"] < plan["time_s"] < plan["high_s"]
    assert plan["time_s"] == pytest.approx(50e-6, rel=0.1)
    assert "by NCCL, measured, across trays of a rack" in text


def test_across_nodes_the_doubt_stands_beside_the_plan() -> None:
    document, text = one("nccl", "h100-sxm", "16")
    assert "modelled: NCCL's tuner chooses chain-tree/LL, priced by the constants of fabric ib (of its class)" in text
    assert "No curve across nodes of this system is known: the constants of fabric ib rest on 8 machines" in text
    assert document["published"] == []
    plan = document["choices"][0]["plan"]
    assert plan["low_s"] < 32.5e-6 < plan["high_s"], "nccl-tests on two nodes of 8 H100 over InfiniBand"
    planned = one("nccl-plan", "h100-sxm", "16")[1]
    assert "26.4 us (13.2 us to 52.8 us) planned by NCCL's tuner" in planned
    assert "Nothing was measured across nodes of this system" in planned


@pytest.mark.parametrize("library", ["openmpi", "mpich"])
def test_where_a_library_has_its_own_rule_no_tuner_plans(library: str) -> None:
    document, text = one(library, "h100-sxm")
    assert document["choices"][0]["algorithm"] == "rabenseifner"
    assert document["choices"][0]["plan"] is None
    assert document["fixed_time"] is None
    assert "planned by" not in text
    assert f"by the law of rabenseifner, which {library}'s thresholds choose" in text


@pytest.mark.parametrize(
    ("library", "system", "words"),
    [
        ("rccl", "h100-sxm", "rccl does not run on this device: NCCL's tuner stands in"),
        ("nccl", "mi300x", "nccl does not run on this device: RCCL's tuner stands in"),
        ("trtllm", "mi300x", "trtllm does not run on this device: RCCL's tuner stands in"),
        ("vllm", "mi300x", "Where vllm's own rules decide nothing, RCCL's tuner stands in"),
        ("vllm", "tpu-v5e", "a prior of rings and trees on these links stands in"),
    ],
)
def test_a_tuner_that_stands_in_is_named(library: str, system: str, words: str) -> None:
    document, text = one(library, system)
    assert words in text
    assert any(words in note for note in document["notes"])


def test_a_rule_of_kernels_that_read_their_peers_does_not_hold_on_a_torus() -> None:
    assert one("vllm", "tpu-v5e")[0]["choices"][0]["algorithm"] == "ring"


@pytest.mark.parametrize("library", ["nccl", "vllm", "trtllm"])
def test_where_nothing_stands_in_nothing_is_said(library: str) -> None:
    assert one(library, "h100-sxm")[0]["notes"] == []


def test_the_count_a_token_scales_the_cost() -> None:
    found = detailed(*JOB[:-3], "rtx-pro-6000", "--per-token", "64", "--json").document
    assert found["collectives_per_token"] == 64
    choice = max(found["choices"], key=lambda each: each["lost_s"] or 0.0)
    assert choice["lost_per_token_s"] == pytest.approx(64 * choice["lost_s"])


def test_nccl_tests_flags_are_read_as_there() -> None:
    ours = detailed(
        "collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm", "--sizes", "8KiB:128MiB:x4", "--json"
    )
    theirs = detailed("collective", "all_reduce", "-g", "8", "--on", "H100_SXM", "-b", "8K", "-e", "128M", "-f", "4",
                    "--json")  # fmt: skip
    assert ours.document["rows"] == theirs.document["rows"]


def test_a_bare_link_has_laws_alone() -> None:
    found = detailed(*BARE, "--json").document
    assert {row["kind"] for row in found["rows"]} == {"law"}
    assert not [row for row in found["rows"] if row["chosen"]]
    assert (found["library"], found["fixed_time"]) == (None, None)
    (flip,) = found["crossovers"]
    assert (flip["from"], flip["to"]) == ("one-shot", "two-shot")
    assert flip["size_bytes"] == pytest.approx(5e-6 * 400e9 / 5.25)


def test_what_the_machine_has_may_be_said() -> None:
    with_switches = detailed(*BARE, "--has", "nvls", "--json").document
    assert "nvls" in {flip["to"] for flip in with_switches["crossovers"]}
    row = next(row for row in detailed(*BARE, "--json").document["rows"] if row["algorithm"] == "nvls")
    assert (row["runs"], row["needs"]) == (False, "nvls")


@pytest.mark.parametrize(
    "op", ["all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "barrier", "send-recv"]
)
@pytest.mark.parametrize("ranks", ["2", "8", "16"])
@pytest.mark.parametrize("columns", [80, 140])
def test_every_operation_has_a_page_that_fits(op: str, ranks: str, columns: int) -> None:
    result = detailed(
        "collective", op, "--ranks", ranks, "--on", "a100-sxm", "--sizes", "1KiB:1MiB:x32", columns=columns
    )
    assert (result.code, result.err) == (0, "")
    assert max(len(line) for line in result.out.splitlines()) <= columns
    assert " nan" not in result.out
    assert " inf" not in result.out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("collective", "all-reduse", "--ranks", "8", "--on", "h100-sxm"), ["OP", "Did you mean 'all-reduce'"]),
        (("collective", "all-reduce", "--on", "h100-sxm"), ["--ranks", "add --ranks 8"]),
        (("collective", "all-reduce", "--ranks", "8"), ["--on", "5us 400GB/s"]),
        (("collective", "all-reduce", "--ranks", "0", "--on", "h100-sxm"), ["--ranks"]),
        (("collective", "all-reduce", "--ranks", "1", "--on", "h100-sxm"), ["waits for nobody", "2 or more"]),
        (("collective", "all-reduce", "--ranks", "9", "--on", "h100-sxm"), ["whole nodes of 8"]),
        ((*JOB[:6], "--sizes", "1K:1M"), ["--sizes"]),
        ((*JOB[:6], "--sizes", "1MiB:1KiB"), ["run backwards"]),
        ((*JOB[:6], "-b", "8KiB"), ["-b", "8, 512K, 128M, 1G"]),
        ((*JOB[:6], "-f", "2"), ["no size of nccl-tests"]),
        ((*JOB, "--library", "gloo"), ["--library", "gloo", "nhalf catalog libraries"]),
        ((*JOB, "--mode", "lazy"), ["--mode", "graph, eager, host"]),
        ((*JOB, "--has", "nvlz"), ["--has", "Did you mean 'nvls'"]),
        ((*JOB, "--per-token", "two"), ["--per-token"]),
        ((*BARE, "--library", "vllm"), ["bare link", "--on"]),
        ((*BARE, "1GB/s"), ["too many arguments"]),
        ((*BARE[:-2], "5us", "400G"), ["bandwidth"]),
        ((*BARE, "--on", "h100-sxm"), ["both given"]),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments: tuple[str, ...], parts: list[str]) -> None:
    message = refused(*arguments)
    for part in parts:
        assert part in message, message


def test_several_systems_stand_side_by_side() -> None:
    job = ("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm,b200-sxm", "--sizes", "16KiB,64MiB")
    text = detailed(*job, columns=80)
    assert text.code == 0
    assert text.out.startswith("Fastest: from 16 KiB on h100-sxm, from 64 MiB on b200-sxm.")
    assert max(len(line) for line in text.out.splitlines()) <= 80
    document = detailed(*job, "--json").document
    alone = detailed(*job[:5], "b200-sxm", *job[6:], "--json").document
    mine = [row for row in document["rows"] if row["system"] == "b200-sxm"]
    assert [{key: value for key, value in row.items() if key != "system"} for row in mine] == alone["rows"]
    assert document["systems"][1]["verdict"] == alone["verdict"]


def test_several_systems_share_a_page(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="the extra [report] is not installed")
    report = tmp_path / "r.html"
    job = ("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm,b200-sxm", "-o", str(report))
    assert detailed(*job).code == 0
    text = report.read_text(encoding="utf-8")
    assert 'id="chart-algorithms-0"' in text
    assert 'id="chart-algorithms-1"' in text


def test_a_rule_names_no_algorithm_whose_sizes_another_takes() -> None:
    page = detailed("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm").out
    (rule,) = [line for line in page.splitlines() if line.startswith("  vllm 2026")]
    assert rule.startswith("  vllm 2026: one-shot below 256 KiB, nvls below 64 MiB")


def test_lists_of_ranks_and_nodes_make_a_line_for_each_group() -> None:
    job = ("collective", "all-reduce", "--on", "h100-sxm")
    found = invoke(*job, "--ranks", "2,4,8,16", "--nodes", "1,2,4", "--json").document
    groups = [(each["ranks"], each["nodes"]) for each in found["systems"]]
    assert groups == [(2, 1), (2, 2), (4, 1), (4, 2), (4, 4), (8, 1), (8, 2), (8, 4), (16, 2), (16, 4)]
    assert {row["system"] for row in found["rows"]} == {"h100-sxm"}
    alone = invoke(*job, "--ranks", "16", "--json").document
    rows = [row for row in found["rows"] if (row["ranks"], row["nodes"]) == (16, 2)]
    assert [{**row, "system": None, "ranks": None, "nodes": None} for row in rows] == [
        {**row, "system": None, "ranks": None, "nodes": None} for row in alone["rows"]
    ]
    text = invoke(*job, "--ranks", "2,4,8,16", "--nodes", "1,2,4").out
    assert "16 KiB takes 3.25 us on 2 ranks, 1 node" in text
    assert "16 ranks, 4 nodes" in text


def test_half_full_nodes_share_their_nics() -> None:
    spread = invoke("collective", "all-reduce", "--on", "h100-sxm", "--ranks", "8", "--nodes", "2", "--json").document
    inside = invoke("collective", "all-reduce", "--on", "h100-sxm", "--ranks", "8", "--json").document
    assert (spread["nodes"], inside["nodes"]) == (2, 1)
    best = [min(row["time_s"] for row in each["rows"] if row["kind"] != "law") for each in (spread, inside)]
    assert best[0] > 3 * best[1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--ranks", "8,16", "--nodes", "3"), "8,16 ranks do not divide over 3 nodes"),
        (("--ranks", "16", "--nodes", "1"), "16 ranks do not fit on 1 node of 8"),
        (("--ranks", "1,8"), "one rank waits for nobody"),
        (("--ranks", "8,x"), "'x' is not a whole number"),
        (("--ranks", "8", "--nodes", "0"), "'0' is not a whole number"),
    ],
)
def test_groups_that_cannot_be_are_refused(given: tuple[str, ...], said: str) -> None:
    found = invoke("collective", "all-reduce", "--on", "h100-sxm", *given)
    assert found.code == 2
    assert said in found.err


def test_a_bare_link_has_no_nodes() -> None:
    found = invoke("collective", "all-reduce", "5us", "400GB/s", "--ranks", "8", "--nodes", "2")
    assert (found.code, "a bare link has no nodes" in found.err) == (2, True)

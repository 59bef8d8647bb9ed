"""Who wins where, what the library runs, what that costs, and where the fixed time goes."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.collective import Mode, Op
from nhalf.decide.choice import choice, choices, plan
from nhalf.decide.collective import flips, rows
from nhalf.decide.collective_case import Question
from nhalf.decide.fixed_time import Pair, alike, decompose, launch_pairs, launch_s
from nhalf.errors import InputError
from nhalf.fabric import Span
from nhalf.laws.collective.bandwidth import bus_factor, busbw
from nhalf.link import Link
from nhalf.loading.collective import Asked, load
from nhalf.loading.message_sizes import nccl_size, parse_sizes

LINK = Link(2e-6, 1e11)
BARE = Question(
    op=Op.ALL_REDUCE,
    span=Span(ranks=8, nodes=1, intra=LINK, inter=LINK, rails=1.0),
    has=frozenset({"peer memory"}),
)


def on(
    system: str, ranks: int, op: str = "all-reduce", *, library: str | None = None, mode: str | None = None
) -> Question:
    return load(Asked(op=op, system=system, ranks=str(ranks), library=library, mode=mode)).question


# --- laws -------------------------------------------------------------------------------------------------------------


def test_one_shot_and_two_shot_meet_where_their_forms_do() -> None:
    # alpha + 7 n / beta = 2 alpha + 14/8 n / beta, at n = alpha beta / 5.25
    (flip,) = flips(BARE, 1024.0, 2.0**30)
    assert (flip.before, flip.after) == ("one-shot", "two-shot")
    assert flip.size_bytes == pytest.approx(2e-6 * 1e11 / 5.25, rel=1e-9)


def test_the_fastest_is_the_least_of_what_the_machine_can_run() -> None:
    for size in (1.0, 1e5, 1e9):
        name = BARE.fastest(size)
        assert BARE.time_s(name, size) == min(float(BARE.time_s(each, size)) for each in BARE.available)
    with_switch = replace(BARE, has=frozenset({"peer memory", "nvls"}))
    assert BARE.fastest(1e9) != "nvls"
    assert with_switch.fastest(1e9) == "nvls"
    assert "nvls" in BARE.laws
    assert "nvls" not in BARE.available


def test_rings_both_ways_through_one_port_are_no_winner_of_their_own() -> None:
    alone = replace(BARE, has=frozenset())
    assert "bidirectional-ring" not in {each.after for each in flips(alone, 64.0, 2.0**34)}


def test_no_flip_outside_a_single_size() -> None:
    assert flips(BARE, 1024.0, 1024.0) == []


def test_rows_hold_every_algorithm_with_a_sum_and_its_bandwidths() -> None:
    found = rows(BARE, [16384.0, 1e8])
    assert {row.algorithm for row in found} == set(BARE.laws)
    assert all(row.time_s == pytest.approx(row.fixed_s + row.transfer_s) for row in found)
    ring = next(row for row in found if row.algorithm == "ring" and row.size_bytes == 1e8)
    assert ring.busbw_bytes_per_s == pytest.approx(1e8 / ring.time_s * 14 / 8)
    assert [row.algorithm for row in found if row.fastest] == ["one-shot", "two-shot"]


def test_a_reduction_that_is_not_hidden_is_charged() -> None:
    paid = replace(BARE, reduce_s_per_byte=1e-12)
    assert float(paid.time_s("one-shot", 1e6)) - float(BARE.time_s("one-shot", 1e6)) == pytest.approx(7e-6)


@pytest.mark.parametrize(
    ("op", "factor"),
    [(Op.ALL_REDUCE, 14 / 8), (Op.ALL_GATHER, 7 / 8), (Op.REDUCE_SCATTER, 7 / 8), (Op.ALL_TO_ALL, 7 / 8),
     (Op.BROADCAST, 1), (Op.REDUCE, 1), (Op.SEND_RECV, 1)],
)  # fmt: skip
def test_busbw_is_what_nccl_tests_prints(op: Op, factor: float) -> None:
    assert bus_factor(op, 8) == pytest.approx(factor)
    assert busbw(op, 8e9, 0.1, 8) == pytest.approx(8e10 * factor)


# --- libraries --------------------------------------------------------------------------------------------------------


def test_vllm_on_h100_follows_its_thresholds_and_hands_over_to_the_tuner() -> None:
    question = on("h100-sxm", 8)
    found = {size: choice(question, size) for size in (16384.0, 2.0**20, 2.0**27)}
    assert [each.algorithm for each in found.values()][:2] == ["one-shot", "nvls"]
    assert found[16384.0].decided_by == "vllm's thresholds"
    assert found[2.0**27].decided_by == "NCCL's tuner"
    assert found[16384.0].lost_s == 0.0
    last = found[2.0**27]
    assert last.lost_s is not None
    assert last.time_s == pytest.approx(last.fastest_s + last.lost_s)


def test_across_nodes_only_the_tuner_decides() -> None:
    question = on("h100-sxm", 16)
    found = choice(question, 16384.0)
    assert (question.rule, found.algorithm, found.decided_by) == (None, "chain-tree", "NCCL's tuner")
    assert found.plan is not None
    assert found.plan.path == "chain-tree/LL"
    # InfiniBand of its class: 15.6 us inside a node and two hops, where the tuner's own constants expect 25.2 us.
    assert found.plan.priced
    assert found.plan.fixed_s == pytest.approx(35.7e-6, rel=0.05)


def test_more_than_two_devices_on_pcie_are_left_to_nccl() -> None:
    assert on("l40s", 4).rule is None
    assert on("l40s", 2).rule is not None


def test_mpi_follows_its_own_rules_everywhere() -> None:
    for ranks in (8, 16):
        assert choice(on("h100-sxm", ranks, library="openmpi"), 65536.0).algorithm == "rabenseifner"


def test_without_a_plan_sends_and_receives_go_side_by_side() -> None:
    question = on("h100-sxm", 8, "all-to-all", library="nccl")
    assert plan(question, 1e6) is None
    assert choice(question, 1e6).algorithm == "direct"


def test_a_bare_link_knows_no_library() -> None:
    found = choice(BARE, 1e6)
    assert (found.algorithm, found.time_s, found.lost_s, found.plan) == (None, None, None, None)


def test_what_was_measured_stands_beside_the_laws() -> None:
    found = [row for row in rows(on("h100-sxm", 8), [16384.0]) if row.kind == "measured"]
    assert [(row.algorithm, row.chosen) for row in found] == [("vllm", True)]
    assert found[0].time_s == pytest.approx(3.66e-6, rel=0.03)
    assert not [row for row in rows(on("h100-sxm", 16), [16384.0]) if row.kind == "measured"]


# --- where the fixed time goes ----------------------------------------------------------------------------------------

ALL_PAIRS = [pair for name in store.names("system") for pair in launch_pairs(store.system(name, curves=True)[0].curves)]


@pytest.mark.parametrize(("library", "expected_us"), [("vllm", 18.5), ("sglang", 27.6)])
def test_launching_from_the_host_adds_what_pairs_of_curves_say(library: str, expected_us: float) -> None:
    added = launch_s([pair for pair in ALL_PAIRS if pair.library == library])
    assert added is not None
    assert 1e6 * added == pytest.approx(expected_us, rel=0.1)


def test_a_pair_differs_in_the_launch_alone() -> None:
    assert ALL_PAIRS
    assert all(pair.eager_s > pair.graph_s > 0 for pair in ALL_PAIRS)
    on_h100 = [pair.launch_s for pair in ALL_PAIRS if (pair.system, pair.library) == ("h100-sxm", "vllm")]
    assert 14e-6 < median(on_h100) < 22e-6
    assert launch_s([]) is None


@pytest.mark.parametrize(("library", "expected_us"), [("vllm", 23.0), ("sglang", 40.3)])
def test_the_launch_is_that_of_the_curves_own_version(library: str, expected_us: float) -> None:
    asked = Asked(op="all-reduce", system="h100-sxm", ranks="8", library=library, mode="eager")
    found = load(asked)
    (pair,) = alike(found.pairs, found.question)
    assert found.question.curve is not None
    assert pair.version == found.question.curve.key.version
    assert 1e6 * pair.launch_s == pytest.approx(expected_us, rel=0.05)


@pytest.mark.parametrize("ranks", ["3", "5", "7"])
def test_ranks_that_run_another_kernel_are_planned_and_not_read_between_curves(ranks: str) -> None:
    found = load(Asked(op="all-reduce", system="h100-sxm", ranks=ranks))
    assert found.question.curve is None
    assert load(Asked(op="all-reduce", system="h100-sxm", ranks="6")).question.curve is not None
    assert load(Asked(op="all-reduce", system="h100-sxm", ranks=ranks, library="nccl", mode="host")).question.curve


KNOWN = store.fixed_time()


@pytest.mark.parametrize(("ranks", "mode"), [(8, "graph"), (8, "eager"), (2, "graph"), (16, "graph"), (64, "graph")])
def test_parts_of_a_fixed_time_add_up_to_it(ranks: int, mode: str) -> None:
    question = on("h100-sxm", ranks, mode=mode)
    found = decompose(question, KNOWN, ALL_PAIRS)
    assert found is not None
    assert sum(part.time_s for part in found.parts) == pytest.approx(found.total_s)
    assert all(part.time_s >= 0 for part in found.parts)
    assert found.kind == ("measured" if ranks <= 8 else "planned")
    assert bool(found.bypasses) == (ranks > 8)


def test_eager_is_mostly_host_launch_and_a_graph_has_none() -> None:
    shares = {}
    for mode in ("graph", "eager"):
        found = decompose(on("h100-sxm", 8, mode=mode), KNOWN, ALL_PAIRS)
        assert found is not None
        shares[mode] = next(part.time_s for part in found.parts if part.name == "host launch") / found.total_s
    assert shares["graph"] == 0.0
    assert shares["eager"] > 0.6


def test_steps_are_those_of_the_algorithm() -> None:
    across = decompose(on("h100-sxm", 16), KNOWN, ALL_PAIRS)
    assert across is not None
    assert (across.algorithm, across.steps) == ("chain-tree", 2 * 7 + 2)
    inside = decompose(on("h100-sxm", 8), KNOWN, ALL_PAIRS)
    assert inside is not None
    assert (inside.algorithm, inside.steps) == ("one-shot", 1)


def test_what_bypass_attacks_is_the_steps_between_nodes() -> None:
    found = decompose(on("h100-sxm", 16), KNOWN, ALL_PAIRS)
    assert found is not None
    rdma, direct = found.bypasses
    assert rdma.saves_s == pytest.approx(2 * (KNOWN["tcp_step"].value - 5e-6))
    assert direct.saves_s == next(part.time_s for part in found.parts if part.name == "network stack")


def test_a_rack_of_shared_switches_has_no_network_stack() -> None:
    found = decompose(on("gb200-nvl72", 16), KNOWN, ALL_PAIRS)
    assert found is not None
    assert found.bypasses == ()
    assert "network stack" not in {part.name for part in found.parts}


def test_links_that_go_through_the_kernel_have_it_all_to_gain() -> None:
    found = decompose(on("raspberry-pi-cluster", 4), KNOWN, ALL_PAIRS)
    assert found is not None
    (bypass,) = found.bypasses
    assert bypass.name.startswith("RDMA, or")
    assert bypass.saves_s > 0.9 * found.total_s


def test_on_a_torus_ranks_speak_to_their_neighbours() -> None:
    question = on("tpu-v5e", 16)
    assert set(question.available) == {"ring", "bidirectional-ring", "torus-2d"}
    assert question.fastest(16384.0) == "torus-2d"
    assert "torus-3d" in on("tpu-v4", 8).available
    assert question.time_s("torus-2d", 1.0) == pytest.approx(12 * 1e-6, rel=0.01)  # a box of 4 x 4
    assert on("tpu-v5e", 16, "all-to-all").available  # nothing but distant partners: their laws stand


def test_where_nothing_is_known_there_is_no_decomposition() -> None:
    assert decompose(BARE, KNOWN, []) is None


def test_known_parts_are_cited() -> None:
    assert set(KNOWN) == {"switch_hop", "network_hop", "graph_node", "tcp_step", "tray_kernel", "tray_fallback"}
    assert all(isinstance(part, Datum) and part.source in store.sources() for part in KNOWN.values())
    assert Pair(system="s", library="l", version="v", ranks=2, graph_s=1.0, eager_s=3.0).launch_s == 2.0


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_sizes_of_nccl_tests_are_binary_and_ours_have_units() -> None:
    assert [nccl_size(text, where="-b") for text in ("8", "8K", "128M", "1G", "512k")] == [
        8.0, 8192.0, 2.0**27, 2.0**30, 2.0**19,
    ]  # fmt: skip
    assert parse_sizes("1KiB:8KiB") == [1024.0, 2048.0, 4096.0, 8192.0]
    assert parse_sizes("1KiB:64KiB:x4") == [1024.0, 4096.0, 16384.0, 65536.0]
    assert parse_sizes("1MB,16KiB,16KiB") == [16384.0, 1e6]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"sizes": "8K"}, "8K"),
        ({"sizes": "1MiB:1KiB"}, "run backwards"),
        ({"sizes": "0B"}, "no bytes"),
        ({"sizes": "1KiB:1GiB:x1"}, "no factor"),
        ({"sizes": "1B:1TB:x1.01"}, "too many"),
        ({"first": "8X"}, "'8X' is no size of nccl-tests"),
        ({"first": "0"}, "no size of nccl-tests"),
        ({"first": "8", "sizes": "1KiB"}, "both given"),
        ({"gpus": "4"}, "differ"),
        ({"ranks": "1"}, "waits for nobody"),
        ({"ranks": "12"}, "whole nodes of 8"),
        ({"ranks": None}, "number of ranks is missing"),
        ({"has": "magic"}, "nothing that an algorithm needs"),
        ({"system": None}, "neither a system nor a link"),
        ({"link": ("5us", "400GB/s")}, "both given"),
        ({"op": "all-reduse"}, "Did you mean 'all-reduce'"),
        ({"system": "h100"}, "has no system 'h100'"),
        ({"library": "gloo"}, "has no library 'gloo'"),
        ({"reduce_at": "5us"}, "is a time"),
    ],
)
def test_bad_input_is_one_clear_error(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(replace(Asked(op="all-reduce", system="h100-sxm", ranks="8"), **asked))


def test_modes_choose_their_own_curve() -> None:
    floors = [on("h100-sxm", 8, mode=mode).curve for mode in ("graph", "eager")]
    assert [curve.key.mode for curve in floors if curve is not None] == [Mode.GRAPH, Mode.EAGER]


@pytest.mark.parametrize("sizes", ["1e307B", "1KiB:1e30B", "2EB"])
def test_a_size_that_no_memory_holds_is_refused(sizes: str) -> None:
    with pytest.raises(InputError, match=r"no memory holds|is too large"):
        load(Asked(op="all-reduce", system="h100-sxm", ranks="8", sizes=sizes))


def test_more_ranks_than_any_machine_has_are_refused() -> None:
    with pytest.raises(InputError, match="more than any machine"):
        load(Asked(op="all-reduce", system="h100-sxm", ranks="1000000000000"))


def test_a_sibling_that_lends_its_curve_shows_what_does_not_run_too() -> None:
    (own,), (lent,) = (choices(on(system, 8, library="trtllm"), [2.0**29]) for system in ("h100-sxm", "h20-sxm"))
    assert own.beaten is not None
    assert (lent.beaten, lent.lost_s) == (own.beaten, None)
    assert own.beaten.size_bytes == 2.0**30
    assert own.beaten.measured_s < own.beaten.law_s


def test_between_measured_rank_counts_no_algorithm_is_shown_not_to_run() -> None:
    question = on("h100-sxm", 6)
    assert question.curve is not None
    assert all(each.beaten is None for each in choices(question, [2.0**29, 2.0**30]))

"""A fabric: which links a group of ranks spans, hops and oversubscription, meshes, tori, and racks of one domain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nhalf.errors import InputError
from nhalf.fabric import Fabric, Switches, Topology, Torus
from nhalf.link import Link

NVLINK = Link(0.8e-6, 450e9)
NIC = Link(5e-6, 50e9)
FAR = Link(9e-6, 25e9)


def fabric(**given: Any) -> Fabric:  # noqa: ANN401  any part of one
    return Fabric(**{"intra_node": NVLINK, "inter_node": NIC, "devices_per_node": 8, "nics_per_node": 8.0, **given})


def tree(**given: Any) -> Switches:  # noqa: ANN401  any part of one
    return Switches(**{"nodes_per_leaf": 4, "hop_latency_s": 0.3e-6, "oversubscription": 1.0, **given})


# --- nodes and rails --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "nodes", "per_node", "rails", "tier"),
    [
        (1, 1, 1, 1.0, "intra_node"),
        (2, 1, 2, 2.0, "intra_node"),
        (8, 1, 8, 8.0, "intra_node"),
        (12, 2, 6, 6.0, "inter_node"),
        (16, 2, 8, 8.0, "inter_node"),
        (64, 8, 8, 8.0, "inter_node"),
    ],
)
def test_a_group_fills_nodes_and_takes_their_rails(
    ranks: int, nodes: int, per_node: int, rails: float, tier: str
) -> None:
    span = fabric().span(ranks)
    assert (span.ranks, span.nodes, span.ranks_per_node, span.rails, span.tier) == (ranks, nodes, per_node, rails, tier)
    assert span.intra is NVLINK  # no copy where nothing changes: this runs for every point of a sweep
    assert span.inter is NIC
    assert (span.racks, span.hops, span.box) == (1, 0, ())
    assert span.inter_all is NIC


def test_shared_nics_are_fewer_rails() -> None:
    assert fabric(nics_per_node=2.0).span(16).rails == 2.0
    assert fabric(nics_per_node=2.0).span(4).rails == 1.0


# --- trees of switches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nodes", "hops"), [(1, 0), (4, 0), (5, 2), (8, 2), (16, 2), (17, 4), (64, 4)])
def test_hops_beyond_the_first_switch_add_to_alpha(nodes: int, hops: int) -> None:
    switches = tree(leaves_per_pod=4)
    assert switches.hops(nodes) == hops
    span = fabric(switches=switches).span(8 * nodes)
    assert span.inter.latency_s == pytest.approx(NIC.latency_s + hops * 0.3e-6)
    assert span.inter.bandwidth_bytes_per_s == NIC.bandwidth_bytes_per_s
    assert span.hops == hops


def test_without_pods_every_leaf_is_one_spine_away() -> None:
    assert tree().hops(1000) == 2


@given(st.integers(0, 500), st.integers(0, 500))
def test_hops_between_two_nodes_are_symmetric_and_no_more_than_the_most(one: int, other: int) -> None:
    switches = tree(leaves_per_pod=3)
    hops = switches.hops_between(one, other)
    assert hops == switches.hops_between(other, one)
    assert hops in (0, 2, 4)
    assert hops <= switches.hops(max(one, other) + 1)
    assert (hops == 0) == (one // 4 == other // 4)


def test_a_fat_tree_of_l_tiers_has_at_most_2_l_minus_1_switches() -> None:
    # 1 + hops switches on the longest path: 1 for a leaf, 3 for leaf and spine, 5 with a core.
    switches = tree(leaves_per_pod=2)
    assert [1 + switches.hops(nodes) for nodes in (4, 8, 9)] == [2 * tiers - 1 for tiers in (1, 2, 3)]


def test_oversubscription_spares_a_ring_and_slows_an_exchange_of_all() -> None:
    span = fabric(switches=tree(oversubscription=4.0)).span(8 * 16)
    assert span.inter.bandwidth_bytes_per_s == NIC.bandwidth_bytes_per_s
    share = (16 - 4) / (16 - 1)  # of the messages that leave the leaf
    assert span.crossing == pytest.approx(share)
    assert span.inter_all.bandwidth_bytes_per_s == pytest.approx(50e9 / (4 * share))
    assert span.inter_all.latency_s == span.inter.latency_s


@given(st.floats(1, 64), st.integers(5, 200))
def test_an_exchange_is_slowed_by_no_more_than_the_oversubscription(ratio: float, nodes: int) -> None:
    span = fabric(switches=tree(oversubscription=ratio)).span(8 * nodes)
    slowed = NIC.bandwidth_bytes_per_s / span.inter_all.bandwidth_bytes_per_s
    assert 1.0 <= slowed <= ratio * (1 + 1e-12)


def test_inside_a_leaf_nothing_is_oversubscribed() -> None:
    span = fabric(switches=tree(oversubscription=8.0)).span(32)
    assert span.inter_all is NIC


def test_numbers_of_the_tree_may_be_arrays() -> None:
    latencies, ratios = np.array([0.1e-6, 0.3e-6]), np.array([1.0, 4.0])
    span = fabric(switches=tree(hop_latency_s=latencies, oversubscription=ratios)).span(64)
    assert np.allclose(span.inter.latency_s, 5e-6 + 2 * latencies)
    for at, (hop_s, ratio) in enumerate(zip(latencies, ratios, strict=True)):
        one = fabric(switches=tree(hop_latency_s=hop_s, oversubscription=ratio)).span(64)
        assert np.ravel(span.inter_all.bandwidth_bytes_per_s)[at] == pytest.approx(one.inter_all.bandwidth_bytes_per_s)


# --- meshes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranks", "links"), [(2, 1), (3, 2), (4, 3), (8, 7)])
def test_a_part_of_a_mesh_uses_only_the_links_between_its_members(ranks: int, links: int) -> None:
    mesh = fabric(topology=Topology.MESH, intra_node=Link(1e-6, 448e9))
    span = mesh.span(ranks)
    assert span.intra.bandwidth_bytes_per_s == pytest.approx(links * 64e9)
    assert span.intra.latency_s == 1e-6


def test_two_full_nodes_of_a_mesh_use_all_links() -> None:
    mesh = fabric(topology=Topology.MESH)
    assert mesh.span(16).intra is NVLINK
    assert mesh.span(1).intra is NVLINK
    assert mesh.span(4 + 8).intra.bandwidth_bytes_per_s == pytest.approx(450e9 * 5 / 7)  # six on each node


def test_a_pair_of_a_mesh_has_one_link_and_of_a_switch_all() -> None:
    assert fabric(topology=Topology.MESH).pair(0, 5).bandwidth_bytes_per_s == pytest.approx(450e9 / 7)
    assert fabric().pair(0, 5) is NVLINK
    assert fabric(topology=Topology.HOST).pair(0, 5) is NVLINK


# --- tori -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "box", "ports", "hops"),
    [
        (1, (1, 1), 0, 0),
        (2, (2, 1), 1, 1),
        (4, (2, 2), 2, 2),
        (8, (4, 2), 2, 4),
        (16, (4, 4), 2, 6),
        (64, (8, 8), 2, 14),
        (128, (16, 8), 3, 8 + 7),
        (256, (16, 16), 4, 16),
    ],
)
def test_a_slice_of_a_torus_is_nearly_square_and_wraps_only_where_it_is_whole(
    ranks: int, box: tuple[int, int], ports: int, hops: int
) -> None:
    torus = Torus(x=16, y=16)
    assert torus.box(ranks) == box
    assert torus.ports(box) == ports
    assert torus.diameter(box) == hops
    span = fabric(topology=Topology.TORUS, torus=torus, devices_per_node=256, intra_node=Link(1e-6, 180e9)).span(ranks)
    assert span.box == box
    assert span.hops == hops
    wanted = 180e9 if ranks in (1, 256) else ports * 45e9
    assert span.intra.bandwidth_bytes_per_s == pytest.approx(wanted)


@given(st.integers(0, 63), st.integers(0, 63))
def test_distance_on_a_torus_is_a_metric_within_its_diameter(one: int, other: int) -> None:
    torus = Torus(x=4, y=4, z=4)
    assert torus.distance(one, other) == torus.distance(other, one)
    assert (torus.distance(one, other) == 0) == (one == other)
    assert torus.distance(one, other) <= torus.diameter((4, 4, 4)) == 6


def test_a_message_on_a_torus_pays_each_link_in_latency_and_one_in_bandwidth() -> None:
    torus = fabric(topology=Topology.TORUS, torus=Torus(x=4, y=4), devices_per_node=16, intra_node=Link(1e-6, 180e9))
    assert torus.pair(0, 1).latency_s == pytest.approx(1e-6)
    assert torus.pair(0, 10).latency_s == pytest.approx(4e-6)  # two along each axis
    assert torus.pair(0, 3).latency_s == pytest.approx(1e-6)  # around
    assert torus.pair(0, 10).bandwidth_bytes_per_s == pytest.approx(45e9)
    assert torus.pair(0, 16) is NIC


def test_a_group_larger_than_the_torus_takes_no_more_than_all_of_it() -> None:
    assert Torus(x=2, y=2).box(100) == (2, 2)


# --- racks ------------------------------------------------------------------------------------------------------------


def rack() -> Fabric:
    return fabric(devices_per_node=4, nics_per_node=4.0, nodes_per_rack=18, inter_rack=FAR)


@pytest.mark.parametrize(
    ("ranks", "nodes", "per_node", "intra", "inter", "tier"),
    [
        (4, 1, 4, NVLINK, NIC, "intra_node"),
        (16, 4, 4, NVLINK, NIC, "inter_node"),
        (72, 18, 4, NVLINK, NIC, "inter_node"),
        (144, 2, 72, NIC, FAR, "inter_rack"),
        (288, 4, 72, NIC, FAR, "inter_rack"),
    ],
)
def test_beyond_a_rack_the_rack_takes_the_place_of_the_node(
    ranks: int, nodes: int, per_node: int, intra: Link, inter: Link, tier: str
) -> None:
    span = rack().span(ranks)
    assert (span.nodes, span.ranks_per_node, span.tier) == (nodes, per_node, tier)
    assert span.intra is intra
    assert span.inter is inter
    assert span.rails == per_node


def test_a_pair_crosses_the_tier_that_parts_it() -> None:
    assert rack().pair(0, 3) is NVLINK
    assert rack().pair(0, 4) is NIC
    assert rack().pair(0, 71) is NIC
    assert rack().pair(0, 72) is FAR


def test_a_pair_of_nodes_pays_for_the_switches_between_them() -> None:
    near_and_far = fabric(switches=tree())
    assert near_and_far.pair(0, 8) is NIC
    assert near_and_far.pair(0, 32).latency_s == pytest.approx(5.6e-6)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inter_rack": FAR}, "inter_rack and nodes_per_rack go together"),
        ({"nodes_per_rack": 4}, "inter_rack and nodes_per_rack go together"),
        ({"topology": Topology.TORUS}, "a torus needs its shape"),
        ({"torus": Torus(x=4, y=2)}, "a torus needs its shape, and nothing else has one"),
        ({"topology": Topology.TORUS, "torus": Torus(x=4, y=4)}, "a torus of 4 x 4 does not hold 8 devices"),
    ],
)
def test_parts_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fabric(**given)


@pytest.mark.parametrize(("one", "other"), [(3, 3), (-1, 2)])
def test_what_is_no_pair_is_refused(one: int, other: int) -> None:
    with pytest.raises(InputError, match="are no pair"):
        fabric().pair(one, other)


def test_a_fabric_can_be_changed_part_by_part() -> None:
    changed = replace(rack(), inter_rack=NVLINK)
    assert changed.span(144).inter is NVLINK

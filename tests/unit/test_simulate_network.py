"""Networks: which links a message crosses, what they are called, and how a slow rank slows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from nhalf.catalog import store
from nhalf.errors import InputError
from nhalf.link import Link
from nhalf.simulate import network, routes
from nhalf.simulate.machine import Wiring, from_fabric, from_links

if TYPE_CHECKING:
    from nhalf.simulate.network import Network

LINK = Link(5e-6, 50e9)


def names(net: Network, source: int, target: int) -> list[str]:
    links, _ = net.route(np.array([source]), np.array([target]))
    return [net.name(int(link)) for link in links[0] if link >= 0]


def latency(net: Network, source: int, target: int) -> float:
    return float(net.route(np.array([source]), np.array([target]))[1][0])


def test_a_switch_has_a_port_out_and_a_port_in() -> None:
    assert names(network.switch(4, LINK), 1, 3) == ["rank 1 out", "rank 3 in"]


def test_a_mesh_has_a_link_for_each_pair() -> None:
    assert names(network.mesh(4, LINK), 1, 3) == ["link 1 to 3"]


def test_a_tree_goes_up_only_between_leaves() -> None:
    net = network.tree(8, LINK, leaf=4, oversubscription=2.0, hop_latency_s=1e-6)
    assert names(net, 0, 3) == ["rank 0 out", "rank 3 in"]
    assert names(net, 0, 5) == ["rank 0 out", "leaf 0 up", "leaf 1 down", "rank 5 in"]
    assert (latency(net, 0, 3), latency(net, 0, 5)) == pytest.approx((5e-6, 7e-6))
    assert net.capacity_bytes_per_s[-1] == 4 * 50e9 / 2


def test_nodes_go_through_the_nic_of_their_rank() -> None:
    net = network.nodes(8, LINK, Link(9e-6, 25e9), per_node=4, nics=2)
    assert names(net, 0, 3) == ["rank 0 out", "rank 3 in"]
    assert names(net, 1, 6) == ["node 0 NIC 0 out", "node 1 NIC 1 in"]
    assert names(net, 2, 5) == ["node 0 NIC 1 out", "node 1 NIC 0 in"]
    assert latency(net, 1, 6) == 9e-6
    assert not net.private
    assert network.nodes(8, LINK, LINK, per_node=4, nics=4).private


def test_rails_go_up_to_a_spine_only_to_another_leaf() -> None:
    wiring = Wiring(topology="rails", group=2, pod=2, inter=Link(9e-6, 25e9), oversubscription=4.0, hop_latency_s=1e-6)
    net = from_links(8, LINK, wiring).network
    assert names(net, 0, 1) == ["rank 0 out", "rank 1 in"]
    assert names(net, 0, 2) == ["node 0 NIC 0 out", "node 1 NIC 0 in"]
    up, down = "leaf 0 of rail 0 up", "leaf 0 of rail 1 down"
    assert names(net, 0, 3) == ["node 0 NIC 0 out", up, down, "node 1 NIC 1 in"]
    assert names(net, 5, 1) == ["node 2 NIC 1 out", "leaf 1 of rail 1 up", down, "node 0 NIC 1 in"]
    assert [latency(net, 0, other) for other in (1, 2, 3)] == pytest.approx([5e-6, 9e-6, 11e-6])
    assert net.capacity_bytes_per_s[-8:].tolist() == [2 * 25e9 / 4] * 8


def test_rails_of_leaves_that_nodes_do_not_fill_are_refused() -> None:
    with pytest.raises(InputError, match="4 nodes do not fill leaves of 3 nodes"):
        from_links(8, LINK, Wiring(topology="rails", group=2, pod=3))


def test_a_ring_takes_the_shorter_way() -> None:
    net = network.ring(5, LINK)
    assert names(net, 4, 1) == ["rank 4 to its next neighbour", "rank 0 to its next neighbour"]
    assert names(net, 0, 3) == ["rank 0 to its previous neighbour", "rank 4 to its previous neighbour"]
    assert latency(net, 4, 1) == pytest.approx(1e-5)


@pytest.mark.parametrize(("columns", "rows"), [(4, 4), (5, 3), (2, 6), (1, 7)])
def test_a_torus_takes_as_many_links_as_its_distance(columns: int, rows: int) -> None:
    net = network.torus(columns, rows, LINK)
    for source in range(columns * rows):
        for target in range(columns * rows):
            if source != target:
                apart = [abs(source % columns - target % columns), abs(source // columns - target // columns)]
                distance = min(apart[0], columns - apart[0]) + min(apart[1], rows - apart[1])
                assert len(names(net, source, target)) == distance
                assert latency(net, source, target) == pytest.approx(distance * 5e-6)


def test_a_slow_rank_slows_the_links_that_touch_it_and_no_others() -> None:
    factors = np.ones(8)
    factors[5] = 3.0
    net = network.tree(8, LINK, leaf=4, oversubscription=1.0).slowed(factors)
    slow = [net.name(link) for link in range(len(net.capacity_bytes_per_s)) if net.capacity_bytes_per_s[link] < 50e9]
    assert slow == ["rank 5 out", "rank 5 in"]
    assert network.switch(4, LINK).slowed(np.ones(4)).capacity_bytes_per_s.tolist() == [50e9] * 8


def test_a_message_to_oneself_is_refused() -> None:
    with pytest.raises(InputError, match="rank 2 sends a message to itself"):
        routes.paths(network.switch(4, LINK), np.array([2]), np.array([2]))


@pytest.mark.parametrize(
    ("wiring", "words"),
    [
        (Wiring(topology="cube"), "'cube' is no topology"),
        (Wiring(topology="tree"), "how many ranks are in a leaf"),
        (Wiring(topology="torus", group=3), "do not divide into groups of 3"),
        (Wiring(topology="nodes", group=4, nics=9), "9 NICs is not simulated"),
    ],
)
def test_an_impossible_wiring_is_refused(wiring: Wiring, words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_links(8, LINK, wiring)


def test_a_system_of_the_catalogue_is_a_machine() -> None:
    fabric = store.system("h100-sxm")[0].fabric
    assert from_fabric(fabric, 8).network.kind == "switch"
    across = from_fabric(fabric, 32)
    assert (across.network.kind, across.group, across.span.nodes) == ("nodes", 8, 4)
    with pytest.raises(InputError, match="9 ranks do not fill nodes of 8"):
        from_fabric(fabric, 9)


def test_a_mesh_of_the_catalogue_divides_its_bandwidth_over_its_links() -> None:
    fabric = store.system("mi300x")[0].fabric
    machine = from_fabric(fabric, 8)
    assert machine.network.kind == "mesh"
    expected = float(fabric.intra_node.bandwidth_bytes_per_s) / 7
    assert machine.network.capacity_bytes_per_s[0] == pytest.approx(expected)

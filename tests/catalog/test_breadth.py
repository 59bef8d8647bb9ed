"""The breadth of the catalogue: links, devices and systems of every family, the ladder, and the user's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from nhalf.catalog import files, listing, overlay, resolve, store
from nhalf.decide.ladder import hierarchy
from nhalf.errors import InputError
from nhalf.fabric import Topology
from nhalf.loading import load
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from pathlib import Path

SYSTEMS = store.names("system")
LINKS = store.names("link")
DEVICES = store.names("device")


# --- breadth ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family",
    [
        "nvlink2", "nvlink3", "nvlink4", "nvlink5", "nvlink-c2c", "nvlink3-bridge", "pcie3-x16", "pcie4-x16",
        "pcie5-x16", "pcie6-x16", "ib-hdr", "ib-ndr", "ib-xdr", "roce-100g", "roce-400g", "roce-800g", "efa-v2",
        "efa-v3", "tcpx", "tcpxo", "xgmi-mi300x", "ici-v5e", "gaudi2-node", "gaudi3-node", "neuronlink-v3",
        "thunderbolt-5", "thunderbolt-5-rdma", "tcp-1g", "tcp-10g", "tcp-25g", "tcp-100g", "wan-region",
    ],
)  # fmt: skip
def test_every_family_of_links_is_there(family: str) -> None:
    assert family in LINKS


@pytest.mark.parametrize(
    "name",
    [
        "a100-sxm", "h100-sxm", "h200-sxm", "h20-sxm", "b200-sxm", "b300-sxm", "gb200-nvl72", "gb300-nvl72", "l40s",
        "rtx-pro-6000", "h100-pcie", "mi300x", "mi325x", "mi355x", "tpu-v5e", "gaudi2", "gaudi3", "trainium2",
        "rtx-3090-pair", "rtx-3090-pair-nvlink", "rtx-5090-pair", "dgx-spark-pair", "mac-studio-pair",
        "raspberry-pi-cluster",
    ],
)  # fmt: skip
def test_every_kind_of_machine_is_there(name: str) -> None:
    assert name in SYSTEMS


def test_the_catalogue_is_as_broad_as_promised() -> None:
    assert len(LINKS) >= 60
    assert len(DEVICES) >= 20
    assert len(SYSTEMS) >= 24


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_is_of_a_listed_device_and_decodes_a_token(name: str) -> None:
    system, _ = store.system(name)
    assert system.device.name in {store.device(key)[0].name for key in DEVICES}
    degree = min(2, system.fabric.devices_per_node)
    step = decode(load("llama-3.1-8b", on=name, tp=degree))
    assert 1e-4 < float(step.value) < 10


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_parts_of_a_fabric_stand_in_their_order(name: str) -> None:
    fabric = store.system(name)[0].fabric
    assert fabric.inter_node.latency_s > 0
    if fabric.devices_per_node > 1:  # a node of one device has no peers inside
        assert fabric.intra_node.bandwidth_bytes_per_s >= fabric.inter_node.bandwidth_bytes_per_s * 0.2
        assert fabric.intra_node.latency_s <= fabric.inter_node.latency_s
    if fabric.inter_rack is not None:
        assert fabric.inter_rack.bandwidth_bytes_per_s < fabric.inter_node.bandwidth_bytes_per_s
    assert 0 < fabric.nics_per_node <= max(fabric.devices_per_node, 8)


@pytest.mark.parametrize("name", DEVICES)
def test_narrower_types_are_no_slower(name: str) -> None:
    device = store.device(name)[0]
    assert device.bf16_flop_per_s <= device.fp8_flop_per_s
    assert device.bf16_flop_per_s <= device.fp4_flop_per_s
    # Whoever cannot read its memory within 10 ms to 2 s is a typing error.
    assert 0.003 < device.memory_bytes / device.memory_bandwidth_bytes_per_s < 2


@pytest.mark.parametrize("name", LINKS)
def test_a_latency_that_nobody_measured_has_bounds_and_says_why(name: str) -> None:
    for path, datum in store.link(name)[1].items():
        if datum.kind == "assumed":
            assert datum.note, f"{name}, {path}: nothing says why it is assumed"
        if datum.kind == "assumed" and path == "latency_s":
            assert datum.low is not None, name
            assert datum.high is not None, name


def test_what_sources_disagree_about_is_kept() -> None:
    rdma = store.link("thunderbolt-5-rdma")[1]["latency_s"]
    assert (rdma.low, rdma.high) == (3e-6, 50e-6)
    assert "17 times" in rdma.note
    fp8 = store.device("rtx-4090")[1]["fp8_flop_per_s"]
    assert fp8.high == 2 * fp8.value
    hop = store.system("h100-sxm")[1]["system.fabric.switches.hop_latency_s"]
    assert (hop.low, hop.value, hop.high) == (0.15e-6, 0.33e-6, 0.4e-6)


# --- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "topology"),
    [
        ("h100-sxm", Topology.SWITCH),
        ("mi300x", Topology.MESH),
        ("gaudi3", Topology.MESH),
        ("tpu-v5p", Topology.TORUS),
        ("l40s", Topology.HOST),
    ],
)
def test_a_system_has_the_topology_it_is_built_with(name: str, topology: Topology) -> None:
    assert store.system(name)[0].fabric.topology == topology


def test_two_mi300x_see_one_link_and_eight_see_seven() -> None:
    fabric = store.system("mi300x")[0].fabric
    assert fabric.span(2).intra.bandwidth_bytes_per_s == pytest.approx(64e9)
    assert fabric.span(8).intra.bandwidth_bytes_per_s == pytest.approx(448e9)
    # Bus bandwidths of an all-reduce of 4 GB on such a node (stas00/ml-engineering, network/README.md).
    for ranks, measured in ((2, 47.671e9), (8, 312.912e9)):
        assert 0.65 < measured / float(fabric.span(ranks).intra.bandwidth_bytes_per_s) < 0.8


def test_a_rack_of_nvl72_is_one_domain() -> None:
    fabric = store.system("gb200-nvl72")[0].fabric
    tray, rack, beyond = fabric.span(4), fabric.span(72), fabric.span(144)
    assert (tray.tier, rack.tier, beyond.tier) == ("intra_node", "intra_node", "inter_node")
    assert rack.intra.bandwidth_bytes_per_s == 900e9
    assert (fabric.devices_per_tray, fabric.devices_per_host) == (4, 4)
    assert beyond.inter.bandwidth_bytes_per_s == 50e9
    assert (beyond.nodes, beyond.ranks_per_node) == (2, 72)


def test_a_pod_of_tpus_has_links_of_a_torus() -> None:
    fabric = store.system("tpu-v5e")[0].fabric
    assert fabric.torus is not None
    assert fabric.torus.axes == (16, 16)
    assert fabric.intra_node.bandwidth_bytes_per_s == pytest.approx(180e9)
    assert fabric.span(4).intra.bandwidth_bytes_per_s == pytest.approx(90e9)


def test_more_than_a_leaf_pays_for_the_spine() -> None:
    fabric = store.system("h100-sxm")[0].fabric
    assert fabric.span(256).inter is fabric.inter_node
    assert fabric.span(264).inter.latency_s == pytest.approx(5e-6 + 2 * 0.33e-6)


def test_curves_of_the_same_node_are_shared_under_their_own_name() -> None:
    assert resolve.measured_on("h100-sxm-efa") == "h100-sxm"
    assert {curve.key.system for curve in store.system("h100-sxm-efa", curves=True)[0].curves} == {"h100-sxm"}
    assert store.system("mi300x", curves=True)[0].curves == ()
    assert store.system("mi300x")[1]["system.curve_factor"].kind == "assumed"
    assert store.system("h100-sxm-efa")[1]["system.curve_factor"].kind == "measured"


# --- the ladder -------------------------------------------------------------------------------------------------------


def test_the_ladder_reaches_from_registers_to_the_wide_area() -> None:
    rungs = hierarchy(listing.rungs())
    assert (rungs[0].name, rungs[-1].name) == ("registers", "ocean")
    assert len(rungs) >= 12
    assert rungs[0].latency_orders == rungs[0].bandwidth_orders == 0.0
    assert rungs[-1].latency_orders > 7
    assert rungs[-1].bandwidth_orders > 4
    for rung in rungs:
        assert rung.half_size_bytes == pytest.approx(rung.latency_s * rung.bandwidth_bytes_per_s)
    by_name = {rung.name: rung for rung in rungs}
    assert by_name["peer-nvlink"].latency_s < by_name["peer-rdma"].latency_s < by_name["datacentre"].latency_s


def test_a_rung_that_is_a_link_has_its_numbers() -> None:
    assert store.rung("peer-rdma")[1] == store.link("ib-ndr")[1]


# --- listing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "kind"),
    [("links", "link"), ("Link", "link"), ("libraries", "library"), ("hierarchy", "hierarchy"), ("curves", "curve")],
)
def test_a_kind_may_be_in_the_plural(word: str, kind: str) -> None:
    assert listing.kind_of(word) == kind


def test_a_word_that_is_no_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"there is no kind 'lnks'.*Did you mean 'link'\?"):
        listing.kind_of("lnks")


def test_curves_are_found_by_any_part_of_their_key() -> None:
    found = listing.entries("curve", "h100_sxm/vllm 0.24.0/graph")
    assert [each.name for each in found] == ["h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16"]
    floor = found[0].values["ranks_8.floor_s"]
    assert floor.value == pytest.approx(4.66e-6, rel=0.01)
    assert (floor.kind, found[0].values["ranks_8.line.latency_s"].kind) == ("measured", "fitted")
    with pytest.raises(InputError, match=r"no curve has 'mi300x' in its key.*measured systems: a100-sxm"):
        listing.entries("curve", "mi300x")


def test_every_source_and_rung_can_be_named() -> None:
    (source,) = listing.entries("source", "ML_Engineering")
    assert source.facts["licence"] == "CC-BY-SA-4.0"
    (rung,) = listing.entries("hierarchy", "L2 cache")
    assert rung.values["latency_s"].value == 114e-9
    with pytest.raises(InputError, match=r"no source 'ml-enginering'.*Did you mean 'ml-engineering'\?"):
        listing.entries("source", "ml-enginering")


# --- the user's own ---------------------------------------------------------------------------------------------------

MINE = """
[links.ib-ndr]
latency = "3 us"

[links.my-cable]
title = "A cable of mine"
latency = "2 us"
bandwidth = { value = "200 Gb/s", per = "node", devices = 2, low = "160 Gb/s", source = "bench", kind = "measured" }

[sources.bench]
title = "Measured at the bench"
date = "2026-11-20"

[systems.my-box]
like = "h100-sxm"
title = "8 H100 on my cable"

[systems.my-box.fabric]
inter_node = "my-cable"
nics_per_node = 4

[systems.h100-sxm.device]
memory = "79 GiB"

[systems.h200-sxm.fabric.inter_node]
bandwidth = "25 GB/s"

[devices.my-gpu]
like = "h100-sxm"
title = "A GPU of mine"

[devices.my-gpu.device]
name = "Mine"
memory_bandwidth = "2 TB/s"

[aliases.system]
my-box = ["the-box"]
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(MINE, encoding="utf-8")
    monkeypatch.setenv(overlay.VARIABLE, str(path))
    return path


@pytest.mark.usefixtures("mine")
def test_a_value_of_the_users_overrides_and_the_rest_stays() -> None:
    link, origins = store.link("ib-ndr")
    assert (link.latency_s, link.bandwidth_bytes_per_s) == (3e-6, 50e9)
    latency = origins["latency_s"]
    assert (latency.kind, latency.source, latency.locator, latency.low) == ("given", "NHALF_CATALOG", "mine.toml", None)
    assert origins["bandwidth_bytes_per_s"].source == "ml-engineering"


@pytest.mark.usefixtures("mine")
def test_every_system_on_an_overridden_link_moves() -> None:
    assert store.system("h100-sxm")[0].fabric.inter_node.latency_s == 3e-6
    assert store.system("a100-sxm")[0].fabric.inter_node.latency_s == 5e-6  # HDR


@pytest.mark.usefixtures("mine")
def test_a_link_of_the_users_has_his_source() -> None:
    link, origins = store.link("my-cable")
    assert link.bandwidth_bytes_per_s == 12.5e9
    bandwidth = origins["bandwidth_bytes_per_s"]
    assert (bandwidth.source, bandwidth.kind, bandwidth.low) == ("bench", "measured", 10e9)
    assert store.sources()["bench"].date == "2026-11-20"
    assert "mine.toml" in store.sources()["NHALF_CATALOG"].title


@pytest.mark.usefixtures("mine")
def test_a_system_like_another_takes_over_what_it_does_not_say() -> None:
    system, origins = store.system("The Box")
    assert system.name == "my-box"
    assert system.fabric.inter_node.bandwidth_bytes_per_s == 12.5e9
    assert system.fabric.nics_per_node == 4.0
    assert system.fabric.intra_node.bandwidth_bytes_per_s == 450e9
    assert origins["system.fabric.nics_per_node"].kind == "given"
    assert origins["system.fabric.devices_per_node"].kind == "datasheet"
    assert store.system("my-box", curves=True)[0].curves == ()  # another machine's measurements are not borrowed


@pytest.mark.usefixtures("mine")
def test_one_value_of_a_device_or_a_tier_can_be_overridden() -> None:
    h100 = store.system("h100-sxm")[0]
    assert h100.device.memory_bytes == 79 * 2**30
    assert h100.device.bf16_flop_per_s == 989e12
    tier = store.system("h200-sxm")[0].fabric.inter_node
    assert (tier.latency_s, tier.bandwidth_bytes_per_s) == (3e-6, 25e9)
    device = store.device("my-gpu")[0]
    assert (device.name, device.memory_bandwidth_bytes_per_s, device.fp8_flop_per_s) == ("Mine", 2e12, 1979e12)


@pytest.mark.usefixtures("mine")
def test_the_output_says_what_is_the_users() -> None:
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?\+[0-9a-f]{8}\+yours\.[0-9a-f]{8}", store.catalog_version())
    said = listing.yours()
    assert "adds system my-box, device my-gpu, link my-cable, source bench" in said
    assert "overrides system h100-sxm, system h200-sxm, link ib-ndr" in said
    standings = {each.name: each.standing for each in listing.entries("link")}
    assert (standings["my-cable"], standings["ib-ndr"], standings["ib-xdr"]) == ("added", "overridden", "")


def test_without_a_catalogue_of_ones_own_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(overlay.VARIABLE, raising=False)
    assert listing.yours() == ""
    assert "yours" not in store.catalog_version()
    assert store.link("ib-ndr")[0].latency_s == 5e-6


def test_the_users_catalogue_may_be_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "catalogue"
    for folder in ("systems", "devices", "curves", "models", ".git"):
        (root / folder).mkdir(parents=True)
    (root / "notes.md").write_text("mine\n", encoding="utf-8")
    (root / ".git" / "config").write_text("x\n", encoding="utf-8")
    (root / "links.toml").write_text('[links.ib-ndr]\nlatency = "2 us"\n', encoding="utf-8")
    (root / "systems" / "my-mi300x.toml").write_text('like = "mi300x"\ncurves = "my-mi300x"\n', encoding="utf-8")
    table = files.own_text("curves/h200-sxm.csv")
    (root / "curves" / "my-mi300x.csv").write_text(table, encoding="utf-8")
    (root / "models" / "my-model.json").write_text(files.own_text("models/qwen3-8b.json"), encoding="utf-8")
    monkeypatch.setenv(overlay.VARIABLE, str(root))
    assert store.link("ib-ndr")[0].latency_s == 2e-6
    system, _ = store.system("my-mi300x", curves=True)
    assert system.fabric.topology == Topology.MESH
    assert {curve.key.system for curve in system.curves} == {"my-mi300x"}
    assert store.transformer("my-model")[0].name == "my-model"
    assert "adds system my-mi300x, model my-model, curve my-mi300x and overrides link ib-ndr" in listing.yours()


def read_all() -> None:
    """Read every entry, and find one by name."""
    listing.entries()
    store.find("system", "h100-sxm", where="--on")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("links", r"NHALF_CATALOG, bad\.toml: this is not TOML"),
        ("links = 3", r"there is no kind 'links' to add to.*\[links\.NAME\]"),
        ("[lnks.a]\nx = 1", r"there is no kind 'lnks'.*Did you mean 'links'\?"),
        ('[links.a]\nlatency = "2 us"', r"\[a\]: it lacks the required field 'bandwidth'"),
        ('[links.ib-ndr]\nlatncy = "2 us"', r"unknown field 'latncy'.*Did you mean 'latency'\?"),
        ('[links.ib-ndr]\nlatency = "2"', r"'2' has no unit"),
        ("[links.ib-ndr]\nlatency = 2", r"'2' has no unit"),
        ('[links.ib-ndr]\nlatency = "2 GB"', r"'2 GB'"),
        ('[links.ib-ndr]\nbandwidth = "400G"', r"'400G'"),
        ('[systems.a]\nlike = "h100"', r"like: there is no 'h100'.*Did you mean 'h100-"),
        ('[systems.a]\nlike = "a"', r"a is like itself"),
        ('[systems.a]\nlike = "b"\n[systems.b]\nlike = "a"', r"like itself"),
        ('[systems.h100-sxm]\ndevice = "h1000-sxm"', r"device: there is no 'h1000-sxm'.*Did you mean 'h100-sxm'\?"),
        ('[systems.h100-sxm.fabric]\ninter_node = "ib-nrd"', r"inter_node: there is no 'ib-nrd'.*'ib-ndr'"),
        ('[systems.h100-sxm.fabric]\nswitches = "rails"', r"switches: there is no 'rails'.*rails-32"),
        ('[systems.h100-sxm.fabric]\ntopology = "torus"', r"a torus needs its shape"),
        ('[systems.h100-sxm.fabric]\ntopology = "ring"', r"'ring' is not possible.*switch, mesh, torus, host"),
        ('[systems.h100-sxm.fabric]\nnics_per_node = "0"', r"'0'"),
        ('[systems.h100-sxm]\ncurves = "h300-sxm"', r"curves: there is no 'h300-sxm'"),
        ('[systems.a]\ntitle = "empty"', r"it lacks the required field"),
        ('[aliases]\nfoo = "h100-sxm"', r"no kind 'foo'.*\[aliases\.system\] and h100-sxm = \[\"foo\"\]"),
        ('[aliases.systm]\nh100-sxm = ["foo"]', r"no kind 'systm'.*Did you mean 'system'\?"),
        ('[aliases.system]\nh100-sxm = "foo"', r"aliases\.system: h100-sxm has no list of names"),
        (
            '[aliases.system]\nh100-sxm = ["foo"]\nh200-sxm = ["foo"]',
            r"'foo' is another name of the systems 'h",
        ),
        ('[systems."../x"]\nlike = "h100-sxm"', r"systems: '\.\./x' cannot be the name.*such as my-box"),
        ('[systems]\nmine = "h100-sxm"', r"systems: mine is no table.*\[systems\.mine\]"),
        ('[links."a/b"]\nlatency = "1 us"', r"links: 'a/b' cannot be the name"),
        ('[systems.Box]\nlike = "h100-sxm"\n[systems.box]\nlike = "h200-sxm"', r"'Box' and 'box' differ only in what"),
        ('[systems.H100_SXM]\nlike = "h200-sxm"', r"systems 'H100_SXM' and 'h100-sxm' differ only in what names ign"),
        (
            '[links.ib-ndr]\nlatency = {value = "2 us", source = "nope"}',
            r"'nope' of links\.ib-ndr\.latency is not",
        ),
        ('[links.ib-ndr]\nlatency = {value = "2 us", source = "te-cl"}', r"Did you mean 'te-ccl'\?"),
        ('[rungs.registers]\nlike = "nvlnk4"', r"registers: there is no 'nvlnk4'.*Did you mean 'nvlink4'\?"),
    ],
)
def test_what_is_wrong_in_it_is_one_clear_error(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"{text}\n", encoding="utf-8")
    monkeypatch.setenv(overlay.VARIABLE, str(path))
    with pytest.raises(InputError, match=message) as caught:
        read_all()
    assert "bad.toml" in str(caught.value)


def test_what_two_files_both_state_is_refused_and_what_they_add_is_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text('[links.ib-ndr]\nlatency = "2 us"\n[aliases.system]\nh100-sxm = ["one"]\n')
    (tmp_path / "b.toml").write_text('[links.ib-ndr]\nbandwidth = "40 GB/s"\n[aliases.system]\nh100-sxm = ["two"]\n')
    monkeypatch.setenv(overlay.VARIABLE, f"{tmp_path}/.")
    link = store.link("ib-ndr")[0]
    assert (link.latency_s, link.bandwidth_bytes_per_s) == (2e-6, 40e9)
    assert store.find("system", "one", where="--on") == store.find("system", "two", where="--on") == "h100-sxm"
    (tmp_path / "c.toml").write_text('[links.ib-ndr]\nlatency = "3 us"\n')
    monkeypatch.setenv(overlay.VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"c\.toml: links\.ib-ndr\.latency is stated in a\.toml too"):
        store.link("ib-ndr")


@pytest.mark.parametrize("name", ["empty", "notes", "blank.toml"])
def test_a_catalogue_of_nothing_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "read.md").write_text("mine\n", encoding="utf-8")
    (tmp_path / "blank.toml").write_text("# nothing yet\n", encoding="utf-8")
    monkeypatch.setenv(overlay.VARIABLE, str(tmp_path / name))
    with pytest.raises(InputError, match=rf"NHALF_CATALOG: there is nothing in .*{name}.*unset it"):
        store.link("ib-ndr")


def test_a_file_or_folder_that_cannot_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(overlay.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"there is no file or folder .*none"):
        store.link("ib-ndr")
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "mine.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv(overlay.VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"systems/mine\.json belongs nowhere.*systems/\*\.toml"):
        store.link("ib-ndr")
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"title = '\xe9'\n")
    monkeypatch.setenv(overlay.VARIABLE, str(latin))
    with pytest.raises(InputError, match=r"latin\.toml: the file is not UTF-8 text"):
        store.link("ib-ndr")

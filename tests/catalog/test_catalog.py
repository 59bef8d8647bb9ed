"""Every value of the catalogue can be traced, is in range, and reaches the noun it is meant for."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from nhalf.catalog import files, listing, store
from nhalf.catalog.listing import entries
from nhalf.citation import KINDS
from nhalf.collective import Algorithm, Mode
from nhalf.errors import InputError
from nhalf.layout import Layout
from nhalf.scenario import Scenario
from nhalf.workload import Workload

if TYPE_CHECKING:
    from nhalf.catalog.listing import Listed

DATA = Path(files.__file__).with_name("data")
SYSTEMS = store.names("system")
ALL = entries()
UNITS = {
    "s": ("_s", 1e-7, 1e-2),
    "bytes": ("_bytes", 1e10, 1e12),
    "bytes/s": ("_bytes_per_s", 1e9, 1e13),
    "FLOP/s": ("_flop_per_s", 1e14, 1e17),
    "1": ("", 0.05, 1e12),
}
SMALL = {
    "a40-pair", "dgx-spark-pair", "gaudi2", "mac-studio-pair", "mac-studio-pair-tcp", "raspberry-pi-cluster",
    "rtx-3090-pair", "rtx-3090-pair-nvlink", "rtx-4090-pair", "rtx-5090-pair", "strix-halo-pair", "v100-sxm",
}  # fmt: skip
"""Machines whose links or devices are smaller than those of servers for inference."""
WIDER = {
    "small": {"s": (1e-7, 1e-3), "bytes/s": (1e8, 3e12), "FLOP/s": (1e11, 1e16)},
    "device": {"bytes/s": (1e10, 1e13), "FLOP/s": (1e11, 1e17)},
    "fabric": {"s": (1e-7, 2e-3), "bytes/s": (1e8, 1e12)},
    "link": {"s": (1e-7, 0.1), "bytes/s": (1e8, 2e12)},
    "hierarchy": {"s": (1e-10, 0.1), "bytes/s": (1e9, 1e15)},
    "model": {"1": (1e8, 1e13)},
    "engine": {"s": (1e-7, 0.1)},
    "curve": {"s": (1e-6, 1e-3), "bytes": (1e3, 1e11), "bytes/s": (1e8, 1e13)},
}
"""Where a kind of thing reaches further than the figures of a server do; everything else keeps to UNITS."""
ABSENT = ("stack.unsharded_share", "stack.host_sharing")
"""What most engines do without, which is 0 there."""
NO_SOURCE = re.compile(r"\b(guess|guesstimate|own assumption|fixme|todo)\b", re.IGNORECASE)
INTERCONNECTS = ("system.fabric.intra_node.latency_s", "system.fabric.inter_node.latency_s", "system.curve_factor")


# --- every value ------------------------------------------------------------------------------------------------------


def test_the_catalogue_holds_what_is_promised() -> None:
    assert {"a100-sxm", "b200-sxm", "h100-sxm", "h200-sxm", "b300-sxm", "gb200-nvl72", "l40s"} < set(SYSTEMS)
    assert {"rtx-pro-6000", "mi300x", "dgx-spark-pair", "mac-studio-pair", "raspberry-pi-cluster"} < set(SYSTEMS)
    assert {"vllm", "sglang", "trtllm", "lmdeploy", "llama-cpp", "distributed-llama"} < set(store.names("engine"))
    assert {"llama-3.1-405b", "llama-3.1-70b", "llama-3.1-8b", "qwen3-32b", "qwen3-8b"} <= set(store.names("model"))
    assert len(store.names("link")) >= 60
    assert len(store.names("device")) >= 20
    assert sum(len(listed.values) for listed in ALL) > 3000


@pytest.mark.parametrize("listed", ALL, ids=lambda listed: f"{listed.kind} {listed.name}")
def test_values_can_be_traced(listed: Listed) -> None:
    assert listed.title
    for path, datum in listed.values.items():
        assert datum.source in store.sources(), f"{path}: no such source"
        assert datum.date, f"{path}: neither the value nor its source has a date"
        assert datum.kind in KINDS, path
        assert datum.kind != "given", f"{path}: that is the user's own"
        assert len(datum.locator) > 3, path
        assert not NO_SOURCE.search(f"{datum.locator} {datum.note}"), path
        tabled = path.startswith("stack.library.tuner.") or datum.source == "nhalf-priors"
        bounded = datum.low is not None or datum.high is not None
        assert datum.note or tabled or not bounded, f"{path}: nothing says where its bounds come from"


@pytest.mark.parametrize("listed", ALL, ids=lambda listed: f"{listed.kind} {listed.name}")
def test_values_are_of_the_size_and_unit_their_names_say(listed: Listed) -> None:
    wider = WIDER.get("small" if listed.name in SMALL and listed.kind == "system" else listed.kind, {})
    for path, datum in listed.values.items():
        suffix, low, high = UNITS[datum.unit]
        bounds = WIDER["fabric"] if path.startswith("system.transport.") else wider
        low, high = bounds.get(datum.unit, (low, high))
        assert re.sub(r"\.(ampere|hopper|blackwell)$", "", path).endswith(suffix), path
        if path == "stack.first_token_wait_s":  # a front end's, not a kernel's
            low, high = 0.0, 1.0
        absent = path in ABSENT and datum.value == 0
        assert absent or low <= datum.value <= high, f"{path} = {datum.value} {datum.unit}"


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_is_fitted_or_assumed_about_a_system_has_an_interval(name: str) -> None:
    _, origins = store.system(name)
    for path in INTERCONNECTS:
        datum = origins[path]
        assert datum.low is not None, path
        assert datum.high is not None, path
        assert datum.low < datum.value < datum.high, path


def test_a_constant_has_the_95_percent_interval_of_its_log_sd() -> None:
    _, origins = store.stack("vllm", architecture="hopper", calibrated=False)
    eta = origins["stack.memory_efficiency"]
    assert (eta.value, eta.kind) == (0.72, "assumed")
    assert eta.low == pytest.approx(0.72 * math.exp(-1.959964 * 0.20))
    assert eta.high == 1.0  # 0.72 exp(1.96 x 0.20) is 1.07, and no efficiency is above 1
    research = {
        "kv_efficiency": (0.60, 0.35),
        "flop_efficiency": (0.55, 0.30),
        "prefill_efficiency": (0.45, 0.35),
        "fp8_exponent": (0.8, 0.15),
        "layer_time_s": (18e-6, 0.7),
        "step_time_s": (0.8e-3, 1.0),
        "sequence_time_s": (8e-6, 1.0),
        "collective_excess_s": (3e-6, 0.8),
    }
    for name, (median, log_sd) in research.items():
        datum = origins[f"stack.{name}"]
        assert datum.value == pytest.approx(median), name
        assert datum.low is not None
        assert math.log(datum.value / datum.low) / 1.959964 == pytest.approx(log_sd), name


# --- sources, names, files --------------------------------------------------------------------------------------------


def test_every_source_is_used_and_can_be_found() -> None:
    curves = {curve.source for name in SYSTEMS for curve in store.system(name, curves=True)[0].curves}
    used = {datum.source for listed in ALL for datum in listed.values.values()} | curves
    assert used == set(store.sources())
    for source in store.sources().values():
        assert source.date, source.key
        assert not re.search(r"(google|bing|duckduckgo)\.[a-z]+/search|[?&]q=", source.url), source.key
        if source.key == "latency-numbers":
            continue  # gists and talks, which have no commits
        if "github.com" in source.url and not re.search(r"/(issues|pull)/\d+$", source.url):
            assert re.search(r"\b[0-9a-f]{8}\b|profiled by its authors", source.title), f"{source.key} names no commit"


def test_aliases_point_to_ids_and_no_two_names_collide() -> None:
    assert set(files.aliases()) <= set(store.KINDS)
    for kind in store.KINDS:
        aliases = files.aliases().get(kind, {})
        assert set(aliases) <= set(store.names(kind)), kind
        spelled = store.names(kind) + [alias for others in aliases.values() for alias in others]
        letters = [re.sub(r"[ _-]", "", name.casefold()) for name in spelled]
        assert len(letters) == len(set(letters)), kind


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.*")), ids=lambda path: path.relative_to(DATA).as_posix())
def test_a_data_file_is_plain_text_of_a_known_place(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    assert "\r" not in text
    assert not re.search(r"(^|[\s\"'=])/(work|tmp|root|home)/", text)
    assert path.suffix in {".toml", ".json", ".csv"}
    assert path.stem == path.stem.casefold()
    assert " " not in path.stem
    assert "_" not in path.stem


def test_the_version_is_a_date_and_a_checksum() -> None:
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?\+[0-9a-f]{8}", store.catalog_version())


@pytest.mark.parametrize("spelling", ["h100-sxm", "h100_sxm", "H100 SXM", "H100-SXM", "DGX-H100", "hgx_h100"])
def test_spelling_of_a_system_is_forgiven(spelling: str) -> None:
    assert store.system(spelling)[0].name == "h100-sxm"


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("meta-llama/Llama-3.1-70B", "llama-3.1-70b"),
        ("meta-llama/Meta-Llama-3.1-70B", "llama-3.1-70b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-405B", "llama-3.1-405b"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("Llama 3.1 70B", "llama-3.1-70b"),
    ],
)
def test_a_hugging_face_name_means_its_model(name: str, key: str) -> None:
    assert store.transformer(name)[0].name == key


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [("system", "h10-sxm", "h100-sxm"), ("model", "lama-3.1-70b", "llama-3.1-70b"), ("link", "nvlnk4", "nvlink4")],
)
def test_an_unknown_name_is_refused_with_the_known_ones(kind: str, name: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        store.find(kind, name, where="--on")
    assert caught.value.where == "--on"
    assert name in caught.value.what
    assert near in caught.value.allowed.split(", ")
    assert caught.value.do == f"Did you mean '{near}'?"


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"there is no kind 'systems'.*Did you mean 'system'\?"):
        entries("systems")


# --- nouns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("engine", store.names("engine"))
def test_every_input_of_a_scenario_has_an_origin_with_its_value(name: str, engine: str) -> None:
    system, of_system = store.system(name)
    stack, of_stack = store.stack(engine, architecture=system.device.architecture)
    scenario = Scenario(
        transformer=store.transformer("qwen3-8b")[0],
        system=system,
        layout=Layout(tensor_parallel=8),
        workload=Workload(batch=1.0, context_tokens=1024.0, weight_dtype="bf16", kv_dtype="bf16", kv_bytes=2.0),
        stack=stack,
    )
    inputs = {
        path: value
        for path, value in scenario.inputs()
        if path.startswith(("system.", "stack.")) and not path.startswith("stack.remedies.")
    }
    # A tuner's rates on one node and on many are a table of their own: cited, and not set one by one.
    tabled = (".in_node.", ".many_nodes.", ".correction", ".plateau")
    cited = of_system | of_stack
    origins = {path: datum for path, datum in cited.items() if not any(part in path for part in tabled)}
    assert set(origins) == set(inputs) | {"system.fabric.devices_per_node"}
    for path, value in inputs.items():
        assert origins[path].value == value, path


def test_h100_is_what_its_sources_say() -> None:
    system, origins = store.system("h100-sxm")
    assert system.device.memory_bytes == 81559 * 2**20
    assert origins["system.device.memory_bytes"].low == 80e9
    assert origins["system.device.memory_bytes"].high == 80 * 2**30
    assert system.device.memory_bandwidth_bytes_per_s == 3.35e12
    assert (system.device.bf16_flop_per_s, system.device.fp8_flop_per_s) == (989e12, 1979e12)
    assert (system.fabric.devices_per_node, system.fabric.nics_per_node) == (8, 8.0)
    assert system.fabric.intra_node.bandwidth_bytes_per_s == 450e9
    assert system.fabric.inter_node.bandwidth_bytes_per_s == 50e9
    assert system.fabric.inter_node.latency_s == 5e-6
    assert system.measured_fabric is system.fabric


def test_conflicts_between_sources_are_kept() -> None:
    memory = store.system("b200-sxm")[1]["system.device.memory_bandwidth_bytes_per_s"]
    assert (memory.value, memory.low) == (8.0e12, 7.67e12)
    link = store.system("h100-sxm")[1]["system.fabric.intra_node.bandwidth_bytes_per_s"]
    assert link.low == pytest.approx(18 * 20.6e9)


@pytest.mark.parametrize(
    ("name", "floor_s", "base_s"),
    [
        ("h100-sxm", 15.68e-6, 4.80e-6),
        ("h200-sxm", 16.04e-6, 4.71e-6),
        ("b200-sxm", 25.65e-6, 7.58e-6),
        ("a100-sxm", 21.53e-6, 8.33e-6),
    ],
)
def test_the_step_inside_a_node_gives_the_measured_floor_of_8_ranks(name: str, floor_s: float, base_s: float) -> None:
    step_s = store.system(name)[0].fabric.intra_node.latency_s
    assert base_s + 2 * (8 - 1) * step_s == pytest.approx(floor_s, rel=0.02)


def test_a_dtype_without_units_has_the_peak_it_is_converted_to() -> None:
    a100, h100 = store.system("a100-sxm")[0].device, store.system("h100-sxm")[0].device
    assert a100.fp8_flop_per_s == a100.fp4_flop_per_s == a100.bf16_flop_per_s
    assert h100.fp4_flop_per_s == h100.bf16_flop_per_s < h100.fp8_flop_per_s


@pytest.mark.parametrize(
    ("name", "parameters"),
    [  # as the weight files of each repository count them
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("llama-3.1-405b", 405_853_388_800),
        ("qwen3-8b", 8_190_735_360),
        ("qwen3-32b", 32_762_123_264),
    ],
)
def test_a_model_has_the_parameters_of_its_weight_files(name: str, parameters: int) -> None:
    transformer, datum = store.transformer(name)
    assert transformer.parameters == parameters
    assert datum.value == parameters
    assert transformer.weight_dtype == "bf16"


def test_two_nodes_of_8_h100_take_25_2_us_by_the_tuners_tree() -> None:
    library, _ = store.library("vllm", architecture="hopper")
    tree: Any = library.tuner.tree_ll
    fixed = float(tree.base_s) + 2 * (7 * float(tree.intra_step_s) + 1 * float(tree.inter_step_s))
    assert fixed == pytest.approx(25.20e-6, rel=1e-12)


@pytest.mark.parametrize("architecture", ["ampere", "hopper", "blackwell"])
def test_tuner_paths_are_what_they_are_called(architecture: str) -> None:
    library, origins = store.library("nccl", architecture=architecture)
    for name in ("tree_ll", "tree_ll128", "tree_simple", "ring_ll", "ring_ll128", "ring_simple"):
        path = getattr(library.tuner, name)
        assert path.algorithm == (Algorithm.CHAIN_TREE if name.startswith("tree") else Algorithm.RING)
        assert path.protocol.casefold() == name.split("_")[1]
        assert 0 < path.bandwidth_share <= 1
        assert (
            path.bandwidth_limit_bytes_per_s == origins[f"stack.library.tuner.{name}.bandwidth_limit_bytes_per_s"].value
        )
    tree: Any = library.tuner.tree_ll
    assert tree.bandwidth_limit_bytes_per_s == (22.5e9 if architecture == "ampere" else 39e9), (
        "across nodes the row is that of the CPU"
    )


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(InputError, match=r"no limits for the architecture 'hoper'.*hopper.*Did you mean 'hopper'\?"):
        store.stack("vllm", architecture="hoper")


@pytest.mark.parametrize("name", store.names("library"))
def test_no_kernel_that_reads_its_peers_crosses_a_nic(name: str) -> None:
    library, _ = store.library(name, architecture="hopper")
    assert not {Algorithm.ONE_SHOT, Algorithm.TWO_SHOT, Algorithm.NVLS} & set(library.across_nodes)
    assert library.tuner_factor == 1.0


def test_a_stack_takes_another_library_and_mode() -> None:
    stack, origins = store.stack("sglang", library="NCCL", mode="Eager", architecture="blackwell")
    assert (stack.engine, stack.library.name, stack.mode) == ("sglang", "nccl", Mode.EAGER)
    assert "stack.library.tuner_factor" in origins
    own, _ = store.stack("TensorRT-LLM", architecture="hopper")
    assert (own.engine, own.library.name, own.mode) == ("trtllm", "trtllm", Mode.GRAPH)
    with pytest.raises(InputError, match=r"'grph'.*graph, eager, host"):
        store.stack("vllm", mode="grph", architecture="hopper")


def test_curves_are_read_only_when_asked_for() -> None:
    assert store.system("h100-sxm")[0].curves == ()
    curves = store.system("h100-sxm", curves=True)[0].curves
    assert {curve.key.library for curve in curves} >= {"vllm", "sglang", "trtllm", "nccl"}
    assert {curve.key.system for curve in curves} == {"h100-sxm"}


def test_what_a_caller_does_to_origins_stays_with_the_caller() -> None:
    for _ in range(2):
        for origins in (
            store.system("h100-sxm")[1],
            store.stack("vllm", architecture="hopper")[1],
            store.library("vllm", architecture="hopper")[1],
            store.link("nvlink4")[1],
        ):
            assert origins
            origins.clear()


@pytest.mark.parametrize(
    ("name", "latency_s", "bandwidth_bytes_per_s"),
    [
        ("nvlink4", 0.779e-6, 450e9),
        ("ib-ndr", 5e-6, 50e9),
        ("NDR", 5e-6, 50e9),
        ("efa-v2", 20e-6, 50e9),  # 3200 Gb/s of a node, shared by 8
        ("h100-nvswitch", 1.8725e-6, 400 * 2**30),
        ("ici-v5e", 1e-6, 45e9),
        ("roce-100g", 5e-6, 12.5e9),
    ],
)
def test_a_link_is_that_of_one_device_one_way(name: str, latency_s: float, bandwidth_bytes_per_s: float) -> None:
    link, origins = store.link(name)
    assert link.latency_s == pytest.approx(latency_s, rel=1e-12)
    assert link.bandwidth_bytes_per_s == pytest.approx(bandwidth_bytes_per_s, rel=1e-12)
    assert set(origins) == {"latency_s", "bandwidth_bytes_per_s"}


def test_the_listing_can_be_narrowed() -> None:
    assert {listed.kind for listed in entries()} == set(listing.KINDS) > set(store.KINDS)
    assert [listed.name for listed in entries("system")] == SYSTEMS
    (only,) = entries("link", "NDR")
    assert (only.kind, only.name) == ("link", "ib-ndr")
    assert only.title
    paths = {path for listed in entries("library", "nccl") for path in listed.values}
    assert "stack.library.tuner.tree_ll.bandwidth_limit_bytes_per_s.blackwell" in paths

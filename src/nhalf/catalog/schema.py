"""The shapes of the catalogue's files: the entries made of values.

A field is named like the field of the noun it fills, without the unit: `latency = { value = "5 us", ... }` fills
`latency_s`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, get_args

import msgspec

from nhalf.catalog.values import Bandwidth, Count, FlopRate, Rate, Ratio, Size, Table, Time, Value, data
from nhalf.citation import Kind  # noqa: TC001
from nhalf.collective import Algorithm, Mode, Op
from nhalf.fabric import Topology
from nhalf.library import Family, Ranks  # noqa: TC001
from nhalf.transport import Known  # noqa: TC001

__all__ = ["Bandwidth", "Count", "FlopRate", "Rate", "Ratio", "Size", "Time", "Value", "data", "value_fields"]


class LinkEntry(Table, frozen=True, kw_only=True):
    """The two numbers of a link."""

    latency: Time
    bandwidth: Bandwidth


class NamedLink(LinkEntry, frozen=True, kw_only=True):
    """A link of the catalogue of links; `transport` is the network stack that messages over it go through."""

    title: str
    transport: str = ""


class LinksFile(Table, frozen=True, kw_only=True):
    """A file of links by name."""

    links: dict[str, dict[str, Any]]


_UNMEASURED = Ratio(
    value="1",
    source="nhalf-priors",
    locator="what the memory sustains was not measured: the stack's own efficiency alone",
    kind="assumed",
    date="2026-11",
)


class DeviceEntry(Table, frozen=True, kw_only=True):
    """An accelerator; `streaming_efficiency` is what was measured of `memory_bandwidth`, where somebody did."""

    name: str
    architecture: str
    memory: Size
    memory_bandwidth: Rate
    bf16: FlopRate
    fp8: FlopRate
    fp4: FlopRate
    streaming_efficiency: Ratio = _UNMEASURED


class NamedDevice(Table, frozen=True, kw_only=True):
    """A file of the catalogue of devices: `title` is what a list shows."""

    title: str
    device: DeviceEntry


class SwitchesEntry(Table, frozen=True, kw_only=True):
    """The tree of switches between nodes, beyond the first switch."""

    nodes_per_leaf: Count
    hop_latency: Time
    oversubscription: Ratio
    leaves_per_pod: Count | None = None


class TorusEntry(Table, frozen=True, kw_only=True):
    """The shape of a torus of devices."""

    x: Count
    y: Count
    z: Count | None = None


class FabricEntry(Table, frozen=True, kw_only=True):
    """The tiers of a cluster, and how they hang together."""

    devices_per_node: Count
    nics_per_node: Count
    intra_node: LinkEntry
    inter_node: LinkEntry
    topology: Topology = Topology.SWITCH
    inter_rack: LinkEntry | None = None
    nodes_per_rack: Count | None = None
    switches: SwitchesEntry | None = None
    torus: TorusEntry | None = None
    devices_per_tray: Count | None = None


class TransportEntry(Table, frozen=True, kw_only=True):
    """What a collective pays to a network stack; `rests_on` says which measurements the constants are from."""

    title: str
    known: Known
    rests_on: str
    ll128: bool
    hop: Time
    payload: Time
    bulk: Time
    ll_bandwidth: Rate
    ll_tree_factor: Ratio
    ll128_share: Ratio
    tree_share: Ratio
    ring_share: Ratio
    nvls_share: Ratio
    exchange_share: Ratio
    depth_factor: Ratio
    peer: Time
    inject: Time
    doubt: Ratio
    switch: Ratio


class TransportsFile(Table, frozen=True, kw_only=True):
    """The file of transports by name."""

    transports: dict[str, dict[str, Any]]


class MeasuredEntry(Table, frozen=True, kw_only=True):
    """One measured collective of a cluster file: what it is of, where it comes from, and its points as texts.

    `processes` tells whether each rank had a process of its own or one drove them all; `noise` is that of one run [1].
    """

    op: Op
    ranks: int
    points: tuple[tuple[str, str], ...]
    nodes: int = 1
    library: str = ""
    version: str = ""
    mode: Mode = Mode.HOST
    dtype: str = ""
    processes: Literal["one a rank", "one", ""] = ""
    noise: str = ""
    file: str = ""
    sha256: str = ""
    date: str = ""
    tool: str = ""
    note: str = ""


class InModelEntry(Table, frozen=True, kw_only=True):
    """What a collective took inside a model, by a trace: the median of its calls, without waiting for other ranks."""

    op: str
    size: str
    time: str
    ranks: int
    count: float = 1.0
    file: str = ""
    date: str = ""


class SystemEntry(Table, frozen=True, kw_only=True):
    """A system: one file each. `curves` names the system whose node is the same, where the curves are that one's.

    `sibling` names one whose node is alike, whose curves stand in where there are no own ones. `transport` names the
    network stack between nodes; without it, it is that of the link between them. A cluster file holds besides what was
    `measured` there, the `constants` and the `band` of its stack, and collectives `in_model`.
    """

    title: str
    device: DeviceEntry
    fabric: FabricEntry
    curve_factor: Ratio
    curves: str = ""
    sibling: str = ""
    transport: str = ""
    measured: tuple[MeasuredEntry, ...] = ()
    constants: dict[str, Any] = msgspec.field(default_factory=dict)
    band: dict[str, float] = msgspec.field(default_factory=dict)
    in_model: tuple[InModelEntry, ...] = ()


class Constants(Table, frozen=True, kw_only=True):
    """The constants of a decode step."""

    memory_efficiency: Ratio
    kv_efficiency: Ratio
    flop_efficiency: Ratio
    prefill_efficiency: Ratio
    fp8_exponent: Ratio
    layer_time: Time
    step_time: Time
    sequence_time: Time
    collective_excess: Time
    host_launch: Time
    kernels_per_layer: Ratio
    software_factor: Ratio
    expert_efficiency: Ratio
    expert_prefill_efficiency: Ratio
    expert_layer_factor: Ratio
    fp4_expert_layer_factor: Ratio
    latent_layer_factor: Ratio
    linear_layer_factor: Ratio
    sparse_layer_factor: Ratio
    quantised_input_layer_factor: Ratio
    routing_concentration: Ratio
    unsharded_share: Ratio
    host_sharing: Ratio
    first_token_wait: Time
    first_token_steps: Ratio


SomeConstants: type[msgspec.Struct] = msgspec.defstruct(
    "SomeConstants",
    [(field.name, field.type | None, None) for field in msgspec.structs.fields(Constants)],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
"""Some of the constants of a decode step; the others stay what they are."""


class EngineEntry(Table, frozen=True, kw_only=True):
    """A serving engine, the library it brings and the mode it runs in unless told otherwise.

    `constants` are those of a decode step that are its own: tables as in `Constants`. `gathers_at_root` tells that its
    nodes send to one root over TCP sockets.
    """

    title: str
    library: str
    mode: Mode
    gathers_at_root: bool = False
    constants: dict[str, Any] = msgspec.field(default_factory=dict)


class LibraryEntry(Table, frozen=True, kw_only=True):
    """A communication library: what it can run where, and whose tuner plans for it across nodes.

    Where it is `planned`, that tuner's constants are the price of a path, too.
    """

    title: str
    in_node: tuple[Algorithm, ...]
    across_nodes: tuple[Algorithm, ...]
    tuner: str
    planned: bool = False


class TraysEntry(Table, frozen=True, kw_only=True):
    """On how many ranks a library's own kernel leaves a tray of an NVLink domain, and from which version on."""

    since: str
    most_ranks: Count


class FactorsEntry(Table, frozen=True, kw_only=True):
    """Factors that a tuner multiplies with, and where they stand; they are cited together, as one table."""

    factors: tuple[float, ...]
    source: str
    locator: str
    kind: Kind


class PathEntry(Table, frozen=True, kw_only=True):
    """One algorithm and protocol of a tuner, as far as the hardware does not matter.

    A step that is missing is the latency of the link; a share that is missing is that on two nodes.
    """

    algorithm: Algorithm
    protocol: str
    family: Family
    bandwidth_share: Ratio
    base: Time | None = None
    intra_step: Time | None = None
    inter_step: Time | None = None
    in_node_step: Time | None = None
    in_node_share: Ratio | None = None
    many_nodes_share: Ratio | None = None
    correction: FactorsEntry | None = None
    plateau: FactorsEntry | None = None


class PathsEntry(Table, frozen=True, kw_only=True):
    """The paths of a tuner."""

    tree_ll: PathEntry | None = None
    tree_ll128: PathEntry | None = None
    tree_simple: PathEntry | None = None
    ring_ll: PathEntry | None = None
    ring_ll128: PathEntry | None = None
    ring_simple: PathEntry | None = None
    nvls_simple: PathEntry | None = None
    nvls_tree_simple: PathEntry | None = None
    collnet_direct_simple: PathEntry | None = None
    collnet_chain_simple: PathEntry | None = None
    pat_simple: PathEntry | None = None


class PathLimitsEntry(Table, frozen=True, kw_only=True):
    """What each path of a tuner cannot exceed on one architecture and count of nodes."""

    tree_ll: Rate | None = None
    tree_ll128: Rate | None = None
    tree_simple: Rate | None = None
    ring_ll: Rate | None = None
    ring_ll128: Rate | None = None
    ring_simple: Rate | None = None
    nvls_tree_simple: Rate | None = None


class LimitsEntry(PathLimitsEntry, frozen=True, kw_only=True):
    """What each path of a tuner cannot exceed on one architecture: on two nodes, on one, and on three or more.

    `nvls_share` is how much of the bus its switches carry; without it the architecture has no such switches.
    """

    in_node: PathLimitsEntry | None = None
    many_nodes: PathLimitsEntry | None = None
    nvls_share: Ratio | None = None


class TunerEntry(Table, frozen=True, kw_only=True):
    """A tuner: its paths, what limits them by architecture, and the doubt about it all.

    `like` names the architecture whose limits another one takes.
    """

    factor: Ratio
    channels: Ratio
    paths: PathsEntry
    limits: dict[str, LimitsEntry]
    like: dict[str, str] = msgspec.field(default_factory=dict)


class SymmetricEntry(Table, frozen=True, kw_only=True):
    """What NCCL expects of its symmetric kernels on one architecture."""

    low_latency_base: Time
    base: Time
    bandwidth: Rate
    multicast_bandwidth: Rate


class FixedTimeEntry(Table, frozen=True, kw_only=True):
    """Parts of a collective's fixed time that no curve shows, and what was published of one across trays.

    `tray_kernel` and `tray_fallback` are 16 KiB on 16 GPUs of one rack, by a kernel that crosses trays and by the path
    of libraries that have none.
    """

    switch_hop: Time
    network_hop: Time
    graph_node: Time
    tray_kernel: Time
    tray_fallback: Time


class RuleEntry(Table, frozen=True, kw_only=True):
    """One rule of a library: the algorithms it runs in order of size, and up to which size each, by ranks.

    `limits` maps a number of ranks (`8`, `4-7`, `512+`) to one size for each algorithm but the last. `source` is one of
    the file's own table of sources.
    """

    library: str
    version: str
    op: Op
    algorithms: tuple[str, ...]
    limits: dict[str, tuple[str, ...]]
    source: str
    locator: str
    architectures: tuple[str, ...] = ()
    mode: Mode | None = None
    variant: str = ""
    only: Ranks = "any"
    per_pair: bool = False
    strict: bool = False
    note: str = ""


class RulesFile(Table, frozen=True, kw_only=True):
    """The file of the libraries' own rules, with their sources, and the systems whose switches add up."""

    sources: dict[str, dict[str, Any]]
    rules: dict[str, dict[str, Any]]


class SourceEntry(Table, frozen=True, kw_only=True):
    """A source."""

    title: str
    date: str
    url: str = ""
    licence: str = ""


class ModelOrigin(Table, frozen=True, kw_only=True):
    """Where a model's config.json comes from; the key `nhalf` of a model file."""

    source: str
    locator: str
    date: str


@cache
def value_fields() -> frozenset[str]:
    """Return the names of every field that holds a value, in whatever entry."""
    entries = [each for each in globals().values() if isinstance(each, type) and issubclass(each, Table)]
    return frozenset(
        field.name
        for each in entries
        if not issubclass(each, Value)
        for field in msgspec.structs.fields(each)
        if any(isinstance(kind, type) and issubclass(kind, Value) for kind in (field.type, *get_args(field.type)))
    )

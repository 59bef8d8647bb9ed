"""A communication library as values: what it can run where, and the constants its own tuner plans with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity
    from nhalf.collective import Algorithm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TunerPath:
    """The latency constants of one algorithm and protocol in NCCL's tuner.

    `base_s` [s] is charged once, `intra_step_s` and `inter_step_s` [s] for each step inside a node and between nodes;
    `bandwidth_share` is the part of the bus bandwidth that the protocol carries, `bandwidth_limit_bytes_per_s`
    [bytes/s] what it cannot exceed.
    """

    algorithm: Algorithm
    protocol: str
    base_s: Quantity
    intra_step_s: Quantity
    inter_step_s: Quantity
    bandwidth_share: Quantity
    bandwidth_limit_bytes_per_s: Quantity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tuner:
    """The paths that NCCL's tuner chooses between for an all-reduce that crosses nodes."""

    tree_ll: TunerPath
    tree_ll128: TunerPath
    tree_simple: TunerPath
    ring_ll: TunerPath
    ring_ll128: TunerPath
    ring_simple: TunerPath

    @property
    def paths(self) -> tuple[TunerPath, ...]:
        """Return every path, trees first."""
        return (self.tree_ll, self.tree_ll128, self.tree_simple, self.ring_ll, self.ring_ll128, self.ring_simple)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Library:
    """A communication library.

    `in_node` and `across_nodes` are the algorithms it can run there: a kernel that reads its peers' memory directly
    does not cross a NIC. `tuner_factor` multiplies a time that is the tuner's plan and no measurement: 1, with the
    doubt about such a path as its interval.
    """

    name: str
    in_node: tuple[Algorithm, ...]
    across_nodes: tuple[Algorithm, ...]
    tuner: Tuner
    tuner_factor: Quantity = 1.0

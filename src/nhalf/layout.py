"""A layout: how a model is split over devices, whether it can be, and which tiers its groups span."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nhalf.errors import InputError
from nhalf.transformer import GatedFeedForward

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nhalf.fabric import Fabric, Span
    from nhalf.transformer import Transformer

MOST = 1024
"""The largest degree of any kind that is looked for when a message lists the legal ones."""


MOST_DEVICES = 65_536
"""No replica of a model has more devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The devices that take part in one collective: `ranks` of them, each `stride` devices after the one before."""

    ranks: int
    stride: int = 1

    def span(self, fabric: Fabric) -> Span:
        """Return what the group spans; groups that interleave with it run at the same time and share its NICs."""
        if self.stride == 1:
            return fabric.span(self.ranks)
        whole = fabric.span(self.ranks * self.stride)
        nodes = min(whole.nodes, self.ranks)
        return replace(whole, ranks=self.ranks, nodes=nodes, rails=whole.rails / self.stride)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """Degrees of parallelism of one model; devices are numbered TP first, then context, attention-DP, stage, replica.

    `tensor_parallel` (TP) devices share every layer, `context_parallel` (CP) groups of them share each sequence's
    cache, `attention_dp` groups take different sequences through attention and meet at the experts, of which
    `expert_parallel` (EP) groups hold different ones. `pipeline_parallel` (PP) stages hold different layers, through
    which `micro_batches` parts of the batch follow each other; `replicas` serve other requests. `routed_exchange` says
    how tokens of attention-DP groups reach the experts: gathered by all, or each sent to where it is needed;
    `context_exchange` how the ranks of a CP group see each other's part of a prompt: gathered before attention, or
    passed around while it runs.
    """

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    attention_dp: int = 1
    context_parallel: int = 1
    replicas: int = 1
    micro_batches: int | None = None
    routed_exchange: Literal["all-gather", "all-to-all"] = "all-gather"
    context_exchange: Literal["all-gather", "ring"] = "all-gather"

    @property
    def stage_devices(self) -> int:
        """Return how many devices hold one stage."""
        return self.tensor_parallel * self.context_parallel * self.attention_dp

    @property
    def devices(self) -> int:
        """Return how many devices one replica uses."""
        return self.stage_devices * self.pipeline_parallel

    @property
    def expert_devices(self) -> int:
        """Return how many devices share the experts of a layer: TP x attention-DP, as engines count them."""
        return self.tensor_parallel * self.attention_dp

    @property
    def moe_tensor_parallel(self) -> int:
        """Return over how many devices each expert is split."""
        return self.expert_devices // self.expert_parallel

    @property
    def tensor_group(self) -> Group:
        """Return the devices that share each layer."""
        return Group(ranks=self.tensor_parallel)

    @property
    def context_group(self) -> Group:
        """Return the devices that share each sequence's cache."""
        return Group(ranks=self.context_parallel, stride=self.tensor_parallel)

    @property
    def expert_group(self) -> Group:
        """Return the devices that share a layer's experts."""
        return Group(ranks=self.expert_devices)

    @property
    def name(self) -> str:
        """Return the layout in short: TP8, TP4 PP2, TP1 DP8 EP8."""
        degrees = (
            ("TP", self.tensor_parallel), ("PP", self.pipeline_parallel), ("CP", self.context_parallel),
            ("DP", self.attention_dp), ("EP", self.expert_parallel), ("x", self.replicas),
        )  # fmt: skip
        return " ".join(f"{letters}{degree}" for letters, degree in degrees if degree > 1 or letters == "TP")

    def nodes(self, fabric: Fabric) -> int:
        """Return how many nodes one replica needs."""
        return -(-self.devices // fabric.devices_per_node)

    def crossing_boundaries(self, fabric: Fabric) -> int:
        """Return at how many of the pp - 1 stage boundaries some device hands over to another node."""
        size, node = self.stage_devices, fabric.devices_per_node
        return sum(
            any((first + rank) // node != (first + size + rank) // node for rank in range(size))
            for first in range(0, size * (self.pipeline_parallel - 1), size)
        )


def check(layout: Layout, transformer: Transformer, fabric: Fabric) -> None:
    """Refuse a layout that the model or the machine does not allow.

    Raises
    ------
    InputError
        A degree that does not divide what it splits, or that has nothing to split; the message names the legal ones.
    """
    for rule in _RULES:
        rule(layout, transformer, fabric)


def _refuse(flag: str, degree: int, why: Callable[[int], str], subject: str) -> None:
    """Raise when there is a reason against a degree, with the degrees that have none."""
    reason = "it is below 1" if degree < 1 else why(degree)
    if reason:
        legal = _listed([candidate for candidate in range(1, MOST + 1) if not why(candidate)])
        raise InputError(f"{flag[2:].upper()} {degree} cannot split {subject}: {reason}", where=flag, allowed=legal)


def _listed(numbers: list[int]) -> str:
    """Return numbers that rise as a text, with long runs in short: `1 to 80`, `1, 2, 4, 8`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    short = 3
    texts = (f"{run[0]} to {run[-1]}" if len(run) > short else ", ".join(map(str, run)) for run in runs)
    return ", ".join(texts)


def _tensor(layout: Layout, transformer: Transformer, fabric: Fabric) -> None:
    """Check TP against heads, feed-forward widths and nodes."""

    def why(degree: int) -> str:
        return next((reason for reason in _tensor_reasons(degree, transformer, fabric) if reason), "")

    _refuse("--tp", layout.tensor_parallel, why, transformer.name)


def _tensor_reasons(degree: int, transformer: Transformer, fabric: Fabric) -> Iterator[str]:
    """Yield what each kind of block, and the nodes, have against a TP degree; empty where they have nothing."""
    for layer in transformer.layers:
        if layer.attention is not None:
            yield layer.attention.refusal(degree)
        width = getattr(layer.feed_forward, "intermediate_size", degree)
        if isinstance(layer.feed_forward, GatedFeedForward) and width % degree:
            yield f"it does not divide the feed-forward width {width}"
    yield _whole_nodes(degree, fabric)


def _whole_nodes(degree: int, fabric: Fabric) -> str:
    """Return why a group of consecutive devices does not sit well on nodes, or an empty string."""
    per_node = fabric.devices_per_node
    return f"it does not fill whole nodes of {per_node}" if degree > per_node and degree % per_node else ""


def _pipeline(layout: Layout, transformer: Transformer, fabric: Fabric) -> None:
    """Check PP against the number of layers."""
    del fabric
    count = transformer.layer_count

    def why(degree: int) -> str:
        return f"it has {count} layers" if degree > count else ""

    _refuse("--pp", layout.pipeline_parallel, why, transformer.name)


def _experts(layout: Layout, transformer: Transformer, fabric: Fabric) -> None:
    """Check EP and attention-DP, which need experts to meet at."""
    mixture = transformer.mixture
    for flag, degree in (("--ep", layout.expert_parallel), ("--attention-dp", layout.attention_dp)):
        if degree > 1 and mixture is None:
            do = "use --replicas for data parallelism of a dense model" if flag == "--attention-dp" else ""
            raise InputError(f"{transformer.name} has no experts", where=flag, allowed="1", do=do)
    if mixture is None:
        return
    group = layout.expert_devices

    def why(degree: int) -> str:
        if degree > mixture.experts:
            return f"it has {mixture.experts} experts"
        if mixture.experts % degree:
            return f"it does not divide {mixture.experts} experts"
        if group % degree:
            return f"it does not divide TP x attention-DP = {group} devices"
        if mixture.intermediate_size % (group // degree):
            return f"it leaves TP {group // degree} for experts of width {mixture.intermediate_size}"
        return ""

    _refuse("--ep", layout.expert_parallel, why, transformer.name)
    reason = _whole_nodes(layout.stage_devices, fabric)
    if reason:
        raise InputError(f"{layout.stage_devices} devices a stage: {reason}", where="--attention-dp")


def _context(layout: Layout, transformer: Transformer, fabric: Fabric) -> None:
    """Check CP against caches to split, and nodes."""
    cached = any(part.attention.kv_elements(1) for part in transformer.cache_parts())
    others = layout.tensor_parallel * layout.attention_dp

    def why(degree: int) -> str:
        if degree > 1 and not cached:
            return "it keeps no cache of tokens"
        reason = _whole_nodes(others * degree, fabric) if degree > 1 else ""
        return f"with {others} devices each, {reason}" if reason else ""

    _refuse("--cp", layout.context_parallel, why, transformer.name)


def _size(layout: Layout, transformer: Transformer, fabric: Fabric) -> None:
    """Check the devices of a replica."""
    del transformer, fabric
    degrees = {
        "--tp": layout.tensor_parallel, "--pp": layout.pipeline_parallel, "--attention-dp": layout.attention_dp,
        "--cp": layout.context_parallel, "--ep": layout.expert_parallel,
    }  # fmt: skip
    if max(layout.devices, layout.expert_parallel) > MOST_DEVICES:
        most = max(degrees, key=lambda flag: degrees[flag])
        what = f"{layout.devices:,} devices of one replica are beyond reason"
        raise InputError(what, where=most, allowed=f"up to {MOST_DEVICES:,} devices")


_RULES = (_size, _tensor, _pipeline, _experts, _context)

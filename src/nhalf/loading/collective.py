"""What `nhalf collective` was asked: an operation on a group of ranks, on a system or on a bare link, by size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.catalog import store
from nhalf.catalog.curves import find, of_cluster, of_library
from nhalf.collective import Mode, Op
from nhalf.curve import preferred
from nhalf.decide.choice import drawn
from nhalf.decide.collective_case import Question
from nhalf.decide.fixed_time import launch_pairs
from nhalf.errors import InputError, did_you_mean
from nhalf.fabric import Span, Topology
from nhalf.laws.across_nodes import place
from nhalf.laws.collective.table import LAWS
from nhalf.laws.domain import nccl_in_domain
from nhalf.loading import clusters
from nhalf.loading.links import link as read_link
from nhalf.loading.message_sizes import DOUBLING, nccl_size, parse_sizes, size_factor, size_range
from nhalf.predict.band import TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.citation import Datum
    from nhalf.curve import MeasuredCurve
    from nhalf.decide.fixed_time import Pair
    from nhalf.fabric import Fabric
    from nhalf.library import Library, Rule
    from nhalf.system import System

LEAST_RATE, MOST_RATE = 1e6, 1e18
"""Arithmetic of a collective runs at no rate beyond these [bytes/s]."""
SIZES: Final = "1KiB:1GiB"
LIBRARY: Final = "vllm"
HELP: Final = ("nvls", "sharp", "torus")
"""What a machine may have beyond links that `--has` can name."""
_MOST_RANKS: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments as text; None where a default is to be taken."""

    op: str
    link: tuple[str, ...] = ()
    system: str | None = None
    ranks: str | None = None
    nodes: str | None = None
    sizes: str | None = None
    library: str | None = None
    mode: str | None = None
    has: str | None = None
    reduce_at: str | None = None
    first: str | None = None
    last: str | None = None
    factor: str | None = None
    gpus: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """The question, the sizes asked for [bytes], what it is about in words, and what it rests on.

    `system` is empty for a bare link. `pairs` are graphed and eager curves of the machine, or of every machine where it
    has none; `others` are the library's rules that it does not follow by default.
    """

    question: Question
    sizes_bytes: list[float]
    subject: str
    library: str
    origins: Mapping[str, Datum] = field(default_factory=dict)
    defaults: tuple[tuple[str, str], ...] = ()
    pairs: tuple[Pair, ...] = ()
    others: tuple[Rule, ...] = ()
    system: str = ""


def groups(asked: Asked) -> list[Asked]:
    """Return a question for each system, each number of ranks and each number of nodes that ranks divide evenly over.

    Raises
    ------
    InputError
        A number that is none, or no number of ranks divides over any number of nodes.
    """
    ranks: list[int | None] = [None]
    if asked.ranks is not None:
        texts = asked.ranks.split(",")
        thousands = any(each.startswith("0") for each in texts)  # 1,024 is one number, which says how to write it
        ranks = [_ranks(replace(asked, ranks=each)) for each in ([asked.ranks] if thousands else texts)]
    nodes = [None if asked.nodes is None else units.parse_count(each, where="--nodes")
             for each in (asked.nodes or "").split(",")]  # fmt: skip
    pairs = [
        (group, over) for group, over in product(ranks, nodes) if group is None or over is None or group % over == 0
    ]
    if not pairs:
        raise InputError(f"{asked.ranks} ranks do not divide over {asked.nodes} nodes", where="--nodes",
                         allowed="divisors of --ranks")  # fmt: skip
    systems = [system.strip() or None for system in (asked.system or "").split(",")]
    return [
        replace(asked, system=system, ranks=group and str(group), nodes=over and str(over))
        for system, (group, over) in product(systems, dict.fromkeys(pairs))
    ]


def load_all(asked: Asked) -> dict[str, Loaded]:
    """Return every question that the arguments ask, by its system, its ranks and its nodes, as far as several differ.

    Of several groups those are left out that a system has no room for.

    Raises
    ------
    InputError
        As `load`, where no group is left.
    """
    found: dict[str, Loaded] = {}
    refused: list[InputError] = []
    every = groups(asked)
    for each in every:
        try:
            loaded = load(each)
        except InputError as error:
            if len(every) == 1 or error.where not in ("--ranks", "--nodes"):
                raise
            refused.append(error)
            continue
        named = [each.system or ""] * (len({one.system for one in every}) > 1)
        if len({(one.ranks, one.nodes) for one in every}) > 1:
            several = loaded.question.span.nodes > 1 or asked.nodes
            named.append(f"{each.ranks} ranks" + (f", {_nodes(loaded.question.span)}" if several else ""))
        found[", ".join(named) or str(each.system)] = loaded
    if not found:
        raise refused[0]
    return found


def load(asked: Asked) -> Loaded:
    """Return the question that the arguments ask, of one system and one group.

    Raises
    ------
    InputError
        An unknown name, an impossible size or number of ranks, a missing unit, or a link and a system at once.
    """
    op = Op.parse(asked.op, where="OP")
    ranks = _ranks(asked)
    sizes, said = _sizes(asked)
    gamma = 0.0
    if asked.reduce_at is not None:
        rate = units.parse(asked.reduce_at, "bandwidth", where="--reduce-at")
        if not LEAST_RATE <= rate <= MOST_RATE:
            allowed = f"{units.format_bandwidth(LEAST_RATE)} to {units.format_bandwidth(MOST_RATE)}"
            raise InputError(f"{asked.reduce_at!r} is beyond reason", where="--reduce-at", allowed=allowed)
        gamma = 1.0 / rate
    if asked.system is None:
        loaded = _on_link(asked, op, ranks, sizes)
    elif asked.link:
        raise InputError("a link and --on are both given", where="nhalf collective", allowed="one of the two")
    else:
        loaded = _on_system(asked, op, ranks, sizes)
    question = replace(loaded.question, reduce_s_per_byte=gamma)
    return replace(loaded, question=question, defaults=(*said, *loaded.defaults))


def _on_link(asked: Asked, op: Op, ranks: int, sizes: list[float]) -> Loaded:
    """Return a question on a bare link, where nothing is known of libraries."""
    for flag, given in (("--library", asked.library), ("--mode", asked.mode), ("--nodes", asked.nodes)):
        if given is not None:
            what = "nodes" if flag == "--nodes" else "library"
            raise InputError(f"a bare link has no {what}", where=flag, do="add --on SYSTEM, or leave it out")
    if not asked.link:
        raise InputError(
            "neither a system nor a link is given", where="--on", do="add --on h100-sxm, or 5us 400GB/s after OP"
        )
    if len(asked.link) > 2:  # noqa: PLR2004  a latency and a bandwidth
        raise InputError("too many arguments", where="nhalf collective", allowed="OP LATENCY BANDWIDTH, or OP NAME")
    link, origins = read_link(asked.link)
    span = Span(ranks=ranks, nodes=1, intra=link, inter=link, rails=1.0)
    question = Question(op=op, span=span, has=frozenset({"peer memory"}) | _has(asked.has))
    return Loaded(
        question=question, sizes_bytes=sizes, subject=f"{ranks} ranks, {' '.join(asked.link)}", library="",
        origins=origins,
    )  # fmt: skip


def _on_system(asked: Asked, op: Op, ranks: int, sizes: list[float]) -> Loaded:
    """Return a question on a system of the catalogue, with the library's rule and what was measured of it."""
    mode = Mode.parse(asked.mode or "graph", where="--mode")
    system, origins = store.system(asked.system or "", curves=True, where="--on")
    system = _spread(system, ranks, asked.nodes)
    _check_ranks(ranks, system.fabric)
    measured = None if asked.library else clusters.library_of(system, LIBRARY)
    name = store.find("library", asked.library or measured or LIBRARY, where="--library")
    architecture = system.device.architecture
    library, constants = store.library(name, architecture=architecture)
    span = system.fabric.span(ranks)
    registered = op == Op.ALL_REDUCE and span.nodes == 1 and system.fabric.topology == Topology.SWITCH
    kernels, of_kernels = store.symmetric(architecture) if registered else (None, {})
    has = _of_machine(system, span, library) | _has(asked.has)
    rules = [rule for rule in store.rules() if rule.library == name and rule.op == op]
    holding = [rule for rule in rules if rule.holds(ranks, architecture, mode)]
    # As in a step: the user's own curves of NCCL stand for what it takes inside a node.
    known = replace(system, curves=of_library(system.curves, name, mode))
    where = place(op, span, known, library)
    drawing = None if where is None else replace(where, transport=drawn(where.transport, origins))
    shown = ("system.fabric.",) if where is None else ("system.fabric.", TRANSPORT)
    question = Question(
        op=op,
        span=span,
        has=has,
        place=where,
        doubtful=drawing,
        domain=known if library.at_home and nccl_in_domain(op, 1.0, ranks, known) else None,
        library=library,
        rule=_rule(holding, span, system.fabric, has),
        curve=_curve(system, name, mode, op, ranks) or clusters.moved_curve(system, name, mode, op, ranks),
        mode=mode,
        symmetric=kernels,
        doubt=_doubt(constants["stack.library.tuner_factor"]),
        nics=system.fabric.inter_rack is None or span.racks > 1,
    )
    why = "measured there" if measured else "the most used"
    said = [("--library", name, why)] if asked.library is None else []
    said += [("--mode", str(mode), "engines decode in CUDA graphs")] if asked.mode is None else []
    said += clusters.of_curve(question.curve)
    pairs = launch_pairs(system.curves) or [
        pair
        for other in store.names("system")
        for pair in launch_pairs([each for each in store.measured(other) if not each.lent_to])
    ]
    return Loaded(
        question=question,
        sizes_bytes=sizes,
        subject=f"{ranks} ranks of {system.name}" + (f" on {_nodes(span)}" if asked.nodes else ""),
        library=name,
        origins={
            **{path: datum for path, datum in (origins | constants).items() if path.startswith(shown)},
            **{f"stack.library.symmetric.{name}": datum for name, datum in of_kernels.items()},
        },
        defaults=tuple((flag, f"{value}: {why}") for flag, value, why in said),
        pairs=tuple(pairs),
        others=tuple(rule for rule in holding if rule.variant),
        system=system.name,
    )


def _nodes(span: Span) -> str:
    """Return how many nodes a span has, in words."""
    return f"{span.nodes} node{'s' * (span.nodes > 1)}"


def _of_machine(system: System, span: Span, library: Library) -> frozenset[str]:
    """Return what a machine has beyond links, as far as the catalogue says.

    Peers' memory can be read inside a node, but on a torus only that of neighbours. Switches add up where
    a node of several devices has them and the tuner of the architecture counts on them; two devices on one cable have
    no switch.
    """
    fabric = system.fabric
    has = {"peer memory"} if span.nodes == 1 and fabric.topology != Topology.TORUS else set()
    switched = fabric.topology == Topology.SWITCH and fabric.devices_per_node > 2  # noqa: PLR2004
    if switched and library.tuner.has_nvls:
        has.add("nvls")
    if fabric.topology == Topology.TORUS:
        has.add("torus")
    return frozenset(has)


def _rule(rules: Sequence[Rule], span: Span, fabric: Fabric, has: frozenset[str]) -> Rule | None:
    """Return the rule that a library follows by default on a span, or None where its tuner decides alone.

    A kernel of one node does not cross it, and those of vLLM, SGLang and TensorRT-LLM leave more than two devices on
    PCIe to NCCL. Rules that count on peers' memory, or on switches which add up, hold only where there is such.
    """
    if fabric.devices_per_tray is not None and fabric.devices_per_tray < span.ranks:
        return None
    for rule in rules:
        hands_over = "nccl" in rule.algorithms
        beyond = span.nodes > 1 or (fabric.topology == Topology.HOST and span.ranks > 2)  # noqa: PLR2004
        lacks = {law.needs for law in map(LAWS[rule.op].get, rule.algorithms) if law is not None and law.needs} - has
        if rule.variant or lacks or (hands_over and beyond):
            continue
        return rule
    return None


def _curve(system: System, library: str, mode: Mode, op: Op, ranks: int) -> MeasuredCurve | None:
    """Return the curve of a library on a system that holds a number of ranks, or None."""
    nodes = system.fabric.span(ranks).nodes
    alike = [own for own in of_cluster(system.curves, library, mode) if own.key.op == op and own.nodes == nodes]
    if (own := preferred(alike, ranks)) is not None:
        return own
    # The newest version may have been measured on fewer ranks than an older one.
    curve = find([each for each in system.curves if each.covers(ranks)], library, mode=mode, op=op)
    within = curve is not None
    return curve if within and ranks <= system.fabric.devices_per_node else None


def _doubt(factor: Datum) -> tuple[float, float]:
    """Return the factors between which a plan may be off: the interval of the tuner's factor."""
    low, high = factor.low, factor.high
    return (factor.value if low is None else low, factor.value if high is None else high)


def _has(text: str | None) -> frozenset[str]:
    """Return what `--has` names."""
    names = [] if text is None else [name.strip().casefold() for name in text.split(",")]
    for name in names:
        if name not in HELP:
            raise InputError(
                f"{name!r} is nothing that an algorithm needs", where="--has", allowed=", ".join(HELP),
                do=did_you_mean(name, HELP),
            )  # fmt: skip
    return frozenset(names)


# --- ranks and sizes --------------------------------------------------------------------------------------------------


def _ranks(asked: Asked) -> int:
    """Return the number of ranks, from --ranks or nccl-tests' -g."""
    given = [(flag, text) for flag, text in (("--ranks", asked.ranks), ("-g", asked.gpus)) if text is not None]
    if not given:
        raise InputError("the number of ranks is missing", where="--ranks", do="add --ranks 8")
    counts = {units.parse_count(text, where=flag) for flag, text in given}
    if len(counts) > 1:
        raise InputError("--ranks and -g differ", where="-g", allowed="one of the two")
    ranks = counts.pop()
    if ranks == 1:
        raise InputError("one rank waits for nobody", where=given[0][0], allowed="2 or more ranks")
    if ranks > _MOST_RANKS:
        raise InputError(f"{ranks} ranks are more than any machine has", where=given[0][0],
                         allowed=f"2 to {_MOST_RANKS}")  # fmt: skip
    return ranks


def _spread(system: System, ranks: int, nodes: str | None) -> System:
    """Return a system whose nodes hold as many of its devices as put the ranks on so many nodes.

    A rank keeps the NICs that are its share of a full node.
    """
    if nodes is None:
        return system
    fabric, count = system.fabric, units.parse_count(nodes, where="--nodes")
    each, full = ranks // count, fabric.devices_per_node
    if each > full:
        raise InputError(f"{ranks} ranks do not fit on {count} node{'s' * (count > 1)} of {full}", where="--nodes",
                         allowed=f"{-(-ranks // full)} or more")  # fmt: skip
    if count == 1 or each == full:
        return system
    nics = fabric.nics_per_node * each / full
    return replace(system, fabric=replace(fabric, devices_per_node=each, nics_per_node=nics))


def _check_ranks(ranks: int, fabric: Fabric) -> None:
    """Refuse a group that leaves a node half full."""
    per_node = fabric.devices_per_node
    if ranks > per_node and ranks % per_node:
        raise InputError(
            f"{ranks} ranks do not fill whole nodes of {per_node}",
            where="--ranks",
            allowed=f"2 to {per_node}, or a multiple of {per_node}",
        )


def _sizes(asked: Asked) -> tuple[list[float], tuple[tuple[str, str], ...]]:
    """Return the sizes [bytes], and what was taken for them where nothing was given."""
    if asked.first is not None or asked.last is not None or asked.factor is not None:
        if asked.sizes is not None:
            raise InputError("--sizes and nccl-tests' -b, -e, -f are both given", where="-b", allowed="one of the two")
        first = nccl_size(asked.first or asked.last or "", where="-b" if asked.first else "-e")
        last = nccl_size(asked.last or asked.first or "", where="-e" if asked.last else "-b")
        factor = size_factor(asked.factor, "-f") if asked.factor is not None else DOUBLING
        return size_range(first, last, factor, "-b, -e"), ()
    if asked.sizes is None:
        return parse_sizes(SIZES), (("--sizes", f"{SIZES}: from messages of one token to those of training"),)
    return parse_sizes(asked.sizes), ()

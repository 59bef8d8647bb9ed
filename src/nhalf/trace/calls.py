"""Calls: what was found of communication in one rank's events, given an operation, a size and a group."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np

from nhalf.collective import Op
from nhalf.trace import sizes
from nhalf.trace.events import Args
from nhalf.trace.recognition import Seen, operation
from nhalf.trace.record import Calls, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.trace.record import Header, Ints, SizeSource

_US = 1e-6
MOST_RANKS = 10_000_000
_TENSOR_OF_OP = (
    (re.compile(r"aiter::fused_allreduce_rmsnorm_$"), 0),
    (re.compile(r"aiter::fused_allreduce_rmsnorm$"), 2),
    (re.compile(r"custom_ar|qr_all_reduce|custom_all_reduce"), 1),
)
"""Which input of a custom operator is the tensor: AMD-AGI/TraceLens at 171dd747, custom collectives (described)."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One communication event: start and length [us], kernel or range name, arguments, gloo's worker thread."""

    start: float
    length: float
    name: str
    seen: Seen | None = None
    args: Args | None = None
    thread: object = None


class Context(Protocol):
    """The operators, launches and groups of a trace, from which calls get their size and group."""

    parameters: dict[int, Any]
    enqueued: list[tuple[float, str]]
    launches: dict[int, float]


def calls_of(
    found: Sequence[Found], context: Context, header: Header, rank: int
) -> tuple[Calls, tuple[Kind, ...], Ints]:
    """Return the calls in the order of their starts, their kinds, and the graph launch of each (-1 for none)."""
    ordered = sorted(found, key=lambda one: one.start)
    scattered = _reduce_scatters(ordered, context.enqueued)
    kinds: dict[Kind, int] = {}
    cache: dict[object, int] = {}
    kind = np.empty(len(ordered), dtype=np.int64)
    seq, launch = np.full(len(ordered), -1, dtype=np.int64), np.full(len(ordered), -1, dtype=np.int64)
    launched = np.full(len(ordered), np.nan)
    for i, one in enumerate(ordered):
        key = _key(one, context) if i not in scattered else None
        if key is None or key not in cache:
            made = _Describe(one, context, header, rank).kind(reduce_scatter=i in scattered)
            cache[key if key is not None else (i,)] = kinds.setdefault(made, len(kinds))
            kind[i] = kinds[made]
        else:
            kind[i] = cache[key]
        args = one.args
        if args is None:
            continue
        if isinstance(args.seq, int):
            seq[i] = args.seq
        if isinstance(args.correlation, int):
            launched[i] = context.launches.get(args.correlation, np.nan)
            if args.node is not None:
                launch[i] = args.correlation
    calls = Calls(
        start_s=np.array([one.start for one in ordered]) * _US,
        end_s=np.array([one.start + one.length for one in ordered]) * _US,
        kind=kind,
        seq=seq,
        launch_s=launched * _US,
    )
    return calls, tuple(kinds), launch


def _key(one: Found, context: Context) -> object | None:
    """Return what a call's kind depends on, None when an operator of its own describes it."""
    args = one.args
    if args is None:
        return (one.name,)
    if args.collective is None and args.external in context.parameters:
        return None
    return (
        one.name, args.collective, args.in_elements, args.out_elements, args.dtype, args.group_size, args.group_name,
        str(args.group_ranks), args.source, args.destination, args.size, bytes(args.dims), bytes(args.types),
    )  # fmt: skip


def _reduce_scatters(ordered: Sequence[Found], enqueued: Sequence[tuple[float, str]]) -> set[int]:
    """Return which `gloo:all_reduce` are reduce-scatters, which gloo builds of them: only the calling operator tells.

    The callers' operators and the worker's ranges are in the same order when there are as many.
    """
    asked = [name for _, name in sorted(enqueued) if "allreduce" in name or "reduce_scatter" in name]
    ran = [i for i, one in enumerate(ordered) if one.name == "gloo:all_reduce"]
    if len(asked) != len(ran):
        return set()
    return {i for i, name in zip(ran, asked, strict=True) if "reduce_scatter" in name}


@dataclass(frozen=True, slots=True)
class _Describe:
    """Finds the operation, size and group of one call."""

    one: Found
    context: Context
    header: Header
    rank: int

    def kind(self, *, reduce_scatter: bool) -> Kind:
        """Return the kind of the call."""
        name, seen, args = self.one.name, self.one.seen, self._args()
        op = operation(str(args.collective)) if args is not None and args.collective else None
        if op is None and seen is not None:
            op = seen.op
        op = op or (Op.SEND_RECV if name.lower().startswith("memcpy") else operation(name) or Op.ALL_REDUCE)
        if reduce_scatter:
            op = Op.REDUCE_SCATTER
        members, group = self._group(args)
        ranks = self._ranks(args, members)
        if ranks is None and not members:
            members = self._only_group()
            ranks = len(members) or None
        size, source = self._size(op, args, ranks)
        return Kind(
            name=seen.function
            if seen is not None
            else ("gloo:send-recv" if name in ("gloo:send", "gloo:recv") else name),
            family=seen.family if seen is not None else ("gloo" if name.startswith("gloo:") else "peer-copy"),
            op=op,
            algorithm=seen.algorithm if seen is not None else None,
            fused=seen is not None and seen.fused,
            size_bytes=size,
            size_source=source,
            group=group,
            members=members,
            ranks=ranks,
            peers=_peers(args) if op is Op.SEND_RECV else None,
        )

    def _args(self) -> Args | None:
        """Return the arguments: the kernel's own, or those of the operator that launched it."""
        args = self.one.args
        if args is None or args.collective is not None:
            return args
        name, found = self.context.parameters.get(args.external, ("", None))
        return found if name == "record_param_comms" else args

    def _group(self, args: Args | None) -> tuple[tuple[int, ...], str]:
        """Return the ranks of the call's group and a key for it."""
        if args is None:
            return (), ""
        members = tuple(sorted(listed(args.group_ranks) or ())) if isinstance(args.group_ranks, str) else ()
        if not members:
            members = self.header.groups.get(str(args.group_name), ()) if args.group_name is not None else ()
        if args.group_name is None and not members:
            return (), ""
        return members, f"{members or ''}/{args.group_name}" if args.group_name is not None else str(members)

    def _ranks(self, args: Args | None, members: tuple[int, ...]) -> int | None:
        if args is not None and isinstance(args.group_size, int) and args.group_size > 0:
            return args.group_size
        seen = self.one.seen
        return len(members) or (seen.ranks if seen is not None else None) or None

    def _only_group(self) -> tuple[int, ...]:
        """Return the ranks of the one group of several ranks that the trace knows, none when there are more."""
        groups = {ranks for ranks in self.header.groups.values() if len(ranks) > 1}
        return groups.pop() if len(groups) == 1 else ()

    def _size(self, op: Op, args: Args | None, ranks: int | None) -> tuple[float | None, SizeSource | None]:
        """Return the size [bytes] and where it came from."""
        if args is None:
            return None, None
        size = sizes.of_elements(op, args.in_elements, args.out_elements, args.dtype)
        if size is not None:
            return size, "argument"
        if self.one.seen is None and isinstance(args.size, int):
            return float(args.size), "argument"
        name, found = self.context.parameters.get(args.external, ("", args))
        index = next((index for regex, index in _TENSOR_OF_OP if regex.search(name)), 0)
        dims, types = _decoded(found.dims), _decoded(found.types)
        size = sizes.of_shapes(op, dims, types, index=index, ranks=ranks)
        return size, "shapes" if size is not None else None


def listed(text: str) -> list[int] | None:
    """Return the ranks of a list in writing, such as "[0, 1]"; None where it is none."""
    if not re.fullmatch(r"\[[\d,\s]*\]", text):
        return None
    try:
        ranks = [int(rank) for rank in json.loads(text)]
    except ValueError:  # a comma too many, or thousands of digits
        return None
    return ranks if all(rank < MOST_RANKS for rank in ranks) else None


def _decoded(raw: msgspec.Raw) -> Any:  # noqa: ANN401  shapes are lists of lists of anything
    try:
        return json.loads(bytes(raw)) if bytes(raw) else None
    except ValueError:  # a number of thousands of digits
        return None


def _peers(args: Args | None) -> tuple[int, int] | None:
    if args is None or not isinstance(args.source, int) or not isinstance(args.destination, int):
        return None
    return args.source, args.destination


def with_sizes(kinds: Sequence[Kind], given: Mapping[Op, float], source: SizeSource) -> tuple[Kind, ...]:
    """Return the kinds with a size [bytes] for each that has none and whose operation is given one."""
    return tuple(_sized(kind, given.get(kind.op), source) for kind in kinds)


def _sized(kind: Kind, size: float | None, source: SizeSource) -> Kind:
    return kind if kind.size_bytes is not None or size is None else replace(kind, size_bytes=size, size_source=source)

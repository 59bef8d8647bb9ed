"""Makes traces of several ranks whose truth is known: who came last, by how much, what moved, whose clock is off."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
CUSTOM = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, {ranks}>(vllm::RankData*, int)"
KERNELS = ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "fused_add_rms_norm_kernel<bf16>", "flash_fwd_splitkv_kernel")
_BASE_NS = 1_790_857_026_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run to make; times in us.

    `slow` adds to every layer of a rank, as compute of every kernel (`how="device"`), as one more kernel (`"work"`),
    or as idle time of the device (`"gap"`). `offsets` and `drifts_ppm` belong to the ranks' clocks. `sizes` are taken
    in turn by the collectives of a layer. `groups` are the groups of the collectives (one of all ranks by default).
    """

    ranks: int = 4
    steps: int = 6
    layers: int = 8
    flavour: Literal["nccl", "graph"] = "nccl"
    slow: Mapping[int, float] = field(default_factory=dict)
    how: Literal["device", "work", "gap"] = "device"
    offsets: Mapping[int, float] = field(default_factory=dict)
    drifts_ppm: Mapping[int, float] = field(default_factory=dict)
    sizes: tuple[int, ...] = (16384,)
    alpha: float = 9.0
    bytes_per_us: float = 150_000.0
    jitter: float = 0.3
    skew: float = 0.1
    pause: float = 30.0
    groups: tuple[tuple[int, ...], ...] = ()
    seed: int = 0


@dataclass(slots=True)
class Run:
    """A run: the document of each rank, and its truth."""

    plan: Plan
    documents: dict[int, dict[str, Any]]
    last: list[int]
    lateness: list[float]
    transfer: list[float]
    wait: list[dict[int, float]]

    def write(self, folder: Path, ranks: tuple[int, ...] | None = None) -> list[str]:
        """Write the files of some ranks (all by default) and return their names."""
        folder.mkdir(parents=True, exist_ok=True)
        names = []
        for rank in ranks or tuple(self.documents):
            path = folder / f"rank{rank}.json"
            path.write_text(json.dumps(self.documents[rank]), encoding="utf-8")
            names.append(str(path))
        return names


def make(plan: Plan) -> Run:
    """Return the run of a plan."""
    random = np.random.default_rng(plan.seed)
    groups = plan.groups or (tuple(range(plan.ranks)),)
    now = np.full(plan.ranks, 1000.0)
    seq = dict.fromkeys(groups, 0)
    events: dict[int, list[dict[str, Any]]] = {rank: [] for rank in range(plan.ranks)}
    run = Run(plan=plan, documents={}, last=[], lateness=[], transfer=[], wait=[])
    for step in range(plan.steps):
        begun = now.copy()
        for layer in range(plan.layers):
            for half in range(2):
                start = now.copy()
                for rank in range(plan.ranks):
                    start[rank] = _compute(plan, random, events[rank], rank, now[rank], half)
                size = plan.sizes[(2 * layer + half) % len(plan.sizes)]
                for group in groups:
                    seq[group] += 1
                    now[list(group)] = _meet(plan, random, events, group, start, size, seq[group], run)
        for rank in range(plan.ranks):
            events[rank].append(
                _event(plan, rank, "user_annotation", f"ProfilerStep#{step + 3}", begun[rank], now[rank], {})
            )
        now += plan.pause
        now[:] = now.max() - np.abs(random.normal(0, 0.2, plan.ranks))
    for rank in range(plan.ranks):
        run.documents[rank] = _document(plan, rank, events[rank], groups)
    return run


def _compute(
    plan: Plan, random: np.random.Generator, events: list[dict[str, Any]], rank: int, now: float, half: int
) -> float:
    """Add one half layer of compute and return when it is done."""
    extra = plan.slow.get(rank, 0.0)
    lengths = [(20.0, 3.0, 15.0)[k] * (1.0 + 0.3 * half) + random.normal(0, plan.jitter / 3) for k in range(3)]
    names = list(KERNELS)
    if plan.how == "device":
        total = sum(lengths)
        lengths = [length * (1 + extra / total) for length in lengths]
    elif plan.how == "work" and extra:
        lengths.append(extra)
        names.append("moe_gemm_of_hot_expert")
    for name, length in zip(names, lengths, strict=True):
        args = {"device": rank, "stream": 7, "correlation": len(events)}
        events.append(_event(plan, rank, "kernel", name, now, now + length, args))
        now += length + 0.8
    return now + (extra if plan.how == "gap" else 0.0)


def _meet(  # noqa: PLR0913, PLR0917  as above
    plan: Plan, random: np.random.Generator, events: dict[int, list[dict[str, Any]]], group: tuple[int, ...],
    start: np.ndarray[Any, np.dtype[np.float64]], size: int, seq: int, run: Run,
) -> np.ndarray[Any, np.dtype[np.float64]]:  # fmt: skip
    """Add one collective of a group and return when each of its ranks goes on."""
    came = start[list(group)]
    last = float(came.max())
    transfer = plan.alpha + size / plan.bytes_per_us + abs(random.normal(0, 0.3))
    end = last + transfer + np.abs(random.normal(0, plan.skew, len(group)))
    ordered = np.sort(came)
    run.last.append(group[int(came.argmax())])
    run.lateness.append(float(ordered[-1] - ordered[-2]))
    run.transfer.append(transfer)
    run.wait.append({rank: last - float(came[i]) for i, rank in enumerate(group)})
    for i, rank in enumerate(group):
        args: dict[str, Any] = {"device": rank, "stream": 20, "correlation": 100_000 + len(events[rank])}
        name = CUSTOM.format(ranks=len(group))
        if plan.flavour == "nccl":
            name = NCCL
            args |= {
                "Collective name": "allreduce", "In msg nelems": size // 2, "Out msg nelems": size // 2,
                "Group size": len(group), "dtype": "BFloat16", "Process Group Name": str(group[0] + 3),
                "Process Group Ranks": str(list(group)), "Seq": seq,
            }  # fmt: skip
        events[rank].append(_event(plan, rank, "kernel", name, float(came[i]), float(end[i]), args))
    return end + 0.9


def _event(  # noqa: PLR0913, PLR0917  the fields of an event
    plan: Plan, rank: int, cat: str, name: str, start: float, end: float, args: dict[str, Any]
) -> dict[str, Any]:
    """Return an event on the rank's own clock, which counts nanoseconds."""
    rate = 1.0 + plan.drifts_ppm.get(rank, 0.0) * 1e-6
    first = round(start * rate + plan.offsets.get(rank, 0.0), 3)
    length = round((end - start) * rate, 3)
    return {"ph": "X", "cat": cat, "name": name, "pid": rank, "tid": 7, "ts": first, "dur": length, "args": args}


def _document(
    plan: Plan, rank: int, events: list[dict[str, Any]], groups: tuple[tuple[int, ...], ...]
) -> dict[str, Any]:
    listed = [{"pg_name": str(g[0] + 3), "pg_size": len(g), "ranks": list(g)} for g in groups]
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": plan.ranks, "pg_config": listed},
        "baseTimeNanoseconds": _BASE_NS,
        "traceEvents": events,
    }

"""Switches: options put into a scenario, each number with its origin, and combinations that make no sense refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.errors import InputError
from nhalf.laws.speculation import accepted_tokens
from nhalf.loading.links import link
from nhalf.predict.routed import FP8_TOKEN_BYTES

if TYPE_CHECKING:
    from nhalf.fabric import Fabric
    from nhalf.layout import Layout
    from nhalf.link import Link
    from nhalf.loading.degrees import Degrees
    from nhalf.loading.options import Options
    from nhalf.scenario import Scenario
    from nhalf.transformer import Transformer

RDMA_LINK: Final = "roce-100g"
"""What a message between nodes takes without the kernel's network stack, on links that are known only with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens of a request, None where they were not given."""

    context: int | None
    prompt: int | None
    output: int | None


def check(options: Options, lengths: Lengths, degrees: Degrees, transformer: Transformer) -> None:
    """Refuse options that contradict each other, or have nothing to act on.

    Raises
    ------
    InputError
        They do.
    """
    _check_phase(options, lengths)
    _check_draft(options)
    _check_experts(options, degrees, transformer)
    if options.cp_exchange is not None and max(degrees.cp) == 1:
        raise InputError("nothing is split by context", where="--cp-exchange", do="add --cp 2, or leave it out")
    if options.overlap is not None and options.two_batch_overlap:
        raise InputError(
            "--overlap and --two-batch-overlap are both given", where="--overlap", allowed="one of the two",
            do="two batches already hide what they can",
        )  # fmt: skip
    if options.two_batch_overlap and max(degrees.pp) > 1:
        raise InputError("a pipeline has micro-batches of its own", where="--two-batch-overlap", allowed="--pp 1")
    if options.fuse is not None and options.fuse > transformer.block_count:
        what = f"{transformer.name} has {transformer.block_count} collectives a pass, fewer than {options.fuse}"
        raise InputError(what, where="--fuse", allowed=f"1 to {transformer.block_count}")


def _check_phase(options: Options, lengths: Lengths) -> None:
    """Refuse lengths and options that are not of the phase."""
    if options.phase != "prefill":
        for name in ("chunk", "kv_transfer"):
            if getattr(options, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise InputError("it is of a prefill", where=flag, do="add --phase prefill, or leave it out")
        return
    if lengths.prompt is None:
        raise InputError("a prefill needs the length of its prompt", where="--isl", do="add --isl 4096")
    for flag, given in (
        ("--osl", lengths.output),
        ("--context", lengths.context),
        ("--draft-tokens", options.draft_tokens),
    ):
        if given is not None:
            raise InputError(f"{flag} {given} is of a decode step", where="--phase prefill", do=f"leave {flag} out")


def _check_draft(options: Options) -> None:
    """Refuse a draft without its acceptance, or the other way round."""
    if (options.draft_tokens is None) != (options.acceptance is None):
        given, missing = ("--draft-tokens", "--acceptance")
        if options.draft_tokens is None:
            given, missing = missing, given
        example = "0.8" if missing == "--acceptance" else "3"
        raise InputError(f"{given} is given without {missing}", where=missing, do=f"add {missing} {example}")


def _check_experts(options: Options, degrees: Degrees, transformer: Transformer) -> None:
    """Refuse options of expert exchanges where there are none."""
    if options.exchange == "all-to-all":
        if transformer.mixture is None:
            raise InputError(f"{transformer.name} has no experts", where="--exchange", allowed="all-gather")
        if max(degrees.attention_dp) == 1:
            raise InputError(
                "every rank has all tokens, none are sent to experts", where="--exchange", allowed="all-gather",
                do="add --attention-dp 8 --ep 8",
            )  # fmt: skip
    if options.skew is not None and options.exchange != "all-to-all":
        raise InputError("nothing is routed unevenly", where="--skew", do="add --exchange all-to-all, or leave it out")


def laid_out(layout: Layout, options: Options) -> Layout:
    """Return a layout with the options that are its own."""
    fields = {
        "replicas": options.replicas, "routed_exchange": options.exchange, "context_exchange": options.cp_exchange
    }  # fmt: skip
    return replace(layout, **{name: value for name, value in fields.items() if value is not None})  # type: ignore[arg-type]


def cache_link(options: Options) -> Link | None:
    """Return the link that the cache of a prompt takes to the devices that decode it.

    Raises
    ------
    InputError
        It is neither a name of the catalogue nor a latency and a bandwidth.
    """
    if options.kv_transfer is None:
        return None
    parts = [part.strip() for part in options.kv_transfer.split(",")]
    if len(parts) > 2 or not all(parts):  # noqa: PLR2004  a latency and a bandwidth
        what = f"{options.kv_transfer!r} is no link"
        raise InputError(what, where="--kv-transfer", allowed="LATENCY,BANDWIDTH (5us,50GB/s), or a name")
    try:
        return link(parts)[0]
    except InputError as error:
        raise InputError(error.what, where="--kv-transfer", allowed=error.allowed, do=error.do) from error


def applied(scenario: Scenario, options: Options) -> Scenario:
    """Return the scenario with the options that are numbers of its workload and of its stack."""
    origins: dict[str, Datum] = {}
    fields: dict[str, float | str] = {} if options.phase is None else {"phase": options.phase}
    for name, path, value in (
        ("chunk", "chunk_tokens", options.chunk),
        ("skew", "routing_skew", options.skew),
        ("draft_tokens", "tokens_per_step", None if options.draft_tokens is None else options.draft_tokens + 1),
    ):
        if value is not None:
            fields[path] = float(value)
            origins[f"workload.{path}"] = _given(float(value), name, "tokens" if name != "skew" else "1")
    if options.draft_tokens is not None and options.acceptance is not None:
        kept = float(accepted_tokens(options.draft_tokens, options.acceptance).value)
        fields["accepted_tokens"] = kept
        locator = f"(1 - A^(N + 1)) / (1 - A), N = {options.draft_tokens}, A = {options.acceptance:g}, arXiv:2211.17192"
        origins["workload.accepted_tokens"] = Datum(
            value=kept, unit="tokens", source="nhalf", locator=locator, kind="derived", date="2026-11"
        )
    workload = replace(scenario.workload, **fields)  # type: ignore[arg-type]
    scenario = replace(scenario, workload=workload, origins={**scenario.origins, **origins})
    return _with_remedies(scenario, options)


def _with_remedies(scenario: Scenario, options: Options) -> Scenario:
    """Return the scenario with the remedies switched on."""
    found: dict[str, Datum] = {}
    if options.fuse_norm:
        found["fused_norms"] = _given(1.0, "fuse_norm")
    if options.fuse is not None:
        found["fused_collectives"] = _given(float(options.fuse), "fuse")
    if options.overlap is not None:
        found["overlap_share"] = _given(options.overlap, "overlap")
    if options.quantised_all_reduce is not None:
        found["message_factor"] = Datum(
            value=FP8_TOKEN_BYTES / float(np.mean(scenario.workload.activation_bytes)),
            unit="1",
            source="nhalf",
            locator="a byte an element and a scale of 4 bytes for each 128, over the bytes of an activation",
            kind="derived",
            date="2026-11",
            note="the time of a bf16 all-reduce of so many bytes is taken; quantising is not charged",
        )
    if options.kernel_bypass is not None:
        found |= bypass(scenario.system.fabric)
    remedies = replace(
        scenario.stack.remedies,
        two_batches=options.two_batch_overlap,
        kernel_bypass=options.kernel_bypass or "",  # type: ignore[arg-type]
        **{name: datum.value for name, datum in found.items()},
    )
    origins = {f"stack.remedies.{name}": datum for name, datum in found.items()}
    return replace(scenario, stack=replace(scenario.stack, remedies=remedies), origins={**scenario.origins, **origins})


def bypass(fabric: Fabric) -> dict[str, Datum]:
    """Return what is added to the latency of the link between nodes [s] with and without the kernel's network stack.

    A link quicker than a message through the kernel is known without it, a slower one with it.
    """
    nic = fabric.inter_node if fabric.inter_rack is None else fabric.inter_rack
    own = float(np.mean(nic.latency_s))
    kernel = store.fixed_time()["tcp_step"]
    around = store.link(RDMA_LINK)[1]["latency_s"]
    through = own > kernel.value
    saved = max(own - around.value, 0.0) if through else 0.0
    added = 0.0 if through else kernel.value - own
    low = None if through or kernel.low is None else max(kernel.low - own, 0.0)
    high = None if through or kernel.high is None else kernel.high - own
    locator = f"link {RDMA_LINK} less the link's own latency"
    past = Datum(value=-saved, unit="s", source=around.source, locator=locator, kind="derived", date=kernel.date)
    locator = "a message through the kernel (tcp-100g) less the link's own latency"
    stack = Datum(
        value=added,
        unit="s",
        source=kernel.source,
        locator=locator,
        kind="derived",
        date=kernel.date,
        low=low,
        high=high,
    )
    return {"bypassed_s": past, "through_kernel_s": stack}


def _given(value: float, name: str, unit: str = "1") -> Datum:
    """Return the origin of a number that a flag gave."""
    flag = f"--{name.replace('_', '-')}"
    return Datum(value=value, unit=unit, source=flag, locator=flag, kind="given", date="")

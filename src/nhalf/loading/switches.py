"""Switches: options put into a scenario, each number with its origin, and combinations that make no sense refused."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.catalog import store
from nhalf.citation import Datum
from nhalf.errors import InputError
from nhalf.laws.speculation import accepted_tokens
from nhalf.loading.inputs import of_part
from nhalf.loading.links import link
from nhalf.predict.routed import FP8_TOKEN_BYTES

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity
    from nhalf.fabric import Fabric
    from nhalf.link import Link
    from nhalf.loading.choices import Request
    from nhalf.loading.degrees import Degrees
    from nhalf.loading.options import Options
    from nhalf.scenario import Scenario
    from nhalf.transformer import Transformer

_DERIVED: Final = ("draft_tokens", "acceptance", "quantised_all_reduce")
"""Options whose numbers are worked out from what is given."""
_PLAIN: Final = tuple(row.name for row in of_part("options") if row.path and row.name not in _DERIVED)
"""Options that are a number or a word of the scenario as they stand."""
RDMA_LINK: Final = "roce-100g"
"""What a message between nodes takes without the kernel's network stack, on links that are known only with it."""


def check(request: Request, transformer: Transformer) -> None:
    """Refuse options and degrees that contradict each other, or have nothing to act on.

    Raises
    ------
    InputError
        They do.
    """
    options, degrees = request.options, request.degrees
    _check_phase(request)
    _check_draft(options)
    _check_experts(options, degrees, transformer)
    check_split(max(request.degrees.cp), _tokens(request))
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


def _tokens(request: Request) -> Quantity:
    """Return the tokens of a sequence that context parallelism splits."""
    if request.load is not None:
        return request.load["context_tokens"]
    prompt, output = (0.0 if length is None else length for length in (request.isl, request.osl))
    return prompt + output / 2 if request.context is None else request.context


def check_split(degree: int, tokens: Quantity) -> None:
    """Refuse more ranks of a context than the shortest one has tokens.

    Raises
    ------
    InputError
        There are.
    """
    least = max(float(np.min(tokens)), 1.0)
    if degree > least:
        what = f"CP {degree} is more than the {least:,.0f} tokens that it splits"
        raise InputError(what, where="--cp", allowed=f"1 to {least:.0f}")


def _check_phase(request: Request) -> None:
    """Refuse lengths and options that are not of the phase."""
    options = request.options
    if options.phase != "prefill":
        for name in ("chunk", "kv_transfer"):
            if getattr(options, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise InputError("it is of a prefill", where=flag, do="add --phase prefill, or leave it out")
        return
    if request.isl is None:
        raise InputError("a prefill needs the length of its prompt", where="--isl", do="add --isl 4096")
    for flag, given in (
        ("--osl", request.osl),
        ("--context", request.context),
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
    """Return the scenario with the options that are numbers or words of it, each number with its origin."""
    moved: dict[str, Any] = {}
    found: dict[str, Datum] = {}
    for row in of_part("options"):
        value = options.given.get(row.name)
        if value is None or row.name not in _PLAIN:
            continue
        number = isinstance(attrgetter(row.path)(scenario), float)
        moved[row.path] = float(value) if number else value
        if number:
            found[row.path] = _given(float(value), row.name, "tokens" if row.path.endswith("_tokens") else "1")
    if options.draft_tokens is not None and options.acceptance is not None:
        found |= _drafted(options.draft_tokens, options.acceptance)
    if options.quantised_all_reduce is not None:
        found["stack.remedies.message_factor"] = Datum(
            value=FP8_TOKEN_BYTES / float(np.mean(scenario.workload.activation_bytes)),
            unit="1",
            source="nhalf",
            locator="a byte an element and a scale of 4 bytes for each 128, over the bytes of an activation",
            kind="derived",
            date="2026-11",
            note="the time of a bf16 all-reduce of so many bytes is taken; quantising is not charged",
        )
    if options.kernel_bypass is not None:
        found |= {f"stack.remedies.{name}": datum for name, datum in bypass(scenario.system.fabric).items()}
    scenario = scenario.moved(moved | {path: datum.value for path, datum in found.items()})
    return replace(scenario, origins={**scenario.origins, **found})


def _drafted(tokens: int, acceptance: float) -> dict[str, Datum]:
    """Return what a draft makes of a step: the tokens that it is fed, and those that are kept."""
    kept = float(accepted_tokens(tokens, acceptance).value)
    locator = f"(1 - A^(N + 1)) / (1 - A), N = {tokens}, A = {acceptance:g}, arXiv:2211.17192"
    of_draft = Datum(value=kept, unit="tokens", source="nhalf", locator=locator, kind="derived", date="2026-11")
    fed = _given(float(tokens + 1), "draft_tokens", "tokens")
    return {"workload.tokens_per_step": fed, "workload.accepted_tokens": of_draft}


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

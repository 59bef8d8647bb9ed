"""Requests: what the user asked for, completed by defaults that are said, as scenarios with origins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nhalf.catalog import calibration, overlay, stated, store
from nhalf.catalog.curves import of_library
from nhalf.catalog.measured_stacks import of_its_own
from nhalf.citation import Datum
from nhalf.collective import Mode
from nhalf.errors import InputError, did_you_mean
from nhalf.layout import Layout
from nhalf.loading import peers, switches
from nhalf.loading import request_checks as checks
from nhalf.loading.changes import apply, moved
from nhalf.loading.degrees import FLAGS, Degrees
from nhalf.loading.kv_rule import default_reason
from nhalf.loading.links import replaced
from nhalf.loading.model import transformer_of
from nhalf.loading.options import NAMES, Options
from nhalf.loading.stack_file import read_stack
from nhalf.scenario import Scenario
from nhalf.transformer import KV_BYTES, WEIGHT_BYTES
from nhalf.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.link import Link
    from nhalf.transformer import Transformer


TEXTS = ("weights", "kv", "engine", "library", "mode", "stack", "links")
"""The choices of a request that are texts, by the names of their flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asked for; None where a default is to be taken and said.

    `links` is a file of links by tier, `stack` one of constants or `priors`; `changes` maps paths of inputs to the
    texts of their values, as `--set` does.
    `assumed` names choices that stand here but were defaults where they come from, with the reason for each;
    `recorded` holds, by system and path, what numbers were when the request was written down.
    """

    model: str
    systems: tuple[str, ...]
    degrees: Degrees = field(default_factory=Degrees)
    batches: tuple[int, ...] | None = None
    context: int | None = None
    prompt: int | None = None
    output: int | None = None
    weights: str | None = None
    kv: str | None = None
    engine: str | None = None
    library: str | None = None
    mode: str | None = None
    stack: str | None = None
    links: str | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    assumed: Mapping[str, str] = field(default_factory=dict)
    recorded: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """A choice that the user left open: its flag, the value taken, and why that one."""

    flag: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """The scenarios of a request, every default that was taken, and what looks wrong but is possible.

    `request` is the request with every choice made; `cache_link` is the link of a cache to where it is decoded.
    """

    scenarios: tuple[Scenario, ...]
    defaults: tuple[Default, ...]
    warnings: tuple[str, ...]
    request: Request
    cache_link: Link | None = None


def scenarios(request: Request) -> Loaded:
    """Return the scenarios of a request: systems, in each the batches, in each the layouts.

    Raises
    ------
    InputError
        An unknown name, an unreadable file, an impossible value or layout.
    """
    request = _checked(request)
    transformer = transformer_of(request.model)
    kv_assumed = request.kv is None or "kv" in request.assumed
    request, defaults = _completed(request, transformer)
    lengths = switches.Lengths(context=request.context, prompt=request.prompt, output=request.output)
    switches.check(request.options, lengths, request.degrees, transformer)
    transformer.weights(_dtype(request.weights or "bf16", WEIGHT_BYTES, "--weights"))  # what it lacks is refused here
    found: list[Scenario] = []
    mine = overlay.current()
    warnings = [f"{overlay.VARIABLE} adds to or overrides the catalogue; `nhalf catalog` says what"] if mine else []
    for name in request.systems:
        base, doubts = _base(request, transformer, name, kv_assumed=kv_assumed)
        if any(each.system.name == base.system.name for each in found):
            raise InputError(f"{base.system.name} is there twice", where="--on", do="name each system once")
        doubts += moved(base, request.recorded.get(base.system.name, {}))
        warnings += [doubt for doubt in doubts if doubt not in warnings]
        for batch in request.batches or (1,):
            for layout in request.degrees.legal(transformer, base.system.fabric):
                workload = replace(base.workload, batch=float(batch))
                found.append(replace(base, layout=switches.laid_out(layout, request.options), workload=workload))
    return Loaded(
        scenarios=tuple(found),
        defaults=tuple(defaults),
        warnings=tuple(warnings),
        request=request,
        cache_link=switches.cache_link(request.options),
    )


def with_peers(request: Request) -> tuple[Scenario, ...]:
    """Return the scenarios of a request with peer access, where it takes that away; else none."""
    if request.options.p2p != "off":
        return ()
    return scenarios(replace(request, options=replace(request.options, p2p=None))).scenarios


def _checked(request: Request) -> Request:
    """Return the request with its counts as plain whole numbers.

    Raises
    ------
    InputError
        A value is of the wrong type, empty or out of range, or the lists make more rows than a page can show.
    """
    checks.text(request.model, "MODEL", allowed="a name, a config.json or its folder, or a description in TOML")
    for system in request.systems:
        checks.text(system, "--on", allowed="a system such as h100-sxm; `nhalf catalog systems` lists them")
    for name in TEXTS:
        if getattr(request, name) is not None:
            checks.text(getattr(request, name), f"--{name}")
    lengths = {"context": "--context", "prompt": "--isl", "output": "--osl"}
    whole: dict[str, Any] = {
        name: checks.count(getattr(request, name), flag)
        for name, flag in lengths.items()
        if getattr(request, name) is not None
    }
    if request.batches is not None:
        whole["batches"] = checks.counts(request.batches, "--batch")
    degrees = {flag: checks.counts(getattr(request.degrees, flag), f"--{flag.replace('_', '-')}") for flag in FLAGS}
    checks.rows({"on": request.systems, "batch": whole.get("batches", (1,)), **degrees})
    changes = checks.changes(request.changes, "--set")
    return replace(request, degrees=Degrees(**degrees), changes=changes, **whole)


def load(model: str, *, on: str, tp: int = 1, batch: int = 1, **choices: Any) -> Scenario:  # noqa: ANN401  see below
    """Return one scenario: a model on a system, with the choices that `nhalf decode` has as flags.

    `choices` are `pp`, `ep`, `attention_dp`, `cp` (degrees), `context`, `isl`, `osl` (whole numbers), `weights`, `kv`,
    `engine`, `library`, `mode` (names), `stack` (a file), the options by the names of their flags (`overlap=0.5`,
    `fuse_norm=True`), and `set`, a mapping from the path of an input to the text of its value.

    Raises
    ------
    InputError
        An unknown name or choice, an unreadable file, an impossible value or layout.
    """
    names = {"isl": "prompt", "osl": "output", "set": "changes"}
    known = ("context", "weights", "kv", "engine", "library", "mode", "links", "stack", *names, *FLAGS[1:], *NAMES)
    for name in choices:
        if name not in known:
            raise InputError(
                f"there is no choice {name!r}",
                where="nhalf.load",
                allowed=", ".join(known),
                do=did_you_mean(name, known),
            )
    apart = {*FLAGS, *NAMES}
    given: dict[str, Any] = {names.get(name, name): value for name, value in choices.items() if name not in apart}
    if given.get("changes", {}) is None:
        given.pop("changes")
    given |= {name: str(given[name]) for name in ("stack", "links") if isinstance(given.get(name), Path)}
    model = str(model) if isinstance(model, Path) else model
    given["options"] = Options().updated({name: value for name, value in choices.items() if name in NAMES})
    degrees = Degrees(tp=(tp,), **{name: (value,) for name, value in choices.items() if name in FLAGS})
    request = Request(model=model, systems=(on,), degrees=degrees, batches=(batch,), **given)
    return scenarios(request).scenarios[0]


def _completed(request: Request, transformer: Transformer) -> tuple[Request, list[Default]]:
    """Return the request with every open choice made, and the choices."""
    chosen: list[tuple[str, str, object, str]] = []
    if request.batches is None:
        chosen.append(("batches", "--batch", (1,), "one stream"))
    prefill = request.options.phase == "prefill"
    if (request.prompt is None) != (request.output is None) and not prefill:
        given, missing = ("--isl", "--osl") if request.output is None else ("--osl", "--isl")
        raise InputError(f"{given} is given without {missing}", where=missing, allowed="both, or --context")
    if request.context is not None and request.prompt is not None and not prefill:
        raise InputError("--context and --isl/--osl are both given", where="--context", allowed="one of the two")
    if request.context is None and request.prompt is None and not prefill:
        chosen.append(("context", "--context", 1024, "a short chat"))
    if request.weights is None:
        chosen.append(("weights", "--weights", transformer.weight_dtype, "the config says so"))
    engine = store.find("engine", request.engine or "vllm", where="--engine")
    if request.kv is None:
        weights = _dtype(request.weights or transformer.weight_dtype, WEIGHT_BYTES, "--weights")
        systems = [store.find("system", name, where="--on") for name in request.systems]
        reason = default_reason(transformer.kv_dtype, weights=weights, engine=engine, systems=systems)
        chosen.append(("kv", "--kv", transformer.kv_dtype, reason))
    chosen += _of_engine(request, engine)
    completed = replace(request, **{name: value for name, _, value, _ in chosen})  # type: ignore[arg-type]
    if completed.library is None:
        chosen.append(("library", "--library", "", "the engine's own"))
    texts = {"batches": "1"}
    found = [
        Default(flag=flag, value=texts.get(name, str(value)) or "(engine's)", reason=reason)
        for name, flag, value, reason in chosen
    ]
    assumed = {name: reason for name, _, value, reason in chosen if value}
    found += [
        Default(flag=f"--{_FLAGS.get(name, name)}", value=_shown(getattr(request, name)), reason=reason)
        for name, reason in request.assumed.items()
    ]
    return replace(completed, assumed={**request.assumed, **assumed}), found


def _of_engine(request: Request, engine: str) -> list[tuple[str, str, object, str]]:
    """Return the choices about the engine that are open: their names, flags and values, and why."""
    chosen: list[tuple[str, str, object, str]] = []
    if request.engine is None:
        chosen.append(("engine", "--engine", engine, "the most used"))
    if request.mode is None:
        own = stated.engine(engine).mode
        reason = "engines decode in CUDA graphs" if own == Mode.GRAPH else f"{engine} has no CUDA graphs"
        chosen.append(("mode", "--mode", str(own), reason))
    if request.library is None and request.options.p2p == "off":
        chosen.append(("library", "--library", peers.LIBRARY, "other kernels need peer access"))
    return chosen


_FLAGS = {"batches": "batch"}
"""The flags of fields that are called otherwise."""


def _shown(value: object) -> str:
    """Return a choice as its flag takes it."""
    return ",".join(str(each) for each in value) if isinstance(value, tuple) else str(value)


def _base(request: Request, transformer: Transformer, name: str, *, kv_assumed: bool) -> tuple[Scenario, list[str]]:
    """Return the scenario of one system with every change applied, and what looks doubtful about the changes."""
    mode = Mode.parse(request.mode or "graph", where="--mode")
    system, origins = store.system(name, curves=True, where="--on")
    if request.options.p2p == "off":
        peers.check(request.library)
        system, through_host = peers.without(system)
        origins |= through_host
    stack, stack_origins = store.stack(
        request.engine or "vllm", library=request.library, mode=mode, architecture=system.device.architecture
    )
    system = replace(system, curves=of_library(system.curves, stack.library.name, stack.mode))
    # A plan looks at both exchanges, whichever was asked for; only a layout that sends tokens reads these curves.
    if transformer.mixture is not None and request.options.p2p != "off":
        system = replace(system, routed=store.routed(name))
    workload = _workload(request)
    if kv_assumed:
        origins["workload.kv_bytes"] = _assumed_kv(workload)
    scenario = Scenario(
        transformer=transformer,
        system=system,
        layout=Layout(),
        workload=workload,
        stack=stack,
        origins={**origins, **stack_origins},
    )
    if request.stack is None and stated.CALIBRATED:
        found = calibration.bands()
        scenario = of_its_own(replace(scenario, residual=found.half_widths(found.novelty(scenario))))
    scenario = switches.applied(scenario, request.options)
    doubts: list[str] = []
    if request.links is not None:
        scenario, doubts = replaced(scenario, Path(request.links))
    if request.stack is not None:
        scenario = read_stack(request.stack).applied(scenario)
    changed, more = apply(scenario, request.changes)
    return changed, [*doubts, *more]


def _assumed_kv(workload: Workload) -> Datum:
    """Return the origin of a cache dtype that nobody stated: as the config says, or 8 bits as many servers choose."""
    return Datum(
        value=float(workload.kv_bytes),
        unit="bytes",
        source="nhalf",
        locator="default of --kv",
        kind="assumed",
        date="2026-11",
        low=min(1.0, float(workload.kv_bytes)),
        high=float(workload.kv_bytes),
        note="a server may keep its cache in fp8; state --kv to narrow the band",
    )


def _workload(request: Request) -> Workload:
    """Return the workload of a request, for one sequence."""
    weights = _dtype(request.weights or "bf16", WEIGHT_BYTES, "--weights")
    kv = _dtype(request.kv or "bf16", KV_BYTES, "--kv")
    prompt, output = request.prompt or 0, request.output or 0
    context = float(request.context or prompt) if not output else prompt + output / 2
    return Workload(
        batch=1.0,
        context_tokens=context,
        weight_dtype=weights,
        kv_dtype=kv,
        kv_bytes=KV_BYTES[kv],
        prompt_tokens=float(prompt),
        output_tokens=float(output),
    )


def _dtype(name: str, known: Mapping[str, float], flag: str) -> str:
    """Return a known dtype by its name, whatever its case."""
    lowered = name.lower().replace("bfloat16", "bf16").replace("float16", "fp16")
    if lowered not in known:
        raise InputError(
            f"{name!r} is not a dtype read here", where=flag, allowed=", ".join(known), do=did_you_mean(name, known)
        )
    return lowered

"""Requests: what the user asked for, completed by defaults that are said, as scenarios with origins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nhalf.catalog import calibration, overlay, stated, store
from nhalf.catalog.curves import of_library, version_spread
from nhalf.catalog.measured_stacks import of_its_family, of_its_own
from nhalf.collective import Mode
from nhalf.decide.little import settled
from nhalf.errors import InputError, did_you_mean
from nhalf.layout import Layout
from nhalf.loading import clusters, inputs, peers, switches
from nhalf.loading import request_checks as checks
from nhalf.loading.changes import apply, moved
from nhalf.loading.choices import LENGTHS, TEXTS, Request
from nhalf.loading.defaults import Default, completed
from nhalf.loading.degrees import FIELDS, FLAGS, Degrees
from nhalf.loading.dtypes import known
from nhalf.loading.engine_version import between_versions, split_version
from nhalf.loading.kv_rule import assumed_kv
from nhalf.loading.links import replaced
from nhalf.loading.model import in_dtype, model_of
from nhalf.loading.stack_file import PRIORS, StackFile, read_stack
from nhalf.scenario import Scenario
from nhalf.transformer import KV_BYTES, WEIGHT_BYTES
from nhalf.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nhalf.link import Link
    from nhalf.predict.residual import Bands
    from nhalf.transformer import Transformer
__all__ = ["Loaded", "Request", "keywords", "load", "scenarios", "with_peers"]


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


def scenarios(request: Request, bands: Bands | None = None) -> Loaded:
    """Return the scenarios of a request: systems, in each the batches, in each the layouts.

    `bands` are the bands around predictions, where they are not those of the calibration that ships.

    Raises
    ------
    InputError
        An unknown name, an unreadable file, an impossible value or layout.
    """
    request = _checked(request.shared())
    transformer, stored = model_of(request.model)
    transformer = in_dtype(transformer, (request.weights or stored).lower())
    kv = None if "kv" in request.assumed else request.kv
    request, defaults = completed(request, transformer, stored)
    switches.check(request, transformer)
    transformer.weights(known(request.weights or "bf16", WEIGHT_BYTES, "--weights"))  # what it lacks is refused here
    found: list[Scenario] = []
    told: list[Default] = []
    mine = overlay.current()
    warnings = [f"{overlay.VARIABLE} adds to or overrides the catalogue; `nhalf catalog` says what"] if mine else []
    for name in request.systems:
        base, doubts = _base(request, transformer, name, stated_kv=kv, bands=bands or calibration.bands())
        if any(each.system.name == base.system.name for each in found):
            raise InputError(f"{base.system.name} is there twice", where="--on", do="name each system once")
        doubts += moved(base, request.recorded.get(base.system.name, {}))
        told += clusters.said(base, library_open=request.library is None)
        warnings += [doubt for doubt in doubts if doubt not in warnings]
        layouts = request.degrees.legal(transformer, base.system.fabric)
        for workload in _workloads(base.workload, request):
            for layout in layouts:
                degrees: dict[str, Any] = {each: getattr(layout, each) for each in FIELDS.values()}
                scenario = replace(base, layout=replace(base.layout, **degrees), workload=workload)
                if request.options.rate is not None:
                    scenario, doubts = _at_rate(scenario, request.options.rate)
                    warnings += doubts
                found.append(scenario)
    return Loaded(
        scenarios=tuple(found),
        defaults=tuple(_with_told(defaults, told)),
        warnings=tuple(warnings),
        request=request,
        cache_link=switches.cache_link(request.options),
    )


def _with_told(defaults: list[Default], told: list[Default]) -> list[Default]:
    """Return the defaults with what came from cluster files first, and the library as it was chosen there."""
    flags = {default.flag for default in told}
    return [*told, *(default for default in defaults if default.flag != "--library" or default.flag not in flags)]


def _at_rate(scenario: Scenario, rate_per_s: float) -> tuple[Scenario, list[str]]:
    """Return a scenario at the batch that keeps up with a rate of requests, and what to say where none does."""
    found = settled(scenario, rate_per_s)
    told = f"{scenario.layout.name} on {scenario.system.name}: the queue does not settle at {rate_per_s:g} requests/s"
    most = f"it finishes {found.most_per_s:.3g} at most, at batch {found.batch} a replica"
    workload = replace(scenario.workload, batch=float(found.batch), requests_per_s=rate_per_s if found.settles else 0.0)
    return replace(scenario, workload=workload), [] if found.settles else [f"{told}; {most}"]


def with_peers(request: Request) -> tuple[Scenario, ...]:
    """Return the scenarios of a request with peer access, where it takes that away; else none."""
    if request.options.p2p != "off":
        return ()
    return scenarios(replace(request, options=request.options.having({"p2p": None}))).scenarios


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
        if getattr(request, name) is not None and not isinstance(getattr(request, name), StackFile):
            checks.text(getattr(request, name), f"--{name}")
    whole: dict[str, Any] = {
        name: checks.count(getattr(request, name), f"--{name}")
        for name in LENGTHS
        if getattr(request, name) is not None
    }
    if request.batches is not None:
        whole["batches"] = checks.counts(request.batches, "--batch")
    degrees = {flag: checks.wholes(getattr(request.degrees, flag), f"--{flag.replace('_', '-')}") for flag in FLAGS}
    checks.rows({"on": request.systems, "batch": whole.get("batches", (1,)), **degrees})
    changes = checks.changes(request.changes, "--set")
    return replace(request, degrees=Degrees(**degrees), changes=changes, **whole)


def load(model: str, *, on: str, tp: int = 1, batch: Any = None, **choices: Any) -> Scenario:  # noqa: ANN401  see below
    """Return one scenario: a model on a system, with the choices that `nhalf decode` has as flags.

    `choices` are `pp`, `ep`, `attention_dp`, `cp` (degrees), `context`, `isl`, `osl` (whole numbers), `weights`, `kv`,
    `engine`, `library`, `mode` (names), `stack` (a file), the options by the names of their flags (`overlap=0.5`,
    `fuse_norm=True`), `users` in place of `batch` (None: 1), and `set`, a mapping from the path of an input to the text
    of its value. `batch` and the lengths may be arrays of whole numbers of one shape: the scenario's numbers are arrays
    then.

    Raises
    ------
    InputError
        An unknown name or choice, an unreadable file, an impossible value or layout.
    """
    load_of = {} if batch is None else {"batch": batch}
    return scenarios(keywords(model, on, {"tp": tp, **load_of, **choices})).scenarios[0]


def keywords(model: str | Path, on: str, choices: Mapping[str, Any], where: str = "nhalf.load") -> Request:
    """Return the request that keywords of Python make; counts are numbers there, and no texts.

    Raises
    ------
    InputError
        An unknown choice, or a value of another type or beyond its range.
    """
    names = tuple(name for name in inputs.BY_NAME if name not in ("model", "system"))
    for name in choices:
        if name not in names:
            what = f"there is no choice {name!r}"
            raise InputError(what, where=where, allowed=", ".join(names), do=did_you_mean(name, names))
    counted: dict[str, Any] = {}
    for name, value in choices.items():
        flag = inputs.BY_NAME[name].on_command_line
        if name in FLAGS:
            counted[name] = checks.whole(value, flag)
        elif name == "batch" or (name in (*LENGTHS, "users") and value is not None):
            counted[name] = checks.count(value, flag)
    request = Request(model=str(model) if isinstance(model, Path) else model, systems=(on,))
    return request.updated({**choices, **counted})


def _base(
    request: Request, transformer: Transformer, name: str, *, stated_kv: str | None, bands: Bands
) -> tuple[Scenario, list[str]]:
    """Return the scenario of one system with every change applied, and what looks doubtful about the changes."""
    mode = Mode.parse(request.mode or "graph", where="--mode")
    system, origins = store.system(name, curves=True, where="--on")
    if request.options.p2p == "off":
        peers.check(request.library)
        system, through_host = peers.without(system)
        origins |= through_host
    architecture = system.device.architecture
    engine, version = split_version(request.engine or "vllm")
    library = request.library or clusters.library_of(system, store.find("engine", engine, where="--engine"))
    stack, stack_origins = store.stack(engine, library=library, mode=mode, architecture=architecture)
    stack = replace(stack, version=version)
    # The version of an engine is that of its own library, and says nothing of another one's.
    of_version = version if stack.library.name == stack.engine else ""
    doubt = version_spread(system.curves, stack.library.name, stack.mode, of_version)
    if doubt:
        origins |= {"system.curve_factor": between_versions(origins["system.curve_factor"], doubt)}
    system = replace(system, curves=of_library(system.curves, stack.library.name, stack.mode, of_version))
    # A plan looks at both exchanges, whichever was asked for; only a layout that sends tokens reads these curves.
    if transformer.mixture is not None and request.options.p2p != "off":
        system = replace(system, routed=store.routed(name))
    weights = known(request.weights or "bf16", WEIGHT_BYTES, "--weights")
    kv = known(request.kv or stated_kv or "bf16", KV_BYTES, "--kv")
    if stated_kv is None:
        likely, origin = assumed_kv(
            weights=weights, engine=stack.engine, architecture=architecture, config=transformer.kv_dtype
        )
        kv = kv if request.kv is not None else likely
        origins["workload.kv_bytes"] = replace(origin, value=KV_BYTES[kv])
    scenario = Scenario(
        transformer=transformer,
        system=system,
        layout=Layout(),
        workload=Workload(batch=1.0, context_tokens=1.0, weight_dtype=weights, kv_dtype=kv, kv_bytes=KV_BYTES[kv]),
        stack=stack,
        origins={**origins, **stack_origins},
    )
    scenario = replace(scenario, workload=next(iter(_workloads(scenario.workload, request))))
    constants = read_stack(request.stack) if isinstance(request.stack, str) else request.stack
    if constants is None and system.like:
        constants = clusters.constants(name)
    scenario = _with_band(scenario, bands, constants)
    scenario = switches.applied(scenario, request.options)
    doubts: list[str] = []
    if request.links is not None:
        scenario, doubts = replaced(scenario, Path(request.links))
    if constants is not None:
        scenario = constants.applied(scenario)
    scenario = clusters.completed(scenario, request.measured)
    if system.like:
        scenario = clusters.with_excess(scenario)
    changed, more = apply(scenario, request.changes)
    return changed, [*doubts, *more]


def _with_band(scenario: Scenario, bands: Bands, constants: StackFile | None) -> Scenario:
    """Return a scenario with the half-widths of its band, by what of it was never measured.

    Where its stack was measured with its model, it has the constants of those runs too; a file of constants has its
    own half-widths, or those of any other stack. No run was compared with priors, so they have none.
    """
    if constants is not None and constants.name == PRIORS:
        return scenario
    if constants is not None and constants.half_widths is not None:
        bands = bands.measured(constants.half_widths)
    scenario = replace(scenario, residual=bands.half_widths(bands.novelty(scenario)))
    scenario = of_its_family(scenario)
    return of_its_own(scenario) if constants is None and stated.CALIBRATED else scenario


def _workloads(base: Workload, request: Request) -> Iterable[Workload]:
    """Yield the workload of each batch of a request."""
    if request.load is not None:
        return [replace(base, **request.load)]  # type: ignore[arg-type]
    prompt, output = (0.0 if length is None else length for length in (request.isl, request.osl))
    context = prompt + output / 2 if request.context is None else request.context
    lengths = {"context_tokens": context, "prompt_tokens": prompt, "output_tokens": output}
    numbers: dict[str, Any] = {name: checks.number(value) for name, value in lengths.items()}
    return [replace(base, batch=checks.number(batch), **numbers) for batch in request.batches or (1,)]

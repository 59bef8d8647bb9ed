"""`nhalf plan`: which layout to run on so many devices, and the line that launches it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from nhalf import loading, units
from nhalf.catalog import files
from nhalf.cli import flags, output
from nhalf.decide.candidates import GOALS, Wish
from nhalf.decide.layouts import name
from nhalf.decide.search import search
from nhalf.errors import InputError
from nhalf.layout import check
from nhalf.loading import launch
from nhalf.loading.degrees import FLAGS, Degrees
from nhalf.loading.options import Options
from nhalf.loading.planning import OUTPUT, PROMPT, wish
from nhalf.report import plan as report
from nhalf.report.plan_document import document

if TYPE_CHECKING:
    from nhalf.decide.search import Plan
    from nhalf.loading import Default, Loaded, Request
    from nhalf.loading.launch import Launched
    from nhalf.scenario import Scenario

MOST = 4096
_FIELDS = {
    "tp": "tensor_parallel", "pp": "pipeline_parallel", "ep": "expert_parallel", "attention_dp": "attention_dp",
    "cp": "context_parallel",
}  # fmt: skip


@click.command()
@click.argument("model", required=False)
@click.option("--on", "systems", metavar="SYSTEM", help="A system of the catalogue.")
@click.option("--gpus", metavar="N", help="Devices to use, all of them.  [default: a node]")
@click.option("--tpot", metavar="TIME", help="The longest time per token: 20ms.")
@click.option("--ttft", metavar="TIME", help="The longest time to the first token: 1s.")
@click.option("--goal", metavar="|".join(GOALS), default=GOALS[0], show_default=True, help="What to have most of.")
@click.option("--price", metavar="$", help="Dollars for each GPU and hour: '$2.5'.")
@click.option("--launch", "line", metavar="LINE", help="A launch line of vllm, sglang or trtllm to judge.")
@click.option("--batch", metavar="LIST", help="Batches of a replica to look at.  [default: all that fit]")
@click.option("--pools", is_flag=True, help="Look at prefill and decode on devices of their own, too.")
@click.option("--all", "every", is_flag=True, help="With --json, --csv or --md: every layout at every batch.")
@flags.layout
@flags.workload
@flags.formats
def plan(model: str | None, systems: str | None, gpus: str | None, **given: Any) -> None:  # noqa: ANN401  click's flags
    """Choose the layout to serve MODEL on so many devices: every legal one at every batch that fits, ranked.

    MODEL is a name, a config.json, a scenario.toml, or a launch line to judge. A degree (--tp 4,8) narrows the search.
    Context parallelism is looked at for prompts of 32,768 tokens or more.
    """
    if model is not None and launch.is_launch_line(model):
        given["line"], model = model, None
    launched = launch.read(given["line"]) if given["line"] is not None else None
    loaded, request, defaults = _loaded(model, systems, given, launched)
    base = loaded.scenarios[0]
    launched = None if launched is None else _dense(launched, base)
    count = _count(gpus, base, launched)
    wanted = _wish(given)
    judged = None
    if launched is not None:
        check(launched.layout, base.transformer, base.system.fabric)
        judged = (replace(launched.layout, replicas=count // launched.layout.devices), launched.batch)
    found = search(base, count, wanted, judged)
    warnings = [*loaded.warnings, *(f"--launch: {note}" for note in (launched.notes if launched else ()))]
    for warning in warnings:
        output.warn(warning)
    asked = report.Asked(
        defaults=defaults, warnings=warnings, launched=launched, served_model=_served(base.transformer.name, request),
        next_command=_next(found, request),
    )  # fmt: skip
    if found.candidates:
        _write(found, asked, given)
    report.require_answer(found, base.system.name, _suggestion(base, count, wanted))


def _write(found: Plan, asked: report.Asked, given: dict[str, Any]) -> None:
    """Write the answer in the form that was asked for."""
    plain = not any(given[name] for name in ("as_json", "as_csv", "as_markdown"))
    if not plain:
        flags.write(document(found, asked, every=given["every"]), "rows", given)
        return
    canvas = output.canvas()
    report.write(found, asked, canvas)
    output.write(canvas.text)


def _loaded(
    model: str | None, systems: str | None, given: dict[str, Any], launched: Launched | None
) -> tuple[Loaded, Request, list[Default]]:
    """Return the scenario of one request; where a launch line says more than the flags, it is believed."""
    named = model or (launched.model if launched else None)
    if named is None:
        raise InputError("the model is missing", where="MODEL", do="name one, or a launch line that does")
    # The search has degrees and exchanges of its own; what a skew does, it does to every one of them.
    own = {**given, **dict.fromkeys((*FLAGS, "exchange", "cp_exchange", "replicas", "skew"))}
    request = flags.request(named, own, systems=systems)
    if given["skew"] is not None:
        request = replace(request, changes={**request.changes, "workload.routing_skew": str(given["skew"])})
    if len(request.systems) > 1:
        raise InputError("a plan is for one system", where="--on", allowed="one", do="plan each, and compare")
    told: dict[str, Any] = {}
    if launched is not None:
        told = {"engine": launched.engine, "weights": launched.weights, "kv": launched.kv}
        told["mode"] = "eager" if launched.eager else None
    told = {key: value for key, value in told.items() if value is not None and getattr(request, key) is None}
    request = replace(request, degrees=Degrees(), batches=(1,), **told)
    defaults = []
    if request.context is None and request.prompt is None and request.output is None:
        request = replace(request, prompt=PROMPT, output=OUTPUT)
        defaults.append(loading.Default(flag="--isl", value=f"{PROMPT} --osl {OUTPUT}", reason="a chat"))
    if given["tpot"] is None and given["goal"] != "latency":
        defaults.append(
            loading.Default(
                flag="--tpot", value="(none)", reason="large batches win; state it for people who read along"
            )
        )
    loaded = loading.scenarios(request)
    return loaded, request, [*defaults, *loaded.defaults]


def _dense(launched: Launched, base: Scenario) -> Launched:
    """Return a launch line whose data parallelism, in a model without experts, is replicas of each other."""
    layout = launched.layout
    if base.transformer.mixture is not None or layout.attention_dp == 1:
        return launched
    batch = None if launched.batch is None else launched.batch // layout.attention_dp
    alone = replace(
        layout, attention_dp=1, replicas=layout.attention_dp, expert_parallel=1, routed_exchange="all-gather"
    )
    return replace(launched, layout=alone, batch=batch)


def _count(gpus: str | None, base: Scenario, launched: Launched | None) -> int:
    """Return how many devices to use: those asked for, those of the launch line, or a node."""
    if gpus is not None:
        count = units.parse_count(gpus, where="--gpus")
    elif launched is not None:
        count = launched.layout.devices * launched.layout.replicas
    else:
        count = base.system.fabric.devices_per_node
    if count > MOST:
        raise InputError(f"{count} devices are more than are searched", where="--gpus", allowed=f"1 to {MOST}")
    if launched is not None and count % launched.layout.devices:
        raise InputError(
            f"the launch line needs a multiple of {launched.layout.devices} devices", where="--gpus",
            do=f"give --gpus {launched.layout.devices}",
        )  # fmt: skip
    return count


def _wish(given: dict[str, Any]) -> Wish:
    """Return what is wanted."""
    if given["goal"] not in GOALS:
        raise InputError(f"{given['goal']!r} is no goal", where="--goal", allowed=", ".join(GOALS))
    limits = {name: str(given[name]) for name in ("tpot", "ttft", "price") if given[name] is not None}
    if given["goal"] == "cost" and "price" not in limits:
        raise InputError("the cost needs a price", where="--price", do="add --price '$2.5' (for each GPU and hour)")
    chosen = {name: flags.counts(given[name], name) for name in FLAGS if given[name] is not None}
    options = Options().updated({"exchange": given["exchange"]})
    return replace(
        wish(limits),
        goal=given["goal"],
        pools=given["pools"],
        degrees={_FIELDS[name]: values for name, values in chosen.items()},
        batches=flags.counts(given["batch"], "batch") if given["batch"] else None,
        exchanges=(options.exchange,) if options.exchange else ("all-gather", "all-to-all"),  # type: ignore[arg-type]
    )


def _served(model: str, request: Request) -> str:
    """Return the name by which engines know a model: its first name on Hugging Face, or what was given."""
    names = files.aliases().get("model", {}).get(model, ())
    return next((alias for alias in names if "/" in alias), request.model)


def _suggestion(base: Scenario, gpus: int, wanted: Wish) -> str:
    """Return what would make a plan that has no answer feasible: how many devices hold the model."""
    if search(base, gpus, replace(wanted, batches=None)).candidates:
        return "lower --batch"
    for more in (gpus * 2**power for power in range(1, 8)):
        found = search(base, more, Wish(goal="latency"))
        if found.rows:
            row = min(found.rows, key=lambda each: each.layout.devices)
            return f"the nearest that fits is {name(row.layout)} on {more} devices; or quantise with --weights"
    return "quantise with --weights, shorten --isl, or take devices with more memory"


def _next(found: Plan, request: Request) -> str:
    """Return the command to run next: the chosen layout, term by term."""
    row = found.chosen or found.nearest
    if row is None:
        return "nhalf catalog systems"
    layout = row.layout
    degrees = {"--tp": layout.tensor_parallel, "--pp": layout.pipeline_parallel, "--ep": layout.expert_parallel,
               "--attention-dp": layout.attention_dp, "--cp": layout.context_parallel}  # fmt: skip
    shown = " ".join(f"{flag} {degree}" for flag, degree in degrees.items() if degree > 1 or flag == "--tp")
    load = (
        f"--isl {request.prompt} --osl {request.output}" if request.prompt else f"--context {request.context or 1024}"
    )
    given = " ".join(
        f"--{name} {getattr(request, name)}" for name in ("weights", "kv", "engine") if getattr(request, name)
    )
    exchange = " --exchange all-to-all" if layout.routed_exchange == "all-to-all" else ""
    command = (
        f"nhalf decode {request.model} --on {request.systems[0]} {shown}{exchange} --batch {row.batch} {load} {given}"
    )
    return f"{command.strip()} --explain"

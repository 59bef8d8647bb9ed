"""`nhalf plan`: which layout to run on so many devices, and the line that launches it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from nhalf import loading, units
from nhalf.catalog import files
from nhalf.cli import flags, forms, output, page_file, plan_next, plan_options
from nhalf.decide.candidates import GOALS, Wish
from nhalf.decide.layouts import name
from nhalf.decide.nearest import nearest
from nhalf.decide.search import search
from nhalf.errors import InputError, NoAnswerError
from nhalf.layout import check
from nhalf.loading import launch, switches
from nhalf.loading.degrees import FIELDS, FLAGS, Degrees
from nhalf.loading.options import Options
from nhalf.loading.planning import OUTPUT, PROMPT, wish
from nhalf.report import plan as report
from nhalf.report import plan_several as several
from nhalf.report.plan_document import document
from nhalf.report.plan_words import require_answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.loading import Default, Request
    from nhalf.loading.launch import Launched
    from nhalf.report.page import Page
    from nhalf.report.plan_several import Named
    from nhalf.scenario import Scenario

MOST = 4096


@click.command()
@click.argument("model", required=False)
@click.option("--on", "systems", metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue, side by side.")
@click.option("--gpus", metavar="N", help="Devices to use, all of them.  [default: a node]")
@click.option("--tpot", metavar="TIME", help="The longest time per token: 20ms.")
@click.option("--ttft", metavar="TIME", help="The longest time to the first token: 1s.")
@click.option("--goal", metavar="|".join(GOALS), default=GOALS[0], show_default=True, help="What to have most of.")
@click.option("--price", metavar="$[,$]", help="Dollars for each GPU and hour: '$2.5'; one for each system of --on.")
@click.option("--launch", "line", metavar="LINE", help="A launch line of vllm, sglang or trtllm to judge.")
@click.option("--batch", metavar="LIST", help="Batches of a replica to look at.  [default: all that fit]")
@click.option("--pools", is_flag=True, help="Look at prefill and decode on devices of their own, too.")
@click.option("--all", "every", is_flag=True, help="With --json, --csv or --md: every layout at every batch.")
@plan_options.options
@page_file.option
@forms.option
def plan(model: str | None, systems: str | None, pages: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's
    """Choose the layout to serve MODEL on so many devices: every legal one at every batch that fits, ranked.

    MODEL is a name, a config.json, a scenario.toml, or a launch line to judge. A degree (--tp 4,8) narrows the search.
    Context parallelism is looked at for prompts of 32,768 tokens or more.
    """
    if model is not None and launch.is_launch_line(model):
        given["line"], model = model, None
    launched = launch.read(given["line"]) if given["line"] is not None else None
    request, defaults = _request(model, systems, given, launched)
    prices = _prices(given["price"], request.systems)
    plans = [
        _planned(replace(request, systems=(system,)), {**given, "price": price}, launched, defaults)
        for system, price in zip(request.systems, prices, strict=True)
    ]
    for warning in dict.fromkeys(warning for _, _, asked in plans for warning in asked.warnings):
        output.warn(warning)
    if any(found.candidates for _, found, _ in plans):
        _write(plans, given)
        page_file.write(pages, lambda: _page(plans))
    _require_answer(plans)


def _write(plans: Sequence[Named], given: dict[str, Any]) -> None:
    """Write the answer in the form that was asked for."""
    (_, found, asked), every = plans[0], given["every"]
    alone = len(plans) == 1

    def made() -> dict[str, Any]:
        return document(found, asked, every=every) if alone else several.document(plans, every=every)

    if forms.write(made, "rows"):
        return
    canvas = output.canvas()
    if alone:
        report.write(found, asked, canvas)
    else:
        several.write(
            plans,
            canvas,
            next_command=plan_next.alone(plans, _prices(given["price"], [system for system, _, _ in plans])),
        )
    output.write(canvas.text)


def _page(plans: Sequence[Named]) -> Page:
    """Return the page of the plans; its module is loaded only when one is asked for."""
    from nhalf.report.plan_page import page

    return page([(found, asked) for _, found, asked in plans], several.comparison(plans) if len(plans) > 1 else "")


def _require_answer(plans: Sequence[Named]) -> None:
    """Refuse plans none of which has an answer, with the nearest feasible point of each.

    Raises
    ------
    InputError
        There is no layout to look at.
    NoAnswerError
        No layout fits, or none holds the limits.
    """
    if any(found.chosen is not None for _, found, _ in plans):
        return
    refusals = []
    for system, found, asked in plans:
        try:
            require_answer(found, system, asked.suggestion())
        except NoAnswerError as error:
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    raise NoAnswerError("; ".join(str(refusal).rstrip(".") for refusal in refusals), where="nhalf plan")


def _planned(request: Request, given: dict[str, Any], launched: Launched | None, defaults: Sequence[Default]) -> Named:
    """Return the plan of one system, with what it was asked for."""
    loaded = loading.scenarios(request)
    skew = Options().updated({"skew": given["skew"]})
    base = switches.applied(_with_experts(loaded.scenarios[0], skew), skew)
    launched = None if launched is None else _dense(launched, base)
    count = _count(given["gpus"], base, launched)
    wanted = _wish(given)
    judged = None
    if launched is not None:
        check(launched.layout, base.transformer, base.system.fabric)
        judged = (replace(launched.layout, replicas=count // launched.layout.devices), launched.batch)
    found = search(base, count, wanted, judged)
    taken = [*defaults, *loaded.defaults]
    if given["gpus"] is None and launched is None:
        taken.insert(0, loading.Default(flag="--gpus", value=str(count), reason="a node"))
    asked = report.Asked(
        system=base.system.name,
        defaults=taken,
        warnings=[*loaded.warnings, *(f"--launch: {note}" for note in (launched.notes if launched else ()))],
        launched=launched,
        served_model=_served(base.transformer.name, request, launched),
        next_command=plan_next.decoding(found, request, skew.skew),
        suggestion=lambda: _suggestion(base, count, wanted),
    )
    return base.system.name, found, asked


def _prices(text: str | None, systems: Sequence[str]) -> list[str | None]:
    """Return the price of a GPU and hour on each system: the same for all, or one for each.

    Raises
    ------
    InputError
        There are more prices than one, and not one for each system.
    """
    if text is None:
        return [None] * len(systems)
    found = [part.strip() for part in text.split(",")]
    if len(found) == 1:
        return [found[0]] * len(systems)
    if len(found) != len(systems):
        raise InputError(
            f"{len(found)} prices for {len(systems)} systems", where="--price", allowed="one, or one for each of --on"
        )
    return list(found)


def _request(
    model: str | None, systems: str | None, given: dict[str, Any], launched: Launched | None
) -> tuple[Request, list[Default]]:
    """Return the request for one scenario of each system; what a launch line says and the flags do not, is believed."""
    named = model or (launched.model if launched else None)
    if named is None:
        raise InputError("the model is missing", where="MODEL", do="name one, or a launch line that does")
    # The search has degrees and exchanges of its own; a skew is of those that send tokens, so it follows later.
    own = {**given, **dict.fromkeys((*FLAGS, "exchange", "cp_exchange", "replicas", "skew"))}
    request = flags.request(named, own, systems=systems)
    told: dict[str, Any] = {}
    if launched is not None:
        launch.check_same(launched, model, given["engine"])
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
    return request, defaults


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
        count = base.system.fabric.devices_per_host
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
        degrees={FIELDS[name]: values for name, values in chosen.items()},
        batches=flags.counts(given["batch"], "batch") if given["batch"] else None,
        exchanges=(options.exchange,) if options.exchange else ("all-gather", "all-to-all"),  # type: ignore[arg-type]
    )


def _served(model: str, request: Request, launched: Launched | None) -> str:
    """Return the name by which engines know a model: the user's own, else its first on Hugging Face, else what is."""
    if launched is not None and launched.model is not None:
        return launched.model
    if "/" in request.model:
        return request.model
    names = files.aliases().get("model", {}).get(model, ())
    return next((alias for alias in names if "/" in alias), request.model)


def _suggestion(base: Scenario, gpus: int, wanted: Wish) -> str:
    """Return what would make a plan that has no answer feasible: how many devices hold the model."""
    if search(base, gpus, replace(wanted, batches=None)).candidates:
        return "lower --batch"
    found = nearest(base, 2 * gpus)
    if found is not None:
        row, count = found
        return f"the nearest that fits is {name(row.layout)} on {count} devices; or quantise with --weights"
    return "quantise with --weights, shorten --isl, or take devices with more memory"


def _with_experts(base: Scenario, asked: Options) -> Scenario:
    """Return a scenario, unless it has no experts and a skew of their tokens was asked for.

    Raises
    ------
    InputError
        It has none.
    """
    if asked.skew is not None and base.transformer.mixture is None:
        raise InputError(f"{base.transformer.name} has no experts", where="--skew", do="leave it out")
    return base

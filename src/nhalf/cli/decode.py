"""`nhalf decode`: the time per token of a model on a system."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf import loading, units
from nhalf.cli import decode_options, flags, following, forms, output, page_file
from nhalf.decide.comparison import compare
from nhalf.errors import InputError
from nhalf.loading.degrees import FLAGS, Degrees
from nhalf.loading.files import write_text
from nhalf.loading.request import TEXTS
from nhalf.loading.scenario_file import is_request, read_request, write_request
from nhalf.report import decode as report
from nhalf.report import explain as tree
from nhalf.report.decode_document import document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.decide.comparison import Comparison
    from nhalf.report.page import Page
    from nhalf.scenario import Scenario


@click.command()
@click.argument("model")
@click.option("--on", "systems", metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue.")
@click.option("--tp", metavar="LIST", help="Tensor-parallel degrees: 1,2,4,8.  [default: 1]")
@click.option("--pp", metavar="LIST", help="Pipeline stages.  [default: 1]")
@click.option("--ep", metavar="LIST", help="Expert-parallel degrees.  [default: 1]")
@click.option("--attention-dp", metavar="LIST", help="Attention data-parallel degrees.  [default: 1]")
@click.option("--cp", metavar="LIST", help="Context-parallel degrees.  [default: 1]")
@click.option("--batch", metavar="LIST", help="Sequences that decode together.  [default: 1]")
@click.option("--context", metavar="N", help="Tokens in the cache of each sequence.  [default: 1024]")
@click.option("--isl", metavar="N", help="Prompt tokens, with --osl: adds the prefills of arriving requests.")
@click.option("--osl", metavar="N", help="Output tokens, with --isl.")
@click.option("--weights", metavar="DTYPE", help="bf16, fp8, int8, int4, nvfp4, mxfp4.  [default: the config's]")
@click.option("--kv", metavar="DTYPE", help="Cache dtype: bf16, fp8.  [default: as the config says]")
@click.option("--engine", metavar="NAME", help="vllm, sglang, trtllm.  [default: vllm]")
@click.option("--library", metavar="NAME", help=flags.LIBRARY)
@click.option("--mode", metavar="MODE", help="graph, eager or host.  [default: the engine's own]")
@click.option("--stack", metavar="FILE", help="Constants of nhalf calibrate, or `priors`.  [default: the calibrated]")
@click.option("--anchor", "anchors", multiple=True, metavar="POINT", help="A measured step: 'tp=8,batch=16: 9.8ms'.")
@click.option("--links", metavar="FILE", help="Links of the tiers, as `nhalf fit -o FILE` writes them.")
@click.option("--set", "changes", multiple=True, metavar="PATH=VALUE", help=flags.SET)
@decode_options.options
@click.option("--explain", is_flag=True, help="Print the whole term tree of each row.")
@click.option("--save", metavar="FILE", help="Write the request as a scenario file.")
@page_file.option
@forms.option
def decode(
    model: str,
    explain: bool,
    save: str | None,
    anchors: tuple[str, ...],
    pages: tuple[str, ...],
    **given: Any,  # noqa: ANN401  click's flags
) -> None:
    """Predict the time per token of MODEL: a name, a config.json (or its folder), or a scenario.toml."""
    flags.not_empty({"save": save})
    request = _request(model, given)
    loaded = loading.scenarios(request)
    for warning in loaded.warnings:
        output.warn(warning)
    launched = request.mode is not None and "mode" not in request.assumed
    scenarios = _anchored(loaded.scenarios, anchors)
    peers = () if anchors else loading.with_peers(request)
    comparison = compare(scenarios, cache_link=loaded.cache_link, launched=launched, with_peers=peers)
    if not forms.write(lambda: document(comparison, loaded.defaults, loaded.warnings), "rows"):
        canvas = output.canvas()
        report.write(comparison, loaded.defaults, canvas, next_command=_next(request))
        if explain:
            for row in comparison.rows:
                tree.write(row.step, canvas, f"{row.label}, batch {row.batch:g}, term by term")
        output.write(canvas.text)
    page_file.write(pages, lambda: _page(comparison, loaded))
    if save:
        write_text(Path(save), write_request(loaded.request, loaded.scenarios, folder=Path(save).parent))
        if anchors:
            output.warn("the anchors are not part of the saved request")
    comparison.require_fit()


def _anchored(scenarios: Sequence[Scenario], anchors: tuple[str, ...]) -> Sequence[Scenario]:
    """Return the scenarios with their constants pulled to measured steps, if there are any."""
    if not anchors:
        return scenarios
    from nhalf.calibrate.anchor import anchored, parse_anchor

    return anchored(scenarios, [parse_anchor(text) for text in anchors])


def _page(comparison: Comparison, loaded: loading.Loaded) -> Page:
    """Return the page of a comparison; its module is loaded only when one is asked for."""
    from nhalf.report.decode_page import page

    return page(comparison, loaded.defaults, loaded.warnings)


def _request(model: str, stated: Mapping[str, Any]) -> loading.Request:
    """Return the request that the flags make; where MODEL is a scenario file, they change what it says."""
    given = {name: value for name, value in stated.items() if value is not None}
    flags.not_empty({"on" if name == "systems" else name: value for name, value in given.items()})
    asked = _asked(given)
    degrees = {flag: flags.counts(str(given[flag]), flag) for flag in FLAGS if flag in given}
    if model.endswith(".toml") and is_request(Path(model)):
        saved = flags.without_lengths(read_request(Path(model)), asked)
        changes = {**saved.changes, **asked.pop("changes")}
        return replace(
            saved,
            degrees=replace(saved.degrees, **degrees),
            changes=changes,
            options=decode_options.updated(saved, given),
            assumed={name: reason for name, reason in saved.assumed.items() if name not in asked},
            **asked,
        )
    if "systems" not in asked:
        raise InputError(
            "the system is missing", where="--on", do="add --on h100-sxm; `nhalf catalog` lists the others"
        )
    chosen = decode_options.updated(None, given)
    return loading.Request(model=model, degrees=Degrees(**degrees), options=chosen, **asked)


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request that the flags state, degrees apart."""
    counts = {"context": "context", "isl": "prompt", "osl": "output"}
    asked: dict[str, Any] = {
        field: units.parse_count(str(given[flag]), where=f"--{flag}") for flag, field in counts.items() if flag in given
    }
    asked |= {key: str(given[key]) for key in TEXTS if key in given}
    if "systems" in given:
        asked["systems"] = flags.names(str(given["systems"]), "on")
    if "batch" in given:
        asked["batches"] = flags.counts(str(given["batch"]), "batch")
    asked["changes"] = flags.changes(given.get("changes", ()))
    return asked


def _next(request: loading.Request) -> str:
    """Return the command to run next: the same question at three batches, or each term of it."""
    if request.batches is not None and len(request.batches) > 1:
        return following.command("decode", {"--explain": True})
    return following.command("decode", {"--batch": "1,16,128"})

"""`nhalf decode`: the time per token of a model on a system."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nhalf import loading, units
from nhalf.cli import output
from nhalf.decide.comparison import compare
from nhalf.errors import InputError
from nhalf.loading.degrees import FLAGS, Degrees
from nhalf.loading.files import write_text
from nhalf.loading.scenario_file import is_request, read_request, write_request
from nhalf.report import decode as report
from nhalf.report import explain as tree
from nhalf.report.decode_document import document


@click.command()
@click.argument("model")
@click.option("--on", "systems", metavar="SYSTEM[,SYSTEM]", help="Systems of the catalogue.")
@click.option("--tp", default="1", show_default=True, metavar="LIST", help="Tensor-parallel degrees: 1,2,4,8.")
@click.option("--pp", metavar="LIST", help="Pipeline stages.  [default: 1]")
@click.option("--ep", metavar="LIST", help="Expert-parallel degrees.  [default: 1]")
@click.option("--attention-dp", metavar="LIST", help="Attention data-parallel degrees.  [default: 1]")
@click.option("--cp", metavar="LIST", help="Context-parallel degrees.  [default: 1]")
@click.option("--batch", metavar="LIST", help="Sequences that decode together.  [default: 1]")
@click.option("--context", metavar="N", help="Tokens in the cache of each sequence.  [default: 1024]")
@click.option("--isl", metavar="N", help="Prompt tokens, with --osl: adds the prefills of arriving requests.")
@click.option("--osl", metavar="N", help="Output tokens, with --isl.")
@click.option("--weights", metavar="DTYPE", help="bf16, fp8, ...  [default: as the config says]")
@click.option("--kv", metavar="DTYPE", help="Cache dtype: bf16, fp8.  [default: as the config says]")
@click.option("--engine", metavar="NAME", help="vllm, sglang, trtllm.  [default: vllm]")
@click.option("--library", metavar="NAME", help="Communication library.  [default: the engine's]")
@click.option("--mode", metavar="MODE", help="graph, eager or host.  [default: graph]")
@click.option("--links", metavar="FILE", help="Links of the tiers, as `nhalf fit -o FILE` writes them.")
@click.option("--set", "changes", multiple=True, metavar="PATH=VALUE", help="Change any input; may be repeated.")
@click.option("--explain", is_flag=True, help="Print the whole term tree of each row.")
@click.option("--save", metavar="FILE", help="Write the request as a scenario file.")
@click.option("--json", "as_json", is_flag=True, help="Print the document of the contract.")
def decode(model: str, explain: bool, save: str | None, as_json: bool, **flags: str | tuple[str, ...] | None) -> None:
    """Predict the time per token of MODEL: a name, a config.json (or its folder), or a scenario.toml."""
    request = _request(model, flags)
    loaded = loading.scenarios(request)
    for warning in loaded.warnings:
        output.warn(warning)
    comparison = compare(loaded.scenarios)
    if as_json:
        output.write_json(document(comparison, loaded.defaults, loaded.warnings))
    else:
        canvas = output.canvas()
        report.write(comparison, loaded.defaults, canvas, next_command=_next(request))
        if explain:
            for row in comparison.rows:
                tree.write(row.step, canvas, f"{row.label}, batch {row.batch:g}, term by term")
        output.write(canvas.text)
    if save:
        write_text(Path(save), write_request(request))
    comparison.require_fit()


def _request(model: str, flags: dict[str, str | tuple[str, ...] | None]) -> loading.Request:
    """Return the request that the flags make, on top of a scenario file where MODEL is one."""
    given = {name: value for name, value in flags.items() if value is not None}
    changes = _changes(flags["changes"] or ())
    if model.endswith(".toml") and is_request(Path(model)):
        request = read_request(Path(model))
        return replace(request, changes={**request.changes, **changes})
    if "systems" not in given:
        raise InputError(
            "the system is missing", where="--on", do="add --on h100-sxm; `nhalf catalog` lists the others"
        )

    counts = {
        key: units.parse_count(str(given[key]), where=f"--{key}") for key in ("context", "isl", "osl") if key in given
    }
    names: dict[str, Any] = {
        key: str(given[key]) for key in ("weights", "kv", "engine", "library", "mode", "links") if key in given
    }
    return loading.Request(
        model=model,
        systems=tuple(str(given["systems"]).split(",")),
        degrees=Degrees(**{flag: _counts(str(given[flag]), flag) for flag in FLAGS if flag in given}),
        batches=_counts(str(given["batch"]), "batch") if "batch" in given else None,
        context=counts.get("context"),
        prompt=counts.get("isl"),
        output=counts.get("osl"),
        changes=changes,
        **names,
    )


def _counts(text: str, flag: str) -> tuple[int, ...]:
    """Return the whole numbers that a flag lists."""
    return units.parse_int_list(text, where=f"--{flag.replace('_', '-')}")


def _changes(texts: str | tuple[str, ...]) -> dict[str, str]:
    """Return the paths and values of `--set`."""
    found = {}
    for given in texts:
        path, equals, value = given.partition("=")
        if not equals:
            raise InputError(
                f"{given!r} has no '='", where="--set", allowed="path=value, such as stack.step_time_s=1ms"
            )
        found[path.strip()] = value.strip()
    return found


def _next(request: loading.Request) -> str:
    """Return the command to run next."""
    if request.batches is None or len(request.batches) == 1:
        degrees = ",".join(str(degree) for degree in request.degrees.tp)
        weights = f" --weights {request.weights}" if request.weights else ""
        return f"nhalf decode {request.model} --on {','.join(request.systems)} --tp {degrees} --batch 1,16,128{weights}"
    return "add --explain for every term, or --set path=value to ask what if"

"""Flags: what commands about a scenario have in common, and the request that the flags make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from nhalf import loading, units
from nhalf.cli import decode_options
from nhalf.errors import InputError
from nhalf.loading.degrees import FLAGS, Degrees
from nhalf.loading.request import TEXTS
from nhalf.loading.scenario_file import is_request, read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nhalf.loading.options import Options

Command = TypeVar("Command", bound="Callable[..., Any]")

_LENGTHS: Final = (
    click.option("--context", metavar="N", help="Tokens in the cache of each sequence.  [default: 1024]"),
    click.option("--isl", metavar="N", help="Prompt tokens, with --osl: adds the prefills of arriving requests."),
    click.option("--osl", metavar="N", help="Output tokens, with --isl."),
)
LIBRARY: Final = "Communication library: vllm, nccl, ...; `nhalf catalog libraries`.  [default: the engine's]"
SET: Final = (
    "Change any input; may be repeated. `nhalf catalog system SYSTEM` and `nhalf catalog engine ENGINE` list the paths."
)
WORKLOAD: Final = (
    click.option("--weights", metavar="DTYPE", help="bf16, fp8, int8, int4, nvfp4, mxfp4.  [default: the config's]"),
    click.option("--kv", metavar="DTYPE", help="Cache dtype: bf16, fp8.  [default: as the config says]"),
    click.option("--engine", metavar="NAME", help="vllm, sglang, trtllm.  [default: vllm]"),
    click.option("--library", metavar="NAME", help=LIBRARY),
    click.option("--mode", metavar="MODE", help="graph, eager or host.  [default: graph]"),
    click.option(
        "--stack", metavar="FILE", help="Constants of nhalf calibrate, or `priors`.  [default: the calibrated]"
    ),
    click.option("--links", metavar="FILE", help="Links of the tiers, as `nhalf fit -o FILE` writes them."),
    click.option("--set", "changes", multiple=True, metavar="PATH=VALUE", help=SET),
)
"""The flags of number formats, the stack and the inputs."""
_FORMATS: Final = (
    ".csv", ".htm", ".html", ".json", ".jsonl", ".md", ".parquet", ".png", ".svg", ".toml", ".tsv", ".xlsx", ".yaml",
)  # fmt: skip
"""Suffixes that promise a format."""
_LAYOUT: Final = (
    click.option("--tp", metavar="LIST", help="Tensor-parallel degrees: 1,2,4,8."),
    click.option("--pp", metavar="LIST", help="Pipeline stages.  [default: 1]"),
    click.option("--ep", metavar="LIST", help="Expert-parallel degrees.  [default: 1]"),
    click.option("--attention-dp", metavar="LIST", help="Attention data-parallel degrees.  [default: 1]"),
    click.option("--cp", metavar="LIST", help="Context-parallel degrees.  [default: 1]"),
)


def workload(command: Command) -> Command:
    """Add the flags of the workload, the stack, the inputs and the remedies."""
    return decode_options.add(decode_options.options(command), (*_LENGTHS, *WORKLOAD))


def layout(command: Command) -> Command:
    """Add the flags of the degrees."""
    return decode_options.add(command, _LAYOUT)


def written_as(file: str | None, suffix: str, holds: str) -> None:
    """Refuse an output file whose name promises another format than the one that is written; `holds` says what is.

    Raises
    ------
    InputError
        It does.
    """
    found = Path(file or "").suffix.lower()
    if file and found in _FORMATS and found != suffix:
        name = Path(file).with_suffix(suffix)
        raise InputError(f"{file!r} is no name for {holds}", where="-o", allowed=f"*{suffix}", do=f"write -o {name}")


def request(
    model: str, flags: Mapping[str, Any], *, systems: str | None, batches: str | None = None
) -> loading.Request:
    """Return the request that the flags make; where MODEL is a scenario file, flags that are given win over it.

    Raises
    ------
    InputError
        The system is missing, or a flag is not possible.
    """
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    not_empty({"on": systems, "batch": batches, **given})
    fields: dict[str, Any] = {name: str(given[name]) for name in TEXTS if name in given}
    for flag, name in (("context", "context"), ("isl", "prompt"), ("osl", "output")):
        if flag in given:
            fields[name] = units.parse_count(str(given[flag]), where=f"--{flag}")
    degrees: dict[str, Any] = {flag: counts(str(given[flag]), flag) for flag in FLAGS if flag in given}
    if batches is not None:
        fields["batches"] = counts(batches, "batch")
    if systems is not None:
        fields["systems"] = names(systems, "on")
    changed = changes(given.get("changes", ()))
    if model.endswith(".toml") and is_request(Path(model)):
        base = without_lengths(read_request(Path(model)), fields)
        fields["changes"] = {**base.changes, **changed}
        fields["options"] = _decoding(decode_options.updated(base, given))
        fields["assumed"] = {name: reason for name, reason in base.assumed.items() if name not in fields}
        return replace(base, degrees=replace(base.degrees, **degrees), **fields)
    if systems is None:
        raise InputError(
            "the system is missing", where="--on", do="add --on h100-sxm; `nhalf catalog` lists the others"
        )
    options = _decoding(decode_options.updated(None, given))
    return loading.Request(model=model, degrees=Degrees(**degrees), changes=changed, options=options, **fields)


def _decoding(options: Options) -> Options:
    """Refuse options of a prefill: these commands predict decode steps."""
    if options.phase == "prefill":
        raise InputError("this command predicts decode steps", where="--phase", do="use nhalf decode --phase prefill")
    return options


def without_lengths(saved: loading.Request, stated: Mapping[str, Any]) -> loading.Request:
    """Return a saved request without the context that stated prompts replace, or the prompts that a context does."""
    prompts, context = {"prompt": None, "output": None}, {"context": None}
    if "context" in stated:
        dropped = prompts
    elif "prompt" in stated or "output" in stated:
        dropped = context
    else:
        return saved
    assumed = {name: reason for name, reason in saved.assumed.items() if name not in dropped}
    return replace(saved, assumed=assumed, **dropped)  # type: ignore[arg-type]


def not_empty(values: Mapping[str, Any]) -> None:
    """Refuse flags whose text is empty; `values` are by the names of the flags.

    Raises
    ------
    InputError
        One is.
    """
    for name, value in values.items():
        if isinstance(value, str) and not value.strip():
            raise InputError("the value is empty", where=f"--{name.replace('_', '-')}", do="name one, or leave it out")


def names(text: str, flag: str) -> tuple[str, ...]:
    """Return the names that a flag lists."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        do = "write a name on both sides of each comma"
        raise InputError(f"the list {text!r} has an empty item", where=f"--{flag}", do=do)
    return found


def counts(text: str, flag: str) -> tuple[int, ...]:
    """Return the whole numbers that a flag lists."""
    return units.parse_int_list(text, where=f"--{flag.replace('_', '-')}")


def changes(texts: Iterable[str]) -> dict[str, str]:
    """Return the paths and values of `--set`."""
    found = {}
    for given in texts:
        path, equals, value = given.partition("=")
        if not equals:
            raise InputError(
                f"{given!r} has no '='", where="--set", allowed="path=value, such as stack.step_time_s=1ms"
            )
        if path.strip() in found:
            raise InputError(f"{path.strip()} is set twice", where="--set", do="set it once")
        found[path.strip()] = value.strip()
    return found

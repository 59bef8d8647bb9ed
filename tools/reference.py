"""The reference of the site, from the program itself: commands, words, fields, Python names, schemas of documents."""

from __future__ import annotations

import inspect
import io
import json
import shlex
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import click

import nhalf
from nhalf.cli import nhalf as main
from nhalf.cli import run
from nhalf.report.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXAMPLES: Final = {
    "link": ("link 5us 400GB/s --size 16KiB", "link 1us 50GB/s --size 1MiB --size 8B"),
    "decode": (
        "decode llama-3.1-70b --on h100-sxm --tp 1,8,16 --batch 1,64 --weights fp8",
        "decode deepseek-v3 --on h200-sxm --tp 8 --isl 1024 --osl 512 --batch 16",
        "decode llama-3.1-405b --on h100-sxm --tp 2",
    ),
    "compare": (
        "compare llama-3.1-70b --on h100-sxm --layout tp=8 --layout tp=16 --users 4 --weights fp8",
        "compare llama-3.1-70b --on h100-sxm,b200-sxm --layout tp=8 --users 16",
    ),
    "crossover": ("crossover llama-3.1-70b --on h100-sxm --tp 8", "crossover deepseek-v3 --on b200-sxm --tp 8"),
    "collective": ("collective all-reduce --on h100-sxm --ranks 8", "collective all-gather --on h100-sxm --ranks 16"),
    "plan": (
        "plan llama-3.1-70b --on h100-sxm --gpus 8 --weights fp8 --users 16",
        "plan deepseek-v3 --on h200-sxm --gpus 16 --tpot 50ms",
    ),
    "buy": (
        "buy llama-3.1-70b --on h100-sxm --tp 8 --option 'nic=800Gb/s @ $1500/nic'",
        "buy deepseek-v3 --on h200-sxm --tp 8 --batch 1,64",
    ),
    "fit": (
        "fit tests/logs/nccl_tests/2026-03_all_reduce.txt",
        "fit tests/logs/nccl_tests/2021_all_gather.txt tests/logs/osu/osu_7_allreduce_full.txt",
    ),
    "simulate": (
        "simulate all-reduce --on h100-sxm --ranks 8 --size 64KiB",
        "simulate all-reduce --on h100-sxm --ranks 8 --size 64KiB --straggler 'rank 3: 50us'",
    ),
    "trace": ("trace tests/golden/trace/tp2_slow1", "trace tests/golden/trace/tp2_even"),
}
"""Command lines of the repository's own examples, from whose documents the schemas are made."""
_KINDS: Final = ((bool, "boolean"), (int, "number"), (float, "number"), (str, "string"), (type(None), "null"))


def commands() -> dict[str, str]:
    """Return a page of each command: what it does, its examples, its options."""
    pages = {}
    context = click.Context(main, info_name="nhalf")
    for name in main.list_commands(context):
        command = main.get_command(context, name) or main
        inner = click.Context(command, parent=context, info_name=name)
        pages[name] = f"# nhalf {name}\n\n```text\n{command.get_help(inner)}\n```\n"
    return pages


def glossary() -> str:
    """Return the words of the screens, with their formulas and examples."""
    words = tomllib.loads((files("nhalf.report") / "glossary.toml").read_text(encoding="utf-8"))
    found = ["# Words", "", "`nhalf explain WORD` prints the same.", ""]
    for word, entry in sorted(words.items(), key=lambda item: item[0].lower()):
        if not entry.get("listed", True):
            continue
        found += [f"**{word}**", f":   {entry['says']}"]
        found += [f"    `{entry['formula']}`"] if "formula" in entry else []
        found += [f"    {entry['example']}"] if "example" in entry else []
        found.append("")
    return "\n".join(found)


def fields() -> str:
    """Return what each number of a point is called in documents and tables."""
    rows = [f"| `{each.key}` | {each.head} | {each.unit or '-'} | {each.says} |" for each in FIELDS]
    head = ["# Fields", "", "Keys of rows in `--json`, `--csv` and Parquet. SI units; unknown is null.", ""]
    return "\n".join([*head, "| key | on screens | unit | what it is |", "|---|---|---|---|", *rows, ""])


def python() -> str:
    """Return the names that `import nhalf` offers, with their signatures and docstrings."""
    found = [
        "# Python",
        "",
        "Answers have `text()`, `table()`, `frame()`, `plot()` and `to_dict()`, and show in notebooks.",
        "",
    ]
    for name in sorted(nhalf.__all__, key=str.lower):
        value = getattr(nhalf, name)
        if not callable(value):
            continue
        try:
            signature = str(inspect.signature(value)).replace(" -> 'None'", "")
        except (TypeError, ValueError):
            signature = "(...)"
        found += [f"## nhalf.{name}", "", f"```text\nnhalf.{name}{signature}\n```", ""]
        found += ["```text", inspect.getdoc(value) or "", "```", ""]
    return "\n".join(found)


def document(line: str) -> Any:  # noqa: ANN401  JSON is whatever it is
    """Return the document that a command line prints."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        run([*shlex.split(line), "--json"])
    return json.loads(out.getvalue())


def schema(documents: Iterable[Any]) -> dict[str, Any]:
    """Return the JSON Schema that some documents share: a key is required that all have."""
    found = list(documents)
    kinds = sorted({kind for each in found for kind in _kinds(each)})
    made: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    tables = [each for each in found if isinstance(each, dict)]
    if tables:
        keys = dict.fromkeys(key for each in tables for key in each)
        made["properties"] = {key: schema(each[key] for each in tables if key in each) for key in keys}
        made["required"] = [key for key in keys if all(key in each for each in tables)]
    entries = [entry for each in found if isinstance(each, list) for entry in each]
    if entries:
        made["items"] = schema(entries)
    return made


def _kinds(value: object) -> Iterator[str]:
    """Yield the JSON type of a value."""
    if isinstance(value, dict):
        yield "object"
    elif isinstance(value, list):
        yield "array"
    else:
        yield next(name for kind, name in _KINDS if isinstance(value, kind))


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of each command's documents."""
    found = {}
    for command, lines in EXAMPLES.items():
        made = schema(document(line) for line in lines)
        found[command] = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"nhalf.{command}/2",
            **made,
        }
    return found

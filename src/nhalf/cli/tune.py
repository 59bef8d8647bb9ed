"""`nhalf tune`: which path a library should take for a model's messages, and the files that make it do so."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nhalf.catalog import store
from nhalf.cli import flags, next_command, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.errors import InputError
from nhalf.files.reading import read_json
from nhalf.files.writing import write_text
from nhalf.report import tune as report
from nhalf.report.view import View
from nhalf.tune import tuning
from nhalf.tune.check import TUNED, arms, per_token, won

if TYPE_CHECKING:
    from nhalf.report.tune import Tuned
    from nhalf.report.view import Brief


@click.command(cls=Grouped)
@click.argument("model", required=False)
@click.option(
    "--logs", "logs", multiple=True, metavar="PATH=LOG", help="A forced run: tree/ll=LOG, default=LOG; a CSV; a folder."
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    help="Where the files go: a new folder. With --check, the cluster file (.toml) that keeps the tuned runs.",
)
@click.option(
    "--check", "checks", metavar="DIR", help="What the choices in DIR won: --logs default=LOG, --logs tuned=LOG."
)
@flags.inputs("tune")
@output_formats.option
def tune(model: str | None, *, logs: tuple[str, ...], folder: str | None, checks: str | None, **given: Any) -> None:  # noqa: ANN401  click's flags
    """Choose the path of each size of MODEL's collectives, and write what NCCL and engines load.

    Choices come from runs with a forced algorithm and protocol; without any, from the laws, which is said. A path is
    chosen only where it wins more than the noise; everything else is left to the library.
    """
    if checks is not None:
        _check(Path(checks), logs, folder)
        return
    if model is None:
        raise InputError("the model is missing", where="MODEL", do="nhalf tune llama-3.1-70b --on h100-sxm --tp 16")
    found = tuning.tuned(flags.request(model, given), logs)
    written = _written(found, Path(folder)) if folder else {}
    answer = report.Tuned(found=found, files=[*written])
    if folder:
        for name, text in written.items():
            write_text(Path(folder) / name, text)
        write_text(Path(folder) / tuning.RECORD, f"{json.dumps(report.document(answer), indent=2)}\n")
    _show(answer, folder)


def _written(found: tuning.Found, folder: Path) -> dict[str, str]:
    """Return the files to write, by name; a folder that holds something is not added to."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            "the folder holds something already", where="-o", do="name a new folder: old choices would stay"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return tuning.files(found, str(folder.resolve()))


def _show(answer: Tuned, folder: str | None) -> None:
    """Show the answer in the form that is asked for."""
    if folder and answer.acting:
        after = f"sh {folder}/measure.sh"
    elif folder:
        after = next_command.command("tune", {"--logs": "sweep.csv"})
    else:
        after = next_command.command("tune", {"--output": "tuned"})

    def first() -> Brief:
        return report.brief(answer, next_command=after)

    output_formats.show(View(document=lambda: report.document(answer), rows="choices", brief=first))


def _check(folder: Path, logs: tuple[str, ...], cluster: str | None) -> None:
    """Say what was won, and keep what the tuned runs took in a cluster file where one is named."""
    record = read_json(folder / tuning.RECORD)
    found = won(logs)
    tokens = per_token(found, record.get("messages", []))
    kept = _kept(cluster, logs, str(record.get("system", ""))) if cluster else []

    def first() -> Brief:
        model, ranks = str(record.get("model")), str(found[0].ranks)
        after = (shlex.join(["nhalf", "decode", model, "--on", cluster, "--tp", ranks]) if cluster
                 else next_command.command("tune", {"--output": "mycluster.toml"}))  # fmt: skip
        return report.brief_of_check(found, tokens, kept, next_command=after)

    output_formats.show(View(document=lambda: report.checked(found, tokens), rows="sizes", brief=first))


def _kept(cluster: str, logs: tuple[str, ...], like: str) -> list[str]:
    """Write the tuned runs into a cluster file, and return what became of each."""
    from nhalf.loading.fitting import fitted, told
    from nhalf.report import cluster_file

    said = told(op="all-reduce", ranks=None, nodes=None, mode=None, format_=None, system=None)
    fit, _, tables = fitted([file for arm, file in arms(logs) if arm == TUNED], said)
    like = like if like in store.names("system") else ""
    return [*cluster_file.write_measured(Path(cluster), tables, fit, "nccl", like), f"{cluster} holds the tuned runs."]

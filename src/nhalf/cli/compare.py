"""`nhalf compare`: two deployments or more at one load, by how much one is faster, and how sure that is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from nhalf.cli import flags, next_command, output, output_formats
from nhalf.cli.help_pages import Grouped
from nhalf.decide.paired import pairs, sides
from nhalf.errors import NoAnswerError
from nhalf.loading.degrees import FIELDS
from nhalf.loading.deployments import KEYS, deployments, names, own
from nhalf.report import compare as report
from nhalf.report.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.paired import Side
    from nhalf.report.view import Brief


@click.command(cls=Grouped)
@click.argument("model")
@click.option("--layout", "texts", multiple=True, metavar="KEYS", help="A deployment: 'tp=8 pp=2'; repeat it.")
@flags.inputs("compare")
@output_formats.option
def compare(model: str, texts: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's flags
    """Compare deployments of MODEL at one load: the difference with its range, the odds, and where it flips.

    A layout is KEY=VALUE with blanks between: degrees (tp=8 pp=2), replicas=2, system=, engine=, links=, library=,
    weights= and other flags of decode; what it does not say is as the flags say. Systems of --on are compared, too.
    """
    request = flags.request(model, given)
    loaded, written = deployments(request, texts)
    warnings = list(dict.fromkeys(warning for each in loaded for warning in each.warnings))
    defaults = list(dict.fromkeys(default for each in loaded for default in each.defaults))
    for warning in warnings:
        output.warn(warning)
    scenarios = [scenario for each in loaded for scenario in each.scenarios]
    found = sides(scenarios, names(scenarios, written))
    users = None if request.users is None else int(request.users)
    made = pairs(found, users)

    def first() -> Brief:
        return report.brief(found, users, defaults, next_command=_next(found, written))

    def document() -> dict[str, Any]:
        return report.document(found, made, defaults, warnings)

    below = partial(report.write, found, users, made)
    output_formats.show(View(document=document, rows="pairs", brief=first, below=below, defaults=defaults))
    if not made:
        raise NoAnswerError("fewer than two of them fit in memory", where="nhalf compare", do="raise a degree")


def _next(found: Sequence[Side], written: Sequence[str]) -> str:
    """Return the command to run next: the fastest deployment, term by term; `written` is what each has of its own."""
    side = report.fastest(found) or found[0]
    values = own(written[side.index]) if written[side.index] else {}
    degrees = {name: getattr(side.layout, field) for name, field in FIELDS.items()}
    values |= {name: degree for name, degree in degrees.items() if degree > 1}
    changed: dict[str, object] = {KEYS[name].on_command_line: value for name, value in values.items()}
    return next_command.command("decode", {**changed, "--on": side.system})

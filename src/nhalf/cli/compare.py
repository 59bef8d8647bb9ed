"""`nhalf compare`: two deployments or more at one load, by how much one is faster, and how sure that is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import click

from nhalf import loading
from nhalf.cli import flags, following, forms, output
from nhalf.decide.paired import pairs, sides
from nhalf.errors import InputError, NoAnswerError, did_you_mean
from nhalf.loading.degrees import FIELDS
from nhalf.loading.inputs import of_command
from nhalf.report import compare as report
from nhalf.report.view import View, write_brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.paired import Side
    from nhalf.report.canvas import Canvas
    from nhalf.scenario import Scenario

KEYS: Final = {row.name: row for row in of_command("compare") if row.option or row.name == "replicas"}
"""What a deployment may have of its own; the load and the lengths are those of all."""
MOST: Final = 8
"""Deployments of one answer."""


@click.command()
@click.argument("model")
@click.option("--layout", "texts", multiple=True, metavar="KEYS", help="A deployment: 'tp=8 pp=2'; repeat it.")
@flags.inputs("compare")
@forms.option
def compare(model: str, texts: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401  click's flags
    """Compare deployments of MODEL at one load: the difference with its range, the odds, and where it flips.

    A layout is KEY=VALUE with blanks between: degrees (tp=8 pp=2), replicas=2, system=, engine=, links=, library=,
    weights= and other flags of decode; what it does not say is as the flags say. Systems of --on are compared, too.
    """
    request = flags.request(model, given)
    asked = [_with(request, text) for text in texts] or [request]
    loaded = [loading.scenarios(each) for each in asked]
    for warning in dict.fromkeys(warning for each in loaded for warning in each.warnings):
        output.warn(warning)
    scenarios = [scenario for each in loaded for scenario in each.scenarios]
    _check(scenarios, [batch for each in loaded for batch in (each.request.batches or ())[1:]])
    written = [text for text, each in zip(texts or ("",), loaded, strict=True) for _ in each.scenarios]
    found = sides(scenarios, _names(scenarios, written))
    users = None if request.users is None else int(request.users)
    made = pairs(found, users)
    defaults = list(dict.fromkeys(default for each in loaded for default in each.defaults))
    warnings = list(dict.fromkeys(warning for each in loaded for warning in each.warnings))

    def first() -> Any:  # noqa: ANN401  a Brief
        return report.brief(found, users, defaults, next_command=_next(found, written))

    def detail(canvas: Canvas) -> None:
        write_brief(first(), canvas)
        report.write(found, users, made, canvas)

    forms.show(View(document=lambda: report.document(found, made, defaults, warnings), rows="pairs", brief=first,
                    detail=detail))  # fmt: skip
    if not made:
        raise NoAnswerError("fewer than two of them fit in memory", where="nhalf compare", do="raise a degree")


def _with(request: loading.Request, text: str) -> loading.Request:
    """Return the request of one deployment."""
    return request.updated(_values(text), lambda _: f"--layout {text!r}")


def _values(text: str) -> dict[str, Any]:
    """Return what a deployment has of its own, by input.

    Raises
    ------
    InputError
        A word that says nothing known of a deployment.
    """
    where = f"--layout {text!r}"
    values: dict[str, Any] = {}
    for word in text.replace(",", " ").split():
        key, equals, value = word.partition("=")
        name = {"on": "system"}.get(key, key.replace("-", "_"))
        if name not in KEYS or not (equals or KEYS[name].is_switch):
            raise InputError(
                f"{word!r} says nothing of a deployment", where=where, allowed=f"KEY=VALUE of {', '.join(KEYS)}",
                do=did_you_mean(name, KEYS) if equals else "",
            )  # fmt: skip
        if name in values:
            raise InputError(f"{key} is there twice", where=where, do="give each key once")
        values[name] = value in ("", "true") if KEYS[name].is_switch else value
    if not values:
        raise InputError("the layout is empty", where=where, allowed="such as 'tp=8 pp=2'")
    return values


def _check(scenarios: Sequence[Scenario], more: Sequence[object]) -> None:
    """Refuse too few or too many deployments, and `more` batches than one."""
    if more:
        raise InputError("deployments are compared at one load", where="--batch", allowed="one batch, or --users N")
    if not 1 < len(scenarios) <= MOST:
        what = f"{len(scenarios)} deployment{'s' if len(scenarios) > 1 else ''} to compare"
        raise InputError(what, where="--layout", allowed=f"2 to {MOST}", do="add --layout 'tp=16', or --on A,B")


def _names(scenarios: Sequence[Scenario], written: Sequence[str]) -> list[str]:
    """Return names that tell deployments apart: what differs of them, and what was written where nothing does."""
    parts = [[each.layout.name for each in scenarios], [each.system.name for each in scenarios],
             [each.stack.engine for each in scenarios], list(written)]  # fmt: skip
    kept = [part for part in parts[:3] if len(set(part)) > 1] or parts[:1]
    names = [", ".join(each) for each in zip(*kept, strict=True)]
    many = Counter(names)
    twice = Counter(zip(names, written, strict=True)).most_common(1)[0]
    if twice[1] > 1:
        raise InputError(f"{twice[0][0]} is there twice", where="--layout", do="leave out one")
    return [name if many[name] == 1 else f"{name} ({text})" for name, text in zip(names, written, strict=True)]


def _next(found: Sequence[Side], written: Sequence[str]) -> str:
    """Return the command to run next: the fastest deployment, term by term; `written` is what it has of its own."""
    side = report.fastest(found) or found[0]
    own = _values(written[side.index]) if written[side.index] else {}
    degrees = {name: getattr(side.layout, field) for name, field in FIELDS.items()}
    own |= {name: degree for name, degree in degrees.items() if degree > 1}
    changed: dict[str, object] = {KEYS[name].on_command_line: value for name, value in own.items()}
    return following.command("decode", {**changed, "--on": side.system})

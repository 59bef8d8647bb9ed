"""Deployments: what each of several that are compared has of its own, as words, and names that tell them apart."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError, did_you_mean
from nhalf.loading.inputs import of_command
from nhalf.loading.request import scenarios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.loading.choices import Request
    from nhalf.loading.request import Loaded
    from nhalf.scenario import Scenario

KEYS: Final = {row.name: row for row in of_command("compare") if row.option or row.name == "replicas"}
"""What a deployment may have of its own; the load and the lengths are those of all."""
MOST: Final = 8
"""Deployments of one answer."""


def deployments(request: Request, texts: Sequence[str]) -> tuple[list[Loaded], list[str]]:
    """Return the scenarios of each deployment, and the text that each scenario is of; without texts, the request's.

    Raises
    ------
    InputError
        A word that says nothing known of a deployment, too few or too many of them, or several loads.
    """
    found = [scenarios(_with(request, text)) for text in texts] or [scenarios(request)]
    if any(len(each.request.batches or ()) > 1 for each in found):
        raise InputError("deployments are compared at one load", where="--batch", allowed="one batch, or --users N")
    written = [text for text, each in zip(texts or ("",), found, strict=True) for _ in each.scenarios]
    if not 1 < len(written) <= MOST:
        what = f"{len(written)} deployment{'s' if len(written) > 1 else ''} to compare"
        raise InputError(what, where="--layout", allowed=f"2 to {MOST}", do="add --layout 'tp=16', or --on A,B")
    return found, written


def _with(request: Request, text: str) -> Request:
    """Return the request of one deployment."""
    return request.updated(own(text), lambda _: f"--layout {text!r}")


def own(text: str) -> dict[str, Any]:
    """Return what a deployment has of its own, by input: KEY=VALUE with blanks or commas between.

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


def names(scenarios: Sequence[Scenario], written: Sequence[str]) -> list[str]:
    """Return names that tell deployments apart: what differs of them, and what was written where nothing does.

    Raises
    ------
    InputError
        Two are the same.
    """
    parts = [[each.layout.name for each in scenarios], [each.system.name for each in scenarios],
             [each.stack.engine for each in scenarios]]  # fmt: skip
    found = [
        ", ".join(each) for each in zip(*([part for part in parts if len(set(part)) > 1] or parts[:1]), strict=True)
    ]
    many = Counter(found)
    told = [name if many[name] == 1 else f"{name} ({text})" for name, text in zip(found, written, strict=True)]
    name, count = Counter(told).most_common(1)[0]
    if count > 1:
        raise InputError(f"{name} is there twice", where="--layout", do="leave out one")
    return told

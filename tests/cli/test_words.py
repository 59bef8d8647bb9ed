"""Words on the screens: none that was given up for a plainer one; every head and mark is in the glossary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import detailed, invoke
from tests.cli.test_first_screen import COMMANDS, OTHERS, folder

from nhalf.catalog.naming import names
from nhalf.errors import InputError
from nhalf.report import glossary, view
from nhalf.report.canvas import Canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("folder",)
SCREENS = {**COMMANDS, **OTHERS}
RETIRED = {
    r"c\.fixed": "latency",
    r"c\.bytes": "bytes",
    r"in-model excess": "waiting inside the model",
    r"quantised input layer factor": "quantised-layer overhead",
    r"2x floor|doubles at": "crossover",
    r"(?:host|device) launch|(?<!kernel )launch(?= {2,}|$)": "kernel launch, or overhead",
    r"fixed time": "latency",
    r"\bbinds\b": "takes the most time",
    r"told from nothing": "within the model's error",
    r"turns over": "fastest TP",
    r"tornado": "% per 1 %",
    r"hand-over": "pipeline transfer",
    r"late start": "waiting for rank N",
    r"\bin band\b": "in range",
    r"\bin node\b": "inside",
    r"sequence time|layer time": "per-sequence overhead, per-layer overhead",
    r"widest doubt": "least sure because of",
}
"""Words that were given up, and what is said in their place."""
NAMED = re.compile(r"^(?:batch )?[\d,.]+$|^\d+(?:\.\d+)? (?:%|.B/s) (?:latency|busbw)$|^(?:from|to|)$|^[\d.]+x$")
"""Heads and marks that are numbers of something whose name stands beside them."""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", [name for name in SCREENS if name != "explain"])
def test_no_screen_holds_a_word_that_was_given_up(name: str) -> None:
    for result in (invoke(*SCREENS[name], columns=80), detailed(*SCREENS[name], columns=140)):
        assert result.code == 0, result.err
        for word, better in RETIRED.items():
            found = [line for line in result.out.splitlines() if re.search(word, line, re.IGNORECASE)]
            assert not found, (word, better, found)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", SCREENS)
def test_every_head_and_mark_of_a_first_screen_is_explained(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    table, bars = Canvas.table, view._bars

    def watched(
        self: Canvas, columns: Sequence[str], rows: Sequence[Sequence[str]], *, marked: Sequence[int] = ()
    ) -> None:
        shown.extend(columns)
        table(self, columns, rows, marked=marked)

    def watched_bars(found: view.Bars, canvas: Canvas) -> None:
        shown.extend([*found.heads, *found.names])
        shown.extend(part for remark in found.remarks for part in remark.split(", "))
        bars(found, canvas)

    monkeypatch.setattr(Canvas, "table", watched)
    monkeypatch.setattr(view, "_bars", watched_bars)
    assert invoke(*SCREENS[name], columns=80).code == 0
    known = set(names("system"))
    missing = {head.lstrip("<") for head in shown} - known
    assert not {head for head in missing if not NAMED.match(head) and not explained(head)}


def explained(head: str) -> bool:
    """Tell whether the glossary knows a head, or a head without the number in front of it or behind it."""
    for word in (head, re.sub(r"^[\d.,]+ | [\d.,]+$", "", head)):
        try:
            glossary.find(word)
        except InputError:
            continue
        return True
    return False

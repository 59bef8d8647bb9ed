"""What the bands of `nhalf decode` are made of, and why those of engines that launch kernels one by one are so wide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units
from nhalf.breakdown import walk
from nhalf.collective import Mode
from nhalf.predict.step import HOST

if TYPE_CHECKING:
    from nhalf.decide.comparison import Comparison, Row


def band_notes(row: Row) -> list[str]:
    """Return what the band of a row rests on, where measured runs tell."""
    if row.prefills or not any(row.scenario.residual):
        return []
    return ["the 80 % band is what measured runs were off by, wider where something was changed or never measured."]


def launched_notes(comparison: Comparison) -> list[str]:
    """Return what the host takes for launches in eager mode, and that no such engine was calibrated."""
    rows = [row for row in comparison.rows if row.scenario.stack.mode != Mode.GRAPH and any(row.scenario.residual)]
    notes = [note for panel in comparison.panels if panel.tied for note in _host(panel.fastest)]
    if rows:
        notes.append(
            "No run of an engine that launches kernels one by one was in the calibration; the band is as wide as "
            "published runs of other such engines were off."
        )
    return notes


def _host(row: Row) -> list[str]:
    """Return how the host's launches compare with the device's step; nothing where no host launches."""
    found = next((term for _, term in walk(row.step) if term.name == HOST and term.rule == "excess"), None)
    if found is None:
        return []
    host, device = (units.format_time(float(part.value)) for part in found.parts)
    text = f"{row.layout_name}, batch {row.batch:g}: the host takes {host} to launch the kernels"
    if float(found.value) > 0:
        return [f"{text}, and the device, which takes {device} to run them, waits."]
    return [f"{text}, less than the {device} the device runs them."]

"""The interconnect, in eight pictures: what the article claims, drawn for a model on a system of the reader's own."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf import units
from nhalf.decide import pacing
from nhalf.decide.comparison import compare
from nhalf.decide.levers import link_changes, of_links
from nhalf.decide.regime import crossover
from nhalf.errors import InputError
from nhalf.loading.degrees import Degrees
from nhalf.loading.request import scenarios
from nhalf.points import at_batches
from nhalf.predict.communication import COLLECTIVES
from nhalf.report.crossover_brief import floor_line
from nhalf.report.decode_brief import batch_line
from nhalf.report.decode_page import SIZES_BYTES, algorithms_of, scaling
from nhalf.report.figures.bars import levers
from nhalf.report.figures.latency import Curve, latency
from nhalf.report.figures.lines import Dot, lines
from nhalf.report.page import Page, Section, constants, notes
from nhalf.report.view import percent
from nhalf.simulate.straggler import Straggler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.comparison import Comparison, Panel
    from nhalf.decide.regime import Crossover
    from nhalf.loading.choices import Request
    from nhalf.scenario import Scenario

TITLE: Final = "The interconnect, in eight pictures"
SMALL: Final = 1.0
LARGE: Final = 256.0
"""The batches at which the two advices are drawn."""
_BATCHES: Final = 2.0 ** np.arange(0, 12.01, 0.5)
_SLOWER: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subject:
    """What is drawn: TP groups at both batches, the one the links are explained on, and ways over two nodes."""

    groups: Comparison
    chosen: Comparison
    turn: Crossover
    across: Comparison | None
    told: Sequence[str]

    @property
    def scenario(self) -> Scenario:
        """Return the widest TP group within a node, at the small batch."""
        return self.chosen.rows[0].scenario


def subject(request: Request) -> Subject:
    """Return what the pictures of a request are of: its model, system, engine and numbers, but no layout or batch.

    Raises
    ------
    InputError
        The system is not one, or no layout of the model is on several devices.
    """
    plain = replace(request, degrees=Degrees(), batches=None, users=None)
    if len(plain.systems) != 1:
        raise InputError("the pictures are of one system", where="--on", allowed="one name")
    both = plain.updated({"batch": f"{SMALL:g},{LARGE:g}"})
    one = scenarios(both.updated({"tp": "1"}))
    node = one.scenarios[0].system.fabric.devices_per_node
    found = [each for degree in _degrees(2 * node) for each in _legal(both, tp=degree)]
    wide = [each for each in found if 1 < each.layout.tensor_parallel <= max(node, 2)]
    if not wide:
        raise InputError(f"{plain.model} cannot be split over the devices of {plain.systems[0]}", where="--on",
                         do="take a system of several devices, or a larger model")  # fmt: skip
    chosen = wide[-1]
    stages = [each for tp, pp in ((2 * node, 1), (node, 2)) for each in _legal(both, tp=tp, pp=pp)]
    ways = {each.layout.name for each in stages}
    return Subject(
        groups=compare(found),
        chosen=compare([_at(chosen, SMALL), _at(chosen, LARGE)]),
        turn=crossover(_at(chosen, SMALL)),
        across=compare(stages) if len(ways) > 1 else None,
        told=notes(one.warnings, one.defaults),
    )


def _degrees(most: int) -> list[int]:
    """Return the powers of two up to a number of devices."""
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def _legal(request: Request, **layout: int) -> list[Scenario]:
    """Return the scenarios of a layout, none where the model or the system does not allow it."""
    with contextlib.suppress(InputError):
        return list(scenarios(request.updated({name: str(value) for name, value in layout.items()})).scenarios)
    return []


def _at(scenario: Scenario, batch: float) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, batch=batch))


def page(of: Subject) -> Page:
    """Return the page of the pictures."""
    scenario = of.scenario
    return Page(
        title=TITLE,
        verdict=[verdict(of)],
        sections=sections(of),
        constants=constants(scenario, of.chosen.rows[0].elasticities),
        notes=of.told,
    )


def verdict(of: Subject) -> str:
    """Return the answer: from which batch on a wider link pays, and the floor that no link moves."""
    turn, row = of.turn, of.chosen.rows[0]
    name = f"{of.scenario.transformer.name} on {of.scenario.system.name}, TP{turn.ranks}"
    return f"{name}: {batch_line(row, turn)} {floor_line(pacing.loop(of.scenario).collectives, turn.floor_s)}"


def sections(of: Subject) -> list[Section]:
    """Return the eight pictures, in the order of the claims of `nhalf lab`."""
    small, large = of.chosen.panels
    made = [_message(of), _rises(of), _pays(small, "At batch 1 a quicker link, not a wider one", _ONE_5_US),
            _pays(large, f"At batch {LARGE:g} the opposite purchase", ""), _crossover(of), _algorithm(of),
            _stages(of), _slow(of)]  # fmt: skip
    return [replace(each, key=f"picture-{place}", title=f"{place}. {each.title}") for place, each in enumerate(made, 1)]


_ONE_5_US: Final = (
    "Where the article is loose: its 5 us stands both for the latency of a message and for the fixed time of a whole "
    "collective. Most of the second is software, which no link shortens."
)


def _message(of: Subject) -> Section:
    link, each = of.scenario.system.fabric.intra_node, of.turn.message_bytes_per_sequence
    alpha, beta = float(np.mean(link.latency_s)), float(np.mean(link.bandwidth_bytes_per_s))
    half, sizes = alpha * beta, SIZES_BYTES
    curve = Curve(
        sizes_bytes=sizes, times_s=alpha + sizes / beta, kind="law", latency_s=alpha, bandwidth_bytes_per_s=beta,
        floor_s=alpha, half_size_bytes=half,
        messages=[(f"batch {batch:g}", batch * each, alpha + batch * each / beta) for batch in (1, 16, 256)],
    )  # fmt: skip
    return Section(
        key="", title="A message costs latency, or bytes",
        lead=f"t(n) = alpha + n/beta. A message of {of.scenario.transformer.name} has {units.format_size(each)} for "
        f"each sequence of the batch; n_1/2 of this link is {units.format_size(half)}. Where the article is loose: its "
        "2 MB is 122 times its 16 KiB, which is two orders of magnitude and not four.",
        figures=[latency(curve, key="picture-message", title=f"One link of {of.scenario.system.name}")],
    )  # fmt: skip


def _rises(of: Subject) -> Section:
    panel = of.groups.panels[0]
    fastest, widest = panel.fastest, max(panel.rows, key=lambda row: row.tp)
    slower = widest.step_s / fastest.step_s - 1
    return Section(
        key="", title="Past some count, devices make a stream slower",
        lead=f"Devices share the reading of weights; each all-reduce they all pay. A stream is fastest with "
        f"{fastest.layout_name}"
        + (f"; {widest.layout_name} is {percent(slower)} slower." if slower > 0 else ": here no more can be tried."),
        figures=[scaling(panel, "picture-scaling")],
    )  # fmt: skip


def _pays(panel: Panel, title: str, loose: str) -> Section:
    wider, quicker = of_links(panel.levers)[0]
    holds = (wider.gain > quicker.gain) == (panel.batch > SMALL)
    return Section(
        key="", title=title,
        lead=f"At batch {panel.batch:g}, {wider.name} saves {percent(wider.gain)} of a token, {quicker.name} "
        f"{percent(quicker.gain)}{'' if holds else ': not so here'}. {loose}".strip(),
        figures=[levers(panel, f"picture-levers-{panel.batch:g}")],
    )  # fmt: skip


def _crossover(of: Subject) -> Section:
    """Return the time of a step's collectives over the batch, as it is and with each of the two links one can buy."""
    names = ("as it is", "twice the bandwidth", "half the latency")
    wider, quicker = link_changes(of.scenario.layout.tensor_group.span(of.scenario.system.fabric).tier)
    dots = []
    for name, change in zip(names, (None, wider, quicker), strict=True):
        changes = {} if change is None else {change[1]: of.scenario.value(change[1]) * change[2]}
        found = at_batches(of.scenario.having(changes), _BATCHES)
        for place, batch in enumerate(_BATCHES.tolist()):
            parts = found.at(place).columns
            spent_s = sum(parts.get(column, 0.0) for column in COLLECTIVES)
            dots.append(Dot(line=name, at=batch, step_s=spent_s, fits=True))
    turn = of.turn
    return Section(
        key="", title="From this batch on a wider link begins to pay",
        lead=f"{turn.ranks} ranks take twice the floor at batch {turn.batch_at_double_floor:.0f}: below it "
        "more bandwidth changes little. Where the article is loose: its batch 122 is of one message on the link; "
        "a collective turns elsewhere, since its bytes move at its own rate.",
        figures=[lines(dots, key="picture-crossover", title=f"TP{turn.ranks} on {turn.system}, by batch",
                       axis=("batch", ""), of="the collectives of a token")],
    )  # fmt: skip


def _algorithm(of: Subject) -> Section:
    drawn = algorithms_of(of.chosen.rows[0], "picture-algorithms")
    return Section(
        key="", title="Short messages take few steps, long ones go around",
        lead="A ring moves the fewest bytes in the most steps, doubling the reverse. Laws of the links alone, without "
        "software; what was measured stands beside them.",
        figures=[] if drawn is None else [drawn],
    )  # fmt: skip


def _stages(of: Subject) -> Section:
    title = "On the slow link, stages instead of tensor ranks"
    if of.across is None:
        return Section(key="", title=title, lead="This model cannot be laid over two nodes of this system both ways.")
    panel = of.across.panels[0]
    wide, staged = sorted(panel.rows, key=lambda row: row.scenario.layout.pipeline_parallel)
    faster, slower = sorted((wide, staged), key=lambda row: row.step_s)
    return Section(
        key="", title=title,
        lead=f"Two nodes, batch 1: {faster.layout_name} takes {units.format_time(faster.step_s)} a token, "
        f"{slower.layout_name} {units.format_time(slower.step_s)}. Stages send one message a token where tensor ranks "
        "send all-reduces in each layer; but they read their weights in turn, which no link changes.",
        figures=[scaling(each, f"picture-stages-{each.batch:g}") for each in of.across.panels],
    )  # fmt: skip


def _slow(of: Subject) -> Section:
    made = pacing.loop(of.scenario)
    base = pacing.pace(made, (), tokens=1, seed=1).step_p50_s
    dots = []
    for more in _SLOWER:
        behind = Straggler(rank=1, what="slow", amount=1 + more, text=f"rank 1: {more:.0%}")
        pace = pacing.pace(made, (behind,), tokens=1, seed=1)
        dots.append(Dot(line="", at=100 * more, step_s=pace.step_p50_s, fits=True))
    return Section(
        key="", title="One slow rank sets the pace",
        lead=f"Simulated message by message: rank 1 does its own work more slowly, and at each of {made.collectives} "
        f"all-reduces the other {made.ranks - 1} wait for it. At {_SLOWER[-1]:.0%} slower a token takes "
        f"{percent(dots[-1].step_s / base - 1)} longer, as if all of them were slow.",
        figures=[lines(dots, key="picture-slow", title=f"{made.ranks} ranks, batch {made.batch:g}",
                       axis=("one rank is slower by, %", ""), of="a token")],
    )  # fmt: skip

"""The verdict in words: what binds, which layout is best, and what a wider link or a lower latency would buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf import units
from nhalf.decide.levers import of_links
from nhalf.decide.link_share import exchanged
from nhalf.predict.step import BINDING

if TYPE_CHECKING:
    from nhalf.decide.comparison import Comparison, Panel, Row
    from nhalf.decide.levers import Lever

WORDS = {
    "weights": "reading weights (memory bandwidth)",
    "experts": "reading experts (memory bandwidth)",
    "kv": "reading the key-value cache (memory bandwidth)",
    "compute": "arithmetic",
    "launch": "the fixed time of layers and steps (launch)",
    "latency": "the fixed time of collectives (latency)",
    "bandwidth": "the bytes of collectives (bandwidth)",
    "hand-over": "stage hand-overs",
    "prefill": "prefills of arriving requests",
}
"""What binds, in words."""
COLUMN_WORDS = {column: WORDS[BINDING[column]] for column in BINDING}
"""What each column of a step is spent on, in words."""
NOTHING = 0.001
"""A part of a step below this is not worth a word."""
_APART = 2.0
"""The bytes of collectives are said apart from what the links take for them, where they differ by more than this."""
_EARNEST = 0.005
"""A wider link must save half a per cent of the step more than a quicker one, or less, to be advice."""


def percent(share: float) -> str:
    """Return a share as a percentage of two significant digits."""
    if abs(share) < NOTHING:
        return "under 0.1 %"
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.3g} %"  # noqa: PLR2004  two digits end


def of_comparison(comparison: Comparison) -> str:
    """Return the verdict on a comparison: a paragraph for each system and batch, and whether the advice flips."""
    several = len(comparison.panels) > 1
    systems = {panel.system for panel in comparison.panels}
    paragraphs = []
    for panel in comparison.panels:
        heading = f"Batch {panel.batch:g}" if len(systems) == 1 else f"{panel.system}, batch {panel.batch:g}"
        text = of_panel(panel)
        paragraphs.append(f"{heading}: {text}" if several else text)
    return "\n".join([*paragraphs, *of_flips(comparison)])


def of_flips(comparison: Comparison) -> list[str]:
    """Return where advice flips between batches, and which of several systems is the fastest at each."""
    systems = list(dict.fromkeys(panel.system for panel in comparison.panels))
    flips = [_flip(comparison, system) for system in systems]
    if len(systems) > 1:
        flips += _winners(comparison)
    return [flip for flip in flips if flip]


def _winners(comparison: Comparison) -> list[str]:
    """Return which of several systems is the fastest at each batch."""
    said = []
    for batch in dict.fromkeys(panel.batch for panel in comparison.panels):
        rows = [panel.fastest for panel in comparison.panels if panel.batch == batch and panel.tied]
        if len(rows) > 1:
            first, second, *_ = sorted(rows, key=lambda row: row.step_s)
            ahead = percent(second.step_s / first.step_s - 1)
            winner, loser = first.scenario.system.name, second.scenario.system.name
            said.append(f"Batch {batch:g}: {winner} with {first.layout_name} is the fastest, {ahead} ahead of {loser}.")
    return said


def of_panel(panel: Panel) -> str:
    """Return the verdict on one batch of one system."""
    if not panel.tied:
        return "No layout fits in memory."
    fastest = panel.fastest
    found = [_best(panel), _without_peers(fastest), *_slower(panel), _capped(panel), _binds(fastest)]
    sentences = [*found, _links(panel.levers), _best_lever(panel.levers)]
    return " ".join(sentence for sentence in sentences if sentence)


def _best(panel: Panel) -> str:
    """Return which layout is best, as a set where several tie."""
    fastest = panel.fastest
    rate = _rate(fastest)
    name = fastest.layout_name
    if len(panel.rows) == 1:
        return f"{name} takes {rate}."
    tied = [row.layout_name for row in panel.tied]
    if len(tied) > 1:
        return f"{joined(tied)} are within 5 %; {name} is fastest at {rate}."
    return f"{name} is fastest: {rate}."


def _without_peers(row: Row) -> str:
    """Return how much slower a step is than with peer access, where it has none and devices talk inside a node."""
    if row.peers_s is None or row.step_s <= row.peers_s:
        return ""
    times = count(float(f"{row.step_s / row.peers_s:.2g}"))
    return f"With peer access it would take {units.format_time(row.peers_s)}: this is {times} times as long."


def count(number: float) -> str:
    """Return a number of three significant digits, without an exponent."""
    return f"{number:.3g}" if number < 999.5 else f"{float(f'{number:.3g}'):.0f}"  # noqa: PLR2004  three digits end


def _capped(panel: Panel) -> str:
    """Return how many sequences have room in the cache, where not all have."""
    full = [row for row in panel.rows if row.running < row.batch and row.fits_memory != "no"]
    if not full:
        return ""
    rooms = joined([f"{max(row.running, 1):.0f} sequences with {row.layout_name}" for row in full])
    return f"The cache has room for {rooms}; the others of {panel.batch:g} queue."


def unit(row: Row) -> str:
    """Return what the time of a row is for: a token, a step that may keep several, or the prompts of a prefill."""
    if not row.prefills:
        return "token" if row.accepted_tokens == 1 else "step"
    return "prompt" if row.batch == 1 else f"{row.batch:g} prompts"


def whole(row: Row) -> str:
    """Return what the columns of a row add up to."""
    return "prefill" if row.prefills else "step"


def _rate(row: Row) -> str:
    """Return the time of a row, and the rate of tokens that it makes for one user."""
    time, per_user = units.format_time(row.step_s), f"{count(row.tokens_per_s_per_user)} tokens/s per user"
    if row.prefills:
        return (
            f"{time} per {unit(row)} (to the first token, without queueing), {count(row.tokens_per_s)} prompt tokens/s"
        )
    if row.accepted_tokens == 1:
        return f"{time} per token, {per_user}"
    kept = f"{row.accepted_tokens:.3g} tokens kept: {units.format_time(row.tpot_s)} per token"
    return f"{time} per step of {kept}, {per_user}"


def _slower(panel: Panel) -> list[str]:
    """Return a sentence on larger layouts that are slower: the turn-over, when it lies inside the rows."""
    most = max(row.scenario.layout.devices for row in panel.tied)
    beyond = [row for row in panel.rows if row.scenario.layout.devices > most and row.fits_memory != "no"]
    if not beyond:
        return []
    row = beyond[0]
    why = f": it crosses to {row.nodes} nodes" if row.nodes > panel.fastest.nodes else ""
    lost = percent(row.step_s / panel.fastest.step_s - 1)
    return [f"{row.layout_name} is {lost} slower{why}."]


def _binds(row: Row) -> str:
    """Return what binds the fastest row, with the shares of the step."""
    share = row.columns
    fixed, transfer = (share[f"collective_{part}"] / row.step_s for part in ("fixed", "transfer"))
    name = max(share, key=lambda column: share[column])
    text = f"What binds is {WORDS[row.binding]}, {percent(share[name] / row.step_s)} of the {whole(row)}"
    if row.scenario.layout.stage_devices == 1:
        return text + "."
    inner = exchanged(row.step)
    links, prompts = inner.link_bytes_s / row.step_s, inner.prefill_s / row.step_s
    text += f"; collectives take {percent(fixed + transfer)}, of which bytes {percent(transfer)}"
    if transfer >= NOTHING and transfer > _APART * links:
        text += f" (the links' {percent(links)}; the rest is software, which a wider link does not move)"
    if prompts >= NOTHING:
        text += f", and those inside the prefills {percent(prompts)} more"
    return text + "."


def _links(levers: tuple[Lever, ...]) -> str:
    """Return what a wider link and a lower latency would buy, on each tier that gains anything to speak of."""
    pairs = of_links(levers)
    if not pairs:
        return "One device has no link to improve."
    said = [pair for pair in pairs if max(lever.gain for lever in pair) >= NOTHING] or pairs[:1]
    parts = [f"{wider.name} buys {percent(wider.gain)}, half its latency {percent(quicker.gain)}"
             for wider, quicker in said]  # fmt: skip
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _best_lever(levers: tuple[Lever, ...]) -> str:
    """Return the lever that saves most."""
    lever = max(levers, key=lambda lever: lever.gain)
    return f"The largest lever is {lever.name}: {percent(lever.gain)}."


def _flip(comparison: Comparison, system: str) -> str:
    """Return a sentence when one batch of a system wants latency and another bandwidth from the same links.

    Both wishes must be there to see, and each in earnest at one batch at least: gains that differ less are noise.
    """
    wants: dict[str, list[str]] = {}
    most: dict[str, float] = {}
    for panel in comparison.panels:
        pairs = of_links(panel.levers)
        if not panel.tied or not pairs or panel.system != system:
            continue
        ahead = pairs[0][0].gain - pairs[0][1].gain
        if abs(ahead) >= NOTHING:
            want = "a wider link" if ahead > 0 else "a lower latency"
            wants.setdefault(want, []).append(f"{panel.batch:g}")
            most[want] = max(most.get(want, 0.0), abs(ahead))
    if len(wants) < 2 or min(most.values()) < _EARNEST:  # noqa: PLR2004  two wishes make a flip
        return ""
    parts = [f"at batch {joined(batches)} {want} buys more" for want, batches in wants.items()]
    several = len({panel.system for panel in comparison.panels}) > 1
    cluster = f"Same cluster ({system})" if several else "Same cluster"
    return f"{cluster}, opposite advice: {', '.join(parts)}."


def joined(names: list[str]) -> str:
    """Return names as a list in words: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

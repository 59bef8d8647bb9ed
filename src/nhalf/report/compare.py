"""The answer of `nhalf compare`: which deployment is faster, how sure that is, and the load at which it flips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf.decide.paired import pair
from nhalf.report import fields
from nhalf.report.document import envelope, taken
from nhalf.report.fields import record
from nhalf.report.view import Brief, percent, whole_number
from nhalf.report.words import assumed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.paired import Pair, Side
    from nhalf.loading import Default
    from nhalf.report.canvas import Canvas

EVEN: Final = 0.6
"""Odds up to this are too even to name a winner."""
_ROWS: Final = 5
"""Others that the first screen has room for."""


def document(
    sides: Sequence[Side], pairs: Sequence[Pair], defaults: Sequence[Default], warnings: Sequence[str]
) -> dict[str, Any]:
    """Return the document of `nhalf compare`."""
    body = {
        "schema": "nhalf.compare/2",
        "pairs": [_pair(each) for each in pairs],
        "rows": [_side(side) for side in sides],
        "defaults": taken(defaults),
        "warnings": list(warnings),
    }
    return envelope("compare", body)


def _pair(found: Pair) -> dict[str, Any]:
    """Return a pair by the keys of the contract."""
    keys = ("ratio", "ratio_low", "ratio_high", "odds_a_faster", "flips_at_users")
    return {"a": found.a.name, "b": found.b.name, **{key: getattr(found, key) for key in keys}}


def _side(side: Side) -> dict[str, Any]:
    """Return a deployment: its point, and its load over all replicas."""
    layout = {"name": side.name, "layout": side.layout_name, "replicas": side.layout.replicas, "users": side.users}
    return {**layout, **record(side)}


def fastest(sides: Sequence[Side]) -> Side | None:
    """Return the fastest deployment that fits in memory, None where none does."""
    return min((side for side in sides if side.fits_memory != "no"), key=lambda side: side.tpot_s, default=None)


def brief(sides: Sequence[Side], users: int | None, defaults: Sequence[Default], *, next_command: str) -> Brief:
    """Return the first screen: the fastest deployment against each of the others."""
    best = fastest(sides)
    if best is None:
        return Brief(verdict=["None of them fits in memory."], warn=True, next_command=next_command)
    fitting = [side for side in sides if side is not best and side.fits_memory != "no"]
    against = sorted((pair(best, side, users) for side in fitting), key=lambda found: found.b.tpot_s)
    told = [found for found in against if found.odds_a_faster > EVEN]
    unfit = ", ".join(side.name for side in sides if side.fits_memory == "no")
    modelled = [side.name for side in sides if side.kind == "modelled" and side.layout.devices > 1]
    taken = {default.flag: default for default in reversed(defaults)}
    waiting = [
        f"{side.name}: the KV cache has room for {side.running:.0f} of {side.batch:g} sequences of a replica."
        for side in sides
        if side.running < side.batch and side.fits_memory != "no"
    ]
    return Brief(
        verdict=[_verdict(best, against)],
        number=_number(against),
        title=_title(best, sides),
        table=_table(best, against),
        marked=[0],
        notes=[
            *([f"{len(against) - _ROWS} slower ones with --detail."] if len(against) > _ROWS else []),
            *([f"No room in memory: {unfit}."] if unfit else []),
            *waiting[:1],
            *([f"The network of {modelled[0]} is modelled, not measured."] if modelled else []),
        ],
        closing=[_flip(found) for found in told[: 2 if len(against) < _ROWS else 1]],
        assumed=assumed(best, list(taken.values())[::-1], batch=users is None),
        next_command=next_command,
        next_why="where does its time go?",
    )


def write(sides: Sequence[Side], users: int | None, pairs: Sequence[Pair], canvas: Canvas) -> None:
    """Write every pair."""
    canvas.heading("Every pair")
    rows = [
        [f"{found.a.name} / {found.b.name}", f"{found.ratio:.3f}", f"{found.ratio_low:.3f} to {found.ratio_high:.3f}",
         f"{100 * found.odds_a_faster:.0f} %", fields.text(found.flips_at_users)]
        for found in pairs
    ]  # fmt: skip
    canvas.table(["<pair", "time ratio", "80 % range", "first is faster", "flips at users"], rows)
    canvas.paragraph(
        f"{len(sides)} deployments{'' if users is None else f' at {whole_number(users)} users'}. Ranges are of paired "
        "draws: what both have in common is drawn once and cancels."
    )


def _verdict(best: Side, against: Sequence[Pair]) -> str:
    """Return which is faster, and how sure that is."""
    text = f"{fields.milliseconds(best.tpot_s)} ms per token"
    if not against:
        return f"{best.name} is the only one that fits in memory: {text}."
    found = against[0]
    than = f"{fields.milliseconds(found.b.tpot_s)} of {found.b.name}"
    if found.odds_a_faster <= EVEN:
        return f"The model cannot tell {best.name} from {found.b.name}: {text}, {than}."
    return f"{best.name} is faster than {found.b.name}, in {_odds(found)} of cases: {text}, {than}."


def _number(against: Sequence[Pair]) -> str:
    """Return the difference to the next one, with its range."""
    if not against:
        return ""
    found = against[0]
    low, high = (1 / found.ratio_high - 1, 1 / found.ratio_low - 1)
    ends = " to ".join(f"{100 * end:+.0f} %" for end in (low, high))
    return f"{found.b.name} takes {percent(1 / found.ratio - 1)} longer; 80 % range of the difference: {ends}."


def _odds(found: Pair) -> str:
    """Return odds in hundredths; what no draw contradicts is not certain."""
    share = 100 * found.odds_a_faster
    return "over 99 %" if share > 99 else f"{share:.0f} %"  # noqa: PLR2004  of a hundred


def _title(best: Side, sides: Sequence[Side]) -> str:
    systems = list(dict.fromkeys(side.system for side in sides))
    loads = sorted({side.users for side in sides})
    load = f"{whole_number(loads[0])} users" if len(loads) == 1 else f"batch {best.batch:g} a replica"
    return f"{best.model} on {', '.join(systems)}, {load}".replace(", 1 users", ", 1 user")


def _table(best: Side, against: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    """Return the deployments, the fastest first, each against the fastest."""
    apart = len({best.batch, *(found.b.batch for found in against)}) > 1
    rows = [[*_speed(best, batch=apart), "", "", ""]]
    for found in against[:_ROWS]:
        low, high = (f"{1 / end:.2f}" for end in (found.ratio_high, found.ratio_low))
        rows.append([*_speed(found.b, batch=apart), f"{1 / found.ratio:.2f}", f"{low} to {high}", _odds(found)])
    heads = ["<layout", *(["batch"] if apart else []), "ms/token", "tok/s", "ratio", "80 % range", "slower in"]
    return heads, rows


def _speed(side: Side, *, batch: bool) -> list[str]:
    cells = [fields.milliseconds(side.tpot_s), fields.count(side.tokens_per_s_per_user)]
    return [side.name, *([f"{side.batch:g}"] if batch else []), *cells]


def _flip(found: Pair) -> str:
    """Return the load at which the other one is the faster."""
    if found.flips_at_users is None:
        return f"{found.a.name} is ahead of {found.b.name} at every load that both have room for."
    text = f"{whole_number(found.flips_at_users)} user{'s' if found.flips_at_users > 1 else ''}"
    where = f"from {text} on" if found.flips_at_users > found.a.users else f"at {text}"
    return f"It flips: {found.b.name} is ahead {where}."

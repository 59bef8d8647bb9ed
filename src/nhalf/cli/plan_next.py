"""What to run after a plan: the chosen layout term by term, or the plan of one of several systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.cli import next_command
from nhalf.loading.choices import LENGTHS, TEXTS
from nhalf.loading.degrees import FIELDS
from nhalf.loading.options import NAMES as OPTIONS
from nhalf.report import plan_several as several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.search import Plan
    from nhalf.loading import Request
    from nhalf.report.plan_several import Named


def decoding(found: Plan, request: Request, skew: float | None) -> str:
    """Return the command to run next: the chosen layout, term by term."""
    row = found.chosen or found.nearest
    if row is None:
        return "nhalf catalog systems"
    layout, sends = row.layout, row.layout.routed_exchange == "all-to-all"
    changed: dict[str, object] = {"model": request.model, "--on": request.systems[0], "--batch": row.batch}
    for flag, field in FIELDS.items():
        degree = getattr(layout, field)
        changed[f"--{flag.replace('_', '-')}"] = degree if degree > 1 or flag == "tp" else None
    # The exchange that a plan was narrowed to is one of its wish; that of the row says it for both.
    options = request.options.having({"exchange": "all-to-all" if sends else None, "skew": skew if sends else None})
    changed |= {f"--{name}": getattr(request, name) for name in (*LENGTHS, *TEXTS)}
    changed |= {f"--{name.replace('_', '-')}": getattr(options, name) for name in OPTIONS}
    changed |= {"--set": tuple(f"{path}={value}" for path, value in request.changes.items()), "--explain": True}
    return next_command.command("decode", changed)


def alone(plans: Sequence[Named], prices: Sequence[str | None]) -> str:
    """Return the command that plans for one of several systems: the one whose plan gives most, with its price."""
    best = (several.winner(plans) or plans[0])[0]
    price = next(price for (system, _, _), price in zip(plans, prices, strict=True) if system == best)
    return f"{next_command.command('plan', {'--on': best, '--price': price})}  # every layout, and its launch lines"

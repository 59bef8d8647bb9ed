"""The answer of `nhalf collective` as the JSON document of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.decide.choice import planner, symmetric
from nhalf.report import planned
from nhalf.report.collective import verdict
from nhalf.report.document import datum, envelope, number

if TYPE_CHECKING:
    from nhalf.decide.choice import Choice
    from nhalf.decide.collective import Row
    from nhalf.decide.collective_case import Question
    from nhalf.decide.fixed_time import FixedTime
    from nhalf.library import Rule
    from nhalf.report.collective_answer import Answer


def document(found: Answer) -> dict[str, Any]:
    """Return the document of the contract."""
    return envelope("collective", body(found))


def body(found: Answer) -> dict[str, Any]:
    """Return what the document says of one system."""
    question = found.question
    return {
        "verdict": verdict(found),
        "op": str(question.op),
        "subject": found.loaded.subject,
        "ranks": question.ranks,
        "nodes": question.span.nodes,
        "tier": question.span.tier,
        "library": found.loaded.library or None,
        "mode": str(question.mode) if question.library is not None else None,
        "has": sorted(question.has),
        "measured_on": None if question.curve is None else question.curve.key.system,
        "rows": [_row(row) for row in found.rows],
        "crossovers": [
            {"from": flip.before, "to": flip.after, "size_bytes": flip.size_bytes} for flip in found.flips
        ],
        "choices": [_choice(each, found.per_token) for each in found.choices],
        "symmetric": [_symmetric(question, size) for size in found.loaded.sizes_bytes],
        "planner": None if question.library is None else planner(question.library),
        "notes": planned.notes(question, found.known),
        "published": planned.published(question, found.known),
        "collectives_per_token": found.per_token,
        "fixed_time": _fixed_document(found.fixed),
        "launch_pairs": [
            {
                "system": pair.system, "library": pair.library, "version": pair.version, "ranks": pair.ranks,
                "graph_s": pair.graph_s, "eager_s": pair.eager_s, "launch_s": pair.launch_s,
            }
            for pair in found.loaded.pairs
        ],
        "rules": [
            _rule_document(rule) for rule in (question.rule, *found.loaded.others) if rule is not None
        ],
        "sources": [{"path": path, **datum(origin)} for path, origin in found.loaded.origins.items()],
        "defaults": [{"flag": flag, "value": why} for flag, why in found.loaded.defaults],
    }  # fmt: skip


def _row(row: Row) -> dict[str, Any]:
    return {
        "size_bytes": row.size_bytes,
        "algorithm": row.algorithm,
        "time_s": row.time_s,
        "low_s": row.low_s,
        "high_s": row.high_s,
        "fixed_s": row.fixed_s,
        "transfer_s": row.transfer_s,
        "kind": row.kind,
        "chosen": row.chosen,
        "fastest": row.fastest,
        "runs": row.runs,
        "exact": row.exact or None,
        "unchecked": row.unchecked or None,
        "needs": row.needs or None,
        "algbw_bytes_per_s": row.algbw_bytes_per_s or None,
        "busbw_bytes_per_s": row.busbw_bytes_per_s or None,
    }


def _symmetric(question: Question, size_bytes: float) -> dict[str, Any] | None:
    """Return what NCCL expects of its symmetric kernels at a size, None where it has none."""
    plan = symmetric(question, size_bytes)
    if plan is None:
        return None
    return {
        "size_bytes": size_bytes,
        "path": plan.path,
        "time_s": plan.time_s,
        "fixed_s": plan.fixed_s,
        "kind": "assumed",
    }


def _choice(each: Choice, per_token: int) -> dict[str, Any]:
    lost = each.lost_s
    plan = each.plan
    return {
        "size_bytes": each.size_bytes,
        "fastest": each.fastest,
        "fastest_s": each.fastest_s,
        "algorithm": each.algorithm,
        "time_s": each.time_s,
        "decided_by": each.decided_by or None,
        "measured_s": each.measured_s,
        "behind_s": each.behind_s,
        "laws_tell": None if each.measured_s is None else lost is not None,
        "beaten_at": None if each.beaten is None else {
            "size_bytes": each.beaten.size_bytes, "measured_s": each.beaten.measured_s, "law_s": each.beaten.law_s,
        },
        "lost_s": lost,
        "lost_per_token_s": None if lost is None else per_token * lost,
        "plan": None if plan is None else {
            "path": plan.path, "algorithm": plan.algorithm, "time_s": plan.time_s, "fixed_s": plan.fixed_s,
            "low_s": plan.low_s, "high_s": plan.high_s, "interval_level": planned.LEVEL, "kind": "assumed",
        },
    }  # fmt: skip


def _fixed_document(fixed: FixedTime | None) -> dict[str, Any] | None:
    if fixed is None:
        return None
    return {
        "total_s": fixed.total_s,
        "kind": fixed.kind,
        "algorithm": fixed.algorithm,
        "steps": number(fixed.steps),
        "parts": [
            {"name": part.name, "time_s": part.time_s, "kind": part.kind, "how": part.how, "lever": part.lever}
            for part in fixed.parts
        ],
        "bypasses": [
            {"name": each.name, "saves_s": each.saves_s, "kind": each.kind, "how": each.how} for each in fixed.bypasses
        ],
    }


def _rule_document(rule: Rule) -> dict[str, Any]:
    return {
        "library": rule.library,
        "version": rule.version,
        "variant": rule.variant or None,
        "algorithms": list(rule.algorithms),
        "limits_bytes": [limit.value for limit in rule.limits],
        "strict": rule.strict,
        "per_pair": rule.per_pair,
        "source": rule.source,
        "locator": rule.locator,
        "note": rule.note,
    }

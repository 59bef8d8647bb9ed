"""The answer of `nhalf collective` as the JSON document of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.decide.choice import planner, symmetric
from nhalf.report import planned
from nhalf.report.collective import verdict
from nhalf.report.document import datum, envelope, of

if TYPE_CHECKING:
    from nhalf.decide.choice import Choice
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
        "rows": [
            {**of(row), **{key: getattr(row, key) or None for key in ("algbw_bytes_per_s", "busbw_bytes_per_s")}}
            for row in found.rows
        ],
        "crossovers": [
            of(flip, "size_bytes", **{"from": "before", "to": "after"}) for flip in found.flips
        ],
        "choices": [_choice(each, found.per_token) for each in found.choices],
        "symmetric": [_symmetric(question, size) for size in found.loaded.sizes_bytes],
        "planner": None if question.library is None else planner(question.library),
        "notes": planned.notes(question, found.known),
        "published": planned.published(question, found.known),
        "collectives_per_token": found.per_token,
        "fixed_time": _fixed_document(found.fixed),
        "launch_pairs": [
            of(pair, "system", "library", "version", "ranks", "graph_s", "eager_s", "launch_s")
            for pair in found.loaded.pairs
        ],
        "rules": [
            _rule_document(rule) for rule in (question.rule, *found.loaded.others) if rule is not None
        ],
        "sources": [{"path": path, **datum(origin)} for path, origin in found.loaded.origins.items()],
        "defaults": [{"flag": flag, "value": why} for flag, why in found.loaded.defaults],
    }  # fmt: skip


def _symmetric(question: Question, size_bytes: float) -> dict[str, Any] | None:
    """Return what NCCL expects of its symmetric kernels at a size, None where it has none."""
    plan = symmetric(question, size_bytes)
    if plan is None:
        return None
    return {"size_bytes": size_bytes, "kind": "assumed", **of(plan, "path", "time_s", "fixed_s")}


def _choice(each: Choice, per_token: int) -> dict[str, Any]:
    lost, plan = each.lost_s, each.plan
    keys = (
        "size_bytes",
        "fastest",
        "fastest_s",
        "algorithm",
        "time_s",
        "decided_by",
        "measured_s",
        "behind_s",
        "lost_s",
    )
    planned_keys = ("path", "algorithm", "time_s", "fixed_s", "low_s", "high_s")
    return {
        **of(each, *keys),
        "laws_tell": None if each.measured_s is None else lost is not None,
        "beaten_at": None if each.beaten is None else of(each.beaten),
        "lost_per_token_s": None if lost is None else per_token * lost,
        "plan": plan and {**of(plan, *planned_keys), "interval_level": planned.LEVEL, "kind": "assumed"},
    }


def _fixed_document(fixed: FixedTime | None) -> dict[str, Any] | None:
    if fixed is None:
        return None
    parts = {"parts": [of(part) for part in fixed.parts], "bypasses": [of(each) for each in fixed.bypasses]}
    return {**of(fixed, "total_s", "kind", "algorithm", "steps"), **parts}


def _rule_document(rule: Rule) -> dict[str, Any]:
    keys = ("library", "version", "variant", "algorithms", "strict", "per_pair")
    told = {"source": rule.source, "locator": rule.locator, "note": rule.note}
    return {**of(rule, *keys), "limits_bytes": [limit.value for limit in rule.limits], **told}

"""The answer of `nhalf plan` as the JSON document of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.decide.launch_lines import lines, switches
from nhalf.decide.layouts import name
from nhalf.decide.requests import waits
from nhalf.report.document import envelope, taken
from nhalf.report.fields import waited
from nhalf.report.plan import served
from nhalf.report.plan_why import why
from nhalf.report.plan_words import judgement, rule_of_thumb, verdict

if TYPE_CHECKING:
    from nhalf.decide.launch_lines import Line
    from nhalf.decide.pools import Pools
    from nhalf.decide.search import Plan, Rule
    from nhalf.report.plan import Asked


def document(plan: Plan, asked: Asked, *, every: bool) -> dict[str, Any]:
    """Return the document of `nhalf plan`: the best point of each layout and the front, or every point."""
    return envelope("plan", body(plan, asked, every=every))


def body(plan: Plan, asked: Asked, *, every: bool) -> dict[str, Any]:
    """Return what the document says of one plan."""
    chosen = plan.chosen
    launch: dict[str, Line] = {} if chosen is None else lines(chosen.layout, served(chosen, asked.served_model))
    stack = None if chosen is None else chosen.candidate.scenario.stack
    return {
        "verdict": verdict(plan),
        "gpus": plan.gpus,
        "goal": plan.wish.goal,
        "tpot_limit_s": plan.wish.tpot_s,
        "ttft_limit_s": plan.wish.ttft_s,
        "odds": plan.wish.odds,
        "users": plan.wish.users,
        "rate_per_s": plan.wish.rate_per_s,
        "rows": plan.records(every=every),
        "chosen": None if chosen is None else plan.record(chosen),
        "waits": waited(None if chosen is None else waits(chosen)),
        "even": None if plan.even is None else plan.record(plan.even),
        "nearest": None if plan.nearest is None else plan.record(plan.nearest),
        "judged": None if plan.judged is None else plan.record(plan.judged),
        "judged_best": None if plan.judged_best is None else plan.record(plan.judged_best),
        "judgement": judgement(plan, asked.launched) or None,
        "launch": {engine: line.command or None for engine, line in launch.items()},
        "launch_notes": {engine: [line.reason] if line.reason else list(line.also) for engine, line in launch.items()},
        "assumes": []
        if chosen is None or stack is None
        else list(switches(chosen.layout, mode=str(stack.mode), serves_prompts=chosen.ttft_s is not None)),
        "pools": None if plan.pools is None else _pools(plan.pools),
        "why": why(plan),
        "rules": [_rule(rule) for rule in plan.rules],
        "refused": [{"reason": why, "layouts": count} for why, count in plan.refused.items()],
        "defaults": taken(asked.defaults),
        "warnings": list(asked.warnings),
    }


def _pools(found: Pools) -> dict[str, Any]:
    """Return the split into prefill and decode."""
    return {
        "prefill": name(found.prefill.candidate.layout),
        "prefill_replicas": found.prefill.replicas,
        "decode": name(found.decode.candidate.layout),
        "decode_replicas": found.decode.replicas,
        "batch": found.decode.batch,
        "tpot_s": found.tpot_s,
        "ttft_low_s": found.first_s,
        "transfer_s": found.transfer_s,
        "transfer_share": found.transfer_share,
        "tokens_per_s_per_user": found.per_user,
        "tokens_per_s_per_gpu": found.per_gpu,
    }


def _rule(rule: Rule) -> dict[str, Any]:
    """Return what the numbers say of the rule of thumb."""
    return {
        "devices": rule.devices,
        "what": rule.what,
        "inside": name(rule.inside.layout),
        "inside_value": rule.inside.score,
        "across": name(rule.across.layout),
        "across_value": rule.across.score,
        "holds": rule.holds,
        "text": rule_of_thumb(rule),
    }

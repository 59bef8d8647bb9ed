"""The answer of `nhalf plan` as the JSON document of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.decide.launch_lines import lines, switches
from nhalf.decide.layouts import name
from nhalf.decide.requests import waits
from nhalf.report.document import envelope, of, taken
from nhalf.report.fields import waited
from nhalf.report.plan import served
from nhalf.report.plan_words import judgement, rule_of_thumb, verdict, why

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
        **of(plan.wish, "odds", "users", "rate_per_s", tpot_limit_s="tpot_s", ttft_limit_s="ttft_s"),
        "rows": plan.records(every=every),
        **{
            key: None if (row := getattr(plan, key)) is None else plan.record(row)
            for key in ("chosen", "even", "nearest", "judged", "judged_best")
        },
        "waits": waited(None if chosen is None else waits(chosen)),
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
    sides = {
        key: value
        for role, side in (("prefill", found.prefill), ("decode", found.decode))
        for key, value in ((role, name(side.candidate.layout)), (f"{role}_replicas", side.replicas))
    }
    renamed = {"ttft_low_s": "first_s", "tokens_per_s_per_user": "per_user", "tokens_per_s_per_gpu": "per_gpu"}
    return {**sides, "batch": found.decode.batch, **of(found, "tpot_s", "transfer_s", "transfer_share", **renamed)}


def _rule(rule: Rule) -> dict[str, Any]:
    """Return what the numbers say of the rule of thumb."""
    sides = {
        key: value
        for side, row in (("inside", rule.inside), ("across", rule.across))
        for key, value in ((side, name(row.layout)), (f"{side}_value", row.score))
    }
    return {**of(rule, "devices", "what", "holds"), **sides, "text": rule_of_thumb(rule)}

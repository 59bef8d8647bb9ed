"""The answer of `nhalf buy` and `nhalf whatif` as the JSON document of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nhalf.report.buy import why_nothing
from nhalf.report.buy_words import links, unused_links, verdict_between, verdict_interactive, verdict_throughput
from nhalf.report.document import envelope, of, taken
from nhalf.report.fields import record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.purchase import Effect, Purchase
    from nhalf.loading import Default


def document(
    command: str, purchases: Sequence[Purchase], defaults: Sequence[Default], warnings: Sequence[str]
) -> dict[str, Any]:
    """Return the document of `nhalf buy` or `nhalf whatif`; of several systems, that of each and the options of all."""
    bodies = [_body(found, defaults, warnings) for found in purchases]
    if len(bodies) == 1:
        return envelope(command, bodies[0])
    verdicts = {
        key: " ".join(f"{body['system']}: {body[key]}" for body in bodies)
        for key in ("verdict_interactive", "verdict_throughput", "latency_or_bandwidth")
    }
    options = [option for body in bodies for option in body["options"]]
    return envelope(command, {**verdicts, "model": bodies[0]["model"], "options": options, "systems": bodies})


def _body(found: Purchase, defaults: Sequence[Default], warnings: Sequence[str]) -> dict[str, Any]:
    """Return what the document says of one system."""
    state = found.effects[0].before
    return {
            "unused_links": unused_links(found) or None,
            "verdict_interactive": verdict_interactive(found),
            "verdict_throughput": verdict_throughput(found),
            "verdict_between": verdict_between(found) or None,
            "latency_or_bandwidth": links(found),
            "model": state.scenario.transformer.name,
            "system": state.scenario.system.name,
            "options": [_option(effect, found) for effect in found.effects],
            "mix": [
                {"name": option.name, "gain": found.mixed_gain(option)} for option in found.options if found.mix
            ],
            "flips": [
                of(flip, "batch", **{"from": "before", "to": "after"}) for flip in found.flips
            ],
            "bandwidth_from_batch": found.wish_flip,
            "links": [
                of(wish, "batch", "tier", gain_twice_bandwidth="wider", gain_half_latency="quicker")
                for wish in found.wishes
            ],
            "tornado": [
                {"batch": batch, "input": path, "value": value}
                for batch, inputs in found.tornado.items()
                for path, value in inputs.items()
            ],
            "defaults": taken(defaults),
            "warnings": list(warnings),
    }  # fmt: skip


def _option(effect: Effect, found: Purchase) -> dict[str, Any]:
    """Return one option at one batch."""
    before, after = effect.before, effect.after
    same = [other for other in found.effects if other.option is effect.option]
    return {
        "system": before.scenario.system.name,
        "name": effect.option.name,
        "batch": effect.batch,
        "layout_before": before.scenario.layout.name,
        "layout_after": after.scenario.layout.name if after else None,
        "before": record(before),
        "after": record(after) if after else None,
        "step_before_s": before.step_s,
        "step_after_s": after and after.step_s,
        **of(effect, "gain", "above_model_error", "gain_per_money", gain_low="low", gain_high="high"),
        **of(effect.option, "price_per_gpu", model_error="error"),
        **{
            f"{key}_{when}": state and getattr(state, key)
            for key in ("tokens_per_s_per_user", "tokens_per_s_per_gpu", "binding")
            for when, state in (("before", before), ("after", after))
        },
        "reason": why_nothing(same) or None,
    }

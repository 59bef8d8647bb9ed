"""Windows: what happened between two scrapes: the mean step, how many requests it decoded and how long they were.

References
----------
J. Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961): the seconds that requests spent
between tokens, over the seconds that went by, are the requests that decode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nhalf.engines.exports import EXPORTS
from nhalf.live.reading import LAST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.live.reading import Reading

_LEAST_S: Final = 1e-5
_MOST_S: Final = 600.0
"""Between these a step can be [s]; what lies outside is no step."""
_MOST_REQUESTS: Final = 1e6
_MOST_TOKENS: Final = 1e8
"""More requests in a step, or tokens in one's context, than these are damage."""
_MARGIN: Final = 1.25
"""A step counts as one with prefill where it holds this much more than the tokens that are decoded."""
_GAUGE: Final = 0.03
_CACHE: Final = 0.10
_LENGTHS: Final = 0.25
"""How far a mean context may be off: from the decode batch itself, from used cache blocks, from lengths of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What a server did from `start` to `end` [s since 1970]; NaN is not known.

    `step_s` is the mean step as requests saw it, `decode_s` that without prefill where it is told, `kept` the tokens
    that a request keeps of a step, `running` the requests that decode in one (of one data-parallel rank) and `context`
    their mean tokens, each with its range. `prompts` and `prompt_tokens` are of a step, `prefill_share` is the part of
    the steps with some, and `extra_s` the range of what such a step takes longer. `queue_s` is the wait before the
    first step, per token; `preempted` is per request.
    """

    start: float
    end: float
    engine: str
    step_s: float
    kept: float
    running: tuple[float, float, float]
    context: tuple[float, float, float]
    steps: float
    prompts: float
    prompt_tokens: float
    prefill_share: float
    extra_s: tuple[float, float]
    queue_s: float
    preempted: float
    kv_share: float
    waiting: float
    decode_s: float = math.nan
    observed: str = "step"

    @property
    def tpot_s(self) -> float:
        """Return the time of a token once a request has started [s]."""
        return self.step_s / self.kept

    @property
    def token_s(self) -> float:
        """Return the time of a token with its part of the wait before the first step [s]."""
        return self.tpot_s + (0.0 if math.isnan(self.queue_s) else self.queue_s)

    @property
    def prompt_length(self) -> float:
        """Return the mean prompt of the requests that started [tokens]."""
        return self.prompt_tokens / self.prompts if self.prompts > 0 else math.nan


def restarted(before: Reading, after: Reading) -> bool:
    """Tell whether a counter went down, or a fact of the server changed: it was started again."""
    if after.fresh:
        return 0 < after.totals.get(LAST, 0.0) < before.totals.get(LAST, 0.0)
    fell = any(after.totals.get(name, value) < value for name, value in before.totals.items())
    return fell or any(after.facts.get(key, value) != value for key, value in before.facts.items())


class NothingError(Exception):
    """Nothing can be said of a time; the text says why."""


def window(before: Reading | None, after: Reading) -> Window:
    """Return what happened between two readings of a server.

    Raises
    ------
    NothingError
        They do not tell.
    """
    if after.fresh:
        return _possible(_of_records(before, after))
    if before is None:
        raise NothingError("it was not seen before")
    return _possible(_of_counters(before, after))


def _possible(found: Window) -> Window:
    """Return a window whose step, requests and context can be; what lies outside is damage."""
    if not _LEAST_S < found.step_s < _MOST_S:
        raise NothingError(f"a step of {found.step_s:.3g} s cannot be")
    if found.running[0] > _MOST_REQUESTS:
        raise NothingError(f"{found.running[0]:.3g} requests in a step cannot be")
    if not (math.isnan(found.context[0]) or 1.0 <= found.context[0] <= _MOST_TOKENS):
        raise NothingError(f"a context of {found.context[0]:.3g} tokens cannot be")
    return found


def _of_counters(before: Reading, after: Reading) -> Window:
    """Return what counters gained between two pages."""
    if after.at <= before.at:
        raise NothingError("no time went by")
    gained = {name: value - before.totals[name] for name, value in after.totals.items() if name in before.totals}
    if any(value < 0 for value in gained.values()):
        raise NothingError("its counters began anew")
    gaps, gap_s = gained.get("gaps", 0.0), gained.get("gap_s", 0.0)
    if gaps <= 0 or gap_s <= 0:
        raise NothingError("no token came")
    observed = EXPORTS[after.engine].observed
    kept = _kept(gained, after.levels)
    step_s = gap_s / gaps * (1.0 if observed == "step" else kept)
    running = _running(gained, before, after, step_s / kept)
    if not running[0] > 0:
        raise NothingError("nothing ran")
    tokens = gained.get("tokens", 0.0) if observed == "request" else gaps * (kept if observed == "step" else 1.0)
    steps = gained.get("steps") or tokens / (running[0] * kept) / after.ranks
    steps = steps or (after.at - before.at) / step_s
    prompts, prompt_tokens = gained.get("prompts", 0.0) / steps, gained.get("prompt_tokens", 0.0) / steps
    queue = gained.get("queued_s", math.nan) / tokens if tokens > 0 else math.nan
    return Window(
        start=before.at, end=after.at, engine=after.engine, step_s=step_s, kept=kept, running=running,
        context=_context(gained, before, after), steps=steps, prompts=prompts, prompt_tokens=prompt_tokens,
        prefill_share=_prefill_share(before, after, steps, prompts, running[0] * kept),
        extra_s=_extra(gained, step_s), queue_s=queue, preempted=_preempted(gained, after.levels),
        kv_share=after.levels.get("kv_share", math.nan), waiting=after.levels.get("waiting", math.nan),
        observed=observed,
    )  # fmt: skip


def _of_records(before: Reading | None, after: Reading) -> Window:
    """Return what the records of iterations of one page say: pure decode steps apart from those with prefill."""
    totals = after.totals
    steps, pure = totals.get("steps", 0.0), totals.get("decode_steps", 0.0)
    if not steps or (before is not None and before.fresh and 0 < totals[LAST] == before.totals.get(LAST)):
        raise NothingError("no step came")
    step_s = (totals["decode_s"] + totals["mixed_s"]) / steps
    running = totals["running_sum"] / steps
    context = totals["context_sum"] / totals["context_steps"] if totals["context_steps"] else math.nan
    decode_s = totals["decode_s"] / pure if pure else math.nan
    extra = totals["mixed_s"] / (steps - pure) - decode_s if pure and steps > pure else math.nan
    share = 1.0 - pure / steps
    return Window(
        start=before.at if before else after.at - step_s * steps, end=after.at, engine=after.engine, step_s=step_s,
        kept=totals["accepted_sum"] / steps, running=_around(running, 0.01), context=_around(context, _GAUGE),
        steps=steps, prompts=math.nan, prompt_tokens=totals["prompt_tokens"] / steps, prefill_share=share,
        extra_s=(extra, extra), queue_s=math.nan, preempted=_preempted({}, after.levels),
        kv_share=after.levels.get("kv_share", math.nan), waiting=after.levels.get("waiting", math.nan),
        decode_s=decode_s, observed="iteration",
    )  # fmt: skip


def _around(value: float, share: float) -> tuple[float, float, float]:
    """Return a value with a range of a share on each side."""
    return value, value * (1.0 - share), value * (1.0 + share)


def _kept(gained: Mapping[str, float], levels: Mapping[str, float]) -> float:
    """Return the tokens that a request keeps of a step: more than one with speculation alone."""
    drafts = gained.get("drafts", 0.0)
    if drafts > 0:
        return 1.0 + gained.get("accepted", 0.0) / drafts
    return max(levels.get("accept_length", 1.0), 1.0)


def _running(gained: Mapping[str, float], before: Reading, after: Reading, tpot_s: float) -> tuple[float, float, float]:
    """Return the requests that decode in a step, by counts, by Little's law and by the gauge; the best comes first."""
    observed, found = EXPORTS[after.engine].observed, []
    if observed == "step" and gained.get("steps", 0.0) > 0:
        found.append(gained["gaps"] / gained["steps"])
    seconds = after.at - before.at
    if observed == "request":
        found += [(before.levels[name] + after.levels[name]) / 2 / after.ranks
                  for name in ("in_flight",) if name in before.levels and name in after.levels]  # fmt: skip
        found.append(gained.get("tokens", 0.0) / seconds * tpot_s / after.ranks)
    else:
        found.append(gained["gap_s"] / seconds / after.ranks)
    level = after.levels.get("in_flight", 0.0) / after.ranks
    best = next((each for each in found if each > 0), level)
    near = [best, *([level] if 0.5 < level / max(best, 1e-9) < 2 else [])]  # noqa: PLR2004  a sample of one moment
    return best, 0.98 * min(near), 1.02 * max(near)


def _context(gained: Mapping[str, float], before: Reading, after: Reading) -> tuple[float, float, float]:
    """Return the mean tokens of a request in the cache: told, by blocks of the cache, or by lengths of requests."""
    told = [_told(each) for each in (before, after)]
    known = [value for value, _ in told if value > 0]
    if known:
        return _around(sum(known) / len(known), told[-1][1])
    prompts = gained.get("prompts", 0.0)
    if prompts > 0 and gained.get("prompt_tokens", 0.0) > 0:
        ended = gained.get("lengths", 0.0)
        output = gained["lengths_sum"] / ended if ended else gained.get("tokens", 0.0) / prompts
        return _around(gained["prompt_tokens"] / prompts + output / 2, _LENGTHS)
    return math.nan, math.nan, math.nan


def _told(reading: Reading) -> tuple[float, float]:
    """Return the mean context that a reading tells, 0 for none, and how far it may be off."""
    levels, running = reading.levels, reading.levels.get("in_flight", 0.0)
    if running <= 0:
        return 0.0, _CACHE
    if levels.get("context_sum", 0.0) > 0:
        return levels["context_sum"] / running, _GAUGE
    used = levels.get("kv_blocks", 0.0) * levels.get("block_size", 0.0)
    if not used and "num_gpu_blocks" in reading.facts:
        used = levels.get("kv_share", 0.0) * _count(reading.facts, "num_gpu_blocks") * reading.ranks
        used *= _count(reading.facts, "block_size")
    return used / running, _CACHE


def _count(facts: Mapping[str, str], name: str) -> float:
    """Return a number that a label states, 0 where it states none."""
    text = facts.get(name, "")
    return float(text) if text.isdecimal() and len(text) < 13 else 0.0  # noqa: PLR2004  blocks and tokens


def _prefill_share(before: Reading, after: Reading, steps: float, prompts: float, decoded: float) -> float:
    """Return the part of the steps that hold prefill: by how many tokens steps have, else by the prompts that came."""
    bounds = sorted(bound for bound in after.sizes if bound >= _MARGIN * decoded and math.isfinite(bound))
    per_prompt = min(prompts, 1.0)
    if not bounds or not before.sizes:
        return per_prompt
    small = after.sizes[bounds[0]] - before.sizes.get(bounds[0], 0.0)
    return min(max(1.0 - small / steps, 0.0), 1.0) or per_prompt


def _extra(gained: Mapping[str, float], step_s: float) -> tuple[float, float]:
    """Return the range of what a step with prefill takes longer, by the time to the first token.

    That is the wait in the queue, the rest of the step that runs (none to all of it), and the step with the prompt.
    """
    prompts, queued = gained.get("prompts", 0.0), gained.get("queued", 0.0)
    if prompts <= 0 or "first_s" not in gained:
        return math.nan, math.nan
    wait = gained["first_s"] / prompts - (gained.get("queued_s", 0.0) / queued if queued > 0 else 0.0)
    return max(wait - 2 * step_s, 0.0), max(wait - step_s, 0.0)


def _preempted(gained: Mapping[str, float], levels: Mapping[str, float]) -> float:
    """Return the preemptions for each request that started; of engines with a gauge, the requests that wait so."""
    if "preemptions" in gained:
        return gained["preemptions"] / max(gained.get("prompts", 0.0), 1.0)
    halted = levels.get("retracted", levels.get("paused", math.nan))
    return halted / max(levels.get("in_flight", 0.0), 1.0)


def pooled(windows: Sequence[Window]) -> Window:
    """Return windows that follow each other as one: means by their steps, levels of the last."""
    weights = [each.steps for each in windows]

    def mean(values: list[float]) -> float:
        known = [(value, weight) for value, weight in zip(values, weights, strict=True) if math.isfinite(value)]
        return (
            sum(value * weight for value, weight in known) / sum(weight for _, weight in known) if known else math.nan
        )

    numbers = {name: mean([getattr(each, name) for each in windows]) for name in _MEANS}
    ranges = {name: tuple(mean([getattr(each, name)[place] for each in windows])
                          for place in range(len(getattr(windows[0], name)))) for name in _RANGES}  # fmt: skip
    return replace(windows[-1], start=windows[0].start, steps=sum(weights), **numbers, **ranges)  # type: ignore[arg-type]


_MEANS: Final = ("step_s", "kept", "prompts", "prompt_tokens", "prefill_share", "queue_s", "preempted", "decode_s")
_RANGES: Final = ("running", "context", "extra_s")

"""The answer about one server: what is measured, what is predicted, the split, and findings with their causes."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.engines.exports import EXPORTS
from nhalf.live import causes, split
from nhalf.live.watch import Seen
from nhalf.live.window import pooled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.live.causes import Change
    from nhalf.live.drift import Shift
    from nhalf.live.split import Communication, Part
    from nhalf.live.watch import Watch

_TOGETHER_S: Final = 60.0
"""What is shown is the mean of so much time [s]."""
_QUEUED: Final = 0.1
"""From this share of a token's time on, the wait before the first step is worth a word."""
_HALF: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to know: its code, since when [s since 1970], whether to act, and a sentence or two."""

    code: str
    since: float
    alarm: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of one server: the last minute, its parts and findings; None before the first window."""

    name: str
    engine: str
    seen: Seen | None
    parts: Sequence[Part]
    findings: Sequence[Finding]
    timed: Communication | None
    why_nothing: str = ""


def answer(watch: Watch, now: float) -> Answer:
    """Return the answer about a server at a time [s since 1970]."""
    engine = watch.last.engine if watch.last is not None else ""
    silent = _silent(watch, now)
    if not watch.seen:
        why = watch.gaps[-1].why if watch.gaps else "one scrape tells no rate: the next one will"
        found = [silent] if silent else []
        return Answer(name=watch.name, engine=engine, seen=None, parts=(), findings=found, timed=None, why_nothing=why)
    rows = [each for each in watch.seen if each.window.end > watch.seen[-1].window.end - _TOGETHER_S]
    seen = _mean(watch, rows)
    timed = _timed(watch, seen)
    change = causes.changed(watch)
    kept = change.before.kept if change is not None else math.nan
    states = sorted(_states(watch, rows, seen), key=lambda each: not each.alarm)
    found = [each for each in (silent, *_changes(watch, change, timed), *states) if each is not None]
    return Answer(
        name=watch.name, engine=engine, seen=seen, parts=split.split(seen, timed, kept), timed=timed,
        findings=found,
    )  # fmt: skip


def _mean(watch: Watch, rows: Sequence[Seen]) -> Seen:
    """Return windows as one, with the prediction at their mean load."""
    if len(rows) == 1:
        return rows[0]
    window = pooled([each.window for each in rows])
    return Seen(window=window, predicted=watch.expected.at(window) if watch.expected is not None else None)


def _timed(watch: Watch, seen: Seen) -> Communication | None:
    """Return what the newest dump of an inspector says of a step."""
    if watch.expected is None or not watch.calls:
        return None
    return split.communication(watch.expected, seen.window, watch.calls[-1][1])


def _silent(watch: Watch, now: float) -> Finding | None:
    """Return that the server does not answer, where the last scrape brought nothing."""
    gap = watch.gaps[-1] if watch.gaps else None
    last = watch.last.at if watch.last is not None else -math.inf
    if gap is None or gap.end <= last or gap.end < now - 3 * watch.every:
        return None
    return Finding(
        code=causes.SILENT, since=gap.start, alarm=True, text=f"No answer since {clock(gap.start)}: {gap.why}."
    )


def _changes(watch: Watch, change: Change | None, timed: Communication | None) -> list[Finding]:
    """Return what changed, with its cause; a restart that changed nothing; a change that was taken back."""
    found: list[Finding] = []
    if change is not None:
        code = causes.cause(watch, change, timed)
        alarm = code not in (causes.PROMPTS, causes.BATCH)
        text = _sentence(watch, change, code, timed)
        found.append(Finding(code=code, since=change.since, alarm=alarm, text=text))
    if watch.restarts and all(each.code != causes.RESTARTED for each in found):
        at = watch.restarts[-1]
        text = f"The server was started again at {clock(at)}; nothing else changed with it that shows here."
        found.append(Finding(code=causes.RESTARTED, since=at, alarm=False, text=text))
    last = watch.drift.shifts[-1] if watch.drift is not None and watch.drift.shifts else None
    if last is not None and last.excess_s < 0 and causes.standing(watch) is None:
        text = f"Since {clock(last.since)} a step takes {_span(last, less=True)} less at the same load."
        found.append(Finding(code=causes.FASTER, since=last.since, alarm=False, text=text))
    return found


def _sentence(watch: Watch, change: Change, code: str, timed: Communication | None) -> str:
    """Return in words what changed, why, and what would tell more."""
    before, after = change.before, change.after
    longer = f"Since {clock(change.since)} a token takes {units.format_time(change.change_s)} longer:"
    requests, context = (f"{now:,.0f}, {earlier:,.0f} before" for now, earlier in (
        (after.running[0], before.running[0]), (after.context[0], before.context[0])))  # fmt: skip
    full = (
        f"the KV cache is {100 * after.kv_share:.0f} % full, with {after.preempted:.2g} preemptions for each request."
    )
    told = {
        causes.RESTARTED: "the server was started again. Compare the two launch lines and versions.",
        causes.CACHE: f"{full} Fewer at once, or more room for the cache.",
        causes.SPECULATION: f"a step keeps {after.kept:.2f} tokens, {before.kept:.2f} before. The drafts fit less.",
        causes.BATCH: f"the requests that decode together are {requests}. That is load, no fault.",
        causes.PROMPTS: f"the mean context in tokens is {context}. That is load, no fault.",
    }
    return f"{longer} {told[code]}" if code in told else _added(watch, change, code, timed)


def _added(watch: Watch, change: Change, code: str, timed: Communication | None) -> str:
    """Return in words what was added to the step, and what would tell a link from a rank."""
    shift = causes.standing(watch)
    took = _span(shift) if shift is not None else units.format_time(change.change_s)
    text = f"Since {clock(change.since)} a step takes {took} longer at the same load."
    rows = watch.expected.collectives(change.after.running[0]) if watch.expected is not None else []
    if rows and shift is not None:
        count = sum(row[2] for row in rows)
        text += (
            f" Over {count:.0f} collectives that is {units.format_time(shift.excess_s / count)} each, if it is they."
        )
    if code == causes.RANK and timed is not None:
        rank = f"rank {timed.slowest}" if timed.slowest >= 0 else "no rank more than others"
        return f"{text} Collectives wait {units.format_time(timed.straggler_s or 0.0)} a token for the last: {rank}."
    if code == causes.LINK:
        return f"{text} The collectives themselves take longer on every rank: look at the links."
    if watch.calls and timed is None and watch.expected is not None:
        return f"{text} The collectives that were timed are of other sizes than those that run now."
    return (f"{text} These metrics cannot tell a slow link from a slow rank or host: name the traces of all ranks, or "
            "dumps of NCCL Inspector (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES=0), beside the address.")  # fmt: skip


def _states(watch: Watch, rows: Sequence[Seen], seen: Seen) -> list[Finding]:
    """Return what holds now: queueing, no graphs, and where the step lies against its prediction."""
    found, window = [], seen.window
    begin = rows[0].window.start
    if window.queue_s > _QUEUED * window.token_s or (len(rows) > 1 and all(each.window.waiting >= 1 for each in rows)):
        share = f", {100 * window.queue_s / window.token_s:.0f} % of a token's time" if window.queue_s > 0 else ""
        text = f"Requests wait for room: {window.waiting:.0f} in the queue{share}. No link changes that."
        found.append(Finding(code=causes.QUEUEING, since=begin, alarm=False, text=text))
    graph = watch.last.levels.get("graph") if watch.last is not None else None
    if graph is not None and graph < _HALF:
        text = "Steps run without CUDA graphs, which costs more than most links: look there first."
        found.append(Finding(code=causes.EAGER, since=begin, alarm=True, text=text))
    if seen.predicted is not None:
        against = _against(seen, begin)
        drifted = causes.standing(watch) is not None
        found += [] if drifted and against.code == causes.WITHIN else [against]
    return found


def _against(seen: Seen, begin: float) -> Finding:
    """Return where the decode step lies against the band of its prediction."""
    over, low, high = split.excess(seen)
    if low > 0:
        sure = units.format_time(low)
        text = f"A decode step takes {units.format_time(over)} more than predicted, {sure} of it beyond doubt."
        return Finding(code=causes.ABOVE, since=begin, alarm=True, text=text)
    if high < 0:
        text = f"A decode step takes {units.format_time(-over)} less than predicted: look at model, system and layout."
        return Finding(code=causes.BELOW, since=begin, alarm=False, text=text)
    text = "The decode step is as predicted, within the model's error: no excess shows."
    return Finding(code=causes.WITHIN, since=begin, alarm=False, text=text)


def _span(shift: Shift, *, less: bool = False) -> str:
    """Return a change with its range."""
    ends = sorted(abs(end) for end in (shift.low_s, shift.high_s))
    value = -shift.excess_s if less else shift.excess_s
    return f"{units.format_time(value)} ({' to '.join(units.format_time(end) for end in ends)})"


def clock(at: float) -> str:
    """Return a time of day in UTC."""
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).strftime("%H:%M:%S")


def title(engine: str) -> str:
    """Return the name of an engine."""
    return EXPORTS[engine].title if engine in EXPORTS else engine or "unknown"

"""The answer of `nhalf live`: what a server pays now, against its prediction, and since when."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.live import split
from nhalf.live.answer import clock, title
from nhalf.live.drift import DAYS, LEAST
from nhalf.report.document import envelope, number
from nhalf.report.view import Brief, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.live.answer import Answer, Finding
    from nhalf.live.split import Part
    from nhalf.live.watch import Seen, Watch
    from nhalf.report.canvas import Canvas

DUMPS: Final = "only dumps of an inspector are named, and no server"
_FINDINGS: Final = 4
_CALM: Final = ("as-predicted", "below-prediction", "fuller-batch", "longer-prompts", "faster")
_MS: Final = 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Everything about some servers: their answers and watches, the worst first, and what was assumed or left out."""

    answers: Sequence[Answer]
    watches: Sequence[Watch]
    assumed: str = ""
    notes: Sequence[str] = ()


def urgency(found: Answer) -> tuple[int, float]:
    """Return by what servers are ordered: alarms first, then the largest excess."""
    excess = split.excess(found.seen)[0] if found.seen is not None else math.nan
    return -sum(each.alarm for each in found.findings), -excess if math.isfinite(excess) else 0.0


def document(found: Watched) -> dict[str, Any]:
    """Return the document of the contract: the worst server on top, all of them in `servers`."""
    servers = [_server(answer, watch) for answer, watch in zip(found.answers, found.watches, strict=True)]
    top = servers[0] if servers else {"measured": None, "predicted": None, "split": [], "findings": []}
    body = {
        **{key: top[key] for key in ("measured", "predicted", "split", "findings")},
        "servers": servers,
        "history": [row for watch in found.watches for row in history(watch)],
        "drift_test": {"mean_days_between_false_alarms": DAYS, "least_change": LEAST},
        "assumed": found.assumed,
        "notes": list(found.notes),
    }
    return envelope("live", body)


def _server(found: Answer, watch: Watch) -> dict[str, Any]:
    """Return what is known of one server."""
    return {
        "server": found.name,
        "engine": found.engine or None,
        "measured": _measured(found.seen) if found.seen else None,
        "predicted": _predicted(found.seen) if found.seen else None,
        "split": [{"name": part.name, "time_s": part.time_s, "low_s": number(part.low_s), "high_s": number(part.high_s),
                   "kind": part.kind} for part in found.parts],
        "findings": [{"code": each.code, "since": _stamp(each.since), "alarm": each.alarm, "text": each.text}
                     for each in found.findings],
        "gaps": [{"from": _stamp(gap.start), "to": _stamp(gap.end), "why": gap.why} for gap in watch.gaps],
        "restarts": [_stamp(each) for each in watch.restarts],
        "why_nothing": found.why_nothing or None,
    }  # fmt: skip


def _measured(seen: Seen) -> dict[str, Any]:
    """Return what was measured and inferred of the last minute; unknown is null."""
    window, (decode, low, high) = seen.window, seen.decode_s
    found = {
        "step_s": window.step_s, "decode_step_s": decode, "low_s": low, "high_s": high, "tpot_s": window.tpot_s,
        "token_s": window.token_s, "queue_s": window.queue_s, "running": window.running[0],
        "running_low": window.running[1], "running_high": window.running[2], "context": window.context[0],
        "context_low": window.context[1], "context_high": window.context[2], "accepted_tokens": window.kept,
        "waiting": window.waiting, "prefill_share": window.prefill_share,
        "prompt_tokens_per_step": window.prompt_tokens, "kv_share": window.kv_share,
        "preemptions_per_request": window.preempted, "steps": window.steps,
    }  # fmt: skip
    return {
        **{name: number(value) for name, value in found.items()},
        "from": _stamp(window.start), "to": _stamp(window.end), "one_observation_is": window.observed,
    }  # fmt: skip


def _predicted(seen: Seen) -> dict[str, Any] | None:
    """Return the prediction at the measured load, and what is measured beyond it."""
    if seen.predicted is None:
        return None
    predicted = seen.predicted
    excess, low, high = split.excess(seen)
    return {
        "step_s": predicted.step_s, "low_s": predicted.low_s, "high_s": predicted.high_s,
        "communication_s": predicted.communication_s, "floor_s": predicted.floor_s,
        "communication_share": predicted.communication_s / predicted.step_s,
        "excess_s": excess, "excess_low_s": low, "excess_high_s": high,
        "columns": {f"{name}_s": value for name, value in predicted.columns.items()},
    }  # fmt: skip


def history(watch: Watch) -> list[dict[str, Any]]:
    """Return a row for each window and each gap, in the order of time."""
    rows = [row(watch.name, each) for each in watch.seen]
    empty = dict.fromkeys(rows[0] if rows else ())
    gaps = [{**empty, "server": watch.name, "from": _stamp(gap.start), "to": _stamp(gap.end), "gap": gap.why}
            for gap in watch.gaps]  # fmt: skip
    return sorted([*rows, *gaps], key=lambda each: str(each["to"]))


def row(name: str, seen: Seen) -> dict[str, Any]:
    """Return the row of one window."""
    window = seen.window
    predicted = seen.predicted
    return {
        "server": name, "from": _stamp(window.start), "to": _stamp(window.end), "running": number(window.running[0]),
        "context": number(window.context[0]), "step_s": window.step_s, "decode_step_s": seen.decode_s[0],
        "predicted_s": predicted.step_s if predicted else None, "excess_s": number(split.excess(seen)[0]),
        "tpot_s": window.tpot_s, "queue_s": number(window.queue_s), "accepted_tokens": window.kept,
        "prefill_share": number(window.prefill_share), "waiting": number(window.waiting), "gap": None,
    }  # fmt: skip


def _stamp(at: float) -> str | None:
    """Return a time as ISO 8601 in UTC."""
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).isoformat(timespec="milliseconds") if math.isfinite(at) else None


def brief(found: Watched, *, next_command: str) -> Brief:
    """Return the first screen: the worst server's token, its parts, and what was found."""
    if not found.answers:
        return Brief(verdict=[f"Nothing can be said of a token: {DUMPS}."], warn=True, next_command=next_command)
    worst = found.answers[0]
    others = [_line(each) for each in found.answers[1:4]]
    if worst.seen is None:
        text = worst.findings[0].text if worst.findings else f"Nothing can be said yet: {worst.why_nothing}."
        return Brief(verdict=[f"{worst.name}: {text}"], notes=[*others, *found.notes], warn=True,
                     next_command=next_command)  # fmt: skip
    alarms = [each for each in worst.findings if each.alarm]
    return Brief(
        verdict=[_verdict(worst), *([worst.findings[0].text] if worst.findings else [])],
        number=_number(worst.seen),
        title=_title(worst),
        table=_table(worst.parts),
        notes=[*(each.text for each in worst.findings[1:_FINDINGS]), *others, *found.notes],
        closing=[_advice(worst.findings)],
        assumed=found.assumed,
        next_command=next_command,
        warn=bool(alarms),
    )


def _line(found: Answer) -> str:
    """Return one line about another server."""
    if found.seen is None:
        return f"{found.name}: {found.why_nothing}"
    code = found.findings[0].code if found.findings else "no finding"
    return f"{found.name}: {_MS * found.seen.window.tpot_s:.2f} ms a token, {code}"


def _verdict(found: Answer) -> str:
    """Return what a token takes, and how much of it waits in the queue."""
    window = found.seen.window if found.seen else None
    if window is None:
        return ""
    text = (
        f"{title(found.engine)} takes {units.format_time(window.tpot_s)} a token for {window.running[0]:.0f} requests"
    )
    return f"{text} at once." if math.isnan(window.context[0]) else f"{text} of {window.context[0]:,.0f} tokens."


def _number(seen: Seen) -> str:
    """Return the decode step against its prediction, and the share of communication."""
    decode, low, high = (units.format_time(each) for each in seen.decode_s)
    measured = f"Decode step: {decode} measured ({low} to {high})"
    if seen.predicted is None:
        return f"{measured}; no prediction, since model, system or layout is not known."
    predicted = seen.predicted
    ends = f"{units.format_time(predicted.low_s)} to {units.format_time(predicted.high_s)}"
    excess, least, most = (_signed(each) for each in split.excess(seen))
    share = percent(predicted.communication_s / predicted.step_s)
    return (f"{measured}, {units.format_time(predicted.step_s)} predicted ({ends}).\n"
            f"Communication is predicted to be {share} of it; "
            f"excess over the whole: {excess} ({least} to {most}).")  # fmt: skip


def _signed(value: float) -> str:
    """Return a time with its sign."""
    return f"{'-' if value < 0 else '+'}{units.format_time(abs(value))}"


def _title(found: Answer) -> str:
    window = found.seen.window if found.seen else None
    when = f"{clock(window.start)} to {clock(window.end)} UTC" if window else ""
    return f"A token of {found.name}, {when}"


def _table(parts: Sequence[Part]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the parts of a token."""
    rows = []
    for part in parts:
        time = "-" if part.time_s is None else f"{_MS * part.time_s:.2f}"
        ends = f"{_MS * part.low_s:.2f} to {_MS * part.high_s:.2f}" if math.isfinite(part.high_s) else "-"
        rows.append([part.name, time, ends, part.kind])
    return ["<part", "ms", "range", "<how"], rows


def _advice(findings: Sequence[Finding]) -> str:
    """Return what to do."""
    acting = [each for each in findings if each.alarm]
    if not acting:
        calm = all(each.code in _CALM for each in findings)
        return (
            "Nothing to do: no excess stands out of the error." if calm else "No link is to blame as far as this shows."
        )
    return _TO_DO.get(acting[0].code, "Look at what changed at that time.")


_TO_DO: Final = {
    "constant-added": "To do: trace two steps on all ranks (nhalf trace), then look at the slowest rank or the links.",
    "slower-link": "To do: nhalf measure on these hosts, and compare with the fit of a good day.",
    "slow-rank": "To do: look at clocks, power and other jobs of that rank.",
    "restarted": "To do: compare flags and versions of the two launches.",
    "kv-pressure": "To do: fewer requests at once, a cache in fp8, or more GPUs.",
    "speculation": "To do: compare the drafts' acceptance by kind of request.",
    "no-graphs": "To do: turn CUDA graphs on again.",
    "no-answer": "To do: look whether the server runs.",
    "above-prediction": "To do: check model, system, layout and engine; then trace two steps (nhalf trace).",
}


def detail(found: Watched, canvas: Canvas) -> None:
    """Write the newest windows and the gaps of every server."""
    for answer, watch in zip(found.answers, found.watches, strict=True):
        canvas.heading(f"{watch.name} ({title(answer.engine)})")
        rows = [
            [clock(each.window.end), f"{each.window.running[0]:.1f}", f"{each.window.context[0]:,.0f}",
             f"{_MS * each.window.step_s:.3f}", f"{_MS * each.decode_s[0]:.3f}",
             f"{_MS * each.predicted.step_s:.3f}" if each.predicted else "-",
             f"{100 * each.window.prefill_share:.1f} %"]
            for each in watch.newest(20)
        ]  # fmt: skip
        if rows:
            heads = ["<UTC", "requests", "context", "mean step ms", "decode ms", "predicted ms", "with prefill"]
            canvas.table(heads, rows)
        for finding in answer.findings:
            canvas.paragraph(f"{finding.code}: {finding.text}", indent="  ")
        for gap in list(watch.gaps)[-10:]:
            canvas.paragraph(f"gap {clock(gap.start)} to {clock(gap.end)}: {gap.why}", indent="  ")
    canvas.paragraph(
        f"The test for drift is set to one false alarm in {DAYS:g} days if surprises are normal, and says nothing of "
        f"changes under {percent(LEAST)} of a step. Prefills are taken out by their share of the steps and the time to "
        "the first token; predicted terms have the band of the step."
    )

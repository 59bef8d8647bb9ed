"""Readings: what one scrape of a server says, by the same names for every engine.

References
----------
Dynamo, `docs/observability/forward-pass-metrics-tracing.md` (schema dynamo.fpm.trace.v1): a line for each pass.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nhalf.engines.exports import EXPORTS
from nhalf.live.collectives import MEAN, is_inspector
from nhalf.live.exposition import samples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.engines.exports import Export
    from nhalf.live.exposition import Sample

LAST: Final = "last"
"""The number of the newest iteration of a page of records, which its reader takes away, or its time in a trace [ms]."""
_PASSES: Final = '"dynamo.fpm.trace.'
_RANKS: Final = ("engine", "dp_rank")
"""Labels that tell data-parallel ranks apart."""
_FIRST_ONLY: Final = ("tp_rank", "pp_rank", "moe_ep_rank")
"""Labels of ranks that say the same of one batch: the first speaks for all."""
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a server says at a time `at` [s since 1970]: `totals` that only grow, `levels` of the moment.

    `sizes` are steps by the most tokens they hold, `facts` what labels tell, `ranks` the data-parallel ranks that
    report. `dump` says that it is of an inspector, `fresh` that totals are of this page alone.
    """

    at: float
    engine: str
    model: str = ""
    totals: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[float, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 1
    dump: bool = False
    fresh: bool = False


def reading(text: str, at: float, since: float = 0.0) -> Reading | None:
    """Return what a page says, None where it is a page of nothing that is known; of a trace, what came `since` [ms]."""
    start = text.lstrip()[:1]
    if start in {"[", "{"}:
        if is_inspector(text):
            return Reading(at=at, engine="inspector", dump=True)
        return _passes(text, at, since) if _PASSES in text else _iterations(text, at)
    if MEAN in text:
        return Reading(at=at, engine="inspector", dump=True)
    engine = next((name for name, export in EXPORTS.items() if export.mark in text), None)
    return None if engine is None else _engine(engine, EXPORTS[engine], text, at)


def _engine(engine: str, export: Export, text: str, at: float) -> Reading:
    """Return what the page of an engine says; ranks are added up, shares averaged."""
    names = export.wanted
    wanted = {*names, *export.infos, *([export.sizes] if export.sizes else [])}
    found = {(each.name, tuple(sorted(each.labels.items()))): each for each in samples(text, wanted)}
    sums: dict[str, list[float]] = {}
    sizes: dict[float, float] = {}
    facts: dict[str, str] = {}
    models: list[str] = []
    ranks: set[tuple[str, ...]] = set()
    for each in found.values():
        if any(each.labels.get(label, "0") != "0" for label in _FIRST_ONLY):
            continue
        models += [each.labels[label] for label in ("model_name", "model") if label in each.labels]
        ranks.add(tuple(each.labels.get(label, "0") for label in _RANKS))
        if each.name in export.infos:
            facts |= {key: value[:_LONGEST_NAME] for key, value in each.labels.items()}
        elif each.name == export.sizes:
            _sized(each, sizes)
        elif each.value >= 0:
            sums.setdefault(names[each.name], []).append(each.value)
    return Reading(
        at=at,
        engine=engine,
        model=max(models, key=models.count)[:_LONGEST_NAME] if models else "",
        totals={name: sum(sums[name]) for name in export.totals if name in sums},
        levels={name: sum(sums[name]) for name in export.levels if name in sums}
        | {name: sum(sums[name]) / len(sums[name]) for name in export.shares if name in sums},
        sizes=sizes,
        facts=facts,
        ranks=max(len(ranks), 1),
    )


def _sized(each: Sample, sizes: dict[float, float]) -> None:
    """Add one bucket of the histogram of tokens; a bound that is no number is none."""
    try:
        bound = float(each.labels.get("le", "nan"))
    except ValueError:
        return
    if bound > 0:
        sizes[bound] = sizes.get(bound, 0.0) + each.value


def _iterations(text: str, at: float) -> Reading | None:
    """Return what a list of iteration records says: totals over them, pure decode steps apart."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if content == []:
        return Reading(at=at, engine="trtllm", fresh=True)
    records = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if not any("iterLatencyMS" in each for each in records):
        return None
    return _of_records("trtllm", records, at)


def _passes(text: str, at: float, since: float) -> Reading:
    """Return what the lines of Dynamo's trace of forward passes say, as records of iterations."""
    records = []
    for line in text.splitlines():
        try:
            event = json.loads(line)["event"]
            done, waits = event["fpm"]["scheduled_requests"], event["fpm"]["queued_requests"]
            record = {
                "iter": event["observed_at_unix_ms"], "iterLatencyMS": 1e3 * event["fpm"]["wall_time"],
                "scheduledNumDecodeRequests": done["num_decode_requests"],
                "scheduledSumDecodeKvTokens": done["sum_decode_kv_tokens"],
                "scheduledSumPrefillTokens": done["sum_prefill_tokens"],
                "numActiveRequests": done["num_decode_requests"] + done["num_prefill_requests"],
                "numQueuedRequests": waits["num_prefill_requests"] + waits["num_decode_requests"],
                "inflightBatchingStats": {"numContextRequests": done["num_prefill_requests"],
                                          "numPausedRequests": waits["num_decode_requests"]},
            }  # fmt: skip
        except (
            ValueError,
            KeyError,
            TypeError,
            OverflowError,
            RecursionError,
        ):  # a line that is cut, or of something else
            continue
        if _at(record, "iter") > since:
            records.append(record)
    return _of_records("dynamo", records or [{"iter": since}], at)


def _of_records(engine: str, records: Sequence[Mapping[str, Any]], at: float) -> Reading:
    """Return what records of iterations say, with the levels of the last."""
    totals = dict.fromkeys(("steps", "decode_steps", "decode_s", "mixed_s", "running_sum", "context_sum",
                            "context_steps", "prompt_tokens", "accepted_sum", "tokens"), 0.0)  # fmt: skip
    for each in records:
        _add(each, totals)
    last = records[-1]
    return Reading(
        at=at,
        engine=engine,
        totals={**totals, LAST: _at(last, "iter")},
        levels={"waiting": _at(last, "numQueuedRequests"), "in_flight": _at(last, "numActiveRequests"),
                "paused": _at(last, "inflightBatchingStats", "numPausedRequests"),
                "kv_share": _share(last)},
        fresh=True,
    )  # fmt: skip


def _add(record: Mapping[str, Any], totals: dict[str, float]) -> None:
    """Add one iteration."""
    took = _at(record, "iterLatencyMS") / 1e3
    running = _at(record, "inflightBatchingStats", "numGenRequests") or _at(record, "scheduledNumDecodeRequests")
    if took <= 0 or running <= 0:
        return
    prompt = _at(record, "inflightBatchingStats", "numCtxTokens") or _at(record, "scheduledSumPrefillTokens")
    mixed = prompt > 0 or _at(record, "inflightBatchingStats", "numContextRequests") > 0
    seen = _at(record, "scheduledSumDecodeKvTokens")
    if not seen:
        blocks = _at(record, "kvCacheStats", "usedNumBlocks") * _at(record, "kvCacheStats", "tokensPerBlock")
        seen = blocks * running / max(_at(record, "numActiveRequests"), running)
    kept = max(_at(record, "inflightBatchingStats", "avgNumDecodedTokensPerIter"), 1.0)
    totals["steps"] += 1
    totals["mixed_s" if mixed else "decode_s"] += took
    totals["decode_steps"] += not mixed
    totals["running_sum"] += running
    totals["tokens"] += running * kept
    totals["context_sum"] += seen
    totals["context_steps"] += running if seen else 0
    totals["prompt_tokens"] += prompt
    totals["accepted_sum"] += kept


def _at(record: Mapping[str, Any], *path: str) -> float:
    """Return a number of a record, 0 where it is not there or is none that can be."""
    value: Any = record
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    number = float(value) if isinstance(value, int | float) and abs(value) < _MOST else 0.0
    return number if number > 0 else 0.0


_MOST: Final = 1e18


def _share(record: Mapping[str, Any]) -> float:
    """Return which share of the cache's blocks is used."""
    most = _at(record, "kvCacheStats", "maxNumBlocks")
    return min(_at(record, "kvCacheStats", "usedNumBlocks") / most, 1.0) if most else math.nan


def served_model(text: str) -> str:
    """Return the model that the page `/v1/models` names first, or nothing."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    listed: Sequence[Any] = content.get("data", []) if isinstance(content, dict) else []
    names = [each.get("root") or each.get("id") for each in listed if isinstance(each, dict)]
    return next((name[:_LONGEST_NAME] for name in names if isinstance(name, str) and name), "")

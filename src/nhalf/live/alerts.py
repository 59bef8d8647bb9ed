"""Alerts: rules for Prometheus whose thresholds are predicted, on metrics of the engine and of the exporter."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nhalf.engines.exports import EXPORTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.live.watch import Watch

_LOADS = 2.0


def rules(watches: Sequence[Watch]) -> str:
    """Return a file of rules: a token over what is predicted at its load, drift, and no answer."""
    groups = [_of_engine(watch) for watch in watches if watch.expected is not None and watch.seen]
    own = [
        _rule("NhalfDrift", 'nhalf_finding{alarm="1",code!="no-answer"} == 1', "2m",
              "nhalf names a cause: {{ $labels.code }} on {{ $labels.server }}"),
        _rule("NhalfNoAnswer", "nhalf_up == 0", "2m", "{{ $labels.server }} does not answer"),
    ]  # fmt: skip
    body = "".join([*groups, _group("nhalf", own)])
    return f"# Written by nhalf live: the thresholds are predictions.\ngroups:\n{body}"


def _of_engine(watch: Watch) -> str:
    """Return the rule for an engine's own metric: the high end of the band, as a line in the requests that run."""
    newest, expected = watch.seen[-1], watch.expected
    if expected is None or watch.last is None or newest.predicted is None:
        return ""
    names, window = EXPORTS[watch.last.engine], newest.window
    if "gap_s" not in names.totals:
        return ""
    ratio = newest.predicted.high_s / newest.predicted.step_s
    few, many = window.running[0] / _LOADS, window.running[0] * _LOADS
    ends = [ratio * expected.step_s(each, window.context[0]) for each in (few, many)]
    prefill = window.step_s - newest.decode_s[1]
    slope = (ends[1] - ends[0]) / (many - few)
    factor = 1.0 if names.observed == "step" else 1.0 / window.kept
    constant, slope = factor * (ends[0] - slope * few + prefill), factor * slope
    rate = f"sum(rate({names.totals['gaps']}[5m]))"
    level = f"sum(avg_over_time({names.levels['in_flight']}[5m]))"
    expression = (
        f"sum(rate({names.totals['gap_s']}[5m])) / {rate} > {constant:.6g} + {slope:.6g} * {level} and {rate} > 0"
    )
    text = f"{watch.name}: a token takes longer than the 80 % band of its prediction at its load"
    return _group(f"nhalf {watch.name}", [_rule("NhalfTokenAbovePrediction", expression, "10m", text)])


def _group(name: str, written: Sequence[str]) -> str:
    return f"  - name: {json.dumps(name)}\n    rules:\n{''.join(written)}"


def _rule(name: str, expression: str, lasts: str, summary: str) -> str:
    """Return one rule; texts in the quotes of JSON are texts of YAML too."""
    return (f"      - alert: {name}\n        expr: {json.dumps(expression)}\n        for: {lasts}\n"
            "        labels:\n          severity: warning\n        annotations:\n"
            f"          summary: {json.dumps(summary)}\n")  # fmt: skip

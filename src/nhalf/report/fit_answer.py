"""The answer of `nhalf fit`: the fit, what was asked beside it, and what to run next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nhalf import units
from nhalf.collective import Op
from nhalf.evidence.advice import advise
from nhalf.evidence.commands import command
from nhalf.evidence.verdict import is_wrong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.comparison import Comparison
    from nhalf.evidence.crossing import Contest
    from nhalf.evidence.curvefit import CurveFit
    from nhalf.evidence.decode_messages import Mark
    from nhalf.evidence.fit import Fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What `nhalf fit` says: the fit, the decode messages of a `model` on it, and the comparison, where asked for.

    `contests` say which of several curves is faster from where on. `links` names the cluster file that is written, if
    any, and `written` says what went into it; `again` is the command line without a file to write. A step is predicted
    for `model` on `system`, a node of which has `devices_per_node`; `named` is the device that the log names, and
    `like` what a cluster file has to be told that it is like, where no log names one. `doctor` is the verdict of
    `nhalf doctor` where a system is named.
    """

    fit: Fit
    marks: Sequence[Mark] = ()
    mark_doubts: Sequence[str] = ()
    comparison: Comparison | None = None
    contests: Sequence[Contest] = ()
    tripped: Sequence[str] = ()
    links: str = ""
    written: Sequence[str] = ()
    again: str = "nhalf fit LOG"
    model: str = "llama-3.1-70b"
    system: str = "h100-sxm"
    devices_per_node: int = 8
    like: str = ""
    named: str = ""
    doctor: str = ""


def commands(answer: Answer) -> list[str]:
    """Return the commands to run next, with remarks that begin with `# `."""
    curves = answer.fit.curves
    wrong = next((curve for curve in curves if is_wrong(curve)), None)
    if wrong is not None:
        return ["# find out why results are wrong, take no link from this log, and run again:", command(wrong.series)]
    if answer.links:
        crosses = any((curve.series.key.nodes or 1) > 1 for curve in curves)
        most = max(((curve.series.key.ranks or 2) // (curve.series.key.nodes or 1) for curve in curves), default=2)
        return [_decode(replace(answer, system=answer.links, devices_per_node=max(most, 2)), crosses=crosses)]
    for curve in curves:
        advice = advise(curve)
        if advice is not None:
            sizes = ", ".join(units.format_size(size) for size in advice.sizes_bytes)
            of = f"{curve.series.key}: " if len(curves) > 1 else ""
            return [f"# {of}{advice.why}{f'; add {sizes}' if sizes else ''}:", advice.command, *_bandwidth(answer)]
    if all(curve.half_size_bytes is None for curve in curves):
        return [*_bandwidth(answer), "# or measure a sweep of sizes, such as:", command(curves[0].series)]
    return [f"{answer.again} -o mycluster.toml{f' --like {answer.like}' if answer.like else ''}"]


def _bandwidth(answer: Answer) -> list[str]:
    """Return the step with the bandwidth of a fit that has no latency: no link is written of it, but it can be set."""
    if any(curve.half_size_bytes is not None for curve in answer.fit.curves):
        return []
    curve = next((each for each in answer.fit.curves if _is_of_link(each)), None)
    if curve is None or curve.bandwidth is None:
        return []
    crosses = (curve.series.key.nodes or 1) > 1
    tier = "inter_node" if crosses else "intra_node"
    measured = f"system.fabric.{tier}.bandwidth_bytes_per_s={curve.bandwidth.value / 1e9:.4g}GB/s"
    remark = "# the step with this bandwidth; the latency stays that of the catalogue:"
    return [remark, f"{_decode(answer, crosses=crosses)} --set {measured}"]


def _is_of_link(curve: CurveFit) -> bool:
    """Tell whether a curve has the bandwidth of a link: one of messages between two ranks, and nothing else."""
    return curve.bandwidth is not None and curve.series.key.op is Op.SEND_RECV and not curve.misconfigured


def _decode(answer: Answer, *, crosses: bool) -> str:
    """Return the command that predicts a step over the link that was measured."""
    inside = 1 << (answer.devices_per_node.bit_length() - 1)
    degrees = f"{inside},{2 * inside}" if crosses else f"{inside}"
    return f"nhalf decode {shlex.quote(answer.model)} --on {shlex.quote(answer.system)} --tp {degrees}"

"""The answer of `nhalf tune`: the path of each range of sizes, what it wins, what it acts on, and what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.report.document import envelope, taken
from nhalf.report.fields import milliseconds
from nhalf.report.view import Brief, percent, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.tune.check import Won
    from nhalf.tune.choices import Choice
    from nhalf.tune.sweeps import Sweep
    from nhalf.tune.tuning import CutOff, Found

_ROWS: Final = 8
_BATCHES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The choices for a model, and the names of the files that were written."""

    found: Found
    files: Sequence[str]

    @property
    def acting(self) -> list[Choice]:
        """Return the choices that are not left to the library."""
        return [each for each in self.found.choices if each.bin.path is not None]

    @property
    def notes(self) -> list[str]:
        """Return what was left out, what the choices can act on, and how sure a choice must be."""
        found, own = self.found, self.found.own_kernels()
        return [
            *found.warnings, *(acts_on(own) if own is not None else ()),
            *(noise(each, share) for each, share in found.margins()),
            *([found.refused] if self.files and found.refused else []),
        ]  # fmt: skip


def document(answer: Tuned) -> dict[str, Any]:
    """Return the document of the contract."""
    found = answer.found
    body = {
        "model": found.scenario.transformer.name,
        "system": found.scenario.system.name,
        "choices": [_choice(each) for each in found.choices],
        "files": list(answer.files),
        "messages": [{"op": each.key.op, "ranks": each.key.ranks, "nodes": each.key.nodes, "batch": each.batch,
                      "size_bytes": each.size_bytes, "count": each.count} for each in found.messages],
        "noise": [{"op": each.key.op, "ranks": each.key.ranks, "nodes": each.key.nodes, "noise": each.noise,
                   "assumed": each.assumed_noise, "kind": each.kind} for each in found.sweeps],
        "notes": answer.notes,
        "defaults": taken(found.defaults),
    }  # fmt: skip
    return envelope("tune", body)


def _choice(each: Choice) -> dict[str, Any]:
    """Return a choice by the keys of the contract."""
    path = each.bin.path
    return {
        "op": each.key.op, "ranks": each.key.ranks, "nodes": each.key.nodes, "from_bytes": each.bin.start,
        "to_bytes": each.bin.end, "algorithm": path.algorithm if path else None,
        "protocol": path.protocol if path else None, "gain_s_per_token": each.gain_s, "low": each.low_s,
        "high": each.high_s, "kind": each.kind, "batches": list(each.batches),
    }  # fmt: skip


def brief(answer: Tuned, *, next_command: str) -> Brief:
    """Return the first screen: what is won, the choices, and what they act on."""
    found = answer.found
    rows = [_row(each) for each in found.choices[:_ROWS]]
    more = len(found.choices) - _ROWS
    return Brief(
        verdict=[_verdict(answer)],
        title=f"Messages of {found.scenario.transformer.name} on {found.scenario.system.name}" if rows else "",
        table=(["<operation", "from", "to", "<path", "<kind", "ms/token won", "80 % range"], rows) if rows else None,
        notes=[*([f"{more} more ranges with --json."] if more > 0 else []), *answer.notes],
        closing=[f"Written: {', '.join(answer.files)}."] if answer.files else [],
        next_command=next_command,
        next_why="does it win what it should?" if answer.acting else "",
    )


def _verdict(answer: Tuned) -> str:
    """Return what the choices win, or that everything is left."""
    best = max(
        (each for each in answer.acting if each.gain_s is not None), key=lambda each: each.gain_s or 0.0, default=None
    )
    if best is None or best.gain_s is None:
        if answer.found.sweeps and all(each.kind == "law" for each in answer.found.sweeps):
            return "Leave it: nothing was measured, and by the laws NCCL's own plan is the best of them."
        return "Leave it: no path wins more than the noise at a size that the model sends."
    batches = ", ".join(whole_number(each) for each in best.batches[:_BATCHES])
    more = " and more" if len(best.batches) > _BATCHES else ""
    return f"{best.bin.path} wins {units.format_time(best.gain_s)} a token at batch {batches}{more}."


def _row(each: Choice) -> list[str]:
    """Return the cells of a choice."""
    gain = "-" if each.gain_s is None else milliseconds(each.gain_s)
    ends = (
        "-"
        if each.low_s is None or each.high_s is None
        else f"{milliseconds(each.low_s)} to {milliseconds(each.high_s)}"
    )
    path = str(each.bin.path) if each.bin.path else "NCCL's own"
    sizes = [units.format_size(size, binary=True) for size in (each.bin.start, each.bin.end)]
    return [f"{each.key.op} x{each.key.ranks}", *sizes, path, each.kind, gain, ends]


def checked(found: Sequence[Won], tokens: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of a check: each size, and each batch's token."""
    sizes = [{"op": each.op, "ranks": each.ranks, "size_bytes": each.size_bytes, "before_s": each.before_s,
              "after_s": each.after_s, "ratio": each.ratio, "ratio_low": each.low, "ratio_high": each.high,
              "verdict": each.verdict} for each in found]  # fmt: skip
    return envelope("tune", {"choices": [], "files": [], "sizes": sizes, "tokens": list(tokens)})


def brief_of_check(
    found: Sequence[Won], tokens: Sequence[dict[str, Any]], kept: Sequence[str], *, next_command: str
) -> Brief:
    """Return the first screen of a check; `kept` is what became of the tuned runs in a cluster file."""
    count = {word: sum(each.verdict == word for each in found) for word in ("won", "lost", "cannot tell")}
    rows = [
        [f"{each.op} x{each.ranks}", f"{each.size_bytes:,.0f}", f"{1e6 * each.before_s:.2f}",
         f"{1e6 * each.after_s:.2f}", f"{each.ratio:.3f}", f"{each.low:.3f} to {each.high:.3f}", each.verdict]
        for each in found[: 2 * _ROWS]
    ]  # fmt: skip
    best = max(tokens, key=lambda each: each["gain_s_per_token"], default=None)
    told = "" if best is None else (
        f"At batch {best['batch']:g} a token takes {units.format_time(abs(best['gain_s_per_token']))} "
        f"{'less' if best['gain_s_per_token'] > 0 else 'more'}."
    )  # fmt: skip
    return Brief(
        verdict=[f"{count['won']} of {len(found)} sizes are faster, {count['lost']} slower, the rest cannot be told."],
        number=told,
        title="Without and with the choices (95 % intervals)",
        table=(["<operation", "bytes", "us before", "us after", "ratio", "95 % range", "<verdict"], rows),
        notes=[
            *(["Slower sizes: leave them out, or turn the plug-in off (NHALF_TUNER_OFF=1)."] if count["lost"] else []),
            *kept,
        ],
        warn=bool(count["lost"]),
        next_command=next_command,
        next_why="what the model takes now" if kept else "keep what was measured",
    )


def acts_on(found: CutOff) -> list[str]:
    """Return what a tuner can act on inside a node, where an engine runs its own kernels first."""
    until = f"up to {found.cap // 2**20} MiB" if found.cap else "at decode sizes"
    text = (
        f"Inside a node {found.name} runs its own all-reduce {until}; NCCL's choices act only with {found.engine.off}."
    )
    if not found.kept and not found.beaten:
        return [text]
    if not found.beaten:
        return [text, f"Leave that on: it is at least as fast as the best NCCL path at all {len(found.kept)} sizes."]
    if not found.kept:
        return [text, "Turn it off: the best NCCL path is faster at every size that the model sends."]
    if found.engine.size_setting and max(found.kept) < min(found.beaten):
        setting = f"{found.engine.size_setting}={max(found.kept) / 1024:.0f}"
        return [text, f"Set {setting}: above {max(found.kept):,.0f} bytes the best NCCL path is faster."]
    sizes = ", ".join(f"{size:,.0f}" for size in found.beaten[:_BATCHES])
    return [text, f"The best NCCL path is faster at {sizes} bytes only, and no setting parts sizes: measure before."]


def noise(sweep: Sweep, share: float) -> str:
    """Return how much a path must win to be told from noise."""
    how = "assumed, since no point was repeated" if sweep.assumed_noise else f"{percent(sweep.noise)} between repeats"
    return f"{sweep.key.op} on {sweep.key.ranks} ranks: a path must win {percent(share)} (noise: {how})."

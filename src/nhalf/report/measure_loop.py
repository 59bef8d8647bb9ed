"""The answer of `nhalf measure --model`: what a token's communication takes, floor, bytes and waiting apart."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.evidence.probe.loop_answer import silent
from nhalf.evidence.probe.looping import OVERLAP
from nhalf.report import fields, measure
from nhalf.report.view import Bars, Brief, Saving, whole_number, write_brief
from nhalf.report.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.evidence.probe.loop_answer import Kind, LoopAnswer, Row
    from nhalf.report.canvas import Canvas

_ROWS: Final = 8
_PARTS: Final = ("floor", "bytes", "waiting")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """The loops of a run beside what is said of any run.

    `predicted` holds, by (tp, pp, ep, batch), the communication of a token and the rest of its step [s]; it is empty
    where no system is named.
    """

    loop: LoopAnswer
    of_run: measure.Answer
    model: str
    system: str = ""
    predicted: Mapping[tuple[int, int, int, int], tuple[float, float]] = field(default_factory=dict)

    @property
    def run(self) -> Mapping[str, Any]:
        """Return the document of the run."""
        return self.of_run.run

    def expected_s(self, row: Row) -> float | None:
        """Return what communication was to take [s]: what is predicted, or its collectives by themselves."""
        found = self.predicted.get(row.key)
        return row.alone_s if found is None else found[0]

    def whole_s(self, row: Row) -> float | None:
        """Return the whole token [s]: with its own compute, or with the rest of the predicted step; else None."""
        if self.computes:
            return row.token_s
        found = self.predicted.get(row.key)
        return None if found is None else row.time_s + found[1]

    @property
    def rows(self) -> Sequence[Row]:
        """Return the rows, those of one rank first, which sends nothing, where its step is predicted."""
        known = {row.key for row in self.loop.rows}
        alone = [key for key, each in self.predicted.items() if not each[0] and key not in known]
        return *(silent(key) for key in alone), *self.loop.rows

    @property
    def computes(self) -> bool:
        """Return whether ranks computed between their messages."""
        return any(loop["computes"] for loop in self.run["loops"])

    @property
    def slow(self) -> dict[str, Any] | None:
        """Return the rank that is slow, its host, and what it costs a token [s], or its links where those are slow."""
        pairs = [set(row["ranks"]) for row in self.of_run.extras.values.get("pairs", ()) if row["slow"]]
        common = set.intersection(*pairs) if len(pairs) > 1 else set()
        if len(common) == 1:  # who has slow links comes late, too
            rank = min(common)
            host = next(each["host"] for each in self.run["ranks"] if each["rank"] == rank)
            return {"rank": rank, "host": host, "cost_s_per_token": None, "by": "links"}
        late = self.loop.slow
        return {**asdict(late), "by": "waits"} if late is not None else None

    @property
    def turn(self) -> Row | None:
        """Return the layout whose whole token is shortest at the first batch, None where there is no choice."""
        row = self.loop.lead
        rivals = [(time, each) for each in self.rows
                  if each.batch == row.batch and (time := self.whole_s(each)) is not None]  # fmt: skip
        return min(rivals, key=lambda pair: pair[0])[1] if len(rivals) > 1 else None


def brief(answer: Answer) -> Brief:
    """Return the first screen."""
    row = answer.loop.lead
    doubts = [doubt for doubt in answer.run["doubts"] if doubt["code"] in ("oversubscribed", "busy", "wrong-results",
                                                                            "transport")]  # fmt: skip
    return Brief(
        verdict=_verdict(answer, row),
        number=_number(row),
        title=_title(answer),
        bars=_bars(answer),
        notes=[f"Doubtful: {doubt['text']}." for doubt in doubts[:2]],
        asked="Saved of the token:" if answer.computes else "Saved of the communication:",
        savings=_savings(answer, row),
        closing=_closing(row),
        assumed=_assumed(answer),
        next_command=_next(answer),
        next_why="the links and constants that follow" if answer.of_run.file else "",
        warn=bool(answer.run["lost"] or answer.slow),
    )


def _verdict(answer: Answer, row: Row) -> list[str]:
    found = []
    if answer.run["lost"]:
        found.append(f"Ended early: {answer.run['lost']}. So far:")
    spent = f"A token of {answer.model} spends {units.format_time(row.time_s)} in communication"
    found.append(f"{spent} ({row.layout}, batch {row.batch}, {answer.run['backend']}).")
    if (slow := answer.slow) is not None:
        cost = slow["cost_s_per_token"]
        why = f"the others wait {units.format_time(cost)} a token for it" if cost else "every link to it is"
        found.append(f"Rank {slow['rank']} ({slow['host']}) is slow: {why}.")
    if (turn := answer.turn) is not None:
        found.append(f"The whole token is shortest with {turn.layout}: {units.format_time(answer.whole_s(turn) or 0)}.")
    if (doubles := answer.loop.batch_at_double_floor) is not None:
        where = f"From batch {doubles:.3g} on" if doubles >= 1 else "At every batch"
        found.append(f"{where} its collectives pay more for bytes than for their floor.")
    return found


def _number(row: Row) -> str:
    parts = [
        f"{name} {units.format_time(value)}"
        for name, value in zip(_PARTS, (row.fixed_s, row.transfer_s, row.wait_s), strict=True)
        if value is not None
    ]
    ends = (
        f"; in all {units.format_time(row.low_s)} to {units.format_time(row.high_s)} (95 %)"
        if row.low_s and row.high_s
        else ""
    )
    cap = f"no more than {whole_number(row.batch / row.time_s)} tokens/s" if row.time_s else ""
    return f"{', '.join(parts)}{ends}; {cap}." if parts else f"{cap}{ends}."


def _title(answer: Answer) -> str:
    by = (
        f"predicted by nhalf decode --on {answer.system}"
        if answer.predicted
        else "alone: its collectives by themselves"
    )
    return f"Communication of a token; {by}"


def _bars(answer: Answer) -> Bars:
    rows = answer.rows[:_ROWS]
    whole = any(answer.whole_s(row) is not None for row in rows)
    heads = [
        "<layout",
        "batch",
        "time",
        "predicted" if answer.predicted else "alone",
        *(["whole token"] if whole else []),
    ]
    return Bars(
        heads=heads,
        rows=[
            [row.layout, str(row.batch), units.format_time(row.time_s), fields.time(answer.expected_s(row)),
             *([fields.time(answer.whole_s(row))] if whole else [])]
            for row in rows
        ],
        names=_PARTS,
        parts=[
            [row.fixed_s or 0.0, row.transfer_s or 0.0, row.wait_s or 0.0] if row.fixed_s is not None else [row.time_s]
            for row in rows
        ],
    )  # fmt: skip


def _savings(answer: Answer, row: Row) -> list[Saving]:
    found = []
    for each in answer.loop.variants:
        if each.key != row.key:
            continue
        whole = answer.computes or each.variant == OVERLAP or each.fixed_s is None
        before, after = (row.token_s, each.token_s) if whole else (row.time_s, each.time_s)
        name = f"{each.variant} all-reduces into one" if each.variant.startswith("fuse") else f"with {each.variant}"
        found.append(Saving(name=name, share=1 - after / before if before else 0.0,
                            note=f"{units.format_time(before)} to {units.format_time(after)}"))  # fmt: skip
    return found


def _closing(row: Row) -> list[str]:
    lines = [line for kind in row.collectives if (line := _each(kind))][:3]
    counts = sum(kind.count_per_token for kind in row.collectives)
    if row.excess_s:
        lines.append(f"in the model each takes {units.format_time(row.excess_s)} more: stack.collective_excess_s")
    return [f"{counted(counts, 'message')} a token:", *(f"  {line}" for line in lines)] if lines else []


def _each(kind: Kind) -> str:
    if kind.time_s is None:
        return ""
    text = f"{kind.count_per_token} x {kind.name} of {units.format_size(kind.size_bytes, binary=True)}"
    waiting = f" ({units.format_time(kind.wait_s)} of it waiting)" if kind.wait_s else ""
    text += f" on {kind.ranks} ranks: {units.format_time(kind.time_s)}{waiting}"
    if kind.alone_s is not None:
        text += f", alone {units.format_time(kind.alone_s)}"
    return text


def _assumed(answer: Answer) -> str:
    number = "16-bit activations"
    if answer.loop.number == "f32":
        number += ", summed as f32 of as many bytes"
    return f"{number}; {'a product of the size of a block before each' if answer.computes else 'nothing computed'}"


def _next(answer: Answer) -> str:
    if answer.of_run.file:
        return f"nhalf fit {shlex.quote(answer.of_run.file)} -o links.toml"
    return f"{answer.run['command']} -o loop.json"


def detail(answer: Answer, canvas: Canvas) -> None:
    """Write the first screen, every collective of every row, how it was measured, and the doubts."""
    write_brief(brief(answer), canvas)
    canvas.heading("Collectives")
    heads = ["<layout", "batch", "<collective", "size", "a token", "in the loop", "waiting", "alone", "floor"]
    canvas.table(heads, [
        [row.layout, str(row.batch), kind.name, units.format_size(kind.size_bytes, binary=True),
         str(kind.count_per_token), *map(fields.time, (kind.time_s, kind.wait_s, kind.alone_s, kind.floor_s))]
        for row in answer.rows for kind in row.collectives
    ])  # fmt: skip
    measure.write_how(answer.of_run, canvas)


def document(answer: Answer) -> dict[str, Any]:
    """Return the document of a measurement with its loop."""
    loop, row, turn = answer.loop, answer.loop.lead, answer.turn
    body = measure.document(answer.of_run)
    found = brief(answer)
    body["verdict"] = " ".join(found.verdict)
    body["loop"] = {
        "model": answer.model,
        **_row(answer, row),
        "predicted_by": f"nhalf decode --on {answer.system}" if answer.predicted else "its collectives by themselves",
        "batch_at_double_floor": loop.batch_at_double_floor,
        "tokens_per_s_cap": row.batch / row.time_s if row.time_s else None,
        "turn_over": None if turn is None else turn.layout,
        "slow_rank": answer.slow,
        "rows": [_row(answer, each) for each in answer.rows],
        "tried": [_row(answer, each) for each in loop.variants],
    }  # fmt: skip
    return body


def _row(answer: Answer, row: Row) -> dict[str, Any]:
    found = row.to_dict()
    found["time_s_per_token"] = found.pop("time_s")
    return {**found, "predicted_s": answer.expected_s(row), "whole_token_s": answer.whole_s(row)}


def rows(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the rows of the table of a document."""
    return [{name: value for name, value in row.items() if name != "collectives"} for row in body["loop"]["rows"]]

"""The answer of `nhalf lab`: each claim with what was predicted and what was seen, on a screen and as a page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.lab.bench import MODEL, SUMS
from nhalf.lab.claims import BASE
from nhalf.report import pictures
from nhalf.report.document import envelope
from nhalf.report.figures.bars import Bar, of_bars
from nhalf.report.page import Page, Section, Table
from nhalf.report.view import Brief, write_brief

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.lab.claims import Claim
    from nhalf.report.canvas import Canvas
    from nhalf.report.pictures import Subject

_HOLDS, _FAILS = "#2b6cb0", "#c05621"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The claims that were tried on a bench; `why` says why it is none of hosts, `stopped` that it ended early."""

    claims: Sequence[Claim]
    bench: str
    tokens_equal: bool
    why: str = ""
    stopped: bool = False

    @property
    def seen(self) -> str:
        """Return the word for what was seen: measured on hosts, or simulated."""
        return "simulated" if self.why else "measured"


def brief(answer: Answer) -> Brief:
    """Return the first screen."""
    held = sum(claim.holds for claim in answer.claims)
    verdict = [f"{held} of {len(answer.claims)} claims hold: {answer.bench}."]
    if answer.why:
        verdict.append(f"No hosts were made: {answer.why}.")
    if answer.stopped:
        verdict.append("It was interrupted; the claims after these were not tried.")
    same = "Tokens are the same however the model is split." if answer.tokens_equal else "Tokens differ by split!"
    return Brief(
        verdict=verdict,
        number=f"{same} Each prediction was written down before its run.",
        table=(["<claim", "predicted", answer.seen, "ratio", "<holds"], [_row(claim) for claim in answer.claims]),
        notes=["The claims are of this bench, not of your cluster: nhalf measure --model tries that."],
        assumed=_assumed(),
        next_command="nhalf lab -o lab.html",
        next_why="the claims in pictures, for your model",
        warn=held < len(answer.claims) or not answer.tokens_equal,
    )


def _assumed() -> str:
    latency, bandwidth = units.format_time(BASE.latency_s), units.format_bandwidth(BASE.bandwidth_bytes_per_s)
    return f"{latency} and {bandwidth} one way between hosts, {SUMS} all-reduces a token of a model {MODEL.hidden} wide"


def _row(claim: Claim) -> list[str]:
    key = claim.headline
    values = [text_of(key, side[key]) for side in (claim.expected, claim.seen)]
    return [claim.name, *values, f"{claim.ratio:.2f}", "yes" if claim.holds else "no"]


def text_of(key: str, value: float) -> str:
    """Return a value of a claim with its unit, which its name tells."""
    if key.endswith("bytes"):
        return units.format_size(value, binary=True)
    return f"{value:.3g}" if key == "batch" else units.format_time(value)


def detail(answer: Answer, canvas: Canvas) -> None:
    """Write the first screen, and every value of every claim."""
    write_brief(brief(answer), canvas)
    for claim in answer.claims:
        canvas.heading(claim.name)
        canvas.table(["<what", "predicted", answer.seen, "ratio"], _values(claim))
        canvas.paragraph(f"  {_times(claim)}", indent="    ")


def _values(claim: Claim) -> list[list[str]]:
    return [
        [key, text_of(key, value), text_of(key, claim.seen[key]), f"{claim.seen[key] / value:.2f}"]
        for key, value in claim.expected.items()
    ]


def _times(claim: Claim) -> str:
    text = f"predicted {claim.predicted_at}, measured until {claim.measured_at}"
    if claim.low is None or claim.high is None or not claim.low < claim.high:
        return text
    return f"{claim.headline}: {units.format_time(claim.low)} to {units.format_time(claim.high)}; {text}"


def document(answer: Answer) -> dict[str, Any]:
    """Return the document of the contract."""
    found = brief(answer)
    body = {
        "verdict": " ".join(found.verdict),
        "bench": answer.bench,
        "why_simulated": answer.why or None,
        "complete": not answer.stopped,
        "tokens_equal": answer.tokens_equal,
        "latency_s": BASE.latency_s,
        "bandwidth_bytes_per_s": BASE.bandwidth_bytes_per_s,
        "claims": [claim.to_dict() for claim in answer.claims],
    }
    return envelope("lab", body)


def rows(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the table of a document."""
    return [{name: value for name, value in row.items() if name not in ("expected", "seen")} for row in body["claims"]]


def page(answer: Answer, of: Subject) -> Page:
    """Return the page: the eight pictures of the reader's model, each with what the bench says of it."""
    bars = [Bar(name=claim.name, value=claim.ratio, label=f"{claim.ratio:.2f}",
                colour=_HOLDS if claim.holds else _FAILS) for claim in answer.claims]  # fmt: skip
    drawn = of_bars(bars, key="ratios", title=f"{answer.seen.capitalize()} over predicted",
                    axis=f"{answer.seen} / predicted",
                    note="1 is as predicted. Blue: the claim holds; orange: it does not.")  # fmt: skip
    found = brief(answer)
    heads = ("<what", "predicted", answer.seen, "ratio")
    claims = dict(enumerate(answer.claims))
    sections = [_tried(section, claims[place], heads) if place in claims else section
                for place, section in enumerate(pictures.sections(of))]  # fmt: skip
    drawn_first = Section(key="ratios", title="On the bench: how near each claim came", figures=[drawn],
                          lead=f"Imposed: {found.assumed}.")  # fmt: skip
    return replace(pictures.page(of), verdict=[pictures.verdict(of), *found.verdict, found.number],
                   sections=[*sections, drawn_first])  # fmt: skip


def _tried(section: Section, claim: Claim, heads: tuple[str, ...]) -> Section:
    """Return a picture with the table of its claim."""
    said = f"On the bench: {claim.name}; {_times(claim)}."
    return replace(section, lead=f"{section.lead} {said}", table=Table(heads=heads, rows=_values(claim)))

"""What the library's choices of algorithm cost, in words, and where a measurement forbids to say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.laws.collective.bandwidth import busbw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.choice import Beaten, Choice
    from nhalf.report.collective_answer import Answer

DECODE_BYTES: Final = float(4 << 20)
"""The largest message of a decode step that the verdict speaks of [bytes]: 256 sequences of width 8,192."""


def library_choice(found: Answer) -> str:
    """Return how well the library's own choice does, as far as the laws and what was measured tell."""
    library = found.loaded.library
    known = [each for each in found.choices if each.time_s is not None]
    if not known:
        return f"What {library} would run for it is not known."
    behind = [each for each in known if not each.is_fastest]
    if not behind:
        return f"{library} runs the fastest at every size shown."
    own = f"{library}'s own choice is the fastest at {len(known) - len(behind)} of {len(known)} sizes{_worst(found)}."
    nothing_told = len(behind) == len(known) and all(each.lost_s is None for each in behind)
    sentences = [] if nothing_told else [own]
    unclear = [each for each in behind if each.is_unclear and each.beaten is None]
    sentences += [_unclear(unclear)] if unclear else []
    sentences += [f"{_refuted(found, beaten)}." for beaten in _beaten(behind)]
    return " ".join(sentences)


def _worst(found: Answer) -> str:
    """Return where the choice loses most, in parts of the fastest; nothing where no loss can be claimed.

    Of the messages of a decode step, where there are any: larger ones are not paid for by the token.
    """
    lost = [each for each in found.choices if each.lost_s is not None and not each.is_fastest]
    lost = [each for each in lost if each.size_bytes <= DECODE_BYTES] or lost
    worst = max(lost, key=lambda each: (each.lost_s or 0.0) / each.fastest_s, default=None)
    if worst is None or worst.lost_s is None:
        return ""
    own = (
        f"; at {_size(worst.size_bytes)} it runs {worst.algorithm} instead of {worst.fastest} and loses "
        f"{units.format_time(worst.lost_s)}"
    )
    if worst.size_bytes > DECODE_BYTES:
        return own
    return f"{own}, {units.format_time(found.per_token * worst.lost_s)} a token of {found.per_token} such collectives"


def _unclear(unclear: Sequence[Choice]) -> str:
    """Return at how many sizes the laws cannot tell, with the one where they differ most."""
    most = max(unclear, key=lambda each: (each.behind_s or 0.0) / each.fastest_s)
    where = f"At {len(unclear)} sizes" if len(unclear) > 1 else f"At {_size(most.size_bytes)}"
    example = f" at {_size(most.size_bytes)}" if len(unclear) > 1 else ""
    measured, own, fastest = (units.format_time(each or 0.0) for each in (most.measured_s, most.time_s, most.fastest_s))
    return (
        f"{where} the laws cannot tell: they miss what was measured by more than they differ ({measured}{example}, "
        f"where {most.algorithm} has {own} and {most.fastest} {fastest})."
    )


def _beaten(choices: Sequence[Choice]) -> list[Choice]:
    """Return one choice for each measurement that shows that the algorithm named does not run."""
    return list({each.beaten: each for each in choices if each.beaten is not None}.values())


def _refuted(found: Answer, each: Choice) -> str:
    """Return which algorithm does not run where its law is beaten, and what the bandwidth tells instead."""
    beaten, question = each.beaten, found.question
    if beaten is None:
        return ""
    measured, law = units.format_time(beaten.measured_s), units.format_time(beaten.law_s)
    said = (
        f"{each.decided_by} name{'' if each.decided_by.endswith('thresholds') else 's'} {each.algorithm}, but "
        f"{measured} measured at {_size(beaten.size_bytes)} beats its law ({law}): something else runs, or the law is "
        "wrong, and no loss is claimed"
    )
    rate, link = _rates(found, beaten)
    if "nvls" in question.has and rate > link:
        said += f"; a busbw of {units.format_bandwidth(rate)} over a link of {units.format_bandwidth(link)} is had by "
        said += "adding up in the switches"
    return said


def _rates(found: Answer, beaten: Beaten) -> tuple[float, float]:
    """Return the busbw of what was measured and the bandwidth of the link inside a node [bytes/s]."""
    question = found.question
    rate = float(busbw(question.op, beaten.size_bytes, beaten.measured_s, question.ranks))
    return rate, float(question.span.intra.bandwidth_bytes_per_s)


def runs(each: Choice) -> str:
    """Return what the library runs at a size, with a question mark where a measurement shows that it does not."""
    return "-" if each.algorithm is None else f"{each.algorithm}{'' if each.beaten is None else '?'}"


def cell(each: Choice) -> str:
    """Return what the choice loses, as a cell of a table: empty where nothing, `unclear` where the laws cannot tell."""
    if each.is_fastest:
        return ""
    return "-" if each.time_s is None else "unclear" if each.lost_s is None else units.format_time(each.lost_s)


def notes(found: Answer) -> list[str]:
    """Return what the cells of the table mean."""
    said = []
    if any(cell(each) == "unclear" for each in found.choices):
        said.append("unclear: the laws miss what was measured by more than they differ, or it beats the law.")
    if any(each.beaten is not None for each in found.choices):
        said.append(
            "?: what was measured beats the law of that algorithm, so it is not what runs, or the law is wrong."
        )
    return said


def _size(size_bytes: float) -> str:
    return units.format_size(size_bytes, binary=True)

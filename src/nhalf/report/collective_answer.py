"""The answer of `nhalf collective`: a question with its rows, choices and flips, whatever shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nhalf.decide.choice import choices
from nhalf.decide.collective import flips, rows
from nhalf.decide.fixed_time import decompose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.citation import Datum
    from nhalf.decide.choice import Choice
    from nhalf.decide.collective import Flip, Row
    from nhalf.decide.collective_case import Question
    from nhalf.decide.fixed_time import FixedTime
    from nhalf.loading.collective import Loaded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """All that the report shows of a question."""

    loaded: Loaded
    rows: list[Row]
    choices: list[Choice]
    flips: list[Flip]
    fixed: FixedTime | None
    per_token: int
    known: Mapping[str, Datum]

    @property
    def question(self) -> Question:
        """Return the question."""
        return self.loaded.question


def answer(loaded: Loaded, fixed_parts: Mapping[str, Datum], per_token: int) -> Answer:
    """Return the answer to a question for `per_token` collectives a token."""
    question, sizes = loaded.question, loaded.sizes_bytes
    return Answer(
        loaded=loaded,
        rows=rows(question, sizes),
        choices=choices(question, sizes),
        flips=flips(question, sizes[0], sizes[-1]),
        fixed=decompose(question, fixed_parts, loaded.pairs),
        per_token=per_token,
        known=fixed_parts,
    )

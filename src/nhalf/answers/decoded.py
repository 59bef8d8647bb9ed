"""A decoded step: the tree of terms that `nhalf.decode` has always returned, and what the command says of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nhalf import loading
from nhalf.breakdown import Term
from nhalf.errors import in_python
from nhalf.scenario import Scenario

if TYPE_CHECKING:
    from nhalf.answers.answer import Answer
    from nhalf.breakdown import Array
    from nhalf.decide.comparison import Comparison
    from nhalf.points import Points


@dataclass(frozen=True, kw_only=True, eq=False, repr=False, init=False)
class Decoded(Term):
    """One decode step, or as many as the scenario's arrays hold: a `Term` whose value is the time of a step [s].

    `low_s` and `high_s` are its 80 % band; `points` has every other number. `verdict`, `levers`, `crossovers`, `table`,
    `plot`, `text` and `to_dict` are what `nhalf decode` says, for a scenario of plain numbers.
    """

    scenario: Scenario
    step: Term

    def __init__(self, step: Term, scenario: Scenario) -> None:
        """Keep a step, which this forwards, and the scenario that it is of."""
        super().__init__(
            step.name, step.value, step.rule, step.formula, step.inputs, step.parts, step.column, step.unit
        )
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "scenario", scenario)

    @cached_property
    def points(self) -> Points:
        """Return all numbers of the points: memory, rates, bands, columns."""
        import numpy as np

        from nhalf.points import Points

        return Points(scenario=self.scenario, count=int(np.size(self.value)))

    @property
    def low_s(self) -> Array | float:
        """Return the low end of the 80 % band of the step [s]."""
        return self._plain(self.points.low_s)

    @property
    def high_s(self) -> Array | float:
        """Return the high end of the 80 % band of the step [s]."""
        return self._plain(self.points.high_s)

    @property
    def band(self) -> tuple[Array | float, Array | float]:
        """Return both ends of the 80 % band of the step [s]."""
        return self.low_s, self.high_s

    @cached_property
    def answer(self) -> Answer:
        """Return what `nhalf decode` says of the scenario."""
        from nhalf.answers.answer import Answer
        from nhalf.decide.comparison import compare
        from nhalf.report.decode import view
        from nhalf.report.view import Said

        return Answer(Said(view=view(compare([self.scenario]))))

    @property
    def verdict(self) -> str:
        """Return the answer in a sentence or two."""
        return self.answer.verdict

    @property
    def levers(self) -> list[dict[str, Any]]:
        """Return what each change of the machine or the stack would save, as in the document."""
        found: list[dict[str, Any]] = self.to_dict()["levers"]
        return found

    @property
    def crossovers(self) -> Any:  # noqa: ANN401  decide's own objects
        """Return the batch at which each collective turns from latency to bandwidth."""
        comparison: Comparison = self.answer.found
        return comparison.crossovers

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `nhalf decode --json`."""
        return self.answer.to_dict()

    def table(self) -> list[dict[str, Any]]:
        """Return the rows of `nhalf decode --csv`."""
        return self.answer.table()

    def frame(self) -> Any:  # noqa: ANN401  a polars.DataFrame, an optional dependency
        """Return the rows as a polars frame."""
        return self.answer.frame()

    def plot(self) -> Any:  # noqa: ANN401  an altair.Chart, an optional dependency
        """Return what the step is made of as an Altair chart."""
        return self.answer.plot()

    def text(self, *, columns: int = 80, detail: bool = False) -> str:
        """Return the screen of `nhalf decode`."""
        return self.answer.text(columns=columns, detail=detail)

    def _plain(self, values: Array) -> Array | float:
        return values if self.points.count > 1 else float(values[0])

    def __repr__(self) -> str:
        """Return the verdict, or how many points there are."""
        if self.points.count > 1:
            return f"<Decoded: {self.points.count:,} points of {self.scenario.transformer.name}>"
        return repr(self.answer).replace("<Answer", "<Decoded", 1)

    def _repr_html_(self) -> str:
        """Return the first screen as HTML."""
        return self.answer._repr_html_() if self.points.count == 1 else f"<p>{repr(self)[1:-1]}</p>"


load = in_python()(loading.load)


def decode(scenario: Scenario | str, **choices: Any) -> Decoded:  # noqa: ANN401  as nhalf.load
    """Return the decode step of a scenario, or of a model with the choices of `nhalf.load`.

    >>> import nhalf
    >>> step = nhalf.decode("llama-3.1-70b", on="h100-sxm", tp=8, weights="fp8")
    >>> step
    <Decoded: TP8 takes ... ms per token, ... tokens/s per user. 80 % range: ...>

    Raises
    ------
    InputError
        An unknown name or choice, an unreadable file, an impossible value.
    """
    from nhalf.predict import step

    found = scenario if isinstance(scenario, Scenario) else load(scenario, **choices)
    return Decoded(step.decode(found), found)

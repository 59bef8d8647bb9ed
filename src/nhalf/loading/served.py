"""What a running server serves: model, layout and engine, from flags, a launch line, or what the server itself says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.engines import ENGINES
from nhalf.errors import InputError
from nhalf.loading.launch import read
from nhalf.loading.request import Request, scenarios

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.scenario import Scenario

_LEAST_S: Final = 0.05
_MOST_S: Final = 366 * 86_400.0


def seconds(text: str, where: str) -> float:
    """Return a time [s] between scrapes, or of a watch.

    Raises
    ------
    InputError
        It is no time, or one that no watch has.
    """
    value = units.parse(text, "time", where=where)
    if not _LEAST_S <= value <= _MOST_S:
        raise InputError(f"{text} is no time for that", where=where, allowed="50ms to a year")
    return value


@dataclass(slots=True, kw_only=True)
class Described:
    """What is stated of servers; the rest they say themselves. `asked` are servers that were looked at."""

    model: str | None
    launch: str | None
    given: Mapping[str, Any]
    asked: set[str] = field(default_factory=set)
    assumed: str = ""
    engine: str = ""
    _columns: dict[str, str] = field(default_factory=dict)

    def scenario(self, engine: str, says: str, facts: Mapping[str, str], name: str) -> tuple[Scenario | None, str]:
        """Return the scenario of a server, or None and why there is none.

        Raises
        ------
        InputError
            What was stated is not possible; what the server says is only told.
        """
        self.asked.add(name)
        request = self._request(engine, facts)
        model = self.model or request.model or says
        if not request.systems:
            return None, "Add --on SYSTEM to have its steps predicted."
        if not model:
            return None, "The server names no model: add --model."
        stated = bool(self.model or request.model)
        try:
            loaded = scenarios(replace(request, model=model))
        except InputError as error:
            if stated:
                raise
            return None, f"No prediction for {model!r}, as the server calls it ({error.what}): add --model."
        found = loaded.scenarios[0]
        dtypes = f"{found.workload.weight_dtype} weights, {found.workload.kv_dtype} KV cache"
        self.assumed = f"{found.transformer.name}, {found.layout.name}, {dtypes}, {found.stack.engine}"
        self.engine = found.stack.engine
        self._columns = {
            "model": model, "system": found.system.name, "engine": found.stack.engine,
            "tp": str(found.layout.tensor_parallel), "pp": str(found.layout.pipeline_parallel),
            "attention_dp": str(found.layout.attention_dp), "moe_ep": str(found.layout.expert_parallel),
            "weight_dtype": found.workload.weight_dtype, "kv_dtype": found.workload.kv_dtype,
        }  # fmt: skip
        if len(loaded.scenarios) > 1:
            return None, "Several systems or layouts are named, and a server has one: name one."
        return found, ""

    def columns(self) -> dict[str, str]:
        """Return what a case table says of the runs of these servers.

        Raises
        ------
        InputError
            Nothing was predicted, so nothing can be learnt.
        """
        if not self._columns:
            raise InputError("nothing is learnt without a prediction", where="--learn", do="add --on and --model")
        return self._columns

    def _request(self, engine: str, facts: Mapping[str, str]) -> Request:
        """Return the request that flags, the launch line and the server's facts make; flags win."""
        said: dict[str, Any] = {"engine": engine} if engine in ENGINES else {}
        for name, label in (("tp", "tp_size"), ("pp", "pp_size")):
            if facts.get(label, "").isdecimal():
                said[name] = facts[label]
        model = ""
        if self.launch:
            launched = read(self.launch)
            model = launched.model or ""
            layout = launched.layout
            said |= {"engine": launched.engine, "tp": str(layout.tensor_parallel), "pp": str(layout.pipeline_parallel),
                     "ep": str(layout.expert_parallel), "attention_dp": str(layout.attention_dp),
                     "weights": launched.weights, "kv": launched.kv,
                     "mode": "eager" if launched.eager else None}  # fmt: skip
        said |= {name: value for name, value in self.given.items() if value not in (None, (), False)}
        return Request(model=model, systems=()).updated({name: value for name, value in said.items() if value})

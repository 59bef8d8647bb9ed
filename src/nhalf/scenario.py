"""A scenario: the five nouns that a prediction needs, with the origin of every number."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast

import numpy as np

from nhalf.errors import InputError, did_you_mean
from nhalf.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nhalf.breakdown import Quantity
    from nhalf.citation import Datum
    from nhalf.layout import Layout
    from nhalf.stack import Stack
    from nhalf.system import System
    from nhalf.transformer import Transformer
    from nhalf.transformer.weights import WeightGroup
    from nhalf.workload import Workload

Noun = TypeVar("Noun")
Asked = ParamSpec("Asked")
Found = TypeVar("Found")
_KEPT: Final = 4
_NUMERIC: Final = (int, float, np.ndarray)
_FIXED = frozenset({"transformer", "measured_fabric", "curves", "layout", "origins", "residual", "tray_ranks"})
"""Parts whose numbers are not inputs that `--set` moves: counts that a model or a layout fixes, and measurements."""


def shared(function: Callable[Asked, Found]) -> Callable[Asked, Found]:
    """Return a function of a scenario that several parts of a tree ask for, made once for each scenario.

    A scenario never changes, so the last few answers are kept, by the scenario itself and what else was asked.
    """
    return cast("Callable[Asked, Found]", lru_cache(maxsize=_KEPT)(function))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scenario:
    """What is predicted: a transformer on a system, in a layout, under a workload, by a stack.

    `residual` are the logarithms by which 80 % of measured steps lie below and above a prediction by these constants,
    0 where nobody compared. `origins` maps the path of a number (``system.device.memory_bandwidth_bytes_per_s``) to
    its Datum.
    """

    transformer: Transformer
    system: System
    layout: Layout
    workload: Workload
    stack: Stack
    origins: Mapping[str, Datum] = field(default_factory=dict)
    residual: tuple[float, float] = (0.0, 0.0)

    @property
    def weight_groups(self) -> tuple[WeightGroup, ...]:
        """Return the model's weights in the dtype of the workload."""
        return self.transformer.weights(self.workload.weight_dtype)

    @property
    def expert_dtype(self) -> str:
        """Return the dtype that most routed experts are in under the workload; empty without any."""
        routed = [group for group in self.weight_groups if group.read == "routed"]
        return max(routed, key=lambda group: group.parameters).dtype if routed else ""

    def value(self, path: str) -> Quantity:
        """Return the number at a path.

        Raises
        ------
        InputError
            There is no such number.
        """
        found = _number(self, path)
        if found is None:
            values = dict(self.inputs())
            near = did_you_mean(path, values)
            rooms = dict.fromkeys(f"{known.rpartition('.')[0]}.*" for known in values if ".tuner." not in known)
            raise InputError(
                f"there is no input {path!r}",
                where="--set",
                allowed=", ".join(rooms),
                do=near or "list them with nhalf catalog system SYSTEM and nhalf catalog engine ENGINE",
            )
        return found

    def inputs(self) -> Iterator[tuple[str, Quantity]]:
        """Yield the path and value of every number that can be set."""
        yield from _numbers(self, "")

    def having(self, changes: Mapping[str, Quantity]) -> Scenario:
        """Return the scenario with the numbers at some paths replaced; the origins stay.

        Raises
        ------
        InputError
            A path that is no input.
        """
        for path in changes:
            self.value(path)  # which refuses what is none
        return self.moved(changes)

    def at(self, place: int, count: int) -> Scenario:
        """Return the scenario of one of `count` points over which some of its numbers are arrays."""
        arrays = [(path, value) for path, value in self.inputs() if isinstance(value, np.ndarray)]
        return self.moved({path: float(np.broadcast_to(value, (count,))[place]) for path, value in arrays})

    def moved(self, changes: Mapping[str, Quantity]) -> Scenario:
        """Return the scenario with some numbers replaced, for paths that are known to be inputs: nothing is checked."""
        return _replaced(self, changes)


def _numbers(noun: object, prefix: str) -> Iterator[tuple[str, Quantity]]:
    """Yield the numeric leaves below a noun with their paths."""
    for name in _names(type(noun)):
        value = getattr(noun, name)
        if isinstance(value, _NUMERIC):
            if not isinstance(value, bool):
                yield f"{prefix}{name}", value
        elif _names(type(value)):
            yield from _numbers(value, f"{prefix}{name}.")


def _number(noun: object, path: str) -> Quantity | None:
    """Return the numeric leaf below a noun at a path, None where there is none."""
    value: object = noun
    for name in path.split("."):
        if name not in _names(type(value)):
            return None
        value = getattr(value, name)
    return value if isinstance(value, _NUMERIC) and not isinstance(value, bool) else None


def _fields(kind: type) -> tuple[str, ...]:
    """Return the fields of a noun below which numbers may be set; nothing of what is no noun."""
    return tuple(item.name for item in fields(kind) if item.name not in _FIXED) if is_dataclass(kind) else ()


_names = cast("Callable[[type], tuple[str, ...]]", cache(_fields))


def _replaced(noun: Noun, changes: Mapping[str, Quantity]) -> Noun:
    """Return a copy of a noun with the changes applied below it; paths are relative to it."""
    below: dict[str, dict[str, Quantity]] = {}
    direct: dict[str, object] = {}
    for path, value in changes.items():
        head, _, rest = path.partition(".")
        if rest:
            below.setdefault(head, {})[rest] = value
        else:
            direct[head] = value
    for head, inner in below.items():
        direct[head] = _replaced(getattr(noun, head), inner)
    if isinstance(noun, Link):
        kept = {name: direct.get(name, getattr(noun, name)) for name in ("latency_s", "bandwidth_bytes_per_s")}
        return type(noun)(**kept)  # type: ignore[arg-type]
    return replace(noun, **direct)  # type: ignore[type-var]

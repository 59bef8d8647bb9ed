"""The all-reduce of a scenario's TP group, as several tests look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.collective import Op
from nhalf.predict import communication, exchange, layer

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity, Term
    from nhalf.curve import MeasuredCurve
    from nhalf.scenario import Scenario


def all_reduce(scenario: Scenario, size_bytes: Quantity) -> Term:
    return communication.collective(scenario, Op.ALL_REDUCE, scenario.layout.tensor_group, size_bytes)


def measured_curve(scenario: Scenario) -> MeasuredCurve | None:
    return communication.measured_curve(scenario, Op.ALL_REDUCE, scenario.layout.tensor_group)


def is_measured(scenario: Scenario) -> bool:
    return communication.is_measured(scenario, Op.ALL_REDUCE, scenario.layout.tensor_group)


def layer_exchange(scenario: Scenario) -> exchange.Exchange:
    """Return the one kind of exchange that a dense model has in its layers."""
    (found,) = exchange.exchanges(scenario, layer.tokens(scenario))
    return found


def message_bytes(scenario: Scenario) -> Quantity:
    return layer_exchange(scenario).size.value


def collectives(scenario: Scenario) -> Term:
    """Return the time of the exchanges in the layers, without that of the logits."""
    found = exchange.time(scenario, "collectives", [layer_exchange(scenario)])
    assert found is not None
    return found

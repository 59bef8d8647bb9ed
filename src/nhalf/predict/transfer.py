"""Transfer: what it takes to hand the cache of a prefilled prompt to the devices that decode it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nhalf.laws.point_to_point import hockney
from nhalf.predict.memory import held_cache

if TYPE_CHECKING:
    from nhalf.breakdown import Term
    from nhalf.link import Link
    from nhalf.scenario import Scenario


def kv_bytes(scenario: Scenario) -> Term:
    """Return the bytes that each device of the prefill hands over: its part of the cache of its prompts.

    Windows hand over what they keep; a head that TP copies is handed over by every rank that has it, to its own peer.
    """
    return held_cache(scenario)


def kv_transfer(scenario: Scenario, link: Link) -> Term:
    """Return the time [s] in which each device sends its part over a link of its own, as one message.

    Engines that send layer by layer during the prefill hide all of it but the last layer where the link keeps up.

    References
    ----------
    Y. Zhong et al., "DistServe", arXiv:2401.09670; P. Patel et al., "Splitwise", arXiv:2311.18677 (4.2: layer-wise).
    """
    return hockney(kv_bytes(scenario).value, link)

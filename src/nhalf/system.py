"""A system: a device, the fabric it sits on, and the collectives that were measured there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nhalf.breakdown import Quantity
    from nhalf.curve import MeasuredCurve, RoutedCurve
    from nhalf.device import Device
    from nhalf.fabric import Fabric
    from nhalf.transport import Transport


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class System:
    """A machine as the catalogue knows it, or as a what-if changes it.

    `curves` were measured on `measured_fabric`; a what-if changes `fabric` and moves them by the difference of the
    law. `curve_factor` multiplies a measured time: 1, with the spread of repeated measurements as its interval.
    `routed` are the measured ways of tokens to experts and back. `transport` is what a collective pays to the network
    stack between nodes, None where they are joined by no NICs of a known kind. `like` names the system of the
    catalogue that a cluster of the user's is like, where it is one.
    """

    name: str
    device: Device
    fabric: Fabric
    measured_fabric: Fabric
    curves: tuple[MeasuredCurve, ...] = ()
    curve_factor: Quantity = 1.0
    routed: tuple[RoutedCurve, ...] = ()
    transport: Transport | None = None
    like: str = ""

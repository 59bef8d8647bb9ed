"""Routed: the measured way of tokens to experts and back, where the machine, the library and the shape were measured.

A curve belongs to one machine, library, number of ranks and way of spreading them over nodes; it never stands in for
another of these. Of the model's dimensions the nearest measured ones are taken, and tokens scaled to their bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from nhalf.breakdown import Input, Quantity, Term, leaf
from nhalf.collective import Routed

if TYPE_CHECKING:
    from nhalf.curve import RoutedCurve
    from nhalf.predict.communication import Known
    from nhalf.scenario import Scenario

Kernels: TypeAlias = tuple[str, ...]
STEP: Final[Kernels] = ("NVLinkOneSided", "deepep_ll", "trtllm_deepep_ll", "NVLinkTwoSided")
"""The kernels of a decode step, those for few tokens first; a CUDA graph can hold them."""
PROMPT: Final[Kernels] = ("NVLinkOneSided", "deepep_ht", "trtllm_deepep_ht", "NVLinkTwoSided")
"""The kernels of a prefill, those for many tokens."""
FARTHEST: Final = math.log(2.0)
"""Dimensions whose product is more than a factor of two away are another model's."""
FP8_TOKEN_BYTES: Final = 1.0 + 4.0 / 128.0
"""Bytes per element of a token in fp8: a scale of 4 bytes for each 128 (DeepEP)."""
_PLAIN: Final = ("bfloat16",)
_FORMATS: Final = {"bf16": _PLAIN, "fp16": _PLAIN, "fp8": ("fp8",), "nvfp4": ("nvfp4", "fp4"), "mxfp4": ("fp8",)}
"""The formats of a curve that experts of a dtype run in; results come back in bf16 in all of them."""
_ANY: Final = "default"


def token_bytes(scenario: Scenario) -> Quantity:
    """Return the bytes per element in which a token goes to its experts [bytes]."""
    plain = scenario.workload.activation_bytes
    return plain if _formats(scenario) == _PLAIN else FP8_TOKEN_BYTES


def _formats(scenario: Scenario) -> tuple[str, ...]:
    """Return the format in which a token goes to its experts, by the names that curves have for it."""
    return _FORMATS.get(scenario.expert_dtype, _PLAIN)


def known(scenario: Scenario, way: Routed, through: Term, kernels: Kernels) -> Known | None:
    """Return the measured time [s] of a dispatch or combine of `through` tokens per rank, and its floor; None without.

    `skew` scales the tokens: the busiest rank sets the pace.
    """
    curve = curve_for(scenario, way, kernels)
    mixture = scenario.transformer.mixture
    if curve is None or mixture is None:
        return None
    inputs: dict[str, Input] = {
        "t": through,
        "skew": scenario.workload.routing_skew,
        "fuse": scenario.stack.remedies.fused_collectives,
        "d": float(scenario.transformer.hidden_size),
        "k": float(mixture.chosen),
        "d_0": float(curve.hidden),
        "k_0": float(curve.chosen),
    }
    tokens = leaf("tokens as measured", "t * skew * fuse * d * k / (d_0 * k_0)", inputs, unit="tokens")
    return leaf("measured", "curve(n)", {"curve": curve.at, "n": tokens}), curve.at.floor_s


def curve_for(scenario: Scenario, way: Routed, kernels: Kernels) -> RoutedCurve | None:
    """Return the curve that was measured there: in the model's format if any, the first kernel, the nearest shape."""
    mixture, layout, transformer = scenario.transformer.mixture, scenario.layout, scenario.transformer
    if mixture is None or layout.expert_parallel != layout.expert_devices:
        return None
    group = layout.expert_group
    fabric = scenario.system.measured_fabric
    inside = min(group.span(fabric).ranks_per_node, fabric.devices_per_host)
    shape = (transformer.hidden_size, mixture.chosen, mixture.experts)
    wanted = (*_formats(scenario), _ANY)
    found = [
        curve
        for curve in scenario.system.routed
        if (curve.library, curve.way) == (scenario.stack.library.name, way)
        and (curve.ranks, curve.ranks_per_node) == (group.ranks, inside)
        and curve.kernel in kernels
        and curve.distance(*shape) <= FARTHEST
    ]
    return min(
        found,
        key=lambda curve: (curve.dtype not in wanted, kernels.index(curve.kernel), curve.distance(*shape), curve.dtype),
        default=None,
    )


def measured_ways(scenario: Scenario) -> bool:
    """Tell whether both ways of a decode step's tokens were measured there."""
    return all(curve_for(scenario, way, STEP) is not None for way in Routed)

"""Faults: what each does to the time of a collective, in factors on its fixed time and on its bytes.

A fault is a hypothesis with a spread: its factors are log-normal. `low_bytes` to `high_bytes` is the stretch of sizes
on which it slows the bytes. Rows of one code are its degrees (one rail of two, of four, of eight).

References
----------
The house's notes on collectives across nodes (settings are constants of a fabric) and on topology: sockets against OFI
on the same NICs, GDRCopy off (6 us a hop more), small thresholds of CXI (the rate of LL a quarter). NVIDIA/nccl,
src/graph/topo.h and tuning.cc: 20.6 of 25 GB/s of an NVLink for rings; LL carries half of its bytes as flags.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from nhalf.collective import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.breakdown import Array
    from nhalf.doctor.yardstick import Yardstick

Where = Literal["node", "nodes", "both"]
_KIB: Final = 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One degree of one cause: factors on the fixed time and on the bytes, with their log-standard deviations.

    `odds` are those before anything was seen, against a healthy system. `priced`: under what name the
    law of the yardstick says what it does. `roughness` is how much neighbouring sizes and
    repeats scatter under it [log].
    """

    code: str
    odds: float
    where: Where = "both"
    fixed: float = 1.0
    fixed_sd: float = 0.05
    bytes_: float = 1.0
    bytes_sd: float = 0.05
    low_bytes: float = 0.0
    high_bytes: float = math.inf
    roughness: float = 0.04
    only: tuple[Op, ...] = ()
    switched: bool = False
    priced: str = ""


def effect(sizes: Array, yardstick: Yardstick, faults: Sequence[Fault]) -> tuple[Array, Array, Array]:
    """Return what faults together do: ln of the factor at each size, its gradients, and their log-variances."""
    fixed, moved = yardstick.fixed_s.copy(), yardstick.times_s - yardstick.fixed_s
    by_law = np.zeros(len(sizes))
    parts = []
    for fault in faults:
        inside = (sizes >= fault.low_bytes) & (sizes <= fault.high_bytes)
        fixed = fixed * fault.fixed
        moved = moved * np.where(inside, fault.bytes_, 1.0)
        by_law = by_law + (yardstick.moved[fault.priced] if fault.priced else 0.0)
        parts.append(inside)
    total = fixed + moved
    gradients, variances = [], []
    for fault, inside in zip(faults, parts, strict=True):
        gradients += [fixed / total, np.where(inside, moved / total, 0.0)]
        variances += [fault.fixed_sd**2, fault.bytes_sd**2]
        if fault.priced:
            gradients.append(yardstick.moved[fault.priced])
            variances.append(_PRICED_SD**2)
    return np.log(total / yardstick.times_s) + by_law, np.array(gradients), np.array(variances)


_PRICED_SD: Final = 0.3
"""How far a fault that the law prices may lie from it, as a part of ln of its factor."""
_IMPLIED: Final = (frozenset({"tcp", "no-gdr"}), frozenset({"tcp", "mtu"}))


def together(one: Fault, other: Fault) -> bool:
    """Tell whether two faults are two: sockets have no GPU-direct RDMA anyway."""
    return one.code != other.code and frozenset({one.code, other.code}) not in _IMPLIED


UNKNOWN: Final = "unknown"
"""Something is wrong that none of the others is."""
_RARE, _USUAL, _OFTEN = 0.02, 0.04, 0.06
FAULTS: Final = (
    Fault(code="tcp", where="nodes", odds=_OFTEN, priced="tcp", fixed_sd=0.3, bytes_sd=0.5),
    Fault(code="tcp", where="nodes", odds=_OFTEN, fixed=2.3, fixed_sd=0.35, bytes_=5.7, bytes_sd=0.6),
    Fault(code="no-gdr", where="nodes", odds=_USUAL, priced="no-gdr"),
    Fault(code="no-gdr", where="nodes", odds=_USUAL, fixed=1.6, fixed_sd=0.25, bytes_=2.2, bytes_sd=0.3),
    *(Fault(code="rails", where="nodes", odds=_RARE, priced=f"rails/{part}", bytes_sd=0.25) for part in (2, 4, 8)),
    Fault(code="half-speed-link", where="nodes", odds=_USUAL, priced="half-speed-link"),
    Fault(code="half-speed-link", where="node", odds=_USUAL, bytes_=2.0, bytes_sd=0.07, low_bytes=64 * _KIB),
    Fault(code="host-bounce", where="node", odds=_OFTEN, fixed=2.7, fixed_sd=0.45, bytes_=18.0, bytes_sd=0.6),
    Fault(code="nic-affinity", where="nodes", odds=_RARE, fixed=6.5, fixed_sd=0.4, bytes_=1.6, bytes_sd=0.4),
    Fault(code="nic-affinity", where="nodes", odds=_RARE, fixed=1.3, fixed_sd=0.12, bytes_=1.8, bytes_sd=0.2),
    Fault(code="protocol-capped", where="nodes", odds=_USUAL, priced="protocol-capped"),
    Fault(
        code="protocol-capped", where="node", odds=_RARE, bytes_=3.0, bytes_sd=0.4, low_bytes=16 * _KIB,
        high_bytes=4096 * _KIB,
    ),
    Fault(code="protocol-capped", odds=_RARE, fixed=0.9, fixed_sd=0.15, bytes_=6.0, bytes_sd=0.5, low_bytes=64 * _KIB),
    Fault(
        code="nvls-off", where="node", odds=_USUAL, bytes_=1.3, bytes_sd=0.06, low_bytes=256 * _KIB,
        only=(Op.ALL_REDUCE,), switched=True,
    ),
    Fault(code="nvls-off", where="nodes", odds=_RARE, priced="nvls-off"),
    Fault(code="other-jobs", odds=_USUAL, fixed=1.15, fixed_sd=0.2, bytes_=1.6, bytes_sd=0.35, roughness=0.2),
    Fault(code="mtu", where="nodes", odds=_RARE, bytes_=1.3, bytes_sd=0.1, low_bytes=64 * _KIB),
    Fault(code="slow-rank", odds=_RARE, fixed=3.0, fixed_sd=0.7),
    Fault(code=UNKNOWN, odds=_RARE, fixed=1.2, fixed_sd=0.4, bytes_=1.3, bytes_sd=0.5),
    Fault(code="host-timed", odds=1.0, fixed=0.5, fixed_sd=0.7, bytes_=0.1, bytes_sd=1.0),
)  # fmt: skip
"""What may be wrong, by its rows."""

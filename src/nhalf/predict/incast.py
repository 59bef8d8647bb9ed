"""Incast: many nodes that answer one root at once overrun a port of the switch, and TCP waits before it sends again.

No term of a step holds it: whether a reply is lost depends on the switch, and of the only machine that was measured no
function of the nodes fits. It is a doubt, which widens bands upwards and is said in words.

References
----------
V. Vasudevan et al., "A (In)Cast of Thousands: Scaling Datacenter TCP to Kiloservers and Gigabits", CMU-PDL-09-101:
synchronised replies overfill small switch buffers, time-outs of hundreds of milliseconds follow, and throughput falls
by up to 90 %. Linux, include/net/tcp.h: TCP_RTO_MIN is HZ / 5, so a lost reply that nothing follows waits for 200 ms.
b4rtaz/distributed-llama at commit aec85b9f, report, figures 3 to 5: Llama-2-7B on Raspberry Pi 4B over 1 Gb/s Ethernet
took 52, 34 and 290 ms of transfer a token on 2, 4 and 8 nodes, where 8 nodes have 51 ms of wire time; 13B 653 and 70B
2720 ms on 8. The 239 ms beyond the wire are 1.2 waits a token.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import columns
from nhalf.predict.communication import COLLECTIVES
from nhalf.quantiles import Z80

if TYPE_CHECKING:
    from nhalf.breakdown import Array, Term
    from nhalf.scenario import Scenario

NODES: Final = 8
"""The fewest nodes that were measured to take much longer than the wire does (distributed-llama, above)."""
COLLAPSE: Final = 10.0
"""The factor on a transfer's time when 90 % of the throughput is lost (Vasudevan et al., above)."""
WAIT_S: Final = 0.2
"""The least time [s] after which Linux sends a lost segment again (TCP_RTO_MIN, above)."""
_SEED: Final = 20261130


def possible(scenario: Scenario) -> bool:
    """Tell whether so many nodes answer one root at once, through the kernel's TCP."""
    stack = scenario.stack
    nodes = scenario.layout.tensor_group.span(scenario.system.fabric).nodes
    return stack.gathers_at_root and nodes >= NODES and stack.remedies.kernel_bypass != "on"


def exposed_s(scenario: Scenario, step: Term) -> Array:
    """Return the time [s] of collectives that incast may multiply; 0 where none is to be feared."""
    if not possible(scenario):
        return np.zeros(1)
    owed = columns(step)
    found: Array = sum((np.asarray(owed[name], dtype=np.float64) for name in COLLECTIVES if name in owed), np.zeros(1))
    return found


def drawn_s(scenario: Scenario, step: Term, count: int) -> Array:
    """Return `count` draws of the time [s] that incast adds: none in half, more than `COLLAPSE` says in a tenth."""
    normal = np.random.default_rng(_SEED).standard_normal(count) / Z80
    added: Array = exposed_s(scenario, step) * np.expm1(math.log(COLLAPSE) * np.maximum(normal, 0.0))
    return added

"""What NCCL expects of its symmetric kernels: all-reduces inside a node on registered buffers, since version 2.27.

A plan by the library's own constants, and no measurement. Each kernel is given as many multiprocessors as bring it to
its peak rate; NCCL then takes fewer where that costs 2.5 % at most.

References
----------
NVIDIA/nccl at 5067397c (2.30.7), src/sym_kernels.cc: queryModel_lsa.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.breakdown import Quantity, Term, leaf, total
from nhalf.tape import recorded

if TYPE_CHECKING:
    from nhalf.library import SymmetricKernels

MICROSECOND: Final = 1e-6
"""The softness of NCCL's model [s]."""
KERNELS: Final = {
    "AGxLL_R": "k * n * 9",
    "RSxLD_AGxST": "2 * n * (k - 1) / k",
    "RSxLDMC_AGxSTMC": "n / k + n",
}
"""The bytes that NCCL counts for each kernel: everything gathered with flags, at 9 for each; reads and writes of peers;
reads and writes of a multicast address."""
_MULTICAST: Final = "RSxLDMC_AGxSTMC"
_LOW_LATENCY: Final = "AGxLL_R"


class Softplus:
    """A smooth maximum(x - 1 us, 0) of a time x: the first microsecond of bytes hides behind the fixed time."""

    __slots__ = ()

    @recorded
    def __call__(self, time_s: Quantity) -> Quantity:
        """Return the time [s] beyond the first microsecond, smoothly."""
        grown: Quantity = MICROSECOND * np.logaddexp(0.0, np.asarray(time_s) / MICROSECOND - 1.0)
        return grown

    def __str__(self) -> str:
        """Return what a reader of a formula needs to know."""
        return "ln(1 + exp(x / 1 us - 1)) us"


softplus: Final = Softplus()


def symmetric_all_reduce(
    size_bytes: Quantity, ranks: int, kernels: SymmetricKernels, *, multicast: bool
) -> dict[str, Term]:
    """Return the time [s] that NCCL expects of each of its symmetric kernels, by name.

    `multicast` tells whether the switches of the node copy and add up.
    """
    found = {}
    for name, moved in KERNELS.items():
        if name == _MULTICAST and not multicast:
            continue
        rate = kernels.multicast_bandwidth_bytes_per_s if name == _MULTICAST else kernels.bandwidth_bytes_per_s
        base = kernels.low_latency_base_s if name == _LOW_LATENCY else kernels.base_s
        inputs = {"n": size_bytes, "k": float(ranks), "rate": rate, "beyond": softplus}
        found[name] = total(
            name,
            leaf("fixed", "base", {"base": base}, column="fixed"),
            leaf("transfer", f"beyond(({moved}) / rate)", inputs, column="transfer"),
        )
    return found

"""Paths: the algorithms and protocols of NCCL by the names and numbers of its tuner, and which of them are legal.

References
----------
NVIDIA/nccl at 5067397c (2.30.7): `src/include/nccl_tuner.h` for names and order, `src/graph/tuning.cc` for what an
operation may run.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from nhalf.errors import InputError, did_you_mean

ALGORITHMS: Final = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS: Final = ("ll", "ll128", "simple")
OPERATIONS: Final = {"broadcast": 0, "reduce": 1, "all-gather": 2, "reduce-scatter": 3, "all-reduce": 4}
"""The operations that ask a tuner, by their numbers; sends and receives, so all-to-all, never do."""
_SIMPLE_ONLY: Final = ("collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_OTHERS: Final = ("ring", "nvls", "collnet_direct", "pat")
_LEGAL: Final = {"all-reduce": tuple(name for name in ALGORITHMS if name != "pat"), "all-gather": _OTHERS,
                 "reduce-scatter": _OTHERS, "broadcast": ("ring",), "reduce": ("ring",)}  # fmt: skip


class Path(NamedTuple):
    """An algorithm with a protocol, in the words of NCCL's tuner."""

    algorithm: str
    protocol: str

    def __str__(self) -> str:
        """Return it as a log names it."""
        return f"{self.algorithm}/{self.protocol}"

    @property
    def numbers(self) -> tuple[int, int]:
        """Return its places in the cost table."""
        return ALGORITHMS.index(self.algorithm), PROTOCOLS.index(self.protocol)

    def legal(self, op: str, nodes: int) -> bool:
        """Tell whether NCCL may run it for an operation: a line for anything else is dead."""
        if self.algorithm not in _LEGAL.get(op, ()) or (self.algorithm in _SIMPLE_ONLY and self.protocol != "simple"):
            return False
        return nodes > 1 or self.algorithm not in ("nvls_tree", "collnet_direct", "collnet_chain", "pat")


def parse(text: str, where: str) -> Path:
    """Return the path that a text such as `tree/ll` or `Tree,LL128` names.

    Raises
    ------
    InputError
        A word is unknown: NCCL's own example would read it as ring or simple.
    """
    words = text.casefold().replace("-", "_").replace(",", "/").split("/")
    if len(words) != 2:  # noqa: PLR2004  an algorithm and a protocol
        raise InputError(f"{text!r} is no path", where=where, allowed="ALGORITHM/PROTOCOL such as tree/ll, or default")
    short = {name.replace("_", ""): name for name in ALGORITHMS}
    algorithm, protocol = short.get(words[0].strip().replace("_", ""), ""), words[1].strip()
    if not algorithm or protocol not in PROTOCOLS:
        unknown, known = (words[1], PROTOCOLS) if algorithm else (words[0], ALGORITHMS)
        raise InputError(
            f"{unknown!r} is unknown", where=where, allowed=", ".join(known), do=did_you_mean(unknown, known)
        )
    return Path(algorithm, protocol)

"""The answer of `nhalf fit`: the fit and what was asked beside it, whatever shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.comparison import Comparison
    from nhalf.evidence.decode_messages import Mark
    from nhalf.evidence.fit import Fit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What `nhalf fit` says: the fit, the decode messages of a `model` on it, and the comparison, where asked for.

    `links` names the cluster file that is written, if any, and `written` says what went into it; `again` is the command
    line without a file to write. A step is predicted for `model` on `system`, a node of which has `devices_per_node`.
    `like` is what a cluster file has to be told that it is like, where no log names its devices.
    """

    fit: Fit
    marks: Sequence[Mark] = ()
    mark_doubts: Sequence[str] = ()
    comparison: Comparison | None = None
    tripped: Sequence[str] = ()
    links: str = ""
    written: Sequence[str] = ()
    again: str = "nhalf fit LOG"
    model: str = "llama-3.1-70b"
    system: str = "h100-sxm"
    devices_per_node: int = 8
    like: str = ""

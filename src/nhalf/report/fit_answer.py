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

    `links` names the file that the fitted links go to, if any; `again` is the command line without a file to write.
    `doctor` is the verdict of `nhalf doctor` where a system is named. A step is predicted for `model` on `system`, a
    node of which has `devices_per_node`.
    """

    fit: Fit
    marks: Sequence[Mark] = ()
    mark_doubts: Sequence[str] = ()
    comparison: Comparison | None = None
    tripped: Sequence[str] = ()
    links: str = ""
    again: str = "nhalf fit LOG"
    model: str = "llama-3.1-70b"
    system: str = "h100-sxm"
    devices_per_node: int = 8
    doctor: str = ""

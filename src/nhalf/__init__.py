"""nhalf: what the interconnect costs distributed inference, and what would change it.

>>> import nhalf
>>> nhalf.Link("5us", "400GB/s").half_size_bytes
2000000.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from nhalf.version import VERSION

if TYPE_CHECKING:
    from nhalf.breakdown import Term as Term
    from nhalf.evidence.fit import Fit as Fit
    from nhalf.evidence.fit import fit as fit
    from nhalf.evidence.reading import read as read
    from nhalf.link import Link as Link
    from nhalf.loading import load as load
    from nhalf.loading.planning import plan as plan
    from nhalf.predict.prefill import prefill as prefill
    from nhalf.predict.step import decode as decode
    from nhalf.sample import Sample as Sample
    from nhalf.scenario import Scenario as Scenario

__version__ = VERSION
__all__ = [
    "Fit",
    "Link",
    "Sample",
    "Scenario",
    "Term",
    "__version__",
    "decode",
    "fit",
    "load",
    "plan",
    "prefill",
    "read",
]

_HOMES = {
    "Fit": "nhalf.evidence.fit",
    "Link": "nhalf.link",
    "Sample": "nhalf.sample",
    "Scenario": "nhalf.scenario",
    "Term": "nhalf.breakdown",
    "decode": "nhalf.predict.step",
    "fit": "nhalf.evidence.fit",
    "load": "nhalf.loading",
    "plan": "nhalf.loading.planning",
    "prefill": "nhalf.predict.prefill",
    "read": "nhalf.evidence.reading",
}


def __getattr__(name: str) -> object:
    """Return a public name, importing its module when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        message = f"module 'nhalf' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)

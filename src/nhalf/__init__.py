"""nhalf: what the interconnect costs distributed inference, and what would change it.

>>> import nhalf
>>> nhalf.Link("5us", "400GB/s").half_size_bytes
2000000.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nhalf.breakdown import Term as Term
    from nhalf.link import Link as Link
    from nhalf.loading import load as load
    from nhalf.predict.step import decode as decode
    from nhalf.scenario import Scenario as Scenario

__version__ = "0.1.0"
__all__ = ["Link", "Scenario", "Term", "__version__", "decode", "load"]

_HOMES = {
    "Link": "nhalf.link",
    "Scenario": "nhalf.scenario",
    "Term": "nhalf.breakdown",
    "decode": "nhalf.predict.step",
    "load": "nhalf.loading",
}


def __getattr__(name: str) -> object:
    """Return a public name, importing its module when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        message = f"module 'nhalf' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)

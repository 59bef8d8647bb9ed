"""Loading: files, flags and scenario files become scenarios whose every number has an origin."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nhalf.loading.choices import Request as Request
    from nhalf.loading.defaults import Default as Default
    from nhalf.loading.degrees import Degrees as Degrees
    from nhalf.loading.request import Loaded as Loaded
    from nhalf.loading.request import load as load
    from nhalf.loading.request import scenarios as scenarios
    from nhalf.loading.request import with_peers as with_peers

_HOMES: Final = {
    "Default": "defaults",
    "Degrees": "degrees",
    "Request": "choices",
    **dict.fromkeys(("Loaded", "load", "scenarios", "with_peers"), "request"),
}


def __getattr__(name: str) -> object:
    """Return a name of this room, importing its module when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        message = f"module 'nhalf.loading' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"nhalf.loading.{_HOMES[name]}"), name)

"""nhalf: what the interconnect costs distributed inference, and what would change it.

>>> import nhalf
>>> nhalf.Link("5us", "400GB/s").half_size_bytes
2000000.0
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from nhalf.version import VERSION

if TYPE_CHECKING:
    from nhalf.answers.answer import Answer as Answer
    from nhalf.answers.commands import buy as buy
    from nhalf.answers.commands import compare as compare
    from nhalf.answers.commands import crossover as crossover
    from nhalf.answers.commands import doctor as doctor
    from nhalf.answers.commands import plan as plan
    from nhalf.answers.commands import simulate as simulate
    from nhalf.answers.commands import trace as trace
    from nhalf.answers.commands import whatif as whatif
    from nhalf.answers.decoded import Decoded as Decoded
    from nhalf.answers.decoded import decode as decode
    from nhalf.answers.decoded import load as load
    from nhalf.answers.measured import fit as fit
    from nhalf.answers.measured import read as read
    from nhalf.answers.study import study as study
    from nhalf.breakdown import Term as Term
    from nhalf.emitted import Emitted as Emitted
    from nhalf.emitted import emit as emit
    from nhalf.evidence.fit import Fit as Fit
    from nhalf.link import Link as Link
    from nhalf.predict.prefill import prefill as prefill
    from nhalf.sample import Sample as Sample
    from nhalf.scenario import Scenario as Scenario

__version__ = VERSION
__all__ = [
    "Answer", "Decoded", "Emitted", "Fit", "Link", "Sample", "Scenario", "Term", "__version__", "buy", "compare",
    "crossover", "decode", "doctor", "emit", "fit", "load", "plan", "prefill", "read", "simulate", "study", "trace",
    "whatif",
]  # fmt: skip

_HOMES = {
    "Answer": "nhalf.answers.answer",
    "Decoded": "nhalf.answers.decoded",
    "Emitted": "nhalf.emitted",
    "Fit": "nhalf.evidence.fit",
    "Link": "nhalf.link",
    "Sample": "nhalf.sample",
    "Scenario": "nhalf.scenario",
    "Term": "nhalf.breakdown",
    "decode": "nhalf.answers.decoded",
    "emit": "nhalf.emitted",
    "fit": "nhalf.answers.measured",
    "load": "nhalf.answers.decoded",
    "prefill": "nhalf.predict.prefill",
    "read": "nhalf.answers.measured",
    "study": "nhalf.answers.study",
    **dict.fromkeys(
        ("buy", "compare", "crossover", "doctor", "plan", "simulate", "trace", "whatif"), "nhalf.answers.commands"
    ),
}


def __dir__() -> list[str]:
    """Return the public names, which are imported when they are first asked for."""
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Return a public name, importing its module when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        message = f"module 'nhalf' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)


class _Room(ModuleType):
    """A room that has the name of a command: called, it is the command."""

    def __call__(self, *arguments: Any, **flags: Any) -> object:  # noqa: ANN401  those of the command
        """Return the answer of the command."""
        return getattr(import_module("nhalf.answers.commands"), self.__name__.rpartition(".")[2])(*arguments, **flags)


class _Package(ModuleType):
    """The package: `nhalf.trace` stays the command when something imports the room of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        """Bind a name; a room that a command is named after can be called from then on."""
        if name in _HOMES and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

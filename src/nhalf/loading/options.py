"""Options: the inputs of a request beyond its model, systems, layout, lengths and stack, by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nhalf.loading.inputs import of_part

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES: Final = tuple(row.name for row in of_part("options"))
"""The names of the options: flags of `nhalf decode`, keys of a scenario file, choices of `nhalf.load`."""
SWITCHES: Final = tuple(row.name for row in of_part("options") if row.is_switch)
"""Those that are on or off without a value."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that were given, by name; each is an attribute too, None (or False for a switch) where it was not."""

    given: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  a word, a number or a switch
        """Return an option."""
        if name not in NAMES:
            raise AttributeError(name)
        return self.given.get(name, False if name in SWITCHES else None)

    def having(self, values: Mapping[str, Any]) -> Options:
        """Return the options with some values, which are read already; None or False takes one away."""
        found = {**self.given, **values}
        return Options({name: found[name] for name in NAMES if found.get(name) not in (None, False)})

"""A serving engine: how a layout is launched on it, how its launch lines are read, and what it brings along."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from nhalf import units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.engines.served import Served
    from nhalf.layout import Layout


class Engine(ABC):
    """What no table of constants holds of an engine; library, mode and constants are `stacks.toml`'s, by its `name`.

    `start` begins a launch line; `programs` and `images` are what one may start; `degrees` the flags that make the
    layout, `spellings` other names of flags; `backends` are its names in benchmarks of serving. `quantised_kv` is the
    dtype of the cache that a quantised model most likely runs with, empty where nothing is known. `even_ranks`: its own
    all-reduce runs on 2, 4, 6 and 8 ranks (thresholds.toml), and hands over to NCCL on others; `one_vendor`: its
    library runs on the devices of one vendor only. `newest` is the newest version that was measured anywhere.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    start: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    degrees: ClassVar[tuple[str, ...]]
    images: ClassVar[tuple[str, ...]] = ()
    spellings: ClassVar[Mapping[str, str]] = {}
    backends: ClassVar[tuple[str, ...]] = ()
    eager_flag: ClassVar[str] = ""
    no_reuse_flag: ClassVar[str] = ""
    quantised_kv: ClassVar[str] = ""
    even_ranks: ClassVar[bool] = False
    one_vendor: ClassVar[bool] = False
    newest: ClassVar[str] = ""
    exchange_is_a_flag: ClassVar[bool] = True

    @abstractmethod
    def refusal(self, layout: Layout) -> str:
        """Return why it cannot run a layout, or an empty string."""

    @abstractmethod
    def command(self, layout: Layout, served: Served) -> tuple[str, tuple[str, ...]]:
        """Return the command that runs a replica of a layout, and the files or commands that go with it."""

    @abstractmethod
    def layout_of(self, flags: dict[str, str], where: str) -> tuple[Layout, int | None, list[str]]:
        """Return the layout that flags mean, the sequences of a replica, and what is left out of account."""


def joined(*parts: str | int) -> str:
    """Return a command line without the parts that are empty."""
    return " ".join(shlex.quote(str(part)) for part in parts if part != "")


def count(flags: dict[str, str], name: str, where: str, default: int = 1) -> int:
    """Return a whole number that a flag states."""
    return units.parse_count(flags[name], where=f"{where}: --{name}") if name in flags else default

"""Choices: what the user asked for, whether by flags, a scenario file, a row of a table or keywords."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError
from nhalf.loading import inputs
from nhalf.loading.degrees import Degrees
from nhalf.loading.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.breakdown import Quantity
    from nhalf.loading.inputs import Input
    from nhalf.loading.stack_file import StackFile

TEXTS: Final = ("weights", "kv", "engine", "library", "mode", "stack", "links")
"""The choices of a request that are texts, by the names of their flags."""
LENGTHS: Final = ("context", "isl", "osl")
"""The counts of tokens of a request, by the names of their flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the user asked for; None where a default is to be taken and said.

    `links` is a file of links by tier, `stack` one of constants, `priors`, or what such a file holds; `changes` maps
    paths of inputs to the texts of their values, as `--set` does. `measured` are collectives that the user measured.
    Batches and lengths may be arrays. `users` are the sequences in flight over all replicas, in place of batches.
    `load` holds numbers of the workload by field, arrays over the runs of a table, in place of batches and lengths.
    `assumed` names choices that stand here but were defaults where they come from, with the reason for each;
    `recorded` holds, by system and path, what numbers were when the request was written down.
    """

    model: str
    systems: tuple[str, ...]
    degrees: Degrees = field(default_factory=Degrees)
    batches: tuple[Quantity, ...] | None = None
    users: Quantity | None = None
    context: Quantity | None = None
    isl: Quantity | None = None
    osl: Quantity | None = None
    weights: str | None = None
    kv: str | None = None
    engine: str | None = None
    library: str | None = None
    mode: str | None = None
    stack: str | StackFile | None = None
    links: str | None = None
    measured: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=Options)
    load: Mapping[str, Quantity] | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)
    recorded: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def updated(self, values: Mapping[str, object], where: Callable[[Input], str] | None = None) -> Request:
        """Return the request with some inputs anew, by name: texts or plain values, read here; None is none.

        A default that rests on what is stated is open again. `where` says where a message finds an input: at its flag,
        if nothing else is given.

        Raises
        ------
        InputError
            A value that is not possible.
        """
        read = {name: inputs.BY_NAME[name].read(value, (where or _flag)(inputs.BY_NAME[name]))
                for name, value in values.items() if value is not None}  # fmt: skip
        open_again = [
            name for name in self.assumed if set(inputs.BY_NAME[inputs.NAME_OF.get(name, name)].follows) & set(read)
        ]
        parts: dict[str, dict[str, Any]] = {"request": dict.fromkeys(open_again), "degrees": {}, "options": {}}
        for name, value in read.items():
            parts[inputs.BY_NAME[name].part][inputs.BY_NAME[name].held_as] = value
        if "changes" in parts["request"]:
            parts["request"]["changes"] = {**self.changes, **parts["request"]["changes"]}
        return replace(
            self,
            degrees=replace(self.degrees, **parts["degrees"]),
            options=self.options.having(parts["options"]),
            assumed={name: why for name, why in self.assumed.items() if name not in parts["request"]},
            **parts["request"],
        )

    def shared(self) -> Request:
        """Return the request with the batch of a replica in place of the users of all of them.

        Raises
        ------
        InputError
            Both are given, or a rate that finds the batch.
        """
        if self.options.rate is not None and (self.users or (self.batches and "batches" not in self.assumed)):
            raise InputError("--rate finds the batch itself", where="--rate", do="leave out --batch and --users")
        if self.users is None:
            return self
        if self.batches is not None and "batches" not in self.assumed:
            raise InputError("--users and --batch are both given", where="--users", allowed="one of the two")
        batch = -(-self.users // (self.options.replicas or 1))
        assumed = {name: why for name, why in self.assumed.items() if name != "batches"}
        return replace(self, users=None, batches=(batch,), assumed=assumed)


def _flag(row: Input) -> str:
    return row.on_command_line

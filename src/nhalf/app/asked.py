"""What a visitor asks: the parameters of a page or of the API, none of which names a file or is evaluated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf import loading
from nhalf.catalog import store
from nhalf.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.loading import Request

OF_A_STEP: Final = (
    "model", "on", "tp", "pp", "ep", "attention_dp", "batch", "users", "context", "isl", "osl", "weights", "kv",
    "engine", "library", "mode", "set", "overlap", "fuse_norm", "fuse", "two_batch_overlap", "quantised_all_reduce",
    "draft_tokens", "acceptance", "p2p",
)  # fmt: skip
"""What may be asked of a step."""
COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "decode": OF_A_STEP,
    "plan": ("gpus", "tpot", "ttft", "odds", "goal", "rate", *OF_A_STEP),
    "buy": ("option", *OF_A_STEP),
    "whatif": ("option", *OF_A_STEP),
    "crossover": ("model", "on", "link", "tp"),
    "compare": ("layout", *OF_A_STEP),
    "link": ("latency", "bandwidth"),
    "collective": ("op", "on", "ranks", "sizes", "latency", "bandwidth"),
    "simulate": ("op", "ranks", "size", "latency", "bandwidth", "algorithm", "ports", "protocol"),
}
"""The commands of `GET /api/<command>`, and the parameters of each."""
_PICTURES: Final = {"pictures": ("model", "on")}
REPEATED: Final = ("set", "option", "layout")
"""Parameters that may come several times."""
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "link": ("latency", "bandwidth"), "collective": ("op", "latency", "bandwidth"), "simulate": ("op",),
}  # fmt: skip
_RATE: Final = re.compile(r"[KMGT]i?[Bb]/s")
_LONGEST: Final = 200
_MOST: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What the app was opened with: systems of the user's own, files that a visitor may choose by their names."""

    files: Mapping[str, str]

    def system(self, name: str) -> str:
        """Return the system that a visitor names: one of the catalogue, or a file that the app was opened with.

        Raises
        ------
        InputError
            There is none of that name.
        """
        if name in self.files:
            return self.files[name]
        if set(name) & {"/", "\\", "."}:  # the command line would take it for a file
            raise InputError(f"no system {name[:40]!r} was opened", where="on", allowed="a system of the catalogue")
        return store.find("system", name, where="on")


def checked(command: str, given: Mapping[str, list[str]], opened: Opened) -> dict[str, list[str]]:
    """Return the parameters of a command, each checked.

    Raises
    ------
    InputError
        A parameter is not known, comes twice, is too long, or names what was not opened.
    """
    known, where = {**COMMANDS, **_PICTURES}[command], f"/api/{command}"
    found: dict[str, list[str]] = {}
    for name, values in given.items():
        if name not in known:
            raise InputError(f"there is no parameter {name[:40]!r}", where=where, do=did_you_mean(name, known))
        several = _MOST if name in REPEATED else 1
        if len(values) > several:
            raise InputError(f"{name} is there {len(values)} times", where=where, allowed=f"{several} at most")
        if any(len(value) > _LONGEST for value in values):
            raise InputError(f"{name} is too long", where=where, allowed=f"{_LONGEST} characters")
        found[name] = list(values)
    if "model" in found:
        found["model"] = [store.find("model", found["model"][0], where="model")]
    if "on" in found:
        found["on"] = [",".join(opened.system(name) for name in found["on"][0].split(","))]
    for text in [*found.get("layout", ()), *found.get("option", ())]:
        _names_no_file(text)
    return found


def _names_no_file(text: str) -> None:
    """Refuse a layout or an option whose words say that they name a file; whatever else does is not read (`only`).

    Raises
    ------
    InputError
        It does.
    """
    for word in re.split(r"[\s,+]+", text):
        key, _, value = word.partition("=")
        if key in ("on", "system", "links", "stack") or ".toml" in value or "/" in _RATE.sub("", value):
            raise InputError(f"{word[:40]!r} may name a file", where="option", allowed="what names none")


def split(command: str, found: Mapping[str, list[str]]) -> tuple[list[str], dict[str, object]]:
    """Return parameters as the arguments and the flags of a command."""
    names = _ARGUMENTS.get(command, ("model",))
    arguments = [found[name][0] for name in names if name in found]
    flags: dict[str, object] = {}
    for name, values in found.items():
        if name in names:
            continue
        one = values[0]
        flags[name] = values if name in REPEATED else True if one == "true" else False if one in ("false", "") else one
    return arguments, flags


def request(found: Mapping[str, list[str]]) -> Request:
    """Return the request of a step that checked parameters make.

    Raises
    ------
    InputError
        The model or the system is missing, or a value is not possible.
    """
    from nhalf.loading.inputs import BY_NAME

    for name in ("model", "on"):
        if name not in found:
            raise InputError(f"{name} is missing", where="/api/panel", do=f"add {name}=")
    _, flags = split("decode", found)
    by_flag = {row.on_command_line.removeprefix("--").replace("-", "_"): name for name, row in BY_NAME.items()}
    values = {by_flag[name]: value for name, value in flags.items() if value is not False}
    if "set" in values:
        values["set"] = tuple(values["set"])  # type: ignore[arg-type]
    return loading.Request(model=found["model"][0], systems=()).updated(values)


def scenarios(found: Mapping[str, list[str]]) -> loading.Loaded:
    """Return the scenarios of a step that checked parameters ask for."""
    return loading.scenarios(request(found))

"""Recognition: which kernels are communication, by what pattern, and what their names say."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from nhalf.collective import Algorithm, Op
from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_OPS = {
    "allreduce": Op.ALL_REDUCE,
    "allgather": Op.ALL_GATHER,
    "allgatherv": Op.ALL_GATHER,
    "allgatherbase": Op.ALL_GATHER,
    "allgatherintotensor": Op.ALL_GATHER,
    "reducescatter": Op.REDUCE_SCATTER,
    "reducescatterv": Op.REDUCE_SCATTER,
    "reducescatterbase": Op.REDUCE_SCATTER,
    "reducescattertensor": Op.REDUCE_SCATTER,
    "alltoall": Op.ALL_TO_ALL,
    "alltoallv": Op.ALL_TO_ALL,
    "alltoallvc": Op.ALL_TO_ALL,
    "alltoallbase": Op.ALL_TO_ALL,
    "broadcast": Op.BROADCAST,
    "bcast": Op.BROADCAST,
    "reduce": Op.REDUCE,
    "gather": Op.REDUCE,
    "scatter": Op.BROADCAST,
    "barrier": Op.BARRIER,
    "allreducebarrier": Op.BARRIER,
    "send": Op.SEND_RECV,
    "recv": Op.SEND_RECV,
    "receive": Op.SEND_RECV,
    "sendrecv": Op.SEND_RECV,
    "batchsendrecv": Op.SEND_RECV,
}
"""Names of operations in traces, letters only; a gather to one rank and a scatter from one count as what they cost."""
_ALGORITHMS = (
    (re.compile(r"nvls.?tree|nvls|multimem|(ld|st|ll)mc", re.IGNORECASE), Algorithm.NVLS),
    (re.compile(r"collnet|sharp", re.IGNORECASE), Algorithm.SHARP),
    (re.compile(r"1stage|one.?shot|push_oneshot|agxll", re.IGNORECASE), Algorithm.ONE_SHOT),
    (re.compile(r"2stage|two.?shot", re.IGNORECASE), Algorithm.TWO_SHOT),
    (re.compile(r"(?<![a-z])pat(?![a-z])", re.IGNORECASE), Algorithm.BRUCK),
    (re.compile(r"(?<![a-z])ring(?![a-z])|ring(ll|simple|_)|^ring", re.IGNORECASE), Algorithm.RING),
    (re.compile(r"tree", re.IGNORECASE), Algorithm.CHAIN_TREE),
)
_SOUNDS_LIKE = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|(?<![a-z])a2a|nccl|nvshmem|multimem|symm_?mem|lamport|"
    r"(?<![a-z])moe\w*(dispatch|combine)|cross_device",
    re.IGNORECASE,
)
_RANKS = re.compile(
    r"cross_device_reduce_\w+<[^<>]*?,\s*(\d+)[^<>]*>|allreduce_fusion_kernel_\w+<[^<>]*?,\s*(\d+)\s*[,>]"
)
_MANGLED = re.compile(r"_ZN?K?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a kernel's name says: the function, the pattern's family, the operation and how it is done."""

    function: str
    family: str
    op: Op
    algorithm: Algorithm | None = None
    fused: bool = False
    ranks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One entry of patterns.toml."""

    family: str
    expression: re.Pattern[str]
    whole_name: bool
    op: Op | None
    algorithm: Algorithm | None
    fused: bool
    excluded: bool


@dataclass(slots=True)
class Recogniser:
    """Tells communication by name; names are few, so each is looked at once."""

    patterns: tuple[Pattern, ...]
    _known: dict[str, Seen | None] = field(default_factory=dict)

    def see(self, name: str) -> Seen | None:
        """Return what a kernel's name says, None when it is not communication."""
        if name not in self._known:
            self._known[name] = self._look(name)
        return self._known[name]

    def _look(self, name: str) -> Seen | None:
        function = function_of(name)
        for pattern in self.patterns:
            fits = pattern.expression.search(name) if pattern.whole_name else pattern.expression.fullmatch(function)
            if fits:
                return None if pattern.excluded else _seen(pattern, fits, function, name)
        return None


def _seen(pattern: Pattern, fits: re.Match[str], function: str, name: str) -> Seen:
    groups = fits.groupdict()
    op = operation(groups.get("op") or "") or pattern.op or Op.ALL_REDUCE
    words = (groups.get("algorithm") or "").strip("_")
    algorithm = pattern.algorithm or next((known for regex, known in _ALGORITHMS if regex.search(words)), None)
    ranks = _RANKS.search(name)
    return Seen(
        function=function,
        family=pattern.family,
        op=op,
        algorithm=algorithm if words or pattern.algorithm else None,
        fused=pattern.fused,
        ranks=int(ranks[1] or ranks[2]) if ranks else None,
    )


def operation(name: str) -> Op | None:
    """Return the operation that a trace's word means: `_allgather_base`, `AllReduce`, `gloo:all_to_all`."""
    letters = name.rpartition(":")[2].replace("_", "").casefold()
    letters = letters.removesuffix("coalesced")
    return _OPS.get(letters)


def sounds_like_communication(name: str) -> bool:
    """Return whether a name that fits no pattern should be shown as a suspect."""
    return bool(_SOUNDS_LIKE.search(function_of(name)))


def function_of(name: str) -> str:
    """Return the function of a kernel's name: with namespaces, without return type, template and parameters."""
    name = name.strip()
    if _MANGLED.match(name):
        return _unmangled(name)
    name = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    for mark in "<(":
        name = name.partition(mark)[0]
    return name.strip().rpartition(" ")[2]


def _unmangled(name: str) -> str:
    """Return the identifiers at the beginning of a mangled name (Itanium C++ ABI, section 5.1.2)."""
    rest, parts = _MANGLED.sub("", name, count=1), []
    while found := re.match(r"(\d+)", rest):
        length = int(found[1])
        parts.append(rest[found.end() : found.end() + length])
        rest = rest[found.end() + length :]
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N")) or name


@cache
def standard() -> tuple[Pattern, ...]:
    """Return the patterns that nhalf ships."""
    text = resources.files("nhalf.trace").joinpath("patterns.toml").read_text(encoding="utf-8")
    return tuple(
        _pattern(entry, f"patterns.toml, pattern {i}") for i, entry in enumerate(tomllib.loads(text)["pattern"])
    )


def with_own(paths: Sequence[Path]) -> tuple[Pattern, ...]:
    """Return the user's patterns, which come first, and those of nhalf.

    Raises
    ------
    InputError
        A file cannot be read, is no TOML, or a pattern in it is wrong.
    """
    own: list[Pattern] = []
    for path in paths:
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"the patterns cannot be read: {error}", where=str(path), allowed="TOML") from error
        entries = table.get("pattern")
        if not isinstance(entries, list) or not entries:
            raise InputError(
                "the file holds no patterns",
                where=str(path),
                allowed='[[pattern]] with family, op and function = "regex"',
            )
        own += [_pattern(entry, f"{path}, pattern {i}") for i, entry in enumerate(entries)]
    return (*own, *standard())


def _pattern(entry: dict[str, Any], where: str) -> Pattern:
    known = {"family", "op", "algorithm", "fused", "not", "function", "name"}
    text = entry.get("function", entry.get("name")) if isinstance(entry, dict) else None
    if not isinstance(text, str) or set(entry) - known:
        raise InputError(
            "this is no pattern", where=where, allowed=f"keys {', '.join(sorted(known))}; function or name is a regex"
        )
    try:
        expression = re.compile(text)
    except re.error as error:
        raise InputError(f"{text!r} is no regular expression: {error}", where=where) from error
    excluded = bool(entry.get("not", False))
    if not excluded and "op" not in entry and "op" not in expression.groupindex:
        raise InputError("the pattern says no operation", where=where, allowed=", ".join(Op))
    return Pattern(
        family=str(entry.get("family", "own")),
        expression=expression,
        whole_name="function" not in entry,
        op=Op.parse(str(entry["op"]), where=where) if "op" in entry else None,
        algorithm=Algorithm.parse(str(entry["algorithm"]), where=where) if "algorithm" in entry else None,
        fused=bool(entry.get("fused", False)),
        excluded=excluded,
    )

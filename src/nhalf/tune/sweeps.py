"""Sweeps: measured times by size for each forced path, and for the library's own choice.

A file is named behind its path, `tree/ll=run.log` or `default=run.log`, in any format that `nhalf fit` reads; or its
name (tree_ll.log), NCCL's variables in it, or what its tuner logged for each size say the path. A CSV table with the
columns of NVIDIA's `optimize_config.py` says it in each row, and a folder holds several files.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.readers.nccl_debug import decided
from nhalf.evidence.reading import read
from nhalf.files.reading import files_in, read_text
from nhalf.loading.case_table import table_of
from nhalf.tune.paths import ALGORITHMS, PROTOCOLS, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nhalf.breakdown import Array
    from nhalf.tune.paths import Path

DEFAULT: Final = "default"
NOISE: Final = 0.03
"""How far two runs of one point differ, where none was repeated [1]."""
_COLUMNS: Final = ("collective", "size_bytes", "algorithm", "protocol", "latency_us")
_FORCED: Final = tuple(
    re.compile(rf"NCCL_{name}(?: set by environment to |=)[\"']?(\w+)") for name in ("ALGO", "PROTO")
)
_MOST: Final = 1e13
_SAY: Final = "write tree/ll=FILE, or default=FILE for NCCL's own choice"


class Key(NamedTuple):
    """What a sweep is of: an operation on a communicator."""

    op: str
    ranks: int
    nodes: int


class _Point(NamedTuple):
    key: Key
    path: Path | None
    size: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """Times of one path by size: `size_bytes` rise, `time_s` are means of logarithms over repeats."""

    size_bytes: Array
    time_s: Array

    def at(self, sizes: Array) -> Array:
        """Return times at sizes, on straight lines between points; NaN outside, where nothing was measured."""
        found: Array = np.interp(sizes, self.size_bytes, self.time_s, left=np.nan, right=np.nan)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """The curves of one operation on one communicator; `default` is the library's own choice, None where not measured.

    `noise` is the standard deviation of one time [logarithm], `repeats` how many times a point is the mean of.
    """

    key: Key
    curves: dict[Path, Curve]
    default: Curve | None
    noise: float
    repeats: float
    kind: str = "measured"
    assumed_noise: bool = field(default=False)


def sweeps(words: Sequence[str], ranks: int | None = None, nodes: int | None = None) -> list[Sweep]:
    """Return the sweeps in files, by operation and communicator; `ranks` and `nodes` are taken where a log is silent.

    Raises
    ------
    InputError
        A file cannot be read, a path is unknown, or what it names cannot run there.
    """
    points = [point for word in words for point in _points(word, ranks, nodes)]
    return [_sweep(key, [each for each in points if each.key == key]) for key in sorted({each.key for each in points})]


def _points(word: str, ranks: int | None, nodes: int | None) -> Iterator[_Point]:
    """Yield the points of one file."""
    if File(word).is_dir():
        for each in files_in(File(word)):
            yield from _points(str(each), ranks, nodes)
        return
    name, equals, file = word.partition("=")
    paths: Mapping[tuple[Op | None, float], Path] = {}
    if not equals or File(word).exists():
        text = read_text(File(word))
        if text.partition("\n")[0].replace(" ", "").startswith(_COLUMNS[0]):
            yield from _table(File(word), text, ranks, nodes)
            return
        name, file = _named(File(word), text), word
        if not name:
            paths = {key: parse("/".join(took), word) for key, took in decided(text).items()}
    path = None if paths or name.casefold() == DEFAULT else parse(name, "--logs")
    for sample in read(file, op="all-reduce", ranks=ranks, nodes=nodes):
        if sample.quantity == "predicted":
            do = "run nccl-tests with each path forced: by its own prediction NCCL's choice is the best"
            raise InputError("these are NCCL's predictions, nothing was measured", where=file, do=do)
        if (
            paths
            and (path := paths.get((sample.op, sample.size_bytes)) or paths.get((None, sample.size_bytes))) is None
        ):
            raise InputError(f"it does not say which path took {sample.size_bytes:.0f} bytes", where=file, do=_SAY)
        key = Key(str(sample.op), sample.ranks, sample.nodes or nodes or 1)
        yield _checked(_Point(key, path, sample.size_bytes, sample.seconds), file)


def _named(file: File, text: str) -> str:
    """Return the path that a log was forced to: by the variables in it, or by its name, such as tree_ll128.log.

    Nothing is returned where one variable leaves a choice that the log tells by size.

    Raises
    ------
    InputError
        Neither says.
    """
    stated = [found[1] if (found := each.search(text)) else "" for each in _FORCED]
    told = any(stated) and not all(stated) and bool(decided(text))
    if not all(stated):
        words = re.findall(r"[a-z0-9]+", file.stem.casefold().replace("nvls_tree", "nvlstree"))
        short = [name.replace("_", "") for name in ALGORITHMS]
        stated = [next((word for word in words if word in known), "") for known in (short, PROTOCOLS)]
        if not any(stated) and DEFAULT in words:
            return DEFAULT
    if not all(stated) and not told:
        raise InputError("nothing says which path was forced", where=str(file), do=_SAY)
    return "/".join(stated) if all(stated) else ""


def _table(file: File, text: str, ranks: int | None, nodes: int | None) -> Iterator[_Point]:
    """Yield the points of a CSV table that says the path in each row."""
    table = table_of(text, file)
    missing = [name for name in _COLUMNS if name not in table.header]
    if missing:
        do = "write PATH=FILE for a log: tree/ll=run.log, default=run.log"
        raise InputError(f"the table lacks {', '.join(missing)}", where=str(file), allowed=", ".join(_COLUMNS), do=do)
    for number, cells in enumerate(table.rows):
        row, where = dict(zip(table.header, cells, strict=True)), table.place(number)
        try:
            key = Key(str(Op.parse(row["collective"], where=where)), int(row.get("ranks") or ranks or 0),
                      int(row.get("nodes") or nodes or 1))  # fmt: skip
            size, seconds = float(row["size_bytes"]), float(row["latency_us"]) / 1e6
        except (TypeError, ValueError) as error:
            raise InputError(f"a cell is no number: {error}", where=where) from error
        word = row["algorithm"].casefold()
        path = None if word == DEFAULT else parse(f"{row['algorithm']}/{row['protocol']}", where)
        yield _checked(_Point(key, path, size, seconds), where)


def _checked(point: _Point, where: str) -> _Point:
    """Return a point that can have been measured."""
    key = point.key
    if not (0 < point.size < _MOST and 0 < point.seconds < _MOST and key.ranks >= key.nodes >= 1):
        raise InputError("a size, a time or a number of ranks cannot be", where=where, allowed="numbers above 0")
    if point.path is not None and not point.path.legal(key.op, key.nodes):
        raise InputError(f"NCCL does not run {point.path} for {key.op} on {key.nodes} nodes", where=where)
    return point


def _sweep(key: Key, points: Sequence[_Point]) -> Sweep:
    """Return the sweep of one operation; its noise is that of points that were repeated."""
    groups: dict[tuple[Path | None, float], list[float]] = {}
    for each in points:
        groups.setdefault((each.path, each.size), []).append(math.log(each.seconds))
    again = [values for values in groups.values() if len(values) > 1]
    freedom = sum(len(values) - 1 for values in again)
    spread = math.sqrt(sum((value - sum(values) / len(values)) ** 2 for values in again for value in values)
                       / freedom) if freedom else NOISE  # fmt: skip
    curves = {path: _curve((size, values) for (of, size), values in groups.items() if of == path)
              for path in {path for path, _ in groups}}  # fmt: skip
    return Sweep(
        key=key, curves={path: curve for path, curve in sorted(curves.items(), key=str) if path is not None},
        default=curves.get(None), noise=max(spread, 1e-3), assumed_noise=not freedom,
        repeats=float(np.mean([len(values) for values in groups.values()])),
    )  # fmt: skip


def _curve(points: Iterable[tuple[float, list[float]]]) -> Curve:
    rows = sorted((size, math.exp(sum(values) / len(values))) for size, values in points)
    return Curve(size_bytes=np.array([row[0] for row in rows]), time_s=np.array([row[1] for row in rows]))

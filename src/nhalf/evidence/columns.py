"""Columns: a mapping or a dataframe of op, size_bytes, ranks and seconds becomes samples."""

from __future__ import annotations

from typing import Any, Final

from nhalf.collective import Mode, Op
from nhalf.errors import InputError, did_you_mean
from nhalf.evidence.table import UNKNOWN
from nhalf.sample import Sample

NEEDED: Final = ("op", "size_bytes", "ranks", "seconds")
"""The columns that every table of samples has."""
OPTIONAL: Final = ("nodes", "mode", "repeat", "quantity")
"""The columns that it may have; any other column tells series apart and is kept as the environment of the sample."""

_WHERE: Final = "samples"


def samples_of_columns(columns: Any, *, where: str = _WHERE) -> list[Sample]:  # noqa: ANN401  any dataframe
    """Return the samples in the columns of a mapping or of a dataframe (pandas, polars, pyarrow and the like).

    Empty cells of the optional columns are unknown; a single text or number stands in every row. Messages count rows
    from 1 and start with `where`.

    Raises InputError when a column is missing, columns differ in length, or a cell cannot be read.
    """
    names = _names(columns, where)
    missing = [name for name in NEEDED if name not in names]
    if missing:
        near = [did_you_mean(missing[0], [name for name in names if name not in NEEDED])]
        raise InputError(
            f"the column {missing[0]!r} is missing; there are {', '.join(map(repr, names)) or 'none'}",
            where=where,
            allowed=f"{', '.join(NEEDED)}; optional {', '.join(OPTIONAL)}",
            do=near[0] or f"rename or add {missing[0]!r}: times in seconds, sizes in bytes",
        )
    kept = _cells({name: columns[name] for name in names})
    lengths = {name: len(cells) for name, cells in kept.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(f"the columns differ in length: {shown}", where=where, allowed="one length")
    rows = zip(*kept.values(), strict=True)
    return [_sample(dict(zip(kept, row, strict=True)), f"{where}, row {number}") for number, row in enumerate(rows, 1)]


def _cells(columns: dict[str, Any]) -> dict[str, list[Any]]:
    """Return columns as lists; a single text or number of a mapping stands in every row."""
    alone = {name: cell for name, cell in columns.items() if isinstance(cell, str) or not hasattr(cell, "__iter__")}
    several = {name: list(cells) for name, cells in columns.items() if name not in alone}
    rows = max(map(len, several.values()), default=1)
    return {name: [alone[name]] * rows if name in alone else several[name] for name in columns}


def _names(columns: Any, where: str) -> list[str]:  # noqa: ANN401
    for attribute in ("column_names", "columns"):
        found = getattr(columns, attribute, None)
        if found is not None and not callable(found):
            return [str(name) for name in found]
    if hasattr(columns, "keys") and hasattr(columns, "__getitem__"):
        return [str(name) for name in columns.keys()]  # noqa: SIM118  a dataframe may be no dict
    raise InputError(
        f"something of type {type(columns).__name__} has no columns",
        where=where,
        allowed="a list of nhalf samples, a mapping of columns, or a dataframe",
        do="pass {'op': [...], 'size_bytes': [...], 'ranks': [...], 'seconds': [...]}",
    )


def _sample(row: dict[str, Any], where: str) -> Sample:
    known = {name: cell for name, cell in row.items() if not _blank(cell)}
    for name in NEEDED:
        if name not in known:
            raise InputError(
                f"{name} is empty", where=where, allowed="a value in every row", do="drop the row or fill it"
            )
    options: dict[str, Any] = {name: _whole(known[name], name, where) for name in ("nodes", "repeat") if name in known}
    if "mode" in known:
        options["mode"] = Mode.parse(str(_plain(known["mode"])), where=f"{where}, mode")
    if "quantity" in known:
        options["quantity"] = str(_plain(known["quantity"])).replace("-", "_")
    label = [f"{name} {_plain(cell)}" for name, cell in known.items() if name not in (*NEEDED, *OPTIONAL, "dtype")]
    environment = {"label": ", ".join(label), "dtype": str(_plain(known.get("dtype", "")))}
    environment["quantity"] = "" if "quantity" in known else UNKNOWN
    try:
        return Sample(
            op=Op.parse(str(_plain(known["op"])), where=f"{where}, op"),
            size_bytes=_number(known["size_bytes"], "size_bytes", where),
            ranks=_whole(known["ranks"], "ranks", where),
            seconds=_number(known["seconds"], "seconds", where),
            environment={key: text for key, text in environment.items() if text},
            **options,
        )
    except InputError as error:
        if error.where.startswith(where):
            raise
        raise InputError(error.what, where=where, allowed=error.allowed, do=error.do) from error


def _plain(cell: Any) -> Any:  # noqa: ANN401
    """Return a scalar of some library as Python's own."""
    for convert in ("as_py", "item"):
        if hasattr(cell, convert):
            return getattr(cell, convert)()
    return cell


def _blank(cell: Any) -> bool:  # noqa: ANN401
    plain = _plain(cell)
    return plain is None or plain == "" or (isinstance(plain, float) and plain != plain)  # noqa: PLR0124  nan


def _number(cell: Any, name: str, where: str) -> float:  # noqa: ANN401
    plain = _plain(cell)
    try:
        return float(plain)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} {plain!r} is not a number", where=where, allowed="a plain number: bytes, seconds, counts"
        ) from None


def _whole(cell: Any, name: str, where: str) -> int:  # noqa: ANN401
    number = _number(cell, name, where)
    if not number.is_integer():
        raise InputError(f"{name} {number!r} is not a whole number", where=where, allowed="1, 2, 3, ...")
    return int(number)

"""The catalogue's own TOML files as Python's bytecode is kept: parsed once, beside the compiled modules.

Parsing the dozen files of one decode takes 30 ms, reading them back one. A compiled file holds the size and the time of
change of its text, and the version of nhalf; one of another is made anew. Where nothing may be written, nothing is.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

_FOLDER: Final = Path(cache_from_source(__file__)).parent


def tables(file: Path, path: str, parse: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the tables of a file of the catalogue, as `parse` makes them where no compiled form of it stands."""
    status = file.stat()
    key = (VERSION, path, status.st_size, status.st_mtime_ns)
    kept = _FOLDER / f"{path.replace('/', '.')}.{sys.implementation.cache_tag}.tables"
    with contextlib.suppress(OSError, ValueError, EOFError, TypeError):
        stated, found = marshal.loads(kept.read_bytes())  # noqa: S302  ours, as trusted as the bytecode beside it
        if stated == key:
            return cast("dict[str, Any]", found)
    made = parse()
    if not sys.dont_write_bytecode:
        with contextlib.suppress(OSError, ValueError):  # a date of TOML has no place in it
            content = marshal.dumps((key, made))
            written = kept.with_name(f"{kept.name}.{os.getpid()}")
            _FOLDER.mkdir(exist_ok=True)
            written.write_bytes(content)
            written.replace(kept)
    return made

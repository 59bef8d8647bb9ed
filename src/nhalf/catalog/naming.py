"""Names of the catalogue: which kinds there are, what they hold, and which id a name means, however it is spelled.

Case, spaces, `_` and `-` are ignored in names.
"""

from __future__ import annotations

from typing import Final

from nhalf.catalog import cluster, files
from nhalf.catalog.files import place
from nhalf.catalog.overlay import remembered
from nhalf.errors import InputError, did_you_mean, nearest
from nhalf.transformer.weights import BITS

KINDS: Final = ("system", "device", "link", "fabric", "library", "engine", "model")
"""What can be found by name."""
_FEW: Final = 8
"""So many names are all said where one is not known."""
_IGNORED: Final = str.maketrans("", "", " _-")
_FOLDERS: Final = {"system": ("systems", ".toml"), "device": ("devices", ".toml"), "model": ("models", ".json")}
_TABLES: Final = {
    "engine": ("stacks.toml", "engines"),
    "library": ("libraries.toml", "libraries"),
    "link": ("links.toml", "links"),
    "fabric": ("fabrics.toml", "transports"),
}


def names(kind: str) -> list[str]:
    """Return the ids of a kind, in the order of the catalogue.

    Raises InputError when there is no such kind.
    """
    if kind in _FOLDERS:
        return files.stems(*_FOLDERS[kind])
    if kind in _TABLES:
        file, table = _TABLES[kind]
        return list(files.tables(file)[table])
    raise InputError(
        f"there is no kind {kind!r}", where="catalogue", allowed=", ".join(KINDS), do=did_you_mean(kind, KINDS)
    )


def find(kind: str, name: str, *, where: str) -> str:
    """Return the id that a name means: an id or an alias, however it is spelled.

    The path of a cluster file is the id of a system, and read anew.

    Raises InputError when it means nothing here, with what does.
    """
    if kind == "system" and cluster.is_file(name):
        cluster.tables(name, files.dates(), again=True)
        return name
    spellings = _spellings(kind)
    key = spellings.get(letters(name))
    if key is None and kind == "model" and "/" in name:
        key = _repositories().get(letters(name.rpartition("/")[2]))
    if key is None:
        raise InputError(
            f"the catalogue has no {kind} {name!r}",
            where=where,
            allowed=_some(kind, name),
            do=did_you_mean(name, names(kind)),
        )
    return key


@remembered
def _repositories() -> dict[str, str]:
    """Return the id of a model by the letters of its repositories, organisations left out: mirrors keep the name."""
    known = _spellings("model")
    aliases = files.aliases().get("model", {})
    named = {alias.rpartition("/")[2]: name for name, others in aliases.items() for alias in others if "/" in alias}
    return {letters(alias): name for alias, name in named.items() if known.get(letters(alias), name) == name} | known


@remembered
def checkpoints() -> dict[str, tuple[str, str]]:
    """Return the model and the dtype of each quantised checkpoint of the catalogue, by its id.

    Their names say so: `deepseek-v3.1-nvfp4` is one of the names of deepseek-v3 in nvfp4.
    """
    known = _spellings("model")
    split = {name: name.rpartition("-") for name in names("model")}
    return {
        name: (known[letters(base)], dtype)
        for name, (base, _, dtype) in split.items()
        if dtype in BITS and letters(base) in known
    }


def base_of(model: str) -> str:
    """Return the model that a quantised checkpoint of the catalogue is of, and any other model itself."""
    return checkpoints().get(model, (model, ""))[0]


def checkpoint_in(model: str, dtype: str) -> str:
    """Return the catalogue's checkpoint of a model in a dtype, empty where it has none."""
    wanted = (base_of(model), dtype)
    return next((name for name, held in checkpoints().items() if held == wanted), "")


def _some(kind: str, name: str) -> str:
    """Return the names nearest to one that is not known, and where all of a kind are listed."""
    known = names(kind)
    if len(known) <= _FEW:
        return ", ".join(known)
    plural = "libraries" if kind == "library" else f"{kind}s"
    listed = f"one of {len(known)} names (nhalf catalog {plural})"
    near = nearest(name, known)
    return f"{', '.join(near)}, or any {listed}" if near else listed


@remembered
def _spellings(kind: str) -> dict[str, str]:
    """Return the id of a kind by the letters of every name it goes by.

    Raises InputError when two ids are spelled with the same letters, or one alias is that of two ids.
    """
    known: dict[str, str] = {}
    for name in names(kind):
        _add_spelling(known, kind, name, name)
    other: dict[str, str] = {}
    for name, others in files.aliases().get(kind, {}).items():
        for alias in others:
            _add_spelling(other, kind, alias, name)
    return other | known


def _add_spelling(spellings: dict[str, str], kind: str, spelling: str, name: str) -> None:
    """Add a spelling of an id, where no other id has it."""
    other = spellings.setdefault(letters(spelling), name)
    if other == name:
        return
    folder, suffix = _FOLDERS.get(kind, ("", ""))
    file = f"{folder}/{name}{suffix}" if folder else _TABLES[kind][0]
    what = f"the {kind}s {other!r} and {name!r} differ only in what names ignore"
    if spelling != name:
        file, what = "aliases.toml", f"{spelling!r} is another name of the {kind}s {other!r} and {name!r}"
    do = "rename one: case, spaces, - and _ do not count"
    raise InputError(what, where=place(file), allowed="one of them", do=do)


def letters(name: str) -> str:
    """Return a name without what is ignored in it: case, spaces, `_` and `-`."""
    return name.casefold().translate(_IGNORED)

"""The glossary: what every word on the screens says, made of the table of fields and of the words beside it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from nhalf.errors import InputError, did_you_mean
from nhalf.report.document import envelope, of
from nhalf.report.fields import FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from nhalf.report.canvas import Canvas

_CODES = "# Codes of notes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One word: what it says, its formula, an example, words beside it, and others that lead to it.

    The causes of `nhalf doctor` are not `listed`: its screen names them where they matter.
    """

    word: str
    says: str
    formula: str = ""
    example: str = ""
    see: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    code: bool = False
    keys: tuple[str, ...] = ()
    listed: bool = True


@cache
def entries() -> Mapping[str, Entry]:
    """Return every entry by its word: those of the glossary, and a field for each key that has none of its own."""
    text = resources.files("nhalf.report").joinpath("glossary.toml").read_text(encoding="utf-8")
    words, _, _ = text.partition(_CODES)
    plain = set(tomllib.loads(words))
    found = {word: _entry(word, given, code=word not in plain) for word, given in tomllib.loads(text).items()}
    for field in FIELDS:
        found.setdefault(field.key, Entry(word=field.key, says=field.says, also=(field.head,), keys=(field.key,)))
    return found


def _entry(word: str, given: Mapping[str, Any], *, code: bool) -> Entry:
    """Return the entry of a word as the file of the glossary gives it."""
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return Entry(word=word, code=code, **values)


def find(word: str) -> Entry:
    """Return the entry of a word, whatever its case, under its own name or another.

    Raises
    ------
    InputError
        There is none.
    """
    wanted = word.strip().lower()
    known = entries()
    for entry in known.values():
        if entry.word.lower() == wanted:
            return entry
    for entry in known.values():
        if wanted in (other.lower() for other in entry.also):
            return entry
    names = [name for entry in known.values() for name in (entry.word, *entry.also)]
    raise InputError(
        f"{word!r} is not in the glossary", where="nhalf explain", do=did_you_mean(word, names) or "run nhalf explain"
    )


def write(entry: Entry, canvas: Canvas) -> None:
    """Write one entry."""
    canvas.styled(f"{entry.word}: {_lower(entry.says)}", "bold")
    for head, text in (("Formula", entry.formula), ("Example", entry.example)):
        if text:
            canvas.styled(f"{head}: {text}")
    if entry.keys:
        canvas.styled(f"In JSON and CSV: {', '.join(entry.keys)}.")
    if entry.also:
        canvas.styled(f"Also: {', '.join(entry.also)}.", "dim")
    if entry.see:
        canvas.styled(f"See: {', '.join(entry.see)}.", "dim")


def write_list(canvas: Canvas, *, keys: bool) -> None:
    """Write all words, those of notes apart; the `keys` of documents are written out or counted."""
    known = entries().values()
    canvas.styled("Words that nhalf uses. nhalf explain WORD says more.", "bold")
    canvas.blank()
    canvas.paragraph(", ".join(entry.word for entry in known if not entry.code and not entry.keys))
    canvas.blank()
    canvas.paragraph("Notes: " + ", ".join(entry.word for entry in known if entry.code and entry.listed), indent="  ")
    canvas.blank()
    of_keys = [entry.word for entry in known if entry.keys]
    if keys:
        canvas.paragraph("Keys: " + ", ".join(of_keys), indent="  ")
    else:
        canvas.paragraph(f"{len(of_keys)} keys of documents and tables, such as tpot_low_s: --detail lists them.")


def document(shown: list[Entry]) -> dict[str, Any]:
    """Return entries as a document."""
    return envelope(
        "explain", {"words": [of(entry, "word", "says", "formula", "example", "see", "also") for entry in shown]}
    )


def _lower(text: str) -> str:
    """Return a sentence as it goes on after a colon; abbreviations keep their capitals."""
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]

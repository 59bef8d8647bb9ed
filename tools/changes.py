"""Prints the fragments of docs/changes as a section of a changelog; with --check, refuses those of another shape."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "changes"
KINDS: Final = ("added", "changed", "fixed", "removed")
NUMBERS: Final = "Your numbers:"
_NAME: Final = re.compile(rf"(?P<name>[a-z0-9]+(?:-[a-z0-9]+)*)\.(?P<kind>{'|'.join(KINDS)})\.md")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """One change: its kind, what is new, and what a user's numbers do."""

    name: str
    kind: str
    what: str
    numbers: str


def faults(path: Path) -> list[str]:
    """Return what is wrong with the shape of a fragment."""
    found = [] if _NAME.fullmatch(path.name) else [f"the name is not NAME.KIND.md with KIND one of {', '.join(KINDS)}"]
    paragraphs = _paragraphs(path)
    if len(paragraphs) < 2 or not paragraphs[-1].startswith(NUMBERS):  # noqa: PLR2004  what is new, and the numbers
        found.append(f"there is no last paragraph that begins with {NUMBERS!r} after one that says what is new")
    elif not paragraphs[-1].removeprefix(NUMBERS).strip():
        found.append(f"{NUMBERS!r} says nothing")
    if any(paragraph.startswith(NUMBERS) for paragraph in paragraphs[:-1]):
        found.append(f"{NUMBERS!r} stands before the end")
    return found


def read(path: Path) -> Fragment:
    """Return a fragment whose shape is right."""
    matched = _NAME.fullmatch(path.name)
    if matched is None or faults(path):
        raise ValueError(path.name)
    *what, numbers = _paragraphs(path)
    text = numbers.removeprefix(NUMBERS).strip()
    return Fragment(name=matched["name"], kind=matched["kind"], what=" ".join(what), numbers=text)


def _paragraphs(path: Path) -> list[str]:
    """Return the paragraphs of a file, each on one line."""
    text = path.read_text(encoding="utf-8").strip()
    return [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text) if paragraph.strip()]


def files(folder: Path = FOLDER) -> list[Path]:
    """Return the fragments of a folder by name."""
    return sorted(path for path in folder.iterdir() if path.name != "README.md")


def section(fragments: list[Fragment]) -> str:
    """Return fragments as a section of a changelog, a heading a kind."""
    parts = []
    for kind in KINDS:
        mine = [fragment for fragment in fragments if fragment.kind == kind]
        if mine:
            lines = "".join(f"- {each.what} {NUMBERS} {each.numbers}\n" for each in mine)
            parts.append(f"### {kind.capitalize()}\n\n{lines}")
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    """Print the section, or with --check what is wrong; return the exit code."""
    wrong = [f"{path.name}: {fault}" for path in files() for fault in faults(path)]
    if wrong:
        sys.stderr.write("".join(f"{line}\n" for line in wrong))
        return 1
    if "--check" not in arguments:
        sys.stdout.write(section([read(path) for path in files()]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

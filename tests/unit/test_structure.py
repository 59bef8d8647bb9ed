"""The plan of the house agrees with the house: its page, the import floors, and the pinned versions."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nhalf"
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def modules() -> list[str]:
    """Return the dotted name of every module and package of nhalf."""
    names = []
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return sorted(names)


def rooms() -> set[str]:
    """Return the name of every room and module right below nhalf."""
    return {module.split(".")[1] for module in modules() if "." in module}


def test_structure_page_names_every_room_and_nothing_that_is_gone() -> None:
    text = (ROOT / "docs" / "structure.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", text))
    assert rooms() - words - {"__main__"} == set()
    paths = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|toml|csv))?)`", text)
    gone = [path for path in paths if not any((place / path).exists() for place in (ROOT, PACKAGE))]
    assert gone == []


def test_pages_are_read_in_one_sitting() -> None:
    pages = [ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    assert {page.name: lines for page in pages if (lines := page.read_text(encoding="utf-8").count("\n")) > 250} == {}


def test_every_module_begins_with_a_docstring() -> None:
    bare = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if not path.read_text(encoding="utf-8").lstrip().startswith(('"""', 'r"""'))
    ]
    assert bare == []


def test_every_room_has_a_floor() -> None:
    floors = next(c for c in PYPROJECT["tool"]["importlinter"]["contracts"] if c["id"] == "floors")
    known = {room.strip(" ()") for layer in floors["layers"] for room in layer.split("|")}
    assert rooms() <= known


def test_every_test_folder_is_run() -> None:
    folders = {path.parent.relative_to(ROOT).parts[:2] for path in (ROOT / "tests").rglob("test_*.py")}
    run = {tuple(folder.split("/")) for folder in PYPROJECT["tool"]["pytest"]["ini_options"]["testpaths"]}
    assert folders - run <= {("tests", "bench"), ("tests", "testbed")}
    assert "-m pytest tests/testbed" in (ROOT / "Makefile").read_text(encoding="utf-8")


def entries_of(name: str) -> dict[str, str]:
    """Return every entry of a file of pins by the canonical name of what it pins."""
    text = re.sub(r"^#.*\n", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [entry.strip() for entry in text.replace("\\\n", " ").splitlines() if entry.strip()]
    return {canonicalize_name(Requirement(entry.partition(" --hash=")[0]).name): entry for entry in found}


def pins() -> dict[str, Requirement]:
    """Return the requirement of every entry of constraints.txt by its canonical name."""
    return {name: Requirement(entry.partition(" --hash=")[0]) for name, entry in entries_of("constraints.txt").items()}


def requirements() -> list[Requirement]:
    """Return every requirement that pyproject.toml states, the build's too."""
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"].values()
    stated = [*PYPROJECT["build-system"]["requires"], *project["dependencies"], *(r for extra in extras for r in extra)]
    return [r for r in map(Requirement, stated) if r.name != project["name"]]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_requirement_is_pinned_within_its_bounds(requirement: Requirement) -> None:
    pin = pins()[canonicalize_name(requirement.name)]
    (only,) = pin.specifier
    assert only.operator == "=="
    assert requirement.specifier.contains(only.version)


def test_pins_are_exact_and_name_no_place() -> None:
    for requirement in pins().values():
        assert [s.operator for s in requirement.specifier] == ["=="], requirement
        assert requirement.url is None
    assert "torch" not in pins()


def imports(room: str) -> dict[str, set[str]]:
    """Return what each module of a room imports of it, for types as well."""
    inside = [name for name in modules() if name.startswith(f"nhalf.{room}.")]
    found: dict[str, set[str]] = {}
    for name in inside:
        path = PACKAGE.parent.joinpath(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        nodes = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        named = {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
        named |= {node.module for node in nodes if node.module}
        found[name] = named & set(inside) - {name}
    return found


@pytest.mark.parametrize("room", ["loading"])
def test_no_module_of_a_room_imports_itself_through_others(room: str) -> None:
    found = imports(room)
    reached = {name: set(inside) for name, inside in found.items()}
    for _ in found:
        reached = {name: inside.union(*(found[each] for each in inside)) for name, inside in reached.items()}
    assert [name for name, inside in reached.items() if name in inside] == []


def test_every_pin_has_the_hashes_of_its_files_and_the_small_set_is_part_of_the_large() -> None:
    whole, part = entries_of("constraints.txt"), entries_of("constraints-report.txt")
    assert [name for name, entry in whole.items() if not re.search(r" --hash=sha256:[0-9a-f]{64}( |$)", entry)] == []
    everywhere = {name: re.sub(r" ;.*?(?= +--hash)", "", entry) for name, entry in whole.items()}  # without markers
    assert {name: re.sub(r" ;.*?(?= +--hash)", "", entry) for name, entry in part.items()}.items() <= everywhere.items()
    needed = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["project"]["optional-dependencies"]["report"]]
    assert {canonicalize_name(Requirement(each).name) for each in needed} <= set(part)
    bare = re.compile(r"[\w.\-\[\],]+==[\w.+!]+( ; [^:/]+?)?( +--hash=sha256:[0-9a-f]{64})+")  # no place to get it from
    assert [name for name, entry in (*whole.items(), *part.items()) if not bare.fullmatch(entry)] == []

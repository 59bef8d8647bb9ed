"""The plan of the house agrees with the house: its page, the import floors, and the pinned versions."""

from __future__ import annotations

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


def pins() -> dict[str, Requirement]:
    """Return the requirement of every line of constraints.txt by its canonical name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


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

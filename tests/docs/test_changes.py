"""Fragments of the changelog: those there have their shape, and others are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tools import changes

if TYPE_CHECKING:
    from pathlib import Path

GOOD = "What is new.\n\nYour numbers: the same.\n"


def test_every_fragment_has_its_shape() -> None:
    assert changes.files()
    assert {path.name: changes.faults(path) for path in changes.files() if changes.faults(path)} == {}


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("A change.md", GOOD, "NAME.KIND.md"),
        ("a.news.md", GOOD, "NAME.KIND.md"),
        ("a.added.md", "What is new.\n", "no last paragraph"),
        ("a.added.md", "Your numbers: the same.\n", "no last paragraph"),
        ("a.added.md", "What is new.\n\nYour numbers:\n", "says nothing"),
        ("a.added.md", "Your numbers: up.\n\nMore.\n\nYour numbers: up.\n", "before the end"),
    ],
)
def test_another_shape_is_refused(name: str, text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert any(fault in each for each in changes.faults(path))


def test_a_section_has_a_heading_a_kind_and_every_change(tmp_path: Path) -> None:
    for name in ("b.added.md", "a.fixed.md", "c.added.md"):
        (tmp_path / name).write_text(GOOD.replace("What", name), encoding="utf-8")
    text = changes.section([changes.read(path) for path in changes.files(tmp_path)])
    assert text.index("### Added") < text.index("b.added") < text.index("c.added") < text.index("### Fixed")
    assert text.count("Your numbers: the same.") == 3

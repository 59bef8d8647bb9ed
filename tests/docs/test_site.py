"""The documentation site: its menu names pages that exist, links lead somewhere, schemas hold for other documents."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
OTHERS = {
    "link": "link 3us 100GB/s --size 4KiB",
    "decode": "decode qwen3-32b --on b200-sxm --tp 2,4 --batch 8",
    "compare": "compare qwen3-32b --on h200-sxm --weights fp8 --layout tp=2 --layout tp=4 --users 8",
    "crossover": "crossover gpt-oss-120b --on b200-sxm --tp 4",
    "collective": "collective all-reduce --on h200-sxm --ranks 4",
    "plan": "plan qwen3-32b --on h100-sxm --gpus 4 --users 8",
    "buy": "buy gpt-oss-120b --on h100-sxm --tp 8 --batch 8",
    "fit": "fit tests/logs/nccl_tests/2025-06_all_reduce.txt",
    "simulate": "simulate all-gather --on h200-sxm --ranks 4 --size 1MiB",
    "trace": "trace tests/golden/trace/tp2_even",
}
"""Other command lines than those that the schemas are made from."""


@pytest.fixture(scope="module")
def tools() -> Iterator[tuple[ModuleType, ModuleType]]:
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("build_docs"), importlib.import_module("reference")
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def schemas(tools: tuple[ModuleType, ModuleType]) -> dict[str, Any]:
    found: dict[str, Any] = tools[1].schemas()
    return found


def test_every_page_of_the_menu_exists_and_no_link_leads_nowhere(
    tools: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: dict[str, Any]
) -> None:
    build, reference = tools
    monkeypatch.setattr(build, "PAGES", tmp_path / "docs")
    monkeypatch.setattr(reference, "schemas", lambda: schemas)
    build.gather()
    build.refer()
    assert build.broken() == []
    menu = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    drawn = {"gallery.md"}  # by commands, when the site is built
    assert [page for page in _pages(menu) if page not in drawn and not (tmp_path / "docs" / page).exists()] == []
    (tmp_path / "docs" / "wrong.md").write_text("[no](nowhere.md)", encoding="utf-8")
    assert build.broken() == ["wrong.md: nowhere.md"]


def _pages(menu: object) -> Iterator[str]:
    """Yield every page that a menu names."""
    if isinstance(menu, str):
        yield menu
    for each in menu if isinstance(menu, list) else menu.values() if isinstance(menu, dict) else ():
        yield from _pages(each)


def test_the_menu_leaves_no_page_out() -> None:
    menu = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in written if not page.startswith("decisions/")} <= set(_pages(menu))


@pytest.mark.parametrize("command", OTHERS)
def test_the_schema_of_a_command_holds_for_another_of_its_documents(
    tools: tuple[ModuleType, ModuleType], schemas: dict[str, Any], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    document = tools[1].document(OTHERS[command])
    jsonschema.validate(document, schemas[command])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "schema": 2}, schemas[command])


def test_pages_are_short() -> None:
    long = {
        page.name: lines
        for page in (ROOT / "docs").rglob("*.md")
        if (lines := len(page.read_text().splitlines())) > 250
    }
    assert long == {}

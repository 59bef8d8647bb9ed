"""The documentation is true: console blocks print what they show, Python blocks run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
PYTHON = [
    pytest.param(block, id=f"{page.name}-{index}")
    for page in PAGES
    for index, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


def test_console_blocks_print_what_they_show() -> None:
    command = [sys.executable, "tools/render_docs.py", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert result.stdout == "", "run: python tools/render_docs.py"
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", PYTHON)
def test_python_blocks_run(block: str) -> None:
    exec(compile(block, "page", "exec"), {})  # noqa: S102  the pages are ours


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"

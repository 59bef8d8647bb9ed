"""The table of mutants keeps up with the source: each row finds its text, and the tests that should notice it."""

from __future__ import annotations

from tools.mutate import MUTANTS, ROOT


def test_every_mutant_finds_its_text_and_its_tests() -> None:
    gone = [
        one.name
        for one in MUTANTS
        if (ROOT / "src" / "nhalf" / one.file).read_text(encoding="utf-8").count(one.text) != 1
    ]
    assert gone == [], "tools/mutate.py: point these rows to where the text stands now"
    named = {name for one in MUTANTS for name in one.tests.split()}
    assert [name for name in sorted(named) if not (ROOT / "tests" / f"{name.replace('/', '/test_')}.py").exists()] == []

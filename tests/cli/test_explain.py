"""`nhalf explain`: every word that the screens use has an entry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.command import invoke, refused

import nhalf
from nhalf.report import fields, glossary

SRC = Path(nhalf.__file__).parent
CODE = re.compile(r'code="([a-z0-9-]+)"')


def test_every_field_and_head_is_explained() -> None:
    for field in fields.FIELDS:
        assert glossary.find(field.key).says
        if field.head not in ("from", "to"):
            assert glossary.find(field.head).says, field.head


def test_every_code_of_a_note_is_explained() -> None:
    codes = {code for path in SRC.rglob("*.py") for code in CODE.findall(path.read_text(encoding="utf-8"))}
    assert len(codes) > 30
    assert codes <= set(glossary.entries()), sorted(codes - set(glossary.entries()))


def test_words_that_an_entry_points_to_exist() -> None:
    for entry in glossary.entries().values():
        for other in entry.see:
            assert other in glossary.entries(), (entry.word, other)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("crossover", "a message takes twice as long"),
        ("c.fixed", "latency: the part of a message's time"),
        ("KV Cache", "read at every step"),
        ("tpot_s", "In JSON and CSV: tpot_s."),
        ("per-layer overhead", "every layer costs whatever the batch"),
    ],
)
def test_a_word_is_explained_in_a_few_lines(word: str, said: str) -> None:
    result = invoke("explain", *word.split(), columns=80)
    assert result.code == 0
    assert said in " ".join(result.out.split())
    assert len(result.out.splitlines()) <= 8


def test_the_list_is_one_screen() -> None:
    lines = invoke("explain", columns=80).out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80


def test_an_unknown_word_names_a_near_one() -> None:
    assert "Did you mean 'crossover'?" in refused("explain", "crosover")

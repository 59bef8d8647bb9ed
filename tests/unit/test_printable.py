"""Nothing that is printed can drive a terminal."""

from __future__ import annotations

import io
import json

import pytest
from tests.cli.command import refused

from nhalf.cli import output
from nhalf.printable import shown, shown_json
from nhalf.report.canvas import Canvas, grid
from nhalf.report.page import Page, Section, Table, html

HOSTILE = "x\x1b]0;PWNED\x07\x9b2J\u202eabc\u200b\r\ud800\U000e0041"
HARMLESS = r"x\x1b]0;PWNED\x07\x9b2J\u202eabc\u200b\r\ud800\U000e0041"


def test_characters_that_drive_hide_or_reorder_are_escapes() -> None:
    assert shown(HOSTILE) == HARMLESS
    plain = "é\tµs\n × 漢字 \U0001f600"
    assert shown(plain) == plain


def test_json_reads_back_as_it_was() -> None:
    text = shown_json(json.dumps({"name": HOSTILE + "\x7f"}, ensure_ascii=False))
    assert shown(text) == text
    assert json.loads(text) == {"name": HOSTILE + "\x7f"}


def test_pages_of_text_show_escapes_and_keep_their_own_colours() -> None:
    canvas = Canvas(width=100, colour=True)
    canvas.heading(HOSTILE)
    canvas.paragraph(HOSTILE, bold=True)
    canvas.command(f"nhalf decode '{HOSTILE}'  # {HOSTILE}")
    canvas.place(grid(["<name"], [[HOSTILE]], title="a title"))
    assert canvas.text.count(HARMLESS) == 5
    assert "\x1b[1m" in canvas.text
    assert "\x1b]" not in canvas.text


def test_answers_and_warnings_show_escapes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    output.write(f"{HOSTILE}\n")
    output.warn(HOSTILE)
    output.write_json({"name": HOSTILE})
    found = capsys.readouterr()
    assert found.err == f"warning: {HARMLESS}\n"
    assert found.out.startswith(f"{HARMLESS}\n")
    assert shown(found.out) == found.out

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    output.write("\x1b[1mbold\x1b[0m \x1b[2J")
    assert terminal.getvalue() == "\x1b[1mbold\x1b[0m \\x1b[2J"


def test_html_shows_escapes() -> None:
    pytest.importorskip("jinja2")
    table = Table(heads=("name",), rows=[[HOSTILE]])
    section = Section(key="a", title=HOSTILE, lead=HOSTILE, table=table)
    text = html(Page(title=HOSTILE, verdict=[HOSTILE], sections=[section], notes=[HOSTILE]), command=HOSTILE, bundle="")
    assert shown(text) == text
    assert text.count(HARMLESS.partition("]")[0]) >= 6


def test_a_file_that_cannot_be_read_is_named() -> None:
    for command in (["calibrate", "a" * 300], ["decode", "llama-3.1-8b", "--on", "h100-sxm", "--stack", "a" * 300]):
        message = refused(*command)
        assert message.startswith("nhalf: ")
        assert "aaa...': the file cannot be read: File name too long. Do: check the path." in message

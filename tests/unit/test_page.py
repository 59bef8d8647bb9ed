"""The page: one file that holds everything, escapes what it is given, and stays small."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from nhalf.citation import Datum
from nhalf.errors import InputError
from nhalf.report import export
from nhalf.report.figures.waterfall import of_parts
from nhalf.report.page import Card, Code, Constant, Meter, Page, Section, Table, html

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.report.figures.figure import Figure

for extra in ("altair", "vl_convert", "jinja2"):
    pytest.importorskip(extra, reason="the extra [report] is not installed")

EVIL = "</script><img src=x onerror=alert(1)>"


def figure(key: str = "fixed") -> Figure:
    parts = [(EVIL, 1e-6, "#0072B2"), ("wires", 2e-6, "#D55E00")]
    return of_parts(parts, key=key, title=f"3 us {EVIL}", whole="all")


def made(**changes: object) -> Page:
    datum = Datum(
        value=5e-6, unit="s", source="aiconfigurator-core-0.12.0", locator="a row", kind="assumed", date="2026-11"
    )
    given: dict[str, object] = {
        "title": f"a model {EVIL}",
        "verdict": ["TP8 is fastest. What binds is latency.", "No dot"],
        "cards": [Card(label="batch 1", number="5 us", beside=("band",), meters=[Meter(label="m", share=2, text="t")])],
        "sections": [
            Section(key="fixed", title="Where", figures=[figure()], table=Table(heads=("<a", "b"), rows=[("x", "1")])),
            Section(key="other", title="Other", figures=[figure("second"), figure("third")]),
        ],
        "constants": [Constant(path="stack.x_s", datum=datum, share=0.5), Constant(path="stack.y_s", datum=datum)],
        "notes": ["a note"],
    } | changes
    return Page(**given)  # type: ignore[arg-type]


def text(page: Page | None = None) -> str:
    return html(page or made(), command="nhalf decode 'a b' -o r.html", bundle="/* drawn by */")


def test_nothing_that_is_given_becomes_markup() -> None:
    assert "<img" not in text()


def test_lines_end_neither_inside_a_flag_nor_between_a_number_and_its_unit() -> None:
    line = "vllm serve a/b-c --tensor-parallel-size 8"
    section = Section(key="x", title="X", lead=f"It takes 5 us (--no-cache): 3 % of all {EVIL}",
                      code=[Code(title="vllm", text=line)])  # fmt: skip
    found = text(made(sections=[section]))
    assert 'It takes 5\u00a0us <span class="whole">(--no-cache):</span> 3\u00a0% of all &lt;/script&gt;' in found
    assert '<span class="whole">a/b-c</span> <span class="whole">--tensor-parallel-size</span> 8' in found
    (shown,) = re.findall(r"<pre><code>(vllm.+?)</code>", found)
    assert re.sub("<[^>]+>", "", shown) == line  # what is copied is the line


def test_the_first_sentence_ends_before_a_number_or_a_quote_too() -> None:
    for after in ("40 % is", '"TP inside" holds', "The rest"):
        found = text(made(verdict=[f"TP8 gives 1.5 a second. {after}."]))
        answer, more = found.split("</strong>", 1)
        assert answer.endswith("<strong>TP8 gives 1.5 a second.")
        assert f"<p>{after[:2]}".replace('"', "&#34;") in more


def test_nothing_is_fetched() -> None:
    found = text()
    assert "default-src 'none'" in found
    assert not re.search(r"<(?:script|img|iframe|source)[^>]*\ssrc=", found)
    assert not re.search(r"<link[^>]*href=\"(?!data:)", found)
    assert "@import" not in found
    assert "url(" not in found


def test_the_drawings_are_json_that_holds_the_rows() -> None:
    held = re.search(r'<script type="application/json" id="drawings">(.*?)</script>', text(), re.DOTALL)
    assert held is not None
    drawings = json.loads(held[1])
    assert set(drawings) == {"fixed", "second", "third"}
    assert drawings["fixed"]["rows"][1] == {"part": "wires", "time_s": 2e-6}
    assert "vega/v6" in drawings["fixed"]["spec"]["$schema"]


def test_every_figure_has_words_a_table_and_both_downloads() -> None:
    found = text()
    for key in ("fixed", "second", "third"):
        assert re.search(f'id="chart-{key}"[^>]* role="img" aria-label="[^"]{{40,}}"', found)
        assert f'data-save="svg" data-of="{key}"' in found
        assert f'data-save="csv" data-of="{key}"' in found
    assert found.count("<summary>Table</summary>") == 3
    assert "<td>2 us</td>" in found


def test_the_answer_the_sources_and_the_command_are_there() -> None:
    found = text()
    assert '<p class="verdict"><strong>TP8 is fastest.</strong></p>' in found
    assert "<p>What binds is latency.</p>" in found
    assert "<strong>No dot</strong>" in found
    assert "width:100.0%" in found
    assert 'class="kind assumed">assumed<' in found
    assert 'href="https://github.com/ai-dynamo/aiconfigurator"' in found
    assert "1 more, which move the answer little" in found
    assert "nhalf decode &#39;a b&#39; " in found


def test_a_page_without_figures_is_a_page() -> None:
    assert "<h2>The command</h2>" in text(made(sections=[], constants=[], cards=[], notes=[]))


def test_the_file_is_small_and_the_bundle_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NHALF_CACHE", str(tmp_path / "cache"))
    target = tmp_path / "r.html"
    export.write(target, made, command="nhalf")
    assert 400_000 < target.stat().st_size < 4_000_000
    kept = list((tmp_path / "cache").iterdir())
    assert len(kept) == 1
    kept[0].write_text("cut sho", encoding="utf-8")
    assert export.bundle().endswith(export._END)
    assert export.bundle() == kept[0].read_text(encoding="utf-8")


def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("NHALF_CACHE", str(tmp_path / "file"))
    assert "window.vega" in export.bundle()


def test_a_figure_is_the_section_that_the_file_is_named_for(tmp_path: Path) -> None:
    for name, titles in (("other.svg", 2), ("figure.svg", 1)):
        export.write(tmp_path / name, made, command="nhalf")
        root = ET.parse(tmp_path / name).getroot()  # noqa: S314  a file of our own
        assert "".join(root.itertext()).count("3 us </script>") == titles


def test_a_png_is_a_png(tmp_path: Path) -> None:
    export.write(tmp_path / "figure.png", made, command="nhalf")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_other_files_are_refused_before_any_work(tmp_path: Path) -> None:
    def never() -> Page:
        raise AssertionError

    with pytest.raises(InputError, match=r"report\.html, figure\.svg, figure\.png"):
        export.write(tmp_path / "r.pdf", never, command="nhalf")
    with pytest.raises(InputError, match="no figure"):
        export.write(tmp_path / "r.svg", lambda: made(sections=[]), command="nhalf")
    with pytest.raises(InputError, match="cannot "):
        export.write(tmp_path / "no" / "r.png", made, command="nhalf")


def test_a_limit_that_would_end_the_process_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = pytest.importorskip("resource", reason="no limits of addresses on this platform")
    monkeypatch.setenv("NHALF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(limits, "getrlimit", lambda _: (3 << 30, 3 << 30))
    for name in ("report.html", "figure.svg", "figure.png"):
        with pytest.raises(InputError, match="a limit allows 3 GiB"):
            export.write(tmp_path / name, made, command="nhalf link")
        assert not (tmp_path / name).exists()

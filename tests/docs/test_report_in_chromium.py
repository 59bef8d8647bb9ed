"""The page in a real browser: it draws, is quiet, asks nobody, fits a phone, and answers the mouse."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.command import invoke
from tests.docs.browser import Browser, chromium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = chromium()
pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium or Chrome here: apt-get install chromium"),
]
DECODE = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "1,8,16", "--batch", "1,128", "--weights", "fp8")
PLAN = ("plan", "llama-3.1-70b", "--on", "h100-sxm,gb200-nvl72", "--gpus", "16", "--tpot", "20ms", "--ttft", "1s")
BUY = ("buy", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8,16", "--option", "hbm=x1.4 @ $5k", "--option", "kv=fp8",
       "--option", "system=gb200-nvl72")  # fmt: skip
SWEEP = ("sweep", "llama-3.1-70b", "--on", "h100-sxm", "--axis", "tp=1,2,3,8", "--axis", "batch=1:512:x2",
         "--axis", "system.fabric.intra_node.latency_s=1us:50us")  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for extra in ("altair", "vl_convert", "jinja2"):
        pytest.importorskip(extra, reason="the extra [report] is not installed")
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert invoke(*DECODE, "-o", str(path)).code == 0
    return path


@pytest.fixture(scope="module")
def browser(report: Path) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM) as found:
        found.open(report)
        yield found


def test_it_is_quiet_and_asks_nobody(browser: Browser, report: Path) -> None:
    assert browser.complaints == []
    assert browser.requests == [report.resolve().as_uri()]


def test_every_chart_is_drawn(browser: Browser) -> None:
    drawn = browser.run(
        "[...document.querySelectorAll('.chart')].map(c => [c.dataset.key, c.querySelectorAll('svg path').length,"
        " c.getBoundingClientRect().width, c.querySelector('svg').getBoundingClientRect().width,"
        " c.getAttribute('aria-label').length])"
    )
    assert len(drawn) >= 10
    for key, marks, room, width, words in drawn:
        assert marks > 3, key
        assert room - 12 < width <= room + 1, key
        assert words > 40, key


def hover(browser: Browser, mark: str) -> str:
    """Return what is shown when the middle of the first mark that a selector finds is pointed at."""
    box: Any = browser.run(
        f"(() => {{ const m = document.querySelector({mark!r}); m.scrollIntoView({{block: 'center'}});"
        " const b = m.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.point_at(box[0] - 2, box[1])
    browser.point_at(box[0], box[1])
    shown: str = browser.run("tip.hidden ? '' : tip.innerText")
    return shown


def test_pointing_at_a_bar_shows_the_breakdown_of_its_layout(browser: Browser) -> None:
    document = invoke(*DECODE, "--json").document
    row = next(row for row in document["rows"] if (row["tp"], row["batch"]) == (1, 1))
    shown = hover(browser, "#chart-scaling-0 .mark-rect path")
    assert re.search(r"layout\s+TP1\b", shown)
    assert re.search(rf"whole\s+{1e3 * row['step_s']:.3g} ms", shown)
    weights = re.search(r"weights\s+([\d.]+) ms", shown)
    assert weights is not None
    assert float(weights[1]) == pytest.approx(1e3 * row["weights_s"], rel=0.01)
    assert "tokens/s per user" in shown
    browser.point_at(2, 2)
    assert browser.run("tip.hidden")


def test_pointing_at_a_cell_of_the_map_says_what_binds(browser: Browser) -> None:
    assert re.search(r"layout\s+TP1\s+batch\s+1\s+binds\s+weights", hover(browser, "#chart-regime-0 .mark-rect path"))


def test_what_is_saved_is_the_chart_and_its_table(browser: Browser) -> None:
    keys = browser.run("Object.keys(nhalf.views)")
    for key in keys:
        root = ET.fromstring(browser.run(f"nhalf.svg('{key}')"))  # noqa: S314  a drawing of our own
        assert root.tag.endswith("svg")
        assert "color:#1b1b1f" in root.attrib["style"]
    lines = browser.run("nhalf.csv('scaling-0')").splitlines()
    assert lines[0].startswith("layout,weights_s")
    assert [line.split(",")[0] for line in lines[1:]] == ["TP1", "TP8", "TP16"]


def test_the_buttons_save(browser: Browser) -> None:
    browser.run(
        "window.saved = []; HTMLAnchorElement.prototype.click = function () { window.saved.push(this.download); };"
        "document.querySelectorAll('#regime button').forEach((button) => button.click())"
    )
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert sorted(browser.run("window.saved")) == ["regime-0.csv", "regime-0.svg"]


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_width_makes_the_page_scroll_sideways(browser: Browser, width: int) -> None:
    browser.resize(width, 900)
    browser.run("new Promise((done) => setTimeout(done, 300))")
    assert browser.run("document.documentElement.scrollWidth") <= width
    widest = browser.run(
        "Math.max(...[...document.querySelectorAll('.chart svg')].map((s) => s.getBoundingClientRect().right))"
    )
    assert widest <= width
    browser.resize(1280, 900)


def test_no_line_of_a_phone_ends_inside_a_flag_and_a_copied_line_is_the_command(report: Path) -> None:
    assert PROGRAM is not None
    path = report.with_name("plan.html")
    assert invoke(*PLAN, "-o", str(path)).code == 0
    with Browser(PROGRAM, width=390) as found:
        found.open(path)
        lines = found.run(
            "[...document.querySelectorAll('.whole')].map((word) =>"
            " [word.textContent, word.getBoundingClientRect().height, 2 * parseFloat(getComputedStyle(word).fontSize)])"
        )
        flags = {word for word, height, two in lines if height < two}
        assert {"--tensor-parallel-size", "--enforce-eager,", "(--no-enable-prefix-caching,"} <= flags
        assert flags == {word for word, _, _ in lines}
        copied = found.run(
            "(() => { const code = document.querySelector('pre code'), all = document.createRange();"
            " all.selectNodeContents(code); getSelection().removeAllRanges(); getSelection().addRange(all);"
            " return [getSelection().toString(), code.textContent]; })()"
        )
        assert copied[0] == copied[1]
        assert copied[0].startswith("vllm serve ")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_in_dark(browser: Browser, scheme: str) -> None:
    browser.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    ink, page, axis = browser.run(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('.role-axis-label text')).fill]"
    )
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) / 765 for colour in (ink, page, axis)]
    assert (light[0] > 0.8) == (light[1] < 0.2) == (scheme == "dark")
    assert axis == ink


def test_print_is_black_on_white_without_buttons(browser: Browser) -> None:
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.call("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    shown = browser.run(
        "[getComputedStyle(document.body).color, getComputedStyle(document.querySelector('.tools')).display]"
    )
    assert shown == ["rgb(0, 0, 0)", "none"]
    browser.call("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize(
    "arguments",
    [
        ("collective", "all-reduce", "--ranks", "8", "--on", "h100-sxm"),
        ("decode", "deepseek-v3", "--on", "h200-sxm,gb200-nvl72", "--tp", "8", "--pp", "1,2", "--batch", "64"),
        PLAN,
        BUY,
        SWEEP,
    ],
)
def test_other_pages_are_quiet_and_drawn(arguments: tuple[str, ...], report: Path) -> None:
    assert PROGRAM is not None
    path = report.with_name("other.html")
    assert invoke(*arguments, "-o", str(path)).code == 0
    with Browser(PROGRAM) as found:
        found.open(path)
        assert found.complaints == []
        assert found.requests == [path.resolve().as_uri()]
        assert found.run("[...document.querySelectorAll('.chart')].every((c) => c.querySelectorAll('path').length > 3)")
        for width in (360, 1280):
            found.resize(width, 900)
            found.run("new Promise((done) => setTimeout(done, 300))")
            assert found.run("document.documentElement.scrollWidth") <= width
    assert path.stat().st_size < 4_000_000


@pytest.mark.parametrize(
    ("arguments", "mark", "parts"),
    [
        (PLAN, "#chart-pareto-0 .mark-symbol path:last-of-type", [r"layout\s+TP8 x2", r"first token\s+[\d.]+ ms to"]),
        (
            PLAN,
            "#chart-ranking-0 .mark-rect path",
            [r"part\s+weights: ", r"within the limits\s+(yes|marginal)", r"80 % range\s+[\d.]+ [mu]s to [\d.]+ [mu]s"],
        ),
        (BUY, "#chart-gains-0-1 .mark-rect:not([aria-hidden]) path", [r"80 % range\s+\d+ to \d+ %", r"with it\s+\d"]),
        (SWEEP, "#chart-map-0 .layer_1_marks path", [r"binds\s+weights", r"per user\s+[\d.]+ tokens/s"]),
    ],
)
def test_pointing_at_other_marks_shows_their_numbers(
    arguments: tuple[str, ...], mark: str, parts: list[str], report: Path
) -> None:
    assert PROGRAM is not None
    path = report.with_name("other.html")
    invoke(*arguments, "-o", str(path))
    with Browser(PROGRAM) as found:
        found.open(path)
        shown = hover(found, mark)
        for part in parts:
            assert re.search(part, shown), shown


def test_sliders_move_the_bars_to_what_decode_says(browser: Browser) -> None:
    def moved(**exponents: float) -> dict[str, Any]:
        for name, value in exponents.items():
            browser.run(
                f"(() => {{ const c = document.querySelector('[data-slider={name}]'); c.value = {value};"
                " c.dispatchEvent(new Event('input', {bubbles: true})); })()"
            )
        rows = browser.run("window.nhalf.views['moving-0'].data('moved').map(r => ({...r}))")
        return {row["layout"]: row for row in rows}

    path = "system.fabric.{}.{}"
    links = {"intra_node": (0.779, 450), "inter_node": (5, 50)}  # [us, GB/s], of the catalogue
    given = [
        word
        for tier, (latency, bandwidth) in links.items()
        for word in ("--set", f"{path.format(tier, 'latency_s')}={2**1.5 * latency!r}us",
                     "--set", f"{path.format(tier, 'bandwidth_bytes_per_s')}={2**-1.25 * bandwidth!r}GB/s")
    ]  # fmt: skip
    document = invoke(*DECODE[:-4], "--batch", "23", "--weights", "fp8", *given, "--json").document
    rows = moved(batch=4.5, latency=1.5, bandwidth=-1.25)
    assert len(rows) == 3
    for row in document["rows"]:
        assert rows[row["layout"]]["time_s"] == pytest.approx(row["tpot_s"], rel=0.01)
        assert rows[row["layout"]]["catalogue_s"] <= rows[row["layout"]]["time_s"] * 1.0001
    assert browser.run("document.querySelector('[data-slider=batch]').previousElementSibling.textContent") == "23"
    still = moved(batch=0, latency=0, bandwidth=0)
    plain = invoke(*DECODE[:-4], "--batch", "1", "--weights", "fp8", "--json").document
    for row in plain["rows"]:
        assert still[row["layout"]]["time_s"] == pytest.approx(row["tpot_s"], rel=1e-4)

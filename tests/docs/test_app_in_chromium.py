"""The app in a real browser: every control is used, and what is shown is what the command says."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest
from tests.cli.command import invoke
from tests.docs.browser import Browser, chromium
from tests.served import Served

from nhalf.app.server import Settings
from nhalf.cli.asking import ask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = chromium()
pytestmark = [
    pytest.mark.chromium,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium or Chrome here: apt-get install chromium"),
]
READY = "document.body?.dataset.ready === 'yes'"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    found = Served(Settings(ask=ask))
    yield found
    found.server.should_exit = True


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM) as found:
        found.visit(f"http://127.0.0.1:{served.port}/?batch=5", until=READY)
        yield found


def moved(browser: Browser, selector: str, value: str) -> None:
    """Move a control as a hand does, and wait for the next panel."""
    browser.run("window.before = panel")
    browser.run(
        f"(() => {{ const c = document.querySelector({selector!r});"
        f" if (c.type === 'checkbox') c.checked = {value!r} === '1'; else c.value = {value!r};"
        " for (const kind of ['input', 'change']) c.dispatchEvent(new Event(kind, {bubbles: true})); })()"
    )
    browser.wait("panel !== window.before")


def shown(browser: Browser) -> list[dict[str, str]]:
    """Return the rows of the table of numbers, each cell by its key as it was sent."""
    found: list[dict[str, str]] = browser.run(
        "[...document.querySelectorAll('#numbers tr')].slice(1).map(r => Object.fromEntries("
        "[...r.children].map(c => [c.dataset.key, c.dataset.value])))"
    )
    return found


def test_two_hundred_numbers_are_those_of_the_copied_command(browser: Browser) -> None:
    moved(browser, "[name=tp]", "1,2,4,8,16,32")
    moved(browser, "[data-path$='intra_node.latency_s']", "2")
    words = shlex.split(browser.run("command()"))
    assert words[:2] == ["nhalf", "decode"]
    document = invoke(*words[1:], "--json").document
    expected = {(row["layout"], f"{row['batch']:g}"): row for row in document["rows"]}
    compared = 0
    for row in shown(browser):
        other = expected[row["layout"], row["batch"]]
        for key, text in row.items():
            if isinstance(other[key], int | float):
                assert float(text) == pytest.approx(other[key], rel=1e-12), key
                compared += 1
            else:
                assert text == str(other[key])
    assert compared >= 200
    for panel in ("curve", "bars", "reduce", "map", "advice"):
        assert browser.run(f"document.getElementById('{panel}').innerHTML.length") > 300, panel
    moved(browser, "[name=tp]", "1,2,4,8,16")


def test_every_control_changes_what_is_shown(browser: Browser) -> None:
    for selector, value in (
        ("[name=model]", "qwen3-32b"), ("[name=on]", "h200-sxm"), ("[name=weights]", "bf16"), ("[name=tp]", "1,2,4,8"),
        ("[name=engine]", "sglang"), ("[name=batch]", "7"), ("[name=context]", "12"), ("[name=fuse_norm]", "1"),
        ("[name=two_batch_overlap]", "1"), ("[name=quantised_all_reduce]", "1"),
        ("[data-path$='memory_bandwidth_bytes_per_s']", "1"), ("[data-path$='intra_node.bandwidth_bytes_per_s']", "-3"),
    ):  # fmt: skip
        before = shown(browser)
        moved(browser, selector, value)
        assert browser.run("document.getElementById('problem').textContent") == "", selector
        assert shown(browser) != before, selector


def test_the_address_holds_the_whole_question(browser: Browser, served: Served) -> None:
    before, address = shown(browser), browser.run("location.href")
    browser.visit("about:blank", until="location.href === 'about:blank'")
    browser.visit(address, until=f"location.href === {address!r} && {READY}")
    assert shown(browser) == before
    assert address.startswith(f"http://127.0.0.1:{served.port}/?")


def test_the_tabs_answer(browser: Browser) -> None:
    for tab, says in (("plan", "Run "), ("crossover", "all-reduce"), ("simulate", "ring")):
        browser.run(f"document.querySelector('[data-tab={tab}]').click()")
        browser.wait("document.getElementById('screen').textContent.length > 20")
        shown_there = browser.run("document.getElementById('verdict').textContent")
        assert says in shown_there, tab
        words = shlex.split(browser.run("command()"))
        verdict, below = invoke(*words[1:], columns=100).out.split("\n", 1)
        assert shown_there == verdict, words
        assert browser.run("document.getElementById('screen').textContent").strip().startswith(below.split("\n")[0])
    browser.run("document.querySelector('[data-tab=step]').click()")


def test_it_is_quiet_asks_nobody_else_and_names_every_control(browser: Browser, served: Served) -> None:
    assert browser.complaints == []
    assert all(url.startswith(f"http://127.0.0.1:{served.port}/") for url in browser.requests)
    unnamed = browser.run(
        "[...document.querySelectorAll('select, input, button')].filter(c => !(c.labels?.length || c.textContent.trim()"
        " || c.getAttribute('aria-label'))).map(c => c.outerHTML)"
    )
    assert unnamed == []


def test_a_tab_shows_the_controls_that_its_command_has_and_takes_its_flags(browser: Browser) -> None:
    seen = "[...document.querySelectorAll('#controls [name], #controls [data-path]')].filter(c => c.checkVisibility())"
    for tab, count in (("crossover", 2), ("simulate", 0)):
        browser.run(f"document.querySelector('[data-tab={tab}]').click()")
        browser.wait("document.getElementById('screen').textContent.length > 20")
        assert browser.run(f"{seen}.length") == count
    field = "document.querySelector('#extra input')"
    browser.run(f"{field}.value = 'all-gather --ranks 4 --size 1MiB --latency 2us --bandwidth 50GB/s --algorithm ring'")
    browser.run(f"{field}.dispatchEvent(new Event('change'))")
    browser.wait("document.getElementById('screen').textContent.includes('all-gather of 1 MiB on 4 ranks')")
    assert browser.run("command()").startswith("nhalf simulate all-gather --ranks 4 --size 1MiB")
    browser.run(f"{field}.value = 'all-reduce --ranks 0'")
    browser.run(f"{field}.dispatchEvent(new Event('change'))")
    browser.wait("document.getElementById('problem').textContent.includes('--ranks')")
    browser.run("document.querySelector('[data-tab=step]').click()")
    browser.wait("document.getElementById('other').hidden")


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits(browser: Browser, width: int, tmp_path: Path) -> None:
    browser.resize(width, 900)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.picture(tmp_path / "app.png")
    assert (tmp_path / "app.png").stat().st_size > 10_000


def test_the_pictures_are_of_what_the_page_asks(browser: Browser) -> None:
    browser.run("document.querySelector('[data-tab=pictures]').click()")
    browser.wait(
        "!document.getElementById('pictures').hidden && document.getElementById('pictures').src.includes('model=')"
    )
    assert browser.run("document.getElementById('pictures').src").count("tp=") == 0
    assert "lab --model" in browser.run("command()")
    assert browser.run("getComputedStyle(document.getElementById('drop')).display") == "none"
    browser.run("document.querySelector('[data-tab=step]').click()")
    browser.wait("document.getElementById('other').hidden")


def test_a_point_of_the_plan_shows_its_step_and_launch_line(browser: Browser) -> None:
    browser.run("document.querySelector('[data-tab=plan]').click()")
    browser.wait("document.querySelectorAll('#points circle').length > 3")
    row = browser.run(
        "(() => { const i = plan.findIndex(r => r.pareto && r.tp === 4); return {...plan[i], place: i}; })()"
    )
    point = "document.querySelector('#points [data-place=\"{}\"]')"
    click = point + ".dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    browser.run(click.format(row["place"]))
    browser.wait(
        "document.querySelector('#points .chosen') && document.getElementById('screen').textContent.includes('only')"
    )
    words = shlex.split(browser.run("command()"))
    assert words[:2] == ["nhalf", "plan"]
    assert words[words.index("--tp") + 1] == "4"
    document = invoke(*words[1:], "--json").document
    assert document["chosen"]["layout"] == row["layout"]
    assert document["chosen"]["step_s"] == row["step_s"]
    shown_text = browser.run("document.getElementById('screen').textContent")
    assert any(line.split(" --")[0] in shown_text for line in document["launch"].values())
    browser.run(click.format(row["place"]))  # once more: all layouts are back
    browser.wait("!document.querySelector('#points .chosen')")
    browser.run("document.querySelector('[data-tab=step]').click()")
    browser.wait("document.getElementById('other').hidden")


def test_the_messages_of_a_collective_are_drawn_and_played(browser: Browser) -> None:
    browser.run("document.querySelector('[data-tab=simulate]').click()")
    browser.wait("document.querySelectorAll('#timeline rect').length > 100")
    document = invoke(*shlex.split(browser.run("command()"))[1:], "--json").document
    (run,) = document["runs"]
    assert browser.run("moments.messages.length") == run["messages"]
    assert browser.run("moments.end_s") == pytest.approx(run["time_s"], rel=1e-12)
    browser.run("document.getElementById('play').click()")
    browser.wait("Number(document.getElementById('clock').value) < 1")
    browser.wait("Number(document.getElementById('clock').value) === 1")
    browser.resize(390, 900)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.resize(1280, 900)
    browser.run("at(0.5)")
    assert float(browser.run("document.getElementById('now').getAttribute('x1')")) == pytest.approx(
        browser.run("30 + document.querySelector('#timeline svg').viewBox.baseVal.width / 2 - 5")
    )
    browser.run("document.querySelector('[data-tab=step]').click()")
    browser.wait("document.getElementById('other').hidden")


def test_a_dropped_log_is_drawn_with_its_line(browser: Browser) -> None:
    rows = "".join(f"all-reduce,{1 << power},8,{1e-5 + (1 << power) / 1e11}\\n" for power in range(10, 28))
    browser.run("document.querySelector('[data-tab=fit]').click()")
    browser.wait("!document.getElementById('drop').hidden")
    browser.run(f"void dropped(new File(['op,size_bytes,ranks,seconds\\n{rows}'], 'own.csv'))")
    browser.wait("document.querySelectorAll('#curves circle').length === 18")
    assert "all-reduce on 8 ranks" in browser.run("document.getElementById('curves').textContent")
    assert "100 GB/s" in browser.run("document.getElementById('verdict').textContent")
    browser.run("document.querySelector('[data-tab=step]').click()")
    browser.wait("document.getElementById('other').hidden")

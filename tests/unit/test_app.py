"""The app over real HTTP: what a visitor may ask, what is refused, and that its numbers are those of the commands."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cli.command import invoke
from tests.served import Served

from nhalf.app.asked import COMMANDS, Opened
from nhalf.app.server import Settings
from nhalf.cli.asking import ask
from nhalf.errors import InputError
from nhalf.files.reading import only, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = {"model": "llama-3.1-70b", "on": "h100-sxm", "tp": "1,2,4,8,16", "batch": "1,16,128", "weights": "fp8"}
FLAGS = [word for key, value in STEP.items() if key != "model" for word in (f"--{key}", value)]


@pytest.fixture(scope="module")
def app() -> Iterator[Served]:
    served = Served(Settings(ask=ask))
    yield served
    served.server.should_exit = True


def test_the_panel_has_the_numbers_of_decode(app: Served) -> None:
    status, text = app.get("/panel", STEP)
    assert status == 200
    panel = json.loads(text)
    document = invoke("decode", "llama-3.1-70b", *FLAGS, "--json").document
    expected = {(row["layout"], row["batch"]): row for row in document["rows"]}
    compared = 0
    for row in panel["rows"]:
        other = expected[row["layout"], row["batch"]]
        for key in row.keys() & other.keys():
            assert row[key] == other[key], key
            compared += isinstance(row[key], int | float)
    assert len(panel["rows"]) == len(expected) == 15
    assert compared >= 200
    assert [(each["batch"], each["layouts"]) for each in panel["best"]] == [
        (best["batch"], [layout["layout"] for layout in best["layouts"]]) for best in document["best"]
    ]
    assert {each["name"]: each["share"] for each in panel["best"][0]["savings"]} == {
        lever["name"]: lever["gain"] for lever in document["levers"] if lever["batch"] == 1
    }


def test_what_is_predicted_is_there_for_prometheus(app: Served) -> None:
    status, text = app.get("/metrics", {**STEP, "tp": "8", "batch": "16"})
    assert status == 200
    (row,) = invoke("decode", "llama-3.1-70b", *FLAGS, "--tp", "8", "--batch", "16", "--json").document["rows"]
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    steps = {sample.labels["kind"]: sample.value for sample in families["nhalf_step_seconds"]}
    assert (steps["low"], steps["predicted"], steps["high"]) == (row["low_s"], row["step_s"], row["high_s"])
    assert steps["floor"] == row["collective_fixed_s"]
    assert sum(sample.value for sample in families["nhalf_token_seconds"]) == pytest.approx(row["tpot_s"])
    assert families["nhalf_step_seconds"][0].labels["layout"] == "TP8"
    assert "nhalf_build_info" in app.get("/metrics")[1]
    assert app.get("/metrics", {"model": "llama-3.1-8b"})[0] == 400


def test_a_slider_is_a_set(app: Served) -> None:
    path = "system.fabric.intra_node.latency_s"
    panel = json.loads(app.get("/panel", {**STEP, "set": f"{path}=20us"})[1])
    document = invoke("decode", "llama-3.1-70b", *FLAGS, "--set", f"{path}=20us", "--json").document
    assert panel["rows"][3]["step_s"] in [row["step_s"] for row in document["rows"]]
    assert next(each["value"] for each in panel["sliders"] if each["path"] == path) == 20e-6


def test_the_api_answers_the_documents_of_the_commands(app: Served) -> None:
    one = {"model": "llama-3.1-8b", "on": "h100-sxm"}
    link = {"latency": "5us", "bandwidth": "100GB/s"}
    asked: dict[str, dict[str, str]] = {
        "decode": STEP, "crossover": {"model": "llama-3.1-70b", "link": "5us,400GB/s"}, "plan": {**one, "gpus": "8"},
        "link": link, "simulate": {"op": "all-reduce", "ranks": "4", "size": "64KiB", **link},
    }  # fmt: skip
    for command, parameters in asked.items():
        status, text = app.get(f"/api/{command}", parameters)
        assert status == 200, text
        assert json.loads(text)["schema"] == f"nhalf.{command}/2"
    status, text = app.get("/screen/plan", asked["plan"])
    assert json.loads(text)["text"].startswith("Run ")


@pytest.mark.parametrize(
    ("path", "parameters", "says"),
    [
        ("/panel", {"model": "/etc/passwd", "on": "h100-sxm"}, "no model"),
        ("/panel", {"model": "llama-3.1-8b", "on": "../mine.toml"}, "no system"),
        ("/panel", {"model": "llama-3.1-8b"}, "on is missing"),
        ("/panel", {**STEP, "stack": "/etc/passwd"}, "no parameter"),
        ("/panel", {**STEP, "links": "x.toml"}, "no parameter"),
        ("/panel", {**STEP, "batch": "1e9"}, "--batch"),
        ("/panel", {**STEP, "tp": "9" * 300}, "too long"),
        ("/panel", [*STEP.items(), ("tp", "2")], "2 times"),
        ("/panel", {**STEP, "set": "system.fabric.intra_node.latency_s=__import__('os')"}, "--set"),
        ("/api/buy", {**STEP, "option": "system=/etc/passwd"}, "may name a file"),
        ("/api/compare", {**STEP, "layout": "stack=x.toml"}, "may name a file"),
        ("/api/measure", {}, "there is no 'measure' here"),
        ("/api/sweep", {}, "there is no 'sweep' here"),
    ],
)
def test_what_is_hostile_gets_one_line(app: Served, path: str, parameters: Any, says: str) -> None:  # noqa: ANN401
    status, text = app.get(path, parameters)
    assert status == 400
    assert says in json.loads(text)["error"]
    assert "\n" not in json.loads(text)["error"]


def test_no_command_of_the_api_takes_a_flag_that_names_a_file() -> None:
    files = {"output", "o", "save", "stack", "links", "anchor", "launch", "file"}
    assert not files & {name for names in COMMANDS.values() for name in names}


def test_other_hosts_and_long_addresses_are_refused(app: Served) -> None:
    assert app.get("/", Host="evil.example")[0] == 403
    assert app.get("/panel", {"set": "x" * 9000})[0] == 414
    status, _, headers = app.ask("GET", "/", None, {})
    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]


def test_a_visitor_from_elsewhere_needs_the_word() -> None:
    served = Served(Settings(host="0.0.0.0", ask=ask, token="secret"))  # noqa: S104, S106
    assert served.get("/")[0] == 403
    assert served.get("/", {"token": "wrong"})[0] == 403
    status, _, headers = served.ask("GET", "/?token=secret&tab=plan", None, {})
    assert status == 303
    assert headers["location"] == "/?tab=plan"
    assert served.ask("GET", "/", None, {"Cookie": headers["set-cookie"].partition(";")[0]})[0] == 200
    served.server.should_exit = True


def test_only_opened_files_may_be_named() -> None:
    opened = Opened(files={"mine": "/some/where/mine.toml"})
    assert opened.system("mine") == "/some/where/mine.toml"
    assert opened.system("h100-sxm") == "h100-sxm"


def test_a_dropped_log_is_fitted_and_garbage_is_refused(app: Served) -> None:
    rows = "".join(f"all-reduce,{1 << power},8,{1e-5 + (1 << power) / 1e11}\n" for power in range(10, 28))
    status, text, _ = app.ask("POST", "/file/fit", f"op,size_bytes,ranks,seconds\n{rows}".encode(), {})
    assert status == 200
    assert "bandwidth" in json.loads(text)["text"]
    (curve,) = json.loads(text)["curves"]
    assert len(curve["sizes_bytes"]) == len(curve["times_s"]) == 18
    assert curve["bandwidth_bytes_per_s"] == pytest.approx(1e11, rel=1e-3)
    status, text, _ = app.ask("POST", "/file/fit", b"nothing", {})
    assert status == 400
    assert "\n" not in json.loads(text)["error"]
    assert app.ask("POST", "/file/decode", b"x", {})[0] == 400


def test_two_hundred_visitors_at_once_are_all_answered(app: Served) -> None:
    answered: list[int] = []

    def visit(place: int) -> None:
        asked = {**STEP, "batch": str(1 + place % 64), "tp": "2,4,8"}
        answered.append(app.get("/panel", asked)[0])

    visitors = [threading.Thread(target=visit, args=(place,)) for place in range(200)]
    for each in visitors:
        each.start()
    for each in visitors:
        each.join()
    assert answered == [200] * 200


@pytest.mark.parametrize(
    "layout",
    ["tp=2,links=mine", "tp=2 links=mine", "tp=2,stack=mine", "tp=2,on=mine", "tp=2,system=mine", "links=.env"],
)
def test_a_layout_names_no_file_however_it_is_written(
    app: Served, layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", ".env"):
        Path(name).write_text("secret = 'hunter2'\n[links.intra-node]\nlatency = '5us'\nbandwidth = '9GB/s'\n")
    status, text = app.get("/api/compare", {**STEP, "tp": "4", "batch": "1", "layout": layout})
    assert status == 400
    assert "may name a file" in json.loads(text)["error"]
    assert "hunter2" not in text


def test_while_some_files_alone_are_read_no_other_is(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
    with only([str(tmp_path / "one")]):
        assert read_text(tmp_path / "one") == "one"
        with pytest.raises(InputError, match="may name a file"):
            read_text(tmp_path / "two")
    assert read_text(tmp_path / "two") == "two"


def test_a_word_of_any_letters_is_refused_politely() -> None:
    served = Served(Settings(host="0.0.0.0", ask=ask, token="secret"))  # noqa: S104, S106
    assert served.get("/", {"token": "\u00e9"})[0] == 403
    assert served.ask("GET", "/", None, {"Cookie": "nhalf=\u00e9"})[0] == 403
    served.server.should_exit = True


def test_the_pictures_have_no_origin_and_refuse_as_the_panel_does(app: Served) -> None:
    status, text = app.get("/pictures", {"model": "llama-3.1-8b", "on": "h100-sxm"})
    assert status == 200
    assert text.count("<h2>") >= 8
    assert "pictures.html" in text
    status, text = app.get("/pictures", {"model": "/etc/passwd", "on": "h100-sxm"})
    assert status == 400
    assert "no model" in text


def test_a_timeline_has_every_message_and_refuses_too_many(app: Served) -> None:
    asked = {"op": "all-reduce", "ranks": "4", "size": "64KiB", "latency": "5us", "bandwidth": "100GB/s",
             "algorithm": "ring"}  # fmt: skip
    status, text = app.get("/timeline", asked)
    assert status == 200
    found = json.loads(text)
    assert (found["ranks"], len(found["messages"])) == (4, 24)
    assert all(begin < end <= found["end_s"] for _, _, begin, end, _ in found["messages"])
    assert sum(size for *_, size in found["messages"]) == pytest.approx(2 * 3 * 65536)
    status, text = app.get("/timeline", {**asked, "ranks": "512"})
    assert status == 400
    assert "too many to look at" in text

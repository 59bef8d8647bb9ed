"""The interconnect in eight pictures: its sentences are those of the commands, and it is of what the reader asks."""

from __future__ import annotations

import itertools

import pytest
from tests.cli.command import invoke

from nhalf.errors import InputError
from nhalf.loading.choices import Request
from nhalf.report.pictures import page, subject


def asked(model: str, system: str, **inputs: str) -> Request:
    return Request(model=model, systems=()).updated({"system": system, **inputs})


def test_eight_pictures_say_what_decode_and_crossover_say() -> None:
    drawn = page(subject(asked("llama-3.1-70b", "h100-sxm")))
    assert [section.title[:2] for section in drawn.sections] == [f"{place}." for place in range(1, 9)]
    assert all(section.figures for section in drawn.sections)
    decode = invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--batch", "1,256", "--json").document
    gains = {(each["batch"], each["name"]): each["gain"] for each in decode["levers"]}
    for place, batch in ((2, 1), (3, 256)):
        rows = {row["name"]: row["share"] for row in drawn.sections[place].figures[0].rows}
        assert rows["2x NVLink bandwidth"] == gains[batch, "2x in-node link bandwidth"]
    row = decode["rows"][0]
    first = drawn.sections[4].figures[0].rows[0]
    assert first["step_s"] == pytest.approx(row["collective_fixed_s"] + row["collective_transfer_s"], rel=1e-9)
    turn = decode["crossovers"][0]
    assert f"from batch {turn['batch_at_double_floor']:.0f}" in drawn.verdict[0]
    text = invoke("crossover", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8").out
    assert drawn.verdict[0].split("Floor: ")[1].split(" = ")[0] in " ".join(text.split())


def test_a_slow_rank_costs_its_work_and_bandwidth_pays_where_bytes_bind() -> None:
    drawn = page(subject(asked("llama-3.1-8b", "h100-sxm")))
    slow = [row["step_s"] for row in drawn.sections[7].figures[0].rows]
    assert all(before < after for before, after in itertools.pairwise(slow))  # type: ignore[operator]
    lines: dict[str, list[float]] = {}
    for row in drawn.sections[4].figures[0].rows:
        lines.setdefault(str(row["line"]), []).append(float(str(row["step_s"])))
    plain, wide, quick = lines.values()
    assert plain[-1] - wide[-1] > plain[-1] - quick[-1]
    assert plain[0] - wide[0] < 0.1 * plain[0]


def test_the_readers_own_numbers_are_drawn() -> None:
    path = "system.fabric.intra_node.latency_s"
    plain, slow = (page(subject(asked("llama-3.1-8b", "h100-sxm", **more))) for more in ({}, {"batch": "7", "tp": "2"}))
    assert plain.sections[3].lead == slow.sections[3].lead  # its layouts and batches are its own
    request = asked("llama-3.1-8b", "h100-sxm").updated({"set": (f"{path}=20us",)})
    moved = page(subject(request))
    assert moved.sections[0].figures[0].rows[0]["time_s"] == pytest.approx(20e-6, rel=0.01)


@pytest.mark.parametrize("model", ["deepseek-r1", "mixtral-8x7b", "kimi-k3", "gemma-3-27b"])
@pytest.mark.parametrize("system", ["b200-sxm", "mi300x", "gb200-nvl72"])
def test_other_models_and_systems_are_drawn(model: str, system: str) -> None:
    drawn = page(subject(asked(model, system)))
    assert len(drawn.sections) == 8


def test_a_system_of_one_device_has_no_pictures() -> None:
    with pytest.raises(InputError, match="one system"):
        subject(asked("llama-3.1-8b", "h100-sxm,b200-sxm"))

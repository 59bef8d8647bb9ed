"""`--engine NAME==VERSION`: curves and constants of the nearest measured version, and a band that knows how near."""

from __future__ import annotations

import math

import pytest
from tests.cli.command import invoke, refused

import nhalf
from nhalf.catalog import calibration, store
from nhalf.catalog.curves import version_order, version_spread
from nhalf.collective import Mode
from nhalf.engines import ENGINES
from nhalf.loading.case_table import Table
from nhalf.loading.cases import cases
from nhalf.loading.engine_version import is_version, split_version
from nhalf.points import points
from nhalf.predict.residual import Novelty
from nhalf.stack import FAR, releases_apart


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("0.18.0", "0.18.0", 0.0),
        ("0.18.0", "0.24.0", 6.0),
        ("0.5.9", "0.5.20", 11.0),
        ("1.2.0rc2", "1.2.0rc6.post1", 4.0),
        ("1.2.0rc2", "1.2.0rc2.post2", 0.0),
        ("1.0.0rc3", "1.2.0rc6", 16.0),
        ("1.2.0", "1.2.0rc6", 4.0),
        ("1.0.0", "2.0.0", FAR),
        ("0.18.0", "glm5-hopper", FAR),
    ],
)
def test_versions_are_so_many_releases_apart(one: str, other: str, apart: float) -> None:
    assert releases_apart(one, other) == releases_apart(other, one) == apart


@pytest.mark.parametrize(
    ("engine", "measured"),
    [
        ("vllm==0.24.0", "vllm 0.24.0"),
        ("vllm==0.25.1", "vllm 0.24.0"),
        ("vllm==0.31.0", "vllm 0.31.0"),
        ("vllm==0.99.0", "vllm 0.31.0"),
        ("sglang==0.5.9", "sglang 0.5.9"),
        ("sglang==0.5.20", "sglang 0.5.20"),
        ("trtllm==1.3.0rc12", "trtllm 1.3.0rc10"),
        ("vllm", "vllm 0.31.0"),
    ],
)
def test_the_nearest_measured_version_is_taken_and_said(engine: str, measured: str) -> None:
    document = invoke("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--engine", engine, "--json").document
    assert [row["as_of"] for row in document["rows"]] == [measured]
    assert [each["as_of"] for each in document["sources"] if each["path"] == "system.curves.all-reduce"] == [measured]


def test_the_first_screen_says_what_it_is_as_of() -> None:
    def title(*more: str) -> str:
        return invoke("decode", "llama-3.1-70b", "--tp", "8", *more, columns=80).out.splitlines()[3]

    assert title("--on", "h200-sxm").endswith(", as of vLLM 0.24.0")
    assert title("--on", "h100-sxm").endswith(" weights")
    assert title("--on", "h100-sxm", "--engine", "vllm==0.25.0").endswith(", as of vLLM 0.24.0 (nearest to 0.25.0)")


def test_what_follows_the_name_is_a_version() -> None:
    assert split_version("trtllm == 1.2.0rc6") == ("trtllm", "1.2.0rc6")
    assert "'latest' is no version" in refused("decode", "qwen3-8b", "--on", "h100-sxm", "--engine", "vllm==latest")
    assert not is_version("gpt-oss-dev")


def test_a_version_between_two_that_differ_has_a_wider_band() -> None:
    curves = store.measured("h100-sxm")
    assert version_spread(curves, "sglang", Mode.GRAPH, "0.5.14") == 0
    assert version_spread(curves, "sglang", Mode.GRAPH, "0.5.12") > 0.3  # it halved from 0.5.10 to 0.5.14
    assert version_spread(curves, "vllm", Mode.GRAPH, "0.21.0") < 0.05

    def width(version: str) -> float:
        row = points(nhalf.load("llama-3.1-70b", on="h100-sxm", tp=8, engine=f"sglang=={version}")).at(0)
        return math.log(row.high_s / row.low_s)

    assert width("0.5.12") > width("0.5.10")


def test_a_version_far_from_all_that_were_seen_is_new() -> None:
    bands = calibration.bands()
    shares = [bands._version("vllm", each) for each in ("", "0.18.0", "0.19.0", "0.21.0", "0.40.0")]
    assert shares == [0.0, 0.0, 0.0, 0.5, 1.0]
    near, far = (bands.half_widths(Novelty(experts=True, version=each)) for each in (0.0, 1.0))
    assert far[0] >= near[0]
    assert far[1] >= near[1]


def test_constants_of_a_stack_hold_near_the_versions_that_they_saw() -> None:
    common = store.constant_data()["layer_time_s"].value
    taken = {
        version: nhalf.load("kimi-k2.5", on="h200-sxm", tp=8, engine=f"vllm=={version}").stack.layer_time_s != common
        for version in ("0.15.0", "0.16.0", "0.17.1", "0.19.0", "0.24.0")
    }
    assert taken == {"0.15.0": True, "0.16.0": True, "0.17.1": True, "0.19.0": False, "0.24.0": False}


def test_a_table_states_versions_in_a_column_of_their_own() -> None:
    header = ("model", "system", "engine", "engine_version", "context", "concurrency", "tp")
    rows = [["qwen3-8b", "h100-sxm", "sglang", each, "1024", "4", "4"] for each in ("0.5.9", "0.5.20", "nightly", "")]
    found = cases(Table(path="rows", header=header, rows=rows))
    assert [group.scenario.stack.version for group in found.groups] == ["0.5.9", "0.5.20", "", ""]
    assert found.groups[0].scenario.system.curves[0].key.version == "0.5.9"


@pytest.mark.parametrize("name", ENGINES)
def test_the_newest_version_of_an_engine_is_that_of_its_newest_curve(name: str) -> None:
    versions = {
        curve.key.version
        for system in store.names("system")
        for curve in store.measured(system)
        if curve.key.library == name and not curve.flag
    }
    assert ENGINES[name].newest == max(versions, key=version_order)

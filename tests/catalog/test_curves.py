"""The tables of measured curves: what they hold, how one is found, and how the tool makes them."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tools import build_curves

from nhalf.catalog import store
from nhalf.catalog.curves import COLUMNS, find, read_curves, version_order
from nhalf.collective import Mode, Op
from nhalf.errors import InputError

if TYPE_CHECKING:
    from nhalf.curve import MeasuredCurve

FOLDER = Path(__file__).resolve().parents[2] / "src" / "nhalf" / "catalog" / "data" / "curves"
TABLES = sorted(FOLDER.glob("*.csv"))
each_table = pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)


@cache
def curves_of(system: str) -> tuple[MeasuredCurve, ...]:
    return tuple(read_curves((FOLDER / f"{system}.csv").read_text(encoding="utf-8"), system))


# ------------------------------------------------------------------------------------------------------------ lints


def test_there_is_a_table_for_every_measured_system() -> None:
    assert [path.stem for path in TABLES] == [
        "a100-sxm",
        "b200-sxm",
        "b300-sxm",
        "gb200-nvl72",
        "gb300-nvl72",
        "h100-sxm",
        "h200-sxm",
        "l40s",
        "rtx-pro-6000",
    ]


def test_the_tables_stay_small() -> None:
    assert sum(path.stat().st_size for path in TABLES) < 400_000


@each_table
def test_every_table_says_what_it_is_and_what_it_leaves_out(path: Path) -> None:
    comments = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert path.stem in comments[0]
    assert sum("Left out, as more than 2.0 times both neighbours" in line for line in comments) == 1


@each_table
def test_every_curve_is_sourced_and_plausible(path: Path) -> None:
    for curve in curves_of(path.stem):
        where = str(curve.key)
        assert curve.key.system == path.stem, where
        assert curve.source, where
        assert re.search(r"/comm/", curve.locator), where
        assert re.fullmatch(r"\d{4}-\d{2}", curve.date), where
        assert 0.001 < curve.log_sd < 0.3, where
        assert bool(curve.note) >= bool(curve.flag), where
        assert max(curve.ranks) <= (16 if "nvl72" in path.stem else 8), where
        for sizes, times in zip(curve.sizes_bytes, curve.times_s, strict=True):
            # A size that nobody measured may leave a gap of 4 or, at the ends of a dropped pair, 8; more is a mistake.
            assert len(sizes) >= 15, where
            assert np.max(sizes[1:] / sizes[:-1]) <= 8, where
            assert np.all((times > 1e-6) & (times < 2)), where


@each_table
def test_no_point_stands_out_above_both_neighbours(path: Path) -> None:
    for curve in curves_of(path.stem):
        for times in curve.times_s:
            assert not np.any(times[1:-1] > 2.5 * np.maximum(times[:-2], times[2:])), str(curve.key)


@each_table
def test_no_curve_is_there_twice(path: Path) -> None:
    curves = curves_of(path.stem)
    names = [(str(curve.key), curve.flag) for curve in curves]
    assert len(set(names)) == len(names)
    for one, other in itertools.combinations(curves, 2):
        if (one.key.op, one.key.mode, one.ranks) == (other.key.op, other.key.mode, other.ranks):
            same = all(map(np.array_equal, one.times_s, other.times_s))
            assert not same, f"{one.key} and {other.key}"


@each_table
def test_every_curve_can_be_found_by_its_key(path: Path) -> None:
    curves = curves_of(path.stem)
    for curve in curves:
        key = curve.key
        assert find(curves, key.library, key.version, mode=key.mode, op=key.op, dtype=key.dtype) is curve


# ---------------------------------------------------------------------------------- published summaries of the data

# An independent summary of the same source: all-reduce on the most ranks, newest version. Columns: system, library,
# version, mode, ranks, floor [us], t(16 KiB) [us], t(64 KiB) [us], alpha [us] and beta [GB/s] of a relative-error line
# (fitted robustly there, by plain squares here), size [KiB] at twice the floor (straight in n there, in log-log here).
SUMMARY = """
a100-sxm      trtllm  1.0.0      graph  8   4.6   8.4   9.0   5.9  111    69
a100-sxm      vllm    0.14.0     graph  8   5.7   6.5   8.4   6.3  111   128
b200-sxm      nccl    2.29.2     host   8  25.5  27.2  29.0  27.1  359  3704
b200-sxm      sglang  0.5.14     graph  8   4.7   5.3   6.2   5.4  330   328
b200-sxm      trtllm  1.3.0rc20  graph  8   5.2   5.9   6.0   5.8  337   457
b200-sxm      vllm    0.24.0     graph  8   7.4   8.1   8.6   8.1  323   174
b300-sxm      vllm    0.24.0     graph  8   7.0   7.8   8.5   7.7  342   169
gb200-nvl72   nccl    2.29.2     host   4  15.9  16.8  17.3  16.7  410  3455
gb200-nvl72   vllm    0.24.0     graph  4   5.1   5.4   5.6   5.4  334   434
h100-sxm      nccl    2.29.2     host   8  15.6  16.7  18.7  17.1  220  1434
h100-sxm      trtllm  1.3.0rc20  graph  8   3.2   3.6   4.6   3.5  216   135
h100-sxm      vllm    0.24.0     graph  8   4.7   5.3   6.4   5.3  209   178
h200-sxm      sglang  0.5.14     graph  8   3.2   3.7   5.0   3.6  216   113
h200-sxm      trtllm  1.3.0rc20  graph  8   3.1   3.5   4.6   3.4  219   122
h200-sxm      vllm    0.24.0     graph  8   4.8   5.2   6.6   5.1  217   207
l40s          vllm    0.14.0     graph  8  25.6  27.4  72.9  23.2  1.3    34
rtx-pro-6000  vllm    0.24.0     graph  8  24.9  27.5  31.2  25.8   13   128
"""


@pytest.mark.parametrize("row", SUMMARY.strip().splitlines(), ids=lambda row: "-".join(row.split()[:3]))
def test_curves_agree_with_a_summary_made_from_the_same_source(row: str) -> None:
    system, library, version, mode, count, *numbers = row.split()
    floor, at_16, at_64, alpha, beta, double = map(float, numbers)
    curve = find(curves_of(system), library, version, mode=Mode(mode), op=Op.ALL_REDUCE)
    assert curve is not None
    ranks = int(count)
    line = curve.line(ranks)
    assert curve.key.version == version
    assert curve.floor_s(ranks) == pytest.approx(floor * 1e-6, abs=0.06e-6)  # given to 0.1 us
    assert curve.time_s(16 * 1024, ranks) == pytest.approx(at_16 * 1e-6, abs=0.06e-6)
    assert curve.time_s(64 * 1024, ranks) == pytest.approx(at_64 * 1e-6, abs=0.06e-6)
    assert line.latency_s == pytest.approx(alpha * 1e-6, rel=0.08)
    assert line.bandwidth_bytes_per_s == pytest.approx(beta * 1e9, rel=0.10)
    assert curve.double_floor_size_bytes(ranks) == pytest.approx(double * 1024, rel=0.06)


def test_a_line_overstates_the_flat_region_of_a_direct_kernel() -> None:
    curve = find(curves_of("h100-sxm"), "vllm", "0.24.0", mode=Mode.GRAPH, op=Op.ALL_REDUCE)
    assert curve is not None
    assert 2 < curve.line(8).half_size_bytes / curve.double_floor_size_bytes(8) < 10


# ------------------------------------------------------------------------------------------------- finding a curve


def rows(*changes: dict[str, str]) -> str:
    """Return a table with a row for every set of changes."""
    cells = {
        "library": "vllm",
        "version": "0.24.0",
        "mode": "graph",
        "op": "all-reduce",
        "kernel": "custom",
        "dtype": "bfloat16",
        "ranks": "8",
        "ranks_per_node": "8",
        "log_sd": "0.02",
        "repeats": "1",
        "flag": "",
        "source": "a-paper",
        "locator": "table 1",
        "date": "2026-09",
        "note": "",
        "sizes_bytes": "512 1024 2048",
        "times_s": "4e-6 5e-6 7e-6",
    }
    lines = [",".join((cells | change)[name] for name in COLUMNS) for change in changes]
    return "\n".join(["# a comment", ",".join(COLUMNS), *lines]) + "\n"


def versions(*names: str) -> list[MeasuredCurve]:
    """Return curves of these versions, in this order."""
    return [curve for name in names for curve in read_curves(rows({"version": name}), "h100-sxm")]


def found_version(curves: list[MeasuredCurve], version: str | None = None) -> str | None:
    found = find(curves, "vllm", version, mode=Mode.GRAPH, op=Op.ALL_REDUCE)
    return found.key.version if found else None


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("1.3.0rc20", "1.3.0rc10"),
        ("1.3.0rc20", "1.3.0rc9"),
        ("1.3.0", "1.3.0rc20"),
        ("2.29.2", "2.23"),
        ("2.27.3", "2.27"),
        ("0.5.10", "0.5.9"),
        ("0.5.6.post2", "0.5.6"),
        ("0.14.1", "0.14.1.dev1+gd68209402"),
        ("0.14.1.dev1+gd68209402", "0.14.0"),
    ],
)
def test_the_newest_version_is_found(newer: str, older: str) -> None:
    assert version_order(newer) > version_order(older)
    assert found_version(versions(older, newer)) == newer
    assert found_version(versions(newer, older)) == newer
    assert found_version(versions(newer, older), older) == older


def test_a_flagged_curve_is_found_by_its_version_only() -> None:
    curves = read_curves(rows({"version": "0.25.0", "flag": "slow-link", "note": "Slow."}, {}), "h100-sxm")
    assert found_version(curves) == "0.24.0"
    assert found_version(curves, "0.25.0") == "0.25.0"
    assert found_version([curve for curve in curves if curve.flag]) is None


def test_the_first_that_fits_is_the_best_that_fits() -> None:
    flagged = {"version": "0.25.0", "flag": "slow-link", "note": "Slow."}
    curves = read_curves(rows(flagged, {"version": "0.9.0"}, {}, {"dtype": "int8"}), "h100-sxm")
    assert [(curve.key.version, curve.key.dtype) for curve in curves] == [
        ("0.24.0", "bfloat16"),
        ("0.24.0", "int8"),
        ("0.9.0", "bfloat16"),
        ("0.25.0", "bfloat16"),
    ]


def test_a_type_of_the_same_width_stands_in() -> None:
    curves = read_curves(rows({"dtype": "half"}, {"dtype": "int8"}), "h100-sxm")

    def dtype(wanted: str | None) -> str | None:
        curve = find(curves, "vllm", mode=Mode.GRAPH, op=Op.ALL_REDUCE, dtype=wanted)
        return curve.key.dtype if curve else None

    assert dtype(None) == dtype("bfloat16") == dtype("half") == "half"
    assert dtype("fp8") == dtype("int8") == "int8"
    assert dtype("float32") is None
    assert dtype("strange") is None


def test_a_type_of_its_own_goes_before_one_that_stands_in() -> None:
    curves = read_curves(rows({"dtype": "bfloat16"}, {"dtype": "half"}), "h100-sxm")
    for dtype in ("bfloat16", "half"):
        found = find(curves, "vllm", mode=Mode.GRAPH, op=Op.ALL_REDUCE, dtype=dtype)
        assert found is not None
        assert found.key.dtype == dtype


def test_what_was_not_measured_is_not_found() -> None:
    curves = versions("0.24.0")
    assert find(curves, "nccl", mode=Mode.GRAPH, op=Op.ALL_REDUCE) is None
    assert find(curves, "vllm", mode=Mode.EAGER, op=Op.ALL_REDUCE) is None
    assert find(curves, "vllm", mode=Mode.GRAPH, op=Op.ALL_TO_ALL) is None
    assert find(curves, "vllm", "0.1", mode=Mode.GRAPH, op=Op.ALL_REDUCE) is None
    assert find([], "vllm", mode=Mode.GRAPH, op=Op.ALL_REDUCE) is None


# ------------------------------------------------------------------------------------------------- reading a table


def test_rows_of_one_key_are_one_curve_with_rising_ranks() -> None:
    text = rows(
        {}, {"ranks": "2", "ranks_per_node": "2", "times_s": "3e-6 4e-6 5e-6", "log_sd": "0.03", "note": "Two."}
    )
    (curve,) = read_curves(text, "h100-sxm")
    assert curve.ranks == (2, 8)
    assert curve.time_s(2048, 2) == pytest.approx(5e-6)
    assert curve.log_sd == 0.03
    assert (curve.note, curve.source, curve.locator, curve.date) == ("Two.", "a-paper", "table 1", "2026-09")
    assert str(curve.key) == "h100-sxm/vllm 0.24.0/graph/all-reduce/bfloat16"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column library"),
        ("library,version\n", "curves of h100-sxm: no column mode"),
        (rows({}).replace(",custom", ""), "line 3: 16 cells. Allowed: 17 cells"),
        (rows({"ranks": "eight", "ranks_per_node": "eight"}), "line 3: .*'eight'"),
        (rows({}, {"times_s": "4e-6 x 7e-6"}), "line 4: .*'x'"),
        (rows({"mode": "fast"}), "line 3: 'fast' is not a known mode"),
        (rows({"sizes_bytes": "512 1024"}), "2 sizes and 3 times"),
        (rows({"ranks": "16"}), "line 3: 16 ranks at 8 a node cross a node"),
    ],
)
def test_a_table_that_cannot_be_read_says_where(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_curves(text, "h100-sxm")


# --------------------------------------------------------------------------------------------------------- the tool

HEADER = "system,library,version,mode,op,kernel,dtype,ranks,ranks_per_node,bytes,time_us,source"


def measurements(version: str, times: list[float], *, system: str = "gb200", file: str = "") -> list[str]:
    """Return rows of single measurements at 256, 512, ... bytes."""
    source = f"a wheel: data/{file or version}/perf.parquet"
    key = f"{system},vllm,{version},graph,all_reduce,k,half,4,4"
    return [f"{key},{256 * 2**i},{time},{source}" for i, time in enumerate(times)]


def build(folder: Path, *lines: str) -> dict[str, str]:
    """Return the text of every table that the tool makes of rows of single measurements."""
    path = folder / "measured.csv.gz"
    path.write_bytes(gzip.compress("\n".join([HEADER, *lines]).encode()))
    return {system: build_curves.table(system, curves) for system, curves in build_curves.read(path).items()}


def test_the_tool_takes_the_median_of_the_repeats(tmp_path: Path) -> None:
    lines = [*measurements("1", [4, 5, 8]), *measurements("1", [4.2, 5, 8]), *measurements("1", [90, 5, 8], file="2")]
    (curve,) = read_curves(build(tmp_path, *lines)["gb200-nvl72"], "gb200-nvl72")
    assert curve.times_s[0] == pytest.approx([4.2e-6, 5e-6, 8e-6])
    assert curve.sizes_bytes[0] == pytest.approx([256, 512, 1024])
    assert curve.key.op is Op.ALL_REDUCE
    assert curve.locator == "data/{1,2}/perf.parquet"


def test_the_tool_drops_single_points_that_stand_out_and_says_so(tmp_path: Path) -> None:
    text = build(tmp_path, *measurements("1", [4, 11, 4, 9, 10, 5, 40]))["gb200-nvl72"]
    (curve,) = read_curves(text, "gb200-nvl72")
    assert curve.times_s[0] == pytest.approx([4e-6, 4e-6, 9e-6, 1e-5, 5e-6, 4e-5])
    assert "both neighbours: 1 points" in text
    assert "vllm 1 graph all-reduce x4, 512 bytes: 11 us between 4 and 4 us" in text


def test_a_point_at_more_than_twice_its_neighbours_stands_out_and_a_switch_does_not(tmp_path: Path) -> None:
    text = build(tmp_path, *measurements("1", [32.2, 78.2, 30.9, 40, 79, 70, 60]))["gb200-nvl72"]
    (curve,) = read_curves(text, "gb200-nvl72")
    assert curve.times_s[0] == pytest.approx([32.2e-6, 30.9e-6, 4e-5, 7.9e-5, 7e-5, 6e-5])


def test_no_point_of_the_catalogue_takes_more_than_twice_both_its_neighbours() -> None:
    # Eager H100 x8 of SGLang 0.5.14 once took 78.2 us at 8 KiB, between 32.2 and 30.9.
    for system in ("a100-sxm", "b200-sxm", "b300-sxm", "gb200-nvl72", "h100-sxm", "h200-sxm", "l40s", "rtx-pro-6000"):
        curves = store.system(system, curves=True)[0].curves
        assert curves
        for curve in curves:
            for times in curve.times_s:
                beside = np.maximum(times[:-2], times[2:])
                assert np.all(times[1:-1] <= 2.0 * beside), str(curve.key)


def test_the_tool_leaves_out_copies_and_keeps_the_older(tmp_path: Path) -> None:
    lines = [*measurements("1.10", [4, 5, 8]), *measurements("1.9", [4, 5, 8]), *measurements("1.11", [4, 5, 9])]
    text = build(tmp_path, *lines)["gb200-nvl72"]
    assert [curve.key.version for curve in read_curves(text, "gb200-nvl72")] == ["1.11", "1.9"]
    assert "vllm 1.10 graph all-reduce is vllm 1.9 graph all-reduce" in text


def test_the_tool_fits_the_noise_to_the_repeats(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    lines = [
        line
        for _ in range(5)
        for line in measurements("1", list(map(float, 4 * np.exp(0.05 * random.normal(size=40)))))
    ]
    (curve,) = read_curves(build(tmp_path, *lines)["gb200-nvl72"], "gb200-nvl72")
    assert curve.log_sd == pytest.approx(0.05, rel=0.15)


def test_the_tool_assumes_a_noise_where_nothing_was_repeated(tmp_path: Path) -> None:
    text = build(tmp_path, *measurements("1", [4, 5, 8]))["gb200-nvl72"]
    (curve,) = read_curves(text, "gb200-nvl72")
    assert curve.log_sd == build_curves.DEFAULT_LOG_SD["graph"]
    assert {row["repeats"] for row in csv.DictReader(line for line in text.splitlines() if line[0] != "#")} == {"1"}


@pytest.mark.parametrize(
    ("us", "text"), [(5.3214, "5.321e-6"), (10, "1e-5"), (1_001_782, "1.002e0"), (12.3, "1.23e-5")]
)
def test_the_tool_writes_four_digits(us: float, text: str) -> None:
    assert build_curves.seconds(us) == text
    assert float(text) == pytest.approx(us * 1e-6, rel=1e-3)


def test_the_tool_flags_what_is_known_to_be_wrong(tmp_path: Path) -> None:
    text = build(tmp_path, *measurements("0.19.0", [4, 5, 8], system="rtx_pro_6000_server"))["rtx-pro-6000"]
    (curve,) = read_curves(text, "rtx-pro-6000")
    assert curve.flag == "slow-link"
    assert curve.note


# --------------------------------------------------------------------------------------------------------- siblings


def test_a_sibling_lends_its_curves_and_they_say_so() -> None:
    lent, own = (
        find(store.measured(key), "vllm", mode=Mode.GRAPH, op=Op.ALL_REDUCE) for key in ("h20-sxm", "h100-sxm")
    )
    assert lent is not None
    assert own is not None
    sizes = np.array([16384.0, 1048576.0])
    assert np.array_equal(np.asarray(lent.time_s(sizes, 8)), np.asarray(own.time_s(sizes, 8)))
    assert (lent.lent_to, lent.key.system) == ("h20-sxm", "h100-sxm")
    assert own.is_measured(8)
    assert not lent.is_measured(8)
    assert (lent.half_width(sizes, 8) > 3 * own.half_width(sizes, 8)).all()
    assert store.system("h20-sxm")[1]["system.curve_factor"].low == pytest.approx(0.8)


def test_a_system_of_the_users_may_name_a_sibling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, sibling in (("right", "h100-sxm"), ("wrong", "h100")):
        text = f'[systems.mine]\nlike = "mi300x"\nsibling = "{sibling}"\n'
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("NHALF_CATALOG", str(tmp_path / "right.toml"))
    assert {curve.lent_to for curve in store.measured("mine")} == {"mine"}
    monkeypatch.setenv("NHALF_CATALOG", str(tmp_path / "wrong.toml"))
    with pytest.raises(InputError, match="there is no 'h100'"):
        store.measured("mine")


def test_nobody_lends_what_was_lent() -> None:
    lenders = {curve.key.system for key in store.names("system") for curve in store.measured(key) if curve.lent_to}
    assert lenders == {"a100-sxm", "gb200-nvl72", "gb300-nvl72", "h100-sxm"}

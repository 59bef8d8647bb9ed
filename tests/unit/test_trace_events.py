"""Reading: every way in which a trace file can be laid out, compressed, broken or no trace at all."""

from __future__ import annotations

import gzip
import json
import math
import re
import sqlite3
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from tests.unit.trace_runs import NCCL, Plan, make

from nhalf.errors import InputError, WeakEvidenceError
from nhalf.report import trace_brief
from nhalf.report.trace import verdict
from nhalf.trace import events, kineto, sources
from nhalf.trace.recognition import standard
from nhalf.trace.study import Options, study

if TYPE_CHECKING:
    from pathlib import Path

    from nhalf.trace.record import RankTrace

DOCUMENT = make(Plan(ranks=2, steps=2, layers=2)).documents[0]


def read(path: Path) -> RankTrace:
    return kineto.read(path, standard())


def fingerprint(trace: RankTrace) -> tuple[object, ...]:
    calls = trace.calls
    return (
        calls.start_s.tolist(),
        calls.end_s.tolist(),
        trace.busy_s.tolist(),
        trace.kinds,
        trace.steps.labels,
        trace.rank,
    )


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("block", [97, 1000, 1 << 20])
def test_layout_and_block_size_do_not_matter(
    tmp_path: Path, indent: int | None, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "rank0.json"
    plain.write_text(json.dumps(DOCUMENT))
    expected = fingerprint(read(plain))
    path = tmp_path / "other.json"
    shuffled = {"traceEvents": DOCUMENT["traceEvents"], **{k: v for k, v in DOCUMENT.items() if k != "traceEvents"}}
    path.write_text(json.dumps(shuffled, indent=indent))
    monkeypatch.setattr(events, "blocks", lambda p: sources.blocks(p, block))
    assert fingerprint(read(path)) == expected


def test_gzip_of_several_members_reads_like_plain(tmp_path: Path) -> None:
    text = json.dumps(DOCUMENT).encode()
    (tmp_path / "rank0.json").write_bytes(text)
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(text[:5000]) + gzip.compress(text[5000:]))
    assert fingerprint(read(tmp_path / "rank0.json.gz")) == fingerprint(read(tmp_path / "rank0.json"))


def test_zstd_reads_like_plain(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    text = json.dumps(DOCUMENT).encode()
    (tmp_path / "rank0.json").write_bytes(text)
    (tmp_path / "rank0.json.zst").write_bytes(zstandard.compress(text))
    assert fingerprint(read(tmp_path / "rank0.json.zst")) == fingerprint(read(tmp_path / "rank0.json"))


def test_zstd_without_a_reader_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    path = tmp_path / "rank0.json.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    with pytest.raises(InputError, match=r"'\.\[trace\]'"):
        read(path)


def test_truncated_gzip_is_read_up_to_the_cut(tmp_path: Path) -> None:
    text = json.dumps(DOCUMENT, indent=1).encode()
    packed = gzip.compress(text)
    path = tmp_path / "rank0.json.gz"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    whole = len(DOCUMENT["traceEvents"])
    found = read(path)
    assert whole // 3 < found.events < whole
    assert any("cut short" in note for note in found.notes)


@pytest.mark.parametrize("cut", [0.3, 0.5, 0.9])
def test_truncated_plain_file_is_read_up_to_the_cut(tmp_path: Path, cut: float) -> None:
    text = json.dumps(DOCUMENT).encode()
    path = tmp_path / "rank0.json"
    path.write_bytes(text[: int(len(text) * cut)])
    found = read(path)
    before = text[: int(len(text) * cut)].count(b'"ph"')
    assert before - 2 <= found.events <= before
    assert any("cut short" in note for note in found.notes)


def test_bare_list_of_events_takes_the_rank_from_the_name(tmp_path: Path) -> None:
    path = tmp_path / "run-TP-3.trace.json"
    path.write_text(json.dumps(DOCUMENT["traceEvents"]))
    found = read(path)
    assert (found.rank, len(found.calls)) == (3, 8)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.json", 0),
        ("rank-7.Apr_03_18_51_38.1102.pt.trace.json.gz", 7),
        ("dp0_pp0_tp1_rank_12.1754.pt.trace.json.gz", 12),
        ("bs_32_rank3.json.gz", 3),
        ("1718-TP-5.trace.json.gz", 5),
        ("trace.json", None),
        ("crank.json", None),
    ],
)
def test_rank_in_a_name(name: str, rank: int | None) -> None:
    assert kineto.rank_in_name(name) == rank


def test_old_traces_have_whole_microseconds_since_1970(tmp_path: Path) -> None:
    run = make(Plan(ranks=2, steps=2, layers=2))
    new = run.write(tmp_path / "new")
    for document in run.documents.values():
        base = document.pop("baseTimeNanoseconds") // 1000
        for event in document["traceEvents"]:
            event["ts"] = round(event["ts"]) + base
            event["dur"] = round(event["dur"])
    old = study(run.write(tmp_path / "old"), Options())
    assert old.mean.step_s == pytest.approx(study(new, Options()).mean.step_s, rel=0.02)


def test_names_with_control_characters_and_half_characters_are_read(tmp_path: Path) -> None:
    text = json.dumps(DOCUMENT).encode()
    bad = b'{"ph": "X", "cat": "cpu_op", "name": "a\tb \xff", "pid": 1, "tid": 1, "ts": 1001.0, "dur": NaN}, '
    path = tmp_path / "rank0.json"
    path.write_bytes(text.replace(b'"traceEvents": [', b'"traceEvents": [' + bad))
    assert len(read(path).calls) == 8


def test_events_of_odd_types_are_left_out_alone(tmp_path: Path) -> None:
    odd: list[object] = [{"ph": "X", "cat": "kernel", "name": None, "ts": "x", "dur": {}}, 7]
    odd.append({"ph": "X", "cat": "kernel", "name": "k", "ts": "1001.5", "dur": "2", "args": 0})
    document = {**DOCUMENT, "traceEvents": [*odd, *DOCUMENT["traceEvents"]]}
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(document))
    assert len(read(path).calls) == 8


def test_giant_and_missing_durations_are_left_out_and_said(tmp_path: Path) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["traceEvents"][0]["dur"] = 1e13
    del document["traceEvents"][1]["dur"]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(document))
    found = read(path)
    assert found.window_s[1] < 1.0
    assert any("corrupt" in note for note in found.notes)
    assert any("usable time" in note for note in found.notes)


def test_python_stacks_are_said_to_slow_the_host(tmp_path: Path) -> None:
    frame = {"ph": "X", "cat": "python_function", "name": "f", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({**DOCUMENT, "traceEvents": [frame, *DOCUMENT["traceEvents"]]}))
    assert any("Python stacks" in note for note in read(path).notes)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", b"", "no trace"),
        ("a.json", b'{"a": 1}', "no trace"),
        ("a.json", b"hello", "no trace"),
        ("a.json.gz", b"\x1f\x8bgarbage", "no trace"),
        ("a.nsys-rep", b"\x00\x01", "nsys export"),
        ("a.pickle", b"\x80\x04", "pickle can run code"),
        ("a.json", b'{"schemaVersion": 1}', "no list of trace events"),
        ("a.json", b'{"schemaVersion": 1, "traceEvents": []}', "no complete kernel"),
        ("a.json", b"[]", "no complete kernel"),
    ],
)
def test_what_is_no_trace_gets_one_clear_error(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        study([str(path)], Options())
    assert str(path) in str(caught.value)


def test_a_missing_file_and_an_empty_folder_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        study([str(tmp_path / "none.json")], Options())
    with pytest.raises(InputError, match="the folder holds no file"):
        study([str(tmp_path)], Options())


def test_a_folder_and_a_pattern_skip_what_is_no_trace(tmp_path: Path) -> None:
    make(Plan(ranks=2, steps=2, layers=2)).write(tmp_path)
    (tmp_path / "TRUTH.json").write_text('{"a": 1}')
    found, notes = sources.find([str(tmp_path)])
    assert [source.path.name for source in found] == ["rank0.json", "rank1.json"]
    assert notes == ["TRUTH.json is no trace and was skipped"]
    assert len(sources.find([str(tmp_path / "rank*.json")])[0]) == 2


def test_memory_does_not_hold_the_events(tmp_path: Path) -> None:
    import tracemalloc

    frame = {"ph": "X", "cat": "python_function", "name": "x" * 400, "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}
    shapes = {"Input Dims": [[4, 512]], "Input type": ["float"]}
    call = {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "ts": 1.0, "dur": 2.0, "args": shapes}
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({**DOCUMENT, "traceEvents": ([frame] * 600 + [call]) * 100}))
    tracemalloc.start()
    read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 25e6
    assert peak < 12e6


def export(path: Path, *, simple: bool = False, graphs: bool = False) -> None:
    """Write an Nsight Systems export of two devices, as its schema has it."""
    run = make(Plan(ranks=2, steps=3, layers=2, flavour="graph", slow={1: 5.0}))
    database = sqlite3.connect(path)
    pid = ", globalPid INTEGER" if not simple else ""
    database.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, "
        f"correlationId INTEGER, demangledName INTEGER, shortName INTEGER{pid})"
    )
    database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    database.execute(
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER)"
    )
    if graphs:
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER)")
    names: dict[str, int] = {}
    for rank, document in run.documents.items():
        process = (100 + rank) << 24
        for event in document["traceEvents"]:
            start, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
            if event["cat"] == "kernel":
                name = names.setdefault(event["name"], len(names))
                row: tuple[Any, ...] = (start, end, rank, 7, 1, name, name, *(() if simple else (process,)))
                marks = ",".join("?" * len(row))
                database.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})", row)  # noqa: S608
            else:
                database.execute(
                    "INSERT INTO NVTX_EVENTS VALUES (?,?,59,?,?)", (start, end, event["name"], process + 5)
                )
    database.executemany("INSERT INTO StringIds VALUES (?,?)", [(i, name) for name, i in names.items()])
    database.commit()
    database.close()


@pytest.mark.parametrize("simple", [False, True])
def test_an_nsight_export_is_read_as_a_rank_for_each_device(tmp_path: Path, *, simple: bool) -> None:
    path = tmp_path / "report.sqlite"
    export(path, simple=simple)
    found = study([str(path)], Options())
    assert [trace.rank for trace in found.timeline.traces] == [0, 1]
    assert found.verdict.stragglers[0].rank == 1
    assert any("Nsight Systems" in note for note in found.notes)
    if not simple:
        assert len(found.timeline.labels) == 3


def test_whole_graphs_in_an_export_are_said(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    export(path, graphs=True)
    assert any("--cuda-graph-trace=node" in note for note in study([str(path)], Options()).notes)
    empty = tmp_path / "graphs.sqlite"
    database = sqlite3.connect(empty)
    database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER)")
    database.commit()
    database.close()
    with pytest.raises(InputError, match="--cuda-graph-trace=node"):
        study([str(empty)], Options())


def test_a_broken_sqlite_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + bytes(100))
    with pytest.raises(InputError, match="sqlite"):
        study([str(path)], Options())


def test_nan_times_never_reach_the_answer(tmp_path: Path) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    document["traceEvents"][0]["ts"] = math.nan
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(document))
    assert math.isfinite(study([str(path)], Options()).mean.step_s)


def test_kernels_without_arguments_take_them_from_the_operator_that_launched_them(tmp_path: Path) -> None:
    operator = {"Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 400, "dtype": "BFloat16",
                "Group size": 4, "Process Group Name": "1", "External id": 9}  # fmt: skip
    made = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "record_param_comms",
            "pid": 1,
            "tid": 1,
            "ts": 1.0,
            "dur": 1.0,
            "args": operator,
        },
        {
            "ph": "X",
            "cat": "kernel",
            "name": NCCL,
            "pid": 1,
            "tid": 1,
            "ts": 3.0,
            "dur": 5.0,
            "args": {"External id": 9},
        },
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": made}))
    (kind,) = read(path).kinds
    assert (str(kind.op), kind.size_bytes, kind.size_source, kind.ranks) == ("all-gather", 800.0, "argument", 4)


def test_custom_kernels_take_their_size_from_the_shapes_of_their_operator(tmp_path: Path) -> None:
    shapes = {"External id": 9, "Input Dims": [[], [4, 4096]], "Input type": ["", "c10::BFloat16"]}
    name = "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*)"
    made = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "_C_custom_ar::all_reduce",
            "pid": 1,
            "tid": 1,
            "ts": 1.0,
            "dur": 1.0,
            "args": shapes,
        },
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": 3.0,
            "dur": 5.0,
            "args": {"External id": 9},
        },
    ]
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": made}))
    (kind,) = read(path).kinds
    assert (kind.size_bytes, kind.size_source, str(kind.algorithm), kind.ranks) == (32768.0, "shapes", "two-shot", 8)


def big(count: int) -> bytes:
    """Return a trace of so many kernels in a row."""
    kernel = {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "dur": 5.0, "pid": 0,
              "tid": 7}  # fmt: skip
    listed = [{**kernel, "ts": 1000.0 + 10 * i, "args": {"stream": 7, "list": [{}, {}]}} for i in range(count)]
    return json.dumps({"schemaVersion": 1, "traceEvents": listed, "distributedInfo": {"rank": 3}}).encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"dur"', b"\x01dur"),
        (b'"args": {', b'"args": ['),
        (b"}}, {", b"}, {"),
        (b'"ts": ', b'"ts": {'),
        (b'"X"', b'"X'),
    ],
)
@pytest.mark.parametrize("block", [4096, 1 << 20])
def test_after_damage_reading_goes_on_at_the_next_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bytes, new: bytes, block: int
) -> None:
    monkeypatch.setattr(events, "blocks", lambda p: sources.blocks(p, block))
    text = big(3000)
    for place in (300, len(text) // 2, len(text) - 2000):
        at = text.index(old, place)
        text = text[:at] + new + text[at + len(old) :]
    path = tmp_path / "rank.json"
    path.write_bytes(text)
    found = read(path)
    assert 3000 - 12 <= found.events < 3000
    assert 3 <= found.lost <= 12
    assert found.rank == 3
    assert any("is damaged" in note for note in found.notes)


def test_damage_costs_time_in_proportion(tmp_path: Path) -> None:
    """Counted in decoded characters: every second event is damaged, in a file four times as long."""
    counts = []
    for size in (2000, 8000):
        text = re.sub(rb'("dur": 5.0)(.*?)("dur")', lambda m: m[1] + m[2] + b"\x01dur", big(size), flags=re.DOTALL)
        path = tmp_path / f"rank{size}.json"
        path.write_bytes(text)
        seen = 0
        plain = events._PATIENT.raw_decode

        def counted(whole: str, at: int, plain: Any = plain) -> Any:  # noqa: ANN401
            nonlocal seen
            try:
                found = plain(whole, at)
            except json.JSONDecodeError as error:
                seen += error.pos - at
                raise
            seen += found[1] - at
            return found

        with mock.patch.object(events, "_PATIENT", SimpleNamespace(raw_decode=counted)):
            found = read(path)
        assert found.lost == size // 2
        counts.append(seen / len(text))
    assert counts[1] < 1.5 * counts[0]


def test_the_first_line_says_what_damage_took_and_a_fifth_is_too_much(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    text = big(1000)
    path.write_bytes(text.replace(b'"dur"', b"\x01dur", 20))
    found = study([str(path)], Options())
    assert found.lost == pytest.approx(0.02)
    assert (
        verdict(found)[0] == trace_brief.brief(found, next_commands=[]).verdict[0] == "Damage took 2 % of the events."
    )
    path.write_bytes(text.replace(b'"dur"', b"\x01dur", 300))
    with pytest.raises(WeakEvidenceError, match=r"30 % of its events are lost to damage \(300 of 1000\)"):
        study([str(path)], Options())


def test_a_time_of_four_hundred_digits_is_a_lost_event(tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_bytes(big(10).replace(b"1010.0", b"9" * 400))
    found = read(path)
    assert (found.events, found.lost) == (9, 1)


@pytest.mark.parametrize(("written", "ranks"), [("[0, 1]", (0, 1)), ("[0,,1]", None), (f"[{'9' * 5000}]", None)])
def test_the_ranks_of_a_group_are_numbers_or_none(tmp_path: Path, written: str, ranks: tuple[int, ...] | None) -> None:
    document = json.loads(big(3))
    document["distributedInfo"] |= {"pg_config": [{"pg_name": "0", "ranks": written}], "world_size": 10**30}
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(document))
    assert read(path).header.groups.get("0") == ranks
    assert read(path).header.world_size is None


@pytest.mark.parametrize(
    "key", ["device", "External id", "In msg nelems", "dtype", "Process Group Name", "Seq", "bytes"]
)
@pytest.mark.parametrize("value", [[1], {"a": [2]}])
def test_a_list_where_a_number_belongs_is_left_out(tmp_path: Path, key: str, value: object) -> None:
    plain = {"ph": "X", "pid": 1, "tid": [3], "ts": 1.0, "dur": 0.5, "args": {key: value}}
    made = [{**plain, "cat": "kernel", "name": NCCL}, {**plain, "cat": "cpu_op", "name": "record_param_comms"},
            {**plain, "cat": "kernel", "name": "gemm"}]  # fmt: skip
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps({"traceEvents": made}))
    assert (len(read(path).calls), read(path).events) == (1, 3)

"""`nhalf fit` from its command down: gates, comparisons, link files, marks, and what a log leaves open."""

from __future__ import annotations

import gc
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from nhalf.catalog import store
from nhalf.cli.fit import fit as command
from nhalf.errors import InputError, NhalfError, NoAnswerError, WeakEvidenceError
from nhalf.evidence import gate
from nhalf.evidence.comparison import compare
from nhalf.evidence.fit import Fit, fit
from nhalf.evidence.reading import read
from nhalf.report.fit_links import link_tables

if TYPE_CHECKING:
    from nhalf.breakdown import Array


def doublings(first: int, last: int) -> Array:
    """Return the powers of two from 2^first up to, and without, 2^last."""
    sizes: Array = np.exp2(np.arange(first, last, dtype=np.float64))
    return sizes


SIZES = doublings(3, 29)


def columns(latency_us: float = 15.6, bandwidth_gb: float = 250.0, *, ranks: int = 8, seed: int = 1) -> dict[str, Any]:
    noise = np.exp(0.005 * np.random.default_rng(seed).standard_normal(len(SIZES)))
    times = (latency_us * 1e-6 + SIZES / (bandwidth_gb * 1e9)) * noise
    return {"op": ["all-reduce"] * len(SIZES), "size_bytes": SIZES, "ranks": [ranks] * len(SIZES), "seconds": times}


def write_csv(path: Path, found: dict[str, Any], *, without: tuple[str, ...] = ()) -> str:
    names = [name for name in found if name not in without]
    rows = zip(*(found[name] for name in names), strict=True)
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def log(tmp_path: Path) -> str:
    return write_csv(tmp_path / "times.csv", columns())


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def failed(result: Result, kind: type[NhalfError]) -> str:
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


# ------------------------------------------------------------------------------------------------- the command


def test_the_verdict_comes_first_and_the_next_command_last(log: str) -> None:
    result = run(log)
    assert result.exception is None
    lines = result.output.splitlines()
    assert re.match(r"Latency \(alpha\) 15\.\d us \(15\.\d to 15\.\d us\), bandwidth \(beta\) 25\d GB/s", lines[0])
    assert any(line.startswith("Next: nhalf fit") for line in lines)
    assert run(log, "--detail").output.startswith("all-reduce on 8 ranks: 15.")


def test_the_document_is_json_without_surprises(log: str) -> None:
    document = json.loads(run(log, "--json").output)
    assert document["schema"] == "nhalf.fit/2"
    (found,) = document["fits"]
    assert found["latency_low_s"] < found["latency_s"] < found["latency_high_s"]
    assert found["identifiable"] == {"latency": True, "bandwidth": True}


def test_what_a_log_leaves_open_is_given_by_flags(tmp_path: Path) -> None:
    bare = write_csv(tmp_path / "bare.csv", columns(), without=("ranks",))
    document = json.loads(run(bare, "--ranks", "4", "--nodes", "1", "--mode", "graph", "--json").output)
    (found,) = document["fits"]
    assert (found["ranks"], found["nodes"], found["mode"]) == (4, 1, "graph")
    assert "given" in [note["code"] for note in found["notes"]]


def test_evidence_too_weak_is_said_and_leaves_with_4(tmp_path: Path) -> None:
    short = {name: cells[:1] for name, cells in columns().items()}
    result = run(write_csv(tmp_path / "short.csv", short))
    assert "one size only (8 B)" in failed(result, WeakEvidenceError)
    assert "all_reduce_perf -b 8 -e 1G -f 2 -g 8" in result.output


def test_a_model_says_from_which_batch_bytes_count(log: str) -> None:
    text = " ".join(run(log, "--model", "llama-3.1-70b", "--batch", "1").output.split())
    found = re.search(r"Latency counts more than bytes up to ([\d.]+) MiB: batch (\d+) of llama-3.1-70b", text)
    assert found is not None
    assert int(found[2]) == pytest.approx(float(found[1]) * 2**20 / 16384, rel=0.02)
    text = " ".join(run(log, "--model", "llama-3.1-70b", "--batch", "1", "--detail").output.split())
    assert f"more than half of the time from batch {found[2]} on" in text


def test_a_model_marks_its_messages(log: str) -> None:
    document = json.loads(run(log, "--model", "llama-3.1-70b", "--batch", "1,64", "--json").output)
    small, large = document["marks"]
    assert (small["batch"], small["size_bytes"]) == (1, 16384)
    assert small["low_s"] < small["time_s"] < small["high_s"]
    assert small["per_token_s"] == pytest.approx(160 * small["time_s"])
    assert (small["on_floor"], large["size_bytes"]) == (True, 64 * 16384)


def test_a_flag_that_the_log_contradicts_is_said_and_not_taken(log: str) -> None:
    (found,) = json.loads(run(log, "--ranks", "4", "--json").output)["fits"]
    assert found["ranks"] == 8
    (text,) = [note["text"] for note in found["notes"] if note["code"] == "not-taken"]
    assert text == "not taken as given: ranks 4 (the log says 8)"
    (found,) = json.loads(run(log, "--ranks", "8", "--json").output)["fits"]
    assert "not-taken" not in [note["code"] for note in found["notes"]]


def test_no_ranks_at_all_are_unknown(tmp_path: Path) -> None:
    (found,) = json.loads(run(write_csv(tmp_path / "none.csv", columns(ranks=0)), "--json").output)["fits"]
    assert found["ranks"] is None
    assert "'0' is no count of ranks: say --ranks" in [note["text"] for note in found["notes"]]


@pytest.mark.parametrize("arguments", [[""], ["{log}", "--compare", ""]])
def test_an_empty_name_is_refused(log: str, arguments: list[str]) -> None:
    assert "a name is empty" in failed(run(*(each.format(log=log) for each in arguments)), InputError)


def test_logs_without_a_pair_of_curves_are_weak_evidence(log: str, tmp_path: Path) -> None:
    other = write_csv(tmp_path / "other.csv", columns(ranks=4))
    result = run(log, "--compare", other)
    assert "no curve of one log has a partner in the other" in failed(result, WeakEvidenceError)
    assert "the other log holds all-reduce on 4 ranks" in " ".join(result.output.split())


def test_a_log_without_a_row_names_the_line_and_the_reason(tmp_path: Path) -> None:
    bad = {**columns(), "seconds": -columns()["seconds"]}
    text = failed(run(write_csv(tmp_path / "bad.csv", bad)), InputError)
    assert "bad.csv:2: there is nothing to fit" in text
    assert "is not a time above 0" in text


def test_a_file_that_cannot_be_read_is_named_beside_the_answer_of_the_others(log: str, tmp_path: Path) -> None:
    prose, missing = tmp_path / "prose.txt", tmp_path / "missing.txt"
    prose.write_text("hello\n", encoding="utf-8")
    alone = json.loads(run(log, "--json").output)
    result = run(log, str(prose), "--json")
    assert isinstance(result.exception, InputError)
    assert str(result.exception).startswith(f"{prose}: this is not a benchmark log")
    found = json.loads(result.output)
    assert found["fits"] == alone["fits"]
    assert found["skipped"] == [{"file": str(prose), "line": 0, "why": "this is not a benchmark log that nhalf knows"}]
    both = run(str(prose), log, str(missing))
    assert isinstance(both.exception, InputError)
    assert both.exception.what.startswith("2 files cannot be read: ")
    for path, why in ((prose, "this is not a benchmark log"), (missing, "there is no such file")):
        assert f"{path}: {why}" in both.exception.what
        assert f"{path}: {why}" in " ".join(both.stdout.split())


def test_a_tripped_gate_counts_more_than_a_file_that_cannot_be_read(log: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.txt")
    result = run(log, missing, "--fail-if", "latency>1us")
    assert isinstance(result.exception, NoAnswerError)
    assert f"warning: {missing}: there is no such file" in result.stderr
    assert isinstance(run(log, missing, "--fail-if", "latency>1s").exception, InputError)


def test_where_no_file_can_be_read_there_is_no_answer(tmp_path: Path) -> None:
    result = run(str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))
    assert isinstance(result.exception, InputError)
    assert "a.txt: there is no such file" in str(result.exception)
    assert result.output == ""


def test_a_mark_in_a_gap_has_no_regime(tmp_path: Path) -> None:
    kept = (SIZES <= 256) | (SIZES >= 2**24)
    gapped = {name: np.asarray(cells)[kept] for name, cells in columns().items()}
    log = write_csv(tmp_path / "gap.csv", gapped)
    document = json.loads(run(log, "--model", "llama-3.1-70b", "--batch", "1,2048", "--json").output)
    assert [mark["on_floor"] for mark in document["marks"]] == [None, False]
    result = run(log, "--detail")
    assert "between 256 B and 16 MiB, where no size was run" in " ".join(result.output.split())
    assert isinstance(run(log, "--fail-if", "double-floor-size>1MB").exception, WeakEvidenceError)


# ------------------------------------------------------------------------------------------------- gates


@pytest.mark.parametrize(
    ("text", "trips"),
    [
        ("latency>30us", False),
        ("latency>10us", True),
        ("bandwidth<300GB/s", True),
        ("bandwidth < 2000 Gb/s", False),
        ("floor>=10us", True),
        ("half-size>1MB", True),
        ("double_floor_size<1MB", False),
        ("misfit>10%", False),
        ("time(16KiB)>10us", True),
        ("time(1GiB) <= 1ms", False),
    ],
)
def test_gates_trip_where_they_should(text: str, trips: bool) -> None:  # noqa: FBT001
    assert bool(gate.parse(text).tripped(fit(columns()))) is trips


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("latency", "'latency' is no limit"),
        ("latency=30us", "is no limit"),
        ("latenzy>30us", "'latenzy' is no value here.*Did you mean 'latency'"),
        ("misfit>10", "can be read as 10 % or as 1000 %"),
        ("latency>30", "'30' has no unit"),
        ("latency>30GB/s", "is a rate, not a time"),
        ("time>30us", "time alone has a size, and needs one"),
        ("latency(8B)>30us", "time alone has a size"),
    ],
)
def test_bad_gates_are_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        gate.parse(text)


def test_a_gate_on_what_was_not_measured_is_weak_evidence() -> None:
    short = fit({name: cells[:8] for name, cells in columns().items()})
    with pytest.raises(WeakEvidenceError, match="no curve has a bandwidth"):
        gate.parse("bandwidth<1GB/s").tripped(short)


def test_a_tripped_gate_leaves_with_3_after_the_answer(log: str) -> None:
    result = run(log, "--fail-if", "latency>10us", "--fail-if", "bandwidth<1GB/s")
    assert "latency>10us" in failed(result, NoAnswerError)
    assert "bandwidth<1GB/s:" not in str(result.exception)
    assert "Tripped: latency>10us: all-reduce on 8 ranks: latency 15." in " ".join(result.output.split())


# ------------------------------------------------------------------------------------------------- comparisons


def moved(this: Fit, other: Fit) -> dict[str, bool | None]:
    return {change.name: change.moved for change in compare(this, other).changes}


def test_two_runs_of_one_machine_are_inside_the_noise() -> None:
    assert moved(fit(columns(seed=1)), fit(columns(seed=2))) == {"latency": False, "bandwidth": False}


def test_a_slower_link_moved_the_bandwidth_only() -> None:
    assert moved(fit(columns(bandwidth_gb=180)), fit(columns(seed=2))) == {"latency": False, "bandwidth": True}


def test_a_slower_start_moved_the_latency_only() -> None:
    assert moved(fit(columns(latency_us=21)), fit(columns(seed=2))) == {"latency": True, "bandwidth": False}


def test_curves_without_a_partner_and_unlike_curves_are_said() -> None:
    alone = compare(fit(columns(ranks=4)), fit(columns(ranks=8)))
    assert alone.changes == ()
    (doubt,) = alone.doubts
    assert doubt.startswith("all-reduce on 4 ranks has no partner of its operation and ranks")
    assert doubt.endswith("the other log holds all-reduce on 8 ranks")
    graph = columns() | {"mode": ["graph"] * len(SIZES)}
    assert "mode (unknown and graph) differ" in compare(fit(graph), fit(columns())).doubts[0]


def test_the_command_says_what_moved(log: str, tmp_path: Path) -> None:
    other = write_csv(tmp_path / "other.csv", columns(bandwidth_gb=180))
    result = run(log, "--compare", other)
    text = " ".join(result.output.split())
    assert re.search(r"latency unchanged \([\d.]+ to 1\.\d+x\), bandwidth 1\.4x \(1\.3 to 1\.5\)", text)
    whole = " ".join(run(log, "--compare", other, "--detail").output.split())
    assert "it moved, outside the noise" in whole
    assert "inside the noise" in whole
    document = json.loads(run(log, "--compare", other, "--json").output)["compare"]
    assert document["bandwidth_ratio_low"] < 250 / 180 < document["bandwidth_ratio_high"]
    assert document["latency_ratio_low"] < 1.0 < document["latency_ratio_high"]


def test_two_logs_that_are_named_are_compared_with_the_first(log: str, tmp_path: Path) -> None:
    before = write_csv(tmp_path / "before.csv", columns(latency_us=5.0, bandwidth_gb=80))
    document = json.loads(run(before, log, "--compare", "--model", "llama-3.1-70b", "--json").output)
    assert document["compare"]["latency_ratio"] == pytest.approx(3.12, rel=0.02)
    (crossing,) = document["crossings"]
    truth = 10.6e-6 / (1 / 80e9 - 1 / 250e9)
    assert (crossing["a"], crossing["b"]) == ("before.csv", "times.csv")
    assert crossing["low_bytes"] < truth < crossing["high_bytes"]
    assert crossing["batch"] == pytest.approx(crossing["size_bytes"] / 16384, abs=1)
    assert "there is one log" in failed(run(log, "--compare"), InputError)
    assert "FILE..." not in run(before, log, "--compare").output


def test_a_floor_ten_times_above_any_plausible_one_waits() -> None:
    (slow,) = fit(columns(600.0) | {"mode": ["host"] * len(SIZES)}, system=store.system("h100-sxm")[0]).curves
    (text,) = [note.text for note in slow.notes if note.code == "not-the-link"]
    assert "over 90 % of this is waiting for another rank (skew, host, scheduling), no link change helps" in text
    (less,) = fit(columns(300.0), system=store.system("h100-sxm")[0]).curves
    (text,) = [note.text for note in less.notes if note.code == "not-the-link"]
    assert "waiting" not in text
    assert slow.misconfigured  # nothing is written from it, so that no link swallows the waiting


# ------------------------------------------------------------------------------------------------- links


def messages(latency_us: float = 5.0, bandwidth_gb_s: float = 40.0) -> dict[str, object]:
    return columns(latency_us, bandwidth_gb_s, ranks=2) | {"op": ["send-recv"] * len(SIZES), "nodes": [1] * len(SIZES)}


def test_messages_between_two_ranks_are_a_link_with_intervals() -> None:
    link = link_tables(fit(messages()), date="2026-11-29")["fabric"]["intra_node"]
    assert float(link["latency"]["value"].split()[0]) == pytest.approx(5e-6, rel=0.02)
    assert float(link["bandwidth"]["value"].split()[0]) == pytest.approx(40e9, rel=0.02)
    assert float(link["latency"]["low"].split()[0]) < 5e-6 < float(link["latency"]["high"].split()[0])
    assert link["bandwidth"]["direction"] == "one_way"


def test_a_collective_is_no_link() -> None:
    assert link_tables(fit(columns() | {"nodes": [1] * len(SIZES)}), date="2026-11-29") == {}


def test_rings_over_every_nic_of_a_node_are_not_above_the_link() -> None:
    across = columns(46.0, 192.0, ranks=16) | {"nodes": [2] * len(SIZES)}
    system, _ = store.system("h100-sxm")
    (plain,) = fit(across, system=system).curves
    assert "above-the-link" not in [note.code for note in plain.notes]
    faster = columns(46.0, 260.0, ranks=16) | {"nodes": [2] * len(SIZES)}
    (reduced,) = fit(faster, system=system).curves
    assert "above-the-link" in [note.code for note in reduced.notes]


def test_microseconds_read_as_seconds_are_an_error_of_units(tmp_path: Path) -> None:
    given = columns()
    wrong = given | {"seconds": given["seconds"] * 1e6}
    result = run(write_csv(tmp_path / "wrong.csv", wrong))
    assert "an error of units" in " ".join(result.output.split())
    assert "counts more than" not in result.output


def test_the_next_command_uses_the_cluster_that_was_written(log: str, tmp_path: Path) -> None:
    target = str(tmp_path / "mine.toml")
    result = run(log, "-o", target, "--model", "qwen3-32b", "--like", "h100-sxm")
    assert f"wrote {target}" in result.stderr
    assert f"nhalf decode qwen3-32b --on {target} --tp 8" in " ".join(result.stdout.replace("\\\n", "").split())


def test_after_a_log_of_sockets_nobody_is_sent_to_nccl_tests() -> None:
    log = Path(__file__).parents[1] / "logs" / "iperf3" / "iperf3.json"
    told = " ".join(run(str(log), "--detail").stdout.split())
    assert told.endswith("such as: nhalf measure --connect OTHER_HOST # after nhalf measure --listen HOST there")


def test_wrong_results_stand_in_the_first_line_and_no_link_is_taken_from_them() -> None:
    log = Path(__file__).parents[1] / "logs" / "nccl_tests" / "wrong.txt"
    told = " ".join(run(str(log)).stdout.split())
    assert told.startswith("all-reduce on 8 ranks, 1 node, host (back to back): WRONG RESULTS at 64 KiB")
    assert "take no link from this log, and run again. Next: all_reduce_perf -b 8" in told
    assert "mycluster.toml" not in told


def test_a_log_without_ranks_writes_no_file(tmp_path: Path) -> None:
    text = "size_bytes,seconds\n" + "".join(f"{size},{1e-5 + size / 1e10}\n" for size in SIZES)
    short = tmp_path / "short.csv"
    short.write_text(text, encoding="utf-8")
    target = tmp_path / "mine.toml"
    result = run(str(short), "--op", "all-reduce", "-o", str(target), "--like", "h100-sxm")
    assert "no log holds a link or a collective that a step waits for" in failed(result, WeakEvidenceError)
    assert not target.exists()


# ------------------------------------------------------------------------------------------------- samples of logs


def test_read_gives_samples_that_fit_takes(log: str) -> None:
    samples = read(log)
    assert len(samples) == len(SIZES)
    assert (samples[0].op, samples[0].ranks, samples[0].size_bytes) == ("all-reduce", 8, 8.0)
    assert fit(samples).curves[0].floor_s == pytest.approx(15.6e-6, rel=0.02)


def test_read_asks_for_what_the_log_leaves_open(tmp_path: Path) -> None:
    bare = write_csv(tmp_path / "bare.csv", columns(), without=("ranks",))
    with pytest.raises(InputError, match="the rank count cannot be read from the log"):
        read(bare)
    assert {sample.ranks for sample in read(bare, ranks=4)} == {4}


def test_the_collector_is_left_as_it_was(log: str, tmp_path: Path) -> None:
    assert gc.isenabled()
    run(log)
    run(str(tmp_path / "nowhere.log"))
    assert gc.isenabled()

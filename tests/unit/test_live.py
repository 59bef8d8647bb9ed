"""`nhalf live` without a network: pages, windows, the split, the test for drift, and causes on made histories."""

from __future__ import annotations

import gzip
import json
import math
import random
import time
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.live_histories import FULL, START, Engine, history, steady

import nhalf
from nhalf.errors import InputError
from nhalf.files.reading import read_tail
from nhalf.live.alerts import rules
from nhalf.live.answer import Answer, answer
from nhalf.live.collectives import calls, parted, traced
from nhalf.live.drift import Drift, limit
from nhalf.live.expected import Expected
from nhalf.live.exporter import exposition
from nhalf.live.exposition import samples
from nhalf.live.reading import LAST, Reading, reading, served_model
from nhalf.live.split import communication, excess
from nhalf.live.watch import Watch, decode_step
from nhalf.live.window import NothingError, Window, pooled, window

SCRAPES = Path(__file__).parents[1] / "golden" / "scrapes"
MINUTE = 60.0


def scrape(name: str, at: float = START) -> Reading:
    found = reading((SCRAPES / name).read_text(), at)
    assert found is not None
    return found


def between(engine: str, first: int) -> Window:
    """Return the window between two scrapes a minute apart."""
    return window(scrape(f"{engine}-t{first}.prom"), scrape(f"{engine}-t{first + 1}.prom", START + MINUTE))


def scenario() -> nhalf.Scenario:
    return nhalf.load("llama-3.3-70b", on="h100-sxm", tp=8)


# ------------------------------------------------------------------------------------------ the scrapes' known truth


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
@pytest.mark.parametrize(("first", "mean_ms", "decode_ms"), [(0, 14.18, 12.5), (1, 15.98, 14.1)])
def test_the_truth_of_the_scrapes_lies_in_what_is_inferred(
    engine: str, first: int, mean_ms: float, decode_ms: float
) -> None:
    found = between(engine, first)
    assert 1e3 * found.step_s == pytest.approx(mean_ms, rel=0.02)  # of finished requests it lags behind
    assert found.running[1] <= 32.0 <= found.running[2]
    assert found.running[0] == pytest.approx(32.0, rel=0.02)
    assert found.context[1] <= 1792.0 <= found.context[2]
    _, low, high = decode_step(found)
    assert low <= 1e-3 * decode_ms <= high


def test_the_share_of_steps_with_prefill_is_that_of_the_histogram() -> None:
    assert between("vllm", 0).prefill_share == pytest.approx(258 / 4230, rel=0.01)


@pytest.mark.parametrize(("name", "decode_ms"), [("trtllm-iter-t1.json", 12.5), ("trtllm-iter-t2.json", 14.1)])
def test_records_of_iterations_tell_the_pure_step_at_once(name: str, decode_ms: float) -> None:
    found = window(None, scrape(name))
    assert 1e3 * found.decode_s == pytest.approx(decode_ms, rel=0.01)
    assert found.running[0] == pytest.approx(32.0)
    assert found.context[0] == pytest.approx(1792.0)


def test_records_that_were_seen_are_not_counted_again() -> None:
    with pytest.raises(NothingError):
        window(scrape("trtllm-iter-t1.json"), scrape("trtllm-iter-t1.json", START + 10))


# ------------------------------------------------------------------------------------------------------------- pages


def passes(first: int, count: int) -> str:
    """Return lines of Dynamo's trace of forward passes: 20 ms with 64 requests, every tenth 50 ms with a prompt."""
    lines = []
    for number in range(first, first + count):
        prompt = 1000 if number % 10 == 0 else 0
        done = {"num_prefill_requests": int(prompt > 0), "sum_prefill_tokens": prompt, "num_decode_requests": 64,
                "sum_decode_kv_tokens": 64 * 1500}  # fmt: skip
        waits = {"num_prefill_requests": 3, "num_decode_requests": 0}
        fpm = {"wall_time": 0.05 if prompt else 0.02, "scheduled_requests": done, "queued_requests": waits}
        event = {"schema": "dynamo.fpm.trace.v1", "observed_at_unix_ms": 1_764_500_000_000 + 20 * number, "fpm": fpm}
        lines.append(json.dumps({"timestamp": number, "event": event}))
    return "\n".join([*lines, ""])


def test_a_trace_of_forward_passes_tells_the_pure_step_and_what_is_new() -> None:
    before = reading(passes(1, 200) + '{"event": {"fpm": {"wall_time": 1', START)
    assert before is not None
    found = window(None, before)
    assert found.engine == "dynamo"
    assert (found.decode_s, found.prefill_share) == pytest.approx((0.02, 0.1))
    assert (found.running[0], found.context[0], found.waiting) == (64, 1500, 3)
    last = before.totals[LAST]
    after = reading(passes(1, 250), START + 10, last)
    assert after is not None
    assert window(before, after).steps == 50
    with pytest.raises(NothingError, match="no step"):
        window(after, reading(passes(1, 250), START + 20, after.totals[LAST]))  # type: ignore[arg-type]


def test_what_is_packed_is_read_as_far_as_it_is_written(tmp_path: Path) -> None:
    text, file = passes(1, 20_000), tmp_path / "fpm.jsonl.gz"
    packed = gzip.compress(text.encode())
    file.write_bytes(packed[:-1000])
    tail = read_tail(file, 100_000)
    assert len(tail) <= 100_000
    assert tail.splitlines()[0] in text.splitlines()
    assert int(json.loads(tail.splitlines()[-2])["timestamp"]) > 19_000
    file.write_bytes(packed)
    assert text.endswith(read_tail(file, 100_000))
    file.write_bytes(gzip.compress(b"0" * (80 * 2**20)))
    with pytest.raises(InputError, match="unpacks to far more"):
        read_tail(file, 100_000)


def test_both_spellings_of_counters_and_any_order_of_labels_are_read() -> None:
    text = 'a_total{x="1",y="}\\"\\n"} 1.25e+06 # {id="9"} 1\na{y="z", x="2"} 3 1700000000\nb NaN\nb +Inf\nab 4\n'
    assert [(each.labels, each.value) for each in samples(text, {"a", "b"})] == [
        ({"x": "1", "y": '}"\n'}, 1.25e6), ({"y": "z", "x": "2"}, 3.0)
    ]  # fmt: skip


@pytest.mark.parametrize("line", ["a{", 'a{x="1"', "a{x=1} 2", "a", "a one", "a 1_000", "{} 1", 'a{x="1" 2}'])
def test_broken_lines_are_passed_over(line: str) -> None:
    assert list(samples(f"{line}\na 5\n", {"a"}))[-1].value == 5.0
    assert len(list(samples(f"{line}\n", {"a"}))) == 0


def test_ranks_are_added_up_and_copies_of_a_rank_are_not() -> None:
    page = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}"}} 8\n' for dp in range(2) for tp in range(4)
    )
    found = reading(page, START)
    assert found is not None
    assert (found.levels["in_flight"], found.ranks) == (16.0, 2)


@pytest.mark.parametrize("text", ["", "hello", "[1, 2]", "{", '[{"a": 1}]', "<html>", "up 1\n", "[" * 100_000])
def test_a_page_of_something_else_is_none(text: str) -> None:
    assert reading(text, START) is None


def test_what_is_served_is_read_from_the_page_of_models() -> None:
    assert served_model('{"data": [{"id": "short", "root": "org/model"}]}') == "org/model"
    assert [served_model(text) for text in ("", "[]", '{"data": [{"id": 5}]}')] == ["", "", ""]


@pytest.mark.parametrize("seed", range(5))
def test_pages_with_damage_never_raise(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  repeated, not secret
    watch = Watch(name="x", every=10.0)
    names = [path.name for path in sorted(SCRAPES.iterdir())]
    for turn in range(60):
        text = list((SCRAPES / rng.choice(names)).read_text())
        for _ in range(rng.randrange(40)):
            text[rng.randrange(len(text))] = rng.choice('{}",\n9.eN-[]\x00')
        found = reading("".join(text), START + turn)
        if found is not None and not found.dump:
            watch.take(found)
            answer(watch, START + turn)


# ------------------------------------------------------------------------------------------------ windows and watches


def test_a_restart_is_a_gap_and_no_step() -> None:
    watch = Watch(name="x", every=MINUTE)
    watch.take(scrape("vllm-t1.prom"))
    watch.take(scrape("vllm-t0.prom", START + MINUTE))
    assert not watch.seen
    assert [gap.why for gap in watch.gaps] == ["its counters began anew"]
    assert watch.restarts == [START + MINUTE]


def test_gaps_of_one_reason_are_one_and_nothing_is_lost_after_them() -> None:
    watch = Watch(name="x", every=MINUTE)
    watch.take(scrape("vllm-t0.prom"))
    for turn in range(1, 4):
        watch.miss(START + 10 * turn, "nothing listens there")
    watch.take(scrape("vllm-t1.prom", START + MINUTE))
    assert [(gap.start, gap.end) for gap in watch.gaps] == [(START, START + 30)]
    assert watch.seen[0].window.step_s == pytest.approx(14.18e-3, rel=0.005)


def test_windows_together_are_their_mean_by_steps() -> None:
    first, second = between("vllm", 0), between("vllm", 1)
    both = pooled([first, second])
    assert both.steps == first.steps + second.steps
    assert first.step_s < both.step_s < second.step_s


def test_a_scrape_and_its_prediction_take_20_ms_of_processor_time() -> None:
    pages = [(SCRAPES / f"vllm-t{turn}.prom").read_text() for turn in range(3)]
    took = []
    for _ in range(5):
        watch = Watch(name="x", every=MINUTE, expected=Expected(scenario=scenario()))
        for turn, page in enumerate(pages):
            begin = time.process_time()
            found = reading(page, START + MINUTE * turn)
            assert found is not None
            watch.take(found)
            took.append(time.process_time() - begin)
        assert len(watch.seen) == 2
    assert sorted(took)[len(took) // 2] < 0.02


def watched(cause: str, kind: str = "vllm", seed: int = 0, after: int = 20) -> tuple[Watch, Answer]:
    """Return a watch over a history of 100 windows and some more after its change, and its answer."""
    made = steady(FULL) if cause == "nothing" else history(cause, full=True, at=1000.0)
    engine = Engine(made, seed=seed, kind=kind)
    watch = Watch(name="x", every=10.0, expected=Expected(scenario=scenario()))
    for turn in range(1, 101 + after):
        engine.until(10.0 * turn)
        found = reading(engine.page(kind), START + 10.0 * turn)
        assert found is not None
        watch.take(found)
    return watch, answer(watch, START + 10.0 * (100 + after))


def test_parts_with_a_value_add_up_to_the_token() -> None:
    watch, found = watched("nothing", after=0)
    assert found.seen is not None
    known = sum(part.time_s for part in found.parts if part.time_s is not None)
    assert known == pytest.approx(found.seen.window.token_s)
    straggler = next(part for part in found.parts if part.name == "straggler")
    assert straggler.time_s is None
    assert straggler.high_s == pytest.approx(excess(found.seen)[2])
    assert [each.code for each in found.findings] == ["as-predicted"]
    assert watch.drift is not None
    assert not watch.drift.shifts


@pytest.mark.parametrize("kind", ["vllm", "trtllm"])
def test_ten_microseconds_an_all_reduce_are_found_in_three_minutes(kind: str) -> None:
    watch, found = watched("constant-added", kind, after=18)
    assert watch.drift is not None
    [shift] = watch.drift.shifts
    assert shift.low_s <= 1.75e-3
    assert shift.high_s >= 1.5e-3
    assert shift.since == pytest.approx(START + 1000.0, abs=10.0)
    assert found.findings[0].code == "constant-added"
    assert "cannot tell a slow link from a slow rank" in found.findings[0].text


@pytest.mark.parametrize(
    ("cause", "kind"),
    [("longer-prompts", "sglang"), ("fuller-batch", "dynamo"), ("speculation", "vllm"), ("kv-pressure", "vllm"),
     ("restarted", "trtllm")],
)  # fmt: skip
def test_the_cause_is_named(cause: str, kind: str) -> None:
    assert watched(cause, kind)[1].findings[0].code == cause


# ------------------------------------------------------------------------------------------------------------- drift


def test_the_limit_is_that_of_the_mean_time_between_false_alarms() -> None:
    rng = np.random.default_rng(3)
    most, lengths = limit(500.0), []
    for _ in range(300):
        total, count = 0.0, 0
        while total <= most:
            total, count = max(total + rng.normal() - 0.5, 0.0), count + 1
        lengths.append(count)
    assert np.mean(lengths) == pytest.approx(500.0, rel=0.2)


def test_a_load_that_was_never_seen_is_no_drift() -> None:
    rng = np.random.default_rng(1)
    drift = Drift(prior=(1, 0, 0, 0), doubts=(0.15, 0.1, 0.1, 0.1), scale=0.012, every=10.0)
    for turn in range(200):
        batch = 1.0 if turn < 100 else 1.6
        assert drift.add(10.0 * turn, (1, batch, batch, 0), 0.012 * (0.9 + 0.2 * batch + 0.01 * rng.normal())) is None


def test_a_step_that_jumps_with_the_load_is_no_drift_and_what_is_added_on_top_is_found() -> None:
    rng, watch, found = np.random.default_rng(8), Watch(name="jumps", every=10.0), []
    for turn in range(1500):
        requests = float((40, 100, 60, 130, 85)[turn // 90 % 5]) * (1.0 + 0.02 * rng.normal())
        step_s = 9e-3 + 4e-5 * requests + (0.9e-3 if requests > 72 else 0.0) + (1.6e-3 if turn >= 1400 else 0.0)
        took = 800 * step_s * (1.0 + 0.01 * rng.normal())
        totals = {"steps": 800, "decode_steps": 800, "decode_s": took, "mixed_s": 0.0, "running_sum": 800 * requests,
                  "context_sum": 8e5 * requests, "context_steps": 800 * requests, "prompt_tokens": 0.0,
                  "accepted_sum": 800, LAST: turn + 1}  # fmt: skip
        if watch.take(Reading(at=START + 10.0 * turn, engine="trtllm", totals=totals, fresh=True)) is not None:
            found.append(turn)
    assert len(found) == 1
    assert 1400 < found[0] <= 1418  # three minutes


def test_one_window_that_went_wrong_is_no_drift() -> None:
    rng = np.random.default_rng(2)
    drift = Drift(prior=(1, 0, 0, 0), doubts=(0.15, 0.1, 0.1, 0.1), scale=0.012, every=10.0)
    for turn in range(200):
        off = 5.0 if turn == 150 else 0.0
        assert drift.add(10.0 * turn, (1, 1, 1, 0), 0.012 * (1 + off + 0.01 * rng.normal())) is None


# ------------------------------------------------------------------------------------------------- timed collectives


def dump(late: int | None, slower_us: float, size: int) -> str:
    """Return a dump of eight ranks: one arrives late by 10 us, or every collective takes longer."""
    lines = []
    for number in range(100):
        for rank in range(8):
            waits = 10.0 if late is not None and rank != late else 0.0
            perf = {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": size,
                    "coll_exec_time_us": round(15 + waits + slower_us)}  # fmt: skip
            lines.append(json.dumps({"header": {"id": "0x1", "rank": rank, "n_ranks": 8}, "coll_perf": perf}))
    return "\n".join([*lines, "{broken", '{"header": {}}'])


def test_an_inspector_tells_a_late_rank_from_a_slower_link() -> None:
    expected, seen = Expected(scenario=scenario()), between("vllm", 0)
    size = int(expected.collectives(seen.running[0])[0][1])
    found = calls(dump(5, 0.0, size))
    assert (found.slowest, found.ops) == ((5,), ("all-reduce",))
    late = communication(expected, seen, found)
    slow = communication(expected, seen, calls(dump(None, 10.0, size)))
    assert late is not None
    assert slow is not None
    assert late.straggler_s == pytest.approx(1.6e-3, rel=0.02)
    assert slow.straggler_s == pytest.approx(0.0)
    assert slow.beyond_s - late.beyond_s == pytest.approx(1.6e-3, rel=0.02)


@pytest.mark.parametrize(("late", "slower_us", "code"), [(5, 0.0, "slow-rank"), (None, 10.0, "slower-link")])
def test_a_dump_splits_what_was_added(late: int | None, slower_us: float, code: str) -> None:
    watch, _ = watched("constant-added")
    assert watch.expected is not None
    size = int(watch.expected.collectives(64.0)[0][1])
    watch.calls.append((START, calls(dump(late, slower_us, size))))
    assert answer(watch, START + 1200.0).findings[0].code == code


def test_traces_of_all_ranks_tell_who_is_late_as_a_dump_does() -> None:
    folder = Path(__file__).parents[1] / "golden" / "trace"
    words = [str(each) for each in sorted((folder / "tp2_slow1").iterdir())]
    assert parted([*words, "http://host:8000/metrics", __file__]) == (words, ["http://host:8000/metrics", __file__])
    slow, even = traced(words), traced([str(folder / "tp2_even")])
    assert slow is not None
    assert even is not None
    assert (slow.ops, slow.size_bytes.tolist(), slow.slowest) == (("all-reduce",), [2048.0], (1,))
    assert even.slowest == (-1,)
    # nhalf trace finds that the slow rank costs 35.5 ms a step, over eight calls.
    assert float(slow.wait_s[0]) == pytest.approx(35.5e-3 / 8, rel=0.1)
    assert float(even.wait_s[0]) < 0.5 * float(slow.wait_s[0])


def test_what_was_timed_at_other_sizes_splits_nothing_and_it_is_said() -> None:
    watch, _ = watched("constant-added")
    watch.calls.append((START, calls(dump(5, 0.0, 64))))
    found = answer(watch, START + 1500.0).findings[0]
    assert found.code == "constant-added"
    assert "of other sizes" in found.text


def test_a_file_for_the_textfile_collector_has_means_alone() -> None:
    line = 'nccl_collective_exec_time_microseconds{collective="AllReduce",message_size="16-17KB",nranks="8"} 12.5\n'
    found = calls(line)
    assert (found.ops, found.own_s[0], found.size_bytes[0]) == (("all-reduce",), 12.5e-6, 16384.0)
    assert math.isnan(found.wait_s[0])


# ------------------------------------------------------------------------------------------------- exporter and rules


def test_the_exporter_keeps_to_the_format() -> None:
    watch, found = watched("constant-added")
    odd = Answer(name='a"b\\c\nd', engine="vllm", seen=found.seen, parts=found.parts, findings=(), timed=None)
    page = exposition([found, odd])
    families = {family.name: family for family in text_string_to_metric_families(page)}
    steps = {sample.labels["kind"]: sample.value for sample in families["nhalf_step_seconds"].samples}
    assert steps["low"] < steps["predicted"] < steps["high"]
    assert {sample.labels["server"] for sample in families["nhalf_up"].samples} == {"x", 'a"b\\c\nd'}
    assert watch.seen


def test_no_family_is_there_twice_and_every_sample_is_of_one() -> None:
    lines = exposition([watched("nothing", after=0)[1]]).splitlines()
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert len(helped) == len(set(helped))
    assert {line.partition("{")[0] for line in lines if not line.startswith("#")} == set(helped)


def test_rules_have_predicted_thresholds_that_grow_with_the_load() -> None:
    watch, _ = watched("nothing", after=0)
    text = rules([watch])
    line = next(line for line in text.splitlines() if "inter_token_latency" in line)
    constant, slope = (float(part.split()[0]) for part in line.partition("> ")[2].split(" + ", 1))
    newest = watch.seen[-1]
    assert newest.predicted is not None
    at_load = constant + slope * newest.window.running[0]
    prefill = newest.window.step_s - newest.decode_s[1]
    assert at_load == pytest.approx(newest.predicted.high_s + prefill, rel=0.05)
    assert text.count("- alert:") == 3

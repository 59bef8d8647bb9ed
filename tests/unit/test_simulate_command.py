"""`nhalf simulate` as a user meets it: verdict first, the keys of the contract, one clear error."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import click
import pytest

from nhalf.cli.decode import decode
from nhalf.cli.simulate import simulate
from nhalf.decide import pacing, straggler_remedies
from nhalf.errors import InputError, NhalfError, NoAnswerError
from nhalf.simulate import kernels
from nhalf.simulate.programs import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = "160"
LINK = ("--latency", "5us", "--bandwidth", "50GB/s")
RING = ("all-reduce", "--ranks", "8", "--size", "16KiB", *LINK)


def invoke(*arguments: str) -> str:
    out = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": WIDTH, "NO_COLOR": "1"}), contextlib.redirect_stdout(out):
        simulate.main(list(arguments), standalone_mode=False)
    return out.getvalue()


def document(*arguments: str) -> Any:  # noqa: ANN401  JSON is whatever it is
    return json.loads(invoke(*arguments, "--json"))


def test_the_verdict_comes_first_and_the_number_second() -> None:
    lines = invoke(*RING).splitlines()
    assert lines[0] == "ring takes 70.6 us; 99 % of it is latency."
    assert lines[1] == "70.6 us by ring"
    assert lines[-1] == f"  nhalf simulate {' '.join(RING)} --draws 10000 --skew exponential:10us"


def test_the_page_says_the_path_the_law_and_the_check() -> None:
    page = invoke(*RING, "--algorithm", "ring,one-shot", "--straggler", "rank 3: 20us")
    assert "one-shot is the fastest of 2" in page
    assert "rank 3 starts 20 us late" in page
    assert "ranks start at different times, which the law does not know" in page
    assert "with the lateness of the last rank, 20 us, it says the same" in page
    assert "each contribution arrives exactly once (checked by bitmask)" in page


def test_the_document_has_the_keys_of_the_contract() -> None:
    (entry,) = document(*RING)["runs"]
    keys = ("algorithm", "ranks", "size_bytes", "ports", "protocol", "time_s", "messages", "law_s", "law_difference")
    assert [key for key in (*keys, "critical_path") if key not in entry] == []
    assert (entry["time_s"], entry["messages"]) == pytest.approx((7.057344e-05, 112))
    assert entry["law_difference"] == pytest.approx(0, abs=1e-9)
    assert sum(one["end_s"] - one["begin_s"] for one in entry["critical_path"]) == pytest.approx(entry["time_s"])
    assert document(*RING)["schema"] == "nhalf.simulate/2"


def test_all_algorithms_are_those_that_fit() -> None:
    names = [entry["algorithm"] for entry in document(*RING, "--algorithm", "all")["runs"]]
    assert "two-shot" in names
    assert "hierarchical" not in names  # nobody said how many ranks share a node


def test_a_system_takes_the_place_of_a_link() -> None:
    found = document(
        "all-reduce", "--ranks", "16", "--size", "16KiB", "--on", "h100-sxm", "--algorithm", "hierarchical"
    )
    assert found["network"].startswith("2 nodes of 8")
    assert found["runs"][0]["law_s"] is not None


def test_draws_stand_beside_theory() -> None:
    page = invoke(*RING, "--draws", "2000", "--skew", "exponential:10us")
    assert "mean x (1 + 1/2 + ... + 1/K)" in page
    (entry,) = document(*RING, "--draws", "2000", "--skew", "exponential:10us")["runs"]
    assert entry["draws"]["p99_s"] > entry["draws"]["p50_s"] > entry["time_s"]
    assert entry["draws"]["latest_s"] == pytest.approx(entry["draws"]["expected_latest_s"], rel=0.05)


def test_draws_say_what_becomes_of_lateness_and_the_document_too() -> None:
    asked = ("reduce", "--ranks", "8", "--size", "1MiB", *LINK, "--algorithm", "all", "--draws", "300")
    page = invoke(*asked, "--skew", "hiccup:2%:1ms")
    table = page.split("What becomes of the last rank's lateness", 1)[1].splitlines()
    rows = {line.split()[0]: line for line in table[2:4]}
    binomial, direct = document(*asked, "--skew", "hiccup:2%:1ms")["runs"]
    for entry in (binomial, direct):
        late = entry["draws"]["lateness"]
        assert f"{100 * late['passed_on']:.1f} %" in rows[entry["algorithm"]]
        assert rows[entry["algorithm"]].endswith(f"{late['dragged_ranks']:.2f}")
        mean = entry["draws"]["mean_s"] - entry["time_s"]
        assert late["passed_on"] == pytest.approx(mean / entry["draws"]["latest_s"])
    assert binomial["draws"]["lateness"]["hidden_share"] == 0 < direct["draws"]["lateness"]["hidden_share"]
    assert "hidden in: the draws that end sooner" in page
    assert "added in:" not in page
    assert ",passed_on,hidden_share," in invoke(*asked, "--skew", "hiccup:2%:1ms", "--csv").splitlines()[0]


def test_draws_of_every_algorithm_fit_a_narrow_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.WIDTH", "80")
    page = invoke(*RING, "--algorithm", "all", "--draws", "50", "--skew", "exponential:10us")
    assert max(map(len, page.splitlines())) <= 80
    assert any(line.startswith("recursive-doubling ") for line in page.splitlines())


def test_draws_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "late.txt").write_text("0us\n100us\n", encoding="utf-8")
    (entry,) = document(*RING, "--draws", "400", "--skew", str(tmp_path / "late.txt"))["runs"]
    assert entry["draws"]["expected_latest_s"] == pytest.approx(100e-6 * (1 - 0.5**8))


def test_a_timeline_is_a_trace_with_an_arrow_for_each_message(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    invoke(*RING, "--timeline", str(path))
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    kinds = [event["ph"] for event in events]
    assert (kinds.count("X"), kinds.count("s"), kinds.count("f")) == (224, 112, 112)
    starts = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
    ends = {event["id"]: event["ts"] for event in events if event["ph"] == "f"}
    assert max(ends.values()) == pytest.approx(70.57344, abs=2e-3)
    assert all(ends[flow] > starts[flow] for flow in starts)


@pytest.mark.parametrize(
    "more",
    [
        ("--algorithm", "all", "--protocol", "eager", "--straggler", "rank 3: 20us"),
        ("--algorithm", "double-tree,one-shot", "--ports", "fair", "--straggler", "rank 1: link 3x"),
        ("--algorithm", "two-shot", "--latency", "0us", "--bandwidth", "9999TB/s"),
    ],
)
def test_a_viewer_drops_no_slice_and_no_arrow_of_a_timeline(tmp_path: Path, more: tuple[str, ...]) -> None:
    path = tmp_path / "out.json"
    invoke(*RING, "--timeline", str(path), *more)
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    timed = [event for event in events if event["ph"] != "M"]
    assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
    stacks: dict[tuple[int, int], list[int]] = {}
    for event in timed:
        row = (event["pid"], event["tid"])
        assert row in named
        stack, begin = stacks.setdefault(row, []), int(event["ts"] * 1e3)
        while stack and stack[-1] <= begin:
            stack.pop()
        if event["ph"] == "X":
            end = begin + int(event["dur"] * 1e3)
            assert begin < end <= min(stack, default=end)
            stack.append(end)
        assert stack, "an arrow hangs on a slice"


def test_a_timeline_that_nobody_can_look_at_is_refused_before_the_run(tmp_path: Path) -> None:
    with (
        mock.patch("nhalf.cli.simulate_runs.run") as played,
        pytest.raises(InputError, match="the 523,264 messages of ring are too many"),
    ):
        invoke("all-reduce", "--ranks", "512", "--size", "1MiB", *LINK, "--timeline", str(tmp_path / "out.json"))
    assert not played.called


def test_a_schedule_of_ones_own_is_simulated(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    messages = [{"from": 0, "to": 1, "bytes": 50_000, "id": "a"}, {"from": 1, "to": 2, "bytes": 50_000, "after": "a"}]
    path.write_text(json.dumps({"ranks": 3, "op": "broadcast", "messages": messages}), encoding="utf-8")
    (entry,) = document(str(path), *LINK)["runs"]
    assert entry["time_s"] == pytest.approx(12e-6)
    assert entry["payload"] == "bitmask"
    with pytest.raises(InputError, match="--ranks 8 would do nothing: a schedule says this itself"):
        invoke(str(path), *LINK, "--ranks", "8")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "own.json: a schedule is one JSON object. Allowed: .*ranks.* Do: put a list"),
        ("", "a schedule is one JSON object"),
        ("{}", "the key 'ranks' is missing"),
        ('{"ranks": 2, "messages": []}', "the schedule has no messages"),
        ("{", "this is not JSON"),
    ],
)
def test_an_empty_schedule_is_one_clear_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "own.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        invoke(str(path), *LINK)
    assert "architectures" not in str(caught.value)


@pytest.mark.parametrize("more", [(), ("--draws", "20", "--skew", "exponential:10us")])
def test_an_interrupt_leaves_a_labelled_partial(capsys: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    arguments = [*RING, "--algorithm", "ring,double-tree", "--json", *more]
    with mock.patch.object(kernels, "play", stop), pytest.raises(click.Abort):
        simulate.main(arguments, standalone_mode=False)
    captured = capsys.readouterr()
    assert [entry["algorithm"] for entry in json.loads(captured.out)["runs"]] == ["ring"]
    assert "interrupted in double-tree" in json.loads(captured.out)["partial"]
    assert "partial: interrupted in double-tree" in captured.err


def test_a_slow_rank_is_said_to_be_slow_in_all_it_does() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--tokens", "10")
    page = invoke(*job, "--straggler", "rank 3: 15%", "--detail")
    assert "With rank 3: 15% all work of the device takes that much longer, reading memory too" in page
    assert "A throttled core clock alone leaves that as it is" in " ".join(page.split())
    assert "throttled core clock" not in invoke(*job, "--straggler", "rank 3: 20us")
    times = [document(*job, "--straggler", f"rank 3: {text}")["runs"][1]["step_p50_s"] for text in ("15%", "1.15x")]
    assert times[0] == times[1]


def test_a_loop_of_jitter_alone_says_what_jitter_costs() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--tokens", "30", "--jitter", "2us")
    found = document(*job)
    (run,) = found["runs"]
    lost = 1 - run["tokens_per_s"] / found["undisturbed_tokens_per_s"]
    page = invoke(*job)
    assert page.splitlines()[0] == f"Jitter of 2 us on every rank costs {100 * lost:.1f} % of the tokens."
    assert lost > 0.05
    assert (found["jitter_s"], run["pace_rank"], run["pace_share"]) == (2e-6, None, None)
    assert "or --jitter" not in page.split("Next")[1]
    assert "none but jitter" in page


def test_who_is_seldom_last_does_not_set_the_pace() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--tokens", "30", "--jitter", "2us")
    seldom = document(*job, "--straggler", "rank 3: link 8x 5%")["runs"][1]
    assert seldom["pace_rank"] is None
    # Of 7 exponentials and one of twice their mean, that one is the largest in B(1/2, 8) / 2 = 32 % of draws.
    often = (*job, "--straggler", "rank 3: jitter 2us")
    found = document(*often)["runs"][1]
    assert (found["pace_rank"], found["pace_share"]) == (3, pytest.approx(0.318, abs=0.05))
    page = invoke(*often)
    assert f"rank 3 ({100 * found['pace_share']:.0f} % of the time)" in page
    assert "sets the pace" not in page.splitlines()[0]


def test_a_decode_loop_names_who_sets_the_pace() -> None:
    arguments = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "8", "--tokens", "10")
    page = invoke(*arguments, "--straggler", "rank 3: 1.15x")
    assert "rank 3 sets the pace" in page.splitlines()[0]
    runs = document(*arguments, "--straggler", "rank 3: 1.15x", "--straggler", "rank 2: 1ms")["runs"]
    assert [one["straggler"] for one in runs] == [None, "rank 3: 1.15x", "rank 2: 1ms", "rank 3: 1.15x, rank 2: 1ms"]
    assert [one["pace_rank"] for one in runs][:2] == [None, 3]
    assert {"tokens_per_s", "step_p50_s", "step_p99_s", "remedies"} <= runs[1].keys()
    assert {"name", "tokens_per_s"} == runs[1]["remedies"][0].keys()


@pytest.mark.parametrize(("calls", "shown"), [(2, [None]), (3, [None, "rank 3: 20us"])])
def test_an_interrupted_loop_leaves_a_labelled_partial(
    capsys: pytest.CaptureFixture[str], calls: int, shown: list[str | None]
) -> None:
    played = pacing.pace
    left = iter(range(1))

    def stop(*arguments: Any, **more: Any) -> Any:  # noqa: ANN401  pace's own
        if next(left, None) is None:
            raise KeyboardInterrupt
        return played(*arguments, **more)

    for form in ((), ("--json",)):
        left = iter(range(calls - 1))
        arguments = ["decode", "llama-3.1-70b", "--on", "h100-sxm", "--tokens", "5", "--straggler", "rank 3: 20us"]
        both = mock.patch.multiple(pacing, pace=stop), mock.patch.multiple(straggler_remedies, pace=stop)
        with both[0], both[1], pytest.raises(click.Abort):
            simulate.main([*arguments, *form], standalone_mode=False)
    captured = capsys.readouterr()
    found = json.loads(captured.out[captured.out.index("\n{") :])
    assert [one["straggler"] for one in found["runs"]] == shown
    assert "interrupted in decode loop after" in found["partial"]
    assert captured.err.count(f"{len(shown)} of 2 runs are shown") == 2
    assert "no remedy here helps" not in captured.out
    assert ("Interrupted before" in captured.out) == (len(shown) == 1)


@pytest.mark.parametrize(
    "asked", [("llama-3.1-405b", "--tp", "8"), ("llama-3.1-70b", "--tp", "8", "--batch", "100000")]
)
def test_a_loop_that_memory_cannot_hold_has_no_answer_just_as_its_decode(asked: tuple[str, ...]) -> None:
    with pytest.raises(NoAnswerError, match="no layout fits") as simulated:
        invoke("decode", *asked, "--on", "h100-sxm")
    with pytest.raises(NoAnswerError) as decoded, contextlib.redirect_stdout(io.StringIO()):
        decode.main([*asked, "--on", "h100-sxm"], standalone_mode=False)
    assert str(simulated.value) == str(decoded.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "what to simulate is missing"),
        (("all-reduse", *RING[1:]), "Did you mean 'all-reduce'"),
        ((*RING, "--algorithm", "rign"), "Did you mean 'ring'"),
        ((*RING, "--algorithm", "ring,ring"), "names an algorithm twice"),
        (("all-reduce", "--size", "16KiB", *LINK), "--ranks is missing"),
        (("all-reduce", "--ranks", "8", *LINK), "--size is missing"),
        (("all-reduce", "--ranks", "8", "--size", "16KiB"), "--latency is missing"),
        (("all-reduce", "--ranks", "8", "--size", "16KiB", "--latency", "5us"), "--bandwidth is missing"),
        (("all-reduce", "--ranks", "1", "--size", "16KiB", *LINK), "1 rank has nobody to talk to"),
        (("all-reduce", "--ranks", "1", "--size", "16KiB", "--on", "h100-sxm"), "1 rank has nobody to talk to"),
        (("all-reduce", "--ranks", "0", "--size", "16KiB", *LINK), "not a whole number of 1 or more"),
        (("all-reduce", "--ranks", "8", "--size", "0B", *LINK), "moves nothing"),
        (("all-reduce", "--ranks", "8", "--size", "16", *LINK), "has no unit"),
        (("all-reduce", "--ranks", "12", "--size", "16KiB", "--on", "h100-sxm"), "12 ranks do not fill nodes of 8"),
        ((*RING, "--on", "h100-sxm"), "both given"),
        ((*RING, "--ports", "wide"), "'wide' is not known"),
        ((*RING, "--topology", "moebius"), "no topology"),
        ((*RING, "--topology", "tree", "--ranks-per-node", "4", "--oversubscription", "0"), "no oversubscription"),
        ((*RING, "--oversubscription", "4"), "add --topology tree"),
        ((*RING, "--nics", "3"), "--nics 3 would do nothing: .* topology switch. Do: add --topology nodes"),
        ((*RING, "--hop-latency", "1us"), "add --topology ring or torus or tree"),
        ((*RING, "--inter-latency", "1us"), "add --topology nodes"),
        ((*RING, "--topology", "nodes", "--ranks-per-node", "4", "--inter-latency", "1us"), "add --inter-bandwidth 50"),
        ((*RING, "--topology", "nodes", "--ranks-per-node", "4", "--hop-latency", "1us"), "topology nodes"),
        ((*RING, "--ranks-per-node", "4"), "neither the topology switch nor an algorithm asked for has nodes"),
        ((*RING, "--seed", "2"), "nothing is random without --skew"),
        (("barrier", "--ranks", "8", "--size", "1MiB", *LINK), "a barrier moves no data"),
        ((*RING[:5], "--on", "h100-sxm", "--topology", "ring"), "h100-sxm brings its own links and topology"),
        ((*RING[:5], "--on", "h100-sxm", "--nics", "2"), "h100-sxm brings its own links and topology"),
        ((*RING, "--straggler", "rank 8: 1us"), "there is no rank 8"),
        ((*RING, "--straggler", "rank 1: jitter 1us"), "needs many steps"),
        ((*RING, "--draws", "100"), "--draws is given without --skew"),
        ((*RING, "--skew", "normal:1us", "--timeline", "out.json"), "a timeline shows one run"),
        ((*RING, "--skew", "cauchy:1us"), "is not a skew, nor a file"),
        ((*RING, "--skew", "normal:1us", "--draws", "5000000"), "40,000,000 times to keep. Allowed: 1 to 4,194,304"),
        ((*RING, "--timeline", "nowhere/out.json"), "nowhere/out.json cannot be written: there is no folder nowhere"),
        ((*RING, "--timeline", "."), "it is a folder"),
        ((*RING, "--topology", "nodes"), "the topology nodes needs to know how many ranks are in a node"),
        ((*RING, "--topology", "tree", "--ranks-per-node", "4", "--oversubscription", "4:2"), "--oversubscription"),
        ((*RING, "--routing", "1"), "--routing: all-reduce by ring has no routing to skew"),
        ((*RING, "--straggler", "rank 1: 2x"), "no rank of this run computes anything .* add --reduction-rate"),
        (("all-gather", *RING[1:], "--straggler", "rank 1: 2x"), "computes anything .* Do: take 'rank 3: link 2x'"),
        (("missing.json", *LINK), "the file cannot be read"),
        (("decode", "llama-3.1-70b", "--tp", "8"), "--on is missing"),
        (("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tp", "1"), "nobody to wait for"),
        (("decode", "llama-3.1-70b", "--on", "h100-sxm", "--straggler", "rank 9: 1us"), "there is no rank 9"),
        (("decode", "llama-3.1-70b", "--on", "h100-sxm", "--algorithm", "hierarchical"), "needs several nodes"),
        (("decode", "llama-3.1-70b", "--on", "h100-sxm", "--seed", "3"), "--seed 3 would do nothing"),
        (("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tokens", "9" * 11), "--tokens: .* Allowed: 1 to 4,194,304"),
    ],
)
def test_bad_input_is_one_clear_error(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(NhalfError, match=words) as caught:
        invoke(*arguments)
    assert isinstance(caught.value, InputError)
    assert caught.value.where


@pytest.mark.parametrize("op", PROGRAMS)
def test_a_reduction_rate_is_refused_where_nothing_is_added_up(op: str) -> None:
    asked = (op, *(RING[1:3] if op == "barrier" else RING[1:5]), *LINK)
    slow = (*asked, "--reduction-rate", "1GB/s")
    if op in ("all-reduce", "reduce-scatter", "reduce"):
        assert document(*slow)["runs"][0]["time_s"] > document(*asked)["runs"][0]["time_s"]
        return
    with pytest.raises(InputError, match=f"--reduction-rate 1GB/s would do nothing: {op} adds nothing up"):
        invoke(*slow)


@pytest.mark.parametrize("reduces", [True, False])
def test_a_schedule_takes_a_reduction_rate_if_it_reduces(tmp_path: Path, *, reduces: bool) -> None:
    path = tmp_path / "own.json"
    message = {"from": 0, "to": 1, "bytes": 50_000, "reduces": reduces}
    path.write_text(json.dumps({"ranks": 2, "messages": [message]}), encoding="utf-8")
    asked = (str(path), *LINK, "--reduction-rate", "50GB/s")
    if reduces:
        assert document(*asked)["runs"][0]["time_s"] == pytest.approx(7e-6)
        return
    with pytest.raises(InputError, match="schedule adds nothing up"):
        invoke(*asked)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--ranks", "1000000000"), "1,000,000,000 ranks are more than can be simulated"),
        (("--ranks", "20000", "--algorithm", "two-shot", "--straggler", "rank 3: 1us"), "20,000 ranks that are not"),
        (
            ("--ranks", "16384", "--algorithm", "two-shot", "--ports", "fair"),
            "16,384 ranks holds 536,838,144 messages or steps",
        ),
        (
            ("--ranks", "16384", "--algorithm", "bidirectional-ring", "--ports", "fair"),
            "holds 1,073,676,288 messages or steps",
        ),
        (
            ("--ranks", "20000", "--algorithm", "recursive-doubling", "--topology", "mesh", "--protocol", "eager"),
            "a mesh of 20,000 ranks has 400,000,000 links",
        ),
        (("--ranks", "100000", "--topology", "ring", "--algorithm", "recursive-doubling"), "a ring of 100,000 ranks"),
    ],
)
def test_what_memory_cannot_hold_is_one_clear_error(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        invoke("all-reduce", "--size", "16KiB", *LINK, *arguments)


def test_on_a_narrow_page_no_name_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = ("all-reduce", "--ranks", "64", "--size", "16KiB", "--on", "h100-sxm", "--algorithm")
    names = "ring,double-tree,recursive-doubling,two-shot"
    wide = invoke(*shown, names)
    monkeypatch.setattr(f"{__name__}.WIDTH", "80")
    narrow = invoke(*shown, names)
    assert max(map(len, narrow.splitlines())) <= 80
    for page in (wide, narrow):
        table = [line.split()[0] for line in page.split("algorithm", 1)[1].splitlines()[1:5]]
        assert table == names.split(",")
    assert "busiest" in wide.split("algorithm", 1)[1].splitlines()[0]


def test_the_headline_names_the_fastest_that_can_run_and_then_the_what_if() -> None:
    asked = ("all-reduce", "--ranks", "64", "--size", "16KiB", "--on", "h100-sxm", "--algorithm")
    names = "ring,double-tree,recursive-doubling,two-shot"
    head = invoke(*asked, names).split("\n\n")[0].replace("\n", " ")
    runs = {one["algorithm"]: one for one in document(*asked, names)["runs"]}
    fastest = min((one for one in runs.values() if not one["what_if"]), key=lambda one: one["time_s"])
    assert [name for name, one in runs.items() if one["what_if"]] == ["two-shot"]
    assert runs["two-shot"]["time_s"] < fastest["time_s"]
    assert head.startswith(f"{fastest['algorithm']} is the fastest of the 3 that can run: ")
    assert "two-shot would take " in head
    assert "It is a what-if only" in invoke(*asked, "two-shot").split("\n\n")[0].replace("\n", " ")
    drawn = invoke(*asked, names, "--draws", "3", "--skew", "exponential:1us")
    assert "two-shot: a what-if only" in drawn
    assert "makes two-shot take" not in drawn


def test_a_convoy_at_fifo_ports_is_what_a_hand_simulation_gives_and_is_explained() -> None:
    asked = ("all-reduce", "--ranks", "8", "--size", "1MiB", *LINK, "--algorithm", "one-shot")
    late = (*asked, "--straggler", "rank 3: 1ns")
    (entry,) = document(*late)["runs"]
    # Each rank sends 6 messages to the ranks that are ready; the seven for rank 3 then pass its port one by one.
    one = 2**20 / 50e9
    assert entry["time_s"] == pytest.approx(6 * one + 5e-6 + 7 * one, abs=2e-9)
    (fair,) = document(*late, "--ports", "fair")["runs"]
    assert entry["convoy"]["fair_s"] == pytest.approx(fair["time_s"])
    assert entry["convoy"]["together_s"] == document(*asked)["runs"][0]["time_s"]
    page = " ".join(invoke(*late).split())
    assert "Late ranks make a convoy at fifo ports; fair ports give 152 us." in page
    assert "Convoy: 1 ns of late start cost 126 us more than that." in page
    for plain in (asked, (*late, "--ports", "fair"), (*RING, "--straggler", "rank 3: 20us")):
        assert document(*plain)["runs"][0]["convoy"] is None


def test_a_ratio_of_oversubscription_may_be_written_as_one() -> None:
    tree = (*RING, "--topology", "tree", "--ranks-per-node", "4", "--oversubscription")
    assert document(*tree, "400:1")["runs"] == document(*tree, "400")["runs"]


@pytest.mark.parametrize(
    ("op", "name", "system", "words"),
    [
        ("all-to-all", "direct", "h100-sxm", "each rank sends to the next one first, so that all of a node meet"),
        ("all-reduce", "chain-tree", "mi300x", "the law is NCCL's, a chain in each node and a tree between them"),
    ],
)
def test_across_nodes_a_law_of_another_order_has_its_reason(op: str, name: str, system: str, words: str) -> None:
    (found,) = document(op, "--ranks", "16", "--size", "1MB", "--on", system, "--algorithm", name)["runs"]
    assert found["law_difference"] > 0.5
    assert words in found["law_reason"]


def test_a_hand_over_through_several_stages_is_not_blamed_on_who_is_late() -> None:
    asked = ("send-recv", "--size", "1MB", *LINK, "--straggler", "rank 1: 5us", "--ranks")
    assert "hands over through 4 ranks" in document(*asked, "4")["runs"][0]["law_reason"]
    assert document(*asked, "2")["runs"][0]["law_reason"].endswith("it says the same")
    assert "rank 0 -> rank 1, 1 message; it waited for its receiver" in " ".join(invoke(*asked, "2").split())


def test_an_equal_one_is_not_faster() -> None:
    names = ("--algorithm", "ring,bidirectional-ring")
    assert (
        ", as good as bidirectional-ring; "
        in invoke("all-reduce", "--ranks", "8", "--size", "1B", *LINK, *names).splitlines()[0]
    )


def test_a_straggler_by_chance_says_how_often_it_was_behind() -> None:
    job = ("decode", "llama-3.1-70b", "--on", "h100-sxm", "--tokens", "40", "--straggler")
    found = document(*job, "rank 3: link 8x 20%")["runs"][1]["steps_behind"]
    assert 0 < found < 40
    assert f"behind in {found} of 40 tokens" in invoke(*job, "rank 3: link 8x 20%")
    assert "behind in" not in invoke(*job, "rank 3: 15%")


def test_flags_of_a_topology_are_heard() -> None:
    tree = (*RING, "--topology", "tree", "--ranks-per-node", "4")
    nodes = (*RING, "--topology", "nodes", "--ranks-per-node", "4")
    inter, slow = ("--inter-latency", "9us", "--inter-bandwidth", "50GB/s"), ("--hop-latency", "1us")
    for plain, more in ((tree, ("--oversubscription", "400")), (nodes, inter), (tree, slow)):
        assert document(*plain)["runs"][0]["time_s"] != document(*plain, *more)["runs"][0]["time_s"]
    assert document(*RING, "--ranks-per-node", "4", "--algorithm", "hierarchical")["runs"]


def test_more_ranks_than_a_pair_has_are_said_to_be_assumed() -> None:
    asked = ("all-reduce", "--size", "16KiB", "--on", "dgx-spark-pair", "--ranks")
    words = "dgx-spark-pair is 2 devices, 16 are assumed"
    assert document(*asked, "16")["network"].startswith(f"16 nodes of 1 with 1 NIC each ({words}")
    assert words in " ".join(invoke(*asked, "16").split())
    assert document(*asked, "2")["network"] == "2 nodes of 1 with 1 NIC each"
    loop = ("decode", "llama-3.1-8b", "--on", "dgx-spark-pair", "--tokens", "2", "--tp")
    assert "dgx-spark-pair is 2 devices, 4 are assumed" in " ".join(invoke(*loop, "4").split())
    assert document(*loop, "4")["assumed"]
    assert document(*loop, "2")["assumed"] is None


def test_point_to_point_is_a_word_for_send_recv() -> None:
    assert invoke("p2p", "--ranks", "2", "--size", "1KiB", *LINK, "--json").count("send-recv") >= 1


def test_a_link_is_spelled_as_everywhere() -> None:
    job = ("all-reduce", "--ranks", "8", "--size", "16KiB")
    apart = document(*job, "--latency", "5us", "--bandwidth", "400GB/s")
    assert document(*job, "--link", "5us,400GB/s") == apart
    assert invoke(*job, "--link", "nvlink4")
    for wrong in (("5us,400GB/s", "--latency", "1us"), ("5us,400GB/s", "--on", "h100-sxm"), ("5us",)):
        with pytest.raises(InputError) as refused:
            invoke(*job, "--link", *wrong)
        assert refused.value.where in ("--link", "--on")

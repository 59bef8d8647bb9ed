"""The command: real captures, the screen, the document, the page, the tracks, the exit codes."""

from __future__ import annotations

import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.trace_runs import Plan, make

from nhalf.cli.trace import trace
from nhalf.errors import InputError, NhalfError, WeakEvidenceError

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).parents[1] / "golden" / "trace"
SLOW, EVEN = GOLDEN / "tp2_slow1", GOLDEN / "tp2_even"


def run(*arguments: object, width: int = 100) -> Result:
    environment = {"COLUMNS": str(width), "LINES": "24", "NO_COLOR": "1"}
    words = [*(str(one) for one in arguments), "--detail"]
    done = CliRunner().invoke(trace, words, env=environment, standalone_mode=False)
    if isinstance(done.exception, NhalfError):
        raise done.exception
    assert done.exception is None, done.exception
    return done


def document(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return found


def truth_of(folder: Path) -> dict[int, float]:
    """Return what each rank makes the other wait in a step [s], from the shared clock, computed by hand."""
    starts = []
    for rank in (0, 1):
        events = json.loads(gzip.decompress((folder / f"rank{rank}.json.gz").read_bytes()))["traceEvents"]
        starts.append(sorted(event["ts"] for event in events if event["name"] == "gloo:all_reduce"))
    apart = [b - a for a, b in zip(*starts, strict=True)]
    return {0: -sum(x for x in apart if x < 0) * 1e-6 / 8, 1: sum(x for x in apart if x > 0) * 1e-6 / 8}


def test_a_rank_that_sleeps_is_found_and_priced() -> None:
    found = document(SLOW)
    (one,) = found["stragglers"]
    assert one["rank"] == 1
    assert one["cost_s_per_step"] == pytest.approx(35.4e-3, abs=3e-3)
    assert one["cost_s_per_step"] == pytest.approx(truth_of(SLOW)[1], rel=0.01)
    assert one["low_s"] <= truth_of(SLOW)[1] <= one["high_s"]
    assert one["cause"] == "host gap"


def test_without_the_straggler_s_own_trace_nobody_is_cleared_and_waiting_is_no_transfer(tmp_path: Path) -> None:
    files = make(Plan(ranks=4, slow={1: 7.0})).write(tmp_path, (0, 2, 3))
    text = " ".join(run(*files).stdout.split())
    assert "without the traces of the other ranks nobody can say whether it waits or moves" in text
    assert "transfer-dominated" not in text
    assert "None of the ranks with a trace is shown to be a straggler" in text
    assert re.search(r"at most [\d.]+ us moving bytes, at least [\d.]+ (us|ns) waiting", text)
    assert "<= " in text
    assert text.endswith("and the other ranks' files")
    found = document(*files)
    assert found["domination"] == "inconclusive"
    assert found["all_ranks_traced"] is False
    whole = document(*make(Plan(ranks=4, slow={1: 7.0})).write(tmp_path, (0, 1, 2, 3)))
    assert whole["all_ranks_traced"] is True


def test_a_loaded_machine_is_no_straggler() -> None:
    found = document(EVEN)
    assert found["stragglers"] == []
    assert "no rank is late systematically" in found["cannot_tell"]


def test_the_clock_of_a_rank_may_be_off_by_any_amount(tmp_path: Path) -> None:
    for rank in (0, 1):
        content = json.loads(gzip.decompress((SLOW / f"rank{rank}.json.gz").read_bytes()))
        for event in content["traceEvents"]:
            event["ts"] += 137_000.0 * rank
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content))
    found = document(tmp_path)
    clock = found["clock_offsets"][1]
    assert clock["low_s"] <= 0.137 <= clock["high_s"]
    assert clock["offset_s"] == pytest.approx(0.137, abs=50e-6)
    assert found["stragglers"][0]["cost_s_per_step"] == pytest.approx(35.4e-3, abs=3e-3)


def test_the_document_keeps_the_contract() -> None:
    found = document(SLOW, "--batch", 8)
    assert found["schema"] == "nhalf.trace/2"
    assert {"nhalf_version", "catalog_version", "command", "interval_level", "notes"} <= set(found)
    assert (found["ranks"], found["steps"], found["match_rate"]) == (2, 8, 1.0)
    assert {"rank", "offset_s", "low_s", "high_s"} <= set(found["clock_offsets"][0])
    budget = found["budget"]
    parts = ("compute_s", "overlapped_s", "exposed_transfer_s", "exposed_wait_s", "gap_s", "idle_s")
    assert sum(budget[part] for part in parts) == pytest.approx(budget["step_s"], rel=1e-6)
    (row,) = found["collectives"]
    keys = {"op", "algorithm", "size_bytes", "size_source", "count_per_step", "transfer_s", "wait_s", "regime"}
    assert keys <= set(row)
    assert (row["op"], row["size_bytes"], row["size_source"], row["count_per_step"]) == (
        "all-reduce",
        2048.0,
        "shapes",
        8.0,
    )
    assert row["regime"] is None
    assert {"rank", "cost_s_per_step", "low_s", "high_s", "cause"} <= set(found["stragglers"][0])
    for gain in found["what_if"]:
        assert {"name", "step_s", "gain", "kind", "tokens_per_s"} <= set(gain)
        assert gain["kind"] in {"bound", "modelled"}
        assert gain["tokens_per_s"] == pytest.approx(8 / gain["step_s"])


def test_one_rank_has_nulls_for_what_it_cannot_know() -> None:
    found = document(SLOW / "rank0.json.gz")
    assert found["budget"]["exposed_wait_s"] is None
    assert found["collectives"][0]["transfer_s"] is None
    assert found["match_rate"] is None
    assert found["stragglers"] == []
    assert "and the other ranks' files" in run(SLOW / "rank0.json.gz").stdout


def test_the_screen_says_the_verdict_first_and_the_next_command_last() -> None:
    text = run(SLOW).stdout
    assert text.startswith("Rank 1 makes the others wait 35.5 ms a step (64 %); likely cause: host gap.")
    text = text[text.index("\nRead") :]
    titles = re.findall(r"^[A-Z][\w ]+(?: \(.*\))?$", text, flags=re.MULTILINE)
    assert [title.split(" (")[0] for title in titles if not title.endswith(".")] == [
        "Read", "Budget of a step", "Collectives", "Stragglers", "What would help", "Notes", "Next"
    ]  # fmt: skip
    assert text.rstrip().splitlines()[-1].strip().startswith("nhalf trace")
    assert text.rstrip().endswith("--links mycluster.toml")
    assert "nhalf measure --backend gloo -o run.json" in text  # no invented link is offered
    assert re.search(r"--links \S*\d+us", text) is None
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_screen_keeps_to_its_width(width: int) -> None:
    wide = [line for line in run(SLOW, "--links", "20us,2GB/s", width=width).stdout.splitlines() if len(line) > width]
    assert [line for line in wide if "nhalf trace" not in line] == []


def test_the_page_is_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    run(SLOW, "-o", path)
    text = path.read_text()

    class Balance(HTMLParser):
        depth = 0
        svgs = 0

        def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
            del attrs
            self.depth += tag not in {"meta", "rect"}
            self.svgs += tag == "svg"

        def handle_endtag(self, tag: str) -> None:
            self.depth -= tag not in {"meta", "rect"}

    balance = Balance()
    balance.feed(text)
    assert (balance.depth, balance.svgs) == (0, 4)
    assert "http" not in text
    assert "nan" not in text


def test_the_tracks_hold_every_wait_on_one_clock(tmp_path: Path) -> None:
    path = tmp_path / "tracks.json"
    found = document(SLOW, "-o", path)
    events = json.loads(path.read_text())["traceEvents"]
    waits = sum(e["dur"] for e in events if e["ph"] == "X" and e["name"] == "wait for rank 1")
    assert waits * 1e-6 / 8 == pytest.approx(found["stragglers"][0]["cost_s_per_step"], rel=1e-4)
    counters = [event["args"]["ranks"] for event in events if event["ph"] == "C"]
    assert min(counters) == 0
    assert max(counters) == 1
    assert counters[-1] == 0


def test_the_tracks_are_a_trace_that_can_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tracks.json"
    run(SLOW, "-o", path)
    with pytest.raises(NhalfError):
        run(path)


def test_two_runs_are_compared() -> None:
    text = run("--diff", EVEN, SLOW).stdout
    assert text.startswith("The step went from 26 ms to 55.3 ms.")
    found = json.loads(run("--diff", EVEN, SLOW, "--json").stdout)
    assert found["changes"][0]["op"] == "all-reduce"
    assert found["after"]["stragglers"][0]["rank"] == 1


def test_a_small_shift_of_fixed_time_is_the_verdict_of_a_comparison(tmp_path: Path) -> None:
    make(Plan()).write(tmp_path / "a")
    make(Plan(alpha=11.0, seed=3)).write(tmp_path / "b")
    text = " ".join(run("--diff", tmp_path / "a", tmp_path / "b").stdout.split())
    found = re.search(r"The time of the all-reduce of 16 KiB moved by \+(\S+) us per call", text)
    assert found
    assert float(found[1]) == pytest.approx(2.0, abs=0.15)


def test_sizes_come_from_a_config_and_a_batch(tmp_path: Path) -> None:
    make(Plan(flavour="graph")).write(tmp_path)
    config = tmp_path / "model" / "config.json"
    config.parent.mkdir()
    config.write_text('{"architectures": ["AnythingForCausalLM"], "hidden_size": 4096}')
    found = document(tmp_path / "rank*.json", "--model", config, "--batch", 2)
    assert (found["collectives"][0]["size_bytes"], found["collectives"][0]["size_source"]) == (16384.0, "model")
    assert (
        document(tmp_path / "rank*.json", "--model", "llama-3.1-8b", "--batch", 2)["collectives"][0]["size_bytes"]
        == 16384.0
    )


def test_links_and_fits_price_the_changes(tmp_path: Path) -> None:
    fit = tmp_path / "fit.json"
    fit.write_text('{"fits": [{"op": "all-reduce", "ranks": 2, "latency_s": 4e-4, "bandwidth_bytes_per_s": 1e9}]}')
    for links in ("200us,1GB/s", str(fit)):
        found = document(SLOW, "--links", links)
        assert found["collectives"][0]["regime"] == "latency"
        assert found["collectives"][0]["line_source"] == "links"
        assert {gain["name"]: gain["kind"] for gain in found["what_if"]}["latency halved"] == "modelled"


def test_a_price_of_given_links_is_said_to_be_theirs() -> None:
    theirs = "by the laws of the links given with --links, which this trace does not check"
    assert theirs in " ".join(run(SLOW, "--links", "5us,400GB/s").stdout.split())
    assert theirs not in " ".join(run(SLOW).stdout.split())


def test_the_figures_of_a_screen_add_up() -> None:
    found, text = document(SLOW), " ".join(run(SLOW).stdout.split())
    gains = {gain["name"]: gain["step_s"] * gain["gain"] / (1 - gain["gain"]) for gain in found["what_if"]}
    fixed = re.search(r"at most ([\d.]+) ms, [\d.]+ % of the step, as the quickest tenth", text)
    assert fixed is not None
    # Half of the latency saves no more than half of all the fixed time there may be.
    assert 0 < gains["latency halved"] <= float(fixed[1]) / 2 * 1e-3
    assert gains["bandwidth doubled"] <= float(fixed[1]) / 2 * 1e-3
    removed = f"{1e3 * gains['straggler removed (rank 1)']:.1f} ms"
    assert f"straggler removed (rank 1) {removed}" in text
    budget = f"{1e3 * found['budget']['exposed_transfer_s']:.1f} ms in the budget"
    assert budget in text


def test_links_that_price_nothing_are_said_to(tmp_path: Path) -> None:
    fit = tmp_path / "fit.json"
    fit.write_text('{"fits": [{"op": "all-reduce", "ranks": 8, "latency_s": 4e-4, "bandwidth_bytes_per_s": 1e9}]}')
    notes = document(SLOW, "--links", fit)["notes"]
    assert "--links holds no price for all-reduce on 2 ranks" in notes
    assert any("not identifiable" in note for note in notes)
    assert not any("--links holds" in note for note in document(SLOW, "--links", "200us,1GB/s")["notes"])


def test_the_links_file_of_a_fit_prices_a_trace(tmp_path: Path) -> None:
    value = 'kind = "fitted"\nsource = "a.log"\nlocator = "all of it"\ndate = "2026-01-01"\n'
    ends = 'per = "device"\ndirection = "one_way"\n'
    links = tmp_path / "links.toml"
    links.write_text(
        f'[links.intra-node]\ntitle = "Fitted"\n[links.intra-node.latency]\nvalue = "200 us"\n{value}'
        f'[links.intra-node.bandwidth]\nvalue = "1 GB/s"\n{value}{ends}'
    )
    by_file, by_text = (document(SLOW, "--links", one)["what_if"] for one in (links, "200us,1GB/s"))
    assert by_file == by_text
    links.write_text(links.read_text().replace("intra-node", "mine"))
    with pytest.raises(InputError, match="no link is named after a tier"):
        run(SLOW, "--links", links)


def test_runs_without_a_common_collective_are_weak_evidence(tmp_path: Path) -> None:
    for size in (16384, 32768):
        make(Plan(ranks=2, sizes=(size,))).write(tmp_path / str(size))
    with pytest.raises(WeakEvidenceError, match="nothing can be compared"):
        run("--diff", tmp_path / "16384", tmp_path / "32768")
    with pytest.raises(WeakEvidenceError, match="nothing can be compared"):
        run("--diff", tmp_path / "16384", tmp_path / "32768", "--json")


def test_a_narrow_screen_breaks_no_name(tmp_path: Path) -> None:
    files = make(Plan(ranks=4)).write(tmp_path)
    for width in (80, 140):
        lines = run(*files, width=width).stdout.splitlines()
        assert any(line.startswith("all-reduce x4 ") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give FILES, or two runs"),
        ((SLOW, "--diff", SLOW, EVEN), "give FILES, or two runs"),
        ((SLOW, "--step", "("), "no regular expression"),
        ((SLOW, "--links", "a b c"), "no link"),
        ((SLOW, "--links", "5us,400G"), "400Gb/s"),
        ((SLOW, "--model", "llama-3.1-8b"), "needs --batch"),
        ((SLOW, "--batch", "many"), "--batch"),
        ((SLOW, "-o", "x.pdf"), "known ending"),
        ((SLOW, "--patterns", "none.toml"), "cannot be read"),
        ((SLOW, EVEN), "both hold rank 0"),
        (("none*.json",), "no such file"),
        ((Path(__file__),), "no trace"),
    ],
)
def test_wrong_input_gets_one_clear_error(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        run(*arguments)


def test_a_config_without_a_hidden_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="hidden_size"):
        run(SLOW, "--model", tmp_path, "--batch", 1)


def test_weak_evidence_has_its_own_exit_code(tmp_path: Path) -> None:
    make(Plan(ranks=2)).write(tmp_path, (0,))
    make(Plan(ranks=2, seed=5, jitter=9.0)).write(tmp_path, (1,))
    with pytest.raises(WeakEvidenceError) as caught:
        run(tmp_path)
    assert caught.value.exit_code == 4

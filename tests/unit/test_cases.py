"""Case tables: every row becomes a scenario or a reason, and what was measured is never read to predict."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

from nhalf.errors import InputError
from nhalf.loading import load
from nhalf.loading.case_checks import findings
from nhalf.loading.case_table import Table, read_table
from nhalf.loading.cases import Cases, Options, cases
from nhalf.loading.golden import SERVING
from nhalf.loading.kv_rule import assumed_kv
from nhalf.loading.measured import measured_s, unflagged
from nhalf.loading.predictions import predictions
from nhalf.loading.stack_file import PRIORS, read_stack
from nhalf.predict.step import decode

if TYPE_CHECKING:
    from pathlib import Path

HEADER = (
    "model",
    "system",
    "engine",
    "weight_dtype",
    "isl",
    "osl",
    "concurrency",
    "tp",
    "attention_dp",
    "moe_tp",
    "moe_ep",
)
DENSE = "meta-llama/Llama-3.1-70B,h100_sxm,vllm,fp8,1024,1024,16,8,1,1,1"
MOE = "openai/gpt-oss-120b,b200_sxm,trtllm,mxfp4,1024,1024,16,1,4,1,4"


def table(*rows: str, header: tuple[str, ...] = HEADER) -> Table:
    return Table(path="rows.csv", header=header, rows=[row.split(",") for row in rows])


def loaded(*rows: str, header: tuple[str, ...] = HEADER, options: Options | None = None) -> Cases:
    return cases(table(*rows, header=header), options)


# --- rows become scenarios --------------------------------------------------------------------------------------------


def test_rows_that_differ_in_load_alone_are_one_array_scenario() -> None:
    found = loaded(DENSE, DENSE.replace(",16,", ",64,"), MOE)
    assert [group.rows.tolist() for group in found.groups] == [[0, 1], [2]]
    assert found.groups[0].scenario.workload.batch.tolist() == [16.0, 64.0]  # type: ignore[union-attr]
    assert found.refused == ["", "", ""]


def test_a_row_is_the_decode_of_the_same_flags() -> None:
    found = predictions(loaded(DENSE, options=Options(calibrated=False)))
    scenario = load("llama-3.1-70b", on="h100-sxm", tp=8, batch=16, isl=1024, osl=1024, weights="fp8", kv="bf16")
    assert found.tpot_s[0] == pytest.approx(float(decode(read_stack(PRIORS).applied(scenario)).value), rel=1e-12)


def test_a_row_splits_contexts_and_names_quantised_repositories_as_flags_do() -> None:
    header = ("model", "system", "tp", "cp", "context", "batch")
    group = loaded("meta-llama/Llama-3.1-70B,h100-sxm,4,2,32768,8", header=header).groups[0]
    flags = load("llama-3.1-70b", on="h100-sxm", tp=4, cp=2, context=32768, batch=8)
    assert float(np.mean(decode(group.scenario).value)) == decode(flags).value
    assert group.scenario.residual == flags.residual
    named = load("nvidia/GLM-5-NVFP4", on="b200-sxm", tp=8)
    assert (named.transformer.name, named.workload.weight_dtype) == ("glm-5", "nvfp4")


@pytest.mark.parametrize("weights", ["nvfp4", "mxfp4"])
def test_a_format_of_as_many_bits_as_the_checkpoint_is_the_one_that_is_named(weights: str) -> None:
    header = ("model", "system", "tp", "context", "batch", "weight_dtype")
    group = loaded(f"gpt-oss-120b,h100-sxm,8,1024,8,{weights}", header=header).groups[0]
    flags = load("gpt-oss-120b", on="h100-sxm", tp=8, batch=8, weights=weights)
    assert group.weight_dtype == flags.workload.weight_dtype == weights
    assert float(np.mean(decode(group.scenario).value)) == decode(flags).value


def test_attention_dp_splits_the_servers_concurrency_of_a_dense_model_too() -> None:
    split = DENSE.replace(",16,8,1,", ",16,8,2,")
    halves = predictions(loaded(split, DENSE.replace(",16,8,", ",8,8,")))
    assert halves.tpot_s[0] == pytest.approx(halves.tpot_s[1])


def test_context_stands_in_for_prompts_and_gives_no_range_for_the_first_token() -> None:
    header = ("model", "system", "context", "batch", "tp")
    found = predictions(loaded("llama-3.1-8b,h100-sxm,1024,1,1", header=header))
    assert found.tpot_s[0] > 0
    assert np.isnan(found.ttft_low_s[0])
    assert np.isnan(found.ttft_high_s[0])


def test_with_prompts_the_range_for_the_first_token_grows_with_the_batch() -> None:
    found = predictions(loaded(DENSE, DENSE.replace(",16,", ",64,")))
    assert found.ttft_low_s[0] < found.ttft_high_s[0] < found.ttft_high_s[1]


def test_tokens_kept_per_step_divide_the_time_per_token() -> None:
    header = (*HEADER, "tokens_per_step", "accepted_tokens")
    plain, drafted = predictions(loaded(f"{DENSE},1,1", f"{DENSE},4,2.5", header=header)).tpot_s
    assert drafted < plain
    assert drafted > plain / 2.5


def test_defaults_fill_empty_cells_only() -> None:
    header = ("model", "system", "concurrency", "context", "engine")
    options = Options(defaults={"engine": "sglang", "tp": "2"})
    found = loaded("llama-3.1-8b,h100-sxm,1,1024,", "llama-3.1-8b,h100-sxm,1,1024,vllm", header=header, options=options)
    assert [group.engine for group in found.groups] == ["sglang", "vllm"]
    assert {group.scenario.layout.tensor_parallel for group in found.groups} == {2}


# --- rows that have none ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (DENSE.replace("meta-llama/Llama-3.1-70B", "llama-4-nano"), "no model 'llama-4-nano'"),
        (DENSE.replace("h100_sxm", "h999"), "no system 'h999'"),
        (DENSE.replace("vllm", "wllm"), "no engine 'wllm'"),
        (DENSE.replace("fp8", "fp7"), "dtype 'fp7' is not known"),
        (DENSE.replace(",16,8,", ",,8,"), "concurrency (or batch) is missing"),
        (DENSE.replace(",16,8,", ",many,8,"), "concurrency 'many' is not a number"),
        (DENSE.replace(",1024,1024,", ",nan,1024,"), "isl 'nan' is not a number"),
        (DENSE.replace(",1024,1024,", ",,,"), "neither isl and osl nor context"),
        (DENSE.replace(",16,8,", ",16,7,"), "TP 7 cannot split"),
        (DENSE.replace(",16,8,", ",16,1,").replace("fp8", "bf16"), "the weights need 14"),
        (MOE.replace(",4,1,4", ",4,2,4"), "moe_tp x moe_ep = 8 is not tp x attention_dp = 4"),
    ],
)
def test_a_row_without_an_answer_says_why_and_leaves_the_others_alone(row: str, why: str) -> None:
    found = predictions(loaded(row, DENSE))
    assert why in found.refused[0]
    assert np.isnan(found.tpot_s[0])
    assert found.refused[1] == ""
    assert found.tpot_s[1] > 0


@pytest.mark.parametrize("name", ["model", "system", "concurrency"])
def test_a_column_that_every_row_needs_is_one_error(name: str) -> None:
    at = HEADER.index(name)
    header = tuple(each for each in HEADER if each != name)
    row = ",".join(cell for index, cell in enumerate(DENSE.split(",")) if index != at)
    with pytest.raises(InputError, match=f"no column {name}"):
        loaded(row, header=header)


def test_a_ragged_row_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "ragged.csv"
    path.write_text("model,system\na,b\nc\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"ragged\.csv:3: 1 cells"):
        read_table(path)


# --- measured columns -------------------------------------------------------------------------------------------------


def test_predictions_do_not_read_what_was_measured() -> None:
    runs = read_table(SERVING)
    at = [runs.header.index(name) for name in ("tpot_s", "ttft_s")]
    spoiled = [["nonsense" if index in at else cell for index, cell in enumerate(row)] for row in runs.rows]
    wrong = Table(path=runs.path, header=runs.header, rows=spoiled)
    with_times, without = predictions(cases(runs)), predictions(cases(wrong))
    for name in ("tpot_s", "low_s", "high_s", "ttft_low_s", "ttft_high_s"):
        assert np.array_equal(getattr(with_times, name), getattr(without, name), equal_nan=True)
    assert with_times.binding == without.binding
    assert with_times.refused == without.refused


def test_measured_times_must_be_positive_numbers() -> None:
    header = (*HEADER, "tpot_s")
    assert np.isnan(measured_s(table(f"{DENSE},", header=header))[0])
    with pytest.raises(InputError, match=r"rows.csv:2: tpot_s '8ms' is not a number"):
        measured_s(table(f"{DENSE},8ms", header=header))
    for impossible in ("0", "-0.01", "inf", "nan"):
        with pytest.raises(InputError, match=r"no time of a token|not a number"):
            measured_s(table(f"{DENSE},{impossible}", header=header))


def test_flagged_rows_are_known() -> None:
    found = unflagged(table(f"{DENSE},", f"{DENSE},queueing", header=(*HEADER, "quality_flag")))
    assert found.tolist() == [True, False]


# --- checks -----------------------------------------------------------------------------------------------------------


def checked(*rows: str) -> list[tuple[int, str]]:
    found = loaded(*rows, header=(*HEADER, "tpot_s"))
    return [(each.line, each.code) for each in findings(found, measured_s(found.table))]


def test_plausible_rows_have_no_findings() -> None:
    assert checked(f"{DENSE},0.012", DENSE.replace(",16,8,", ",64,8,") + ",0.016") == []


def test_a_time_below_the_datasheet_is_named_by_its_line() -> None:
    assert checked(f"{DENSE},0.012", f"{DENSE},0.001") == [(3, "below-bound")]


def test_a_repeat_to_the_last_digit_is_a_duplicate() -> None:
    assert checked(f"{DENSE},0.012", f"{DENSE},0.012", f"{DENSE},0.0121") == [(3, "duplicate")]


def test_a_larger_batch_with_a_smaller_step_is_named_beyond_the_noise() -> None:
    larger = DENSE.replace(",16,8,", ",64,8,")
    assert checked(f"{DENSE},0.012", f"{larger},0.008") == [(3, "falling")]
    assert checked(f"{DENSE},0.012", f"{larger},0.0115") == []


@pytest.mark.parametrize(("factor", "unit"), [(1e3, "ms"), (1e6, "us")])
def test_a_column_in_another_unit_is_refused(factor: float, unit: str) -> None:
    # Two of three: one row that is right does not make the column right, nor one that is wrong make it wrong.
    with pytest.raises(InputError, match=f"looks as if it were in {unit}.*divide the column by"):
        checked(f"{DENSE},{0.0093 * factor}", f"{DENSE},{0.015 * factor}", f"{DENSE},0.0093")


def test_a_time_in_another_unit_is_named() -> None:
    assert checked(f"{DENSE},0.0123", f"{DENSE},0.0125", f"{DENSE},12.3") == [(4, "unit")]


# --- the cache that nobody recorded -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "engine", "architecture", "dtype"),
    [
        ("fp8", "trtllm", "hopper", "fp8"),
        ("bf16", "trtllm", "hopper", "bf16"),
        ("nvfp4", "vllm", "blackwell", "fp8"),
        ("fp8", "vllm", "blackwell", "fp8"),
        ("mxfp4", "sglang", "blackwell", "fp8"),
        ("mxfp4", "vllm", "hopper", "bf16"),
        ("fp8", "sglang", "hopper", "bf16"),
        ("bf16", "vllm", "blackwell", "bf16"),
    ],
)
def test_the_cache_is_assumed_by_engine_and_checkpoint(
    weights: str, engine: str, architecture: str, dtype: str
) -> None:
    found, datum = assumed_kv(weights=weights, engine=engine, architecture=architecture)
    assert found == dtype
    assert (datum.kind, datum.low, datum.high) == ("assumed", 1.0, 2.0)


def test_an_assumed_cache_widens_the_band_and_a_stated_one_does_not() -> None:
    header = (*HEADER, "kv_dtype")
    long = DENSE.replace(",1024,1024,16,", ",8192,1024,64,")
    found = predictions(loaded(f"{long},", f"{long},bf16", header=header))
    assert found.tpot_s[0] == pytest.approx(found.tpot_s[1])
    assert found.low_s[0] < found.low_s[1]
    assert found.high_s[0] == pytest.approx(found.high_s[1])


# --- bands ------------------------------------------------------------------------------------------------------------


def test_what_was_never_measured_has_a_wider_band() -> None:
    across = DENSE.replace(",16,8,", ",16,16,")
    found = predictions(loaded(DENSE, across, DENSE.replace("h100_sxm", "a100-sxm").replace("fp8", "bf16")))
    width = np.log(found.high_s / found.low_s)
    assert width[1] > 1.2 * width[0]
    assert width[2] > width[0]


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model", "dtype"),
    [
        ("nvidia/GLM-5-NVFP4", "glm-5", "nvfp4"),
        ("zai-org/GLM-5-FP8", "glm-5", "fp8"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "llama-3.1-8b", "fp8"),
        ("someone/Qwen3-8B-AWQ", "qwen3-8b", "int4"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b-fp8", "fp8"),
    ],
)
def test_a_quantised_repository_is_its_base_model_in_another_dtype(name: str, model: str, dtype: str) -> None:
    row = DENSE.replace("meta-llama/Llama-3.1-70B", name).replace("fp8,1024", ",1024").replace("h100_sxm", "b200_sxm")
    row = row.removesuffix("1,1,1") + "1,8,1"
    (group,) = loaded(row).groups
    assert (group.model, group.weight_dtype) == (model, dtype)


def test_a_quantised_repository_of_an_unknown_model_is_refused() -> None:
    found = loaded(DENSE.replace("meta-llama/Llama-3.1-70B", "nvidia/Llama-9-FP8"))
    assert "no model 'nvidia/Llama-9-FP8'" in found.refused[0]


# --- what no run can be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [
        ("osl", "-1", "osl -1 lies outside 1"),
        ("isl", "-5", "isl -5 lies outside 0"),
        ("isl", "inf", "isl inf lies outside"),
        ("concurrency", "1e18", "concurrency 1e18 lies outside"),
        ("tp", "1.5", "tp: '1.5' is not a whole number of 1 or more"),
        ("tp", "inf", "tp: 'inf' is not a whole number of 1 or more"),
        ("tp", "3", "tp: TP 3 cannot split"),
        ("attention_dp", "0", "attention_dp: '0' is not a whole number of 1 or more"),
        ("attention_dp", "-1", "attention_dp: '-1' is not a whole number of 1 or more"),
        ("isl", "1e8", "the cache of one sequence needs 2048 GB beside the weights"),
        ("system", " ", "system: the cell is empty"),
    ],
)
def test_a_number_that_no_run_can_have_refuses_its_row(column: str, text: str, why: str) -> None:
    cells = dict(zip(HEADER, DENSE.split(","), strict=True)) | {column: text}
    found = loaded(DENSE, ",".join(cells.values()))
    assert found.refused[0] == ""
    assert why in found.refused[1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("model;system;batch\nllama-3.1-8b;h100-sxm;1\n", "the cells are parted by ';'"),
        ("model,system,batch,tp,tp\nllama-3.1-8b,h100-sxm,1,1,2\n", "the column 'tp' is there twice"),
        ("model,system,batch\n\nllama-3.1-8b,h100-sxm,1\n", "rows.csv:2: this line is empty"),
        ("model,system,batch\n" + "x" * 200_000 + ",h100-sxm,1\n", "this is not CSV"),
    ],
)
def test_a_file_that_is_no_table_is_one_clear_error(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(why)):
        read_table(path)


def test_a_quote_that_is_never_closed_swallows_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('model,system,batch\nllama-3.1-8b,"h100-sxm,1\nllama-3.1-8b,h100-sxm,1\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"rows\.csv:2: this is not CSV.*a quote that is not closed"):
        read_table(path)


def test_a_cell_of_several_lines_moves_the_lines_below_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('model,note,tpot_s\nm,"two\nlines",1\nm,,oops\n', encoding="utf-8")
    found = read_table(path)
    assert [found.line(row) for row in (0, 1)] == [2, 4]
    with pytest.raises(InputError, match=r"rows\.csv:4: tpot_s 'oops'"):
        measured_s(found)


def test_spaces_around_cells_change_nothing() -> None:
    spaced = DENSE.replace(",", " , ").replace("1 , 1 , 1", " 1 ,  ,  ")
    assert predictions(loaded(spaced)).tpot_s.tolist() == predictions(loaded(DENSE)).tpot_s.tolist()


@pytest.mark.parametrize(
    ("draft", "why"),
    [
        ("4,", "accepted_tokens is empty"),
        (",2.5", "accepted_tokens 2.5 is more than tokens_per_step 1"),
        ("4,4.5", "accepted_tokens 4.5 is more than tokens_per_step 4"),
        ("4,4", ""),
    ],
)
def test_a_draft_is_stated_whole_and_keeps_no_more_than_it_was_fed(draft: str, why: str) -> None:
    found = loaded(f"{DENSE},{draft}", header=(*HEADER, "tokens_per_step", "accepted_tokens"))
    assert (why in found.refused[0]) if why else found.refused == [""]


@pytest.mark.filterwarnings("error")
def test_an_empty_cache_is_answered_without_a_warning() -> None:
    row = "llama-3.1-8b,h100-sxm,1,"
    empty, one = predictions(loaded(f"{row}0", f"{row}1", header=("model", "system", "batch", "context"))).tpot_s
    assert 0 < empty < one


def test_a_row_that_is_too_long_leaves_the_rows_of_its_group_alone() -> None:
    found = predictions(loaded(DENSE, DENSE.replace(",1024,1024,", ",100000000,1024,"), DENSE.replace(",16,", ",1,")))
    assert found.refused[0] == found.refused[2] == ""
    assert found.refused[1].startswith("memory: the cache of one sequence needs")
    alone = predictions(loaded(DENSE, DENSE.replace(",16,", ",1,")))
    assert found.tpot_s[[0, 2]].tolist() == alone.tpot_s.tolist()


def test_empty_lines_at_the_end_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("model,system,batch\nllama-3.1-8b,h100-sxm,1\n\n\n", encoding="utf-8")
    assert read_table(path).rows == [["llama-3.1-8b", "h100-sxm", "1"]]

"""One answer per question: every key that two commands share has one value, to the last digit, for one scenario.

Scenarios are drawn over models, systems, engines, layouts, lengths, speculation and dtypes that nobody states. Each is
asked of decode, sweep, plan, buy and predict, in Python, JSON, CSV and Parquet, and of decode in text.
"""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.cli.command import invoke

import nhalf
from nhalf import units
from nhalf.points import points

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCENARIOS: Final = 64
DENSE: Final = ("llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b", "mistral-large-2407", "qwen3-32b")
EXPERTS: Final = ("deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b", "mixtral-8x7b")
SYSTEMS: Final = ("h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72", "a100-sxm", "mi300x", "h100-sxm-efa", "gh200")
ENGINES: Final = ("vllm", "sglang", "trtllm")
COLUMN: Final = {
    "tp": "tp", "pp": "pp", "ep": "moe_ep", "attention-dp": "attention_dp", "engine": "engine", "isl": "isl",
    "osl": "osl", "context": "context", "weights": "weight_dtype", "kv": "kv_dtype",
}  # fmt: skip
"""The column of a table of cases that says what a flag says."""
PREDICTED: Final = {"predicted_tpot_s": "tpot_s", "low_s": "tpot_low_s", "high_s": "tpot_high_s"}
"""The keys of predict's tables that are of the time per token, by what they are called elsewhere."""
APART: Final = {
    "terms",
    "memory",
    "layout",
    "replicas",
    "line",
    "refused",
    "reason",
    "name",
    "verdict",
    "largest_batch",
}
"""Keys that are of one command alone, or no value."""


@dataclass(frozen=True)
class Case:
    """One scenario as flags."""

    model: str
    system: str
    batch: int
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        return [
            self.model,
            "--on",
            self.system,
            *(word for name, text in self.flags.items() for word in (f"--{name}", text)),
        ]

    @property
    def devices(self) -> int:
        return int(self.flags.get("tp", 1)) * int(self.flags.get("pp", 1)) * int(self.flags.get("attention-dp", 1))

    def __str__(self) -> str:
        return " ".join([*self.words, "--batch", str(self.batch)])


def drawn(seed: int) -> Case:
    """Return a scenario that decode answers."""
    dice = random.Random(seed)  # noqa: S311  the same scenarios every time
    while True:
        experts = dice.random() < 0.4
        flags: dict[str, str] = {"tp": dice.choice("1248"), "engine": dice.choice(ENGINES)}
        if dice.random() < 0.25:
            flags["pp"] = "2"
        if experts and dice.random() < 0.5:
            flags |= {"tp": "1", "attention-dp": "8", "ep": "8"}
        elif dice.random() < 0.15:
            flags["tp"] = "16"
        if dice.random() < 0.7:
            flags |= {"isl": dice.choice(("512", "2048", "8192")), "osl": dice.choice(("128", "1024"))}
        else:
            flags["context"] = dice.choice(("1024", "6000"))
        if dice.random() < 0.6:
            flags["weights"] = dice.choice(("fp8", "bf16", "nvfp4"))
        if dice.random() < 0.3:
            flags["kv"] = dice.choice(("fp8", "bf16"))
        if dice.random() < 0.2:
            flags |= {"draft-tokens": "3", "acceptance": "0.8"}
        batch = dice.choice((8, 16, 64, 512))
        case = Case(dice.choice(EXPERTS if experts else DENSE), dice.choice(SYSTEMS), batch, flags)
        found = invoke("decode", *case.words, "--batch", str(batch), "--csv")
        if found.code == 0:
            return case


def row_of(text: str) -> dict[str, str]:
    """Return the only row of a CSV table."""
    [row] = csv.DictReader(io.StringIO(text))
    return row


def decoded(case: Case) -> dict[str, dict[str, Any]]:
    job = ("decode", *case.words, "--batch", str(case.batch))
    text = invoke(*job, columns=140).out
    row = invoke(*job, "--json").document["rows"][0]
    assert units.format_time(row["tpot_s"]) in text or units.format_time(row["step_s"]) in text, text
    return {"decode --json": row, "decode --csv": row_of(invoke(*job, "--csv").out)}


def in_python(case: Case) -> dict[str, dict[str, Any]]:
    choices: dict[str, Any] = {name.replace("-", "_"): text for name, text in case.flags.items()}
    for name in ("tp", "pp", "ep", "attention_dp", "isl", "osl", "context", "draft_tokens"):
        if name in choices:
            choices[name] = int(choices[name])
    scenario = nhalf.load(case.model, on=case.system, batch=case.batch, **choices)
    point = points(scenario).at(0)
    keys = (
        "step_s", "tpot_s", "low_s", "high_s", "tpot_low_s", "tpot_high_s", "running", "tokens_per_s_per_user",
        "tokens_per_s_per_gpu", "memory_bytes", "fits_memory", "binding", "ttft_low_s", "ttft_high_s",
    )  # fmt: skip
    found = {key: getattr(point, key) for key in keys}
    return {"python": found, "nhalf.decode": {"step_s": float(nhalf.decode(scenario).value)}}


def swept(case: Case, folder: Path) -> dict[str, dict[str, Any]]:
    import polars as pl

    job = ("sweep", *case.words, "--axis", f"batch={case.batch}")
    file = folder / "sweep.parquet"
    assert invoke(*job, "-o", str(file)).code == 0
    return {
        "sweep --csv": row_of(invoke(*job, "-o", "-").out),
        "sweep --json": invoke(*job, "--json").document["best"] or {},
        "sweep parquet": pl.read_parquet(file).to_dicts()[0],
    }


def planned(case: Case) -> dict[str, dict[str, Any]]:
    degrees = [
        word for flag in ("tp", "pp", "ep", "attention-dp") if flag not in case.flags for word in (f"--{flag}", "1")
    ]
    found = invoke(
        "plan", *case.words, *degrees, "--gpus", str(case.devices), "--batch", str(case.batch), "--exchange",
        "all-gather", "--json", "--all",
    )  # fmt: skip
    if found.code == 3:
        return {}
    [row] = found.document["rows"]
    return {"plan --json": row}


def bought(case: Case) -> dict[str, dict[str, Any]]:
    found = invoke("buy", *case.words, "--batch", str(case.batch), "--option", "hbm=x2", "--json")
    if found.code == 3:
        return {}
    [option] = found.document["options"]
    return {"buy --json": {"step_s": option["step_before_s"]}}


def predicted(case: Case, folder: Path) -> dict[str, dict[str, Any]]:
    row: dict[str, object] = {"model": case.model, "system": case.system, "concurrency": case.batch}
    row |= {COLUMN[name]: text for name, text in case.flags.items() if name in COLUMN}
    if "draft-tokens" in case.flags:
        kept = nhalf.load("llama-3.1-8b", on="h100-sxm", draft_tokens=3, acceptance=0.8).workload.accepted_tokens
        row |= {"tokens_per_step": 4, "accepted_tokens": repr(kept)}
    table = folder / "cases.csv"
    table.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n", encoding="utf-8")
    document = invoke("predict", str(table), "--json").document["rows"][0]
    if document["refused"]:
        return {}
    found = {"predict --json": document, "predict --csv": row_of(invoke("predict", str(table), "--csv").out)}
    return {
        form: {PREDICTED.get(key, key): value for key, value in each.items() if key not in row}
        for form, each in found.items()
    }


def plain(value: object) -> object:
    """Return a value of any form as a float where it is a number, and None where it says nothing."""
    if value is None or value == "" or isinstance(value, (dict, list)):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return value
    return None if number != number else number  # noqa: PLR0124  NaN


@pytest.mark.parametrize("seed", range(SCENARIOS))
def test_every_key_that_two_commands_share_has_one_value(seed: int, tmp_path: Path) -> None:
    case = drawn(seed)
    answers = decoded(case) | in_python(case) | swept(case, tmp_path) | planned(case) | bought(case)
    answers |= predicted(case, tmp_path)
    said: dict[str, dict[str, object]] = {}
    for form, row in answers.items():
        for key, value in row.items():
            if key not in APART and (known := plain(value)) is not None:
                said.setdefault(key, {})[form] = known
    differ = {key: forms for key, forms in said.items() if len(set(forms.values())) > 1}
    assert not differ, f"{case}: {differ}"
    shared = {key for key, forms in said.items() if len({form.split()[0] for form in forms}) > 2}
    assert {"step_s", "tpot_s", "running", "tokens_per_s_per_gpu", "memory_bytes", "fits_memory"} <= shared, shared


def test_the_scenarios_reach_every_command_and_what_once_differed() -> None:
    cases = [drawn(seed) for seed in range(SCENARIOS)]
    assert len({str(case) for case in cases}) > 0.9 * SCENARIOS
    assert sum("draft-tokens" in case.flags for case in cases) >= 5
    assert sum("kv" not in case.flags for case in cases) >= 20
    assert sum(case.batch == 512 and "isl" in case.flags for case in cases) >= 5
    assert sum("attention-dp" in case.flags for case in cases) >= 5

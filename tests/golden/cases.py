"""The cases of other people's engines: their free text mapped by hand, predicted, and compared, source by source."""

from __future__ import annotations

import csv
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from nhalf.breakdown import columns
from nhalf.catalog import overlay
from nhalf.citation import Datum
from nhalf.collective import Mode
from nhalf.loading.case_table import Table
from nhalf.loading.cases import Options, cases
from nhalf.loading.model import model_of
from nhalf.loading.predictions import predictions
from nhalf.predict.step import decode
from nhalf.transformer import BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).with_name("decode_cases")
HEADER = (
    "model", "system", "engine", "library", "mode", "weight_dtype", "kv_dtype", "context", "batch", "tp", "pp",
    "moe_ep", "tokens_per_step", "accepted_tokens",
)  # fmt: skip
REFUSED = "refused: "
# Multi-token prediction with three drafts: 2.2 to 2.4 tokens are kept of a step (TensorRT-LLM's own account of it).
DRAFTS = {"TRT-LLM MTP3": ("4", "2.3")}
_BITS = {32: "", 16: "bf16", 8: "int8"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case: its id, its source in short, what was measured and predicted [s], or why nothing is.

    `launched` tells that its engine launches kernels one by one, `engine` is its class.
    """

    id: str
    source: str
    engine: str
    launched: bool
    kind: str
    group: tuple[str, ...]
    devices: int
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    refused: str


def read() -> list[Case]:
    """Return every case, predicted or refused."""
    with (HERE / "cases.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    mapping = tomllib.loads((HERE / "mapping.toml").read_text(encoding="utf-8"))
    found: list[Case | None] = [None] * len(rows)
    by_class: dict[str, list[tuple[int, list[str]]]] = {}
    for index, row in enumerate(rows):
        mapped = _mapped(row, mapping)
        if isinstance(mapped, str):
            found[index] = _case(row, (np.nan, np.nan, np.nan), mapped)
        else:
            by_class.setdefault(mapped[0], []).append((index, mapped[1]))
    with mock.patch.dict(os.environ, {overlay.VARIABLE: str(HERE / "catalog.toml")}):
        for name, members in by_class.items():
            table = Table(path="cases", header=HEADER, rows=[cells for _, cells in members])
            answers = predictions(cases(table, Options(constants=_constants(mapping["classes"].get(name, {})))))
            groups = answers.cases.groups
            for place, (index, _) in enumerate(members):
                launched = not answers.refused[place] and groups[answers.group[place]].scenario.stack.mode != Mode.GRAPH
                low, time, high = (float(each[place]) for each in (answers.low_s, answers.tpot_s, answers.high_s))
                case = _case(rows[index], (low, time, high), answers.refused[place])
                found[index] = replace(case, engine=name, launched=launched)
    return [case for case in found if case is not None]


def _mapped(row: Mapping[str, str], mapping: Mapping[str, Any]) -> str | tuple[str, list[str]]:
    """Return the class of the engine and the cells of a case table, or why there are none."""
    hardware = mapping["hardware"]
    system = hardware.get(f"{row['hardware']}|{row['fabric']}") or hardware[row["hardware"]]
    model = mapping["models"][row["model"]]
    for text in (system, model):
        if text.startswith(REFUSED):
            return str(text.removeprefix(REFUSED))
    if not (row["tpot_ms"] and row["batch"] and row["tp"]):
        return "the source does not say what was measured"
    if row["kind"] == "disk":
        return "the weights are streamed from disk"
    path = str(HERE / "models" / model) if model.endswith(".toml") else model
    name = next(each for words, each in mapping["engines"].items() if row["software"].startswith(words))
    chosen = mapping["classes"].get(name, {"engine": name})
    fed, kept = DRAFTS.get(row["software"], ("", ""))
    cells = [
        path, system, chosen["engine"], chosen.get("library", ""), chosen.get("mode", ""),
        _dtype(row["wbits"], path), "bf16", row["ctx"] or "512", row["batch"], row["tp"],
        row["pp"] or "1", row["ep"] or "1", fed, kept,
    ]  # fmt: skip
    return name, cells


def _dtype(bits: str, model: str) -> str:
    """Return the dtype nearest to a number of bits per weight; 4.25 to 5 bits are 4 bits and a group's scales.

    It is empty, for the checkpoint's own, where that has as many.
    """
    if not bits:
        return ""
    dtype = _BITS.get(round(float(bits)), "int4")
    return "" if dtype and BITS[dtype] == BITS[model_of(model)[0].weight_dtype] else dtype


def _constants(chosen: Mapping[str, Any]) -> dict[str, Datum]:
    """Return the constants that a class of engines assumes."""
    return {
        name: Datum(
            value=float(value),
            unit="s" if name.endswith("_s") else "1",
            source="tests",
            locator="mapping.toml",
            kind="assumed",
            date="2026-11",
        )
        for name, value in chosen.items()
        if not isinstance(value, str)
    }


def _case(row: Mapping[str, str], times_s: tuple[float, float, float], refused: str) -> Case:
    """Return a case with its answer: the low end of its band, its time and the high end, or why there are none."""
    low, predicted, high = times_s
    same = ("model", "wbits", "hardware", "fabric", "software", "batch", "ctx", "pp")
    return Case(
        id=row["id"],
        source=row["source"].split(" ")[0].removeprefix("github.com/").split("@")[0],
        engine="",
        launched=False,
        kind=row["kind"],
        group=tuple(row[name] for name in same),
        devices=int(row["tp"] or 0),
        measured_s=float(row["tpot_ms"] or "nan") / 1e3,
        predicted_s=predicted,
        low_s=low,
        high_s=high,
        refused=refused,
    )


def communication() -> list[tuple[str, str, int, float, float]]:
    """Return model, hardware, nodes, and what communication took and takes by the model [s], where it was measured."""
    with (HERE / "cases.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["comm_ms"]]
    mapping = tomllib.loads((HERE / "mapping.toml").read_text(encoding="utf-8"))
    found = []
    with mock.patch.dict(os.environ, {overlay.VARIABLE: str(HERE / "catalog.toml")}):
        for row in rows:
            mapped = _mapped(row, mapping)
            if isinstance(mapped, str):
                continue
            table = Table(path="cases", header=HEADER, rows=[mapped[1]])
            (group,) = cases(table, Options(constants=_constants(mapping["classes"].get(mapped[0], {})))).groups
            owed = columns(decode(group.scenario))
            taken = sum(float(np.max(owed.get(name, 0.0))) for name in ("collective_fixed", "collective_transfer"))
            found.append((row["model"], row["hardware"], int(row["tp"]), float(row["comm_ms"]) / 1e3, taken))
    return found


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two runs, or two scalings, that differ in communication: what differs, and both ratios of their times."""

    what: str
    measured: float
    predicted: float


def pairs(found: list[Case]) -> list[Pair]:
    """Return the pairs of `pairs.toml`: the time of the second over that of the first, measured and predicted.

    With two cases on each side the ratio is of scalings: (second of `then` / first of it) over that of `before`.
    """
    cases_by_id = {case.id: case for case in found}
    listed = tomllib.loads((HERE / "pairs.toml").read_text(encoding="utf-8"))["pairs"]

    def ratio(ids: list[str], *, measured: bool) -> float:
        times = [case.measured_s if measured else case.predicted_s for case in (cases_by_id[each] for each in ids)]
        return times[-1] / times[0] if len(times) > 1 else times[0]

    return [
        Pair(
            what=each["what"],
            measured=ratio(each["then"], measured=True) / ratio(each["before"], measured=True),
            predicted=ratio(each["then"], measured=False) / ratio(each["before"], measured=False),
        )
        for each in listed
    ]


def by_source(found: list[Case]) -> dict[str, tuple[int, int, float, float]]:
    """Return for each source its cases, how many were refused, and the median error and bias of the others."""
    sources: dict[str, list[Case]] = {}
    for case in found:
        sources.setdefault(case.source, []).append(case)
    answers = {}
    for source, members in sorted(sources.items()):
        told = [case for case in members if not case.refused]
        errors = np.array([case.predicted_s / case.measured_s - 1 for case in told])
        median, bias = (
            (float(np.median(each)) for each in (np.abs(errors), errors)) if len(errors) else (np.nan, np.nan)
        )
        answers[source] = (len(members), len(members) - len(told), median, bias)
    return answers

"""Write the calibration that ships, and the table of the runs that it was derived from.

    python tools/derive_calibration.py decode_train.csv decode_more.csv    # both, from tables of measured runs
    python tools/derive_calibration.py                                     # the calibration, from the runs that ship

The runs are those without a `quality_flag`. A test checks that the calibration that ships is what this derives.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nhalf.calibrate.derive import Derived, constants_of, derive, from_pairs
from nhalf.calibrate.evidence import Evidence, evidence
from nhalf.calibrate.known import known_stacks
from nhalf.calibrate.prior import prior
from nhalf.calibrate.routing import Routing
from nhalf.catalog import files
from nhalf.catalog.curves import version_order
from nhalf.loading.case_table import read_table
from nhalf.loading.cases import Options, cases
from nhalf.loading.engine_version import is_version
from nhalf.loading.measured import measured_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.calibrate.routing import Concentration

DATA = Path(files.__file__).with_name("data")
RUNS = DATA / "golden" / "serving-runs.csv"
GLOBAL = DATA / "calibration" / "global.toml"
STACKS = DATA / "calibration" / "stacks.toml"
CURVE = ("tp", "attention_dp", "moe_tp", "moe_ep", "isl", "osl", "engine_version")
SOURCE = "aiconfigurator-core-0.12.0"
KEPT = (
    "model", "system", "engine", "engine_version", "weight_dtype", "moe_dtype", "isl", "osl", "concurrency", "tp",
    "pp", "attention_dp", "moe_tp", "moe_ep", "ttft_s", "tpot_s",
)  # fmt: skip
FAMILIES = {
    "llama-8b": ("llama-3.1-8b", "llama-3.1-8b-fp8"),
    "llama-70b": ("llama-3.1-70b", "llama-3.1-70b-fp8"),
    "qwen3-32b": ("qwen3-32b", "qwen3-32b-fp8", "qwen3-32b-nvfp4"),
    "deepseek-v3": ("deepseek-v3", "deepseek-r1", "deepseek-v3.1-nvfp4", "deepseek-r1-nvfp4"),
    "gpt-oss-120b": ("gpt-oss-120b",),
    "qwen3-235b": ("qwen3-235b-a22b", "qwen3-235b-a22b-fp8", "qwen3-235b-a22b-nvfp4"),
    "minimax-m2.5": ("minimax-m2.5", "minimax-m2.5-nvfp4"),
    "kimi-k2.5": ("kimi-k2.5", "kimi-k2.5-nvfp4"),
    "qwen3.5-397b": ("qwen3.5-397b-a17b",),
    "glm-5": ("glm-5",),
}
"""The models of the runs by family: sizes of one architecture are families of their own."""
FAMILY_OF = {model: name for name, models in FAMILIES.items() for model in models}
EXCESS_S = (5.9e-6, 3.5e-6, 5.8e-6)
"""Time of a collective [s] inside a model beyond its isolated time, at TP 2, 4 and 8: Llama-3-70B on H100 at batch 1,
with and without communication, 13.0, 14.7 and 24.2 us against 7.1, 11.2 and 18.4 us in the library's own table."""


def write_runs(tables: list[Path]) -> None:
    """Write the runs without a flag, in the columns that are kept."""
    rows = []
    for table in tables:
        with table.open(encoding="utf-8", newline="") as source:
            rows += [row for row in csv.DictReader(source) if not row["quality_flag"]]
    with RUNS.open("w", encoding="utf-8", newline="") as target:
        writer = csv.DictWriter(target, KEPT, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: tuple(row[name] for name in KEPT)))


def measured() -> Evidence:
    """Return the runs that ship as evidence."""
    table = read_table(RUNS)
    return evidence(cases(table, Options(calibrated=False)), measured_s(table))


def derived(runs: Evidence) -> Derived:
    """Return what the runs tell, given what pairs of runs tell of a collective's excess."""
    assumed = prior(calibrated=False)
    excess = from_pairs(assumed, "collective_excess_s", EXCESS_S)
    found = derive(runs, assumed.around({excess.name: excess.value}), FAMILY_OF)
    return replace(found, constants=(*found.constants, excess))


def told(runs: Evidence, known: Mapping[str, Concentration]) -> Evidence:
    """Return the runs with the routing concentrations of their families."""
    return Routing(costs={}, families=FAMILY_OF, prior=prior()).told(runs, known)


def document(runs: Evidence, found: Derived) -> str:
    """Return the calibration as TOML."""
    constants = {**prior().centre, **{each.name: each.value for each in found.constants}}
    errors = np.abs(np.expm1(-told(runs, found.routing).log_errors(constants)))
    clusters = len(np.unique(runs.cluster))
    lines = [
        "# Constants of a decode step for every stack: tools/derive_calibration.py, from golden/serving-runs.csv.",
        "# Do not edit: a test compares this file with what the tool derives.",
        "",
        f"identified = {list_of(each.name for each in found.constants if each.identified)}",
        "",
        "[common]",
        f'source = "{SOURCE}"',
        'kind = "fitted"',
        'date = "2026-11"',
        f'locator = "silicon_sample.csv: {len(runs)} serving runs of {clusters} stacks and models"',
        "",
        "[runs]",
        f"rows = {len(runs)}",
        f"clusters = {clusters}",
        f"median_error = {np.median(errors):.3f}",
        f"p90_error = {np.quantile(errors, 0.9):.3f}",
        "",
        "[seen]",
        f"systems = {list_of(np.unique(runs.system))}",
        f"engines = {list_of(np.unique(runs.engine))}",
        "",
        "[seen.versions]",
        *(f"{engine} = {list_of(sorted(seen, key=version_order))}" for engine, seen in versions(runs).items()),
        "",
        "[seen.families]",
        *(f'"{name}" = {list_of(models)}' for name, models in FAMILIES.items()),
    ]
    for name, routing in sorted(found.routing.items()):
        values = (f'{key} = "{getattr(routing, key):.3g}"' for key in ("value", "low", "high"))
        lines += ["", f'[routing."{name}"]', *values]
    for kind, widths in found.widths.items():
        for name, (below, above) in widths.items():
            lines += ["", f"[bands.{kind}.{name}]"]
            lines += [f'low.value = "{np.exp(-below):.3f}"', f'high.value = "{np.exp(above):.3f}"']
    return "\n".join([*lines, *constant_tables(found)]) + "\n"


def versions(runs: Evidence) -> dict[str, set[str]]:
    """Return the versions of each engine that the runs had, those that say one."""
    told = read_table(RUNS).column("engine_version")
    found: dict[str, set[str]] = {}
    for engine, row in zip(runs.engine.tolist(), runs.rows.tolist(), strict=True):
        if is_version(told[row]):
            found.setdefault(engine, set()).add(told[row])
    return dict(sorted(found.items()))


def curves(runs: Evidence) -> Array:
    """Return the curve of each run: its stack and model, its layout, and the lengths of its prompts and outputs."""
    table = read_table(RUNS)
    told = [table.column(name) for name in CURVE]
    return np.array([
        "|".join((cluster, *(texts[row] for texts in told)))
        for cluster, row in zip(runs.cluster.tolist(), runs.rows.tolist(), strict=True)
    ])  # fmt: skip


def stacks(runs: Evidence, constants: Mapping[str, float]) -> str:
    """Return the constants of the stacks that predict curves they have not seen better by constants of their own."""
    centre = prior(calibrated=False).around(constants)
    lines = [
        "# Constants of stacks that were measured with one model: tools/derive_calibration.py, from",
        "# golden/serving-runs.csv. Do not edit: a test compares this file with what the tool derives.",
        "",
        "[common]",
        f'source = "{SOURCE}"',
        'kind = "fitted"',
        'date = "2026-11"',
        'locator = "silicon_sample.csv: the runs of this stack and model"',
    ]
    table = read_table(RUNS).column("engine_version")
    for known in known_stacks(runs, centre, curves(runs)):
        had = {table[row] for row in runs.take(runs.cluster == known.cluster).rows.tolist()}
        model, _, rest = known.cluster.partition(" ")
        dtype, _, rest = rest.partition(" on ")
        system, _, engine = rest.partition(", ")
        below, above = known.half_widths
        lines += [
            "",
            f'[stacks."{known.cluster}"]',
            f'model = "{model}"',
            f'weight_dtype = "{dtype}"',
            f'system = "{system}"',
            f'engine = "{engine}"',
            f"rows = {known.rows}",
            f"versions = {list_of(sorted(had, key=version_order))}",
            f"held_out_error = {known.held_out_error:.3f}",
            f"before_error = {known.before_error:.3f}",
            f'band.low.value = "{np.exp(-below):.3f}"',
            f'band.high.value = "{np.exp(above):.3f}"',
        ]
        for each in constants_of(centre, known.fitted.constants, known.fitted.log_sd, {}):
            if each.moved:
                scale, unit = (1e6, " us") if each.name.endswith("_s") else (1.0, "")
                value, low, high = (f"{number * scale:.4g}{unit}" for number in (each.value, each.low, each.high))
                name = each.name.removesuffix("_s")
                lines.append(f'constants.{name} = {{ value = "{value}", low = "{low}", high = "{high}" }}')
    return "\n".join(lines) + "\n"


def constant_tables(found: Derived) -> list[str]:
    """Return the tables of the constants."""
    lines = []
    for each in found.constants:
        scale, unit = (1e6, " us") if each.name.endswith("_s") else (1.0, "")
        note = "identified by the runs" if each.identified else "hardly moved from what was assumed: not identifiable"
        if each.name == "collective_excess_s":
            note = "from pairs of runs with and without communication; times per token cannot tell it"
        lines += [
            "",
            f"[constants.{each.name.removesuffix('_s')}]",
            f'value = "{each.value * scale:.4g}{unit}"',
            f'low = "{each.low * scale:.4g}{unit}"',
            f'high = "{each.high * scale:.4g}{unit}"',
            f'note = "{note}"',
        ]
        if each.name == "collective_excess_s":
            lines += ['source = "nhalf-priors"', 'locator = "Llama-3-70B on H100 at batch 1, TP 2, 4 and 8: 3 pairs"']
    return lines


def list_of(names: object) -> str:
    """Return names as a TOML list."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"  # type: ignore[attr-defined]


def main(arguments: list[str]) -> int:
    """Write both files."""
    if arguments:
        write_runs([Path(each) for each in arguments])
    runs = measured()
    found = derived(runs)
    GLOBAL.write_text(document(runs, found), encoding="utf-8")
    text = stacks(told(runs, found.routing), {each.name: each.value for each in found.constants})
    STACKS.write_text(text, encoding="utf-8")
    own = text.count("held_out_error")
    print(f"{GLOBAL.name}: {len(runs)} runs; {STACKS.name}: {own} stacks")  # noqa: T201  a tool says what it did
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

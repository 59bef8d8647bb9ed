"""The scenario of rows of a case table that differ only in their load: what their cells mean."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nhalf.catalog import store
from nhalf.catalog.curves import of_library
from nhalf.catalog.measured_stacks import of_its_own
from nhalf.citation import Datum
from nhalf.errors import InputError, did_you_mean
from nhalf.layout import Layout, check
from nhalf.loading.case_columns import DEGREES, degree
from nhalf.loading.case_model import DTYPES, model_of
from nhalf.loading.kv_rule import assumed_kv
from nhalf.predict.memory import held_weights
from nhalf.scenario import Scenario
from nhalf.transformer import BITS, KV_BYTES
from nhalf.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.loading.cases import Options
    from nhalf.stack import Stack
    from nhalf.system import System
    from nhalf.transformer import Transformer


def scenario_of(cells: Mapping[str, str], at: Mapping[str, Array], options: Options) -> Scenario:
    """Return the scenario of rows with the same `cells` of names and degrees; `at` holds their loads by column.

    Raises
    ------
    InputError
        A name is not known, the layout is not possible, or a device cannot hold its weights.
    """
    transformer, stored = model_of(cells["model"])
    system, origins = store.system(cells["system"], curves=True, where="system")
    stack, of_stack = _stack(cells, system, options)
    system = replace(system, curves=of_library(system.curves, stack.library.name, stack.mode))
    dtype = _weights(cells, transformer, stored)
    kv, origin = _cache(cells, dtype, system, stack)
    layout = _layout(cells, transformer, system)
    batch = at["batch"] / (float(cells["attention_dp"] or 1) if transformer.mixture is None else 1.0)
    workload = _workload({**at, "batch": np.maximum(batch, 1.0)}, dtype, kv)
    origins = {**origins, **of_stack, "workload.kv_bytes": origin}
    scenario = Scenario(
        transformer=transformer, system=system, layout=layout, workload=workload, stack=stack, origins=origins
    )
    if options.calibrated and not options.constants:
        scenario = of_its_own(scenario)
    _must_fit(scenario, told_tp=bool(cells["tp"]))
    return scenario


def _stack(cells: Mapping[str, str], system: System, options: Options) -> tuple[Stack, dict[str, Datum]]:
    """Return the stack of a group with its origins; constants that the options give take their places."""
    stack, origins = store.stack(
        cells["engine"] or "vllm",
        library=cells["library"] or None,
        mode=cells["mode"] or None,
        architecture=system.device.architecture,
        calibrated=options.calibrated,
    )
    values = {name: datum.value for name, datum in options.constants.items()}
    given = {f"stack.{name}": datum for name, datum in options.constants.items()}
    return replace(stack, **values), {**origins, **given}  # type: ignore[arg-type]


def _weights(cells: Mapping[str, str], transformer: Transformer, stored: str) -> str:
    """Return the dtype of the weights: the narrower of the two that a row names, or the checkpoint's own if narrower.

    Raises
    ------
    InputError
        A dtype that is not known.
    """
    named = []
    for column in ("weight_dtype", "moe_dtype"):
        text = cells[column].strip().lower()
        if text and text not in DTYPES:
            raise InputError(f"dtype {text!r} is not known", where=column, do=did_you_mean(text, DTYPES))
        named += [DTYPES[text]] if text else []
    wanted = min(named, key=lambda dtype: BITS[dtype], default=stored or transformer.weight_dtype)
    return transformer.weight_dtype if BITS[wanted] >= BITS[transformer.weight_dtype] else wanted


def _cache(cells: Mapping[str, str], weights: str, system: System, stack: Stack) -> tuple[str, Datum]:
    """Return the dtype of the cache and the origin of its bytes: what the row says, or what is likely."""
    text = cells["kv_dtype"].strip().lower()
    if not text:
        return assumed_kv(weights=weights, engine=stack.engine, architecture=system.device.architecture)
    dtype = DTYPES.get(text, "")
    if dtype not in KV_BYTES:
        raise InputError(f"cache dtype {text!r} is not known", where="kv_dtype", allowed=", ".join(KV_BYTES))
    given = Datum(value=KV_BYTES[dtype], unit="bytes", source="cases", locator="kv_dtype", kind="given", date="")
    return dtype, given


def _layout(cells: Mapping[str, str], transformer: Transformer, system: System) -> Layout:
    """Return the layout of a group.

    Raises
    ------
    InputError
        A degree is no whole number, the degrees of experts do not multiply out, or the model does not allow them.
    """
    degrees = {name: degree(cells[name], name) for name in DEGREES}
    dense = transformer.mixture is None
    layout = Layout(
        tensor_parallel=degrees["tp"],
        pipeline_parallel=degrees["pp"],
        attention_dp=1 if dense else degrees["attention_dp"],
        expert_parallel=1 if dense else degrees["moe_ep"],
    )
    stated = (cells["moe_tp"], cells["moe_ep"])
    if not dense and all(stated) and degrees["moe_tp"] * degrees["moe_ep"] != layout.expert_devices:
        raise InputError(
            f"moe_tp x moe_ep = {degrees['moe_tp'] * degrees['moe_ep']} is not tp x attention_dp = "
            f"{layout.expert_devices}",
            where="layout",
            do="state the degrees as the engine counts them",
        )
    check(layout, transformer, system.fabric)
    return layout


def _workload(at: Mapping[str, Array], weights: str, kv: str) -> Workload:
    """Return the workload of a group's rows: with prompts where they say isl and osl, else at a fixed context."""
    prompts = ~(np.isnan(at["isl"]) | np.isnan(at["osl"]))
    prompt, output = np.where(prompts, at["isl"], 0.0), np.where(prompts, at["osl"], 0.0)
    context = np.where(np.isnan(at["context"]), prompt + output / 2, at["context"])
    fed = np.where(np.isnan(at["tokens_per_step"]), 1.0, at["tokens_per_step"])
    kept = np.where(np.isnan(at["accepted_tokens"]), 1.0, at["accepted_tokens"])
    return Workload(
        batch=at["batch"],
        context_tokens=context,
        weight_dtype=weights,
        kv_dtype=kv,
        kv_bytes=KV_BYTES[kv],
        tokens_per_step=fed,
        accepted_tokens=kept,
        prompt_tokens=prompt,
        output_tokens=output,
    )


def _must_fit(scenario: Scenario, *, told_tp: bool) -> None:
    """Refuse a layout whose weights alone exceed the memory of a device; without tp, one device was taken.

    Raises
    ------
    InputError
        They do.
    """
    weights = float(np.max(held_weights(scenario).value))
    memory = float(np.mean(scenario.system.device.memory_bytes))
    if weights > memory:
        raise InputError(
            f"the weights need {weights / 1e9:.0f} GB of the {memory / 1e9:.0f} GB on each device",
            where="memory",
            do="raise tp, or quantise" if told_tp else "state tp: nothing does, so one device was taken",
        )

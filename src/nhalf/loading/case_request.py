"""Rows of a case table that differ only in their load, as a request: what their cells mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nhalf.catalog import store
from nhalf.errors import InputError, did_you_mean
from nhalf.loading.case_columns import DEGREES, degree
from nhalf.loading.choices import Request
from nhalf.loading.degrees import Degrees
from nhalf.loading.dtypes import DTYPES
from nhalf.loading.engine_version import is_version
from nhalf.loading.inputs import of_part
from nhalf.loading.model import model_of
from nhalf.transformer import BITS, KV_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array, Quantity
    from nhalf.loading.stack_file import StackFile
    from nhalf.transformer import Transformer


def request_of(cells: Mapping[str, str], at: Mapping[str, Array], stack: StackFile | None) -> Request:
    """Return the request of rows with the same `cells` of names and degrees; `at` holds their loads by column.

    Raises
    ------
    InputError
        A name is not known, a degree is none, or those of experts do not multiply out.
    """
    transformer, stored = model_of(cells["model"])
    degrees = _degrees(cells, transformer)
    replicas = degree(cells["attention_dp"], "attention_dp") if transformer.mixture is None else 1
    options = {row.name: cells[row.column] for row in of_part("options") if row.column and cells[row.column]}
    return Request(
        model=cells["model"],
        systems=(cells["system"],),
        degrees=degrees,
        weights=_weights(cells, transformer, stored),
        kv=_cache(cells),
        engine=_engine(cells),
        library=cells["library"] or None,
        mode=cells["mode"] or None,
        stack=stack,
        load=_load({**at, "batch": np.maximum(at["batch"] / replicas, 1.0)}),
    ).updated(options, lambda row: row.column)


def _engine(cells: Mapping[str, str]) -> str | None:
    """Return the engine of rows with its version, where a cell is one; None where they name no engine."""
    name, version = cells["engine"], cells["engine_version"].strip()
    return f"{name}=={version}" if name and "==" not in name and is_version(version) else name or None


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
    return transformer.weight_dtype if BITS[wanted] > BITS[transformer.weight_dtype] else wanted


def _cache(cells: Mapping[str, str]) -> str | None:
    """Return the dtype of the cache that rows state, None where they state none."""
    text = cells["kv_dtype"].strip().lower()
    if not text:
        return None
    dtype = DTYPES.get(text, "")
    if dtype not in KV_BYTES:
        raise InputError(f"cache dtype {text!r} is not known", where="kv_dtype", allowed=", ".join(KV_BYTES))
    return dtype


def _degrees(cells: Mapping[str, str], transformer: Transformer) -> Degrees:
    """Return the degrees of rows; data parallelism of a dense model is replicas, which share the load.

    Raises
    ------
    InputError
        A degree is no whole number, or the degrees of experts do not multiply out.
    """
    whole = {"node": str(store.system(cells["system"])[0].fabric.devices_per_node)}
    given = {name: degree(whole.get(cells[name], cells[name]), name) for name in DEGREES}
    dense = transformer.mixture is None
    experts = given["tp"] * given["attention_dp"]
    stated = (cells["moe_tp"], cells["moe_ep"])
    if not dense and all(stated) and given["moe_tp"] * given["moe_ep"] != experts:
        raise InputError(
            f"moe_tp x moe_ep = {given['moe_tp'] * given['moe_ep']} is not tp x attention_dp = {experts}",
            where="layout",
            do="state the degrees as the engine counts them",
        )
    return Degrees(
        tp=(given["tp"],),
        pp=(given["pp"],),
        cp=(given["cp"],),
        attention_dp=(1 if dense else given["attention_dp"],),
        ep=(1 if dense else given["moe_ep"],),
    )


def _load(at: Mapping[str, Array]) -> dict[str, Quantity]:
    """Return the numbers of a workload for rows: with prompts where they say isl and osl, else at a fixed context."""
    prompts = ~(np.isnan(at["isl"]) | np.isnan(at["osl"]))
    prompt, output = np.where(prompts, at["isl"], 0.0), np.where(prompts, at["osl"], 0.0)
    return {
        "batch": at["batch"],
        "context_tokens": np.where(np.isnan(at["context"]), prompt + output / 2, at["context"]),
        "prompt_tokens": prompt,
        "output_tokens": output,
        "tokens_per_step": np.where(np.isnan(at["tokens_per_step"]), 1.0, at["tokens_per_step"]),
        "accepted_tokens": np.where(np.isnan(at["accepted_tokens"]), 1.0, at["accepted_tokens"]),
    }

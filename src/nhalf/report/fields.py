"""Fields: what each number of a point is called, said once for screens, documents, tables and the glossary.

A command lists the keys of the fields that it shows; their heads, units, formats and sentences stand here. A field that
is added here and to `POINT` is in the documents and tables of every command about points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nhalf import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def text(value: object) -> str:
    """Return a word or a whole number as it is, and a dash for what is not known."""
    return "-" if value is None else str(value)


def time(value: float | None) -> str:
    """Return a time of three digits in the unit that suits it."""
    return "-" if value is None else units.format_time(value)


def milliseconds(value: float) -> str:
    """Return a time [s] in milliseconds to two decimals, so that columns add up by eye, and `0` for none."""
    return f"{1e3 * value:.2f}" if value else "0"


def count(value: float | None) -> str:
    """Return a number of three significant digits, without an exponent."""
    if value is None:
        return "-"
    return f"{value:.3g}" if value < 999.5 else f"{float(f'{value:.3g}'):,.0f}"  # noqa: PLR2004  three digits end


def gigabytes(value: float) -> str:
    """Return a size [bytes] in GB to one decimal."""
    return f"{value / 1e9:.1f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: its key in documents and tables, its head on screens, its unit, how it is shown, and what it is."""

    key: str
    head: str
    says: str
    unit: str = ""
    show: Callable[[Any], str] = text

    def of(self, row: object) -> Any:  # noqa: ANN401  a number, a word, or None
        """Return the field of a row: whole numbers without a point; the parts of a step are in its columns."""
        value = row.columns[self.key[:-2]] if self.key in PARTS else getattr(row, self.key)  # type: ignore[attr-defined]
        return int(value) if isinstance(value, float) and value.is_integer() and self.show is text else value


def _time(key: str, head: str, says: str) -> Field:
    """Return a field that is a time [s], shown in ms."""
    return Field(key=key, head=head, says=says, unit="s", show=milliseconds)


FIELDS: Final = (
    Field(key="system", head="system", says="The machine, by its id in the catalogue."),
    Field(key="model", head="model", says="The model, by its id in the catalogue."),
    Field(key="tp", head="TP", says="Tensor parallelism: the GPUs that share every layer."),
    Field(key="pp", head="PP", says="Pipeline parallelism: the stages that hold different layers."),
    Field(key="ep", head="EP", says="Expert parallelism: the groups that hold different experts."),
    Field(key="attention_dp", head="DP", says="Attention data parallelism: the groups with sequences of their own."),
    Field(key="moe_tp", head="expert TP", says="Over how many GPUs each expert is cut."),
    Field(key="cp", head="CP", says="Context parallelism: the groups that share each sequence's KV cache."),
    Field(key="layout_name", head="layout", says="The layout in short: TP8, TP4 PP2, TP1 DP8 EP8."),
    Field(key="exchange", head="exchange", says="How tokens reach their experts: all-gather or all-to-all."),
    Field(key="nodes", head="nodes", says="Nodes of one replica; a node is an NVLink (or Infinity Fabric) domain."),
    Field(key="kind", head="kind", says="Whether the collectives were measured there, or are modelled."),
    Field(key="as_of", head="as of", says="The library and version that the collectives were measured with."),
    Field(key="phase", head="phase", says="A decode step, or the prefill of prompts."),
    Field(key="batch", head="batch", says="Sequences that were asked for, in one replica."),
    Field(
        key="running",
        head="running",
        says="Sequences that really decode together: those the KV cache has room for.",
        show=count,
    ),
    _time("step_s", "step", "The time of one step: every running sequence gets its next tokens."),
    _time("low_s", "from", "Low end of the step's 80 % range: four of five such runs are inside."),
    _time("high_s", "to", "High end of the step's 80 % range."),
    _time("tpot_s", "ms/token", "What a user waits for each token: the step over the tokens kept."),
    _time("tpot_low_s", "from", "Low end of the 80 % range of the time per token."),
    _time("tpot_high_s", "to", "High end of the 80 % range of the time per token."),
    Field(
        key="ttft_low_s", head="TTFT", says="Time to the first token of a prompt that comes alone.", unit="s", show=time
    ),
    Field(
        key="ttft_high_s",
        head="TTFT, burst",
        says="Time to the first token when all prompts of the batch come at once.",
        unit="s",
        show=time,
    ),
    _time("ttft_p50_s", "TTFT", "What half of the requests wait for their first token, by a replay of the server."),
    _time("ttft_p99_s", "TTFT, 99 %", "What 99 % of the requests wait at most for their first token."),
    _time("tpot_p50_s", "token", "What half of the requests wait at most for each further token."),
    _time("tpot_p99_s", "token, 99 %", "What 99 % of the requests wait at most for each further token."),
    Field(key="tokens_per_s", head="tok/s", says="Tokens per second of one replica.", unit="1/s", show=count),
    Field(
        key="tokens_per_s_per_user", head="tok/s", says="Tokens per second that one user sees.", unit="1/s", show=count
    ),
    Field(
        key="tokens_per_s_per_gpu",
        head="tok/s/GPU",
        says="Tokens per second that each GPU gives.",
        unit="1/s",
        show=count,
    ),
    Field(
        key="memory_bytes",
        head="memory GB",
        says="What the fullest GPU holds: weights, KV cache and workspace.",
        unit="bytes",
        show=gigabytes,
    ),
    Field(key="fits_memory", head="fits", says="Whether that fits: yes, marginal (a tight fit), or no."),
    Field(key="binding", head="most time", says="The part of the step that takes the most time."),
    Field(key="reason", head="why not", says="Why a point is not legal; empty where it is."),
    _time("weights_s", "weights", "Reading weights from HBM."),
    _time("experts_s", "experts", "Reading the weights of the experts that the batch's tokens hit."),
    _time("kv_s", "KV cache", "Reading the keys and values of earlier tokens."),
    _time("compute_s", "arithmetic", "Arithmetic that does not hide behind reading memory."),
    _time("launch_s", "overhead", "Per-layer, per-step and per-sequence overhead: neither bytes nor arithmetic."),
    _time("collective_fixed_s", "latency", "All-reduce latency: the part of collectives that no size changes."),
    _time("collective_transfer_s", "bytes", "All-reduce bytes: the part of collectives that grows with size."),
    _time("hand_over_s", "pipeline", "Pipeline transfer: activations sent to the next stage."),
    _time("prefill_s", "prefill", "Prefill interference: prompts of new requests worked on between steps."),
)
"""Every field of a predicted point."""
BY_KEY: Final = {field.key: field for field in FIELDS}
LAYOUT: Final = ("tp", "pp", "ep", "attention_dp", "moe_tp", "cp")
"""The degrees of a layout."""
PARTS: Final = (
    "weights_s", "experts_s", "kv_s", "compute_s", "launch_s", "collective_fixed_s", "collective_transfer_s",
    "hand_over_s", "prefill_s",
)  # fmt: skip
"""What adds up to `step_s`."""
WAITS: Final = ("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s")
"""What requests wait, replayed one by one; null where no requests come."""
POINT: Final = (
    "system",
    "model",
    *LAYOUT,
    "exchange",
    "nodes",
    "batch",
    "running",
    "phase",
    "step_s",
    "low_s",
    "high_s",
    "tpot_s",
    "tpot_low_s",
    "tpot_high_s",
    "ttft_low_s",
    "ttft_high_s",
    "tokens_per_s_per_user",
    "tokens_per_s_per_gpu",
    "binding",
    *PARTS,
    "memory_bytes",
    "fits_memory",
    "kind",
    "as_of",
)
"""What documents and tables say of every point."""


def record(row: object, keys: Iterable[str] = POINT) -> dict[str, Any]:
    """Return some fields of a row by their keys."""
    return {key: BY_KEY[key].of(row) for key in keys}


def cells(row: object, keys: Iterable[str]) -> list[str]:
    """Return some fields of a row as they are shown."""
    return [BY_KEY[key].show(BY_KEY[key].of(row)) for key in keys]


def heads(keys: Iterable[str]) -> list[str]:
    """Return the heads of some fields, those of words to the left."""
    return [f"<{BY_KEY[key].head}" if BY_KEY[key].show is text else BY_KEY[key].head for key in keys]


def waited(found: object) -> dict[str, Any]:
    """Return the keys of `WAITS`, null where there are no requests."""
    return dict.fromkeys(WAITS) if found is None else record(found, WAITS)


def waits_line(found: Any) -> str:  # noqa: ANN401  a `Waits`, which this floor only reads
    """Return what requests wait, in one line of a first screen."""
    first, last, each, late = (units.format_time(getattr(found, key)) for key in WAITS)
    return f"First token in {first} (99 %: {last}), then {each} a token (99 %: {late})."

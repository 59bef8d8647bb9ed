"""The answer of `nhalf crossover`: from which batch on a collective pays for its bytes, by library and group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nhalf import units
from nhalf.collective import Mode
from nhalf.decide.regime import Turn
from nhalf.report.decode_document import CROSSOVER
from nhalf.report.document import envelope, number, of, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.decide.regime import Crossover
    from nhalf.loading import Default
    from nhalf.report.canvas import Canvas
    from nhalf.report.view import Brief

BATCHES: Final = (1, 4, 16, 64, 256, 1024)
"""The batches whose messages are shown."""
_TIERS: Final = {"intra_node": "inside", "inter_node": "across", "inter_rack": "racks"}
_WIDE: Final = 110
_TWICE: Final = 1.5
"""Above this ratio the two measures are not about the same size any more."""


def write(turns: Sequence[Turn], canvas: Canvas, told: Sequence[Default] = ()) -> None:
    """Write the messages by batch, every crossover, which measure to use, and what cluster files brought."""
    message = leading(turns).crossover.message_bytes_per_sequence
    canvas.heading("The message of one collective: hidden size x batch x 2 bytes")
    canvas.table(["batch", *(str(batch) for batch in BATCHES)],
                 [["message", *(size_of(batch * message) for batch in BATCHES)]])  # fmt: skip
    _table(turns, canvas)
    canvas.listed("Which one to use", [_advice(turns)], indent="  ")
    canvas.listed("Measured by you", [f"{each.flag} {each.value}: {each.reason}" for each in told], indent="  ")


def leading(turns: Sequence[Turn]) -> Turn:
    """Return the crossover that the verdict is about: the largest group in a node of the first library."""
    first = [turn for turn in turns if (turn.system, turn.library) == (turns[0].system, turns[0].library)]
    inside = [turn for turn in first if turn.crossover.tier == "intra_node"] or first
    inside = [turn for turn in inside if turn.crossover.collective.startswith("all-reduce")]
    preferred = [turn for turn in turns if turn.library == "vllm" and turn.system == turns[0].system]
    pool = [turn for turn in preferred if turn.crossover.tier == "intra_node"] or inside
    return max(pool, key=lambda turn: turn.crossover.ranks)


def _is_measured(turn: Turn) -> bool:
    """Tell whether a crossover is of a measured curve."""
    return turn.crossover.kind == "measured"


def batch_of(batch: float) -> str:
    """Return a batch as a whole number, or in words where there is none."""
    return f"{batch:.0f}" if batch < float("inf") else "none"


def size_of(size_bytes: float) -> str:
    """Return a size in binary units, or that it is never reached."""
    return units.format_size(size_bytes, binary=True) if size_bytes < float("inf") else "never"


def _table(turns: Sequence[Turn], canvas: Canvas) -> None:
    """Write every crossover."""
    wide = canvas.width >= _WIDE
    several = len({turn.system for turn in turns}) > 1
    canvas.heading("Crossovers, by library and group")
    lines = []
    for turn in turns:
        found = turn.crossover
        op = found.collective.partition(" x")[0]
        version = f" {turn.version}" if wide and turn.version else ""
        launched = "" if turn.mode == Mode.GRAPH else f", {turn.mode}"
        line = [turn.system] if several else []
        line += [f"{turn.library}{version}{launched}", op if wide else _SHORT.get(op, op), f"{found.ranks}"]
        line += [_TIERS[found.tier], units.format_time(found.latency_s)]
        line += [units.format_bandwidth(found.bandwidth_bytes_per_s)] if wide else []
        line += [size_of(found.half_size_bytes), batch_of(found.batch_at_half_size)]
        line += [size_of(found.double_floor_size_bytes), batch_of(found.batch_at_double_floor)]
        line += [f"{turn.ratio:.1f}x"] if wide else []
        lines.append([*line, found.kind])
    heads = [*(["<system"] if several else []), "<library", "<op", "K", "<path", "alpha", *(["beta"] if wide else []),
             "n_1/2", "at batch", "crossover", "from batch", *(["ratio"] if wide else []), "<kind"]  # fmt: skip
    canvas.table(heads, lines)
    if not wide:
        canvas.paragraph("AR all-reduce, AG all-gather, RS reduce-scatter; sizes are totals.", indent="  ")


_SHORT: Final = {"all-reduce": "AR", "all-gather": "AG", "reduce-scatter": "RS"}


def _advice(turns: Sequence[Turn]) -> str:
    """Return which of the two measures to use, and why they differ."""
    ratios = sorted(turn.ratio for turn in turns if turn.ratio > 0)
    least, most = (f"{ratio:.1f}" for ratio in (ratios[0], ratios[-1])) if ratios else ("", "")
    span = least if least == most else f"{least} to {most}"
    apart = f" Here n_1/2 is {span} times the other." if ratios else ""
    what = "measured" if any(map(_is_measured, turns)) else "modelled"
    why = (
        f"Use the crossover: the size at which a {what} collective takes twice the time of the smallest, so that half "
        "of it goes by bytes. n_1/2 = alpha x beta is of one line through the whole curve, whose beta is that of the "
        "largest messages; at small ones a library runs another algorithm, with few steps and more bytes (one-shot "
        "moves K - 1 vectors), so its time grows sooner."
    )
    if ratios and ratios[-1] < _TWICE:
        why += " The two agree where one algorithm runs at all sizes."
    return why + apart


def document(turns: Sequence[Turn], model: str, first: Brief, told: Sequence[Default] = ()) -> dict[str, Any]:
    """Return the document of the contract; its verdict is that of the first screen."""
    message = leading(turns).crossover.message_bytes_per_sequence
    body = {
        "verdict": " ".join([*first.verdict, first.number]).strip(),
        "model": model,
        "crossovers": [_crossover(turn) for turn in turns],
        "messages": [{"batch": batch, "size_bytes": batch * message} for batch in BATCHES],
        "use": "double_floor_size_bytes",
        "defaults": taken(told),
    }
    return envelope("crossover", body)


def _crossover(turn: Turn) -> dict[str, Any]:
    """Return a crossover with the keys that `nhalf decode` gives it, and whose it is."""
    return {**of(turn, "system", "library", "version", "mode"), **of(turn.crossover, *CROSSOVER)}


def document_of_link(found: Crossover, model: str, blocks: int) -> dict[str, Any]:
    """Return the document of a bare link: its crossover, and the floor of a token."""
    turn = Turn(system=found.system, library="", version="", mode=Mode.GRAPH, crossover=found)
    unknown = dict.fromkeys(("library", "mode", "tier", "ranks"))
    floor_s = blocks * found.floor_s
    return envelope(
        "crossover",
        {"model": model, "crossovers": [_crossover(turn) | unknown], "collectives_per_token": blocks,
         "floor_s": floor_s, "most_tokens_per_s": number(1 / floor_s if floor_s else float("inf"))},
    )  # fmt: skip

"""Launch lines that users paste: the layout, the load and the number formats that the flags of three engines mean."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nhalf import units
from nhalf.catalog import store
from nhalf.errors import InputError, did_you_mean
from nhalf.layout import Layout

_MARKS: Final = {"vllm": ("vllm", "vllm-openai"), "sglang": ("sglang",), "trtllm": ("trtllm-serve", "trtllm_serve")}
_MODEL_FLAGS: Final = ("model", "model-path")
_SHORT: Final = {
    "vllm": {
        "tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
        "ep": "enable-expert-parallel", "q": "quantization", "dcp": "decode-context-parallel-size",
    },
    "sglang": {
        "tp": "tp-size", "tensor-parallel-size": "tp-size", "pp": "pp-size", "pipeline-parallel-size": "pp-size",
        "dp": "dp-size", "data-parallel-size": "dp-size", "ep": "ep-size", "expert-parallel-size": "ep-size",
        "model": "model-path",
    },
    "trtllm": {},
}  # fmt: skip
"""Other spellings of flags, by engine."""
_READ: Final = {
    "vllm": ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size", "enable-expert-parallel"),
    "sglang": ("tp-size", "pp-size", "dp-size", "ep-size", "enable-dp-attention"),
    "trtllm": ("tp-size", "pp-size", "ep-size", "enable-attention-dp"),
}
"""The flags that make the layout, for suggestions."""
_PLACING: Final = (
    "data-parallel-size-local", "data-parallel-address", "data-parallel-rpc-port", "data-parallel-start-rank",
    "data-parallel-backend",
)  # fmt: skip
"""Flags that say which ranks a node starts, and no more."""
_KV: Final = {"fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "bfloat16": "bf16", "bf16": "bf16"}
_WEIGHTS: Final = {"fp8": "fp8", "awq": "int4", "gptq": "int4", "w8a8_fp8": "fp8", "modelopt_fp4": "nvfp4",
                   "w8a8_int8": "int8"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What a launch line says: unknown is None. `batch` is of one replica, `notes` what was left out of account."""

    engine: str
    model: str | None
    layout: Layout
    batch: int | None
    weights: str | None
    kv: str | None
    eager: bool
    notes: tuple[str, ...] = ()


def is_launch_line(text: str) -> bool:
    """Tell whether a text is a launch line, not the name of a model."""
    return len(text.split()) > 1 and _engine(text) is not None


def check_same(launched: Launched, model: str | None, engine: str | None) -> None:
    """Refuse a launch line of another model or engine than the one that is asked about.

    Raises
    ------
    InputError
        The two differ; a model that the catalogue does not know is believed to be the same.
    """
    if model is not None and launched.model is not None and _known(launched.model) not in ("", _known(model)):
        raise InputError(
            f"the line launches {launched.model}, and {model} is asked about", where="--launch", do="leave out one",
        )  # fmt: skip
    if engine is not None and engine.casefold() != launched.engine:
        raise InputError(
            f"the line is one of {launched.engine}, and --engine {engine} is asked for", where="--launch",
            do="leave out --engine",
        )  # fmt: skip


def _known(model: str) -> str:
    """Return the catalogue's name of a model, or nothing where it has none."""
    try:
        return store.find("model", model, where="MODEL")
    except InputError:
        return ""


def _engine(text: str) -> str | None:
    """Return the engine that a line launches."""
    words = _typed(text).split()
    return next((engine for engine in _MARKS if any(_launches(word, engine) for word in words)), None)


def _launches(word: str, engine: str) -> bool:
    """Tell whether a word is the program, the module or the image of an engine: `vllm`, `sglang.launch_server`."""
    name = Path(word).name
    image = "/" in word and ":" in name
    name = name.partition(":")[0] if image else name
    # An image of vLLM launches it; one of SGLang is followed by the module that does.
    known = [mark for mark in _MARKS[engine] if image == (mark == "vllm-openai")]
    return any(name == mark or name.startswith(f"{mark}.") for mark in known)


def _typed(text: str) -> str:
    """Return a line as it was typed: lines continued, and what a word processor made of dashes and quotes undone."""
    joined = re.sub(r"[\\^`][ \t]*\r?\n", " ", text)
    plain = re.sub(r"(?<!\S)[\u2012-\u2015]+(?=[a-z])", "--", joined)
    return plain.translate({0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'"})


def read(text: str) -> Launched:
    """Return what a launch line of vLLM, SGLang or TensorRT-LLM says; lines may be continued by a backslash.

    Raises
    ------
    InputError
        It launches none of the three, or a flag of the layout is not possible.
    """
    where = "--launch"
    engine = _engine(text)
    if engine is None:
        raise InputError("this launches no engine that is known", where=where,
                         allowed="vllm serve ..., python -m sglang.launch_server ..., trtllm-serve ...")  # fmt: skip
    try:
        words = shlex.split(_typed(text), comments=False)
    except ValueError as error:
        raise InputError(f"the line cannot be read: {error}", where=where, do="close its quotes") from error
    flags, plain = _flags(words, engine)
    reader = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}[engine]
    layout, batch, notes = reader(flags, where)
    _suspicious(flags, engine, notes)
    return Launched(
        engine=engine,
        model=next((flags[name] for name in _MODEL_FLAGS if flags.get(name)), plain),
        layout=layout,
        batch=batch,
        weights=_WEIGHTS.get(flags.get("quantization", "")),
        kv=_KV.get(flags.get("kv-cache-dtype", "")),
        eager=any(flags.get(name) == "" for name in ("enforce-eager", "disable-cuda-graph")),
        notes=tuple(notes),
    )


def _flags(words: list[str], engine: str) -> tuple[dict[str, str], str | None]:
    """Return the flags of a line with their values ("" for a switch), in one spelling; and the model by its place."""
    start = next((index for index, word in enumerate(words) if _launches(word, engine)), 0)
    rest = words[start + 1 :]
    if engine == "vllm" and rest[:1] == ["serve"]:
        rest = rest[1:]
    if engine == "trtllm" and rest[:1] == ["serve"]:
        rest = rest[1:]
    flags: dict[str, str] = {}
    model: str | None = None
    index = 0
    while index < len(rest):
        word = rest[index]
        index += 1
        if not word.startswith("-") or _NUMBER.fullmatch(word):
            model = word if model is None else model
            continue
        attached = _ATTACHED.fullmatch(word)
        if attached:
            word = f"-{attached['name']}={attached['count']}"
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-").replace(".", "-")
        name = _SHORT[engine].get(name, name)
        if not equals and index < len(rest) and _is_value(rest[index], name):
            value = rest[index]
            index += 1
        flags[name] = value
    return flags, model


_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_ATTACHED: Final = re.compile(r"-(?P<name>tp|pp|dp|ep|dcp)(?P<count>\d+)")
"""A short flag that its number was typed to: -tp8."""
_SWITCHES: Final = (
    "enable-", "disable-", "no-", "trust-remote-code", "enforce-eager", "skip-", "use-", "async-", "headless",
)  # fmt: skip
"""How flags begin that take no value, or only true and false."""


def _is_value(word: str, name: str) -> bool:
    """Tell whether a word is the value of the flag before it."""
    if name.startswith(_SWITCHES):
        return word.lower() in ("true", "false")
    return not word.startswith("-") or _NUMBER.fullmatch(word) is not None


def _count(flags: dict[str, str], name: str, where: str, default: int = 1) -> int:
    """Return a whole number that a flag states."""
    return units.parse_count(flags[name], where=f"{where}: --{name}") if name in flags else default


def _vllm(flags: dict[str, str], where: str) -> tuple[Layout, int | None, list[str]]:
    """Return the layout of a line of vLLM: experts are over TP x DP, split by EP where it is enabled."""
    tp, dp = _count(flags, "tensor-parallel-size", where), _count(flags, "data-parallel-size", where)
    sends = flags.get("all2all-backend", "allgather_reducescatter") not in ("allgather_reducescatter", "naive")
    layout = Layout(
        tensor_parallel=tp,
        pipeline_parallel=_count(flags, "pipeline-parallel-size", where),
        attention_dp=dp,
        expert_parallel=tp * dp if "enable-expert-parallel" in flags else 1,
        routed_exchange="all-to-all" if sends and dp > 1 and "enable-expert-parallel" in flags else "all-gather",
    )
    notes = []
    if _count(flags, "decode-context-parallel-size", where) > 1:
        notes.append("--decode-context-parallel-size is left out of account: it splits the cache inside the TP group")
    batch = _count(flags, "max-num-seqs", where, 0) * dp
    return layout, batch or None, notes


def _sglang(flags: dict[str, str], where: str) -> tuple[Layout, int | None, list[str]]:
    """Return the layout of a line of SGLang: --tp-size counts all devices of a stage.

    Raises
    ------
    InputError
        The groups of data-parallel attention do not divide them.
    """
    devices, dp, ep = (_count(flags, name, where) for name in ("tp-size", "dp-size", "ep-size"))
    attention = dp if "enable-dp-attention" in flags else 1
    if devices % attention:
        raise InputError(f"--dp-size {dp} does not divide --tp-size {devices}", where=where, do="correct one of them")
    layout = Layout(
        tensor_parallel=devices // attention,
        pipeline_parallel=_count(flags, "pp-size", where),
        attention_dp=attention,
        expert_parallel=ep,
        replicas=1 if attention > 1 else dp,
        routed_exchange="all-to-all" if flags.get("moe-a2a-backend") and ep == devices > 1 else "all-gather",
    )
    return layout, _count(flags, "max-running-requests", where, 0) or None, []


def _trtllm(flags: dict[str, str], where: str) -> tuple[Layout, int | None, list[str]]:
    """Return the layout of a line of TensorRT-LLM; attention data parallelism stands in its file of options."""
    tp = _count(flags, "tp-size", where)
    path = flags.get("extra-llm-api-options") or flags.get("config")
    notes = []
    spread = flags.get("enable-attention-dp", "absent") in ("", "true", "True")
    if path and Path(path).is_file():
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        spread = (
            spread or re.search(r"^\s*enable_attention_dp\s*:\s*true\b", text, re.MULTILINE | re.IGNORECASE) is not None
        )
    elif path:
        notes.append(f"{path} is not here: attention data parallelism is taken to be off")
    layout = Layout(
        tensor_parallel=1 if spread else tp,
        attention_dp=tp if spread else 1,
        pipeline_parallel=_count(flags, "pp-size", where),
        expert_parallel=_count(flags, "ep-size", where),
    )
    batch = _count(flags, "max-batch-size", where, 0) * layout.attention_dp
    return layout, batch or None, notes


def _suspicious(flags: dict[str, str], engine: str, notes: list[str]) -> None:
    """Refuse a flag that looks like one of the layout but is none: a typing error would change the answer.

    Raises
    ------
    InputError
        There is one.
    """
    for name in flags:
        if "speculative" in name:
            notes.append(f"--{name} is left out of account: the prediction is without a draft")
        if name in (*_READ[engine], *_PLACING) or not re.search(r"paral|(^|-)(tp|pp|dp|ep)(-|$)", name):
            continue
        near = did_you_mean(name, _READ[engine])
        if near and not name.startswith(("data-parallel-", "enable-", "max-", "decode-", "prefill-", "moe-")):
            raise InputError(f"{engine} has no flag --{name} that is read here", where="--launch", do=near)
        notes.append(f"--{name} is left out of account")

"""Launch lines that users paste: the layout, the load and the number formats that the flags of an engine mean."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nhalf.catalog import files, store
from nhalf.catalog.naming import checkpoint_in, letters
from nhalf.engines import ENGINES
from nhalf.engines.served import PLACEHOLDER
from nhalf.errors import InputError, did_you_mean
from nhalf.loading.engine_version import split_version
from nhalf.loading.model import is_file

if TYPE_CHECKING:
    from nhalf.engines.engine import Engine
    from nhalf.layout import Layout

_MODEL_FLAGS: Final = ("model", "model-path")
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
    if engine is not None and split_version(engine.casefold())[0] != launched.engine:
        raise InputError(
            f"the line is one of {launched.engine}, and --engine {engine} is asked for", where="--launch",
            do="leave out --engine",
        )  # fmt: skip


def checkpoint_of(asked: str, dtype: str = "") -> str:
    """Return the repository of the very model that was asked for in a dtype, among those of its shape, or MODEL.

    `llama-3.3-70b` is the catalogue's llama-3.1-70b to a prediction, but not to an engine; a model that a file
    describes is of no repository.
    """
    if is_file(asked):
        return PLACEHOLDER
    known, wanted = _known(asked), _plain(asked.rpartition("/")[2])
    held = checkpoint_in(known, dtype)
    if "/" in asked and held in ("", known):
        return asked
    repositories = [name for name in files.aliases().get("model", {}).get(held or known, ()) if "/" in name]
    same = (name for name in repositories if wanted in _plain(name.rpartition("/")[2]))
    own = repositories[:1] if held or wanted == _plain(known) else []
    return next(iter((*same, *own)), PLACEHOLDER)


def _plain(name: str) -> str:
    """Return the letters of a name by which spellings are compared; of some makers `3_3` is `3.3`."""
    return letters(name).replace(".", "")


def _known(model: str) -> str:
    """Return the catalogue's name of a model, or nothing where it has none."""
    try:
        return store.find("model", model, where="MODEL")
    except InputError:
        return ""


def _engine(text: str) -> str | None:
    """Return the engine that a line launches."""
    words = _typed(text).split()
    return next((name for name, engine in ENGINES.items() if any(_launches(word, engine) for word in words)), None)


def _launches(word: str, engine: Engine) -> bool:
    """Tell whether a word is the program, the module or the image of an engine: `vllm`, `sglang.launch_server`."""
    name = Path(word).name
    image = "/" in word and ":" in name
    name = name.partition(":")[0] if image else name
    # Some images launch their engine; others are followed by the module that does.
    known = engine.images if image else engine.programs
    return any(name == mark or name.startswith(f"{mark}.") for mark in known)


def _typed(text: str) -> str:
    """Return a line as it was typed: lines continued, and what a word processor made of dashes and quotes undone."""
    joined = re.sub(r"[\\^`][ \t]*\r?\n", " ", text)
    plain = re.sub(r"(?<!\S)[\u2012-\u2015]+(?=[a-z])", "--", joined)
    return plain.translate({0x201C: '"', 0x201D: '"', 0x2018: "'", 0x2019: "'"})


def read(text: str) -> Launched:
    """Return what a launch line of an engine says; lines may be continued by a backslash.

    Raises
    ------
    InputError
        It launches no engine that is known, or a flag of the layout is not possible.
    """
    where = "--launch"
    engine = _engine(text)
    if engine is None:
        allowed = ", ".join(f"{each.start} ..." for each in ENGINES.values())
        raise InputError("this launches no engine that is known", where=where, allowed=allowed)
    try:
        words = shlex.split(_typed(text), comments=False)
    except ValueError as error:
        raise InputError(f"the line cannot be read: {error}", where=where, do="close its quotes") from error
    flags, plain = _flags(words, ENGINES[engine])
    layout, batch, notes = ENGINES[engine].layout_of(flags, where)
    _suspicious(flags, ENGINES[engine], notes)
    return Launched(
        engine=engine,
        model=next((flags[name] for name in _MODEL_FLAGS if flags.get(name)), plain),
        layout=layout,
        batch=batch,
        weights=_WEIGHTS.get(flags.get("quantization", "")),
        kv=_KV.get(flags.get("kv-cache-dtype", "")),
        eager=any(flags.get(each.eager_flag) == "" for each in ENGINES.values()),
        notes=tuple(notes),
    )


def _flags(words: list[str], engine: Engine) -> tuple[dict[str, str], str | None]:
    """Return the flags of a line with their values ("" for a switch), in one spelling; and the model by its place."""
    start = next((index for index, word in enumerate(words) if _launches(word, engine)), 0)
    rest = words[start + 1 :]
    if rest[:1] == ["serve"]:
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
        name = engine.spellings.get(name, name)
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


def _suspicious(flags: dict[str, str], engine: Engine, notes: list[str]) -> None:
    """Refuse a flag that looks like one of the layout but is none: a typing error would change the answer.

    Raises
    ------
    InputError
        There is one.
    """
    for name in flags:
        if "speculative" in name:
            notes.append(f"--{name} is left out of account: the prediction is without a draft")
        if name in (*engine.degrees, *_PLACING) or not re.search(r"paral|(^|-)(tp|pp|dp|ep)(-|$)", name):
            continue
        near = did_you_mean(name, engine.degrees)
        if near and not name.startswith(("data-parallel-", "enable-", "max-", "decode-", "prefill-", "moe-")):
            raise InputError(f"{engine.name} has no flag --{name} that is read here", where="--launch", do=near)
        notes.append(f"--{name} is left out of account")

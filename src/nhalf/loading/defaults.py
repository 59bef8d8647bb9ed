"""Defaults: every choice that a request left open, what is taken for it, and why; one rule for all commands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nhalf.catalog import stated, store
from nhalf.collective import Mode
from nhalf.errors import InputError
from nhalf.loading import peers
from nhalf.loading.dtypes import known
from nhalf.loading.engine_version import split_version
from nhalf.loading.inputs import BY_NAME, NAME_OF
from nhalf.loading.kv_rule import default_kv
from nhalf.transformer import WEIGHT_BYTES

if TYPE_CHECKING:
    from nhalf.loading.choices import Request
    from nhalf.transformer import Transformer


MEASURED: Final = ("--on ", "--measured")
"""How the flags begin of defaults that say what was measured: in a cluster file, or on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """A choice that the user left open: its flag, the value taken, and why that one."""

    flag: str
    value: str
    reason: str


def completed(request: Request, transformer: Transformer, stored: str = "") -> tuple[Request, list[Default]]:
    """Return the request with every open choice made, and the choices.

    `stored` is the dtype that the end of the model's name states. The dtype of the cache stays open where systems take
    different ones.

    Raises
    ------
    InputError
        Lengths that contradict each other, or a name that is not known.
    """
    chosen: list[tuple[str, object, str]] = [] if request.load is not None else _of_load(request)
    if request.weights is None:
        reason = "the name says so" if stored else "the config says so"
        chosen.append(("weights", stored or transformer.weight_dtype, reason))
    engine = store.find("engine", split_version(request.engine or "vllm")[0], where="--engine")
    found: list[Default] = []
    if request.kv is None:
        weights = known(request.weights or stored or transformer.weight_dtype, WEIGHT_BYTES, "--weights")
        systems = [store.find("system", name, where="--on") for name in request.systems]
        shared, shown, reason = default_kv(transformer.kv_dtype, weights=weights, engine=engine, systems=systems)
        chosen.append(("kv", shared, reason))
    chosen += _of_engine(request, engine)
    texts = {"batches": "1", "kv": shown} if request.kv is None else {"batches": "1"}
    if request.library is None and all(name != "library" for name, _, _ in chosen):
        chosen.append(("library", None, "the engine's own"))
    found = [
        Default(flag=_flag(name), value=texts.get(name) or str(value or "(engine's)"), reason=reason)
        for name, value, reason in chosen
    ]
    found += [
        Default(flag=_flag(name), value=_shown(getattr(request, name)), reason=reason)
        for name, reason in request.assumed.items()
    ]
    made = {name: value for name, value, _ in chosen if value}
    assumed = {**request.assumed, **{name: reason for name, value, reason in chosen if value}}
    return replace(request, assumed=assumed, **made), found  # type: ignore[arg-type]


def _of_load(request: Request) -> list[tuple[str, object, str]]:
    """Return the choices about the batch and the lengths that are open: their fields and values, and why.

    Raises
    ------
    InputError
        Half of a pair of lengths is missing, or two ways to say one length are given.
    """
    chosen: list[tuple[str, object, str]] = [("batches", (1,), "one stream")]
    if request.batches is not None or request.options.rate is not None:
        chosen = []
    if request.options.phase == "prefill":
        return chosen
    if (request.isl is None) != (request.osl is None):
        given, missing = ("--isl", "--osl") if request.osl is None else ("--osl", "--isl")
        raise InputError(f"{given} is given without {missing}", where=missing, allowed="both, or --context")
    if request.context is not None and request.isl is not None:
        raise InputError("--context and --isl/--osl are both given", where="--context", allowed="one of the two")
    if request.context is None and request.isl is None:
        chosen.append(("context", 1024, "a short chat"))
    return chosen


def _of_engine(request: Request, engine: str) -> list[tuple[str, object, str]]:
    """Return the choices about the engine that are open: their fields and values, and why."""
    chosen: list[tuple[str, object, str]] = []
    if request.engine is None:
        chosen.append(("engine", engine, "the most used"))
    if request.mode is None:
        own = stated.engine(engine).mode
        reason = "engines decode in CUDA graphs" if own == Mode.GRAPH else f"{engine} has no CUDA graphs"
        chosen.append(("mode", str(own), reason))
    if request.library is None and request.options.p2p == "off":
        chosen.append(("library", peers.LIBRARY, "other kernels need peer access"))
    return chosen


def _flag(field: str) -> str:
    """Return the flag of a field of the request."""
    return BY_NAME[NAME_OF.get(field, field)].on_command_line


def _shown(value: object) -> str:
    """Return a choice as its flag takes it."""
    return ",".join(str(each) for each in value) if isinstance(value, tuple) else str(value)

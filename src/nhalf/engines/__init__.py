"""Serving engines that nhalf can launch, by name: one file each, and what the catalogue says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.engines.sglang import Sglang
from nhalf.engines.trtllm import Trtllm
from nhalf.engines.vllm import Vllm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.engines.engine import Engine

ENGINES: Final[Mapping[str, Engine]] = {engine.name: engine for engine in (Vllm(), Sglang(), Trtllm())}


def of_backend(backend: str) -> str:
    """Return the name of the engine that a benchmark's backend is, such as `sglang-oai`; empty where it is of none."""
    named = (name for name, engine in ENGINES.items() if backend.startswith(engine.backends))
    return next(named, "")

"""Versions of engines, stated behind `==`."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.predict.band import OTHER_VERSION
from nhalf.quantiles import Z95

if TYPE_CHECKING:
    from nhalf.citation import Datum

_VERSION: Final = re.compile(r"v?\d+\.\d[\w.+]*")


def split_version(engine: str) -> tuple[str, str]:
    """Return the name and the version of an engine; the version is empty where none is stated.

    Raises
    ------
    InputError
        What follows `==` is no version.
    """
    name, stated, version = (part.strip() for part in engine.partition("=="))
    if stated and not is_version(version):
        allowed = f"a version such as {name}==0.31.0 or {name}==1.2.0rc6"
        raise InputError(f"{version!r} is no version", where="--engine", allowed=allowed)
    return name, version


def is_version(text: str) -> bool:
    """Tell whether a text is a version: what tables call `glm5-hopper` is a build that says none."""
    return _VERSION.fullmatch(text) is not None


def between_versions(factor: Datum, spread: float) -> Datum:
    """Return the doubt about measured times where another version ran than the one asked for.

    `spread` is how far apart [ln] measured versions are around it.
    """
    width = math.exp(Z95 * spread)
    low, high = (factor.value * width**way for way in (-1.0, 1.0))
    return replace(factor, low=min(low, factor.low or low), high=max(high, factor.high or high), note=OTHER_VERSION)

"""The version of nhalf, where every floor can read it."""

from __future__ import annotations

VERSION = "0.1.0"

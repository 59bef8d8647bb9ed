"""The measured tables that ship, for `nhalf validate --builtin`."""

from __future__ import annotations

from pathlib import Path

from nhalf.catalog import files

SERVING = Path(files.__file__).with_name("data") / "golden" / "serving-runs.csv"
"""Serving runs that the calibration was derived from: aiconfigurator-core 0.12.0, silicon_sample.csv, those without a
flag."""

"""Measured curves: points as they were measured, the curve through and between them, its band, and its nearest line."""

from __future__ import annotations

from nhalf.curve.knots import CurveAt as CurveAt
from nhalf.curve.line import Line as Line
from nhalf.curve.line import fit_line as fit_line
from nhalf.curve.measured import CurveKey as CurveKey
from nhalf.curve.measured import MeasuredCurve as MeasuredCurve
from nhalf.curve.measured import preferred as preferred
from nhalf.curve.routed import RoutedCurve as RoutedCurve

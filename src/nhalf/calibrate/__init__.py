"""Calibration: measured runs become the constants of a stack, with intervals, and with what they cannot tell."""

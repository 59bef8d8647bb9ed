"""Predictions: the terms of a step, its memory and its band, from a scenario alone."""

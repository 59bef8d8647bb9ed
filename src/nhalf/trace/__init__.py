"""Traces: what communication cost in a run that a profiler watched, and who waited for whom."""

"""Simulation: a collective message by message, knowing nothing of the laws that its answer is compared with."""

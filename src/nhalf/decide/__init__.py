"""Decisions: what binds, where it flips, what would change it, and which layout is best."""

"""Tune: which path a library should take for each size of a model's messages, and the files that make it do so."""

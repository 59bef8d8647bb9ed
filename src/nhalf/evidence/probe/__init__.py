"""Probe: runs a measurement between processes of one machine or of many, and records every time with its doubts."""

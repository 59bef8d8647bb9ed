"""Settings that hold for every test."""

from __future__ import annotations

from hypothesis import settings

# The same examples on every run, and no deadline: a slow machine is not a wrong answer. To look for new examples:
# pytest --hypothesis-profile=explore
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("repeatable")

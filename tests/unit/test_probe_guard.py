"""The guard: what hangs in a library ends at its deadline, with a message, and what does not is left alone."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from nhalf.evidence.probe.guard import within

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX are needed")


def test_what_is_done_in_time_is_left_alone() -> None:
    began = time.monotonic()
    with within(60.0, "late"):
        pass
    assert time.monotonic() - began < 20


def test_an_error_passes_through() -> None:
    with pytest.raises(ValueError, match="its own"), within(60.0, "late"):
        raise ValueError("its own")


def test_what_hangs_ends_with_the_message() -> None:
    code = "import time; from nhalf.evidence.probe.guard import within\nwith within(0.3, 'too late'): time.sleep(60)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=30, check=False)
    assert found.returncode == -9
    assert found.stderr.strip() == "too late"

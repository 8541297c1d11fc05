"""Tests of signal handlers that run during kernels on the CPU.

If the handler raises an exception, the kernel ends. If the handler returns, the kernel continues.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from weft.runtime.cpu import interrupts

WANTED = """\
one ended
again ended
many ended
first ended ended
meets ended
exchanges ended
loops ended
lock ended
prints ended
prints all the time ended
output closed
goes on through True
"""


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are ended on Linux")
def test_signals_end_kernels() -> None:
    assert interrupts.guard() is not None
    done = subprocess.run(
        [sys.executable, "-m", "tests.dsl.kernel.endless_child"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stdout, done.returncode) == (WANTED, 0), done.stderr

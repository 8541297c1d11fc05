"""Test of the runtime on a Python version whose object layout the native functions do not support."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from weft.runtime.cpu import native
native._header = 32  # as without a global lock
import weft as wf
from weft.runtime.cpu.host_launches import runner
x = wf.asarray(np.arange(1000000.0))
for _ in range(5):
    y, z = x + 1, x * 2
    wf.evaluate(y, z)
    assert np.asarray(y)[-1] == 1000000 and np.asarray(z)[-1] == 1999998
assert runner() is None and wf.default_device().memory.free_lists is None
"""

# The work that Python does instead of native code in this program.
FALLBACKS = ["native code for free lists", "native code for launches"]


def test_objects_that_native_code_does_not_know_are_left_to_python() -> None:
    command, environment = [sys.executable, "-c", PROGRAM], {**os.environ, "WEFT_INTERPRET": "never"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if "OptimizerWarning" in line]
    assert [line.split("OptimizerWarning: ")[1].split(" failed")[0] for line in told] == FALLBACKS

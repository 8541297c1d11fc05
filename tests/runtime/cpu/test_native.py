"""Test of the runtime on a Python version whose object layout the native functions do not support."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
from weft.runtime.cpu import native
native._header = 32  # as without a global lock
import weft as wf
from weft.runtime.cpu.host_launches import runner
x = wf.asarray(np.arange(10000.0))
for _ in range(5):
    y, z = x + 1, x * 2
    wf.evaluate(y, z)
    assert np.asarray(y)[-1] == 10000 and np.asarray(z)[-1] == 19998
assert runner() is None and wf.default_device().memory.free_lists is None
"""


def test_objects_that_native_code_does_not_know_are_left_to_python() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr

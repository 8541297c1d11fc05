"""Tests of calls to the host's vector library with a constant operand."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import numpy as np
import weft


@weft.kernel
def powers(x, n):
    i = weft.cuda.grid(1)
    x[i] = 10.0 ** n + 10.0 ** (n + 1)


x = np.zeros(100)
powers[1, 100](x, 2)
assert (x == 1100.0).all()
"""


def test_a_base_that_is_a_constant() -> None:
    # in a child process: LLVM aborts if a function changes while its vector variants are in use
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")

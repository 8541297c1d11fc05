"""Tests of loading native functions, and of unsupported object layouts."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from weft.runtime.cpu import native

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


def test_code_that_two_threads_load_at_the_same_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "define i64 @weft_seven(i64 %x) {\n  %y = add i64 %x, 7\n  ret i64 %y\n}"
    together, obtain = threading.Barrier(2, timeout=60), native.native_object

    def obtain_together(*given: Any) -> Any:
        together.wait()
        return obtain(*given)

    monkeypatch.setattr(native, "native_object", obtain_together)
    with ThreadPoolExecutor(2) as pool:
        addresses = list(pool.map(lambda _: native.obtain_native("weft_seven", text).address, range(2)))
    gc.collect()
    with open("/proc/self/maps") as file:
        mapped = [[int(word, 16) for word in line.split()[0].split("-")] for line in file]
    assert addresses[0] != addresses[1]
    for address in addresses:
        assert any(first <= address < last for first, last in mapped)
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(3) == 10

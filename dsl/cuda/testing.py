"""The module `weft.cuda.testing`: the names that test suites import from `numba.cuda.testing`.

Numba's simulator corresponds to Python mode (``WEFT_KERNEL_PYTHON=1``), in which kernels are not compiled.
"""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable
from typing import Any

from weft.dsl.cuda.devices import close
from weft.runtime import PerformanceWarning, setting

__all__ = ["CUDATestCase", "ContextResettingTestCase", "skip_on_cudasim", "skip_unless_cudasim", "unittest"]


class CUDATestCase(unittest.TestCase):
    """A test case that ignores `PerformanceWarning`.

    weft issues this warning, for example, if a kernel on a GPU takes NumPy arrays.
    """

    def setUp(self) -> None:
        """Ignore `PerformanceWarning` until the end of the test."""
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore", PerformanceWarning)


class ContextResettingTestCase(CUDATestCase):
    """A test case that calls `cuda.close` after each test."""

    def tearDown(self) -> None:
        """Call `cuda.close`."""
        super().tearDown()
        close()


def skip_on_cudasim(reason: str) -> Callable[[Any], Any]:
    """Return a decorator that skips a test in Python mode. The mode is determined when the decorator is created."""
    return unittest.skipIf(bool(setting("kernel_python")), reason)


def skip_unless_cudasim(reason: str) -> Callable[[Any], Any]:
    """Return a decorator that skips a test unless kernels run in Python mode.

    The mode is determined when the decorator is created.
    """
    return unittest.skipUnless(bool(setting("kernel_python")), reason)

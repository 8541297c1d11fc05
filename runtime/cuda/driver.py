"""Calls of the CUDA driver: every return code checked, the context current around each call.

In: a table of driver functions (cuda.bindings.driver; in tests a stand-in). Always true: a failed call raises; an error
that leaves the context unusable marks the device lost, and later calls raise the same short error.
"""

from __future__ import annotations

import os
from typing import Any

from weft.runtime.errors import CudaError, DeviceLostError, OutOfMemoryError

OUT_OF_MEMORY = 2
NOT_READY = 600
# After these the context answers nothing any more: illegal address, launch failure and their kind.
STICKY = frozenset({214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720})


class Driver:
    """One device's primary context.

    Parameters
    ----------
    table : module
        Functions named as in cuda.bindings.driver that return ``(code, *results)``.
    ordinal : int
        Number of the device.
    """

    def __init__(self, table: Any, ordinal: int) -> None:
        self.table = table
        self.name = f"cuda:{ordinal}"
        self.lost = ""
        self.doing = ""  # the kernel that was launched last, for messages
        self._pid = os.getpid()
        self._context: Any = None
        self._check("cuInit", table.cuInit(0))
        self.handle = self._check("cuDeviceGet", table.cuDeviceGet(ordinal))
        self._context = self._check("cuDevicePrimaryCtxRetain", table.cuDevicePrimaryCtxRetain(self.handle))

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a driver function in the device's context.

        Returns
        -------
        None, the one result, or a tuple of the results.

        Raises
        ------
        CudaError, OutOfMemoryError, DeviceLostError
        """
        self._ready()
        self._check("cuCtxPushCurrent", self.table.cuCtxPushCurrent(self._context))
        try:
            return self._check(name, getattr(self.table, name)(*arguments), arguments)
        finally:
            self.table.cuCtxPopCurrent()

    def is_done(self, name: str, *arguments: Any) -> bool:
        """A query: whether what it asks about has ended."""
        self._ready()
        self._check("cuCtxPushCurrent", self.table.cuCtxPushCurrent(self._context))
        try:
            code = getattr(self.table, name)(*arguments)
            if int(code[0]) == NOT_READY:
                return False
            self._check(name, code)
            return True
        finally:
            self.table.cuCtxPopCurrent()

    def quietly(self, name: str, *arguments: Any) -> None:
        """A call from a destructor: skipped on a lost device and in a forked child, and it never raises."""
        if self.lost or os.getpid() != self._pid:
            return
        if int(self.table.cuCtxPushCurrent(self._context)[0]) == 0:
            getattr(self.table, name)(*arguments)
            self.table.cuCtxPopCurrent()

    def _ready(self) -> None:
        if self.lost:
            raise DeviceLostError(self.lost)
        if os.getpid() != self._pid:
            raise DeviceLostError(
                f"{self.name} was initialised before this process was forked; CUDA does not work in the child: "
                "start processes with the spawn method, or use the cpu device here"
            )

    def _check(self, name: str, answer: tuple[Any, ...], arguments: tuple[Any, ...] = ()) -> Any:
        code, *results = answer
        number = int(code)
        if number == 0:
            return None if not results else results[0] if len(results) == 1 else tuple(results)
        if number == OUT_OF_MEMORY:
            raise OutOfMemoryError(self.name, int(arguments[0]) if arguments else 0, 0)  # the pool says more
        text = getattr(code, "name", str(number))
        if number in STICKY:
            self.lost = f"{self.name} is lost: {text} in or after kernel {self.doing or 'unknown'}; restart the process to use it again"
            raise DeviceLostError(self.lost)
        raise CudaError(name, number, text)

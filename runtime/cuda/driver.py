"""Calls to CUDA driver functions, whose errors are raised as exceptions.

The context of the device is current during a call.

In: a table of driver functions (cuda.bindings.driver, or a stand-in in tests). Invariant: a failed call raises, except
in destructors. An error that destroys the context marks the device as lost, and later calls raise the same short error.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from weft.runtime.errors import CompileError, CudaError, DeviceLostError, OutOfMemoryError

_T = TypeVar("_T")

OUT_OF_MEMORY = 2
NOT_READY = 600
# Errors that destroy the context, such as illegal addresses and launch failures.
STICKY = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911})
# Remedies, for errors whose names do not suggest one.
REMEDIES = {
    3: "where this process was forked after CUDA had begun: start processes with the spawn method",
    46: "another process has the GPU for itself",
    221: "pip install 'weft[cuda13]' brings an assembler",
    222: "update NVIDIA's driver, or pip install 'weft[cuda13]'",
    701: "a block takes more registers or shared memory than there are: fewer threads a block, or max_registers=",
    720: "blocks that wait for each other run all at the same time: a smaller grid",
    802: "the machine's NVIDIA services (fabric manager) are not ready",
    803: "the driver's library and its kernel module are of different versions: restart the machine",
    804: "the CUDA compatibility package does not support this GPU: take it out of LD_LIBRARY_PATH",
    **dict.fromkeys((900, 901, 906), "a stream is being captured: evaluate before or after"),
}
# Functions of the driver are requested in this version.
ENTRY_VERSION = 12000


class Driver:
    """The CUDA driver, with the primary context of one device.

    Parameters
    ----------
    table : module
        Functions named as in cuda.bindings.driver that return ``(code, *results)``.
    ordinal : int
        Number of the device.

    Attributes
    ----------
    lost : str
        The reason why the device is unusable, or an empty string.
    doing
        Description of the last launch, for messages.
    silent : bool
        Whether destructors do nothing, since the process is ending or was forked.
    version : (int, int)
        The newest CUDA version that the driver supports.
    graphs : int
        Number of CUDA graphs that exist.
    """

    def __init__(self, table: Any, ordinal: int) -> None:
        self.table = table
        self.name = f"cuda:{ordinal}"
        self.lost = ""
        self.doing: Any = ""
        self.graphs = 0
        self.silent = False
        self._check("cuInit", table.cuInit(0))
        self.handle = self._check("cuDeviceGet", table.cuDeviceGet(ordinal))
        self._context = self._check("cuDevicePrimaryCtxRetain", table.cuDevicePrimaryCtxRetain(self.handle))
        number = int(self._check("cuDriverGetVersion", table.cuDriverGetVersion()))
        self.version = number // 1000, number % 1000 // 10
        _drivers.add(self)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a driver function in the context of the device. Return None, the only result, or a tuple of the results.

        Raises CudaError, OutOfMemoryError or DeviceLostError if the call fails.
        """
        return self._check(name, self.within(getattr(self.table, name), *arguments), arguments)

    def within(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function in the context of the device. Raises DeviceLostError if the device is lost."""
        if self.lost:
            raise DeviceLostError(self.lost)
        self._check("cuCtxPushCurrent", self.table.cuCtxPushCurrent(self._context))
        try:
            return function(*arguments)
        finally:
            self.table.cuCtxPopCurrent()

    def is_done(self, name: str, *arguments: Any) -> bool:
        """Return whether work has ended, according to a driver function such as cuEventQuery."""
        answer = self.within(getattr(self.table, name), *arguments)
        if int(answer[0]) == NOT_READY:
            return False
        self._check(name, answer)
        return True

    def quietly(self, name: str, *arguments: Any) -> None:
        """Call a driver function from a destructor, where no exception may be raised.

        The call is skipped on a lost device, in a forked child, and at exit.
        """
        if self.lost or self.silent:
            return
        code = int(self.table.cuCtxPushCurrent(self._context)[0])
        if not code:
            code = int(getattr(self.table, name)(*arguments)[0])
            self.table.cuCtxPopCurrent()
        if code in STICKY:
            self._lose(name, code)

    @property
    def context(self) -> int:
        """The driver's handle for the context, as an integer."""
        return int(self._context)

    def entry_point(self, name: str) -> int:
        """Return the address of a driver function. Raises CompileError if the driver does not have the function."""
        find = getattr(self.table, "cuGetProcAddress", None)
        code, address, *_ = find(name.encode(), ENTRY_VERSION, 0) if find is not None else (0, 0)
        if int(code) or not int(address or 0):
            raise CompileError(f"the driver does not say where {name} is")
        return int(address)

    def native(self, name: str, *arguments: Any) -> None:
        """Call a driver function by its address. Structures and results are passed as pointers."""
        function = ctypes.CFUNCTYPE(ctypes.c_int)(self.entry_point(name))
        self.fail(name, self.within(function, *map(_as_argument, arguments)))

    def milliseconds(self, earlier: Any, later: Any) -> float:
        """Return the milliseconds between two events."""
        name, result = "cuEventElapsedTime", ctypes.c_float()
        try:
            # by address: cuda.bindings 13 requests the version of CUDA 12.8, which older drivers lack
            self.native(name, ctypes.addressof(result), earlier, later)
        except CompileError:
            return float(self.call(name, earlier, later))
        return result.value

    def fail(self, name: str, code: Any) -> None:
        """Raise an exception if `code`, the result of the driver function `name`, is an error."""
        self._check(name, (code,))

    def forget(self, reason: str) -> None:
        """Disable the driver, so that later calls raise an error, and destructors do nothing."""
        self.lost = self.lost or reason
        self.silent = True

    def _check(self, name: str, answer: tuple[Any, ...], arguments: tuple[Any, ...] = ()) -> Any:
        code, *results = answer
        number = int(code)
        if number == 0:
            return None if not results else results[0] if len(results) == 1 else tuple(results)
        if number == OUT_OF_MEMORY:
            asked = arguments[0] if arguments and name.startswith(("cuMemAlloc", "cuMemHostAlloc")) else 0
            error = OutOfMemoryError(self.name, asked, 0)  # the pool raises an error with more information
            error.add_note(f"in {name}")
            raise error
        if number in STICKY:
            self._lose(name, number)
            raise DeviceLostError(self.lost)
        raise CudaError(name, number, self._name_of(number), REMEDIES.get(number, ""))

    def _lose(self, name: str, code: int) -> None:
        after = f"in or after kernel {self.doing}" if self.doing else f"in {name}"
        self.lost = f"{self.name} is lost: {self._name_of(code)} {after}; restart the process to use it again"

    def _name_of(self, code: Any) -> str:
        try:
            return str(self.table.CUresult(int(code)).name)
        except (AttributeError, ValueError):
            return f"error {int(code)}"


def _as_argument(value: Any) -> Any:
    # (integers and handles become 64-bit integers)
    return value if isinstance(value, (ctypes._SimpleCData, ctypes.Array)) else ctypes.c_int64(int(value))


_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()


def _after_fork() -> None:
    for driver in _drivers:
        driver.forget(
            f"{driver.name} was initialized before this process was forked; CUDA does not work in the child: "
            "start processes with the spawn method, or use the cpu device here"
        )


def _at_exit() -> None:
    # the memory is freed with the process: a call that waits for an endless kernel would hang the process
    for driver in _drivers:
        driver.silent = True


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)

"""Modules that are loaded on a GPU.

A module is unloaded when none of its kernels can run any more.

In: object code. Out: `CudaFunction` objects. Invariant: every supported kernel is loaded, as machine code if nvJitLink
is installed and the driver accepts the code. Otherwise the driver compiles the PTX, and an error contains the
compiler's log. Destructors do not unload modules, because the driver would wait for all work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.linker import obtain_cubin
from weft.runtime.errors import CompileError, CudaError
from weft.runtime.object_code import BlockSchedule, ObjectCode

# Maximum number of modules without functions that wait to be unloaded.
RETIRED_LIMIT = 64
# Driver errors for machine code of a newer toolkit: invalid image, no binary, too new, invalid source.
FOREIGN_IMAGE = frozenset({200, 209, 222, 300})
ERROR_LOG, ERROR_LOG_BYTES = 5, 6  # CUjit_option
LOG_BYTES = 8192


class CudaFunction:
    """A kernel loaded on a GPU, with its launch parameters.

    Attributes
    ----------
    handle
        The driver's handle of the kernel.
    name : str
    origin : (code, int) or None
        The source location of a user-written kernel.
    schedule : BlockSchedule
        The block schedule of a fused kernel. The user chooses the grid and the block of a user-written kernel.
    cooperative : bool
        Whether all blocks of a launch must run at the same time.
    by_value : tuple of int
        The parameters that are passed by value. Their arguments are host addresses, from which a launch copies.
    prepared : dict
        The prepared launches by grid, block and shared bytes.
    """

    __slots__ = (
        "__weakref__",
        "_driver",
        "_dynamic",
        "_module",
        "_retired",
        "by_value",
        "cooperative",
        "handle",
        "name",
        "origin",
        "prepared",
        "schedule",
    )

    def __init__(self, driver: Driver, module: object, handle: Any, code: ObjectCode, retired: list[Any]) -> None:
        self._driver = driver
        self._module = module
        self._retired = retired
        self._dynamic = 0  # bytes of dynamic shared memory that were requested
        self.handle = handle
        self.name = code.entry
        self.origin: Any = None
        self.schedule = BlockSchedule.of(code)
        self.cooperative = bool(code.launch.get("cooperative"))
        self.by_value = tuple(k for k, kind in enumerate(code.parameters) if kind.startswith("value"))
        self.prepared: dict[Any, Any] = {}

    def raise_shared_limit(self, shared_bytes: int) -> None:
        """Raise the kernel's limit on dynamic shared memory to at least `shared_bytes`.

        By default, a block has 48 KiB, including its static arrays.
        """
        if shared_bytes > self._dynamic:
            kind = self._driver.table.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.call("cuFuncSetAttribute", self.handle, kind, shared_bytes)
            self._dynamic = shared_bytes

    def __del__(self) -> None:
        self._retired.append(self._module)


class Modules:
    """The modules loaded on one device. The function `synchronize` waits until all started work has ended."""

    def __init__(self, driver: Driver, synchronize: Callable[[], None]) -> None:
        self._driver = driver
        self._synchronize = synchronize
        self._retired: list[Any] = []
        self._takes_cubins = True

    def load(self, code: ObjectCode, arch: str) -> CudaFunction:
        """Load a kernel's code on a GPU of architecture `arch`, and return the kernel.

        Raises CudaError if the driver rejects the code, and CompileError if the code cannot be linked to foreign code.
        """
        if len(self._retired) >= RETIRED_LIMIT:
            self.unload()
        module = self._load_ptx(code, arch) if code.kind == "ptx" else self._driver.call("cuModuleLoadData", code.code)
        return self.function(module, code)

    def function(self, module: object, code: ObjectCode) -> CudaFunction:
        """Return the kernel `code.entry` of a module."""
        try:
            handle = self._driver.call("cuModuleGetFunction", module, code.entry.encode())
        except BaseException:
            self._driver.quietly("cuModuleUnload", module)
            raise
        return CudaFunction(self._driver, module, handle, code, self._retired)

    def unload(self) -> None:
        """Unload the modules of deleted kernels, if there are any, after all work has ended."""
        if self._retired and not self._driver.silent:
            self._synchronize()
            while self._retired:
                self._driver.quietly("cuModuleUnload", self._retired.pop())

    def _load_ptx(self, code: ObjectCode, arch: str) -> Any:
        why = "nvJitLink's machine code is not for this driver"
        if self._takes_cubins:
            try:
                return self._driver.call("cuModuleLoadData", obtain_cubin(code, arch).code)
            except CompileError as error:
                if code.launch.get("links"):  # the driver's compiler cannot link foreign code
                    raise
                why = str(error)
            except CudaError as error:
                if error.code not in FOREIGN_IMAGE:
                    raise
                self._takes_cubins = False
        try:
            return self._driver.call("cuModuleLoadData", code.code + b"\0")
        except CudaError as error:
            error.add_note(f"the driver compiled {code.entry} itself: {why}")
            log = self._log_of(code.code)
            if log:
                error.add_note(f"its compiler says:\n{log}")
            raise

    def _log_of(self, ptx: bytes) -> str:
        """Return the driver compiler's error log for PTX that the driver has rejected."""
        image, log = ctypes.create_string_buffer(ptx), ctypes.create_string_buffer(LOG_BYTES)
        module = ctypes.c_int64()
        options = (ctypes.c_int32 * 2)(ERROR_LOG, ERROR_LOG_BYTES)
        values = (ctypes.c_int64 * 2)(ctypes.addressof(log), LOG_BYTES)
        addresses = [ctypes.addressof(part) for part in (module, image, options, values)]
        try:
            self._driver.native("cuModuleLoadDataEx", addresses[0], addresses[1], 2, addresses[2], addresses[3])
        except (CompileError, CudaError):
            return log.value.decode(errors="replace").strip()
        self._driver.quietly("cuModuleUnload", module.value)  # the second attempt succeeded
        return ""

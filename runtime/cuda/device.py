"""A GPU as a device: stream-ordered memory, modules, launches."""

from __future__ import annotations

import ctypes
import time
from array import array
from collections import OrderedDict
from math import prod
from typing import Any

import numpy as np

import weft.runtime as face
from weft.runtime.cuda.driver import Driver
from weft.runtime.device import Buffer
from weft.runtime.errors import CompileError, OutOfMemoryError
from weft.runtime.object_code import ObjectCode

MAX_GRID = 2**31 - 1
# Free blocks that are kept for reuse, in bytes.
KEPT_BYTES = 1 << 30
ROUNDING = 512


class Memory:
    """One block; goes back to its device when it dies."""

    __slots__ = ("_device", "address", "size")

    def __init__(self, device: CudaDevice, address: int, size: int) -> None:
        self._device = device
        self.address = address
        self.size = size

    def __del__(self) -> None:
        self._device.give_back(self.address, self.size)


class CudaFunction:
    """A loaded kernel and how it is launched; its module is unloaded with it."""

    __slots__ = ("_driver", "_module", "block", "handle", "most_blocks", "name", "per_block")

    def __init__(self, driver: Driver, module: Any, handle: Any, code: ObjectCode) -> None:
        self._driver = driver
        self._module = module
        self.handle = handle
        self.name = code.entry
        self.block = int(code.launch["block"])
        self.per_block = int(code.launch["per_block"])
        self.most_blocks = int(code.launch.get("most_blocks", MAX_GRID))

    def __del__(self) -> None:
        self._driver.quietly("cuModuleUnload", self._module)


class Event:
    """A point in a device's stream."""

    def __init__(self, driver: Driver, stream: Any) -> None:
        self._driver = driver
        self._stream = stream
        self.handle = driver.call("cuEventCreate", 0)

    def record(self) -> None:
        """Mark the present end of the stream."""
        self._driver.call("cuEventRecord", self.handle, self._stream)

    def query(self) -> bool:
        """Whether everything before it has ended."""
        return self._driver.is_done("cuEventQuery", self.handle)

    def synchronize(self) -> None:
        """Wait for it; Ctrl-C works meanwhile."""
        pause = 1e-5
        while not self.query():
            time.sleep(pause)
            pause = min(pause * 1.5, 1e-3)

    def elapsed(self, earlier: Event) -> float:
        """Milliseconds since another event."""
        return float(self._driver.call("cuEventElapsedTime", earlier.handle, self.handle))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self._driver.quietly("cuEventDestroy", self.handle)


class CudaDevice:
    """A GPU. Everything goes to one stream in order; `download` and `synchronize` wait for it.

    Parameters
    ----------
    ordinal : int
    table : module, optional
        Driver functions; cuda.bindings.driver unless a test brings its own.
    """

    def __init__(self, ordinal: int, table: Any = None) -> None:
        if table is None:
            from cuda.bindings import driver

            table = driver
        self.name = f"cuda:{ordinal}"
        self._driver = Driver(table, ordinal)
        call = self._driver.call
        kinds = table.CUdevice_attribute
        major = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self._driver.handle)
        minor = call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self._driver.handle)
        self.capability = (int(major), int(minor))
        self._stream = call("cuStreamCreate", 1)  # CU_STREAM_NON_BLOCKING
        self._free: OrderedDict[int, list[int]] = OrderedDict()
        self._kept = 0
        self._target: Any = None
        self._limit = KEPT_BYTES  # an attribute: blocks may die after the module has been taken down

    @property
    def target(self) -> Any:
        """What code is generated for: the newest known architecture that the device runs."""
        if self._target is None:
            self._target = face.resolve_target(f"sm_{self.capability[0]}{self.capability[1]}")
        return self._target

    @property
    def held(self) -> int:
        """Bytes that buffers hold."""
        return self._driver.held

    def event(self) -> Event:
        """A new event of the device's stream."""
        return Event(self._driver, self._stream)

    # -- memory -------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> Buffer:
        """Uninitialised memory, from the blocks kept or from the driver."""
        # a buffer without elements has an address too: a load that stands before an empty loop reads from it
        size = -(-max(nbytes, 1) // ROUNDING) * ROUNDING
        free = self._free.get(size)
        if free:
            address = free.pop()
            self._kept -= size
        else:
            address = self._fresh(size)
        self._driver.held += size
        return Buffer(self, address, nbytes, Memory(self, address, size))

    def _fresh(self, size: int) -> int:
        try:
            return int(self._driver.call("cuMemAllocAsync", size, self._stream))
        except OutOfMemoryError:
            self.empty_cache()
            self.synchronize()
            return int(self._driver.call("cuMemAllocAsync", size, self._stream))

    def give_back(self, address: int, size: int) -> None:
        """Keep a block for reuse (the stream orders its next use after its last), or free it."""
        self._driver.held -= size
        if self._kept + size <= self._limit and not self._driver.lost:
            self._free.setdefault(size, []).append(address)
            self._kept += size
        else:
            self._driver.quietly("cuMemFreeAsync", address, self._stream)

    def empty_cache(self) -> None:
        """Free the blocks that are kept."""
        for addresses in self._free.values():
            for address in addresses:
                self._driver.quietly("cuMemFreeAsync", address, self._stream)
        self._free.clear()
        self._kept = 0

    def upload(self, values: np.ndarray) -> Buffer:
        """A copy of `values` in C order."""
        buffer = self.allocate(values.nbytes)
        if values.nbytes:
            host = np.ascontiguousarray(values)
            self._driver.call("cuMemcpyHtoDAsync", buffer.address, host.ctypes.data, host.nbytes, self._stream)
            # the driver may still read pageable memory after the call returns
            self.synchronize()
        return buffer

    def download(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """The leading elements as a host array."""
        values = np.empty(shape, dtype)
        if values.nbytes:
            self._driver.call("cuMemcpyDtoHAsync", values.ctypes.data, buffer.address, values.nbytes, self._stream)
            self.synchronize()
        values.flags.writeable = False
        return values

    def copy(self, source: Buffer, destination: Buffer, nbytes: int) -> None:
        """Copy the leading bytes on the device."""
        if nbytes:
            self._driver.call("cuMemcpyDtoDAsync", destination.address, source.address, nbytes, self._stream)

    # -- kernels --------------------------------------------------------------------------------

    def load(self, code: ObjectCode) -> CudaFunction:
        """Load a kernel: assembled by nvJitLink where that is installed, else by the driver's own compiler."""
        image = code.code
        if code.kind == "ptx":
            try:
                image = face.assemble(code.code, code.target).code
            except CompileError:
                image = code.code + b"\0"
        module = self._driver.call("cuModuleLoadData", image)
        handle = self._driver.call("cuModuleGetFunction", module, code.entry.encode())
        return CudaFunction(self._driver, module, handle, code)

    def launch(self, function: CudaFunction, parallel: tuple[int, ...], work: int, slots: array[int]) -> None:
        """Start a kernel: a block for every `per_block` items of its launch domain."""
        blocks = min(-(-prod(parallel) // function.per_block), function.most_blocks)
        if not blocks:
            return
        base = slots.buffer_info()[0]
        pointers = (ctypes.c_void_p * max(len(slots), 1))(*(base + 8 * k for k in range(len(slots))))
        self._driver.doing = function.name
        self._driver.call(
            "cuLaunchKernel",
            function.handle,
            blocks,
            1,
            1,
            function.block,
            1,
            1,
            0,
            self._stream,
            ctypes.addressof(pointers),
            0,
        )

    def synchronize(self) -> None:
        """Wait until everything started here has ended."""
        mark = self.event()
        mark.record()
        mark.synchronize()

"""Services of a GPU besides memory allocation and kernels.

Examples are streams, copies, device properties, host memory, memory sharing between processes, and occupancy.

In: a device's driver. Out: the `Services` of `CudaDevice`. Invariant: memory allocated here is returned to the driver
when its last user is deleted, or when it is released explicitly.
"""

from __future__ import annotations

import ctypes
import operator
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import numpy as np

from weft.runtime.cuda.device_memory import PoolBlock
from weft.runtime.cuda.driver import Driver
from weft.runtime.cuda.staging import Staging
from weft.runtime.cuda.streams import CudaEvent, CudaStream, StreamOrder
from weft.runtime.cuda.textures import TextureObject
from weft.runtime.device import Buffer, Device
from weft.runtime.errors import CompileError, CudaError
from weft.runtime.listening import LaunchNote, Listening, launch_heard
from weft.runtime.services import DeviceFacts, HostKind, HostMemory

PORTABLE_MAPPED = 1 | 2  # for all devices, with a device address
ATTACH_GLOBAL = 1
LAZY_PEER_ACCESS = 1
POINTERS_DEVICE = 9  # an attribute of a pointer
HANDLE_BYTES = 64  # size of a CUipcMemHandle, whose field some versions of cuda.bindings hide
PREFIX = "CU_DEVICE_ATTRIBUTE_"
_BYTES_OF_BLOCK = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)  # (the driver's CUoccupancyB2DSize)


# Microseconds in which the host submits a kernel and an event after it.
DELAY = 250


@cache
def _sleep_function() -> int:
    """Return the address of the C function ``usleep``, or 0 if it is not available."""
    function = getattr(ctypes.CDLL(None), "usleep", None) if os.name == "posix" else None
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function is not None else 0


class DriverMemory:
    """Memory that a driver function has allocated or registered.

    Deleting this object releases the memory by another driver call.
    """

    __slots__ = ("_driver", "_give_back", "_keeps", "address")

    def __init__(self, driver: Driver, give_back: str, address: int, keeps: object = None) -> None:
        self._driver = driver
        self._give_back = give_back
        self._keeps = keeps
        self.address = address

    def release(self) -> None:
        """Release the memory now."""
        if self.address:
            self._driver.quietly(self._give_back, self.address)
            self.address = 0

    __del__ = release


class Attributes(Mapping[str, int]):
    """A GPU's attributes by name, queried from the driver on access."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __getitem__(self, name: str) -> int:
        kind = getattr(self._driver.table.CUdevice_attribute, PREFIX + name, None)
        if kind is None:
            raise KeyError(name)
        return int(self._driver.call("cuDeviceGetAttribute", kind, self._driver.handle))

    def __iter__(self) -> Iterator[str]:
        names = (name for name in dir(self._driver.table.CUdevice_attribute) if name.startswith(PREFIX))
        return (name.removeprefix(PREFIX) for name in names if not name.endswith("_MAX"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class GpuServices(Device):
    """The services of a GPU besides memory allocation and kernels."""

    capability: tuple[int, int]
    _driver: Driver
    _order: StreamOrder
    _staging: Staging
    streaming = False  # whether the user has created a stream: until then, memory need not be claimed

    def create_stream(self, handle: int | None = None, owner: object = None) -> CudaStream:  # type: ignore[override]
        stream = self._order.create(handle, owner)
        self.streaming = self.streaming or not stream.is_main
        return stream

    @property
    def current_stream(self) -> CudaStream:  # type: ignore[override]
        return self._order.current

    @contextmanager
    def working_in(self, stream: CudaStream) -> Iterator[None]:
        streams = self._order.entered.streams
        streams.append(stream)
        try:
            yield
        finally:
            streams.pop()

    def claim(self, buffer: Buffer, stream: CudaStream | None = None, written: bool = False) -> None:
        if self.streaming:
            whole: Any = buffer
            while type(whole) is Buffer:
                whole = whole._owner  # the buffer that contains it
            if isinstance(whole, PoolBlock):
                self._order.claim(whole, stream, written)

    def create_event(self, timing: bool = True) -> CudaEvent:
        return CudaEvent(self._driver, self._order, timing)

    def delay(self) -> None:
        stream, function = self._order.current, _sleep_function()
        if function and stream.query():
            self._driver.call("cuLaunchHostFunc", stream.queue, self._driver.table.CUhostFn(function), DELAY)

    def facts(self) -> DeviceFacts:
        call, handle = self._driver.call, self._driver.handle
        name = call("cuDeviceGetName", 128, handle).split(b"\0")[0].decode()
        number = uuid.UUID(bytes=bytes(call("cuDeviceGetUuid", handle).bytes))
        ordinal = int(self.name.partition(":")[2])
        return DeviceFacts(ordinal, name, f"GPU-{number}", self.capability, Attributes(self._driver))

    def memory_info(self) -> tuple[int, int]:
        free, total = self._driver.call("cuMemGetInfo")
        return int(free), int(total)

    # -- memory ---------------------------------------------------------------------------------

    def host_memory(self, nbytes: int, kind: HostKind) -> HostMemory:
        """Return managed memory, or pinned memory that is mapped into the device's address space."""
        call = self._driver.call
        if kind == "managed":
            at = int(call("cuMemAllocManaged", max(nbytes, 1), ATTACH_GLOBAL))
            return HostMemory(at, at, nbytes, DriverMemory(self._driver, "cuMemFree", at))
        at = int(call("cuMemHostAlloc", max(nbytes, 1), PORTABLE_MAPPED))
        owner = DriverMemory(self._driver, "cuMemFreeHost", at)
        return HostMemory(at, int(call("cuMemHostGetDevicePointer", at, 0)), nbytes, owner)

    def pin(self, values: np.ndarray) -> HostMemory:
        """Page-lock host memory by registering it with the driver.

        Memory that is already page-locked is accepted, and remains as it is.
        """
        at = values.ctypes.data
        if not values.nbytes:
            return HostMemory(at, 0, 0, values)
        owner: Any = values
        try:
            self._driver.call("cuMemHostRegister", at, values.nbytes, PORTABLE_MAPPED)
            owner = DriverMemory(self._driver, "cuMemHostUnregister", at, values)
        except CudaError:
            if not (self._is_page_locked(at) and self._is_page_locked(at + values.nbytes - 1)):
                raise
        return HostMemory(at, int(self._driver.call("cuMemHostGetDevicePointer", at, 0)), values.nbytes, owner)

    def _is_page_locked(self, address: int) -> bool:
        try:
            self._driver.call("cuMemHostGetFlags", address)
        except CudaError:
            return False
        return True

    def read(self, address: int, values: np.ndarray, stream: Any = None) -> None:
        """Copy from device memory to a contiguous host array. Without a stream, the call waits for the copy."""
        if values.nbytes and stream is None:
            self._heard("copy to the host", values.nbytes, partial(self._staging.download, address, values))
        elif values.nbytes:
            self._staging.move("cuMemcpyDtoHAsync", values.ctypes.data, address, values.nbytes, stream)

    def write(self, address: int, values: np.ndarray, stream: Any = None) -> None:
        """Copy a contiguous host array to device memory. If `stream` is None, the caller may change `values` as soon as the call returns."""
        if values.nbytes and stream is None:
            self._heard("copy from the host", values.nbytes, partial(self._staging.upload, address, values))
        elif values.nbytes:
            self._staging.move("cuMemcpyHtoDAsync", address, values.ctypes.data, values.nbytes, stream)

    def _heard(self, name: str, nbytes: int, copy: Callable[[CudaStream], None]) -> None:
        """Run a copy in the calling thread's stream, and notify the launch listeners."""
        stream = self._order.current
        if Listening.listeners:
            launch_heard(self, LaunchNote(name, nbytes=nbytes), partial(copy, stream))
        else:
            copy(stream)

    def share(self, nbytes: int) -> tuple[Buffer, bytes]:
        """Return a new buffer that other processes can open, and its handle. The memory pool is not used, since its blocks cannot be shared."""
        at = int(self._driver.call("cuMemAlloc", max(nbytes, 1)))
        owner = DriverMemory(self._driver, "cuMemFree", at)
        handle = self._driver.call("cuIpcGetMemHandle", at)
        return self._over(at, nbytes, owner), ctypes.string_at(handle.getPtr(), HANDLE_BYTES)

    def open_shared(self, handle: bytes, nbytes: int) -> Buffer:
        """Open a buffer that another process shares. Raises ValueError for a handle of the wrong size."""
        if len(handle) != HANDLE_BYTES:
            raise ValueError(f"a GPU's shared array has a handle of {HANDLE_BYTES} bytes, not of {len(handle)}")
        opened = self._driver.table.CUipcMemHandle()
        ctypes.memmove(opened.getPtr(), handle, HANDLE_BYTES)
        at = int(self._driver.call("cuIpcOpenMemHandle", opened, LAZY_PEER_ACCESS))
        return self._over(at, nbytes, DriverMemory(self._driver, "cuIpcCloseMemHandle", at))

    def _over(self, address: int, nbytes: int, owner: DriverMemory) -> Buffer:
        device: Any = self
        return Buffer(device, address, nbytes, owner)

    def owner_of(self, address: int) -> int | None:
        number = ctypes.c_int32()
        try:
            self._driver.native("cuPointerGetAttribute", ctypes.addressof(number), POINTERS_DEVICE, address)
        except (CompileError, CudaError):
            return None  # the driver does not know the address
        return number.value if number.value != int(self._driver.handle) else None

    def exported_stream(self) -> int:
        self._order.join()
        return self._order.create(0).number

    # -- kernels --------------------------------------------------------------------------------

    def texture(self, values: np.ndarray, filter: str, address: str, normalized: bool) -> TextureObject:
        """Return a texture object with a copy of the elements of an array."""
        return TextureObject(self._driver, values, filter, address, normalized)

    def active_blocks(self, function: Any, threads: int, shared_bytes: int) -> int:
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return int(self._driver.call(name, function.handle, threads, shared_bytes))

    def best_block(
        self, function: Any, shared_bytes: int | Callable[[int], int] = 0, limit: int = 0
    ) -> tuple[int, int]:
        name, errors = "cuOccupancyMaxPotentialBlockSize", list[BaseException]()
        if not callable(shared_bytes):
            grid, block = self._driver.call(name, function.handle, None, shared_bytes, limit)
            return int(grid), int(block)

        @_BYTES_OF_BLOCK
        def bytes_of_block(threads: int) -> int:
            try:
                return operator.index(shared_bytes(threads))
            except BaseException as error:  # (it cannot pass through the driver)
                errors.append(error)
                return 0

        address = ctypes.cast(bytes_of_block, ctypes.c_void_p).value
        callback = self._driver.table.CUoccupancyB2DSize(address)
        grid, block = self._driver.call(name, function.handle, callback, 0, limit)
        if errors:
            raise errors[0]
        return int(grid), int(block)

    def profile(self, on: bool) -> None:
        self._driver.call("cuProfilerStart" if on else "cuProfilerStop")

"""Services of devices besides memory allocation and kernels.

In: the device. Out: `Stream`, `Event`, `HostMemory` and `DeviceFacts`, and `Services`, the part of a device that
creates them. Invariant: a stream's work follows all earlier work of the device's own stream, whose later work follows
the stream's work.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import numpy as np

HostKind = Literal["pinned", "mapped", "managed"]


class Stream(Protocol):
    """A queue of work on a device."""

    handle: int  # CUDA's handle, or 0 for the device's own stream
    number: int  # the driver's handle, which is not 0 for a GPU's own stream either

    def query(self) -> bool:
        """Return whether all work in the stream has ended."""

    def synchronize(self) -> None:
        """Wait until all work in the stream has ended."""

    def wait(self, event: Any) -> None:
        """Make later work in this stream wait for `event`."""

    def add_callback(self, function: Callable[[], object]) -> None:
        """Call `function` in an unspecified thread after the stream's current work."""


class Event(Protocol):
    """A point in the work of a stream."""

    def record(self, stream: Any = None) -> None:
        """Set the event to the current end of `stream`, or of the calling thread's stream."""

    def query(self) -> bool:
        """Return whether all work before the event has ended."""

    def synchronize(self) -> None:
        """Wait for the event."""

    def elapsed(self, earlier: Any) -> float:
        """Return the milliseconds from the event `earlier` to this event."""


DATA = 16  # offset of the data pointer in NumPy's array objects, fixed by its ABI


def address_of(values: np.ndarray) -> int:
    """Return the address of an array's first element, faster than `values.ctypes.data`."""
    return ctypes.c_int64.from_address(id(values) + DATA).value


class _Exposed:
    """An object that exposes memory through NumPy's array interface. The object keeps the owner of the memory alive."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self._owner, self.__array_interface__ = owner, interface


def array_over(
    owner: object, address: int, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
) -> np.ndarray:
    """Return an array over the memory at an address. The array keeps `owner` alive."""
    data = {"data": (address, False), "shape": shape, "strides": strides, "typestr": dtype.str, "version": 3}
    found = np.asarray(_Exposed(owner, data))
    # the interface describes neither bfloat16 nor records
    return found if dtype.kind != "V" else found.view(dtype)


class HostMemory:
    """Memory that the host can access at the address `host`.

    If the device can access the memory, its address on the device is `address`.
    """

    __slots__ = ("address", "host", "nbytes", "owner")

    def __init__(self, host: int, address: int, nbytes: int, owner: Any = None) -> None:
        self.host, self.address, self.nbytes = host, address, nbytes
        self.owner = owner  # releases the memory when it is deleted


class DeviceFacts:
    """The properties of a device.

    Attributes
    ----------
    number : int
        The index of the device among the devices of its kind.
    name, uuid : str
    capability : (int, int)
        Compute capability; for the CPU, the compute capability of an architecture whose features the CPU supports.
    attributes : mapping of str to int
        Attribute values, keyed by the driver's names without prefix: ``MAX_THREADS_PER_BLOCK``, ``WARP_SIZE`` ...
    """

    __slots__ = ("attributes", "capability", "name", "number", "uuid")

    def __init__(
        self, number: int, name: str, uuid: str, capability: tuple[int, int], attributes: Mapping[str, int]
    ) -> None:
        self.number, self.name, self.uuid, self.capability, self.attributes = number, name, uuid, capability, attributes


class MemoryCount(Protocol):
    """Protocol of a memory pool's counters. `limit` is the upper limit of the sum `held` + `kept`, or None."""

    limit: int | None

    @property
    def kept(self) -> int:
        """The total size of free blocks in bytes."""

    @property
    def peak(self) -> int:
        """The maximum number of bytes that arrays have used at the same time."""

    @property
    def held(self) -> int:
        """The number of bytes that arrays use."""

    def empty(self) -> int:
        """Free the unused blocks, and return their size in bytes."""


class Services(ABC):
    """Device methods for user-written kernels, `weft.cuda`, streams and reports."""

    streaming: bool  # whether `claim` has to be called before a stream uses a buffer

    @abstractmethod
    def create_stream(self, handle: int | None = None, owner: object = None) -> Stream:
        """Return a new stream, or wrap the CUDA stream `handle` and keep its `owner` alive.

        The handle 0 is the device's own stream.
        """

    @property
    @abstractmethod
    def current_stream(self) -> Stream:
        """The stream of the calling thread."""

    @abstractmethod
    def working_in(self, stream: Any) -> AbstractContextManager[None]:
        """Context manager that submits the calling thread's work to `stream`."""

    @abstractmethod
    def claim(self, buffer: Any, stream: Any = None, written: bool = False) -> None:
        """Make a stream wait for other streams' work on a buffer, before the stream uses the buffer.

        None is the stream of the calling thread.
        """

    @abstractmethod
    def create_event(self, timing: bool = True) -> Event:
        """Return a new event. Without `timing`, the event is cheaper, but `elapsed` cannot be used."""

    @abstractmethod
    def delay(self) -> None:
        """Keep the calling thread's stream busy while the host submits more work.

        The times of events around this work then do not include the time of its submission. Nothing is done if the
        stream is already busy.
        """

    @abstractmethod
    def facts(self) -> DeviceFacts:
        """Return the properties of the device."""

    @abstractmethod
    def memory_info(self) -> tuple[int, int]:
        """Return the free and the total memory in bytes."""

    @abstractmethod
    def host_memory(self, nbytes: int, kind: HostKind) -> HostMemory:
        """Allocate host memory of the given kind, such as pinned memory.

        "pinned" memory is for fast copies, "mapped" memory is in the device's address space too, and "managed" memory
        moves between the host and the device.
        """

    @abstractmethod
    def pin(self, values: np.ndarray) -> HostMemory:
        """Register existing host memory with the device until the result is deleted."""

    @abstractmethod
    def read(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        """Copy from device memory to a contiguous host array. With a stream, the call may return before the copy has ended."""

    @abstractmethod
    def write(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        """Copy from a contiguous host array to device memory. With a stream, the copy may end after the call."""

    @abstractmethod
    def share(self, nbytes: int) -> tuple[Any, bytes]:
        """Allocate a buffer that other processes can open, and return the buffer and its handle."""

    @abstractmethod
    def open_shared(self, handle: bytes, nbytes: int) -> Any:
        """Open a buffer that another process shares."""

    @abstractmethod
    def texture(self, values: np.ndarray, filter: str, address: str, normalized: bool) -> Any:
        """Return a texture object for an array, or None if kernels read the array directly."""

    @abstractmethod
    def active_blocks(self, function: Any, threads: int, shared_bytes: int) -> int:
        """Return the number of a kernel's blocks that one multiprocessor can run concurrently."""

    @abstractmethod
    def best_block(
        self, function: Any, shared_bytes: int | Callable[[int], int] = 0, limit: int = 0
    ) -> tuple[int, int]:
        """Return the grid size and the block size that give a kernel its maximum occupancy.

        `shared_bytes` is the dynamic shared memory of a block in bytes, or a function that returns it for a number of
        threads per block. `limit` is the maximum number of threads per block (0: none).
        """

    @abstractmethod
    def profile(self, on: bool) -> None:
        """Start or stop the recording of an attached profiler."""

    @abstractmethod
    def reset(self) -> None:
        """Wait for all work, and free the memory that no array uses."""

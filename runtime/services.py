"""Device services beside memory and kernels: streams, events, host memory, properties.

In: the device. Out: `Stream`, `Event`, `HostMemory`, `DeviceFacts`, and `Services`, the part of the device protocol
that creates them. Invariant: a stream's work follows all earlier work of the device, and the device's own later work
follows the stream's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

HostKind = Literal["pinned", "mapped", "managed"]


class Stream(Protocol):
    """A queue of work on a device."""

    handle: int  # what CUDA calls it; 0 is the device's own

    def query(self) -> bool:
        """Return whether all work in the stream has ended."""
        ...

    def synchronize(self) -> None:
        """Wait until all work in the stream has ended."""
        ...

    def wait(self, event: Event) -> None:
        """Make work that is added later wait for `event`."""
        ...

    def add_callback(self, function: Callable[[], object]) -> None:
        """Call `function`, from any thread, when the work added so far has ended."""
        ...


class Event(Protocol):
    """A point in a stream."""

    def record(self, stream: Stream | None = None) -> None:
        """Mark the current end of a stream (None: the device's own)."""
        ...

    def query(self) -> bool:
        """Return whether all work before the event has ended."""
        ...

    def synchronize(self) -> None:
        """Wait for the event."""
        ...

    def elapsed(self, earlier: Event) -> float:
        """Return the milliseconds since another event."""
        ...


@dataclass(slots=True)
class HostMemory:
    """Memory that the host accesses at `host`, and the device, if it can, at `address`."""

    host: int
    address: int
    nbytes: int
    owner: Any = None  # gives the memory back when it dies


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The properties of a device.

    Attributes
    ----------
    number : int
        Its number among the devices of its kind.
    name, uuid : str
    capability : (int, int)
        Compute capability; for the CPU that of an architecture whose features it has.
    attributes : mapping of str to int
        By the driver's names without their prefix: ``MAX_THREADS_PER_BLOCK``, ``WARP_SIZE`` ...
    """

    number: int
    name: str
    uuid: str
    capability: tuple[int, int]
    attributes: Mapping[str, int] = field(repr=False)


class MemoryCount(Protocol):
    """The counters of a device's memory pool.

    Attributes
    ----------
    held, kept : int
        Bytes that arrays hold, and bytes of free blocks kept for reuse.
    peak : int
        The most that was held.
    limit : int or None
        Bytes that may be held and kept in all.
    """

    limit: int | None

    @property
    def kept(self) -> int:
        """Return the bytes of free blocks."""
        ...

    @property
    def peak(self) -> int:
        """Return the largest number of bytes that were held."""
        ...

    @property
    def held(self) -> int:
        """Return the bytes that arrays hold."""
        ...

    def empty(self) -> int:
        """Free the unused blocks and return their bytes."""
        ...


class Services(Protocol):
    """The part of the device protocol for explicit kernels, `weft.cuda`, streams and reports."""

    streaming: bool  # whether a user's streams have to be told what they use

    def create_stream(self, handle: int | None = None) -> Stream:
        """Return a new stream, or wrap an existing one by its CUDA handle (0: the device's own)."""
        ...

    def working_in(self, stream: Stream | None) -> AbstractContextManager[None]:
        """Submit the calling thread's work to `stream` inside the ``with``."""
        ...

    def claim(self, buffer: Any, stream: Stream | None = None, written: bool = False) -> None:
        """Make a stream (None: the calling thread's) wait for the work that must precede its use of a buffer."""
        ...

    def create_event(self, timing: bool = True) -> Event:
        """Return a new event; without `timing` it is cheaper, and `elapsed` does not work."""
        ...

    def facts(self) -> DeviceFacts:
        """Return the properties of the device."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """Return the free and total memory in bytes."""
        ...

    def host_memory(self, nbytes: int, kind: HostKind) -> HostMemory:
        """Allocate memory that host and device share, or pinned memory that the device copies from directly."""
        ...

    def pin(self, values: np.ndarray) -> HostMemory:
        """Register existing host memory with the device until the result dies."""
        ...

    def read(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        """Copy from the device into a contiguous host array; with a stream the copy may still run on return."""
        ...

    def write(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        """Copy a contiguous host array to the device; with a stream the copy may still run on return."""
        ...

    def share(self, nbytes: int) -> tuple[Any, bytes]:
        """Allocate a buffer that other processes can open, and return it with its handle."""
        ...

    def open_shared(self, handle: bytes, nbytes: int) -> Any:
        """Open a buffer that another process shares."""
        ...

    def active_blocks(self, function: Any, threads: int, shared_bytes: int) -> int:
        """Return the number of blocks of a kernel that one multiprocessor runs at the same time."""
        ...

    def best_block(self, function: Any, shared_bytes: int = 0, limit: int = 0) -> tuple[int, int]:
        """Return the grid size and block size that fill the device (`limit`: the most threads, 0 for any)."""
        ...

    def profile(self, on: bool) -> None:
        """Start or stop an attached profiler."""
        ...

    def reset(self) -> None:
        """Wait for all work and free memory that no array uses."""
        ...

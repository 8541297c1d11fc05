"""What a device offers beside memory and kernels: streams, events, host memory, facts about itself.

In: nothing but the device. Out: `Stream`, `Event`, `HostMemory`, `DeviceFacts`, and `Services`, the part
of the device protocol that hands them out. Invariant: a stream's work is ordered behind everything that the device
was given before it, and the device's own next work behind the stream's.
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
        """Whether everything in it has ended."""
        ...

    def synchronize(self) -> None:
        """Wait until everything in it has ended."""
        ...

    def wait(self, event: Any) -> None:
        """What comes next waits for `event`."""
        ...

    def add_callback(self, function: Callable[[], object]) -> None:
        """Call `function`, from any thread, when everything so far has ended."""
        ...


class Event(Protocol):
    """A point in a stream."""

    def record(self, stream: Any = None) -> None:
        """Mark the present end of a stream (None: the device's own)."""
        ...

    def query(self) -> bool:
        """Whether everything before it has ended."""
        ...

    def synchronize(self) -> None:
        """Wait for it."""
        ...

    def elapsed(self, earlier: Any) -> float:
        """Milliseconds since another event."""
        ...


@dataclass(slots=True)
class HostMemory:
    """Memory that the host reads and writes at `host`, and the device, where it can, at `address`."""

    host: int
    address: int
    nbytes: int
    owner: Any = None  # gives the memory back when it dies


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a device is.

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
    """What a device's memory pool says about itself.

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
        """Bytes of free blocks."""
        ...

    @property
    def peak(self) -> int:
        """The most that was held."""
        ...

    @property
    def held(self) -> int:
        """Bytes that arrays hold."""
        ...

    def empty(self) -> int:
        """Give the free blocks back. Returns how many bytes."""
        ...


class Services(Protocol):
    """The part of the device protocol that explicit kernels, `weft.cuda`, streams and reports need."""

    streaming: bool  # whether a user's streams have to be told what they use

    def create_stream(self, handle: int | None = None) -> Stream:
        """Return a new stream, or wrap an existing one by its CUDA handle (0: the device's own)."""
        ...

    def working_in(self, stream: Any) -> AbstractContextManager[None]:
        """What the calling thread gives the device inside the ``with`` goes to `stream`."""
        ...

    def claim(self, buffer: Any, stream: Any = None, written: bool = False) -> None:
        """Before a stream (None: the calling thread's) uses a buffer: wait for the work that must precede it."""
        ...

    def create_event(self, timing: bool = True) -> Event:
        """A new event; without `timing` it is cheaper, and `elapsed` does not work."""
        ...

    def facts(self) -> DeviceFacts:
        """What the device is."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """Free bytes and bytes in all."""
        ...

    def host_memory(self, nbytes: int, kind: HostKind) -> HostMemory:
        """Memory that host and device share, or that the device copies from without a detour (pinned)."""
        ...

    def pin(self, values: np.ndarray) -> HostMemory:
        """Make existing host memory known to the device until the result dies."""
        ...

    def read(self, address: int, values: np.ndarray, stream: Any = None) -> None:
        """Copy from the device into a contiguous host array; with a stream the copy may still run on return."""
        ...

    def write(self, address: int, values: np.ndarray, stream: Any = None) -> None:
        """Copy a contiguous host array to the device; with a stream the copy may still run on return."""
        ...

    def share(self, nbytes: int) -> tuple[Any, bytes]:
        """A new buffer that other processes can open, and the handle that they open it by."""
        ...

    def open_shared(self, handle: bytes, nbytes: int) -> Any:
        """The buffer that another process shares."""
        ...

    def active_blocks(self, function: Any, threads: int, shared_bytes: int) -> int:
        """Blocks of a kernel that one multiprocessor runs at the same time."""
        ...

    def best_block(self, function: Any, shared_bytes: int = 0, limit: int = 0) -> tuple[int, int]:
        """Blocks of the grid and threads of a block that fill the device (`limit`: threads at most, 0 for any)."""
        ...

    def profile(self, on: bool) -> None:
        """Start or stop an attached profiler."""
        ...

    def reset(self) -> None:
        """Wait for everything and give back memory that no array holds."""
        ...

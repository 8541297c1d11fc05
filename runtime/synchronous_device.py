"""Base class of synchronous devices, on which no work is ever pending.

These are the CPU, the `simt` device and the null device.

Streams hold no work, events are times, and host memory is ordinary memory. Invariant: nothing here waits.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.runtime.device import Buffer, BufferRequests, Device
from weft.runtime.errors import warn_user
from weft.runtime.services import DeviceFacts, HostKind, HostMemory, address_of
from weft.runtime.settings import usable_cores

if TYPE_CHECKING:
    from weft.runtime.services import Event, Stream

# Programs check features by compute capability: the CPU supports the features of this compute capability.
CAPABILITY = (9, 0)
MAX_THREADS = 1024
MAX_SHARED = 227 << 10
BEST_BLOCK = 256
SHARED_FOLDER = "/dev/shm"


class DoneStream:
    """A stream of a synchronous device, in which no work is ever pending."""

    def __init__(self, handle: int) -> None:
        self.handle = self.number = handle

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Return immediately, since no work is ever pending."""

    def wait(self, event: Event) -> None:
        """Return immediately, since all recorded events have already happened."""

    def add_callback(self, function: Callable[[], object]) -> None:
        function()


class ClockEvent:
    """An event of a synchronous device, which records the time of the host's clock."""

    def __init__(self, timing: bool = True) -> None:
        self.handle = 0
        self._timing = timing
        self._at: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        self._at = time.perf_counter_ns()

    def query(self) -> bool:
        """Return True, since no work is ever pending. An event that was never recorded is complete, as in CUDA."""
        return True

    def synchronize(self) -> None:
        """Return immediately, since the event has already happened."""

    def elapsed(self, earlier: Any) -> float:
        """Return the milliseconds from the event `earlier` to this event.

        Raises ValueError if one of the events was not recorded or has no timing.
        """
        if not (self._timing and earlier._timing):
            raise ValueError("the time between two events needs events made with timing=True")
        if self._at is None or earlier._at is None:
            raise ValueError("the time between two events needs both of them recorded")
        return (self._at - earlier._at) / 1e6


class SharedFile:
    """A memory-mapped file. In the process that created the file, the file is removed when this object is deleted."""

    def __init__(self, path: str, nbytes: int, mine: bool) -> None:
        with open(path, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), max(nbytes, 1))
        self._raw = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        self.address = ctypes.addressof(self._raw)
        self.path = path
        self._creator = os.getpid() if mine else 0

    def __del__(self) -> None:
        if getattr(self, "_creator", 0) == os.getpid():  # (not in a forked child)
            with suppress(FileNotFoundError):
                os.unlink(self.path)


class NoMemory:
    """The counters of a device without memory, all of which are 0."""

    held = kept = peak = 0
    limit: int | None = None

    def empty(self) -> int:
        return 0


class SynchronousDevice(Device):
    """Base class of devices whose methods return after all work has ended."""

    small_on_host = host_math = True
    streaming = False  # streams hold no work to wait for

    def allocate_into(self, table: list[Any], requests: BufferRequests) -> None:
        for slot, nbytes in zip(requests.slots, requests.sizes, strict=True):
            table[slot] = self.allocate(nbytes)

    @property
    def current_stream(self) -> DoneStream:
        return DoneStream(0)

    @contextmanager
    def working_in(self, stream: Stream | None) -> Iterator[None]:
        """Do nothing, since streams have no effect on a synchronous device."""
        yield

    def claim(self, buffer: Buffer, stream: Stream | None = None, written: bool = False) -> None:
        """Do nothing, since no work is ever pending."""

    def create_stream(self, handle: int | None = None, owner: object = None) -> DoneStream:
        """Return a new stream, whose handle is never passed to CUDA."""
        if handle is None:
            SynchronousDevice._streams += 1
            handle = SynchronousDevice._streams
        return DoneStream(handle)

    _streams = 2  # CUDA's handles 1 and 2 are its default streams

    def create_event(self, timing: bool = True) -> ClockEvent:
        return ClockEvent(timing)

    def delay(self) -> None:
        """Do nothing. These devices have no stream to keep busy, because each call returns only after its work has ended."""

    def facts(self) -> DeviceFacts:
        return _facts(self.name)

    def memory_info(self) -> tuple[int, int]:
        return machine_memory()

    def host_memory(self, nbytes: int, kind: HostKind) -> HostMemory:
        """Return ordinary host memory, even if `kind` requests pinned, mapped or managed memory. A synchronous device has no other kind of memory."""
        values = np.empty(nbytes + 64, np.uint8)
        at = -(-address_of(values) // 64) * 64
        return HostMemory(at, at, nbytes, values)

    def pin(self, values: np.ndarray) -> HostMemory:
        """Return the memory of the array unchanged."""
        return HostMemory(address_of(values), address_of(values), values.nbytes, values)

    def texture(self, values: np.ndarray, filter: str, address: str, normalized: bool) -> None:
        """Return None, since kernels read the elements directly."""

    def read(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        ctypes.memmove(address_of(values), address, values.nbytes)

    def write(self, address: int, values: np.ndarray, stream: Stream | None = None) -> None:
        ctypes.memmove(address, address_of(values), values.nbytes)

    def share(self, nbytes: int) -> tuple[Buffer, bytes]:
        """Return a new buffer in a memory-mapped file, and the buffer's handle. The handle is the path of the file."""
        import tempfile

        folder = SHARED_FOLDER if os.path.isdir(SHARED_FOLDER) else None
        number, path = tempfile.mkstemp(prefix="weft-", dir=folder)
        os.truncate(number, max(nbytes, 1))
        os.close(number)
        file = SharedFile(path, nbytes, mine=True)
        return Buffer(self, file.address, nbytes, file), path.encode()

    def open_shared(self, handle: bytes, nbytes: int) -> Buffer:
        """Open the shared buffer with the given handle.

        Raises ValueError if the file does not exist or is too short.
        """
        path = bytes(handle).rstrip(b"\0").decode()
        if not os.path.isfile(path) or os.path.getsize(path) < nbytes:
            raise ValueError(f"no shared array of {nbytes} bytes at {path!r}: its process has ended, or deleted it")
        file = SharedFile(path, nbytes, mine=False)
        return Buffer(self, file.address, nbytes, file)

    def active_blocks(self, function: Any, threads: int, shared_bytes: int) -> int:
        """Return 1, since each core runs one block at a time."""
        return 1

    def best_block(
        self, function: Any, shared_bytes: int | Callable[[int], int] = 0, limit: int = 0
    ) -> tuple[int, int]:
        """Return a grid size that uses all cores, and a default block size."""
        return usable_cores(), min(limit or BEST_BLOCK, BEST_BLOCK)

    def profile(self, on: bool) -> None:
        """Warn that profiling has no effect, since profilers cannot attach to these devices."""
        warn_user("profiling is for a GPU; on this device it does nothing")

    def reset(self) -> None:
        self.memory.empty()

    def synchronize(self) -> None:
        """Return immediately, since no work is ever pending."""


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


@lru_cache
def _facts(name: str) -> DeviceFacts:
    import uuid

    of_machine = uuid.uuid5(uuid.NAMESPACE_DNS, f"{platform.node()}/{name}")
    title = f"CPU: {_processor_name()}" if name == "cpu" else name
    return DeviceFacts(0, title, f"CPU-{of_machine}", CAPABILITY, _attributes())


# Properties that the emulated GPU has, and properties that it does not have.
_PRESENT = (
    "INTEGRATED CAN_MAP_HOST_MEMORY ASYNC_ENGINE_COUNT UNIFIED_ADDRESSING GLOBAL_L1_CACHE_SUPPORTED "
    "LOCAL_L1_CACHE_SUPPORTED MANAGED_MEMORY HOST_NATIVE_ATOMIC_SUPPORTED PAGEABLE_MEMORY_ACCESS "
    "CONCURRENT_MANAGED_ACCESS COMPUTE_PREEMPTION_SUPPORTED COOPERATIVE_LAUNCH MEMORY_POOLS_SUPPORTED"
)
_ABSENT = (
    "KERNEL_EXEC_TIMEOUT COMPUTE_MODE CONCURRENT_KERNELS ECC_ENABLED PCI_BUS_ID PCI_DEVICE_ID PCI_DOMAIN_ID TCC_DRIVER "
    "STREAM_PRIORITIES_SUPPORTED MULTI_GPU_BOARD COOPERATIVE_MULTI_DEVICE_LAUNCH CLUSTER_LAUNCH"
)


def _attributes() -> dict[str, int]:
    """Return the device attributes that programs query, with the values of an emulated GPU."""
    return {
        "MAX_THREADS_PER_BLOCK": MAX_THREADS,
        "MAX_BLOCK_DIM_X": MAX_THREADS,
        "MAX_BLOCK_DIM_Y": MAX_THREADS,
        "MAX_BLOCK_DIM_Z": 64,
        "MAX_GRID_DIM_X": 2**31 - 1,
        "MAX_GRID_DIM_Y": 65535,
        "MAX_GRID_DIM_Z": 65535,
        "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": MAX_SHARED,
        "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": MAX_SHARED + 1024,
        "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
        "TOTAL_CONSTANT_MEMORY": 64 << 10,
        "WARP_SIZE": 32,
        "MAX_REGISTERS_PER_BLOCK": 65536,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
        "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
        "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
        "MULTIPROCESSOR_COUNT": usable_cores(),
        "CLOCK_RATE": 1_000_000,
        "MEMORY_CLOCK_RATE": 1_000_000,
        "GLOBAL_MEMORY_BUS_WIDTH": 64,
        "L2_CACHE_SIZE": 1 << 20,
        "COMPUTE_CAPABILITY_MAJOR": CAPABILITY[0],
        "COMPUTE_CAPABILITY_MINOR": CAPABILITY[1],
        "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2,
        **dict.fromkeys(_PRESENT.split(), 1),
        **dict.fromkeys(_ABSENT.split(), 0),
    }


def machine_memory() -> tuple[int, int]:
    """Return the free and the total memory of the machine in bytes."""
    try:
        with open("/proc/meminfo") as file:
            rows = dict(line.split(":", 1) for line in file.read().splitlines())
        free, total = (int(rows[key].split()[0]) * 1024 for key in ("MemAvailable", "MemTotal"))
    except (OSError, KeyError):
        page = os.sysconf("SC_PAGE_SIZE")
        free, total = (page * os.sysconf(key) for key in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"))
    return free, total

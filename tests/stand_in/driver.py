"""A stand-in for the CUDA driver, with the interface of cuda.bindings.

In: calls of the native functions. Out: the calls so far, the memory in use, and the errors, for tests. Invariant:
device memory is host memory, so that tests can read it. An access outside of it is an illegal address (700), as on a
GPU.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.stand_in.functions import FAULT, LINE, LINES, NUMBERS, SIGNATURES, Functions

INVALID_VALUE = 1
ALREADY_REGISTERED = 712
NO_MEMORY = 2
INVALID_HANDLE = 400
NOT_FOUND = 500
ILLEGAL_ADDRESS = 700
ALIGNMENT = 512
PADDING = 1 << 12  # maximum number of bytes by which an array may start before its memory block
FILLED = 1 << 20  # bytes of a new block that are filled with a marker for uninitialized memory
COOPERATIVE = 2  # a launch attribute
DYNAMIC_SHARED = 8  # an attribute of a function
ORDINARY_SHARED, MOST_SHARED = 48 << 10, 227 << 10  # the default limit, and the maximum with the attribute
MOST_GRID, MOST_BLOCK, MOST_THREADS = (2**31 - 1, 65535, 65535), (1024, 1024, 64), 1024

# Device attributes: name -> number, value.
ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": (1, 1024),
    "WARP_SIZE": (10, 32),
    "MULTIPROCESSOR_COUNT": (16, 132),
    "GLOBAL_MEMORY_BUS_WIDTH": (37, 6144),
    "MEMORY_CLOCK_RATE": (36, 3201000),
    "COMPUTE_CAPABILITY_MAJOR": (75, 9),
    "COMPUTE_CAPABILITY_MINOR": (76, 0),
    "MEMORY_POOLS_SUPPORTED": (115, 1),
    "L2_CACHE_SIZE": (38, 50 << 20),
}
FUNCTION_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 0,
    "SHARED_SIZE_BYTES": 1,
    "CONST_SIZE_BYTES": 2,
    "LOCAL_SIZE_BYTES": 3,
    "NUM_REGS": 4,
    "MAX_DYNAMIC_SHARED_SIZE_BYTES": 8,
}


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call of a driver function."""

    name: str
    code: int
    arguments: tuple[int, ...]


class Memory:
    """The allocated memory blocks of the stand-in."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.blocks: dict[int, tuple[str, Any, int]] = {}  # address -> kind, owner of the memory, bytes
        self._starts: list[int] = []
        self.wrong: list[str] = []

    @property
    def held(self) -> int:
        """Return the number of allocated bytes."""
        return sum(size for kind, _, size in self.blocks.values() if kind != "registered")

    @property
    def starts(self) -> list[int]:
        """Return the start addresses of all allocated memory blocks, in increasing order."""
        return self._starts

    def give(self, kind: str, size: int) -> int:
        """Allocate a block and return its address, or 0 if this is impossible.

        It is impossible if `size` is not positive, or if not enough memory is left.
        """
        if size <= 0 or self.held + size > self.total:
            return 0
        memory = np.empty(size + ALIGNMENT, np.uint8)
        memory[:FILLED] = 0xCD
        at = -(-memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        self.blocks[at] = (kind, memory, size)
        bisect.insort(self._starts, at)
        return at

    def is_page_locked(self, at: int) -> bool:
        """Return whether an address is in registered or page-locked host memory."""
        k = bisect.bisect_right(self._starts, at) - 1
        kind, _, size = self.blocks[self._starts[k]] if k >= 0 else ("", None, 0)
        return kind in ("registered", "host") and at < self._starts[k] + size

    def register(self, at: int, size: int) -> int:
        """Register host memory. Return the driver's code for success or for the error."""
        if self.is_page_locked(at) or self.is_page_locked(at + size - 1):
            return ALREADY_REGISTERED
        if at not in self.blocks:
            bisect.insort(self._starts, at)
        self.blocks[at] = ("registered", np.empty(0, np.uint8), size)
        return 0

    def take(self, kind: str, at: int) -> int:
        """Take back (free) the block at address `at`. Return an error code of the driver, or 0."""
        found = self.blocks.get(at)
        if found is None or found[0] != kind:
            self.wrong.append(f"{kind} memory at {at:#x} was given back, but not given")
            return INVALID_VALUE
        found[1][:FILLED] = 0xDD
        del self.blocks[at]
        self._starts.remove(at)
        return 0

    def may_start(self, at: int) -> bool:
        """Return whether an array may start at an address.

        The address must be in a block, or at most `PADDING` bytes before a block.
        """
        k = bisect.bisect_right(self._starts, at + PADDING) - 1
        return k >= 0 and at < self._starts[k] + self.blocks[self._starts[k]][2]

    def covers(self, at: int, size: int) -> bool:
        """Return whether a range of bytes lies in one block."""
        k = bisect.bisect_right(self._starts, at) - 1
        return k >= 0 and at + size <= self._starts[k] + self.blocks[self._starts[k]][2]


class StandIn:
    """A driver for one GPU. `table` holds its functions with the interface of cuda.bindings.

    Parameters
    ----------
    total : int
        Bytes of device memory.
    """

    def __init__(self, total: int = 1 << 30) -> None:
        self.memory = Memory(total)
        self.shared: dict[int, int] = {}  # function -> permitted dynamic shared memory of a block
        self.native = Functions(self._bodies())
        self.table = Table(self)

    # -- for tests ---------------------------------------------------------------------------------

    def fail(self, name: str, code: int, after: int = 0, times: int = -1) -> None:
        """Let calls of a function fail with `code`.

        The next `after` calls succeed. The `times` calls after that fail, or all later calls if `times` is -1.
        """
        k = FAULT * NUMBERS[name]
        self.native.faults[k : k + FAULT] = [code, after, times]  # type: ignore[misc]

    def mend(self) -> None:
        """Cancel all failures that `fail` has requested."""
        ctypes.memset(self.native.faults, 0, ctypes.sizeof(self.native.faults))

    @property
    def calls(self) -> list[Call]:
        """Return the calls since the last `forget`, but at most the last `LINES` calls."""
        names = list(SIGNATURES)
        count = self.native.state[0]
        found = []
        for k in range(max(0, count - LINES), count):
            line = self.native.lines[(k & (LINES - 1)) * LINE : ((k & (LINES - 1)) + 1) * LINE]
            name = names[line[0]]
            found.append(Call(name, line[1], tuple(line[2 : 2 + len(SIGNATURES[name])])))
        return found

    def named(self, *names: str) -> list[Call]:
        """Return the recorded calls of the named functions."""
        return [call for call in self.calls if call.name in names]

    def count(self, name: str) -> int:
        """Return the number of recorded calls of a function."""
        return len(self.named(name))

    def forget(self) -> None:
        """Discard all recorded calls."""
        self.native.state[0] = 0

    def close(self) -> None:
        """Disconnect all functions that are implemented in Python.

        Later calls of these functions do nothing and succeed.
        """
        self.native.bodies.clear()

    # -- effects of the functions --------------------------------------------------------------------

    def _bodies(self) -> dict[str, Callable[[Any], int]]:
        simple = {
            "cuDriverGetVersion": lambda a: put32(a[0], 13000),
            "cuDeviceGetCount": lambda a: put32(a[0], 1),
            "cuDeviceGet": lambda a: put32(a[0], a[1]),
            "cuDeviceGetName": lambda a: put_bytes(a[0], b"Stand-in\0"),
            "cuDeviceGetUuid": lambda a: put_bytes(a[0], bytes(range(16))),
            "cuDeviceTotalMem": lambda a: put64(a[0], self.memory.total),
            "cuDeviceGetAttribute": self._attribute,
            "cuDeviceCanAccessPeer": lambda a: put32(a[0], 0),
            "cuMemGetInfo": lambda a: (
                put64(a[0], self.memory.total - self.memory.held) or put64(a[1], self.memory.total)
            ),
            "cuMemHostGetDevicePointer": lambda a: put64(a[0], a[1]),
            "cuEventElapsedTime": lambda a: put_bytes(a[0], np.float32(1.5).tobytes()),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor": lambda a: put32(a[0], 8),
            "cuOccupancyMaxPotentialBlockSize": lambda a: put32(a[0], 264) or put32(a[1], best_block(a[3])),
            "cuMemHostRegister": lambda a: self.memory.register(a[0], a[1]),
            "cuMemHostGetFlags": lambda a: 0 if self.memory.is_page_locked(a[1]) else INVALID_VALUE,
            "cuMemHostUnregister": lambda a: self.memory.take("registered", a[0]),
            "cuGetProcAddress": self._find,
            "cuModuleLoadData": self._load,
            "cuModuleLoadDataEx": self._load,
            "cuModuleGetFunction": self._function,
            "cuPointerGetAttribute": lambda a: INVALID_VALUE,  # there is no memory of other libraries
            "cuFuncSetAttribute": self._allow,
            "cuMemPoolSetAccess": self._access,
            "cuLaunchHostFunc": lambda a: call_host(a[1], a[2]),
            "cuIpcGetMemHandle": lambda a: put_bytes(a[0], bytes([7] * 64)),
        }
        memory = {
            "cuMemAlloc": ("device", None),
            "cuMemAllocAsync": ("pool", None),
            "cuMemAllocManaged": ("device", None),
            "cuMemHostAlloc": ("host", None),
        }
        given = {name: self._giver(kind) for name, (kind, _) in memory.items()}
        taken = {
            "cuMemFree": lambda a: self.memory.take("device", a[0]),
            "cuMemFreeAsync": lambda a: self.memory.take("pool", a[0]),
            "cuMemFreeHost": lambda a: self.memory.take("host", a[0]),
        }
        copies = {
            "cuMemcpyHtoDAsync": lambda a: self._copy(a[0], a[1], a[2], (a[0],)),
            "cuMemcpyDtoHAsync": lambda a: self._copy(a[0], a[1], a[2], (a[1],)),
            "cuMemcpyDtoDAsync": lambda a: self._copy(a[0], a[1], a[2], (a[0], a[1])),
            "cuMemcpyPeerAsync": lambda a: self._copy(a[0], a[2], a[4], (a[0], a[2])),
            "cuMemsetD8Async": self._fill,
        }
        return {**simple, **given, **taken, **copies}

    def _giver(self, kind: str) -> Callable[[Any], int]:
        def give(a: Any) -> int:
            at = self.memory.give(kind, a[1])
            return put64(a[0], at) if at else NO_MEMORY

        return give

    def _copy(self, to: int, source: int, size: int, checked: tuple[int, ...]) -> int:
        for at in checked:
            if not self.memory.covers(at, size):
                self.memory.wrong.append(f"a copy of {size} bytes at {at:#x}, where no memory is")
                return ILLEGAL_ADDRESS
        ctypes.memmove(to, source, size)
        return 0

    def _fill(self, a: Any) -> int:
        if not self.memory.covers(a[0], a[2]):
            return ILLEGAL_ADDRESS
        ctypes.memset(a[0], a[1] & 255, a[2])
        return 0

    @staticmethod
    def _attribute(a: Any) -> int:
        return put32(a[0], next((value for number, value in ATTRIBUTES.values() if number == a[1]), 1))

    def _find(self, a: Any) -> int:
        name = ctypes.string_at(a[0]).decode()
        if name not in self.native.addresses:
            return NOT_FOUND
        if a[4]:
            put32(a[4], 0)
        return put64(a[1], self.native.addresses[name])

    def _load(self, a: Any) -> int:
        return put64(a[0], self._handle())

    def _function(self, a: Any) -> int:
        return put64(a[0], self._handle())

    def _allow(self, a: Any) -> int:
        """Set a function attribute. Dynamic shared memory beyond the limit of a block is an error."""
        if a[1] == DYNAMIC_SHARED:
            if a[2] > MOST_SHARED:
                return INVALID_VALUE
            self.shared[a[0]] = a[2]
        return 0

    @staticmethod
    def _access(a: Any) -> int:
        """Check a request to give a device access to memory.

        The request must have kind 1 and flags 3: a device that reads and writes.
        """
        kind, device, flags = (ctypes.c_int32 * 3).from_address(a[1])
        return 0 if (kind, flags, a[2]) == (1, 3, 1) and 0 <= device < 16 else INVALID_VALUE

    def _handle(self) -> int:
        self.native.state[1] += 16
        return self.native.state[1]


def put64(at: int, value: int) -> int:
    ctypes.c_int64.from_address(at).value = value
    return 0


def put32(at: int, value: int) -> int:
    ctypes.c_int32.from_address(at).value = value
    return 0


def best_block(bytes_of_block: int) -> int:
    """Return the largest block size whose shared memory is within the limit.

    A C function computes the shared memory of a block. Return 768 if there is no function.
    """
    if not bytes_of_block:
        return 768
    bytes_of = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_int)(bytes_of_block)
    return max(size for size in range(32, MOST_THREADS + 1, 32) if bytes_of(size) <= ORDINARY_SHARED)


def call_host(function: int, given: int) -> int:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(given)
    return 0


def put_bytes(at: int, value: bytes) -> int:
    ctypes.memmove(at, value, len(value))
    return 0


class Table:
    """The driver's functions with the interface of cuda.bindings.

    The functions take values, and return a tuple of the error code and the results.
    """

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self.CUdevice_attribute = SimpleNamespace(
            **{f"CU_DEVICE_ATTRIBUTE_{name}": number for name, (number, _) in ATTRIBUTES.items()}
        )
        self.CUfunction_attribute = SimpleNamespace(
            **{f"CU_FUNC_ATTRIBUTE_{name}": number for name, number in FUNCTION_ATTRIBUTES.items()}
        )
        self.CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)

    @staticmethod
    def CUhostFn(value: int) -> int:
        """Return the address of a host function unchanged. In the real driver module, `CUhostFn` is a class that wraps the address."""
        return value

    @staticmethod
    def cuuint64_t(value: int) -> int:
        """Return a number unchanged, in place of the type `cuuint64_t` of cuda.bindings."""
        return value

    def __getattr__(self, name: str) -> Any:
        kinds = SIGNATURES.get(name)
        if kinds is None:
            raise AttributeError(name)
        native = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_int64] * len(kinds)))(self._stand_in.native.addresses[name])

        def call(*given: Any) -> tuple[Any, ...]:
            values, kept, results = iter(given), [], []
            passed = []
            for kind in kinds:
                if kind == "v":
                    value = next(values)
                    if isinstance(value, (bytes, bytearray)):
                        value = ctypes.cast(ctypes.create_string_buffer(bytes(value)), ctypes.c_void_p)
                        kept.append(value)
                        value = value.value
                    passed.append(int(value or 0))
                else:
                    made = _RESULTS[kind]()
                    results.append(made)
                    passed.append(ctypes.addressof(made))
            code = native(*passed)
            return (code, *(None if code else _shown(made) for made in results))

        setattr(self, name, call)
        return call


_RESULTS: dict[str, Any] = {
    "h": ctypes.c_int64,
    "i": ctypes.c_int32,
    "f": ctypes.c_float,
    "n": ctypes.c_char * 256,
    "u": ctypes.c_char * 16,
    "m": ctypes.c_char * 64,
}


def _shown(made: Any) -> Any:
    if isinstance(made, ctypes.Array):
        return bytes(made.raw) if len(made) > 16 else SimpleNamespace(bytes=bytes(made.raw))
    return made.value


def make_device(stand_in: StandIn | None = None) -> Any:
    """Return a CUDA device that uses a stand-in for the driver."""
    from weft.runtime import CudaDevice

    return CudaDevice(0, (stand_in or StandIn()).table)

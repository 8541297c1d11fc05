"""The protocol that every device implements, and the types in its methods."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from weft.runtime.object_code import ObjectCode
from weft.runtime.services import MemoryCount, Services


class Buffer:
    """Memory on one device, freed with the last reference to it.

    Attributes
    ----------
    device : Device
    address : int
        Where it starts: a multiple of 64 on the host, of 256 on a GPU. Readable even where nbytes is 0, since a load
        that stands before an empty loop runs. Only the null device has no addresses.
    nbytes : int
    unwritten : None, True or bytearray
        What nobody has written yet, as far as the sanitizer follows it: nothing, all, or a 1 a byte.
    origin : (code, int) or None
        Where the user's program made it, for reports.
    values : numpy.ndarray or None
        An array over the memory, once host code has looked at it. It does not keep the buffer alive.
    capacity : int
        Bytes that kernels take by value, of what is in host memory for that; 0 for memory of the device.
    pooled : bool
        Whether the memory is from a pool of the device's, which other libraries know only through this object.
    """

    capacity = 0
    pooled = False

    __slots__ = ("__weakref__", "_owner", "address", "device", "nbytes", "origin", "unwritten", "values")

    def __init__(self, device: Device, address: int, nbytes: int, owner: Any = None) -> None:
        self.device = device
        self.address = address
        self.nbytes = nbytes
        self.unwritten: Any = None
        self.origin: Any = None
        self.values: Any = None
        self._owner = owner  # whatever gives the memory back when it dies

    def __repr__(self) -> str:
        return f"<Buffer of {self.nbytes} bytes on {self.device.name}>"


@dataclass(slots=True)
class Requests:
    """Memory blocks that a plan requests together on each run.

    Attributes
    ----------
    places : list of int
        Where the buffers go in a table.
    sizes : list of int
        Bytes of each.
    runs : int
        How often it was asked for one by one.
    call, address, words
        What the device has prepared: ``call(address, table)`` fills the places and says how many are left.
    """

    places: list[int]
    sizes: list[int]
    runs: int = 0
    call: Callable[[int, list[Any]], int] | None = None
    address: int = 0
    words: array[int] | None = None


@runtime_checkable
class Device(Services, Protocol):
    """The device protocol that the layers above use.

    `slots` is the packed argument list of a launch: one 64-bit item a kernel parameter
    (an address; an integer; the bits of a float in the low bytes), so that one form serves
    the host entry and the driver alike, and a plan can prepare it once and patch addresses.
    """

    name: str  # "cpu", "cuda:0", "null"
    small_on_host: bool  # whether small arrays stay in host memory until a kernel needs them
    host_math: bool  # whether every op has the bits that host code gives it; else only ops with exact results have

    @property
    def memory(self) -> MemoryCount:
        """Return the counters of the memory pool."""
        ...

    @property
    def target(self) -> Any:
        """Return codegen's `Target`, which is opaque here."""
        ...

    def allocate(self, nbytes: int) -> Buffer:
        """Allocate uninitialised memory. Raises `OutOfMemoryError` after freeing caches and one retry."""
        ...

    def allocate_into(self, table: list[Any], requests: Requests) -> None:
        """Allocate uninitialised memory for each requested table entry; such an entry holds None before, or a
        buffer to reuse.
        """
        ...

    def ticket(self) -> Buffer:
        """Return a zeroed 32-bit completion counter for a launch, which resets it.

        Each thread, or each stream, has its own.
        """
        ...

    def board(self, nbytes: int) -> Buffer:
        """Return memory for the look-back descriptors of a launch, used only by the calling thread or its stream.

        It begins with zeros, and the launches that use it one after the other leave it fit for the next one.
        """
        ...

    def upload(self, values: np.ndarray) -> Buffer:
        """Return a new buffer with the elements of `values` in C order."""
        ...

    def download(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Return the leading elements of `buffer` as a host array, which is read-only and shares memory on the
        host.
        """
        ...

    def copy(self, source: Buffer, destination: Buffer, nbytes: int) -> None:
        """Copy the leading bytes from one buffer of this device to another."""
        ...

    def fetch(self, buffer: Buffer) -> Buffer:
        """Copy a buffer of another device to this device."""
        ...

    def load(self, code: ObjectCode) -> Any:
        """Load object code and return a handle for `launch`. All symbols are checked first."""
        ...

    def launch(self, function: Any, parallel: tuple[int, ...], work: int, slots: array[int]) -> None:
        """Start a kernel.

        `parallel` are the extents of its parallel loops, outermost first (empty: one launch of
        the body), `work` the elements it goes through in all, `slots` its arguments.
        """
        ...

    def launch_grid(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        slots: array[int],
        stream: Any = None,
    ) -> None:
        """Launch an explicit kernel: `grid` blocks of `block` threads with `shared_bytes` of dynamic shared memory."""
        ...

    def synchronize(self) -> None:
        """Wait until all work started by this process has ended, and raise the errors of those launches."""
        ...


class Registered:
    """Functions that devices call; code generation and the sanitizer register them when they are imported."""

    # from a target's name, and for a GPU the newest PTX that its driver reads, to the target
    resolve_target: Any = None
    # from a `HostFunction` to a context manager that gives a reader of its events, and at its end raises what they amount to
    judge: Any = None


def set_target_resolver(resolver: Callable[..., Any]) -> None:
    """Register the function that finds a target by name."""
    Registered.resolve_target = staticmethod(resolver)


def set_judge(judge: Callable[..., Any]) -> None:
    """Register the function that checks watched kernels on device `simt`."""
    Registered.judge = staticmethod(judge)

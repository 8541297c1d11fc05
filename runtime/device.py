"""The base class of all devices, and the argument types of its methods."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.runtime.object_code import ObjectCode
from weft.runtime.services import MemoryCount, Services

if TYPE_CHECKING:
    from weft.runtime.launches import Launch, PreparedLaunches

# A matrix that a device multiplies: its address, its shape, and its strides in elements.
Operand = tuple[int, tuple[int, ...], tuple[int, ...]]


class Buffer:
    """A block of memory on a device.

    The memory is released when the last reference to the buffer is deleted.

    Attributes
    ----------
    device : Device
    address : int
        The start address. In memory from the device's pool, it is a multiple of 64 on the host and of 256 on a GPU, and
        is readable even if `nbytes` is 0, since a load before an empty loop is executed. On the null device it is 0.
    nbytes : int
    unwritten : None, True or bytearray
        The bytes that are not written yet, if the sanitizer tracks them. None: no bytes; True: all bytes; a bytearray:
        the bytes with a 1.
    origin : (code, int) or None
        The user's source location that created the buffer, for reports.
    values : numpy.ndarray or None
        An array that views the memory, if host code has accessed it. It does not keep the buffer alive.
    capacity : int
        For a buffer in host memory that kernels take by value: the number of bytes that they take. Otherwise 0.
    pooled : bool
        Whether the memory is from the device's pool, so that other libraries know it only through this object.
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
        self._owner = owner  # the object that releases the memory when it is deleted

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.nbytes} bytes on {self.device.name}>"


class ReleasedBuffer(Buffer):
    """A buffer whose memory was released while arrays still used it. Reading the address raises ValueError."""

    __slots__ = ()

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer.device, 0, buffer.nbytes)

    @property
    def address(self) -> int:  # type: ignore[override]
        """Raise ValueError instead of returning an address, since the memory was released."""
        raise ValueError(
            "the memory of this array was released at the end of the block of cuda.mapped: copy it within the block"
        )

    @address.setter
    def address(self, value: int) -> None:
        pass


class BufferRequests:
    """Buffers that a plan requests together, in one call per run.

    Attributes
    ----------
    slots : list of int
        The indices of the buffers in a table.
    sizes : list of int
        The size of each buffer in bytes.
    runs : int
        The number of runs in which the buffers were requested one by one.
    call, address, words
        Prepared by the device: ``call(address, table)`` fills the entries, and returns the number of entries that it
        could not fill.
    """

    __slots__ = ("address", "call", "runs", "sizes", "slots", "words")

    def __init__(self, slots: list[int], sizes: list[int]) -> None:
        self.slots, self.sizes = slots, sizes
        self.runs = 0
        self.call: Callable[[int, list[Any]], int] | None = None
        self.address = 0
        self.words: array[int] | None = None


class Device(Services):
    """The base class of all devices.

    Devices are identified by name: a device compares equal to its name, since the device of a NumPy array is the string
    "cpu".

    `arguments` is the packed argument list of a launch, with one 64-bit item per kernel parameter: an address, an
    integer, or the bits of a float in the low bytes. Host entries and the driver use the same layout. A plan prepares
    the argument list once, and then changes only addresses and scalars.

    Attributes
    ----------
    memory_on_host : bool
        Whether host code can access the device's memory. `view_memory` returns it as an array.
    solver, fourier : DeviceLibrary or None
        The device's libraries of dense linear algebra and Fourier transforms.
    """

    name: str  # "cpu", "cuda:0", "null"
    memory: MemoryCount
    small_on_host: bool  # whether small arrays stay in host memory until a kernel needs them
    # whether the result of every op has the same bits as in host code; otherwise only exact results do
    host_math: bool
    memory_on_host: bool = False
    solver: Any = None
    fourier: Any = None

    def __repr__(self) -> str:
        return f"<device {self.name}>"

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, str) and other == self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    @abstractmethod
    def target(self) -> Any:
        """The device's code generation target. The runtime does not interpret the target."""

    @abstractmethod
    def allocate(self, nbytes: int) -> Buffer:
        """Allocate uninitialized memory.

        If there is not enough memory, caches are freed before a second try. Raises `OutOfMemoryError` if the second try
        fails.
        """

    @abstractmethod
    def allocate_into(self, table: list[Any], requests: BufferRequests) -> None:
        """Allocate the buffers of `requests`, and store them in `table`."""

    @abstractmethod
    def completion_counter(self) -> Buffer:
        """Return a 32-bit counter of the completed blocks of a launch.

        The counter is 0 before and after each launch. Each thread or stream has its own counter.
        """

    @abstractmethod
    def lookback_descriptors(self, nbytes: int) -> Buffer:
        """Return memory, initially zero, in which the thread blocks of a scan exchange their totals.

        Only the calling thread or its stream uses the memory. Successive launches reuse the memory, and each launch
        leaves it ready for the next launch.
        """

    @abstractmethod
    def upload(self, values: np.ndarray) -> Buffer:
        """Return a new buffer with a copy of `values` in C order."""

    @abstractmethod
    def download(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Return the leading elements of `buffer` as a read-only NumPy array.

        If the device's memory is host memory, the elements are not copied.
        """

    @abstractmethod
    def copy(self, source: Buffer, destination: Buffer, nbytes: int) -> None:
        """Copy the leading bytes of a buffer to another buffer on this device."""

    @abstractmethod
    def fetch(self, buffer: Buffer) -> Buffer:
        """Copy another device's buffer to this device, and return the copy."""

    @abstractmethod
    def load(self, code: ObjectCode) -> Any:
        """Load object code, and return the kernel as `launch` expects it."""

    @abstractmethod
    def launch(self, function: Any, parallel: tuple[int, ...], work: int, arguments: array[int]) -> None:
        """Start a fused kernel.

        `parallel` are the extents of the kernel's parallel loops, outermost first. If `parallel` is empty, the body
        runs once. `work` is the total number of elements that the kernel processes, and `arguments` are its arguments.
        """

    @abstractmethod
    def launch_grid(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        arguments: array[int],
        stream: Any = None,
    ) -> None:
        """Start a user-written kernel with the given grid, block and dynamic shared memory."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait for all work that weft has started on the device. Raises the errors of failed launches."""

    # -- services that only some devices have

    def view_memory(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        """Return the leading elements of a buffer as a writable array, without a copy.

        Only devices with `memory_on_host` implement this method.
        """
        raise TypeError(f"the host cannot access the memory of {self}")

    def prepare(self, launches: Sequence[Launch]) -> PreparedLaunches | None:
        """Return an object that starts all given kernels in one call. Return None if the caller must start each kernel with the method `launch`."""
        return None

    def prepare_grid(
        self, function: Any, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, count: int
    ) -> Any:
        """Prepare a user-written kernel with `count` arguments, or return None if `launch_grid` must start it."""
        return None

    def multiply(self, out: Buffer, left: Operand, right: Operand, dtype: np.dtype) -> bool:
        """Multiply two matrices with a library of the device, or return False if no library supports them."""
        return False

    def owner_of(self, address: int) -> int | None:
        """Return the ordinal of the GPU whose memory contains `address`, or None if this is not another GPU."""
        return None

    def exported_stream(self) -> int | None:
        """Return the CUDA handle of the stream in which other libraries may use the device's memory.

        Return None if the device is not a GPU.
        """
        return None


class Registered:
    """Modules of higher layers. Devices call their functions. The layers register these modules when they are imported."""

    # the module with the function `resolve_target`
    target_module = ""
    # the module with the function `check_launch`, which takes a `HostFunction` and returns a context manager that yields
    # a reader of its events, and raises an error for them at its end
    checker_module = ""

    @classmethod
    def resolve_target(cls, name: str, newest_ptx: int | None = None) -> Any:
        """Return the compilation target with a name such as "sm_90".

        `newest_ptx` is the newest PTX version that a GPU's driver accepts.
        """
        return import_module(cls.target_module).resolve_target(name, newest_ptx)

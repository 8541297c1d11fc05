"""Numba's interface for devices and contexts, such as `gpus`, `select_device` and `current_context`.

In: the runtime's devices. Out: `Device` and `Context`. Invariant: if the default device is a GPU, `gpus` lists the
machine's GPUs. Otherwise, `gpus` contains only the default device, which answers queries like a GPU of its compute
capability.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import weft.runtime as runtime
from weft.dsl.cuda.streams import Event, Stream, default_stream, event, external_stream, stream
from weft.fusion import flush
from weft.runtime import default_device, get_device

_Function = TypeVar("_Function", bound=Callable[..., Any])


class MemoryInfo(NamedTuple):
    """Free and total memory of a device, in bytes."""

    free: int
    total: int


class Device:
    """A device, with Numba's interface.

    Within a ``with cuda.gpus[1]:`` block, the device is the current device of the calling thread.

    Attributes
    ----------
    id : int
    name, uuid : str
    compute_capability : (int, int)

    The driver's device attributes are also attributes: ``MULTIPROCESSOR_COUNT``, ``MAX_THREADS_PER_BLOCK``, ``WARP_SIZE`` ...
    """

    def __init__(self, device: runtime.Device) -> None:
        facts = device.facts()
        self.device = device
        self.id = facts.number
        self.name = facts.name
        self.uuid = facts.uuid
        self.compute_capability = facts.capability
        self._attributes = facts.attributes
        self._entered: list[AbstractContextManager[Any]] = []

    def __getattr__(self, name: str) -> int:
        if name.isupper() and name in self._attributes:
            return self._attributes[name]
        raise AttributeError(f"device {self.__dict__.get('name')!r} has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<CUDA device {self.id} '{self.name}'>"

    def __enter__(self) -> Device:
        within = runtime.device(self.device)
        within.__enter__()
        self._entered.append(within)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(None, None, None)

    @property
    def supports_float16(self) -> bool:
        """Whether the device has float16 arithmetic: its compute capability is at least 5.3."""
        return self.compute_capability >= (5, 3)

    @property
    def supports_bfloat16(self) -> bool:
        """Whether the device has bfloat16 arithmetic: its compute capability is at least 8.0."""
        return self.compute_capability >= (8, 0)

    @property
    def supports_fp8(self) -> bool:
        """Whether the device has instructions that convert 8-bit floats: its compute capability is at least 8.9."""
        return self.compute_capability >= (8, 9)

    def get_device_identity(self) -> dict[str, int]:
        """Return the PCI domain, bus and device numbers, which identify the device on this machine."""
        return {name.lower(): self._attributes[name] for name in ("PCI_DOMAIN_ID", "PCI_BUS_ID", "PCI_DEVICE_ID")}

    def get_primary_context(self) -> Context:
        """Return the device's context."""
        return Context(self)

    def reset(self) -> None:
        """Wait for all work on the device, and release cached memory. Arrays and kernels remain valid."""
        self.device.reset()


class Deallocations:
    """The device's cached memory, with the interface of Numba's `Context.deallocations`."""

    def __init__(self, device: runtime.Device) -> None:
        self._device = device

    def clear(self) -> None:
        """Release cached memory that no array uses."""
        self._device.reset()

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True, repr=False)
class Context:
    """The context of a device: its memory, streams and occupancy queries."""

    device: Device

    def __repr__(self) -> str:
        return f"<CUDA context of device {self.device.id}>"

    @property
    def deallocations(self) -> Deallocations:
        """The device's cached memory, as an object with Numba's interface."""
        return Deallocations(self.device.device)

    def get_memory_info(self) -> MemoryInfo:
        """Return the free and total memory of the device, in bytes."""
        return MemoryInfo(*self.device.device.memory_info())

    def get_ipc_handle(self, memory: Any) -> Any:
        """Return a handle with which another process can open an array. `memory` is the `gpu_data` of this array."""
        array = getattr(memory, "array", None)
        if array is None:
            raise ValueError(
                "a handle is made for the memory of an array: give its gpu_data, or call its get_ipc_handle()"
            )
        return array.get_ipc_handle()

    def push(self) -> None:
        """Make the context's device the current device of the calling thread until `pop` is called."""
        self.device.__enter__()

    def pop(self) -> None:
        """Restore the device that was current before the last `push`."""
        self.device.__exit__()

    def reset(self) -> None:
        """Wait for all work on the device, and release cached memory, like `Device.reset`."""
        self.device.reset()

    def synchronize(self) -> None:
        """Run all pending operations, and wait for all work on the device."""
        flush()
        self.device.device.synchronize()

    def get_active_blocks_per_multiprocessor(self, func: Any, blocksize: int, memsize: int, flags: Any = None) -> int:
        """Return the number of blocks of a kernel that one multiprocessor can run concurrently.

        Parameters
        ----------
        func
            A compiled kernel: a value of ``kernel.overloads``.
        blocksize : int
            Number of threads per block.
        memsize : int
            Bytes of dynamic shared memory per block.
        """
        return self.device.device.active_blocks(self._function(func), int(blocksize), int(memsize))

    def get_max_potential_block_size(
        self, func: Any, b2d_func: Any = None, memsize: int = 0, blocksizelimit: int = 0, flags: Any = None
    ) -> tuple[int, int]:
        """Return the grid size and the block size with the highest occupancy.

        On the CPU, the grid uses all cores.

        Parameters
        ----------
        func
            A compiled kernel: a value of ``kernel.overloads``.
        b2d_func : callable, optional
            A function that returns the bytes of dynamic shared memory per block for a number of threads per block. If
            it is given, `memsize` is ignored.
        memsize : int
            Bytes of dynamic shared memory per block.
        blocksizelimit : int
            Maximum number of threads per block (0: the maximum of the kernel).
        """
        return self.device.device.best_block(self._function(func), b2d_func or int(memsize), int(blocksizelimit))

    def _function(self, kernel: Any) -> Any:
        return kernel.function_on(self.device.device) if hasattr(kernel, "function_on") else kernel

    def create_stream(self) -> Stream:
        """Create a stream on the context's device, like `cuda.stream`."""
        with self.device:
            return stream()

    def create_external_stream(self, ptr: int) -> Stream:
        """Return a `Stream` for an existing CUDA stream, like `cuda.external_stream`."""
        with self.device:
            return external_stream(ptr)

    def get_default_stream(self) -> Stream:
        """Return the default stream of the context's device, like `cuda.default_stream`."""
        with self.device:
            return default_stream()

    def create_event(self, timing: bool = True) -> Event:
        """Create an event on the context's device, like `cuda.event`."""
        with self.device:
            return event(timing)

    def defer_cleanup(self) -> AbstractContextManager[None]:
        """Return a context manager that does nothing. Numba's method delays the release of memory, but weft always keeps freed memory."""
        return defer_cleanup()


_faces: dict[runtime.Device, Device] = {}


def device_object(device: runtime.Device) -> Device:
    """Return the `Device` object, which has Numba's interface, for a device of weft's runtime."""
    return _faces.get(device) or _faces.setdefault(device, Device(device))


class DeviceList:
    """The type of `cuda.gpus`: a list of devices in the order of their numbers."""

    @property
    def lst(self) -> list[Device]:
        """The machine's GPUs or, if the current device is not a GPU, only the current device."""
        present = default_device()
        if not present.name.startswith("cuda"):
            return [device_object(present)]
        return [device_object(get_device(f"cuda:{k}")) for k in range(len(runtime.probe().devices))]

    def __getitem__(self, number: Any) -> Any:
        devices = self.lst
        if isinstance(number, slice):
            return devices[number]
        k = operator.index(number)
        if not -len(devices) <= k < len(devices):
            raise IndexError(f"there is no device {k}; there are {len(devices)}, numbered from 0")
        return devices[k]

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __len__(self) -> int:
        return len(self.lst)

    def __repr__(self) -> str:
        return repr(self.lst)

    @property
    def current(self) -> Device:
        """The calling thread's current device."""
        return get_current_device()


gpus = DeviceList()


def list_devices() -> DeviceList:
    """Return the list of devices.

    Examples
    --------
    >>> cuda.list_devices()[0].id
    0
    """
    return gpus


def get_current_device() -> Device:
    """Return the calling thread's current device.

    Examples
    --------
    >>> cuda.get_current_device().id
    0
    """
    return device_object(default_device())


def select_device(device_id: int) -> Device:
    """Make a device the current device of the calling thread, and return it.

    Raises IndexError for an unknown number.

    Examples
    --------
    >>> cuda.select_device(0).id
    0
    """
    chosen: Device = gpus[device_id]
    runtime.select_device(chosen.device)
    return chosen


def current_context(devnum: int | None = None) -> Context:
    """Return the context of the current device, or of device number `devnum`.

    Examples
    --------
    >>> cuda.current_context().device.id
    0
    """
    return Context(get_current_device() if devnum is None else gpus[devnum])


def require_context(function: _Function) -> _Function:
    """Decorate a function so that each call first initializes the current device.

    Examples
    --------
    >>> @cuda.require_context
    ... def device_number():
    ...     return cuda.get_current_device().id
    >>> device_number()
    0
    """

    @functools.wraps(function)
    def with_context(*arguments: Any, **options: Any) -> Any:
        default_device()
        return function(*arguments, **options)

    return with_context  # type: ignore[return-value]


def synchronize() -> None:
    """Run all pending operations, and wait for all work on the current device.

    Examples
    --------
    >>> x = wf.ones(100_000) * 2
    >>> cuda.synchronize()
    """
    current_context().synchronize()


def close() -> None:
    """Wait for the devices in `gpus`, release unused memory, and undo `select_device`.

    Only the calling thread's `select_device` is undone.

    Examples
    --------
    >>> cuda.close()
    """
    flush()
    for device in gpus:
        device.reset()
    runtime.select_device(None)


# -- availability -----------------------------------------------------------------------------


def is_available() -> bool:
    """Return True, because kernels can always run at least on the CPU.

    `weft.devices()` lists the devices.

    Examples
    --------
    >>> cuda.is_available()
    True
    """
    return True


def cuda_error() -> str | None:
    """Return the reason why weft cannot use a GPU, or None if it can.

    The result is also None if WEFT_DEVICE is set, or if the current device is not the CPU.

    Examples
    --------
    >>> reason = cuda.cuda_error()
    >>> reason is None or isinstance(reason, str)
    True
    """
    if not default_device().name.startswith("cpu") or runtime.setting("device"):
        return None
    found = runtime.probe()
    return None if found.status == "ok" else found.message


def is_supported_version() -> bool:
    """Return True, because weft supports every CUDA driver that it can load.

    Examples
    --------
    >>> cuda.is_supported_version()
    True
    """
    return True


def is_float16_supported() -> bool:
    """Return whether the current device has float16 arithmetic.

    Examples
    --------
    >>> cuda.is_float16_supported()
    True
    """
    return get_current_device().supports_float16


def is_bfloat16_supported() -> bool:
    """Return whether the current device has bfloat16 arithmetic.

    Kernels compute bfloat16 numbers in float32 on all devices.

    Examples
    --------
    >>> cuda.is_bfloat16_supported()
    True
    """
    return get_current_device().supports_bfloat16


def is_fp8_supported() -> bool:
    """Return whether the current device has instructions that convert 8-bit floats.

    Kernels do not use these instructions.

    Examples
    --------
    >>> isinstance(cuda.is_fp8_supported(), bool)
    True
    """
    return get_current_device().supports_fp8


def detect() -> bool:
    """Print the devices, and return True.

    There is always a device that runs kernels.

    Examples
    --------
    >>> cuda.detect()  # doctest: +ELLIPSIS
    Found ...
    True
    """
    print(f"Found {len(gpus)} CUDA devices")
    for device in gpus:
        print(f"id {device.id}    {device.name}    [SUPPORTED]")
        rows = {
            "Compute Capability": "{}.{}".format(*device.compute_capability),
            "PCI Device ID": device.PCI_DEVICE_ID,
            "PCI Bus ID": device.PCI_BUS_ID,
            "UUID": device.uuid,
            "Watchdog": "Enabled" if device.KERNEL_EXEC_TIMEOUT else "Disabled",
            "FP32/FP64 Performance Ratio": device.SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
            "FP16 Support": "Yes" if device.supports_float16 else "No",
            "BF16 Support": "Yes" if device.supports_bfloat16 else "No",
            "FP8 Support": "Yes" if device.supports_fp8 else "No",
        }
        for key, value in rows.items():
            print(f"{key:>40}: {value}")
    print(f"Summary:\n\t{len(gpus)}/{len(gpus)} devices are supported")
    return True


class Runtime:
    """The type of `cuda.runtime`, which provides the CUDA version."""

    def get_version(self) -> tuple[int, int]:
        """Return the driver's CUDA version.

        If there is no driver, return the CUDA version of the newest PTX that weft emits.
        """
        return runtime.probe().driver or max(runtime.PTX_VERSIONS)

    def is_supported_version(self) -> bool:
        """Return True, like `cuda.is_supported_version`."""
        return is_supported_version()


cuda_runtime = Runtime()


# -- cleaning up, profiling -----------------------------------------------------------------------


@contextmanager
def defer_cleanup() -> Iterator[None]:
    """Return a context manager that does nothing. It exists because programs for Numba call it to delay the release of memory.

    Weft always keeps freed memory for reuse.

    Examples
    --------
    >>> with cuda.defer_cleanup():
    ...     x = cuda.to_device(np.arange(3))
    >>> x.copy_to_host()
    array([0, 1, 2])
    """
    yield


def profile_start() -> None:
    """Wait for all earlier work, and tell an attached profiler to start collecting data.

    Examples
    --------
    >>> cuda.profile_start()
    >>> cuda.profile_stop()
    """
    synchronize()
    default_device().profile(True)


def profile_stop() -> None:
    """Wait for all earlier work, and tell an attached profiler to stop collecting data.

    Examples
    --------
    >>> cuda.profile_start()
    >>> cuda.profile_stop()
    """
    try:
        synchronize()
    finally:
        default_device().profile(False)


@contextmanager
def profiling() -> Iterator[None]:
    """Let an attached profiler collect data within a ``with`` block.

    Examples
    --------
    >>> with cuda.profiling():
    ...     x = wf.evaluate(wf.ones(100_000) * 2)
    """
    profile_start()
    try:
        yield
    finally:
        profile_stop()

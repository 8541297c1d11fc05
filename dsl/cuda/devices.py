"""Devices and contexts: `gpus`, `select_device`, `current_context`, `detect`.

In: the runtime's devices. Out: `Device` and `Context`. Invariant: where the default device is a GPU these are the
machine's GPUs; where it is not, they are that one device, which answers every question as a GPU of its capability would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, TypeVar

import weft.runtime as runtime
from weft.codegen import obtain_function
from weft.dsl.cuda.streams import Event, Stream, default_stream, event, external_stream, stream
from weft.fusion import flush
from weft.runtime import default_device, get_device

_Function = TypeVar("_Function", bound=Callable[..., Any])


class MemoryInfo(NamedTuple):
    """Free bytes, and bytes in all."""

    free: int
    total: int


class Device:
    """A device: ``with cuda.gpus[1]:`` makes it the current one.

    Attributes
    ----------
    id : int
    name, uuid : str
    compute_capability : (int, int)

    The driver's device attributes are attributes too: ``MULTIPROCESSOR_COUNT``, ``MAX_THREADS_PER_BLOCK``, ``WARP_SIZE`` ...
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.device is self.device

    def __hash__(self) -> int:
        return hash(self.device.name)

    def __enter__(self) -> Device:
        within = runtime.device(self.device)
        within.__enter__()
        self._entered.append(within)
        return self

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(None, None, None)

    @property
    def supports_float16(self) -> bool:
        """Whether it computes with 16-bit floats."""
        return self.compute_capability >= (5, 3)

    @property
    def supports_bfloat16(self) -> bool:
        """Whether it computes with bfloat16."""
        return self.compute_capability >= (8, 0)

    @property
    def supports_fp8(self) -> bool:
        """Whether it converts 8-bit floats."""
        return self.compute_capability >= (8, 9)

    def get_device_identity(self) -> dict[str, int]:
        """The PCI numbers that identify it on this machine."""
        return {name.lower(): self._attributes[name] for name in ("PCI_DOMAIN_ID", "PCI_BUS_ID", "PCI_DEVICE_ID")}

    def get_primary_context(self) -> Context:
        """Its context."""
        return Context(self)

    def reset(self) -> None:
        """Wait for everything and give back memory that no array holds. Arrays and kernels stay valid."""
        self.device.reset()


class Deallocations:
    """Memory that waits to be given back, as `Context.deallocations`."""

    def __init__(self, device: runtime.Device) -> None:
        self._device = device

    def clear(self) -> None:
        """Give back what no array holds."""
        self._device.reset()

    def __len__(self) -> int:
        return 0


class Context:
    """What a device does for its user: memory, streams, occupancy."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def __repr__(self) -> str:
        return f"<CUDA context of device {self.device.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and other.device == self.device

    def __hash__(self) -> int:
        return hash(self.device)

    @property
    def deallocations(self) -> Deallocations:
        """Memory that waits to be given back."""
        return Deallocations(self.device.device)

    def get_memory_info(self) -> MemoryInfo:
        """Free bytes and bytes in all."""
        return MemoryInfo(*self.device.device.memory_info())

    def push(self) -> None:
        """Make its device the current one, until `pop`."""
        self.device.__enter__()

    def pop(self) -> None:
        """Undo the last `push`."""
        self.device.__exit__()

    def reset(self) -> None:
        """As `Device.reset`."""
        self.device.reset()

    def synchronize(self) -> None:
        """Wait until everything that was started has ended; what is pending is run first."""
        flush()
        self.device.device.synchronize()

    def get_active_blocks_per_multiprocessor(self, func: Any, blocksize: int, memsize: int, flags: Any = None) -> int:
        """Blocks of a kernel that one multiprocessor runs at the same time.

        Parameters
        ----------
        func
            A compiled kernel: an item of ``kernel.overloads``.
        blocksize : int
            Threads of a block.
        memsize : int
            Bytes of dynamic shared memory of a block.
        """
        return self.device.device.active_blocks(_loaded(func, self.device.device), int(blocksize), int(memsize))

    def get_max_potential_block_size(
        self, func: Any, b2d_func: Any = None, memsize: int = 0, blocksizelimit: int = 0, flags: Any = None
    ) -> tuple[int, int]:
        """Blocks of the grid and threads of a block that fill the device.

        Raises NotImplementedError for a `b2d_func` (shared memory that depends on the block).
        """
        if b2d_func:
            raise NotImplementedError("shared memory as a function of the block size: ask for each block size in turn")
        return self.device.device.best_block(_loaded(func, self.device.device), int(memsize), int(blocksizelimit))

    def create_stream(self) -> Stream:
        """As `cuda.stream`."""
        with self.device:
            return stream()

    def create_external_stream(self, ptr: int) -> Stream:
        """As `cuda.external_stream`."""
        with self.device:
            return external_stream(ptr)

    def get_default_stream(self) -> Stream:
        """As `cuda.default_stream`."""
        with self.device:
            return default_stream()

    def create_event(self, timing: bool = True) -> Event:
        """As `cuda.event`."""
        with self.device:
            return event(timing)

    def defer_cleanup(self) -> AbstractContextManager[None]:
        """As `cuda.defer_cleanup`."""
        return defer_cleanup()


def _loaded(kernel: Any, device: runtime.Device) -> Any:
    """What the device launches, from a compiled kernel."""
    functions = getattr(kernel, "functions", None)
    if functions is None:
        return kernel
    if device not in functions:
        functions[device] = obtain_function(device, kernel.kernel)
    return functions[device]


_faces: dict[runtime.Device, Device] = {}


def face_of(device: runtime.Device) -> Device:
    """The face of a runtime device."""
    found = _faces.get(device)
    if found is None:
        found = _faces[device] = Device(device)
    return found


class DeviceList:
    """`cuda.gpus`: the devices, by number."""

    @property
    def lst(self) -> list[Device]:
        """All of them."""
        present = default_device()
        if not present.name.startswith("cuda"):
            return [face_of(present)]
        return [face_of(get_device(f"cuda:{k}")) for k in range(len(runtime.probe().devices))]

    def __getitem__(self, number: Any) -> Any:
        devices = self.lst
        if isinstance(number, slice):
            return devices[number]
        if not -len(devices) <= int(number) < len(devices):
            raise IndexError(f"there is no device {int(number)}; there are {len(devices)}, numbered from 0")
        return devices[int(number)]

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __len__(self) -> int:
        return len(self.lst)

    def __repr__(self) -> str:
        return repr(self.lst)

    @property
    def current(self) -> Device:
        """The calling thread's device."""
        return get_current_device()


gpus = DeviceList()


def list_devices() -> DeviceList:
    """The devices."""
    return gpus


def get_current_device() -> Device:
    """The calling thread's device."""
    return face_of(default_device())


def select_device(device_id: int) -> Device:
    """Make a device the calling thread's, and return it. Raises IndexError where there is none of that number."""
    chosen: Device = gpus[device_id]
    runtime.select_device(chosen.device)
    return chosen


def current_context(devnum: int | None = None) -> Context:
    """The context of the calling thread's device, or of device `devnum`."""
    return Context(get_current_device() if devnum is None else gpus[devnum])


def require_context(function: _Function) -> _Function:
    """A decorator: a device is there before the function runs."""

    @functools.wraps(function)
    def with_context(*arguments: Any, **options: Any) -> Any:
        default_device()
        return function(*arguments, **options)

    return with_context  # type: ignore[return-value]


def synchronize() -> None:
    """Wait until everything that was started on the current device has ended; what is pending is run first."""
    current_context().synchronize()


def close() -> None:
    """Wait for every device, give back memory that no array holds, and undo `select_device`."""
    flush()
    for device in gpus:
        device.reset()
    runtime.select_device(None)


# -- what there is ------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether kernels can run: always, since there is the CPU device. `weft.devices()` tells which devices those are."""
    return True


def cuda_error() -> str | None:
    """Why there is no GPU, or None where there is one or the CPU device was asked for."""
    if not default_device().name.startswith("cpu") or runtime.setting("device"):
        return None
    found = runtime.probe()
    return None if found.status == "ok" else found.message


def is_supported_version() -> bool:
    """Whether the driver is one that weft supports; true where none is needed."""
    return True


def is_float16_supported() -> bool:
    """Whether the current device computes with 16-bit floats."""
    return get_current_device().supports_float16


def is_bfloat16_supported() -> bool:
    """Whether the current device computes with bfloat16."""
    return get_current_device().supports_bfloat16


def is_fp8_supported() -> bool:
    """Whether the current device converts 8-bit floats."""
    return get_current_device().supports_fp8


def detect() -> bool:
    """Print the devices. Returns whether there is one that kernels can run on."""
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
    """`cuda.runtime`: the version of CUDA."""

    def get_version(self) -> tuple[int, int]:
        """The version of CUDA that the driver has; without a driver that of the newest PTX that is written here."""
        found = runtime.probe()
        return found.driver or NEWEST

    def is_supported_version(self) -> bool:
        """As `cuda.is_supported_version`."""
        return is_supported_version()


NEWEST = (13, 0)
cuda_runtime = Runtime()


# -- cleaning up, profiling -----------------------------------------------------------------------


@contextmanager
def defer_cleanup() -> Iterator[None]:
    """Nothing is given back inside the ``with``: memory that no array holds is kept for reuse in any case."""
    yield


def profile_start() -> None:
    """Start an attached profiler."""
    default_device().profile(True)


def profile_stop() -> None:
    """Stop an attached profiler."""
    default_device().profile(False)


@contextmanager
def profiling() -> Iterator[None]:
    """An attached profiler runs inside the ``with``."""
    profile_start()
    try:
        yield
    finally:
        profile_stop()

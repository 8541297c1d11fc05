"""Kernels as Python objects: specialised by the types of their arguments, launched with brackets.

In: a Python function, grid and block, arguments. Out: a launch on the device of the arguments. Always true: what is
wrong with a launch is said before it; arrays that a kernel writes to are its own, what was recorded before sees the old
values.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from array import array
from collections.abc import Sequence
from math import prod
from types import FunctionType
from typing import Any

import numpy as np

from weft.codegen import choose_index_dtype
from weft.dsl.array import Array as LazyArray
from weft.dsl.array import whole
from weft.dsl.cuda.streams import as_queue
from weft.dsl.kernel import arguments as args
from weft.dsl.kernel.device_function import DeviceFunction, KernelFunction
from weft.dsl.kernel.errors import KernelTypeError, LaunchError
from weft.dsl.kernel.hints import ArgHint
from weft.dsl.kernel.inspection import Inspection
from weft.dsl.kernel.intrinsics import NeedsLaunch
from weft.dsl.kernel.simulate import run_python
from weft.dsl.kernel.source import source_of
from weft.dsl.kernel.specialise import Options, Specialisation, specialise
from weft.dsl.kernel.types import Signature, as_signatures
from weft.fusion import evaluate, exclusive
from weft.fusion.kernels import obtain_function
from weft.runtime import Device, PerformanceWarning, default_device, setting

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_SHARED = 227 * 1024  # of a block, of recent GPUs
Triple = tuple[int, int, int]


def triple(what: str, size: Any) -> Triple:
    """Grid or block as three numbers. Raises LaunchError."""
    items = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not 1 <= len(items) <= 3:
        raise LaunchError(f"a {what} has 1 to 3 numbers, not {len(items)}: {size!r}")
    numbers = []
    for item in items:
        if isinstance(item, (bool, np.bool_)) or not hasattr(item, "__index__"):
            raise LaunchError(f"a {what} is made of integers, not of {item!r}")
        numbers.append(int(item.__index__()))
    limits = MAX_BLOCK if what == "block" else MAX_GRID
    for axis, number, limit in zip("xyz", numbers, limits, strict=False):
        if number < 1:
            raise LaunchError(f"the {what} has {number} {'threads' if what == 'block' else 'blocks'} along {axis}: it needs at least 1")
        if number > limit:
            raise LaunchError(f"the {what} has {number} along {axis}; the limit is {limit}")
    whole_size = (*numbers, 1, 1)[:3]
    if what == "block" and prod(whole_size) > MAX_THREADS:
        raise LaunchError(f"a block of {prod(whole_size)} threads {tuple(numbers)} is over the limit of {MAX_THREADS}")
    return whole_size  # type: ignore[return-value]


class Launcher:
    """A kernel with its grid and block: call it with the arguments."""

    __slots__ = ("block", "grid", "kernel", "shared_bytes", "stream")

    def __init__(self, kernel: Kernel, grid: Triple, block: Triple, stream: Any, shared_bytes: int) -> None:
        self.kernel = kernel
        self.grid = grid
        self.block = block
        self.stream = stream
        self.shared_bytes = shared_bytes

    def __call__(self, *arguments: Any, **keywords: Any) -> None:
        self.kernel.launch(self, arguments, keywords)

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with grid {self.grid}, block {self.block}>"


class Kernel(KernelFunction, Inspection):
    """A function that runs on every thread of a grid. Made by `weft.kernel`.

    ``k[grid, block](...)``, ``k[grid, block, stream, shared_bytes](...)`` launch it; ``k.forall(n)(...)`` chooses the grid
    for n threads.
    """

    def __init__(self, function: FunctionType, signatures: Sequence[Signature] = (), options: Options = Options(), limit: Any = None) -> None:
        if isinstance(function, (Kernel, DeviceFunction)):
            function = function.py_func
        if not isinstance(function, FunctionType):
            raise TypeError(f"a kernel is made of a Python function, not of {type(function).__name__}")
        self.py_func = function
        self.options = options
        self.overloads: dict[Any, Specialisation] = {}
        self._by_block: set[Any] = set()
        self._compiling = not signatures
        self._signatures = list(signatures)
        functools.update_wrapper(self, function)
        self.source = source_of(function)
        self._signature = _signature_of(self, function)
        self._plain = all(
            p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p.default is inspect.Parameter.empty
            for p in self._signature.parameters.values()
        )
        self._count = len(self._signature.parameters)
        for signature in signatures:
            self.compile(signature)

    def __repr__(self) -> str:
        return f"<weft kernel {self.__name__}>"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise LaunchError(
            f"{self.__name__} is a kernel: give it a grid and a block, {self.__name__}[blocks, threads](...), or "
            f"{self.__name__}.forall(n)(...)"
        )

    def __getitem__(self, configuration: Any) -> Launcher:
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise LaunchError(
                f"a kernel takes [grid, block], [grid, block, stream] or [grid, block, stream, shared_bytes] in its brackets, "
                f"not {configuration!r}"
            )
        return self.configure(*configuration)

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> Launcher:
        """The kernel with a grid, a block, a stream and bytes of dynamic shared memory."""
        shared = int(sharedmem)
        if not 0 <= shared <= MAX_SHARED:
            raise LaunchError(f"{shared} bytes of shared memory for a block: it has 0 to {MAX_SHARED}")
        if stream is None:
            raise LaunchError("the stream is 0 for the default one, or what cuda.stream() makes; it cannot be None")
        try:
            queue = as_queue(stream)
        except TypeError as error:
            raise LaunchError(str(error)) from None
        return Launcher(self, triple("grid", griddim), triple("block", blockdim), queue, shared)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Launcher:
        """The kernel with so many blocks that there is a thread for each of `ntasks`."""
        if int(ntasks) < 0:
            raise LaunchError(f"forall of {ntasks} tasks")
        threads = int(tpb) or 256
        return self.configure(max(-(-int(ntasks) // threads), 1), threads, stream, sharedmem)

    # -- compiling ----------------------------------------------------------------------------

    def compile(self, signature: Any) -> Specialisation:
        """Compile ahead for a signature, such as ``"void(float32[:], int32)"``."""
        (found,) = as_signatures(signature)
        if found.result not in (None,) and type(found.result).__name__ != "NoneType":
            raise KernelTypeError(f"a kernel returns nothing, but the signature says {found.result}")
        if len(found.arguments) != self._count:
            raise KernelTypeError(f"{self.__name__} takes {self._count} arguments, but the signature has {len(found.arguments)}")
        descriptors = tuple(args.from_type(kind) for kind in found.arguments)
        device = default_device()
        return self.specialisation(descriptors, device.target, np.dtype(np.int32), None)

    def specialisation(self, descriptors: tuple[Any, ...], target: Any, index: np.dtype, block: Triple | None) -> Specialisation:
        """The kernel for arguments of these types."""
        key = (descriptors, index, target.kind, setting("checked"))
        if key in self._by_block:
            key = (*key, block)  # type: ignore[assignment]
        found = self.overloads.get(key)
        if found is None:
            try:
                found = self._specialise(descriptors, target, index, block if key in self._by_block or len(key) == 5 else None)
            except NeedsLaunch as needed:
                if block is None:
                    raise KernelTypeError(
                        "this shape depends on the launch: it is known once the kernel is launched with a block", needed.args[0]
                    ) from None
                self._by_block.add(key)
                return self.specialisation(descriptors, target, index, block)
            self.overloads[key] = found
        return found

    def _specialise(self, descriptors: tuple[Any, ...], target: Any, index: np.dtype, block: Triple | None) -> Specialisation:
        return specialise(
            self.py_func, descriptors, target, index, self.options, checked=setting("checked"), block=block
        )

    # -- launching ----------------------------------------------------------------------------

    def launch(self, launcher: Launcher, given: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Launch with these arguments."""
        if not (self._plain and not keywords and len(given) == self._count):
            given = self._bound(given, keywords)
        if setting("kernel_python"):
            _run_in_python(self, launcher, given)
            return
        Launch(self, launcher, given).run()

    def _bound(self, given: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*given, **keywords)
        except TypeError as error:
            raise KernelTypeError(f"{self.__name__}{self._signature}: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())


def _signature_of(kernel: Kernel, function: FunctionType) -> inspect.Signature:
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise KernelTypeError(
                f"a kernel has a fixed number of parameters: {parameter} cannot be one; pass a tuple",
                kernel.source.place(kernel.source.tree),
            )
    return signature


class Launch:
    """One launch: its arguments as items, and what happens to them afterwards."""

    def __init__(self, kernel: Kernel, launcher: Launcher, given: tuple[Any, ...]) -> None:
        self.kernel = kernel
        self.launcher = launcher
        self.device = _device_of(given)
        self.given = [_prepared(value, self.device) for value in given]
        self.spans: list[int] = []
        self.extents: list[int] = []
        self.after: list[Any] = []

    def run(self) -> None:
        """Specialise, pass the arguments, launch, and look for what the kernel reports."""
        launcher = self.launcher
        descriptors = tuple(self._describe(value) for value in self.given)
        threads = [g * b for g, b in zip(launcher.grid, launcher.block, strict=True)]
        index = choose_index_dtype(self.spans, [*self.extents, *threads, launcher.shared_bytes])
        found = self.kernel.specialisation(descriptors, self.device.target, index, launcher.block)
        items: list[int] = []
        for k, (value, descriptor) in enumerate(zip(self.given, descriptors, strict=True)):
            self._items(value, descriptor, k in found.written or -1 in found.written and False, items)
        record = self._hidden(found, items)
        function = found.functions.get(self.device)
        if function is None:
            function = found.functions[self.device] = obtain_function(self.device, found.kernel)
        self.device.launch_grid(
            function, launcher.grid, launcher.block, launcher.shared_bytes, array("q", items), launcher.stream
        )
        for action in self.after:
            action()
        if record is not None:
            _report(self.device, record, found)

    def _describe(self, value: Any) -> Any:
        if isinstance(value, LazyArray):
            storage = value._storage
            self.spans.append(prod(storage.shape) * storage.dtype.itemsize)
            self.extents.extend(value.shape)
            return args.describe_lazy(value)
        if isinstance(value, np.ndarray):
            self.spans.append(sum((n - 1) * abs(s) for n, s in zip(value.shape, value.strides, strict=True)) + value.itemsize if value.size else 0)
            self.extents.extend(value.shape)
            packed = args.is_packed(value.shape, value.strides, value.itemsize)
            return args.describe_array(value.dtype, value.ndim, packed, value.flags.writeable)
        if hasattr(value, "kernel_type"):
            self.spans.append(prod(value.storage.shape))
            self.extents.extend(value.shape)
            if not value.shape and value.dtype.names is not None:
                return ("record", value.dtype)
            return args.describe_array(value.dtype, value.ndim, args.is_packed(value.shape, value.strides, value.dtype.itemsize))
        parts = args.parts_of(value)
        if parts is not None:
            maker, names, items = parts
            return ("tuple", maker, names, tuple(self._describe(_prepared(item, self.device)) for item in items))
        return args.describe(value)

    def _items(self, value: Any, descriptor: Any, written: bool, items: list[int]) -> None:
        if isinstance(value, LazyArray):
            self._array_items(value, descriptor, written, items)
        elif isinstance(value, np.ndarray):
            items.append(value.ctypes.data)
            items.extend(value.shape)
            self._strides(value.shape, value.strides, value.itemsize, descriptor, items)
        elif hasattr(value, "kernel_type"):
            buffer = exclusive(value.storage) if written else _buffer(value.storage)
            items.append(buffer.address + value.offset)
            if descriptor[0] == "array":
                items.extend(value.shape)
                self._strides(value.shape, value.strides, value.dtype.itemsize, descriptor, items)
        elif descriptor[0] == "tuple":
            for part, item in zip(descriptor[3], args.parts_of(value)[2], strict=True):  # type: ignore[index]
                self._items(_prepared(item, self.device), part, written, items)
        else:
            args.flatten_numbers(value, descriptor, items)

    def _strides(self, shape: Any, strides: Any, itemsize: int, descriptor: Any, items: list[int]) -> None:
        if descriptor[3]:
            return
        dtype = descriptor[1]
        if dtype.names is not None:
            items.extend(strides)
            return
        if any(s % itemsize for s, n in zip(strides, shape, strict=True) if n > 1):
            raise KernelTypeError(f"an array whose strides {strides} are no multiples of its itemsize {itemsize}: copy it first")
        items.extend(s // itemsize for s in strides)

    def _array_items(self, value: LazyArray, descriptor: Any, written: bool, items: list[int]) -> None:
        storage = value._storage
        if storage.device is not self.device:
            raise KernelTypeError(
                f"arrays on {self.device.name} and {storage.device.name} in one launch: move one with .to({self.device.name!r})"
            )
        buffer = exclusive(storage) if written else _buffer(storage)
        window = value._view
        if window is None:
            items.append(buffer.address)
            items.extend(storage.shape)
            return
        shape, strides, offset = window
        items.append(buffer.address + offset * storage.dtype.itemsize)
        items.extend(shape)
        if not descriptor[3]:
            items.extend(strides)

    def _hidden(self, found: Specialisation, items: list[int]) -> Any:
        record = None
        for what in found.hidden:
            match what[0]:
                case "errors":
                    record = self.device.upload(np.zeros(16, np.int64))
                    items.append(record.address)
                case "array":
                    items.append(exclusive(what[1]._storage).address)
                case "dynamic_bytes":
                    items.append(self.launcher.shared_bytes)
        return record


def _buffer(storage: Any) -> Any:
    if storage.buffer is None:
        evaluate([storage])
    return storage.buffer


def _device_of(given: tuple[Any, ...]) -> Device:
    for value in given:
        if isinstance(value, LazyArray):
            return value._storage.device
        if hasattr(value, "kernel_type"):
            return value.device  # type: ignore[no-any-return]
    return default_device()


def _prepared(value: Any, device: Device) -> Any:
    """An argument ready for the device: host arrays copied there unless it is the CPU."""
    if isinstance(value, (LazyArray, int, float)) or hasattr(value, "kernel_type"):
        return value
    if isinstance(value, ArgHint):
        value = value.value
    view = getattr(value, "device_view", None)
    if view is not None:
        return view
    if isinstance(value, np.void):
        return np.asarray(value).reshape(())
    if not isinstance(value, np.ndarray) and not isinstance(value, (np.generic, tuple, list)):
        value = _foreign(value)
    return value


def _foreign(value: Any) -> Any:
    """An array of another library, by its protocol."""
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] == 1:
        return np.from_dlpack(value)
    return value


def _report(device: Device, record: Any, found: Specialisation) -> None:
    """Raise what a thread reported."""
    words = np.array(device.download(record, np.dtype(np.int64), (16,)))
    if not words[0]:
        return
    error, message, kinds, place = found.sites[int(words[1])]
    values = [
        words[8 + k : 9 + k].view(np.float64)[0].item() if kind.startswith("float") else int(words[8 + k])
        for k, kind in enumerate(kinds[:8])
    ]
    text = message.format(*values) if "{" in message else message
    where = f"in block {tuple(int(w) for w in words[2:5])}, thread {tuple(int(w) for w in words[5:8])}"
    text = f"{text} {where}" if text else where
    shown = f"{text}\n{place.show()}" if place is not None else text
    if isinstance(error, BaseException):
        error.add_note(shown)
        raise error
    raise error(shown)


def _run_in_python(kernel: Kernel, launcher: Launcher, given: tuple[Any, ...]) -> None:
    """Every thread as plain Python, on host copies of what lies on a device."""
    hosts: list[Any] = []
    back: list[tuple[Any, Any]] = []
    for value in given:
        value = value.value if isinstance(value, ArgHint) else value
        if isinstance(value, LazyArray) or hasattr(value, "kernel_type"):
            host = np.array(value.copy_to_host())  # type: ignore[union-attr]
            back.append((value, host))
            value = host
        hosts.append(value)
    run_python(kernel.py_func, launcher.grid, launcher.block, launcher.shared_bytes, hosts)
    for value, host in back:
        value.copy_to_device(host)


def kernel(function: Any = None, *signatures: Any, **options: Any) -> Any:
    """Make a Python function a kernel: ``@weft.kernel``.

    Parameters
    ----------
    function : function, or signature(s)
        The function; or a signature (text or type object) or a list of them, to compile ahead.
    debug : bool
        Check every index; an index out of bounds raises IndexError with block and thread.
    fastmath : bool
        Fused multiply-add, approximate division and square root.
    max_registers : int
        Registers a thread may have at most.
    launch_bounds : int or tuple of int
        Threads a block at most, blocks a multiprocessor at least.
    lineinfo : bool
        Line numbers in the GPU's code, for profilers.

    Returns
    -------
    Kernel, or a decorator that makes one
    """
    if isinstance(function, FunctionType):
        return Kernel(function, options=make_options(options))
    found = () if function is None else as_signatures(function if not signatures else [function, *signatures])
    return lambda inner: Kernel(inner, found, make_options(options))


_KNOWN = ("debug", "fastmath", "lineinfo", "max_registers", "launch_bounds")
# Numba's options that say nothing here: everything is inlined, optimised, cached and linked as it is.
_IGNORED = ("opt", "inline", "forceinline", "link", "cache", "lto", "shared_memory_carveout", "extensions", "fastmath", "boundscheck", "nopython")


def make_options(given: dict[str, Any]) -> Options:
    """The options of a decorator. Raises KernelTypeError for those that are unknown."""
    unknown = [name for name in given if name not in _KNOWN and name not in _IGNORED]
    if unknown:
        raise KernelTypeError(f"kernels have no option {unknown[0]!r}; they have {', '.join(_KNOWN)}")
    bounds = given.get("launch_bounds") or ()
    bounds = tuple(bounds) if isinstance(bounds, (tuple, list)) else (int(bounds),)
    return Options(
        debug=bool(given.get("debug") or given.get("boundscheck")),
        fastmath=bool(given.get("fastmath")),
        lineinfo=bool(given.get("lineinfo")),
        max_registers=int(given.get("max_registers") or 0),
        launch_bounds=bounds,
    )


_ = (warnings, PerformanceWarning, whole)

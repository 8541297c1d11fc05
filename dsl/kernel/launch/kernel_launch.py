"""Kernel launches, including host copies, error reports and child kernels.

After a kernel has ended, the host executes the launches that the kernel's threads have appended to the launch queue.
These launches are executed in the order of their records, in the parent's stream.

Invariant: an array that the kernel writes is unshared, so earlier expressions see the old values. A host array
without a hint is copied to a GPU, and copied back if the kernel writes to it. On the CPU, it is used in place. A child
sees all memory that its parent wrote, and the parent's launch returns when its children and their children have been
started.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.codegen import choose_index_dtype
from weft.dsl import kernel as face  # for names that are loaded on first use
from weft.dsl.arrays.array import Array as LazyArray
from weft.dsl.arrays.array import is_writable, whole, wrap
from weft.dsl.cuda.array_creation import as_cuda_array, device_array_like, is_cuda_array, to_device
from weft.dsl.kernel.language.kernel_errors import KernelTypeError, LaunchError
from weft.dsl.kernel.language.names import running
from weft.dsl.kernel.language.types import is_packed
from weft.dsl.kernel.language.values import in_bytes
from weft.dsl.kernel.launch import arguments as args
from weft.dsl.kernel.launch.hints import ArgHint, In
from weft.dsl.kernel.launch.prepared_launch import LIMIT, PreparedLaunch
from weft.dsl.kernel.library.child_launches import HEAD_WORDS, RECORD_WORDS, RECORDS
from weft.fusion import exclusive, realise
from weft.runtime import (
    Buffer,
    Device,
    LaunchNote,
    Listening,
    PerformanceWarning,
    default_device,
    launch_heard,
    show_file,
    warn_user,
)
from weft.runtime import device as use_device

if TYPE_CHECKING:
    from weft.dsl.kernel.language.specialize import Specialization
    from weft.dsl.kernel.launch.dispatcher import ConfiguredKernel, KernelDispatcher
    from weft.fusion import Storage


class ReportNote(str):
    """A note that an error report adds to an exception. It replaces the note of an earlier report."""

    __slots__ = ()


class _Parts(NamedTuple):
    """A prepared tuple, dataclass or vector argument: its class, field names and items."""

    maker: Any
    names: tuple[str, ...]
    items: tuple[Any, ...]


class DispatchedLaunch:
    """One launch of a kernel, with its device and its converted arguments."""

    sanitized = False  # whether to launch the kernel instrumented for the sanitizer

    def __init__(self, kernel: KernelDispatcher, launcher: ConfiguredKernel, given: tuple[Any, ...]) -> None:
        self.kernel = kernel
        self.launcher = launcher
        self.device = self.choose_device(given)
        self.spans: list[int] = []
        self.extents: list[int] = []
        self.owned: dict[int, Buffer] = {}  # the memory of written arrays, by the id of the storage
        self.copies: list[tuple[int, Callable[[], Any]]] = []  # number of an argument, function that copies it back
        self.number = 0
        self.given = []
        for self.number, value in enumerate(given):
            self.given.append(self._prepare(value))

    def run(self, signature: Any = None) -> None:
        """Compile the kernel if necessary, launch it, and copy written host arrays back.

        Then raise the error that the kernel has reported, or execute the launches that its threads have recorded. With
        a `signature`, the launcher caches the launch for later calls with the same signature, unless the kernel has
        hidden arguments.
        """
        launcher = self.launcher
        descriptors = self.describe()
        found = self.kernel.specialization(
            descriptors, self.device.target, self.choose_index(), launcher.block, self.sanitized
        )
        items: list[int] = []
        for k in found.written:
            for own, wanted in zip(_flat(descriptors[k : k + 1]), _flat(found.descriptors[k : k + 1]), strict=True):
                if own[0] == wanted[0] == "array" and wanted[4] and not own[4]:
                    raise KernelTypeError(
                        f"{self.kernel.__name__} writes to argument {k}, a read-only array: pass a copy"
                    )
        written = [v for k in found.written for v in _leaves(self.given[k]) if isinstance(v, LazyArray)]
        # Prepare written memory first, so that an array that is passed twice has a single address.
        for each in written:
            self.memory(each._storage, True)
        for k, (value, descriptor) in enumerate(zip(self.given, found.descriptors, strict=True)):
            self._items(value, descriptor, k in found.written, items)
        record, queue = self._hidden(found, items)
        function = found.function_on(self.device)
        self.start(found, function, items)
        if signature is not None and not found.hidden:
            if len(launcher.prepared) >= LIMIT:
                launcher.prepared.clear()
            launcher.prepared[signature] = PreparedLaunch(launcher, found, function, tuple(self.given), items)
        for number, copy_back in self.copies:
            if number in found.written:
                copy_back()
        for each in written:
            each._after_write()
        self._finish(found, record, queue)

    def run_words(self, descriptors: tuple[Any, ...], items: list[int]) -> None:
        """Launch the kernel with arguments that are already encoded as 64-bit words."""
        self.spans, self.extents = _spans_of(descriptors, items)
        target, block = self.device.target, self.launcher.block
        found = self.kernel.specialization(descriptors, target, self.choose_index(), block, self.sanitized)
        record, queue = self._hidden(found, items)
        self.start(found, found.function_on(self.device), items)
        self._finish(found, record, queue)

    def _finish(self, found: Specialization, record: Any, queue: Any) -> None:
        """Raise the error that the kernel has reported, or execute the launches in the launch queue."""
        if record is not None:
            _report(self.device, record, found)
        if queue is not None:
            sites = next(what[1] for what in found.hidden if what[0] == "launches")
            _launch_children(self, queue, sites)

    def choose_device(self, given: tuple[Any, ...]) -> Device:
        """Return the device of the first device array among the arguments, or the default device."""
        for value in _leaves(given):
            if isinstance(value, LazyArray):
                return value._storage.device
            if hasattr(value, "kernel_type"):
                return value.device  # type: ignore[no-any-return]
        return default_device()

    def choose_index(self) -> np.dtype:
        """Return the dtype of the kernel's indices: int32 if they are small enough, otherwise int64."""
        launcher = self.launcher
        threads = [g * b for g, b in zip(launcher.grid, launcher.block, strict=True)]
        return choose_index_dtype(self.spans, [*self.extents, *threads, launcher.shared_bytes])

    def memory(self, storage: Storage, written: bool) -> Buffer:
        """Return the buffer of an array argument. If `written` is true, the kernel may write to this buffer directly."""
        if (owned := self.owned.get(id(storage))) is not None:
            return owned
        buffer = exclusive(storage) if written else realise(storage)
        if written:
            self.owned[id(storage)] = buffer
        if self.device.streaming:
            self.device.claim(buffer, self.launcher.stream, written)
        return buffer

    def start(self, found: Specialization, function: Any, items: list[int]) -> None:
        """Start the kernel on the device."""
        launcher = self.launcher
        start = partial(
            self.device.launch_grid,
            function,
            launcher.grid,
            launcher.block,
            launcher.shared_bytes,
            array("q", items),
            launcher.stream,
        )
        if Listening.listeners:
            code = self.kernel.py_func.__code__
            line = code.co_filename, code.co_firstlineno
            location = f"{show_file(line[0])}:{line[1]}"
            note = LaunchNote(self.kernel.__name__, nbytes=sum(self.spans), location=location, sources=((*line, 1.0),))
            # Listeners that record events record them in the kernel's stream.
            with self.device.working_in(launcher.stream) if launcher.stream is not None else nullcontext():
                launch_heard(self.device, note, start)
        else:
            start()

    def describe(self) -> tuple[Any, ...]:
        """Return the type descriptors of all arguments, which select the specialization."""
        return tuple(self._describe(value) for value in self.given)

    def _prepare(self, value: Any) -> Any:
        """Convert an argument to a value for the device, copying host arrays if necessary."""
        if isinstance(value, (LazyArray, int, float)) or hasattr(value, "kernel_type"):
            return value
        hint = value if isinstance(value, ArgHint) else None
        if hint is not None:
            value = hint.value
        view = getattr(value, "device_view", None)
        if view is not None:
            return view
        if isinstance(value, np.void):
            value = np.asarray(value).reshape(())
        if (parts := args.parts_of(value)) is not None:
            maker, names, items = parts
            return _Parts(maker, names, tuple([self._prepare(item) for item in items]))
        if not isinstance(value, (np.ndarray, np.generic)):
            value = _foreign(value)
        return self._copied(value, hint) if isinstance(value, np.ndarray) else value

    def _copied(self, value: np.ndarray, hint: ArgHint | None) -> Any:
        """Return a device array for a host array or, on the CPU, the host array itself.

        On the CPU, return a copy of an array that has the hint `In`.
        """
        args.describe_array(value.dtype, value.ndim, True)  # raises an error for unsupported dtypes
        if self.device.name == "cpu":
            # If the kernel writes to an `In` argument, it writes to a copy.
            return np.array(value) if isinstance(hint, In) else value
        if hint is None:
            warn_user(
                f"a NumPy array is passed to {self.kernel.__name__}: it is copied to {self.device.name} and back; make it a "
                "device array with cuda.to_device, or say which way it goes with cuda.In, cuda.Out or cuda.InOut",
                PerformanceWarning,
            )
        there = hint is None or hint.copies_in
        with use_device(self.device):  # the device of the other arguments may not be the default
            copy = to_device(value) if there else device_array_like(value)
        if hint is None or hint.copies_out:
            self.copies.append((self.number, partial(copy.copy_to_host, value)))
        return copy

    def _describe(self, value: Any) -> Any:
        if isinstance(value, LazyArray):
            storage = value._storage
            self.spans.append(prod(storage.shape) * storage.dtype.itemsize)
            self.extents.extend(value.shape)
            return args.describe_lazy(value)
        if isinstance(value, np.ndarray) or hasattr(value, "kernel_type"):
            reach = sum((n - 1) * abs(s) for n, s in zip(value.shape, value.strides, strict=True))
            self.spans.append(reach + value.itemsize if value.size else 0)
            self.extents.extend(value.shape)
            if not value.shape and value.dtype.names is not None:
                return ("record", value.dtype)
            packed = is_packed(value.shape, value.strides, value.itemsize)
            writable = value.flags.writeable if isinstance(value, np.ndarray) else True
            return args.describe_array(value.dtype, value.ndim, packed, writable)
        if type(value) is _Parts:
            return ("tuple", value.maker, value.names, tuple(map(self._describe, value.items)))
        return args.describe(value)

    def _items(self, value: Any, descriptor: Any, written: bool, items: list[int]) -> None:
        if isinstance(value, LazyArray):
            self._array_items(value, descriptor, written, items)
        elif isinstance(value, np.ndarray) or hasattr(value, "kernel_type"):
            if isinstance(value, np.ndarray):
                items.append(value.ctypes.data)
            else:
                items.append(self.memory(value.storage, written).address + value.offset)
            if descriptor[0] == "array":
                items.extend(value.shape)
                self._strides(value, descriptor, items)
        elif type(value) is _Parts:
            for part, item in zip(descriptor[3], value.items, strict=True):
                self._items(item, part, written, items)
        else:
            args.flatten_numbers(value, descriptor, items)

    def _strides(self, value: Any, descriptor: Any, items: list[int]) -> None:
        strides, itemsize = value.strides, value.itemsize
        if descriptor[3]:
            return
        if in_bytes(descriptor[1]):
            items.extend(strides)
            return
        if any(s % itemsize for s, n in zip(strides, value.shape, strict=True) if n > 1):
            raise KernelTypeError(
                f"an array whose strides {strides} are no multiples of its itemsize {itemsize}: copy it first"
            )
        items.extend(s // itemsize for s in strides)

    def _array_items(self, value: LazyArray, descriptor: Any, written: bool, items: list[int]) -> None:
        storage = value._storage
        if storage.device is not self.device:
            raise KernelTypeError(
                f"arrays on {self.device.name} and {storage.device.name} in one launch: move one with .to({self.device.name!r})"
            )
        shape, strides, offset = value._view or whole(storage)
        items.append(self.memory(storage, written).address + offset * storage.dtype.itemsize)
        if descriptor[0] == "array":
            items.extend(shape)
            if not descriptor[3]:  # the descriptor does not imply the strides
                items.extend(strides)

    def _hidden(self, found: Specialization, items: list[int]) -> tuple[Any, Any]:
        """Append to `items` the machine words that hold the kernel's hidden arguments, such as the launch queue.

        Return the buffers of the error report and of the launch queue. A buffer is None if the kernel has no such
        argument.
        """
        record = queue = None
        for what in found.hidden:
            match what[0]:
                case "errors":
                    record = self.device.upload(np.zeros(16, np.int64))
                    items.append(record.address)
                case "array":
                    items.append(self.memory(what[1]._storage, True).address)
                case "launches":
                    queue = self.device.allocate(QUEUE_BYTES)
                    self.device.write(queue.address, np.zeros(1, np.int64))  # no recorded launches
                    items.append(queue.address)
                case "dynamic_bytes":
                    items.append(self.launcher.shared_bytes)
        return record, queue


def _leaves(value: Any) -> Iterator[Any]:
    """Yield an argument, or the items of a tuple, dataclass or vector, recursively."""
    parts = value if type(value) is _Parts else args.parts_of(value)
    if parts is None:
        yield value
    else:
        for item in parts[2]:
            yield from _leaves(item)


def _foreign(value: Any) -> Any:
    """Return another library's array as a weft or NumPy array, and other values unchanged."""
    if is_cuda_array(value):
        return as_cuda_array(value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__") and value.__dlpack_device__()[0] == 1:
        return np.from_dlpack(value)
    return value


def _report(device: Device, record: Any, found: Specialization) -> None:
    """Raise the error that a thread of the kernel has reported, if there is one."""
    words = np.array(device.download(record, np.dtype(np.int64), (16,)))
    if not words[0]:
        return
    error, message, kinds, location = found.sites[int(words[1])]
    text = message.format(*_shown_values(words[8:], kinds))
    where = f"in block {tuple(int(w) for w in words[2:5])}, thread {tuple(int(w) for w in words[5:8])}"
    text = f"{text} {where}" if text else where
    shown = f"{text}\n{location.show()}" if location is not None else text
    if isinstance(error, BaseException):
        notes = [note for note in getattr(error, "__notes__", ()) if not isinstance(note, ReportNote)]
        error.__notes__ = [*notes, ReportNote(shown)]
        raise error.with_traceback(None)
    try:
        made = error(shown)
    except TypeError:  # a class whose constructor has other parameters
        made = error.__new__(error, shown)
    raise made


def _shown_values(words: np.ndarray, kinds: tuple[str, ...]) -> Iterator[Any]:
    """Yield the numbers in an error record, given their dtypes."""
    floats = words.view(np.float64)
    at = 0
    for kind in kinds:
        if "complex" in kind:
            yield complex(floats[at], floats[at + 1])
            at += 1
        else:
            yield floats[at].item() if "float" in kind else words[at].astype(kind).item()
        at += 1


# -- launches by kernels -----------------------------------------------------------------------

QUEUE_BYTES = 8 * (1 + RECORDS * RECORD_WORDS)  # of a launch queue: the number of recorded launches, and their records


def _launch_children(parent: DispatchedLaunch, queue: Buffer, sites: list[Any]) -> None:
    """Execute the kernel launches that the threads of `parent` have recorded in `queue`.

    Raises LaunchError for an invalid grid or block size, or for too many launches.
    """
    device = parent.device
    count = int(device.download(queue, np.dtype(np.int64), (1,))[0])
    if count > RECORDS:
        raise LaunchError(f"{parent.kernel.__name__} launches {count} kernels; one kernel launches at most {RECORDS}")
    words = device.download(queue, np.dtype(np.int64), (1 + count * RECORD_WORDS,)) if count else np.zeros(1, np.int64)
    for record in words[1:].reshape(count, RECORD_WORDS).tolist():
        kernel, descriptors = sites[record[0]]
        grid, block, shared = tuple(record[1:4]), tuple(record[4:7]), record[7]
        launcher = kernel.configure(grid, block, 0, shared)
        launcher.stream = parent.launcher.stream
        child = type(parent)(kernel, launcher, ())
        child.device = device
        size = sum(map(args.words_of, descriptors))
        child.run_words(descriptors, record[HEAD_WORDS : HEAD_WORDS + size])


def _spans_of(descriptors: tuple[args.Descriptor, ...], words: list[int]) -> tuple[list[int], list[int]]:
    """Return the memory span in bytes of each array argument, and the lengths of all axes."""
    spans: list[int] = []
    extents: list[int] = []
    at = 0
    for descriptor in _flat(descriptors):
        if descriptor[0] == "array":
            _, dtype, ndim, packed, _ = descriptor
            shape = words[at + 1 : at + 1 + ndim]
            steps = words[at + 1 + ndim : at + 1 + 2 * ndim]
            unit = 1 if in_bytes(dtype) else dtype.itemsize
            far = sum((n - 1) * abs(s) * unit for n, s in zip(shape, steps, strict=True)) if not packed else 0
            spans.append(prod(shape) * dtype.itemsize if packed else far + dtype.itemsize)
            extents.extend(shape)
        at += args.words_of(descriptor)
    return spans, extents


def _flat(descriptors: tuple[args.Descriptor, ...]) -> list[args.Descriptor]:
    return [part for d in descriptors for part in (_flat(d[3]) if d[0] == "tuple" else [d])]


# -- host copies ---------------------------------------------------------------------------------


class HostCopies:
    """Host copies of device arrays. Python mode and the sanitizer pass these copies to kernels.

    Arrays that share memory also share the copy.
    """

    def __init__(self) -> None:
        self._copies: dict[Storage, tuple[LazyArray, np.ndarray, bytes]] = {}
        self._given: list[tuple[Storage, LazyArray]] = []

    def convert(self, value: Any) -> Any:
        """Convert a kernel argument: replace device arrays by host copies, and hints such as ``cuda.In(x)`` by the array ``x``."""
        return args.map_leaves(self._convert_leaf, value)

    def _convert_leaf(self, value: Any) -> Any:
        if isinstance(value, ArgHint):
            # If the kernel writes to an `In` argument, it writes to a copy.
            copies = isinstance(value, In) and isinstance(value.value, np.ndarray)
            value = np.array(value.value) if copies else value.value
        if isinstance(value, LazyArray):
            storage = value._storage
            shape, strides, offset = value._view or whole(storage)
            size = storage.dtype.itemsize
            seen = self._view(storage, storage.dtype, shape, [s * size for s in strides], offset * size)
            seen.flags.writeable = is_writable(value)
            self._given.append((storage, value))
            return seen
        if hasattr(value, "kernel_type"):
            return self._view(value.storage, value.dtype, value.shape, value.strides, value.offset)
        return value

    def _view(self, storage: Storage, dtype: np.dtype, shape: Any, strides: Any, offset: int) -> np.ndarray:
        if storage not in self._copies:
            array = wrap(storage)
            host = np.array(array.copy_to_host())
            self._copies[storage] = array, host, host.tobytes()
        _, host, _ = self._copies[storage]
        return np.ndarray(shape, dtype, host.reshape(-1).view(np.uint8), offset, strides)  # type: ignore[arg-type]

    def write_back(self) -> None:
        """Update the device arrays from those host copies that have changed."""
        for storage, (device_array, host, before) in self._copies.items():
            if host.tobytes() != before:
                device_array.copy_to_device(host)
                for own, given in self._given:
                    if own is storage:
                        given._after_write()


def run_in_python(function: Any, launcher: ConfiguredKernel, given: tuple[Any, ...]) -> None:
    """Run all threads of a kernel in Python mode.

    Device arrays are copied to the host first. Afterwards, changed arrays are copied back. A launch by a simulated
    thread is postponed to the end of that thread's grid.
    """
    if running.thread is not None:  # launched by a simulated thread
        running.thread.launch.children.append(partial(run_in_python, function, launcher, given))
        return
    copies = HostCopies()
    hosts = [copies.convert(value) for value in given]
    face.run_python(function, launcher.grid, launcher.block, launcher.shared_bytes, hosts)
    copies.write_back()

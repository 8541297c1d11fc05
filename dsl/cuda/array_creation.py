"""Numba's functions that create arrays on a device, such as `to_device` and `device_array`.

In: host arrays, shapes, or memory of other libraries. Out: an `Array`, or a `MemoryArray` for records, dates and text.
Invariant: new memory is allocated on the current device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dsl.arrays.array import Array, convert, expr_of, whole, wrap, write
from weft.dsl.arrays.foreign_memory import (
    byte_strides,
    extent_of,
    storage_at_address,
    storage_of_interface,
    storage_over,
)
from weft.dsl.arrays.validation import as_dtype, as_shape
from weft.dsl.cuda.memory_array import BYTE, MemoryArray, check_fit, lacks_arithmetic
from weft.dsl.cuda.streams import as_queue
from weft.dsl.immediate.callers import in_program
from weft.fusion import contiguous_strides, exclusive, realise
from weft.runtime import HostMemory, default_device


def to_device(obj: object, stream: object = 0, copy: bool = True, to: Any = None) -> Any:
    """Copy `obj` to the current device.

    Parameters
    ----------
    obj : array_like
        A host array, scalar or record. A weft array on the current device, and a `MemoryArray`, are returned unchanged.
        In programs under ``weft run``, a weft array is copied, because the program's NumPy arrays are weft arrays and
        must not share memory with the result. Another object with ``__cuda_array_interface__`` is not copied: the
        result shares its memory.
    stream
        Stream of the copy.
    copy : bool
        If false, a host array is not copied: the result is uninitialized, or is `to` unchanged.
    to : Array or MemoryArray, optional
        The destination, which is returned.

    Examples
    --------
    >>> x = cuda.to_device(np.arange(3))
    >>> x.copy_to_host()
    array([0, 1, 2])
    """
    if to is not None:
        if copy:
            to.copy_to_device(obj, stream)
        return to
    if isinstance(obj, Array):
        made = obj.to(default_device())
        return made.copy() if made is obj and in_program(2) else made
    if isinstance(obj, MemoryArray):
        return obj
    if is_cuda_array(obj):
        return as_cuda_array(obj)
    values = np.asarray(obj)
    if copy and not stream and values.flags.c_contiguous and not lacks_arithmetic(values.dtype):
        return convert(values)
    made = device_array_like(values)
    if copy:
        made.copy_to_device(values, stream)
    return made


def device_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: object = 0) -> Any:
    """Return an uninitialized array on the current device.

    Parameters
    ----------
    shape : int or tuple of int
    dtype
        For records, dates and text, the result is a `MemoryArray`.
    strides : tuple of int, optional
        Strides in bytes.
    order : {"C", "F"}
        Order of the axes in memory, if `strides` is not given.
    stream
        Ignored, because an array can be used in any stream.

    Examples
    --------
    >>> cuda.device_array((2, 3), np.float32).shape
    (2, 3)
    """
    lengths, kind = as_shape(shape), np.dtype(dtype)
    steps = byte_strides(lengths, kind.itemsize, strides, order)
    device = default_device()
    if lacks_arithmetic(kind):
        return MemoryArray.make(device, kind, lengths, steps)
    kind = as_dtype(kind)
    nbytes = extent_of(lengths, steps, kind.itemsize)
    buffer = device.allocate(nbytes)
    buffer.unwritten = True
    return wrap(*storage_over(device, buffer, kind, lengths, steps))


class _Constructor(type):
    """Metaclass of `DeviceNDArray` and `DeviceRecord`, which makes `isinstance` accept weft's arrays and records."""

    makes_records: bool

    def __instancecheck__(cls, value: object) -> bool:
        if not isinstance(value, MemoryArray):
            return isinstance(value, Array) and not cls.makes_records
        return (not value.shape and value.dtype.names is not None) == cls.makes_records


class DeviceNDArray(metaclass=_Constructor):
    """Numba's class of device arrays.

    All weft arrays are instances, and so are all `MemoryArray` objects except single records. A call of the class
    creates an uninitialized array.
    """

    makes_records = False

    def __new__(cls, shape: Any, strides: Any, dtype: Any, stream: object = 0) -> Any:
        return device_array(shape, dtype, strides, stream=stream)


class DeviceRecord(metaclass=_Constructor):
    """Numba's class of single records on a device. A call of the class creates an uninitialized record."""

    makes_records = True

    def __new__(cls, dtype: Any, stream: object = 0) -> Any:
        return MemoryArray.make(default_device(), np.dtype(dtype), (), ())


def device_array_like(ary: Any, stream: object = 0) -> Any:
    """Return an uninitialized array with the shape, dtype and axis order of `ary`.

    The array is on the current device.

    Examples
    --------
    >>> cuda.device_array_like(np.ones((2, 3), np.float32)).dtype
    dtype('float32')
    """
    return device_array(ary.shape, ary.dtype, strides_like(ary), stream=stream)


def strides_like(ary: Any) -> tuple[int, ...]:
    """Return the byte strides of a contiguous array with the same axis order as `ary`."""
    axes = sorted(range(len(ary.shape)), key=lambda axis: (-abs(ary.strides[axis]), axis))
    steps, step = [0] * len(axes), ary.dtype.itemsize
    for axis in reversed(axes):
        steps[axis] = step
        step *= max(ary.shape[axis], 1)
    return tuple(steps)


# -- memory of other libraries -----------------------------------------------------------------------


def over_memory(memory: HostMemory, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Return an array over memory that both the device and the host can access.

    For records, dates and text, the result is a `MemoryArray`.
    """
    if lacks_arithmetic(dtype):
        span = (extent_of(shape, strides, dtype.itemsize),)
        storage, view = storage_at_address(default_device(), memory.address, BYTE, span, (1,), memory.owner)
        return MemoryArray(storage, dtype, shape, strides, (view or whole(storage))[2])
    return wrap(*storage_at_address(default_device(), memory.address, dtype, shape, strides, memory.owner))


def is_cuda_array(obj: object) -> bool:
    """Return whether `obj` is a device array of weft or has ``__cuda_array_interface__``.

    Examples
    --------
    >>> cuda.is_cuda_array(wf.ones(2)), cuda.is_cuda_array([1, 2])
    (True, False)
    """
    return isinstance(obj, (Array, MemoryArray)) or hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: object, sync: bool = True) -> Any:
    """Return a weft array that shares the memory of an object with ``__cuda_array_interface__``.

    Device arrays of weft are returned unchanged. If `sync` is true, wait for the stream that the interface names.

    Raises TypeError for other objects without the interface.

    Examples
    --------
    >>> cuda.as_cuda_array(wf.arange(3))
    array([0, 1, 2])
    """
    if isinstance(obj, (Array, MemoryArray)):
        return obj
    interface = getattr(obj, "__cuda_array_interface__", None)
    if interface is None:
        raise TypeError(f"{type(obj).__name__} has no __cuda_array_interface__: copy it by cuda.to_device")
    return from_cuda_array_interface(interface, obj, sync)


def from_cuda_array_interface(desc: dict[str, Any], owner: object = None, sync: bool = True) -> Array:
    """Return a weft array that uses the memory described by a CUDA array interface.

    The array keeps `owner` alive. If `sync` is true, wait for the stream that the interface names.

    Examples
    --------
    >>> x = np.arange(3)
    >>> cuda.from_cuda_array_interface(x.__array_interface__, owner=x)
    array([0, 1, 2])
    """
    return wrap(*storage_of_interface(desc, owner, sync))


# -- copies ---------------------------------------------------------------------------------------


def copy_to_host(self: Array, ary: np.ndarray | None = None, stream: object = 0) -> np.ndarray:
    """Copy the elements to a new NumPy array or to `ary`.

    The array is evaluated.

    Parameters
    ----------
    ary : numpy.ndarray, optional
        A destination with the dtype of the array. The shapes may differ in axes of length 1.
    stream
        If a stream is given, and the array and `ary` are C-contiguous, the copy may still be running when the method
        returns.

    Examples
    --------
    >>> cuda.to_device(np.arange(3)).copy_to_host()
    array([0, 1, 2])
    """
    if ary is not None:
        check_fit(self, ary)
        if not ary.flags.writeable:
            raise ValueError("the destination of a copy is read-only")
    queue = as_queue(stream)
    shape, strides, offset = self._view or whole(self._storage)
    if queue is not None and (ary is None or ary.flags.c_contiguous) and strides == contiguous_strides(shape):
        values = np.empty(shape, self.dtype) if ary is None else ary
        buffer = realise(self._storage)
        self._storage.device.claim(buffer, queue)
        self._storage.device.read(buffer.address + offset * self.itemsize, values, queue)
        return values
    values = self.numpy()
    if ary is None:
        return np.array(values, order="K")
    np.copyto(ary, values.reshape(ary.shape))
    return ary


def copy_to_device(self: Array, ary: Any, stream: object = 0) -> None:
    """Copy a host array or device array of the same dtype to this array's memory.

    The shapes may differ in axes of length 1.

    Examples
    --------
    >>> x = cuda.device_array(3, np.int64)
    >>> x.copy_to_device(np.arange(3))
    >>> x.copy_to_host()
    array([0, 1, 2])
    """
    source = ary if isinstance(ary, Array) else np.asarray(ary)
    check_fit(self, source)
    if not self.size:
        return
    source = source.reshape(self.shape)
    shape, strides, offset = self._view or whole(self._storage)
    if isinstance(source, np.ndarray):
        for values, steps, extents in ((source, strides, shape), (source.T, strides[::-1], shape[::-1])):
            if steps == contiguous_strides(extents):
                buffer = exclusive(self._storage)
                address = buffer.address + offset * self.itemsize
                queue = as_queue(stream)
                self._storage.device.claim(buffer, queue, written=True)
                self._storage.device.write(address, np.ascontiguousarray(values), queue)
                return
        source = convert(source)
    write(self, expr_of(source.to(self.device)))

"""NumPy arrays in pinned, mapped or managed memory, which a device can access directly.

In: shapes or NumPy arrays. Out: NumPy arrays (`SharedArray` objects if kernels can use the memory) and, from `mapped`,
device arrays. Invariant: a kernel uses the memory of a whole `SharedArray` without copies. Wait for the kernel before
reading the array on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.dsl.arrays.foreign_memory import byte_strides, extent_of
from weft.dsl.arrays.validation import as_shape
from weft.dsl.cuda.array_creation import over_memory, strides_like
from weft.dsl.cuda.memory_array import check_fit, storage_of
from weft.fusion import flush
from weft.runtime import HostKind, HostMemory, ReleasedBuffer, array_over, default_device


class SharedArray(np.ndarray):
    """A NumPy array in memory that both the host and the device access.

    Attributes
    ----------
    device_view : Array or None
        An `Array` or `MemoryArray` over the same memory, which kernels use. None for views and copies of a
        `SharedArray`.
    """

    device_view: Any = None

    def __array_finalize__(self, source: object) -> None:
        self.device_view = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface of the memory, with the address of the memory on the device."""
        if self.device_view is None:
            raise AttributeError("only the whole of an array that the device sees has a __cuda_array_interface__")
        return self.device_view.__cuda_array_interface__

    def copy_to_host(self, ary: np.ndarray | None = None, stream: object = 0) -> np.ndarray:
        """Copy the elements to a new NumPy array or to `ary`."""
        if ary is None:
            return np.array(self)
        check_fit(self, ary)
        np.copyto(ary, self.reshape(ary.shape))
        return ary

    def copy_to_device(self, ary: Any, stream: object = 0) -> None:
        """Copy the elements of an array to this array."""
        source = np.asarray(ary)
        check_fit(self, source)
        np.copyto(self, source.reshape(self.shape))


def _make(
    kind: HostKind, shape: Any, dtype: Any, strides: Any, order: str
) -> tuple[np.ndarray, HostMemory, tuple[int, ...]]:
    lengths, element = as_shape(shape), np.dtype(dtype)
    steps = byte_strides(lengths, element.itemsize, strides, order)
    memory = default_device().host_memory(extent_of(lengths, steps, element.itemsize), kind)
    return array_over(memory, memory.host, element, lengths, steps), memory, steps


def _shared(kind: HostKind, shape: Any, dtype: Any, strides: Any, order: str) -> SharedArray:
    values, memory, steps = _make(kind, shape, dtype, strides, order)
    made = values.view(SharedArray)
    made.device_view = over_memory(memory, values.dtype, values.shape, steps)
    return made


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> np.ndarray:
    """Return an uninitialized NumPy array in page-locked memory.

    Examples
    --------
    >>> x = cuda.pinned_array(3, np.float32)
    >>> x[:] = 1
    >>> x
    array([1., 1., 1.], dtype=float32)
    """
    return _make("pinned", shape, dtype, strides, order)[0]


def pinned_array_like(ary: Any) -> np.ndarray:
    """Return an uninitialized pinned array with the shape, dtype and axis order of `ary`.

    Examples
    --------
    >>> cuda.pinned_array_like(np.ones((2, 3))).shape
    (2, 3)
    """
    return pinned_array(ary.shape, ary.dtype, strides_like(ary))


def mapped_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: object = 0,
    portable: bool = False,
    wc: bool = False,
) -> SharedArray:
    """Return an uninitialized NumPy array in page-locked memory that kernels access directly.

    The memory is always portable and never write-combined, so `portable` and `wc` are ignored.

    Examples
    --------
    >>> x = cuda.mapped_array(3, np.float32)
    >>> x[:] = 1
    >>> x
    SharedArray([1., 1., 1.], dtype=float32)
    """
    return _shared("mapped", shape, dtype, strides, order)


def mapped_array_like(ary: Any, stream: object = 0, portable: bool = False, wc: bool = False) -> SharedArray:
    """Return an uninitialized mapped array with the shape, dtype and axis order of `ary`.

    Examples
    --------
    >>> cuda.mapped_array_like(np.ones((2, 3))).shape
    (2, 3)
    """
    return mapped_array(ary.shape, ary.dtype, strides_like(ary))


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: object = 0,
    attach_global: bool = True,
) -> SharedArray:
    """Return an uninitialized NumPy array in memory that migrates between host and device on access.

    Examples
    --------
    >>> x = cuda.managed_array(3, np.float32)
    >>> x[:] = 1
    >>> x
    SharedArray([1., 1., 1.], dtype=float32)
    """
    return _shared("managed", shape, dtype, strides, order)


@contextmanager
def pinned(*arylist: np.ndarray) -> Iterator[None]:
    """Within a ``with`` block, page-lock host arrays for direct copies to and from the device.

    Examples
    --------
    >>> x = np.arange(3)
    >>> with cuda.pinned(x):
    ...     y = cuda.to_device(x)
    >>> y.copy_to_host()
    array([0, 1, 2])
    """
    held = _pin(arylist)
    try:
        yield
    finally:
        _release(held)


@contextmanager
def mapped(*arylist: np.ndarray, stream: object = 0) -> Iterator[Any]:
    """Within a ``with`` block, map host arrays to device arrays over the same memory.

    The context manager yields one array or a list of arrays. On a GPU, any use of these arrays after the block raises
    ValueError.

    Examples
    --------
    >>> x = np.arange(3)
    >>> with cuda.mapped(x) as on_device:
    ...     print(on_device.copy_to_host())
    [0 1 2]
    """
    device = default_device()
    held = _pin(arylist)
    views = [over_memory(m, v.dtype, v.shape, v.strides) for m, v in zip(held, arylist, strict=True)]
    try:
        yield views[0] if len(views) == 1 else views
    finally:
        flush()  # (pending work may read the memory)
        device.synchronize()
        if _release(held):
            for storage, _ in map(storage_of, views):
                storage.buffer = ReleasedBuffer(storage.buffer) if storage.buffer is not None else None


def _pin(arrays: tuple[np.ndarray, ...]) -> list[HostMemory]:
    held: list[HostMemory] = []
    try:
        for values in arrays:
            if not isinstance(values, np.ndarray) or not (values.flags.c_contiguous or values.flags.f_contiguous):
                raise TypeError(
                    "only NumPy arrays without gaps can be pinned or mapped: make one by numpy.ascontiguousarray"
                )
            held.append(default_device().pin(values))
    except BaseException:
        _release(held)
        raise
    return held


def _release(held: list[HostMemory]) -> bool:
    """Unregister host memory from the device, and return whether any of the memory was registered."""
    owners = [memory.owner for memory in held if hasattr(memory.owner, "release")]
    for owner in owners:  # (arrays over the memory may still exist, and would keep it registered)
        owner.release()
    return bool(owners)
